"""Look-up tables of binary32 numbers, written as text so that every digit is that of the fit that made them; and the
polynomials by segments that most of them hold.

What several numbers describe is a tuple here and in the families: compiled, a tuple of floats costs nothing, while an
object of a class is allocated.
"""

from __future__ import annotations

from typing import Final

from librt.vecs import append, vec
from mypy_extensions import i64

from ortwin.ref.binary32 import fma

Segment = tuple[float, float, float, float, float, float, float, float]
"""A polynomial in t = x - centre: centre and its coefficients c0 to c6."""


def table(text: str) -> vec[float]:
    """The hexadecimal floats in text, which blanks separate."""
    numbers = vec[float]()
    for number in text.split():
        numbers = append(numbers, float.fromhex(number))
    return numbers


def segment(numbers: vec[float], index: i64) -> Segment:
    """One segment of a table of segments."""
    at = 8 * index
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


def octave_segment(v: float, parts: i64 = 8) -> i64:
    """The segment, 0 to 31, of 1/2 <= v < 256: 8 or 4 for each octave [2^e, 2^(e + 1)), in turn; 24 or 28 is the first
    of [1, 2)."""
    octave: i64 = 0
    while v >= 2.0:
        v *= 0.5
        octave += 1
    if v < 1.0:
        v *= 2.0
        octave -= 1
    part: i64 = int((v - 1.0) * float(parts))
    return (parts * (127 + octave) + part) & 31


def slope_4(s: Segment, t: float) -> float:
    """c1 + t (c2 + t (c3 + t c4)): the function at centre + t is c0 + t times this."""
    _, _, c1, c2, c3, c4, _, _ = s
    return fma(t, fma(t, fma(t, c4, c3), c2), c1)


def slope_5(s: Segment, t: float) -> float:
    """The same with c5."""
    _, _, c1, c2, c3, c4, c5, _ = s
    return fma(t, fma(t, fma(t, fma(t, c5, c4), c3), c2), c1)


def slope_6(s: Segment, t: float) -> float:
    """The same with c6."""
    _, _, c1, c2, c3, c4, c5, c6 = s
    return fma(t, fma(t, fma(t, fma(t, fma(t, c6, c5), c4), c3), c2), c1)


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
