"""The verifier: two outcomes of a case to a verdict. It knows neither where the case comes from nor what an arm is.

Bits are compared as bits. A case that the reference declines must be declined, one that it computes must be computed.
Foreign arms have made no such promise: how far they are off is measured, and nothing is asserted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ortwin.conformance.conform.case import Array, Case, Operand
from ortwin.conformance.conform.outcome import Declined, Failed, Made, NotAsked, Outcome
from ortwin.ref.tensor import FLOAT, dtype_name

FORMATS: Final = {FLOAT: (4, 23), 10: (2, 10), 11: (8, 52), 16: (2, 7)}
"""Bytes and fraction bits of the IEEE 754 formats among the element types."""


@dataclass(frozen=True)
class Difference:
    """Where an arm first disagrees. inputs, observed, expected are hex bytes, as in memory; index counts in C order."""

    what: str
    count: int = 0
    index: int | None = None
    position: tuple[int, ...] = ()
    inputs: tuple[str, ...] = ()
    observed: str = ""
    expected: str = ""


def compare(case: Case, expected: Outcome, observed: Outcome) -> Difference | None:
    """The difference of an arm that is held to the reference's bits, if any. expected is made or declined."""
    if isinstance(observed, NotAsked):
        return None
    if isinstance(observed, Failed):
        return Difference(f"failed: {observed.reason}")
    if isinstance(expected, Failed):
        return Difference(f"the reference failed: {expected.reason}")
    if isinstance(observed, Declined):
        if not isinstance(expected, Made):
            return None if observed.reason else Difference("declined without a reason")
        return Difference(f"declined, but the reference computes it: {observed.reason}")
    if not isinstance(expected, Made):
        return Difference(f"computed, but the reference declines it: {expected.reason}")
    if observed.damage:
        return Difference(observed.damage)
    differences = (_difference(case, *pair) for pair in zip(observed.outputs, expected.outputs, strict=True))
    return next((difference for difference in differences if difference is not None), None)


def _difference(case: Case, got: Operand, want: Operand) -> Difference | None:
    """The first one of an output."""
    if (got.dtype, got.shape) != (want.dtype, want.shape):
        return Difference(f"made {_described(got)}, expected {_described(want)}")
    if got.data == want.data:
        return None
    ours, theirs = _items(got), _items(want)
    bad = np.flatnonzero((ours != theirs).any(axis=1))
    at = int(bad[0])
    position = tuple(int(k) for k in np.unravel_index(at, got.shape)) if got.shape else ()
    inputs = tuple("" if item is None else _hex_at(item, at, got.size) for item in case.inputs)
    what = f"{bad.size} of {got.size} elements differ, first at {list(position)}"
    return Difference(what, int(bad.size), at, position, inputs, ours[at].tobytes().hex(), theirs[at].tobytes().hex())


def _described(item: Operand) -> str:
    return f"{dtype_name(item.dtype)}{list(item.shape)}"


def _items(item: Operand) -> npt.NDArray[np.uint8]:
    """The bytes, a row per element."""
    return np.frombuffer(item.data, np.uint8).reshape(item.size, -1) if item.size else np.empty((0, 1), np.uint8)


def _hex_at(item: Operand, index: int, size: int) -> str:
    """The element at the index if the operand has the output's size, else its first eight."""
    rows = _items(item)
    chosen = rows[index : index + 1] if item.size == size else rows[:8]
    return " ".join(row.tobytes().hex() for row in chosen)


@dataclass
class Measure:
    """What a foreign arm does differently, over cases.

    ulp: the largest distance, in representable numbers, of two finite results, found at `worst` (label, input,
    observed, expected as hex bytes). differing: elements with other bits; payload, nan, inf and zero those of them
    where both are a NaN, where only one is, where one is an infinity and the other neither that one nor a NaN, where
    both are zero of different sign. damaged: cases in which something else was written, or the output has another type
    or shape.
    """

    ulp: int = 0
    worst: tuple[str, str, str, str] | None = None
    elements: int = 0
    differing: int = 0
    payload: int = 0
    nan: int = 0
    inf: int = 0
    zero: int = 0
    damaged: int = 0

    def add(self, case: Case, expected: Outcome, observed: Outcome) -> None:
        """Takes one case into account; nothing is compared unless both made something of the same type and shape."""
        if not isinstance(expected, Made) or not isinstance(observed, Made):
            return
        self.damaged += bool(observed.damage)
        for got, want in zip(observed.outputs, expected.outputs, strict=True):
            self._add(case, got, want)

    def _add(self, case: Case, got: Operand, want: Operand) -> None:
        if (got.dtype, got.shape) != (want.dtype, want.shape):
            self.damaged += 1
            return
        self.elements += got.size
        if got.data == want.data:
            return
        other = (_items(got) != _items(want)).any(axis=1)
        self.differing += int(other.sum())
        if want.dtype not in FORMATS:
            return
        (a, b), inf = (_magnitudes(item) for item in (got, want)), infinity(want.dtype)
        signs = _signs(got) != _signs(want)
        self.payload += int((other & (a > inf) & (b > inf)).sum())
        self.nan += int(((a > inf) != (b > inf)).sum())
        self.inf += int(((a <= inf) & (b <= inf) & ((a == inf) | (b == inf)) & ((a != b) | signs)).sum())
        self.zero += int(((a == 0) & (b == 0) & signs).sum())
        finite = (a < inf) & (b < inf)
        steps = np.where(finite, np.where(signs, a + b, np.maximum(a, b) - np.minimum(a, b)), 0)
        at = int(steps.argmax())
        if int(steps[at]) > self.ulp:
            self.ulp = int(steps[at])
            at_input = _hex_at(case.x, at, got.size)
            self.worst = case.label, at_input, _hex_at(got, at, got.size), _hex_at(want, at, got.size)


def infinity(dtype: int) -> int:
    """The pattern of positive infinity."""
    size, fraction = FORMATS[dtype]
    return (1 << 8 * size - 1) - (1 << fraction)


def _patterns(item: Operand) -> npt.NDArray[Any]:
    size, _ = FORMATS[item.dtype]
    return np.frombuffer(item.data, f"u{size}").astype(np.uint64)


def _magnitudes(item: Operand) -> Array:
    size, _ = FORMATS[item.dtype]
    return _patterns(item) & np.uint64((1 << 8 * size - 1) - 1)


def _signs(item: Operand) -> Array:
    size, _ = FORMATS[item.dtype]
    return _patterns(item) >> np.uint64(8 * size - 1)
