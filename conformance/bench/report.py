"""Results as data and as tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ortwin.conformance.bench import statistics
from ortwin.conformance.bench.arms import Difference
from ortwin.conformance.bench.timing import Measurement
from ortwin.conformance.tables import say, table


@dataclass
class Result:
    """One cell: ratios by arm against `control`, with what is needed to believe them or not.

    times: median microseconds by arm, where the control was refused and there can be no ratios.
    """

    cell: str
    control: str
    band: float
    drift: float
    marked: dict[str, list[int]]  # rounds by reason
    memcpy_us: float | None
    ratios: dict[str, statistics.Ratio]
    times: dict[str, float]
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
    """Ratios and verdicts of a measurement; times alone when the control was refused; None when every arm was."""
    samples = {} if measurement is None else measurement.samples
    arms = [name for name in samples if name not in (control, again, "memcpy")]
    memcpy = statistics.microseconds(samples["memcpy"]) if "memcpy" in samples else None
    if measurement is None or control not in samples or again not in samples:
        times = {name: statistics.microseconds(samples[name]) for name in arms}
        return Result(cell, control, 0.0, 0.0, {}, memcpy, {}, times, {}, refused, differences, measurement)
    band = statistics.null_band(samples[again], samples[control])
    ratios = {name: statistics.ratio(samples[name], samples[control]) for name in arms}
    marked = {
        "drift": statistics.drifted_rounds(samples[control], band),
        "others were running": measurement.busy,
    }
    return Result(
        cell,
        control,
        band,
        statistics.drift(samples[control]),
        {reason: rounds for reason, rounds in marked.items() if rounds},
        memcpy,
        ratios,
        {},
        {name: statistics.verdict(value.p50, band) for name, value in ratios.items()},
        refused,
        differences,
        measurement,
    )


def show(results: Sequence[Result], before: dict[tuple[str, str], float] | None = None) -> None:
    """Two tables: ratios by cell and arm, and what each cell's ratios stand on; then the reasons of refused arms.

    before: p50 ratios of an earlier run by (cell, arm), shown beside.
    """
    columns = ["cell", "arm", "p50", "p90", "spread", "won", "µs", "ulp", "verdict"]
    if before is not None:
        columns.append("p50 then")
    rows = []
    for result in results:
        for name, value in result.ratios.items():
            row = _ratio_row(result, name, value)
            if before is not None:
                then = before.get((result.cell, name))
                row.append("" if then is None else f"{then:.3f}")
            rows.append(row)
        for name, us in result.times.items():
            rows.append([result.cell, name, *[""] * 4, f"{us:.2f}", "", "no control", *[""] * (before is not None)])
    table("ratio to the control in one process, below 1 is faster", columns, rows, set(columns[2:8]) | {"p50 then"})
    columns = ["cell", "control µs", "band ±", "drift", "memcpy µs", "marked rounds"]
    measured = [result for result in results if result.measurement is not None and not result.times]
    table("what the ratios stand on", columns, [_cell_row(result) for result in measured], columns[1:5])
    for result in results:
        if result.control in result.refused:
            say(f"{result.cell}: no ratios, times alone: {result.control} refuses it: {result.refused[result.control]}")
        for name, why in result.refused.items():
            if result.control not in result.refused or why != result.refused[result.control]:
                say(f"{result.cell}: no ratio for {name}: {why}")


def _ratio_row(result: Result, name: str, value: statistics.Ratio) -> list[str]:
    difference = result.differences.get(name)
    return [
        result.cell,
        name,
        f"{value.p50:.3f}",
        f"{value.p90:.3f}",
        f"{value.spread:.3f}",
        f"{value.won}/{value.rounds}",
        f"{value.us:.2f}",
        "" if difference is None else f"{difference.ulp:.3g}",
        result.verdicts[name],
    ]


def _cell_row(result: Result) -> list[str]:
    ratio = next(iter(result.ratios.values()), None)
    marked = [f"{why} in {len(rounds)}" for why, rounds in result.marked.items()]
    return [
        result.cell,
        "" if ratio is None else f"{ratio.control_us:.2f}",
        f"{result.band:.3f}",
        f"{result.drift:.1%}",
        "" if result.memcpy_us is None else f"{result.memcpy_us:.2f}",
        ", ".join(marked) + (f" of {ratio.rounds}" if marked and ratio else ""),
    ]
