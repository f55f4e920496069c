"""Constants of Erf: erf u = c0 + t q(t), t = u - centre, by segments of v = u + 1/2, eight for each octave of v.

Below 1/8 the centre is 0, c0 is u itself and q = erf(t) / t - 1. Elsewhere the centre is the binary32 number near the
middle whose erf is nearest to a binary32 number (after Gal and Bachelis, ACM TOMS 17(1), 1991).
"""

from __future__ import annotations

import mpmath as mp
import numpy as np

from fitting import Tables, binary32, minimax_polynomial, nodes, octave_entry, ulp

FIRST, LAST = 1 / 8, 3.9375


def segment(low: float, high: float) -> list[float]:
    """centre, c0, c1, ..., c5."""
    if high <= FIRST:
        t = nodes(0, FIRST)
        t = t[t > 1e-6]
        target = np.array([float(mp.erf(mp.mpf(x)) / mp.mpf(x) - 1) for x in t])
        return [0.0, 0.0, *minimax_polynomial(t, target, np.ones(len(t)) / 1.128, 4)[0]]
    if low >= LAST:
        return [0.0, 1.0]
    high = min(high, LAST)
    middle = mp.mpf((low + high) / 2)
    near = binary32(mp.erf(middle))
    found = []
    for d in range(-300, 301):
        c0 = near + d * ulp(near)
        if c0 < 1:
            centre = binary32(mp.erfinv(mp.mpf(c0)))
            if abs(centre - middle) <= (high - low) / 16:
                found.append((abs(mp.erf(mp.mpf(centre)) - mp.mpf(c0)), d, centre, c0))
    _, _, centre, c0 = min(found)
    t = nodes(low - centre, high - centre)
    t = t[np.abs(t) > 1e-6]
    target = np.array([float((mp.erf(mp.mpf(x) + mp.mpf(centre)) - mp.mpf(c0)) / mp.mpf(x)) for x in t])
    weight = np.array([abs(x) / ulp(mp.erf(x + centre)) for x in t])
    return [centre, c0, *minimax_polynomial(t, target, weight, 4)[0]]


def main() -> None:
    rows: dict[int, list[float]] = {}
    for octave in (0.5, 1.0, 2.0, 4.0):
        for j in range(8):
            low, high = octave * (1 + j / 8), octave * (1 + (j + 1) / 8)
            rows[octave_entry(low)] = segment(low - 0.5, high - 0.5)
    tables = Tables("error_function", "Table of Erf.")
    tables.segments("ERF_SEGMENTS", [rows[entry] for entry in range(32)], "erf u; less u at centre 0")
    tables.write()


if __name__ == "__main__":
    main()
