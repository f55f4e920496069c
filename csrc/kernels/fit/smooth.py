"""Constants of Gelu (approximate=none), Softplus and Mish, smooth forms of Relu. With a = |x| they are
base + e^-s F(a), where

    Gelu      s = a^2 / 2  base x / 2 for a < 1/2, else max(x, 0)
    Softplus  s = a        base max(x, 0); x / 2 and s = 0 for a < 1/6
    Mish      s = a        base x / 2 for -2/3 < x < 5/24, else max(x, 0); the second term times x

so that F varies little, and what is added to base is small where rounding it would matter. F is a polynomial by
segments, c0 + t q(t), t = a - centre, named by the octave and first mantissa bits of some v = 1 + scale a. Each centre
is a number near the middle of its segment at which F is nearly a binary32 number (after Gal and Bachelis, ACM TOMS
17(1), 1991).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath as mp
import numpy as np

from fitting import Tables, binary32, minimax_polynomial, nodes, ulp, valley

Function = Callable[[Any], Any]

HALF = mp.mpf(1) / 2
GELU_END = 14.5
GELU_MIDDLES = {0.125: 0.42, 0.25: 0.5, 0.375: 0.52}  # by where a segment begins; chosen by sweeps
SOFTPLUS_SCALE = 0.75
MISH_SCALE = 0.75
MISH_SCALE_ABOVE = binary32(1.2)


def centre_near(f: Function, middle: float, width: float) -> tuple[float, float]:
    """(centre, c0): the number near middle at which f is nearest to a binary32 number, and that number."""
    middle = binary32(middle)
    numbers = [binary32(middle + d * ulp(middle)) for d in range(-300, 301)]
    found = min((_distance(f, centre), k, centre) for k, centre in enumerate(numbers))
    if found[0] >= 0.01:  # f is so flat here that it passes no binary32 number: look where it takes one
        found = (*found[:2], _inverse(f, middle, width, found))
    return found[2], binary32(f(mp.mpf(found[2])))


def _distance(f: Function, centre: float) -> float:
    value = f(mp.mpf(centre))
    return float(abs(value - mp.mpf(binary32(value)))) / ulp(value)


def _inverse(f: Function, middle: float, width: float, found: tuple[float, int, float]) -> float:
    near = binary32(f(mp.mpf(middle)))
    least, _, best = found
    for d in range(-200, 201):
        c0 = near + d * ulp(near)
        try:
            centre = binary32(mp.findroot(lambda a, c0=c0: f(a) - mp.mpf(c0), mp.mpf(middle)))
        except (ValueError, ZeroDivisionError):  # no root, or none that the secant finds
            continue
        if abs(centre - middle) < 1.2 * width:
            penalty = 0.01 * abs(centre - middle) / width
            if _distance(f, centre) + penalty < least:
                least, best = _distance(f, centre) + penalty, centre
    return best


def polynomial(
    f: Function,
    ends: tuple[float, float],
    start: tuple[float, float],
    result: Function,
    degree: int,
    even: bool = False,
) -> list[float]:
    """centre, c0, c1, ... for f between the ends, start being the first two, where result is what the error counts
    against. An even function has no c1."""
    centre, c0 = start
    t = nodes(ends[0] - centre, ends[1] - centre, 120)
    t = t[np.abs(t) > 1e-6]
    exact = [mp.mpf(x) + mp.mpf(centre) for x in t]
    target = np.array([float((f(a) - mp.mpf(c0)) / (a - mp.mpf(centre))) for a in exact])
    weight = np.array([float(abs(x) / abs(result(a))) for x, a in zip(t, exact, strict=True)])
    if even:
        return [centre, c0, 0.0, *minimax_polynomial(t, target / t, weight * t, degree - 2)[0]]
    return [centre, c0, *minimax_polynomial(t, target, weight, degree - 1)[0]]


def octaves(parts: int, scale: float, first: int = 0) -> list[tuple[int, float, float]]:
    """(entry, low, high) of the segments of a: v = 1 + scale a < 16 in parts for each octave; entries as if v were
    2^first times that."""
    found = []
    for octave in range(4):
        for part in range(parts):
            low, high = (2.0**octave * (1 + k / parts) for k in (part, part + 1))
            found.append(((127 + first + octave) * parts + part & 31, (low - 1) / scale, (high - 1) / scale))
    return found


def gelu_rows() -> list[list[float]]:
    def below(a: Any) -> Any:
        return -a * mp.erf(a / mp.sqrt(2)) / 2 * mp.exp(a * a / 2)

    def above(a: Any) -> Any:
        return a * mp.erfc(a / mp.sqrt(2)) / 2 * mp.exp(a * a / 2)

    rows: dict[int, list[float]] = {}
    for entry, low, high in octaves(8, 1.0):
        high = min(high, GELU_END)
        f = below if high <= 0.5 else above
        middle = low + (high - low) * GELU_MIDDLES.get(low, 0.5)
        start = centre_near(f, middle, high - low) if low > 0 else (0.0, 0.0)
        rows[entry] = polynomial(f, (low, high), start, above, 5)
    return [rows[entry] for entry in range(32)]


def softplus_rows() -> list[list[float]]:
    def f(a: Any) -> Any:
        return mp.log1p(mp.exp(-a)) * mp.exp(a)

    def around_zero(a: Any) -> Any:
        return mp.log(2 * mp.cosh(a / 2))

    rows: dict[int, list[float]] = {}
    *segments, last = octaves(8, SOFTPLUS_SCALE)
    for entry, low, high in segments:
        if low == 0:
            start = (0.0, binary32(mp.log(2)))
            rows[entry] = polynomial(around_zero, (low, high), start, around_zero, 4, even=True)
        else:
            rows[entry] = polynomial(f, (low, high), centre_near(f, (low + high) / 2, high - low), f, 4)
    rows[last[0]] = [0.0, 1.0]  # 1 - F < 2^-27
    return [rows[entry] for entry in range(32)]


def mish_rows() -> list[list[float]]:
    def tanh_softplus(x: Any) -> Any:
        n = mp.exp(x) * (mp.exp(x) + 2)
        return n / (n + 2)

    rows: dict[int, list[float]] = {}
    for sign, scale, first, joined in ((-1, MISH_SCALE, 0, 2), (1, MISH_SCALE_ABOVE, 4, 1)):
        *segments, last = octaves(4, scale, first)
        for k, (entry, low, high) in enumerate(segments):
            base = HALF if k < joined else mp.mpf(sign > 0)

            def f(a: Any, sign: int = sign, base: Any = base) -> Any:
                return (tanh_softplus(sign * a) - base) * mp.exp(a)

            def result(a: Any, sign: int = sign) -> Any:
                return tanh_softplus(sign * a) * mp.exp(a)

            middle = binary32((low + high) / 2)
            start = (middle, binary32(f(mp.mpf(middle))))  # x > 0: the term is too small here for its error to count
            if low == 0:
                start = (0.0, binary32(f(mp.mpf(0))))
            elif sign < 0 or k < 12:
                start = centre_near(f, middle, high - low)
            rows[entry] = polynomial(f, (low, high), start, result, 6)
        rows[last[0]] = [0.0, float(sign < 0)]
    return [rows[entry] for entry in range(32)]


def main() -> None:
    tables = Tables("smooth", "Tables of Gelu, Softplus and Mish.")
    tables.segments("GELU_SEGMENTS", gelu_rows(), "Gelu: F")
    tables.segments("SOFTPLUS_SEGMENTS", softplus_rows(), "Softplus: F")
    tables.segments("MISH_SEGMENTS", mish_rows(), "Mish: F, for x < 0 and for x > 0")
    stretch = binary32(16 * MISH_SCALE_ABOVE / MISH_SCALE)
    tables.constant("MISH_STRETCH", stretch, "from v = 1 + 3 a / 4 to 16 (1 + 1.2 a): the factor")
    tables.constant("MISH_SHIFT", 16 - stretch, "and what is added")
    tables.table("GELU_VALLEY", valley(lambda x: x * mp.ncdf(x), -0.75, 0.0228), "around the minimum of Gelu")
    tables.table("MISH_VALLEY", valley(lambda x: x * mp.tanh(mp.log1p(mp.exp(x))), -1.19, 0.088), "of Mish")
    tables.write()


if __name__ == "__main__":
    main()
