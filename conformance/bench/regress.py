"""Two commits against each other: both libraries in one process, the same cells, the same statistics.

python -m ortwin.conformance.bench.regress BASE_LIBRARY HEAD_LIBRARY [options of `ortwin bench` that choose cells]

The control is the base; the base loaded a second time, from a copy of its file, gives the null band: what another
build of the same source may differ by. A difference counts when it lies outside the band in two runs.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ortwin.conformance.bench import command, host, report
from ortwin.conformance.bench.arms import Arm, plugin
from ortwin.conformance.bench.cells import Cell
from ortwin.conformance.tables import table
from ortwin.fast.library import Library
from ortwin.ref.errors import OrtwinError


def main(argv: Sequence[str] | None = None) -> int:
    """0: no slower cell; 1: a cell is slower, twice; 2: the comparison could not be made."""
    parser = argparse.ArgumentParser(prog="regress")
    command.add_parser(parser.add_subparsers(required=True))
    words = list(sys.argv[1:] if argv is None else argv)
    if len(words) < 2:
        print("regress: two libraries are needed: BASE HEAD", file=sys.stderr)
        return 2
    arguments = parser.parse_args(["bench", *words[2:]])
    try:
        return _compare(Path(words[0]), Path(words[1]), arguments)
    except (OrtwinError, OSError) as error:
        print(f"regress: {error}", file=sys.stderr)
        return 2


def _compare(base: Path, head: Path, arguments: argparse.Namespace) -> int:
    chosen = command.choose_cells(arguments)
    command.check(arguments)
    host.pin(arguments.threads)
    isa = arguments.isa.split(",")[0] if arguments.isa else None
    with command.open_output(arguments.json) as output, tempfile.TemporaryDirectory() as folder:
        again = Path(folder, "base_again.so")
        shutil.copyfile(base, again)
        arms = [plugin("base", str(base), isa), plugin("base_again", str(again), isa), plugin("head", str(head), isa)]
        first = _measure("first run", chosen, arms, arguments)
        suspects = [cell for cell, result in zip(chosen, first, strict=True) if _differs(result)]
        repeated = {result.cell: result for result in _measure("second run of what differs", suspects, arms, arguments)}
        if output is not None:
            document = {
                "command": sys.argv,
                "host": host.facts(Library(head)),
                "first": [result.as_json() for result in first],
                "second": [result.as_json() for result in repeated.values()],
            }
            json.dump(document, output)
    slower = [result.cell for result in first if _verdict(result) == "slower"]
    worse = [cell for cell in slower if _verdict(repeated[cell]) == "slower"]
    if arguments.json != "-":
        _show(first, repeated)
    refused = {result.cell: result.refused for result in first if result.refused}
    for cell, reasons in refused.items():
        print(f"regress: {cell}: {'; '.join(f'{arm}: {why}' for arm, why in reasons.items())}", file=sys.stderr)
    if worse:
        print(f"regress: slower in two runs: {', '.join(worse)}", file=sys.stderr)
    return 1 if worse else 2 if refused else 0


def _measure(
    what: str, chosen: Sequence[Cell], arms: Sequence[Arm], arguments: argparse.Namespace
) -> list[report.Result]:
    return [command.measure_cell(cell, arms, arguments) for cell in command.progress(chosen, what)]


def _verdict(result: report.Result) -> str:
    return result.verdicts.get("head", "")


def _differs(result: report.Result) -> bool:
    return _verdict(result) in ("slower", "faster")


def _show(first: Sequence[report.Result], second: dict[str, report.Result]) -> None:
    rows = []
    for result in first:
        value, repeat = result.ratios.get("head"), second.get(result.cell)
        if value is None:
            continue
        again = ["", ""] if repeat is None else [f"{repeat.ratios['head'].p50:.3f}", f"{repeat.band:.3f}"]
        confirmed = repeat is not None and _verdict(repeat) == _verdict(result)
        us = [f"{value.control_us:.2f}", f"{value.us:.2f}"]
        verdict = _verdict(result) if confirmed else "no difference"
        rows.append([result.cell, *us, f"{value.p50:.3f}", f"{result.band:.3f}", *again, verdict])
    columns = ["cell", "base µs", "head µs", "ratio", "band ±", "ratio again", "band again ±", "verdict"]
    table("head against base in one process, below 1 is faster", columns, rows, columns[1:7])


if __name__ == "__main__":
    sys.exit(main())
