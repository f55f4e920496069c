"""IEEE 754 binary32 arithmetic, each operation rounded once, to nearest with ties to even.

Floats in this file, and wherever it is used, are Python floats (binary64) HOLDING binary32 VALUES: every argument but
``round``'s is one, every result is one. Subnormals count (C4), nothing raises, and a NaN result is NAN (C3).

Why it is exact. The sum, difference, product, quotient or square root of binary32 values, rounded to binary64 and then
to binary32, equals the value rounded to binary32 at once, because 53 >= 2 * 24 + 2 (Figueroa 1995). That does not hold
for the fused multiply-add, which takes care of the one case that goes wrong. The tricks below die if a compiler
contracts a * b + c into one operation or reassociates, so importing this module fails in a build that does.
"""

from __future__ import annotations

import math
from typing import Final

NAN: Final = math.nan
INF: Final = math.inf
MIN_NORMAL: Final = 2.0**-126
MAX: Final = 2.0**128 - 2.0**104
OVERFLOW: Final = 2.0**128 - 2.0**103  # midway between MAX and 2^128: a tie goes to the even 2^128, to infinity


def round(x: float) -> float:
    """The binary32 value nearest to a binary64 one, ties to even."""
    a = abs(x)
    if MIN_NORMAL <= a < OVERFLOW:
        # g - (g - x) is x cut to about 24 bits (Veltkamp). 2^29 times it added to x leaves a sum whose last place is
        # the last place of x in binary32: binary64's own rounding of x + c is the rounding we want.
        g = (2.0**29 + 1.0) * x
        c = (g - (g - x)) * 2.0**29
        return (x + c) - c
    if a < MIN_NORMAL:
        # The spacing of binary64 in [2^-97, 2^-96) is 2^-149, that of binary32's subnormals.
        return math.copysign((a + 1.5 * 2.0**-97) - 1.5 * 2.0**-97, x)
    if a >= OVERFLOW:
        return math.copysign(INF, x)
    return NAN


def add(a: float, b: float) -> float:
    """a + b (IEEE 754 5.4.1)."""
    return round(a + b)


def sub(a: float, b: float) -> float:
    """a - b (IEEE 754 5.4.1)."""
    return round(a - b)


def mul(a: float, b: float) -> float:
    """a * b (IEEE 754 5.4.1)."""
    return round(a * b)


def div(a: float, b: float) -> float:
    """a / b (IEEE 754 5.4.1). x / 0 is an infinity of the sign rule, 0 / 0 is NAN."""
    if b == 0.0:  # Python raises here
        if a == 0.0 or a != a:
            return NAN
        return math.copysign(INF, a) * math.copysign(1.0, b)
    return round(a / b)


def sqrt(x: float) -> float:
    """Square root (IEEE 754 5.4.1). sqrt(-0.0) is -0.0; below zero NAN."""
    if x < 0.0:  # Python raises here
        return NAN
    return round(math.sqrt(x))


def fma(a: float, b: float, c: float) -> float:
    """a * b + c with one rounding (IEEE 754 5.4.1)."""
    p = a * b  # exact: 48 bits
    s = p + c
    r = round(s)
    # Rounding twice is right unless s, already rounded, lies exactly midway between two binary32 numbers: then it has
    # at most 25 significant bits. Veltkamp's cut to 25 bits leaves such an s as it is, and nearly no other.
    g = (2.0**28 + 1.0) * s
    if g - (g - s) != s:
        return r
    return _fma_tie(p, c, s, r)


def _fma_tie(p: float, c: float, s: float, r: float) -> float:
    """fma when s = p + c may be a tie: the part of p + c that s lost, if any, says on which side the true sum lies."""
    t = s - p
    lost = (p - (s - t)) + (c - t)  # TwoSum: p + c = s + lost exactly
    if lost == 0.0 or lost != lost:
        return r
    if math.isinf(r):
        # Only at s = +-OVERFLOW can what was lost bring the sum back below the tie.
        return math.copysign(MAX, s) if abs(s) == OVERFLOW and (lost < 0.0) == (s > 0.0) else r
    other = s + (s - r)  # r mirrored in s: binary32's neighbour of r if s is midway, else no binary32 number
    if round(other) != other:
        return r
    if lost > 0.0:
        return other if other > r else r
    return other if other < r else r


def rint(x: float) -> float:
    """The integer nearest to x, ties to even, sign of x kept (IEEE 754 5.3.1 roundToIntegralTiesToEven)."""
    a = abs(x)
    if a < 2.0**23:  # from 2^23 on the spacing is 1: adding 2^23 rounds to an integer, subtracting it is exact
        return math.copysign(sub(add(a, 2.0**23), 2.0**23), x)
    return round(x)


def _multiply_add(a: float, b: float, c: float) -> float:
    return a * b + c


def _check_arithmetic() -> None:
    """ImportError unless a * b + c rounds twice here and round and fma give what they must.

    The operands are read from text at run time, so that no compiler can do these sums in advance.
    """
    hexa = float.fromhex
    a, minus_square = hexa("0x1.00000004p+0"), hexa("-0x1.00000008p+0")  # a * a = 1 + 2^-29 + 2^-60; 2^-60 must go
    tie_fma = fma(hexa("0x1.000002p-12"), hexa("0x1.fffffcp-13"), hexa("0x1.000002p+0"))  # tie less 2^-70: down
    if (
        _multiply_add(a, a, minus_square) != 0.0
        or round(hexa("0x1.000001p+0")) != 1.0
        or round(hexa("-0x1.8000018p+1")) != hexa("-0x1.800002p+1")
        or tie_fma != hexa("0x1.000002p+0")
    ):
        raise ImportError(
            "ortwin.ref was compiled with floating-point contraction or reassociation, which breaks its exact "
            "arithmetic; build it with -ffp-contract=off and without -ffast-math"
        )


_check_arithmetic()
