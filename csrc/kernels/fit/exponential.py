"""Constants of the exponential family.

exp: e^x = 2^floor(n) T[j] (1 + p), p = p0 + r (c1 + r (c2 + r c3)), r = x - n ln 2 in [-ln 2 / 32, ln 2 / 32], n a
multiple of 1/16 of fraction j / 16, T[j] = 2^(j/16) / (1 + p0). The free shift p0 is searched so that all sixteen T[j]
lie close to binary32 numbers (after Gal and Bachelis, ACM TOMS 17(1), 1991). It is taken below -0.0115 so that
c1 + r (...) stays below 1: its last place is then 2^-24, a step of it times |r| is smaller than a step of x just below
0, and so p is monotone there too.

tanh, expm1, 1 / (1 + e^u): piecewise polynomials c0 + t (c1 + t (c2 + ...)), t = u - centre. Each centre is a short
number near the middle of its segment at which the function is, to a few hundredths of an ulp, a binary32 number; for
the last also 1 minus the function. So the only large rounding is the last one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath as mp
import numpy as np

from fitting import Tables, binary32, octave_entry, weighted_polynomial

Function = Callable[[Any], Any]
SHIFT_STEP = 2.0**-31


def exp_shift() -> float:
    """p0."""
    powers = [float(mp.mpf(2) ** (mp.mpf(j) / 16)) for j in range(16)]
    found = []
    chunk = 1 << 19
    for block in range(-80, -46):
        p0 = (np.arange(chunk) + block * chunk) * SHIFT_STEP
        worst = np.zeros(chunk)
        for power in powers:
            value = power * (1.0 / (1.0 + p0))
            units = np.where(value >= 1, 2.0**23, 2.0**24) * value
            np.maximum(worst, np.abs(units - np.rint(units)), out=worst)
        worst[(p0 > -0.0115) | (p0 < -0.02)] = 9.0
        best = int(np.argmin(worst))
        found.append((worst[best], abs(p0[best]), p0[best]))
    return binary32(min(found)[2])


def exp_core(tables: Tables) -> None:
    p0 = exp_shift()
    count = 40
    cosines = [mp.cos(mp.pi * (2 * i + 1) / (2 * count)) for i in range(count)]
    r = [c * mp.log(2) / 32 * mp.mpf("1.0005") for c in cosines]
    target = np.array([float(((1 + mp.mpf(p0)) * mp.exp(v) - 1 - p0) / v) for v in r])
    t = np.array([float(v) for v in r])
    coefficients, _ = weighted_polynomial(t, target, t, 2)
    tables.table(
        "EXP_T",
        (binary32(mp.mpf(2) ** (mp.mpf(j) / 16) / (1 + mp.mpf(p0))) for j in range(16)),
        "2^(j/16) / (1 + EXP_P0)",
    )
    tables.constant("EXP_P0", p0)
    for k, c in enumerate(coefficients, 1):
        tables.constant(f"EXP_C{k}", c)
    ln2 = binary32(mp.log(2))
    tables.constant("LOG2E", binary32(1 / mp.log(2)), "log2(e)")
    tables.constant("LN2_HI", ln2, "ln 2")
    tables.constant("LN2_LO", binary32(mp.log(2) - ln2), "ln 2 - LN2_HI")


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
    tables.write()


if __name__ == "__main__":
    main()
