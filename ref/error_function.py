"""Erf in binary32 steps."""

from __future__ import annotations

import math

from ortwin.ref.binary32 import NAN, add, fma, sub
from ortwin.ref.error_function_tables import ERF_SEGMENTS
from ortwin.ref.table import eighths, segment, slope_5
from ortwin.ref.unary import Unary


class Erf(Unary):
    """The error function; at most 0.639 ulp off, monotone, odd, within [-1, 1]."""

    def value(self, x: float) -> float:
        if x != x:
            return NAN
        a = abs(x) if abs(x) < 3.9375 else 3.9375  # from here on the answer is 1
        v = add(a, 0.5)
        s = segment(ERF_SEGMENTS, eighths(v))
        t = sub(a, s[0])
        head = a if v < 0.625 else s[1]  # around 0 the table holds erf(a) - a
        return math.copysign(fma(t, slope_5(s, t), head), x)
