"""Elementwise ops of two inputs, Add Sub Mul Div, from the ONNX text; one class per op.

``real`` is the definition on binary32 values: one correctly rounded operation (C2); half types are widened exactly
and the result narrowed once (C5). ``whole`` is the definition on
integers of 32 or 64 bits: the exact result modulo 2^32 or 2^64 (C7). A division of integers rounds toward zero; where
it has no answer it gives 0 (divisor 0) or what wrapping gives, the smallest integer (that one by -1) (C10h).
"""

from __future__ import annotations

from collections.abc import Sequence

from librt.strings import BytesWriter, read_f32_le, read_i32_le, read_i64_le, write_f32_le, write_i32_le, write_i64_le
from librt.vecs import append, vec
from mypy_extensions import i32, i64

from ortwin.ref.binary32 import NAN, add, div, mul, sub
from ortwin.ref.errors import UnsupportedError
from ortwin.ref.graph import Node, Value
from ortwin.ref.half import half_format
from ortwin.ref.kernel import Kernel
from ortwin.ref.tensor import FLOAT, FLOATS, INT32, Tensor, dtype_name, item_size

Dim = int | str | None


class Arithmetic:
    """An op on two numbers of one type."""

    def real(self, a: float, b: float) -> float:
        """The op on binary32 values."""
        raise NotImplementedError

    def whole(self, a: int, b: int) -> int:
        """The op on integers, before wrapping."""
        raise NotImplementedError


class Add(Arithmetic):
    """a + b."""

    def real(self, a: float, b: float) -> float:
        return add(a, b)

    def whole(self, a: int, b: int) -> int:
        return a + b


class Sub(Arithmetic):
    """a - b."""

    def real(self, a: float, b: float) -> float:
        return sub(a, b)

    def whole(self, a: int, b: int) -> int:
        return a - b


class Mul(Arithmetic):
    """a * b."""

    def real(self, a: float, b: float) -> float:
        return mul(a, b)

    def whole(self, a: int, b: int) -> int:
        return a * b


class Div(Arithmetic):
    """a / b; of integers the quotient rounded toward zero, 0 if b is 0."""

    def real(self, a: float, b: float) -> float:
        return div(a, b)

    def whole(self, a: int, b: int) -> int:
        if b == 0:
            return 0
        quotient = abs(a) // abs(b)
        return quotient if (a < 0) == (b < 0) else -quotient


class Binary(Kernel):
    """Runs an Arithmetic over two tensors. From version 7 on both broadcast as numpy's do (ONNX, "Broadcasting in
    ONNX"); before, the second stands against part of the first, and only if the attribute broadcast asks for it."""

    def __init__(self, node: Node, op: Arithmetic) -> None:
        super().__init__(node)
        self.op = op
        self.limited = node.since_version < 7
        self.spread = node.attributes.get("broadcast", 0) != 0
        axis = node.attributes.get("axis")
        self.axis = axis if isinstance(axis, int) else -1  # -1: not given, so the last axes
        if self.limited and isinstance(axis, int) and axis < 0:
            raise UnsupportedError(f"{node.label}: axis must not be negative")

    def broken_rule(self, inputs: Sequence[Value | None]) -> str:
        rule = super().broken_rule(inputs)
        second = inputs[1] if len(inputs) == 2 else None
        if rule:
            return rule
        first = inputs[0]
        assert first is not None
        if second is None:
            return "it needs two inputs"
        if first.dtype != second.dtype and first.dtype != 0 and second.dtype != 0:
            return f"input '{second.name}' is {dtype_name(second.dtype)}, the first {dtype_name(first.dtype)}"
        if first.shape is None or second.shape is None or self.lead(first.shape, second.shape) >= 0:
            return ""
        return f"shapes {_shown(first.shape)} and {_shown(second.shape)} do not broadcast"

    def outputs(self, inputs: Sequence[Value | None]) -> list[Value]:
        first, second = inputs
        assert first is not None
        assert second is not None
        shape: tuple[Dim, ...] | None = first.shape
        if not self.limited:
            known = first.shape is not None and second.shape is not None
            shape = broadcast(first.shape or (), second.shape or ()) if known else None
        return [Value(self.node.outputs[0], first.dtype or second.dtype, shape)]

    def lead(self, first: Sequence[Dim], second: Sequence[Dim]) -> int:
        """How many axes of the result stand before the second operand's first, -1 if the shapes do not fit."""
        if not self.limited:
            return max(len(first) - len(second), 0) if fit(first, second) else -1
        if not self.spread:
            return 0 if _equal(first, second) else -1
        if len(second) > len(first):
            return -1
        if all(dim == 1 or not isinstance(dim, int) for dim in second):  # one element, as far as is known
            return len(first) - len(second)
        start = len(first) - len(second) if self.axis < 0 else self.axis
        return start if _equal(first[start : start + len(second)], second) else -1

    def run(self, inputs: Sequence[Tensor | None]) -> list[Tensor]:
        a, b = inputs
        assert a is not None
        assert b is not None
        start = self.lead(a.shape, b.shape)
        shape = a.shape if self.limited else _sizes(broadcast(a.shape, b.shape))
        of_a = offsets(shape, (1,) * (len(shape) - len(a.shape)) + a.shape)
        of_b = offsets(shape, (1,) * start + b.shape + (1,) * (len(shape) - start - len(b.shape)))
        if a.dtype == FLOAT or a.dtype not in FLOATS:
            return [Tensor(a.dtype, shape, combine(self.op, a, of_a, b, of_b))]
        half = half_format(a.dtype)
        wide_a = Tensor(FLOAT, a.shape, half.widen_buffer(a.data))
        wide_b = Tensor(FLOAT, b.shape, half.widen_buffer(b.data))
        return [Tensor(a.dtype, shape, half.narrow_buffer(combine(self.op, wide_a, of_a, wide_b, of_b)))]


def combine(op: Arithmetic, a: Tensor, of_a: vec[i64], b: Tensor, of_b: vec[i64]) -> bytes:
    """The op on elements of_a[k] of a and of_b[k] of b, for each k. A NaN result gets canonical bits (C3)."""
    writer = BytesWriter()
    x, y = a.data, b.data
    size: i64 = item_size(a.dtype)
    k: i64 = 0
    count: i64 = len(of_a)
    while k < count:
        i = of_a[k] * size
        j = of_b[k] * size
        if a.dtype == FLOAT:
            z = op.real(read_f32_le(x, i), read_f32_le(y, j))
            write_f32_le(writer, z if z == z else NAN)
        elif a.dtype == INT32:
            write_i32_le(writer, i32(wrap(op.whole(int(read_i32_le(x, i)), int(read_i32_le(y, j))), 32)))
        else:
            write_i64_le(writer, i64(wrap(op.whole(int(read_i64_le(x, i)), int(read_i64_le(y, j))), 64)))
        k += 1
    return writer.getvalue()


def wrap(value: int, bits: int) -> int:
    """The two's complement integer of this many bits that is congruent to value."""
    half: int = 2 ** (bits - 1)
    return (value + half) % (2 * half) - half


def fit(first: Sequence[Dim], second: Sequence[Dim]) -> bool:
    """Whether two shapes broadcast: aligned at their ends, sizes are equal or one of them is 1, as far as is known."""
    pairs = zip(reversed(first), reversed(second), strict=False)
    return not any(isinstance(m, int) and isinstance(n, int) and m != n and 1 not in (m, n) for m, n in pairs)


def broadcast(first: Sequence[Dim], second: Sequence[Dim]) -> tuple[Dim, ...]:
    """The shape that two shapes which fit broadcast to."""
    rank = max(len(first), len(second))
    a: list[Dim] = [*([1] * (rank - len(first))), *first]
    b: list[Dim] = [*([1] * (rank - len(second))), *second]
    return tuple(_either(m, n) for m, n in zip(a, b, strict=True))


def _either(m: Dim, n: Dim) -> Dim:
    if m == 1 or m == n:
        return n
    if n == 1 or isinstance(m, int):
        return m  # where n is unknown, it can only be 1 or m
    return n if isinstance(n, int) else None


def _equal(first: Sequence[Dim], second: Sequence[Dim]) -> bool:
    """Whether two shapes can be the same, as far as is known."""
    if len(first) != len(second):
        return False
    pairs = zip(first, second, strict=True)
    return not any(isinstance(m, int) and isinstance(n, int) and m != n for m, n in pairs)


def _sizes(shape: tuple[Dim, ...]) -> tuple[int, ...]:
    return tuple(dim for dim in shape if isinstance(dim, int))


def _shown(shape: Sequence[Dim]) -> str:
    return str(["?" if dim is None else dim for dim in shape])


def offsets(shape: tuple[int, ...], operand: tuple[int, ...]) -> vec[i64]:
    """For every element of a tensor of this shape in C order, the element of an operand of the same rank: along an axis
    where the operand's size is 1 it stands still."""
    found = vec[i64]([0])
    stride: i64 = 1
    for axis in range(len(shape) - 1, -1, -1):  # from the inner axis out: repeat what is there, moved on
        step: i64 = 0 if operand[axis] == 1 else stride
        longer = vec[i64]()
        position: i64 = 0
        while position < shape[axis]:
            for offset in found:
                longer = append(longer, offset + position * step)
            position += 1
        found = longer
        stride *= operand[axis]
    return found
