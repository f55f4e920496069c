"""From samples to ratios. Pure functions of numbers, so that tests can plant what they like.

Samples of an arm are, per round, the nanoseconds per run of each of its blocks. In a round the arms' blocks alternate,
so whatever slows the machine for longer than a block slows all arms of the round alike; ratios are therefore taken
within rounds, and the median over rounds is reported.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

Samples = Sequence[Sequence[float]]
Verdict = Literal["faster", "slower", "no difference"]

FLOOR: Final = 0.005
"""The narrowest null band: half a percent, below which no claim is made however quiet the machine was."""


@dataclass(frozen=True)
class Ratio:
    """An arm against the control.

    p50, p90: medians over rounds of the ratio of the rounds' medians, 90th percentiles. spread: largest minus smallest
    p50 ratio of a round. won: rounds with a ratio below 1. us, control_us: median microseconds per run.
    """

    p50: float
    p90: float
    spread: float
    won: int
    rounds: int
    us: float
    control_us: float


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` of the values do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * share - 1e-9) - 1)]


def round_ratios(arm: Samples, control: Samples) -> list[float]:
    """Per round: median of the arm's blocks over median of the control's."""
    return [statistics.median(a) / statistics.median(c) for a, c in zip(arm, control, strict=True)]


def ratio(arm: Samples, control: Samples) -> Ratio:
    """The arm's figures against the control's."""
    p50 = round_ratios(arm, control)
    p90 = [percentile(a, 0.9) / percentile(c, 0.9) for a, c in zip(arm, control, strict=True)]
    return Ratio(
        p50=statistics.median(p50),
        p90=statistics.median(p90),
        spread=max(p50) - min(p50),
        won=sum(value < 1 for value in p50),
        rounds=len(p50),
        us=microseconds(arm),
        control_us=microseconds(control),
    )


def null_band(again: Samples, control: Samples) -> float:
    """How far from 1 the ratio of two equal arms may lie here: of the control against itself.

    The median of n ratios with standard deviation s has a standard error of 1.2533 s / sqrt(n). The band is the A/A
    median's own distance from 1 plus three such errors, s estimated by 1.4826 times the median absolute deviation.
    """
    ratios = round_ratios(again, control)
    middle = statistics.median(ratios)
    deviation = 1.4826 * statistics.median(abs(value - middle) for value in ratios)
    return max(FLOOR, abs(middle - 1) + 3 * 1.2533 * deviation / math.sqrt(len(ratios)))


def verdict(p50: float, band: float) -> Verdict:
    """What may be said of a ratio."""
    if abs(p50 - 1) <= band:
        return "no difference"
    return "faster" if p50 < 1 else "slower"


def drift(control: Samples) -> float:
    """How much the control moved over the rounds: largest minus smallest round median, over their median."""
    medians = [statistics.median(blocks) for blocks in control]
    return (max(medians) - min(medians)) / statistics.median(medians)


def drifted_rounds(control: Samples, band: float) -> list[int]:
    """Rounds in which the control was further from its own median than the band: marked in reports, never dropped."""
    medians = [statistics.median(blocks) for blocks in control]
    middle = statistics.median(medians)
    return [k for k, value in enumerate(medians) if abs(value / middle - 1) > band]


def microseconds(samples: Samples) -> float:
    """The median over all blocks."""
    return statistics.median(value for blocks in samples for value in blocks) / 1000
