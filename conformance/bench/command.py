"""`ortwin bench`: chooses cells and arms, measures, reports."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.progress import track

from ortwin.conformance.bench import cells, host, report, timing
from ortwin.conformance.bench.arms import AGAIN, CONTROL, Arm, Rig, control, plugin
from ortwin.fast.library import LibraryError, default_library, library_path
from ortwin.ref.errors import InputError, OrtwinError

EXACT_OPS: Final = (
    "Relu,LeakyRelu,ThresholdedRelu,HardSigmoid,HardSwish,Clip,Abs,Neg,Reciprocal,Sqrt,Floor,Ceil,Round,Sign,Softsign,"
    "Identity"
)
"""The standard grid's ops."""

STANDARD_SIZES: Final = "4Ki,64Ki,1Mi,4Mi"


def add_parser(commands: Any) -> None:
    """Adds the command to an argparse subparsers object; its function is run(arguments) -> exit code."""
    parser = commands.add_parser("bench", help="measure speed as ratios to ONNX Runtime's CPU provider")
    parser.add_argument("--op", default=EXACT_OPS, help="ops, comma separated (default: all exact unary ops)")
    parser.add_argument("--size", default=STANDARD_SIZES, help=f"elements, comma separated (default: {STANDARD_SIZES})")
    parser.add_argument("--dtype", default="float32", help="element types, comma separated")
    parser.add_argument(
        "--chain", action="append", default=[], metavar="OPS:COUNT:SIZE", help="e.g. Relu:100:8, Abs+Neg:10:4Ki"
    )
    parser.add_argument("--matmul", action="append", default=[], metavar="MxKxN", help="A[M,K] times a constant B[K,N]")
    parser.add_argument("--model", action="append", default=[], metavar="PATH", help="a whole model, as written")
    parser.add_argument("--dim", action="append", default=[], metavar="NAME=N", help="a symbolic dimension of --model")
    parser.add_argument("--arm", action="append", default=[], metavar="NAME=PATH", help="another plugin, ours or not")
    parser.add_argument("--isa", help="instruction sets of ours, comma separated (default: all available)")
    parser.add_argument("--threads", type=int, default=1, help="threads under test; the process gets as many CPUs")
    parser.add_argument("--rounds", type=int, default=7, help=f"at least {timing.MIN_ROUNDS}")
    parser.add_argument("--control-optimization", default="all", help="graph optimisation of the control's session")
    parser.add_argument("--json", metavar="FILE", help="write everything, raw samples too; - for standard output")
    parser.add_argument("--replay", metavar="FILE", help="run what FILE (of --json) ran, and show its ratios beside")
    parser.set_defaults(function=run)


def run(arguments: argparse.Namespace) -> int:
    """Runs the command. 2 if an arm that was asked for got no ratio anywhere, else 0."""
    before = None
    if arguments.replay:
        before, arguments = _replayed(arguments)
    chosen = choose_cells(arguments)
    cpus = host.pin(arguments.threads)
    arms = [*control(arguments.control_optimization), *_arms(arguments)]
    quiet = arguments.json == "-"
    console = Console(stderr=quiet)
    facts = host.facts(default_library())
    results = [measure_cell(cell, arms, arguments) for cell in progress(chosen, "measuring")]
    _show_facts(console, facts, cpus, arguments.threads)
    report.show(console, results, before)
    if arguments.json:
        document = {
            "command": arguments.words,
            "host": facts,
            "threads": arguments.threads,
            "results": [result.as_json() for result in results],
        }
        text = json.dumps(document)
        if quiet:
            print(text)
        else:
            Path(arguments.json).write_text(text, encoding="utf-8")
    missing = [arm.name for arm in arms[2:] if not any(arm.name in result.ratios for result in results)]
    if missing:
        print(f"ortwin: no ratio at all for {', '.join(missing)}", file=sys.stderr)
    return 2 if missing else 0


def progress(chosen: Sequence[cells.Cell], what: str) -> Iterable[cells.Cell]:
    """The cells, with a bar on standard error; drawn between cells only, as a thread would compete with the arms."""
    return track(chosen, what, console=Console(stderr=True), auto_refresh=False, disable=not chosen)


def measure_cell(cell: cells.Cell, arms: Sequence[Arm], arguments: argparse.Namespace) -> report.Result:
    """Sets up, checks and times one cell. The first two arms are the control and the control again."""
    first, again = arms[0].name, arms[1].name
    rig = Rig(cell, arms, arguments.threads)
    runs: dict[str, timing.Run] = {name: bound.run for name, bound in rig.bound.items()}
    if first not in runs or again not in runs:
        return report.evaluate(cell.name, None, first, again, rig.refused, rig.differences)
    if cell.elementwise:
        runs["memcpy"] = rig.copy
    taken = timing.measure(runs, arguments.threads, arguments.rounds)
    return report.evaluate(cell.name, taken, first, again, rig.refused, rig.differences)


def choose_cells(arguments: argparse.Namespace) -> list[cells.Cell]:
    """The cells that the options name."""
    sizes = [cells.parse_size(text) for text in arguments.size.split(",")]
    dims = dict(_pair(text, "--dim") for text in arguments.dim)
    chosen: list[cells.Cell] = []
    for text in arguments.chain:
        ops, count, size = _parts(text, ":", 3, "--chain")
        chosen.append(cells.chain(ops.split("+"), cells.parse_size(count), cells.parse_size(size)))
    for text in arguments.matmul:
        m, k, n = (cells.parse_size(part) for part in _parts(text, "x", 3, "--matmul"))
        chosen += [cells.matmul(m, k, n, dtype) for dtype in arguments.dtype.split(",")]
    for path in arguments.model:
        chosen.append(cells.whole(path, {name: int(value) for name, value in dims.items()}, seed=0))
    if chosen:  # asked for by name: the standard grid is not meant as well
        return chosen
    return list(cells.grid(arguments.op.split(","), sizes, arguments.dtype.split(",")))


def _arms(arguments: argparse.Namespace) -> list[Arm]:
    available = [name for name, why in default_library().isas().items() if not why]
    isas = arguments.isa.split(",") if arguments.isa else available
    arms = [plugin(f"ortwin:{isa}", str(library_path()), isa) for isa in isas]
    for text in arguments.arm:
        name, path = _pair(text, "--arm")
        if name in (CONTROL, AGAIN, "ortwin", "memcpy"):
            raise LibraryError(f"the arm name '{name}' is taken")
        arms.append(plugin(name, path))
    return arms


def _replayed(arguments: argparse.Namespace) -> tuple[dict[tuple[str, str], float], argparse.Namespace]:
    try:
        document = json.loads(Path(arguments.replay).read_text(encoding="utf-8"))
        command = [str(word) for word in document["command"]]
        before = {
            (result["cell"], name): float(value["p50"])
            for result in document["results"]
            for name, value in result["ratios"].items()
        }
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{arguments.replay} is no file of ortwin bench --json: {error}") from error
    parser = argparse.ArgumentParser(prog="ortwin")
    add_parser(parser.add_subparsers(required=True))
    again = parser.parse_args(command)
    again.words, again.json = command, arguments.json
    return before, again


def _show_facts(console: Console, facts: dict[str, Any], cpus: list[int], threads: int) -> None:
    packages = ", ".join(f"{name} {number}" for name, number in facts["packages"].items())
    console.print(f"{facts['cpu']}, pinned to CPU {cpus} for {threads} thread(s); {packages}; commit {facts['commit']}")
    absent = {name: why for name, why in facts["library"]["isas"].items() if why}
    for name, why in absent.items():
        console.print(f"{name} is not measured: {why}")


def _pair(text: str, option: str) -> tuple[str, str]:
    name, value = _parts(text, "=", 2, option)
    return name, value


def _parts(text: str, separator: str, count: int, option: str) -> list[str]:
    parts = text.split(separator, count - 1)
    if len(parts) != count or not all(parts):
        raise InputError(f"{option} {shlex.quote(text)}: {count} parts separated by '{separator}' are needed")
    return parts


__all__ = ["OrtwinError", "add_parser", "measure_cell", "run"]
