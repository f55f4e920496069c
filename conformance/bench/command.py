"""`ortwin bench`: chooses cells and arms, measures, reports."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final

from rich.console import Console
from rich.progress import track

from ortwin.conformance.bench import cells, host, report, timing
from ortwin.conformance.bench.arms import AGAIN, CONTROL, Arm, Rig, control, plugin
from ortwin.conformance.tables import say
from ortwin.fast.library import LibraryError, default_library, library_path
from ortwin.fast.ort import LEVELS
from ortwin.ref.errors import InputError

UNARY_OPS: Final = (
    "Relu,LeakyRelu,ThresholdedRelu,HardSigmoid,HardSwish,Clip,Abs,Neg,Reciprocal,Sqrt,Floor,Ceil,Round,Sign,Softsign,"
    "Identity,Exp,Log,Tanh,Sigmoid,Erf,Elu,Selu,Celu,Softplus,Mish,Swish,Gelu,Gelu@approximate=tanh,"
    "com.microsoft.Gelu,com.microsoft.FastGelu,com.microsoft.QuickGelu"
)
"""The standard grid's ops."""

MATMUL_FORMS: Final = ("runtime", "transB")
MATMUL_HELP: Final = "A[M,K] times a constant B[K,N]; :runtime makes B an input, :transB a Gemm with B[N,K]"

STANDARD_SIZES: Final = "4Ki,64Ki,1Mi,4Mi"


def add_parser(commands: Any) -> None:
    """Adds the command to an argparse subparsers object; its function is run(arguments) -> exit code."""
    parser = commands.add_parser("bench", help="measure speed as ratios to ONNX Runtime's CPU provider")
    parser.add_argument("--op", default=UNARY_OPS, help="ops, comma separated, as Elu@alpha=2 (default: all unary ops)")
    parser.add_argument("--size", default=STANDARD_SIZES, help=f"elements, comma separated (default: {STANDARD_SIZES})")
    parser.add_argument("--dtype", default="float32", help="element types, comma separated")
    parser.add_argument(
        "--chain", action="append", default=[], metavar="OPS:COUNT:SIZE", help="e.g. Relu:100:8, Abs+Neg:10:4Ki"
    )
    parser.add_argument("--matmul", action="append", default=[], metavar="MxKxN[:FORM]", help=MATMUL_HELP)
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
    check(arguments)
    cpus = host.pin(arguments.threads)
    arms = [*control(arguments.control_optimization), *_arms(arguments)]
    facts = host.facts(default_library())
    with open_output(arguments.json) as output:
        results = [measure_cell(cell, arms, arguments) for cell in progress(chosen, "measuring")]
        if output is not None:
            document = {
                "command": arguments.words,
                "host": facts,
                "threads": arguments.threads,
                "results": [result.as_json() for result in results],
            }
            json.dump(document, output)
            output.write("\n")
    if arguments.json != "-":
        _show_facts(facts, cpus, arguments.threads)
        report.show(results, before)
    missing = [arm.name for arm in arms[2:] if not any(arm.name in result.ratios for result in results)]
    for name in missing:
        why = next(result.refused.get(name) or next(iter(result.refused.values())) for result in results)
        print(f"ortwin: no ratio at all for {name}: {why}", file=sys.stderr)
    return 2 if missing else 0


def check(arguments: argparse.Namespace) -> None:
    """InputError for what would only be found wrong after measuring."""
    if not 1 <= arguments.threads <= 1024:
        raise InputError(f"--threads must be 1 to 1024, not {arguments.threads}")
    if arguments.rounds < timing.MIN_ROUNDS:
        raise InputError(f"--rounds must be at least {timing.MIN_ROUNDS}, not {arguments.rounds}")
    if arguments.control_optimization not in LEVELS:
        raise InputError(f"--control-optimization must be one of {', '.join(LEVELS)}")
    known = default_library().isas()
    for isa in arguments.isa.split(",") if arguments.isa is not None else []:
        if isa not in known:
            raise InputError(f"--isa '{isa}' is unknown: choose {', '.join(known)}")
        if known[isa]:
            raise InputError(f"--isa {isa} is not available: {known[isa]}")


@contextmanager
def open_output(target: str | None) -> Iterator[IO[str] | None]:
    """Where --json goes, opened before anything is measured; None without the option."""
    if target is None:
        yield None
    elif target == "-":
        yield sys.stdout
    else:
        with open(target, "w", encoding="utf-8") as file:
            yield file


def progress(chosen: Sequence[cells.Cell], what: str) -> Iterable[cells.Cell]:
    """The cells, with a bar on standard error; drawn between cells only, as a thread would compete with the arms."""
    console = Console(stderr=True)
    return track(chosen, what, console=console, auto_refresh=False, transient=True, disable=not console.is_terminal)


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
    sizes = [_count(text, "--size") for text in arguments.size.split(",")]
    dtypes = [cells.parse_dtype(text) for text in arguments.dtype.split(",")]
    dims = {name: _count(size, "--dim") for name, size in (_pair(text, "--dim") for text in arguments.dim)}
    chosen: list[cells.Cell] = []
    for text in arguments.chain:
        ops, count, size = _parts(text, ":", 3, "--chain")
        chosen.append(cells.chain(_ops(ops, "+"), _count(count, "--chain"), _count(size, "--chain")))
    for text in arguments.matmul:
        sizes_text, *forms = text.split(":")
        m, k, n = (_count(part, "--matmul") for part in _parts(sizes_text, "x", 3, "--matmul"))
        for form in forms:
            if form not in MATMUL_FORMS:
                raise InputError(f"--matmul {shlex.quote(text)}: '{form}' is not one of {', '.join(MATMUL_FORMS)}")
        options = {"runtime": "runtime" in forms, "transposed": "transB" in forms}
        chosen += [cells.matmul(m, k, n, dtype, **options) for dtype in dtypes]
    chosen += [cells.whole(path, dims, seed=0) for path in arguments.model]
    if chosen:  # asked for by name: the standard grid is not meant as well
        return chosen
    return list(cells.grid(_ops(arguments.op, ","), sizes, dtypes))


def _ops(text: str, separator: str) -> list[str]:
    ops = text.split(separator)
    for op in ops:
        cells.make_node(op, ["x"], ["y"], "")  # InputError if it can't be made
    return ops


def _count(text: str, option: str) -> int:
    number = cells.parse_size(text)
    if number < 1:
        raise InputError(f"{option}: a number of at least 1 is needed, not '{text}'")
    return number


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


def _show_facts(facts: dict[str, Any], cpus: list[int], threads: int) -> None:
    packages = ", ".join(f"{name} {number}" for name, number in facts["packages"].items())
    say(f"{facts['cpu']}, pinned to CPU {cpus} for {threads} thread(s); {packages}; commit {facts['commit']}")
    for name, why in facts["library"]["isas"].items():
        if why:
            say(f"{name} is not measured: {why}")


def _pair(text: str, option: str) -> tuple[str, str]:
    name, value = _parts(text, "=", 2, option)
    return name, value


def _parts(text: str, separator: str, count: int, option: str) -> list[str]:
    parts = text.split(separator, count - 1)
    if len(parts) != count or not all(parts):
        raise InputError(f"{option} {shlex.quote(text)}: {count} parts separated by '{separator}' are needed")
    return parts
