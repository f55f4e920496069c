"""Results as data and as tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from rich.console import Console
from rich.table import Table

from ortwin.conformance.bench import statistics
from ortwin.conformance.bench.arms import Difference
from ortwin.conformance.bench.timing import Measurement


@dataclass
class Result:
    """One cell: ratios by arm against `control`, with what is needed to believe them or not."""

    cell: str
    control: str
    band: float
    drift: float
    marked: dict[str, list[int]]  # rounds by reason
    memcpy_us: float | None
    ratios: dict[str, statistics.Ratio]
    verdicts: dict[str, statistics.Verdict]
    refused: dict[str, str]
    differences: dict[str, Difference]
    measurement: Measurement | None = field(repr=False)

    def as_json(self) -> dict[str, Any]:
        """With the raw samples."""
        return asdict(self)


def evaluate(
    cell: str,
    measurement: Measurement | None,
    control: str,
    again: str,
    refused: dict[str, str],
    differences: dict[str, Difference],
) -> Result:
    """Ratios and verdicts of a measurement; no measurement when the control itself was refused."""
    if measurement is None:
        return Result(cell, control, 0.0, 0.0, {}, None, {}, {}, refused, differences, None)
    samples = measurement.samples
    band = statistics.null_band(samples[again], samples[control])
    ratios = {
        name: statistics.ratio(taken, samples[control])
        for name, taken in samples.items()
        if name not in (control, again, "memcpy")
    }
    memcpy = statistics.ratio(samples["memcpy"], samples[control]).us if "memcpy" in samples else None
    marked = {
        "the control drifted": statistics.drifted_rounds(samples[control], band),
        "other processes were ready": measurement.busy,
    }
    return Result(
        cell,
        control,
        band,
        statistics.drift(samples[control]),
        {reason: rounds for reason, rounds in marked.items() if rounds},
        memcpy,
        ratios,
        {name: statistics.verdict(value.p50, band) for name, value in ratios.items()},
        refused,
        differences,
        measurement,
    )


def show(console: Console, results: Sequence[Result], before: dict[tuple[str, str], float] | None = None) -> None:
    """A table of one line per cell and arm. before: p50 ratios of an earlier run by (cell, arm), shown beside."""
    table = Table(title="ratio to the control, in one process; below 1 is faster", title_justify="left")
    left = ("cell", "arm")
    right = ("p50", "p90", "band ±", "spread", "won", "µs", "control µs", "drift", "memcpy", "ulp", "marked")
    for name in left:
        table.add_column(name)
    for name in right:
        table.add_column(name, justify="right")
    table.add_column("verdict")
    if before is not None:
        table.add_column("p50 then", justify="right")
    for result in results:
        for name in [*result.ratios, *result.refused]:
            row = _row(result, name)
            if before is not None:
                then = before.get((result.cell, name))
                row.append("" if then is None else f"{then:.3f}")
            table.add_row(*row)
        table.add_section()
    console.print(table)


def _row(result: Result, name: str) -> list[str]:
    if name in result.refused:
        return [result.cell, name, *[""] * 11, f"no ratio: {result.refused[name]}"]
    value = result.ratios[name]
    marked = sorted({index for rounds in result.marked.values() for index in rounds})
    memcpy = "" if result.memcpy_us is None else f"{result.memcpy_us / value.control_us:.2f}"
    difference = result.differences.get(name)
    return [
        result.cell,
        name,
        f"{value.p50:.3f}",
        f"{value.p90:.3f}",
        f"{result.band:.3f}",
        f"{value.spread:.3f}",
        f"{value.won}/{value.rounds}",
        f"{value.us:.2f}",
        f"{value.control_us:.2f}",
        f"{result.drift:.1%}",
        memcpy,
        "" if difference is None else f"{difference.ulp:.3g}",
        f"{len(marked)}/{value.rounds}" if marked else "",
        result.verdicts[name],
    ]
