"""Look-up tables of binary32 numbers, written as text so that every digit is that of the fit that made them."""

from __future__ import annotations

import math

from librt.vecs import append, vec
from mypy_extensions import i64


def table(text: str) -> vec[float]:
    """The hexadecimal floats in text, which blanks separate."""
    numbers = vec[float]()
    for number in text.split():
        numbers = append(numbers, float.fromhex(number))
    return numbers


def octave_segment(v: float) -> i64:
    """The segment, 0 to 31, of v > 0: eight for each octave [2^e, 2^(e + 1)), in turn; 0 is the first of [2, 4)."""
    m, e = math.frexp(v)  # 1/2 <= m < 1
    octave: i64 = e
    eighth: i64 = int(m * 16.0)
    return (8 * octave + eighth + 8) & 31


class Segment:
    """One segment of a table of segments, each centre, c0 to c5: a polynomial in x - centre."""

    def __init__(self, numbers: vec[float], index: i64) -> None:
        at = 7 * index
        self.centre = numbers[at]
        self.c0 = numbers[at + 1]
        self.c1 = numbers[at + 2]
        self.c2 = numbers[at + 3]
        self.c3 = numbers[at + 4]
        self.c4 = numbers[at + 5]
        self.c5 = numbers[at + 6]
