"""`ortwin sweep` and `ortwin certify`: a float32 op on all 2^32 inputs, and the certificate of what was found.

Arms are ref, the instruction sets, ort-cpu, and NAME=PATH of any plugin; without a choice ref and every instruction set
of this machine.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from ortwin.conformance.sweep import arms, certificate, run
from ortwin.conformance.sweep.blocks import BLOCKS, Record, State
from ortwin.conformance.sweep.cases import CASES, Case, find
from ortwin.conformance.sweep.elementary import crival, mpmath
from ortwin.conformance.tables import say, table, write_json
from ortwin.ref.errors import OrtwinError, UnsupportedError

OURS: Final = "ours"
"""Stands for the reference and every instruction set of this machine."""

COLUMNS: Final = {
    "max_ulp": "max ulp",
    "worst_input": "worst input",
    "not_rounded": "not rounded",
    "monotonicity": "monotonicity",
    "range": "range",
    "oddness": "oddness",
    "zero_sign": "zero sign",
}


def add_parsers(commands: Any, pairs: type[argparse.Action]) -> None:
    """Adds sweep and certify to an argparse subparsers object. pairs: the action that collects NAME=VALUE."""
    made = commands.add_parser("sweep", help="run an op on all 2^32 float32 inputs: digests, errors, violations")
    made.add_argument("op", nargs="?", metavar="OP", help="Exp, com.microsoft.QuickGelu, or a certificate's name")
    made.add_argument("--all", action="store_true", help="every case that gets a certificate, one after the other")
    made.add_argument("--attr", action=pairs, default={}, metavar="NAME=VALUE", help="an attribute of the op")
    made.add_argument("--arm", action="append", default=[], metavar="A", help="ours, ref, an isa, ort-cpu or NAME=PATH")
    made.add_argument("--isa", action="append", default=[], metavar="NAME", help="an instruction set, or ref")
    made.add_argument("--shard", type=shard, default=(0, 1), metavar="i/n", help="every n-th block, from the i-th on")
    made.add_argument("--blocks", type=block_range, default=range(BLOCKS), metavar="a:b", help="blocks a to b - 1")
    made.add_argument("--jobs", type=jobs, default=1, metavar="N", help="processes (default 1)")
    made.add_argument(
        "--measure", action=argparse.BooleanOptionalAction, default=True, help="errors too, or digests alone"
    )
    add_state(made, required=False)
    made.add_argument("--certificates", type=Path, metavar="FOLDER", help="write a certificate there when all is done")
    made.add_argument("--json", action="store_true", help="print one JSON document instead of tables")
    made.set_defaults(function=sweep_command)

    made = commands.add_parser("certify", help="write the certificates of cases that have been swept")
    made.add_argument("op", nargs="+", metavar="OP", help="cases, as for sweep")
    add_state(made, required=True)
    made.add_argument("--certificates", type=Path, default=Path("."), metavar="FOLDER", help="where to (default .)")
    made.add_argument("--json", action="store_true", help="print one JSON document instead of lines")
    made.set_defaults(function=certify_command)


def add_state(made: argparse.ArgumentParser, required: bool) -> None:
    """Adds --state."""
    made.add_argument(
        "--state",
        action="append",
        type=Path,
        default=[],
        required=required,
        metavar="FOLDER",
        help="where finished blocks are kept; given again: folders that are read as well",
    )


def jobs(text: str) -> int:
    """A number of processes."""
    if not text.isdecimal() or not 1 <= int(text) <= BLOCKS:
        raise argparse.ArgumentTypeError(f"must be 1 to {BLOCKS}, not '{text}'")
    return int(text)


def shard(text: str) -> tuple[int, int]:
    """i/n with 0 <= i < n <= 256."""
    i, slash, n = text.partition("/")
    if not (slash and i.isdecimal() and n.isdecimal() and 0 <= int(i) < int(n) <= BLOCKS):
        raise argparse.ArgumentTypeError(f"must be i/n with i from 0 to n - 1, not '{text}'")
    return int(i), int(n)


def block_range(text: str) -> range:
    """a:b with 0 <= a < b <= 256."""
    a, colon, b = text.partition(":")
    if not (colon and a.isdecimal() and b.isdecimal() and 0 <= int(a) < int(b) <= BLOCKS):
        raise argparse.ArgumentTypeError(f"must be a:b with 0 <= a < b <= {BLOCKS}, not '{text}'")
    return range(int(a), int(b))


def sweep_command(args: argparse.Namespace) -> int:
    """Runs `ortwin sweep`. 1 if two of our arms differ."""
    if bool(args.op) == args.all or (args.all and args.attr):
        raise OrtwinError("sweep needs an op or --all, and --attr an op")
    names = [*args.isa, *args.arm] or [OURS]
    if OURS in names:
        names = [*arms.ours(), *(name for name in names if name != OURS)]
    arms.check(names)
    if args.measure:
        crival()  # before hours of work
        mpmath()
    if args.certificates:
        args.certificates.mkdir(parents=True, exist_ok=True)
    cases = list(CASES) if args.all else [find(args.op, args.attr)]
    found: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="ortwin-") as scratch:
        for case in cases:
            state = State(args.state or [Path(scratch)], case.name)
            started = time.monotonic()
            try:
                made = run_arms(case, names, state, args)
            except UnsupportedError as error:
                if not args.all:
                    raise
                print(f"{case.name} is left out: {error}", file=sys.stderr)
                continue
            result = describe(case, made, state, args.measure)
            result["seconds"] = round(time.monotonic() - started, 1)
            found.append(result)
            if not args.json:
                show(result)
            if args.certificates and not result["differences"]:
                write_certificate(case, state, args.certificates, quiet=args.json)
    if args.json:
        write_json({"sweeps": found})
    return 1 if any(result["differences"] for result in found) else 0


def run_arms(case: Case, names: Sequence[str], state: State, args: argparse.Namespace) -> list[arms.Arm]:
    """Sweeps one case; with --all, foreign arms that don't have the op are named and left out."""
    chosen = list(dict.fromkeys(names))
    if args.all:
        for name in [name for name in chosen if name == arms.ORT or "=" in name]:
            try:
                arms.make(name, case)
            except arms.ArmError as error:
                print(error, file=sys.stderr)
                chosen.remove(name)
    i, n = args.shard
    blocks = [block for block in args.blocks if block % n == i]
    return run.sweep(case, chosen, state, blocks, measured=args.measure, jobs=args.jobs, part=f"{i}of{n}")


def describe(case: Case, made: Sequence[arms.Arm], state: State, measured: bool) -> dict[str, Any]:
    """What the state says of the arms: plain data. differences: blocks in which our arms are not the same."""
    shown: dict[str, Any] = {}
    ours: dict[str, dict[int, Record]] = {}
    for arm in made:
        records = state.records(arm.name, arm.build)
        seconds = sum(record.seconds for record in records.values())
        measuring = sum(record.measuring for record in records.values())
        shown[arm.name] = {"build": arm.build, "blocks": len(records)}
        shown[arm.name] |= {"seconds": round(seconds, 1), "measuring_seconds": round(measuring, 1)}
        if len(records) == BLOCKS:
            shown[arm.name]["digest"] = certificate.digest_of(records)
        if measured:
            with_measures = {block: record for block, record in records.items() if record.measures is not None}
            shown[arm.name]["figures"] = certificate.figures(case, with_measures)
        if arm.ours:
            ours[arm.name] = records
    differences = []
    for block in range(BLOCKS):
        digests = {name: records[block].digest for name, records in ours.items() if block in records}
        if len(set(digests.values())) > 1:
            differences.append({"block": block, "digests": digests})
    return {"case": case.name, "attributes": case.attributes, "arms": shown, "differences": differences}


def show(result: dict[str, Any]) -> None:
    """A table of one case."""
    rows = []
    for name, arm in result["arms"].items():
        figures = arm.get("figures", {})
        first = [name, arm["blocks"], arm["seconds"], arm["measuring_seconds"], arm.get("digest", "")[:16]]
        rows.append([*first, *(figures.get(key, "") for key in COLUMNS)])
    title = f"{result['case']}: {result['seconds']} s"
    columns = ["arm", "blocks", "seconds", "measuring", "digest", *COLUMNS.values()]
    table(title, columns, rows, right=["blocks", "seconds", "measuring", *COLUMNS.values()])
    for difference in result["differences"]:
        say(f"block {difference['block']} differs: {difference['digests']}")


def write_certificate(case: Case, state: State, folder: Path, quiet: bool) -> bool:
    """Writes a certificate if every block is there; says what is missing if not."""
    try:
        made = certificate.certify(case, state)
    except certificate.CertificateError as error:
        print(f"no certificate: {error}", file=sys.stderr)
        return False
    path = folder / f"{case.name}.json"
    partial = path.with_suffix(".partial")
    partial.write_text(made.text(), "utf-8")
    partial.replace(path)
    if not quiet:
        say(f"certificate {path}")
    return True


def certify_command(args: argparse.Namespace) -> int:
    """Runs `ortwin certify`. 2 if a certificate could not be made."""
    crival()
    mpmath()
    args.certificates.mkdir(parents=True, exist_ok=True)
    done = {}
    for case in [find(name) for name in args.op]:
        done[case.name] = write_certificate(case, State(args.state, case.name), args.certificates, args.json)
    if args.json:
        write_json({"certificates": [name for name, made in done.items() if made]})
    return 0 if all(done.values()) else 2
