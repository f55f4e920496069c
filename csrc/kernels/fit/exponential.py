"""Constants of the exponential family.

exp: e^x = 2^(k + j/16 + f) = 2^k T[j] (1 + p), |f| <= 1/32, p = c1 f + (p0[j] + f^2 (c2 + c3 f)). T[j] = RN(2^(j/16)),
and p0[j] is what this rounding took. T[0] = 1 and p0[0] = 0, so around x = 0 p is as small as x. p is monotone: the
last place of the bracket is far below a step of c1 f. In p0[j] + f (c1 + ...) it is not, since the last place of the
bracket there, 2^-24, times f is more than a step of c1 f just below 0.

tanh, expm1, 1 / (1 + e^u): piecewise polynomials c0 + t (c1 + t (c2 + ...)), t = u - centre. Each centre is a short
number near the middle of its segment at which the function is, to a few hundredths of an ulp, a binary32 number; for
the last also 1 minus the function. So the only large rounding is the last one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath as mp
import numpy as np

from fitting import Tables, binary32, octave_entry, valley, weighted_polynomial

Function = Callable[[Any], Any]


def exp_core(tables: Tables) -> None:
    count = 40
    cosines = [mp.cos(mp.pi * (2 * i + 1) / (2 * count)) for i in range(count)]
    f = [c / 32 * mp.mpf("1.0005") for c in cosines]
    target = np.array([float((mp.mpf(2) ** v - 1) / v) for v in f])
    t = np.array([float(v) for v in f])
    coefficients, _ = weighted_polynomial(t, target, t, 2)
    powers = [mp.mpf(2) ** (mp.mpf(j) / 16) for j in range(16)]
    tables.table("EXP_T", (binary32(power) for power in powers), "2^(j/16)")
    tables.table("EXP_P0", (binary32(power / binary32(power) - 1) for power in powers), "2^(j/16) / EXP_T[j] - 1")
    for k, c in enumerate(coefficients, 1):
        tables.constant(f"EXP_C{k}", c)
    log2e = 1 / mp.log(2)
    tables.constant("LOG2E_HI", binary32(log2e), "log2(e)")
    tables.constant("LOG2E_LO", binary32(log2e - binary32(log2e)), "log2(e) - LOG2E_HI")


def slope(f: Function, centre: float, c0: Any, low: Any, high: Any, degree: int, linear: int = 0) -> list[float]:
    """c1, c2, ... of (f(centre + t) - c0 - linear t) / t for low <= t <= high, by weight 1 / f."""
    count = 6 * degree
    cosines = [mp.cos(mp.pi * (2 * i + 1) / (2 * count)) for i in range(count)]
    t = [v for v in ((low + high) / 2 + (high - low) / 2 * c for c in cosines) if abs(v) > 1e-9]
    y = [f(centre + v) for v in t]
    target = np.array([float((b - c0 - linear * v) / v) for v, b in zip(t, y, strict=True)])
    weight = np.array([float(v / abs(b)) for v, b in zip(t, y, strict=True)])
    return weighted_polynomial(np.array([float(v) for v in t]), target, weight, degree - 1)[0]


def centre_near(f: Function, middle: float, width: float, complement: bool, spread: float) -> tuple[float, float]:
    """(error in ulp, centre): the short number at which f, and 1 - f if asked, is nearest to a binary32 number."""
    step = 2.0 ** (np.floor(np.log2(width)) - 13)
    k0, reach = round(middle / step), int(spread * width / step)
    found = []
    for k in range(k0 - reach, k0 + reach + 1):
        value = f(mp.mpf(k * step))
        error = off_grid(value, binade_ulp(value))
        if complement:
            error = max(error, off_grid(1 - value, 2.0**-24))
        found.append((error, abs(k - k0), k * step))
    error, _, centre = min(found)
    return error, centre


def off_grid(value: Any, unit: float) -> float:
    return abs(float(value / unit - mp.nint(value / unit)))


def binade_ulp(value: Any) -> float:
    return float(2.0 ** (max(int(np.floor(np.log2(abs(float(value))))), -126) - 23))


def segment(f: Function, low: float, high: float, degree: int, complement: bool = False) -> list[float]:
    """centre, c0, c1, ..."""
    middle, width = (low + high) / 2, abs(high - low)
    error, centre = centre_near(f, middle, width, complement, 0.04)
    if error > 0.1:  # f is so flat here that few numbers qualify: look further
        error, centre = centre_near(f, middle, width, complement, 0.45)
    c0 = binary32(f(mp.mpf(centre)))
    return [centre, c0, *slope(f, mp.mpf(centre), mp.mpf(c0), low - centre, high - centre, degree)]


def by_octaves(f: Function, a: float, b: float, last: float, degree: int, sign: int, joined: int) -> list[list[float]]:
    """Segments of u >= 0 by octave and three mantissa bits of v = a u + b, up to `last`, of f(sign u).

    The first `joined` share centre 0, where what is fitted is f(u) - u. Entries that no u reaches repeat the last.
    """
    used: list[tuple[int, float, float]] = []
    v = b
    while (v - b) / a < last:
        step = 2.0 ** np.floor(np.log2(v)) / 8
        used.append((octave_entry(v), (v - b) / a, min((v - b) / a + step / a, last)))
        v += step
    rows: dict[int, list[float]] = {}
    for n, (entry, low, high) in enumerate(used):
        if n < joined:
            low, high = 0.0, used[joined - 1][2]
        ends = (low, high) if sign > 0 else (-high, -low)
        if n < joined:
            rows[entry] = [0.0, 0.0, *slope(f, mp.mpf(0.0), 0.0, *ends, degree, 1)]
        else:
            rows[entry] = segment(f, *ends, degree)
    return [rows.get(entry, rows[used[-1][0]]) for entry in range(32)]


def sigmoid_tail(u: Any) -> Any:
    return 1 / (1 + mp.exp(u))


def sigmoid_rows() -> list[list[float]]:
    """32 segments of width 3/7 for 1 / (1 + e^u), the slope negated: then the sign of x is that of the term."""
    width = 3 / 7
    first = [0.0, 0.5, *slope(sigmoid_tail, mp.mpf(0.0), 0.5, 0.0, width / 2, 5)]
    rows = [first, *(segment(sigmoid_tail, (j - 0.5) * width, (j + 0.5) * width, 5, True) for j in range(1, 32))]
    return [[centre, c0, *(-c for c in rest)] for centre, c0, *rest in rows]


def main() -> None:
    tables = Tables("exponential", "Tables of the exponential family.")
    exp_core(tables)
    tables.segments(
        "TANH_SEGMENTS", by_octaves(mp.tanh, 1.86328125, 1.125, 9.03125, 4, 1, 1), "tanh u; less u at centre 0"
    )
    tables.segments("EXPM1_SEGMENTS", by_octaves(mp.expm1, 1.0, 1.375, 20.5, 5, -1, 2), "e^u - 1; less u at centre 0")
    tables.segments("SIGMOID_SEGMENTS", sigmoid_rows(), "1 / (1 + e^u), c1 to c5 negated")
    a = 2 * mp.sqrt(2 / mp.pi)
    b = a * mp.mpf(44715) / 1000000
    a_hi = float(mp.nint(a * 2**19) / 2**19)
    tables.constant("GELU_A_HI", a_hi, "2 sqrt(2 / pi) to 20 bits")
    tables.constant("GELU_A_LO", binary32(a - a_hi), "2 sqrt(2 / pi) - GELU_A_HI")
    tables.constant("GELU_B_HI", binary32(b), "0.044715 * 2 sqrt(2 / pi)")
    tables.constant("GELU_B_LO", binary32(b - binary32(b)), "0.044715 * 2 sqrt(2 / pi) - GELU_B_HI")
    tables.table(
        "GELU_TANH_VALLEY",
        valley(lambda x: x / (1 + mp.exp(-x * (a + b * x * x))), -0.75, 0.057),
        "around the minimum of Gelu, approximate=tanh",
    )
    tables.table("SWISH_VALLEY", valley(lambda x: x / (1 + mp.exp(-x)), -1.28, 0.015), "of Swish, alpha = 1")
    quick = binary32(1.702)
    tables.constant("QUICK_ALPHA", quick, "QuickGelu's alpha")
    tables.table("QUICK_VALLEY", valley(lambda x: x / (1 + mp.exp(-mp.mpf(quick) * x)), -0.75, 0.134), "of QuickGelu")
    tables.write()


if __name__ == "__main__":
    main()
