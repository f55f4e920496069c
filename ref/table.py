"""Look-up tables of binary32 numbers, written as text so that every digit is that of the fit that made them; and the
polynomials by segments that most of them hold.

What several numbers describe is a tuple here and in the families: compiled, a tuple of floats costs nothing, while an
object of a class is allocated.
"""

from __future__ import annotations

from typing import Final

from librt.vecs import append, vec
from mypy_extensions import i64

from ortwin.ref.binary32 import add, fma, mul, sub

Segment = tuple[float, float, float, float, float, float, float, float]
"""A polynomial in t = x - s[0], whose coefficients c0 to c6 are s[1] to s[7]."""


def table(text: str) -> vec[float]:
    """The hexadecimal floats in text, which blanks separate."""
    numbers = vec[float]()
    for number in text.split():
        numbers = append(numbers, float.fromhex(number))
    return numbers


def segment(numbers: vec[float], index: i64) -> Segment:
    """The segment that the low 5 bits of index name."""
    at = 8 * (index & 31)
    return (
        numbers[at],
        numbers[at + 1],
        numbers[at + 2],
        numbers[at + 3],
        numbers[at + 4],
        numbers[at + 5],
        numbers[at + 6],
        numbers[at + 7],
    )


def eighths(v: float) -> i64:
    """The exponent field and the first three mantissa bits of v: one more for each eighth of an octave
    [2^e, 2^(e + 1)). The low 5 bits name a segment. 1/2 <= v < 256, and more would only take longer."""
    exponent: i64 = 127
    while v >= 2.0:
        v *= 0.5
        exponent += 1
    if v < 1.0:
        v *= 2.0
        exponent -= 1
    eighth: i64 = int(8.0 * v) - 8
    return 8 * exponent + eighth


def slope_4(s: Segment, t: float) -> float:
    """c1 + t (c2 + t (c3 + t c4)): the function at centre + t is c0 + t times this."""
    return fma(t, fma(t, fma(t, s[5], s[4]), s[3]), s[2])


def slope_5(s: Segment, t: float) -> float:
    """The same with c5."""
    return fma(t, fma(t, fma(t, fma(t, s[6], s[5]), s[4]), s[3]), s[2])


def slope_6(s: Segment, t: float) -> float:
    """The same with c6."""
    return fma(t, fma(t, fma(t, fma(t, fma(t, s[7], s[6]), s[5]), s[4]), s[3]), s[2])


def around_minimum(v: vec[float], x: float, y: float) -> float:
    """y, but near a minimum, where d^2 < v[1] with d = x - v[0], the polynomial v[2] + (v[3] + d^2 (v[4] + d (v[5] +
    ... d v[8]))). A step of x moves the function by far less than a last place there; rounding errors outweigh it on
    every way but this one, whose steps are all monotone."""
    d = sub(x, v[0])
    s = mul(d, d)
    if not s < v[1]:
        return y
    q = fma(d, fma(d, fma(d, fma(d, v[8], v[7]), v[6]), v[5]), v[4])
    return add(v[2], fma(s, q, v[3]))


def _powers_of_two() -> vec[float]:
    numbers = vec[float]()
    for k in range(-POWERS, POWERS + 1):
        numbers = append(numbers, 2.0**k)
    return numbers


POWERS: Final = 320
_POWERS_OF_TWO: Final = _powers_of_two()


def power_of_two(k: i64) -> float:
    """2^k, |k| <= 320, as a binary64 number."""
    return _POWERS_OF_TWO[k + POWERS]


def octave(x: float) -> i64:
    """The e of 2^e <= x < 2^(e + 1), 2^-256 <= x < 2^255."""
    e: i64 = -256
    step: i64 = 256
    while step > 0:
        if x >= power_of_two(e + step):
            e += step
        step >>= 1
    return e
