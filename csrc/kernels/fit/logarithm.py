"""Constants of Log: x = m 2^k, 3/4 <= m < 3/2, c ~ 1/m by the top five mantissa bits of m, r = m c - 1 and
log x = (k LN2HI + T) + (r + k LN2LO + r^2 q(r)), T = -log c.

T and LN2HI are multiples of 2^-16, so the first bracket is exact; c is the binary32 number for which -log c is nearest
to such a multiple (after Gal and Bachelis, ACM TOMS 17(1), 1991). Around m = 1, c = 1 and T = 0.
"""

from __future__ import annotations

import mpmath as mp
import numpy as np

from fitting import Tables, binary32, minimax_polynomial, nodes

UNIT = 2.0**-16


def reciprocal(low: float, high: float) -> tuple[float, float]:
    """(c, T) of the segment low <= m < high."""
    if low >= 1 - 4 / 64 and high <= 1 + 3 / 32:
        return 1.0, 0.0
    base = round(float(mp.log((low + high) / 2)) / UNIT)
    found = []
    for d in range(-48, 49):
        t = (base + d) * UNIT
        c = binary32(mp.exp(-mp.mpf(t)))
        found.append((abs(-mp.log(mp.mpf(c)) - mp.mpf(t)), d, c, t))
    return min(found)[2:]


def main() -> None:
    tables = Tables("logarithm", "Tables of Log.")
    ends = [(1 + j / 32, 1 + (j + 1) / 32) for j in range(32)]
    ends = [(low, high) if low < 1.5 else (low / 2, high / 2) for low, high in ends]
    entries = [reciprocal(low, high) for low, high in ends]
    least = min(low * c - 1 for (low, _), (c, _) in zip(ends, entries, strict=True))
    most = max(high * c - 1 for (_, high), (c, _) in zip(ends, entries, strict=True))
    r = nodes(min(least, 0.0), max(most, 0.0))
    r = r[np.abs(r) > 1e-9]
    exact = [mp.mpf(x) for x in r]
    target = np.array([float((mp.log1p(x) - x) / x**2) for x in exact])
    weight = np.array([float(x**2 / abs(mp.log1p(x))) for x in exact])
    coefficients, _ = minimax_polynomial(r, target, weight, 4)
    ln2_hi = float(mp.floor(mp.log(2) / UNIT)) * UNIT  # floor: LN2LO > 0, so that log 0 and log inf come out right
    tables.constant("LOG_LN2HI", ln2_hi, "floor(2^16 ln 2) / 2^16")
    tables.constant("LOG_LN2LO", binary32(mp.log(2) - mp.mpf(ln2_hi)), "ln 2 - LOG_LN2HI")
    for k, c in enumerate(coefficients):
        tables.constant(f"LOG_Q{k}", c)
    tables.table("LOG_C", (c for c, _ in entries), "about 1 / m")
    tables.table("LOG_T", (t for _, t in entries), "-log LOG_C")
    tables.write()


if __name__ == "__main__":
    main()
