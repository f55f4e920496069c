"""Exp, Sigmoid, Tanh, Elu, Selu, Celu, Swish, QuickGelu, Gelu with approximate=tanh and FastGelu, in binary32 steps.

Meant to be within 1 ulp of the true value (C8), monotone and within their range where the functions are. The errors
named are the largest found: over all inputs for Exp, over samples of 70 million and more for the others. An expression
too long for one number is carried as two, head + tail or x + low, the second being what the rounding of the first left
out.
"""

from __future__ import annotations

import math
from typing import Final

from mypy_extensions import i64

from ortwin.ref.binary32 import NAN, add, div, fma, mul, round, sub
from ortwin.ref.exponential_tables import (
    EXP_C1,
    EXP_C2,
    EXP_C3,
    EXP_P0,
    EXP_T,
    EXPM1_SEGMENTS,
    GELU_A_HI,
    GELU_A_LO,
    GELU_B_HI,
    GELU_B_LO,
    GELU_TANH_VALLEY,
    LOG2E_HI,
    LOG2E_LO,
    QUICK_ALPHA,
    QUICK_VALLEY,
    SIGMOID_SEGMENTS,
    SWISH_VALLEY,
    TANH_SEGMENTS,
)
from ortwin.ref.table import Segment, around_minimum, eighths, power_of_two, segment, slope_4, slope_5, table
from ortwin.ref.unary import Unary

TO_SIXTEENTHS: Final = 1.5 * 2.0**19  # numbers near this have a last place of 1/16: adding it rounds to sixteenths
TO_INTEGERS: Final = 1.5 * 2.0**23
SEVEN_THIRDS: Final = 0x12AAAAA * 2.0**-23  # 7/3 cut to binary32: Sigmoid's segments are 3/7 wide
MIDDLE: Final = 13.5  # where Sigmoid's segments end
NO_VALLEY: Final = table("0.0 0.0")  # of radius 0


def negative(x: float) -> bool:
    """Whether x has its sign bit set: -0.0 has."""
    return math.copysign(1.0, x) < 0.0


def flip(x: float, sign: float) -> float:
    """x, negated if sign is negative."""
    return -x if negative(sign) else x


def clamp(x: float, limit: float) -> float:
    """x, brought to [-limit, limit]."""
    return x if abs(x) < limit else math.copysign(limit, x)


Power = tuple[i64, float, float]
"""k, t, p: the power of e that is 2^k t (1 + p), t = 2^(j/16) rounded for one of j = 0 to 15, |p| <= 1/45."""


def exp_split(x: float, low: float) -> Power:
    """e^x 2^low, |x| <= 200. Where x and low are 0, so is p."""
    n = sub(fma(x, LOG2E_HI, TO_SIXTEENTHS), TO_SIXTEENTHS)
    f = add(fma(x, LOG2E_LO, fma(x, LOG2E_HI, -n)), low)  # x log2(e) + low - n, at most 1/32
    sixteenths: i64 = int(n * 16.0)
    j = sixteenths & 15
    p = fma(mul(f, f), fma(f, EXP_C3, EXP_C2), EXP_P0[j])  # P0: what the rounding of t took
    return sixteenths >> 4, EXP_T[j], fma(f, EXP_C1, p)


def rounded(e: Power) -> float:
    """The power itself."""
    k, t, p = e
    return scale(fma(t, p, t), k)


def scale(x: float, k: i64) -> float:
    """x 2^k rounded once: it is exact in binary64."""
    return round(x * power_of_two(k))


class Exp(Unary):
    """e^x; at most 0.768 ulp off, 0.56 where the result is normal."""

    def value(self, x: float) -> float:
        if x != x:
            return NAN
        return rounded(exp_split(clamp(x, 104.0), -0.0))  # from -104 down it is 0, from 104 up infinity


class Tanh(Unary):
    """Hyperbolic tangent; at most 0.855 ulp off."""

    def value(self, x: float) -> float:
        if x != x:
            return NAN
        u = abs(clamp(x, 9.03125))  # from here on the answer is 1
        s = segment(TANH_SEGMENTS, eighths(fma(u, 1.86328125, 1.125)))
        centre, c0 = s[0], s[1]
        t = sub(u, centre)
        head = c0 if centre > 0.0 else u  # around 0 the table holds tanh(u) - u
        return math.copysign(fma(t, slope_4(s, t), head), x)


def expm1(x: float) -> tuple[float, float]:
    """e^x - 1 as head + tail, for x < 0."""
    u = -20.5 if x < -20.5 else x  # from here on the answer is -1
    s = segment(EXPM1_SEGMENTS, eighths(sub(1.375, u)))
    centre, c0 = s[0], s[1]
    t = sub(u, centre)
    return c0 if centre < 0.0 else u, mul(t, slope_5(s, t))  # around 0 the table holds e^u - 1 - u


class Elu(Unary):
    """x, below zero alpha (e^x - 1); with alpha = 1 at most 0.746 ulp off."""

    def __init__(self, alpha: float) -> None:
        self.alpha = alpha

    def value(self, x: float) -> float:
        if x >= 0.0 or x != x:
            return x
        head, tail = expm1(x)
        return fma(self.alpha, head, mul(self.alpha, tail))


class Selu(Unary):
    """gamma x, below zero gamma alpha (e^x - 1); with the defaults at most 0.772 ulp off."""

    def __init__(self, alpha: float, gamma: float) -> None:
        self.gamma = gamma
        self.product = mul(alpha, gamma)
        self.product_low = fma(alpha, gamma, -self.product)

    def value(self, x: float) -> float:
        if x >= 0.0 or x != x:
            return mul(self.gamma, x)
        head, tail = expm1(x)
        return fma(self.product, head, fma(self.product_low, head, mul(self.product, tail)))


class Celu(Unary):
    """x, below zero alpha (e^(x / alpha) - 1), alpha positive and finite; with alpha = 1 at most 0.746 ulp off."""

    def __init__(self, alpha: float) -> None:
        self.alpha = alpha

    def value(self, x: float) -> float:
        z = div(x, self.alpha)
        if z >= -(2.0**-30) or x != x:  # z may have lost digits to underflow, but the answer is x
            return x
        low = div(fma(-z, self.alpha, x), self.alpha) if z > -20.5 else 0.0
        head, tail = expm1(z)
        tail = fma(low, add(1.0, add(head, tail)), tail)  # e^(z + low) - 1 = e^z - 1 + e^z low
        return fma(self.alpha, head, mul(self.alpha, tail))


def sigmoid_segment(u: float) -> Segment:
    """1 / (1 + e^t) around 0 <= u <= 13.5, with its slope negated."""
    nearest: i64 = int(sub(fma(u, SEVEN_THIRDS, TO_INTEGERS), TO_INTEGERS))
    return segment(SIGMOID_SEGMENTS, nearest)


def sigmoid_head(s: Segment, z: float) -> float:
    """sigmoid at the segment's centre, on the side of z."""
    return s[1] if negative(z) else sub(1.0, s[1])


def complement(e: Power, value: float) -> Power:
    """E - E^2 for E, a power that rounds to value: near its 1 / (1 + 1/E)."""
    k, t, p = e
    return k, t, fma(-value, add(1.0, p), p)  # (1 + p)(1 - value) - 1


class Sigmoid(Unary):
    """1 / (1 + e^-x), down to subnormal results; at most 0.773 ulp off."""

    def value(self, x: float) -> float:
        if x != x:
            return NAN
        u = abs(x)
        if u <= MIDDLE:
            s = sigmoid_segment(u)
            d = sub(u, s[0])
            return fma(flip(d, x), slope_5(s, d), sigmoid_head(s, x))
        e = exp_split(-abs(clamp(x, 104.0)), -0.0)
        value = rounded(e)
        return rounded(complement(e, value)) if negative(x) else sub(1.0, value)


def gated(x: float, z: float, low: float) -> float:
    """x sigmoid(z + low), with its limit where x is infinite (C10b)."""
    if x != x or z != z:
        return NAN
    u = abs(z)
    if u <= MIDDLE:
        s = sigmoid_segment(u)
        d = add(sub(u, s[0]), flip(low, z))
        head, tail, q = sigmoid_head(s, z), flip(d, z), slope_5(s, d)
        g = fma(tail, q, head)
        g_low = fma(tail, q, sub(head, g))  # the difference is exact
        return math.copysign(fma(x, g, mul(x, g_low)), x)
    e = exp_split(-abs(clamp(z, 200.0)), mul(flip(low, z), -LOG2E_HI) if u < 200.0 else -0.0)
    value = rounded(e)
    if not negative(z):
        return fma(-value, x, x) if u < 104.0 else x
    if math.isinf(x):
        return math.copysign(0.0, x)
    k, t, p = complement(e, value)
    if abs(x) >= 2.0**64:  # a small power of e can still make an ordinary number of it
        x = mul(x, 2.0**-64)
        k += 64
    h = mul(x, t)
    return scale(add(h, fma(h, p, fma(x, t, -h))), k)


class Swish(Unary):
    """x / (1 + e^(-alpha x)), Swish and QuickGelu; at most 0.767 ulp off with alpha = 1, 0.838 with 1.702."""

    def __init__(self, alpha: float) -> None:
        self.alpha = alpha
        self.valley = SWISH_VALLEY if alpha == 1.0 else QUICK_VALLEY if alpha == QUICK_ALPHA else NO_VALLEY

    def value(self, x: float) -> float:
        z = mul(self.alpha, x)
        return around_minimum(self.valley, x, gated(x, z, fma(self.alpha, x, -z)))


class GeluTanh(Unary):
    """x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2 = x sigmoid(x (a + b x^2)) with real numbers a and b (C8); at
    most 0.857 ulp off."""

    def value(self, x: float) -> float:
        if x != x:
            return NAN
        c = clamp(x, 16.0)  # from here on the answer is x or -0.0
        s = mul(c, c)
        s_low = fma(c, c, -s)
        w = fma(GELU_B_HI, s, GELU_A_HI)
        w_low = fma(GELU_B_HI, s, sub(GELU_A_HI, w))  # the difference is exact
        w_low = add(w_low, fma(GELU_B_LO, s, fma(GELU_B_HI, s_low, GELU_A_LO)))
        z = mul(c, w)
        return around_minimum(GELU_TANH_VALLEY, x, gated(x, z, fma(c, w_low, fma(c, w, -z))))
