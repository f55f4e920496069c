"""Elementwise ops of one float input, and a bias, from the ONNX text. One class per op; ``value`` is its definition.

``value`` maps a binary32 value to a binary32 value (see binary32) in correctly rounded steps, comparisons and
selections (C2). Written "max(a, b)", a stands unless b > a; "min(a, b)", a stands unless b < a: so equal operands,
also zeros of different sign, give the first (C10d).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from librt.strings import BytesWriter, read_f32_le, write_f32_le

from ortwin.ref.binary32 import NAN, add, div, fma, mul, rint, sqrt, sub
from ortwin.ref.graph import Node, Value
from ortwin.ref.half import Half, half_format
from ortwin.ref.kernel import Kernel
from ortwin.ref.tensor import FLOAT, Tensor, dtype_name


class Unary:
    """A function from binary32 to binary32."""

    def value(self, x: float) -> float:
        """The op at x."""
        raise NotImplementedError


def map_f32(op: Unary, data: bytes) -> bytes:
    """The op on each of the little-endian binary32 elements of data. A NaN result gets canonical bits here (C3)."""
    writer = BytesWriter()
    for i in range(0, len(data), 4):
        y = op.value(read_f32_le(data, i))
        write_f32_le(writer, y if y == y else NAN)
    return writer.getvalue()


def map_half(op: Unary, half: Half, data: bytes) -> bytes:
    """The op on each of the elements of a half type: widened exactly, computed in binary32, narrowed once (C5)."""
    return half.narrow_buffer(map_f32(op, half.widen_buffer(data)))


def map_floats(op: Unary, dtype: int, data: bytes) -> bytes:
    """The op on each of the elements of a float tensor; dtype is one of FLOATS."""
    return map_f32(op, data) if dtype == FLOAT else map_half(op, half_format(dtype), data)


class Elementwise(Kernel):
    """Runs a Unary over a float tensor of any shape."""

    def __init__(self, node: Node, op: Unary) -> None:
        super().__init__(node)
        self.op = op

    def run(self, inputs: Sequence[Tensor | None]) -> list[Tensor]:
        x = inputs[0]
        assert x is not None
        return [Tensor(x.dtype, x.shape, map_floats(self.op, x.dtype, x.data))]


class Biased(Kernel):
    """Runs a Unary over x + bias, a row that is added to every row of x (its last dimension), each sum rounded once to
    binary32. Half types are widened exactly first, sum and function are binary32's, and the result is narrowed once
    (C5): ONNX Runtime's schemas of com.microsoft BiasGelu and FastGelu leave open where halves are rounded."""

    def __init__(self, node: Node, op: Unary) -> None:
        super().__init__(node)
        self.op = op

    def broken_rule(self, inputs: Sequence[Value | None]) -> str:
        rule = super().broken_rule(inputs)
        if rule:
            return rule
        x, bias = inputs[0], inputs[1] if len(inputs) > 1 else None
        if x is None or bias is None:
            return "the bias is missing"
        if bias.dtype != x.dtype and bias.dtype != 0 and x.dtype != 0:
            return f"the bias is {dtype_name(bias.dtype)}, the input {dtype_name(x.dtype)}"
        if x.shape is not None and len(x.shape) == 0:
            return "an input of rank 0 has no rows for a bias"
        if bias.shape is not None and len(bias.shape) != 1:
            return "the rank of the bias is not 1"
        if x.shape is not None and bias.shape is not None:
            width, given = x.shape[-1], bias.shape[0]
            if isinstance(width, int) and isinstance(given, int) and width != given:
                return "the bias is not as long as the input's last dimension"
        return ""

    def run(self, inputs: Sequence[Tensor | None]) -> list[Tensor]:
        x, bias = inputs[0], inputs[1]
        assert x is not None
        assert bias is not None
        if x.dtype == FLOAT:
            return [Tensor(x.dtype, x.shape, map_sums(self.op, x.data, bias.data))]
        half = half_format(x.dtype)
        wide = map_sums(self.op, half.widen_buffer(x.data), half.widen_buffer(bias.data))
        return [Tensor(x.dtype, x.shape, half.narrow_buffer(wide))]


def map_sums(op: Unary, data: bytes, row: bytes) -> bytes:
    """The op on each element of data plus the element of the row, which repeats, that stands against it; binary32."""
    writer = BytesWriter()
    size = len(row)
    for i in range(0, len(data), 4):
        y = op.value(add(read_f32_le(data, i), read_f32_le(row, i % size)))
        write_f32_le(writer, y if y == y else NAN)
    return writer.getvalue()


class Relu(Unary):
    """max(x, 0), so Relu(-0.0) is -0.0."""

    def value(self, x: float) -> float:
        return 0.0 if x < 0.0 else x


class LeakyRelu(Unary):
    """alpha * x below zero, else x."""

    def __init__(self, alpha: float) -> None:
        self.alpha = alpha

    def value(self, x: float) -> float:
        return mul(self.alpha, x) if x < 0.0 else x


class ThresholdedRelu(Unary):
    """x above alpha, else +0.0: also for a NaN, which is not above anything."""

    def __init__(self, alpha: float) -> None:
        self.alpha = alpha

    def value(self, x: float) -> float:
        return x if x > self.alpha else 0.0


class HardSigmoid(Unary):
    """max(0, min(1, alpha * x + beta)), so never -0.0."""

    def __init__(self, alpha: float, beta: float) -> None:
        self.alpha = alpha
        self.beta = beta

    def value(self, x: float) -> float:
        t = fma(self.alpha, x, self.beta)
        if t != t:
            return NAN
        if t >= 1.0:
            return 1.0
        return t if t > 0.0 else 0.0


class HardSwish(Unary):
    """x * max(0, min(1, x / 6 + 1/2)), where 1/6 is the real number (C8); at most 0.500001 ulp off."""

    def value(self, x: float) -> float:
        if x <= -3.0:
            return -0.0  # C10b: also at -Inf
        if x >= 3.0:
            return x
        s = add(x, 3.0)
        e = sub(x, sub(s, 3.0))  # s + e = x + 3
        p = mul(x, s)
        lo = fma(x, e, fma(x, s, -p))  # p + lo = x * (x + 3)
        sixth = 0x1555556 * 2.0**-27  # 1/6 rounded to binary32
        q = mul(p, sixth)
        r = fma(-6.0, q, p)  # what q still lacks, times 6
        return math.copysign(fma(add(r, lo), sixth, q), x)


class Clip(Unary):
    """min(hi, max(x, lo)): hi if lo > hi, NaN if any of the three is."""

    def __init__(self, lo: float, hi: float) -> None:
        self.lo = lo
        self.hi = hi

    def value(self, x: float) -> float:
        if x != x or self.lo != self.lo or self.hi != self.hi:
            return NAN
        raised = self.lo if self.lo > x else x
        return raised if raised < self.hi else self.hi


class Abs(Unary):
    """x with its sign cleared."""

    def value(self, x: float) -> float:
        return abs(x)


class Neg(Unary):
    """x with its sign flipped."""

    def value(self, x: float) -> float:
        return -x


class Reciprocal(Unary):
    """1 / x."""

    def value(self, x: float) -> float:
        return div(1.0, x)


class Sqrt(Unary):
    """Square root: -0.0 at -0.0, NaN below."""

    def value(self, x: float) -> float:
        return sqrt(x)


class Floor(Unary):
    """The largest integer not above x."""

    def value(self, x: float) -> float:
        n = rint(x)
        return sub(n, 1.0) if n > x else n


class Ceil(Unary):
    """The smallest integer not below x, with the sign of x: Ceil(-0.3) is -0.0."""

    def value(self, x: float) -> float:
        n = rint(x)
        return math.copysign(add(n, 1.0), x) if n < x else n


class Round(Unary):
    """The nearest integer, ties to even, with the sign of x: Round(-0.3) is -0.0."""

    def value(self, x: float) -> float:
        return rint(x)


class Sign(Unary):
    """-1, +0.0 or 1."""

    def value(self, x: float) -> float:
        if x > 0.0:
            return 1.0
        if x < 0.0:
            return -1.0
        return 0.0 if x == 0.0 else NAN


class Softsign(Unary):
    """x / (1 + |x|); at most 0.500001 ulp off, monotone, within [-1, 1]."""

    def value(self, x: float) -> float:
        if x != x:
            return NAN
        a = abs(x)
        if a > 2.0**25:
            a = 2.0**25  # from here on the answer is 1, at infinity too (C10b)
        hi = a if a > 1.0 else 1.0
        lo = 1.0 if a > 1.0 else a
        s = add(hi, lo)
        e = sub(lo, sub(s, hi))  # s + e = 1 + a
        inv = div(1.0, s)
        y = mul(a, inv)
        r = fma(-y, e, fma(-y, s, a))  # a - y * (1 + a)
        return math.copysign(fma(r, inv, y), x)
