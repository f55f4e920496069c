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
    LN2_HI,
    LN2_LO,
    LOG2E,
    SIGMOID_SEGMENTS,
    TANH_SEGMENTS,
)
from ortwin.ref.table import Segment, octave_segment
from ortwin.ref.unary import Unary

TO_SIXTEENTHS: Final = 1.5 * 2.0**19  # numbers near this have a last place of 1/16: adding it rounds to sixteenths
TO_INTEGERS: Final = 1.5 * 2.0**23
SEVEN_THIRDS: Final = 0x12AAAAA * 2.0**-23  # 7/3 cut to binary32: Sigmoid's segments are 3/7 wide
MIDDLE: Final = 13.5  # where Sigmoid's segments end


def negative(x: float) -> bool:
    """Whether x has its sign bit set: -0.0 has."""
    return math.copysign(1.0, x) < 0.0


def flip(x: float, sign: float) -> float:
    """x, negated if sign is negative."""
    return -x if negative(sign) else x


def clamp(x: float, limit: float) -> float:
    """x, brought to [-limit, limit]."""
    return x if abs(x) < limit else math.copysign(limit, x)


class Power:
    """e^(x + low) = 2^floor(n) t (1 + p), for |x| <= 200: n is x log2(e) in sixteenths, t a table's
    2^(n - floor(n)) but for a constant factor, which is in p."""

    def __init__(self, x: float, low: float) -> None:
        n = sub(fma(x, LOG2E, TO_SIXTEENTHS), TO_SIXTEENTHS)
        r = add(fma(n, -LN2_LO, fma(n, -LN2_HI, x)), low)  # x + low - n ln 2, at most ln 2 / 32
        sixteenth: i64 = int((n - math.floor(n)) * 16.0)
        self.n = n
        self.t = EXP_T[sixteenth]
        self.p = fma(r, fma(r, fma(r, EXP_C3, EXP_C2), EXP_C1), EXP_P0)

    def value(self) -> float:
        """The power, rounded."""
        return scale(fma(self.t, self.p, self.t), self.n)


def scale(x: float, n: float) -> float:
    """x 2^floor(n) rounded once; |n| <= 250, so that it is exact in binary64."""
    return round(math.ldexp(x, math.floor(n)))


class Exp(Unary):
    """e^x; at most 0.866 ulp off."""

    def value(self, x: float) -> float:
        if x != x:
            return NAN
        return Power(clamp(x, 104.0), -0.0).value()  # from -104 down it is 0, from 104 up infinity


def slope(s: Segment, t: float) -> float:
    """c1 + t (c2 + t (c3 + t (c4 + t c5))): the function at centre + t is c0 + t times this."""
    return fma(t, fma(t, fma(t, fma(t, s.c5, s.c4), s.c3), s.c2), s.c1)


class Tanh(Unary):
    """Hyperbolic tangent; at most 0.842 ulp off."""

    def value(self, x: float) -> float:
        if x != x:
            return NAN
        u = abs(clamp(x, 9.03125))  # from here on the answer is 1
        s = Segment(TANH_SEGMENTS, octave_segment(fma(u, 1.86328125, 1.125)))
        t = sub(u, s.centre)
        head = s.c0 if s.centre > 0.0 else u  # around 0 the table holds tanh(u) - u
        slope_4 = fma(t, fma(t, fma(t, s.c4, s.c3), s.c2), s.c1)
        return math.copysign(fma(t, slope_4, head), x)


class Expm1:
    """e^x - 1 = head + tail, for x < 0."""

    def __init__(self, x: float) -> None:
        u = -20.5 if x < -20.5 else x  # from here on the answer is -1
        s = Segment(EXPM1_SEGMENTS, octave_segment(sub(1.375, u)))
        t = sub(u, s.centre)
        self.head = s.c0 if s.centre < 0.0 else u  # around 0 the table holds e^u - 1 - u
        self.tail = mul(t, slope(s, t))


class Elu(Unary):
    """x, below zero alpha (e^x - 1); with alpha = 1 at most 0.746 ulp off."""

    def __init__(self, alpha: float) -> None:
        self.alpha = alpha

    def value(self, x: float) -> float:
        if x >= 0.0 or x != x:
            return x
        e = Expm1(x)
        return fma(self.alpha, e.head, mul(self.alpha, e.tail))


class Selu(Unary):
    """gamma x, below zero gamma alpha (e^x - 1); with the defaults at most 0.772 ulp off."""

    def __init__(self, alpha: float, gamma: float) -> None:
        self.gamma = gamma
        self.product = mul(alpha, gamma)
        self.product_low = fma(alpha, gamma, -self.product)

    def value(self, x: float) -> float:
        if x >= 0.0 or x != x:
            return mul(self.gamma, x)
        e = Expm1(x)
        return fma(self.product, e.head, fma(self.product_low, e.head, mul(self.product, e.tail)))


class Celu(Unary):
    """x, below zero alpha (e^(x / alpha) - 1), alpha positive and finite; with alpha = 1 at most 0.746 ulp off."""

    def __init__(self, alpha: float) -> None:
        self.alpha = alpha

    def value(self, x: float) -> float:
        z = div(x, self.alpha)
        if z >= -(2.0**-30) or x != x:  # z may have lost digits to underflow, but the answer is x
            return x
        low = div(fma(-z, self.alpha, x), self.alpha) if z > -20.5 else 0.0
        e = Expm1(z)
        tail = fma(low, add(1.0, add(e.head, e.tail)), e.tail)  # e^(z + low) - 1 = e^z - 1 + e^z low
        return fma(self.alpha, e.head, mul(self.alpha, tail))


class SigmoidSegment:
    """sigmoid near |z| <= 13.5 as head + flip(d, z) q(d), d the distance of |z| from a centre."""

    def __init__(self, z: float) -> None:
        u = abs(z)
        nearest: i64 = int(sub(fma(u, SEVEN_THIRDS, TO_INTEGERS), TO_INTEGERS))
        self.segment = Segment(SIGMOID_SEGMENTS, nearest & 31)  # of 1 / (1 + e^u), with the slope negated
        self.distance = sub(u, self.segment.centre)
        self.head = self.segment.c0 if negative(z) else sub(1.0, self.segment.c0)


def complement(e: Power, value: float) -> float:
    """(1 + p)(1 - value) - 1: replaces p to give E - E^2 for the power E, which is near its 1 / (1 + 1/E)."""
    return fma(-value, add(1.0, e.p), e.p)


class Sigmoid(Unary):
    """1 / (1 + e^-x), down to subnormal results; at most 0.739 ulp off."""

    def value(self, x: float) -> float:
        if x != x:
            return NAN
        if abs(x) <= MIDDLE:
            s = SigmoidSegment(x)
            return fma(flip(s.distance, x), slope(s.segment, s.distance), s.head)
        e = Power(-abs(clamp(x, 104.0)), -0.0)
        value = e.value()
        if negative(x):
            return scale(fma(e.t, complement(e, value), e.t), e.n)
        return sub(1.0, value)


def gated(x: float, z: float, low: float) -> float:
    """x sigmoid(z + low), with its limit where x is infinite (C10b)."""
    if x != x or z != z:
        return NAN
    u = abs(z)
    if u <= MIDDLE:
        s = SigmoidSegment(z)
        d = add(s.distance, flip(low, z))
        tail = mul(flip(d, z), slope(s.segment, d))
        return math.copysign(fma(x, s.head, mul(x, tail)), x)
    e = Power(-abs(clamp(z, 200.0)), -flip(low, z) if u < 200.0 else -0.0)
    value = e.value()
    if not negative(z):
        return fma(-value, x, x) if u < 104.0 else x
    if math.isinf(x):
        return math.copysign(0.0, x)
    n = e.n
    if abs(x) >= 2.0**64:  # a small power of e can still make an ordinary number of it
        x = mul(x, 2.0**-64)
        n = add(n, 64.0)
    h = mul(x, e.t)
    rest = fma(h, complement(e, value), fma(x, e.t, -h))
    return scale(add(h, rest), -250.0 if n < -250.0 else n)


class Swish(Unary):
    """x / (1 + e^(-alpha x)), Swish and QuickGelu; at most 0.899 ulp off with alpha = 1, 0.959 with 1.702."""

    def __init__(self, alpha: float) -> None:
        self.alpha = alpha

    def value(self, x: float) -> float:
        z = mul(self.alpha, x)
        return gated(x, z, fma(self.alpha, x, -z))


class GeluTanh(Unary):
    """x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2 = x sigmoid(x (a + b x^2)) with real numbers a and b (C8); at
    most 0.918 ulp off."""

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
        return gated(x, z, fma(c, w_low, fma(c, w, -z)))
