"""Measures of one arm against one evaluation of the yardstick, chunk by chunk.

A chunk is a run of consecutive bit patterns of one sign within one binade, so directions and tolerances hold for all of
it. Errors are in units of binary32's last place at the true value, that of the subnormals below the normal numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ortwin.conformance.sweep import exact
from ortwin.conformance.sweep.arms import Arm, Bits, Floats
from ortwin.conformance.sweep.functions import Function

SIGN: Final = 0x80000000
INFINITY: Final = 0x7F800000
CANONICAL: Final = 0x7FC00000
SMALLEST_NORMAL: Final = 0x00800000

CLASSES: Final[dict[str, int]] = {
    f"{sign}{name}": bits | mask
    for name, bits in {
        "0": 0,
        "smallest subnormal": 1,
        "largest subnormal": SMALLEST_NORMAL - 1,
        "largest": INFINITY - 1,
        "infinity": INFINITY,
    }.items()
    for sign, mask in (("+", 0), ("-", SIGN))
}
"""Special results by bit pattern; NaNs are counted as canonical and other ones."""

STICKY: Final = 2.0**-172
"""Stands for the positive rest of f(x) - x/2 where x/2 is subnormal: it breaks ties and moves nothing else."""


@dataclass
class Measures:
    """What is known of an arm over some inputs.

    max_ulp: largest error, infinite for a NaN or an infinity where a number is due or the reverse. worst: the first
    input, as bits, that has it; result: what it gave. not_rounded: results that are not the correctly rounded ones;
    monotonicity: neighbours that run against the function; range: results outside the range; oddness: inputs below 0
    where f(-x) is not -f(x); zero_sign: zeros of the wrong sign; classes: number of results by class.
    """

    max_ulp: float = -1.0
    worst: int = 0
    result: int = 0
    not_rounded: int = 0
    monotonicity: int = 0
    range: int = 0
    oddness: int = 0
    zero_sign: int = 0
    classes: dict[str, int] = field(default_factory=dict)

    def add(self, other: Measures) -> None:
        """Takes in the measures of further inputs."""
        if (other.max_ulp, -other.worst) > (self.max_ulp, -self.worst):
            self.max_ulp, self.worst, self.result = other.max_ulp, other.worst, other.result
        self.not_rounded += other.not_rounded
        self.monotonicity += other.monotonicity
        self.range += other.range
        self.oddness += other.oddness
        self.zero_sign += other.zero_sign
        for name, count in other.classes.items():
            self.classes[name] = self.classes.get(name, 0) + count

    def as_json(self) -> dict[str, Any]:
        """Plain data; JSON has no infinity."""
        return {**self.__dict__, "max_ulp": self.max_ulp if math.isfinite(self.max_ulp) else "inf"}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Measures:
        """The reverse of as_json."""
        return cls(**{**data, "max_ulp": float(data["max_ulp"])})


class Truth:
    """The yardstick on a chunk: value in binary64, the same rounded to binary32, and 1/ulp."""

    def __init__(self, function: Function, bits: Bits) -> None:
        self.function = function
        self.bits = bits
        self.x: Floats = bits.view(np.float32)
        self.negative = bool(bits[0] & SIGN)
        with np.errstate(all="ignore"):
            x = self.x.astype(np.float64)
            self.value = np.ascontiguousarray(function.value(x))
            self.tolerance = function.error * 2.0**24  # in ulp, since a value is below 2^24 of its last places
            if function.halves and (int(bits[-1]) & ~SIGN) < 2 * SMALLEST_NORMAL:  # where x/2 is subnormal
                self.value = np.where(x == 0.0, self.value, x * 0.5 + STICKY)
                self.tolerance = 0.0
            self.rounded: Floats = self.value.astype(np.float32)
        exponent = self.value.view(np.int64) >> 52
        exponent &= 0x7FF
        np.maximum(exponent, 1023 - 126, out=exponent)
        np.subtract(2 * 1023 + 23, exponent, out=exponent)  # the biased exponent of 1 / 2^(exponent - 23)
        exponent <<= 52
        self.per_ulp = exponent.view(np.float64)

    def measure(self, y: Floats, arm: Arm) -> Measures:
        """All measures of an arm's results on this chunk."""
        made = Measures()
        with np.errstate(all="ignore"):
            error = self._errors(y)
            at = int(error.argmax())
            made.max_ulp, made.worst, made.result = float(error[at]), int(self.bits[at]), int(y.view(np.uint32)[at])
            made.not_rounded = self._not_rounded(y, error)
            made.monotonicity = self._against(y)
            if self.function.low > -math.inf:
                made.range += int(np.count_nonzero(y < np.float32(self.function.low)))
            if self.function.high < math.inf:
                made.range += int(np.count_nonzero(y > np.float32(self.function.high)))
            made.classes = classes(y.view(np.uint32))
            if "+0" in made.classes or "-0" in made.classes:
                both = (y == 0.0) & (self.rounded == 0.0)
                made.zero_sign = int(np.count_nonzero(both & (np.signbit(y) != np.signbit(self.rounded))))
            if self.function.odd and self.negative:
                mirrored = arm.compute(-self.x)
                differ = (y != -mirrored) & ~(np.isnan(y) & np.isnan(mirrored))
                made.oddness = int(np.count_nonzero(differ))
        return made

    def _errors(self, y: Floats) -> npt.NDArray[np.float64]:
        error = np.subtract(y, self.value, dtype=np.float64)
        np.abs(error, out=error)
        error *= self.per_ulp
        if not math.isfinite(float(error.max())):  # a NaN is its own maximum
            special = ~(np.isfinite(y) & np.isfinite(self.rounded))
            same = (y == self.rounded) | (np.isnan(y) & np.isnan(self.rounded))
            error[special] = np.where(same[special], 0.0, np.inf)
        return error

    def _not_rounded(self, y: Floats, error: npt.NDArray[np.float64]) -> int:
        wrong = y != self.rounded
        count = int(np.count_nonzero(wrong))
        if count and np.isnan(self.rounded).any():
            count -= int(np.count_nonzero(np.isnan(y) & np.isnan(self.rounded)))
        if self.tolerance:
            close = np.abs(error - 0.5) < self.tolerance
            if close.any():  # half a last place away; from a power of 2 the next number below is that far, too
                close &= np.abs(np.abs(self.rounded - self.value) * self.per_ulp - 0.5) < self.tolerance
                for at in np.flatnonzero(close):
                    right = exact.rounded(self.function, float(self.x[at]))
                    count += int(float(y[at]) != right) - int(wrong[at])
        return count

    def _against(self, y: Floats) -> int:
        """Neighbours that run the wrong way; a NaN is nobody's."""
        turn = turn_bits(self.function)
        first, last = int(self.bits[0]), int(self.bits[-1])
        if last & ~SIGN > INFINITY:
            last = max(first, last & SIGN | INFINITY)
            y = y[: last - first + 1]
        if turn is not None and first < turn < last:  # falls towards 0 and rises beyond, or the reverse
            cut = turn - first
            near, far = y[: cut + 1], y[cut + 1 :]
            return against(near, direction(self.function, first, turn)) + against(
                far, direction(self.function, turn + 1, last)
            )
        return against(y, direction(self.function, first, last))


def against(y: Floats, direction: int) -> int:
    """Number of neighbours in y that run against the direction."""
    if direction == 0:
        return 0
    before, after = y[:-1], y[1:]
    return int(np.count_nonzero(after < before if direction > 0 else after > before))


def turn_bits(function: Function) -> int | None:
    """The last pattern before the function's turn: patterns below 0 run away from 0."""
    turn = function.monotone.turn
    if turn is None:
        return None
    nearest = np.float32(turn)
    bits = int(nearest.view(np.uint32))
    return bits if float(nearest) >= turn else bits - 1


def direction(function: Function, first: int, last: int) -> int:
    """How f runs over the patterns from first to last, which have one sign; 0 if nothing is claimed for all of them."""
    monotone = function.monotone
    if not first & SIGN:
        return monotone.positive
    turn = turn_bits(function)
    if turn is None or last <= turn:
        return -monotone.negative
    return monotone.negative if first > turn else 0


def border(function: Function, first: int, last: int, before: float, after: float) -> int:
    """1 if f(before) and f(after), at the neighbouring inputs first and last, run the wrong way, else 0."""
    way = direction(function, first, last)
    return against(np.array([before, after], np.float32), way)


def zero_border(function: Function, below: float, above: float) -> int:
    """The same at 0, from f(-0.0) to f(+0.0)."""
    monotone = function.monotone
    if not monotone.joined or monotone.negative != monotone.positive:
        return 0
    return against(np.array([below, above], np.float32), monotone.positive)


def classes(bits: Bits) -> dict[str, int]:
    """Number of results by class, of the classes that occur."""
    found = {name: int(np.count_nonzero(bits == np.uint32(pattern))) for name, pattern in CLASSES.items()}
    nans = int(np.count_nonzero((bits & np.uint32(~SIGN & 0xFFFFFFFF)) > np.uint32(INFINITY)))
    if nans:
        found["canonical NaN"] = int(np.count_nonzero(bits == np.uint32(CANONICAL)))
        found["other NaN"] = nans - found["canonical NaN"]
    return {name: count for name, count in found.items() if count}
