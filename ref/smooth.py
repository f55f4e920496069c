"""Gelu with approximate=none, Softplus and Mish, in binary32 steps.

With a = |x| each is base + e^-s F(a) or base + x e^-s F(a), F by segments around a centre; base is 0, x or x / 2,
chosen so that what is added to it is small or steady. The power is taken 2^64 times too large until the last step,
which so is the only one to round a subnormal result. The errors named are the largest found over all inputs between
2^-32 and 2^8 in magnitude and one in 61 of the others.
"""

from __future__ import annotations

import math
from typing import Final

from ortwin.ref.binary32 import NAN, add, fma, mul, sub
from ortwin.ref.exponential import Power, clamp, exp_split
from ortwin.ref.exponential_tables import LOG2E_HI
from ortwin.ref.smooth_tables import (
    GELU_SEGMENTS,
    GELU_VALLEY,
    MISH_SEGMENTS,
    MISH_SHIFT,
    MISH_STRETCH,
    MISH_VALLEY,
    SOFTPLUS_SEGMENTS,
)
from ortwin.ref.table import Segment, around_minimum, eighths, power_of_two, segment, slope_4, slope_5, slope_6
from ortwin.ref.unary import Unary

UP: Final = 2.0**64
DOWN: Final = 2.0**-64


def enlarged(e: Power) -> float:
    """2^64 times a power of e, but for its 1 + p: exact."""
    return e[1] * power_of_two(e[0] + 64)


def with_power(s: Segment, t: float, q: float, p: float) -> float:
    """(1 + p)(c0 + t q) - c0."""
    return fma(t, fma(q, p, q), mul(s[1], p))


class Gelu(Unary):
    """x Phi(x), Phi the normal distribution's: for |x| < 1/2 x / 2 - e^-s a (1/2 - Phi(a)) e^s, else
    max(x, 0) - e^-s a Phi(-a) e^s, where s = a^2 / 2. At most 0.934 ulp off."""

    def value(self, x: float) -> float:
        if x != x:
            return NAN
        a = abs(clamp(x, 14.5))  # from here on the answer is x or -0.0
        h = mul(a, -0.5)
        s = mul(a, h)
        e = exp_split(s, mul(fma(a, h, -s), LOG2E_HI))  # fma: what s has lost
        f = segment(GELU_SEGMENTS, eighths(add(a, 1.0)))
        c0 = f[1]
        t = sub(a, f[0])
        w = with_power(f, t, slope_5(f, t), e[2])
        power = enlarged(e)
        w = fma(power, c0, mul(power, w))
        base = mul(x, 0.5) if add(a, 1.0) < 1.5 else positive(x)
        return around_minimum(GELU_VALLEY, x, fma(w, -DOWN, base))


def positive(x: float) -> float:
    """max(x, 0), which is x unless 0 > x."""
    return 0.0 if x < 0.0 else x


class Softplus(Unary):
    """log(1 + e^x) = max(x, 0) + e^-a log(1 + e^-a) e^a; for |x| < 1/6 x / 2 + log(2 cosh(x / 2)). At most 0.800 ulp
    off, monotone."""

    def value(self, x: float) -> float:
        if x != x:
            return NAN
        a = abs(clamp(x, 104.5))  # from here on the answer is x or 0
        v = fma(a, 0.75, 1.0)
        near = v < 1.125
        e = exp_split(0.0 if near else -a, -0.0)
        f = segment(SOFTPLUS_SEGMENTS, eighths(v if v < 15.5 else 15.5))
        c0 = f[1]
        t = sub(a, f[0])
        w = with_power(f, t, slope_4(f, t), e[2])
        power = enlarged(e)
        if near:
            first, last = mul(x, 0.5 * UP), 0.0
        elif x > 0.4375:
            first, last = 0.0, x
        else:
            first, last = mul(positive(x), UP), 0.0
        w = fma(power, c0, fma(power, w, first))
        return fma(w, DOWN, last)


class Mish(Unary):
    """x tanh(log(1 + e^x)) = base + x e^-a F(a), base = x / 2 for -2/3 < x < 5/24, else max(x, 0). At most 0.940 ulp
    off."""

    def value(self, x: float) -> float:
        if x != x:
            return NAN
        c = clamp(x, 112.0)  # from here on the answer is x or -0.0
        a = abs(c)
        e = exp_split(-a, -0.0)
        power = enlarged(e)
        s = mul(power, c)
        s_low = fma(power, c, -s)
        v = fma(a, 0.75, 1.0)
        if v > 15.5:
            v = 15.5
        if x > 0.0:
            v = fma(v, MISH_STRETCH, MISH_SHIFT)  # to 16 (1 + 1.2 a)
            if v > 248.0:
                v = 248.0
        f = segment(MISH_SEGMENTS, eighths(v) >> 1)
        c0 = f[1]
        t = sub(a, f[0])
        w = with_power(f, t, slope_6(f, t), e[2])
        w = fma(s, c0, fma(s, w, mul(s_low, c0)))
        middle = v < (20.0 if x > 0.0 else 1.5)
        y = mul(add(w, mul(x, 0.5 * UP)), DOWN) if middle else fma(w, DOWN, positive(x))
        return around_minimum(MISH_VALLEY, x, math.copysign(y, x))
