"""`ortwin conform`: cases made to break kernels, on every arm, compared with the reference bit for bit.

Puts generator, arms and verifier together, and says what they found.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from ortwin.conformance.conform import arms as arms_of
from ortwin.conformance.conform import shrink
from ortwin.conformance.conform.arms import Arm, Reference
from ortwin.conformance.conform.case import Case, op_text, parse
from ortwin.conformance.conform.generate import LEVELS, Generator
from ortwin.conformance.conform.outcome import Declined, NotAsked, Outcome
from ortwin.conformance.conform.verify import Difference, Measure, compare
from ortwin.conformance.tables import progress, say, table, write_json
from ortwin.ref.errors import InputError

SHOWN: Final = 5
"""Failures that are shrunk and printed in full: the first of an op and an arm each."""

LONGEST: Final = 2000
"""Characters of a case that is given as text: a longer one is told by seed and index."""


@dataclass
class Cell:
    """An op on an arm, in cases. measure: of a foreign arm."""

    compared: int = 0
    declined: int = 0
    not_asked: int = 0
    differing: int = 0
    measure: Measure | None = None
    reasons: dict[str, int] = field(default_factory=dict)


@dataclass
class Row:
    """An op. declined: cases that the reference declines."""

    op: str
    cases: int = 0
    declined: int = 0
    elements: int = 0
    cells: dict[str, Cell] = field(default_factory=dict)


@dataclass
class Failure:
    """The first difference of an op on an arm; shrunk: the smallest case that fails as well, as text."""

    op: str
    arm: str
    label: str
    case: Case
    difference: Difference
    repeat: str
    shrunk: str | None = None
    shrunk_difference: Difference | None = None
    shrunk_repeat: str = ""


@dataclass
class Report:
    """What a run found; arms: "" or the reason why an arm is not available."""

    arms: dict[str, str]
    rows: list[Row] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)

    @property
    def agree(self) -> bool:
        """Whether no arm that is held to the reference differs from it."""
        return not self.failures


@dataclass(frozen=True)
class Source:
    """A case and the options that name it."""

    op: str
    case: Case
    options: tuple[str, ...]


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument(
        "--arm",
        action="append",
        default=[],
        metavar="NAME",
        help="ref, ref:interpreted, fast:ISA, ep:ISA, ort-cpu, or NAME=PATH of a plugin (default: all of ours)",
    )
    parser.add_argument("--op", action="append", default=[], metavar="OP", help="an op (default: all)")
    parser.add_argument("--level", choices=list(LEVELS), default="quick", help="how many cases (default quick)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the values (default 0)")
    parser.add_argument("--count", type=positive, metavar="N", help="cases per op (default: all that the level has)")
    parser.add_argument("--case", metavar="CASE", help="one case: its number in an op, or its text")


def positive(text: str) -> int:
    """A number of cases."""
    if not text.isdecimal() or not 1 <= int(text) < 1 << 31:
        raise argparse.ArgumentTypeError(f"must be at least 1, not '{text:.40}'")
    return int(text)


def command(args: argparse.Namespace) -> int:
    """Runs the command; 1 if anything differs."""
    generator = Generator(args.seed, args.level)
    sources = choose(generator, args.op, args.count, args.case)
    with open_arms(args.arm) as arms:
        report = conform(sources, arms)
    if args.json:
        write_json({"level": args.level, "seed": args.seed, **as_json(report)})
    else:
        show(report)
    return 0 if report.agree else 1


class Sources:
    """The cases of a run, made one at a time."""

    def __init__(self, generator: Generator, chosen: Sequence[tuple[str, int]]) -> None:
        self.generator = generator
        self.chosen = chosen

    def __len__(self) -> int:
        return len(self.chosen)

    def __getitem__(self, k: int) -> Source:
        op, index = self.chosen[k]
        made = self.generator
        options = ("--op", op, "--level", made.level, "--seed", str(made.seed), "--case", str(index))
        return Source(op, made.case(op, index), options)


def choose(
    generator: Generator, ops: Sequence[str], count: int | None = None, case: str | None = None
) -> Sources | list[Source]:
    """The cases that the options name. InputError for one there is not."""
    names = [name for text in ops for name in _ops_called(text, generator)] or generator.ops
    if case is None:
        ops = list(dict.fromkeys(names))
        return Sources(generator, [(op, index) for op in ops for index in generator.indices(op, count)])
    if count is not None:
        raise InputError("--case names one case: --count has no meaning beside it")
    if not case.isdecimal():
        given = parse(case)
        return [Source(op_text(given.domain, given.op), given, ("--case", case))]
    if len(names) != 1:
        raise InputError("--case N needs one --op, of which it is the case")
    return Sources(generator, [(names[0], int(case))])


def _ops_called(text: str, generator: Generator) -> list[str]:
    found = [op for op in generator.ops if text in (op, op.rpartition(".")[2])]
    if not found:
        raise InputError(f"'{text:.40}' is not implemented: `ortwin ops` lists the ops that are")
    return [text] if text in found else found


@contextmanager
def open_arms(words: Sequence[str]) -> Iterator[dict[str, Arm]]:
    """The arms of the words on the command line, by word; all of ours if there are none."""
    known = arms_of.ours()
    made: dict[str, Arm] = {}
    try:
        for word in dict.fromkeys(words or known):
            made[word] = arms_of.arm(word, known)
        yield made
    finally:
        for arm in made.values():
            arm.close()


def conform(sources: Sources | list[Source], arms: Mapping[str, Arm]) -> Report:
    """Runs the cases on the arms that are available."""
    reference = Reference()
    report = Report({word: arm.unavailable for word, arm in arms.items()})
    rows: dict[str, Row] = {}
    first: set[tuple[str, str]] = set()
    usable = {word: arm for word, arm in arms.items() if not arm.unavailable}
    for k in progress(range(len(sources)), "running cases"):
        source = sources[k]
        case = source.case
        row = rows.setdefault(source.op, Row(source.op, cells={word: _cell(arm) for word, arm in usable.items()}))
        right = reference(case)
        row.cases += 1
        row.elements += case.x.size
        row.declined += isinstance(right, Declined)
        for word, arm in usable.items():
            difference = _add(row.cells[word], case, right, arm(case))
            if difference is not None and (source.op, word) not in first:
                first.add((source.op, word))
                repeat = shlex.join(["ortwin", "conform", "--arm", word, *source.options])
                report.failures.append(Failure(source.op, word, case.label, case, difference, repeat))
    report.rows = list(rows.values())
    for failure in report.failures[:SHOWN]:
        _shrink(failure, reference, usable[failure.arm])
    return report


def _cell(arm: Arm) -> Cell:
    return Cell(measure=None if arm.exact else Measure())


def _add(cell: Cell, case: Case, expected: Outcome, observed: Outcome) -> Difference | None:
    """Books the outcome of one case on one arm."""
    if isinstance(observed, NotAsked):
        cell.not_asked += 1
        cell.reasons[observed.reason] = cell.reasons.get(observed.reason, 0) + 1
        return None
    cell.declined += isinstance(observed, Declined)
    cell.compared += 1
    if cell.measure is not None:
        cell.measure.add(case, expected, observed)
        return None
    difference = compare(case, expected, observed)
    cell.differing += difference is not None
    return difference


def _shrink(failure: Failure, reference: Arm, arm: Arm) -> None:
    """Adds the smallest case that fails as well."""
    if not shrink.available():
        return

    def difference(case: Case) -> Difference | None:
        return compare(case, reference(case), arm(case))

    def at(case: Case) -> int | None:
        found = difference(case)
        return None if found is None else -1 if found.index is None else found.index

    small = shrink.shrink(failure.case, at)
    failure.shrunk, failure.shrunk_difference = small.text, difference(small)
    if len(small.text) <= LONGEST:
        failure.shrunk_repeat = shlex.join(["ortwin", "conform", "--arm", failure.arm, "--case", small.text])


def as_json(report: Report) -> dict[str, Any]:
    """The report for machines."""
    return {
        "arms": report.arms,
        "agree": report.agree,
        "rows": [asdict(row) for row in report.rows],
        "failures": [{k: v for k, v in vars(f).items() if k not in DIFFERENCES} | _plain(f) for f in report.failures],
    }


DIFFERENCES: Final = ("case", "difference", "shrunk_difference")


def _plain(failure: Failure) -> dict[str, Any]:
    shrunk = failure.shrunk_difference
    return {"difference": asdict(failure.difference), "shrunk_difference": asdict(shrunk) if shrunk else None}


def show(report: Report) -> None:
    """Prints the table, what could not be run, what foreign arms do differently, and the failures."""
    names = list(report.arms)
    total = sum(row.cases for row in report.rows)
    elements = sum(row.elements for row in report.rows)
    title = f"{total:,} case{'s' * (total != 1)}, {elements:,} elements, compared with the reference bit for bit"
    rows = [[row.op, row.cases, row.declined, *(_verdict(row, name) for name in names)] for row in report.rows]
    table(title, ["op", "cases", "declined", *(name.partition("=")[0] for name in names)], rows, {"cases", "declined"})
    for name, why in report.arms.items():
        if why:
            say(f"{name} is not available: {why}")
    for reason, count in sorted(_reasons(report).items(), key=lambda item: (-item[1], item[0]))[:SHOWN]:
        say(f"not asked in {count:,} cases, counted over all arms: {reason}")
    measured = [row for row in report.rows if any(cell.measure for cell in row.cells.values())]
    if measured:
        table(*_measured(measured))
    for failure in report.failures[:SHOWN]:
        _show_failure(failure)
    if report.failures and not shrink.available():
        say("failures are shown as they were found: pip install 'ortwin[conform]' adds hypothesis, which shrinks them")
    if len(report.failures) > SHOWN:
        say(f"... and {len(report.failures) - SHOWN} more ops on an arm that differ, all of them in --json")


def _verdict(row: Row, name: str) -> str:
    cell = row.cells.get(name)
    if cell is None:
        return "not available"
    if not cell.compared:
        return "not asked"
    if cell.measure is None:
        return f"{cell.differing:,} DIFFER" if cell.differing else "equal"
    if cell.declined == cell.compared:
        return "declined"
    return f"{cell.measure.ulp:,} ulp" if cell.measure.differing else "equal"


def _reasons(report: Report) -> dict[str, int]:
    """Why arms were not asked, with the number of cases."""
    total: dict[str, int] = {}
    for row in report.rows:
        for cell in row.cells.values():
            for reason, count in cell.reasons.items():
                total[reason] = total.get(reason, 0) + count
    return total


def _measured(rows: Sequence[Row]) -> tuple[str, list[str], list[list[str]], set[str]]:
    right = ["max ulp", "bits differ", "NaN's bits", "NaN", "inf", "sign of 0", "declined"]
    lines: list[list[str]] = []
    for row in rows:
        for name, cell in row.cells.items():
            if cell.measure is None:
                continue
            m = cell.measure
            worst = [f"{m.worst[1]} ({m.worst[0]})", *m.worst[2:]] if m.worst else ["", "", ""]
            share = f"{100 * m.differing / m.elements:.3g} %" if m.elements else ""
            counts = [f"{n:,}" for n in (m.payload, m.nan, m.inf, m.zero, cell.declined)]
            lines.append([name.partition("=")[0], row.op, f"{m.ulp:,}", share, *counts, *worst])
    title = "measured, not asserted; in elements: NaNs of other bits, only one a NaN, only one this infinity"
    return title, ["arm", "op", *right, "worst input", "gives", "ref"], lines, set(right)


def _show_failure(failure: Failure) -> None:
    say(f"{failure.label} on {failure.arm}:")
    _show_difference(failure.difference)
    say(f"  repeat: {failure.repeat}")
    if failure.shrunk_difference is None:
        return
    say("  shrunk:")
    _show_difference(failure.shrunk_difference)
    say(f"  repeat: {failure.shrunk_repeat or f'(the case is {len(failure.shrunk or str()):,} characters long)'}")


def _show_difference(difference: Difference) -> None:
    say(f"  {difference.what}")
    if difference.index is not None:
        say(f"  inputs {', '.join(text or '-' for text in difference.inputs)}")
        say(f"  observed {difference.observed}, expected {difference.expected} (bytes as in memory)")
