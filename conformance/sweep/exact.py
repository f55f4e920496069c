"""True values by mpmath, with as many digits as a decision takes: close calls and final figures."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from ortwin.conformance.sweep.elementary import mpmath
from ortwin.conformance.sweep.functions import Function

START: Final = 200
"""Bits; twice as many follow until two evaluations agree."""

AGREEMENT: Final = 120
"""Bits in which they must agree."""

MOST: Final = 12800
"""Bits after which what still looks like a tie is one: rational functions have some, and others only in a limit."""

OVERFLOW: Final = 2.0**128 - 2.0**103  # from here on the nearest binary32 number is infinity


def true_value(function: Function, x: float, bits: int = START) -> Any:
    """f(x) as an mpmath number good to AGREEMENT bits: cancellation and all, since more digits must not change it."""
    m = mpmath()
    before = None
    while True:
        with m.workprec(bits):
            value = +m.mpf(function.exact(m.mpf(x)))
            if before is not None and abs(value - before) <= abs(value) * m.ldexp(1, -AGREEMENT):
                return value
        if bits > 2 * MOST:
            raise ArithmeticError(f"{bits} bits don't settle f({x!r})")
        before, bits = value, 2 * bits


def _unit(value: Any) -> int:
    """The exponent of binary32's last place at a value; below the normal numbers that of the subnormals."""
    if not value:
        return -149
    return int(max(mpmath().frexp(value)[1] - 24, -149))


def rounded(function: Function, x: float) -> float:
    """f(x) correctly rounded to binary32, ties to even."""
    m = mpmath()
    for bits in (START, MOST):
        value = true_value(function, x, bits)
        if abs(value) >= OVERFLOW:
            return math.copysign(math.inf, value)
        with m.workprec(3 * MOST):  # only scaled and cut here: exact
            unit = _unit(value)
            scaled = m.ldexp(abs(value), -unit)
            whole = int(m.floor(scaled))
            rest = scaled - whole - m.mpf(1) / 2
            if abs(rest) > scaled * m.ldexp(1, -AGREEMENT + 8 if bits == START else -MOST + 8):
                return math.copysign(math.ldexp(whole + (rest > 0), unit), value)
    return math.copysign(math.ldexp(whole + (whole & 1), unit), value)


def error_in_ulp(function: Function, x: float, y: float) -> float:
    """|y - f(x)| in units of binary32's last place at f(x); infinite if only one of them is a finite number."""
    m = mpmath()
    if not math.isfinite(x):
        return 0.0
    value = true_value(function, x)
    if abs(value) >= OVERFLOW:
        return 0.0 if y == math.copysign(math.inf, value) else math.inf
    if not math.isfinite(y):
        return math.inf
    with m.workprec(START):
        return float(m.ldexp(abs(m.mpf(y) - value), -_unit(value)))


def number(bits: int) -> float:
    """The value of a binary32 bit pattern."""
    return float(np.array(bits, np.uint32).view(np.float32))
