"""Log in binary32 steps."""

from __future__ import annotations

import math

from mypy_extensions import i64

from ortwin.ref.binary32 import INF, NAN, add, fma, mul
from ortwin.ref.logarithm_tables import (
    LOG_C,
    LOG_LN2HI,
    LOG_LN2LO,
    LOG_Q0,
    LOG_Q1,
    LOG_Q2,
    LOG_Q3,
    LOG_Q4,
    LOG_T,
)
from ortwin.ref.table import octave, power_of_two
from ortwin.ref.unary import Unary


class Log(Unary):
    """The natural logarithm: x = m 2^k, log x = (k ln 2 - log c) + log(m c), c near 1/m.

    At most 0.776 ulp off, monotone.
    """

    def value(self, x: float) -> float:
        if x == 0.0:
            return -INF
        if not x > 0.0:
            return NAN
        if math.isinf(x):
            return INF
        e = octave(x)
        m = x * power_of_two(-e)
        if m >= 1.5:  # 3/4 <= m < 3/2
            m *= 0.5
            e += 1
        k = float(e)
        entry: i64 = int(32.0 * m) - 32 if m >= 1.0 else int(64.0 * m) - 32
        r = fma(m, LOG_C[entry], -1.0)
        q = fma(r, fma(r, fma(r, fma(r, LOG_Q4, LOG_Q3), LOG_Q2), LOG_Q1), LOG_Q0)
        small = fma(mul(r, r), q, fma(k, LOG_LN2LO, r))
        return add(fma(k, LOG_LN2HI, LOG_T[entry]), small)
