"""MatMul and Gemm, from the ONNX text: matrices of one element type, multiplied in the order that C6 lays down.

Every element of a product is one sum over k, and depends on one row of A and one column of B alone. In binary32 k is
cut into blocks of 256: a block's sum is a chain of fma from +0.0, k ascending, and the blocks' sums are added in their
order, the first being assigned. Nothing is skipped, 0 * NaN is NaN; with K = 0 the sum is +0.0 (C10e). Halves are
widened, and the result, after whatever Gemm does to the sum, is rounded once (C5). Integers are exact modulo 2^32 or
2^64 (C7).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from librt.strings import BytesWriter, read_i32_le, read_i64_le, write_i32_le, write_i64_le
from librt.vecs import append, vec
from mypy_extensions import i32, i64

from ortwin.ref.binary import wrap
from ortwin.ref.binary32 import add, fma, mul
from ortwin.ref.elements import float_tensor, floats_of
from ortwin.ref.graph import Node, Value
from ortwin.ref.kernel import Kernel, integer, real
from ortwin.ref.matmul_shape import Shape, indices, product_rule, product_shape, swapped, unidirectional_rule
from ortwin.ref.tensor import FLOATS, Tensor, dtype_name, item_size

BLOCK: Final = 256
"""Values of k whose products are summed in one chain: part of the definition of the result, not a matter of speed."""


def inner_product(a: vec[float], row: i64, b: vec[float], column: i64, inner: i64) -> float:
    """The sum over k of a[row * inner + k] * b[column * inner + k], binary32 (C6)."""
    total = 0.0
    p: i64 = row * inner
    q: i64 = column * inner
    first: i64 = 0
    while first < inner:
        last: i64 = min(first + BLOCK, inner)
        block = 0.0
        k = first
        while k < last:
            block = fma(a[p + k], b[q + k], block)
            k += 1
        total = block if first == 0 else add(total, block)  # 0.0 + block would lose a -0.0
        first = last
    return total


def whole_inner_product(a: vec[i64], row: i64, b: vec[i64], column: i64, inner: i64) -> int:
    """The same sum of integers, exact."""
    total: int = 0
    for k in range(inner):
        total += int(a[row * inner + k]) * int(b[column * inner + k])
    return total


class Product:
    """A product A * B to be summed up. Tensors are rows [..., M, K] or [K] of A and columns [..., N, K] or [K] of B,
    so that both factors of a sum lie side by side in memory."""

    def __init__(self, rows: Tensor, columns: Tensor) -> None:
        self.rows = rows
        self.columns = columns
        shape = product_shape(rows.shape, swapped(columns.shape))
        assert shape is not None
        self.shape: tuple[int, ...] = tuple(dim for dim in shape if isinstance(dim, int))
        a = rows.shape if len(rows.shape) > 1 else (1, *rows.shape)
        b = columns.shape if len(columns.shape) > 1 else (1, *columns.shape)
        batch = self.shape[: max(len(a), len(b)) - 2]
        elements = (*batch, a[-2], b[-2])
        self.inner: i64 = a[-1]
        self.row = indices((*a[:-2], a[-2], 1), elements)  # of each element of the product, in C order
        self.column = indices((*b[:-2], 1, b[-2]), elements)

    def sums(self) -> vec[float]:
        """The sums, of tensors of floats."""
        a, b = floats_of(self.rows), floats_of(self.columns)
        found = vec[float]()
        for e in range(len(self.row)):
            found = append(found, inner_product(a, self.row[e], b, self.column[e], self.inner))
        return found

    def whole_sums(self) -> list[int]:
        """The sums, of tensors of integers."""
        a, b = residues_of(self.rows), residues_of(self.columns)
        return [whole_inner_product(a, self.row[e], b, self.column[e], self.inner) for e in range(len(self.row))]


def residues_of(tensor: Tensor) -> vec[i64]:
    """The elements of a tensor of integers of 32 or 64 bits; of an unsigned type as the signed numbers congruent to
    them, which modulo 2^32 or 2^64 have the same sums and products."""
    data = tensor.data
    size: i64 = item_size(tensor.dtype)
    found = vec[i64]()
    for at in range(0, len(data), size):
        found = append(found, i64(read_i32_le(data, at)) if size == 4 else read_i64_le(data, at))
    return found


def residue_tensor(dtype: int, shape: tuple[int, ...], values: list[int]) -> Tensor:
    """A tensor of integers of 32 or 64 bits that are congruent to the values."""
    size = item_size(dtype)
    writer = BytesWriter()
    for value in values:
        if size == 4:
            write_i32_le(writer, i32(wrap(value, 32)))
        else:
            write_i64_le(writer, i64(wrap(value, 64)))
    return Tensor(dtype, shape, writer.getvalue())


def transposed(tensor: Tensor) -> Tensor:
    """The last two dimensions exchanged; a vector stays as it is."""
    if len(tensor.shape) < 2:
        return tensor
    shape = swapped(tensor.shape)
    assert shape is not None
    sizes = tuple(dim for dim in shape if isinstance(dim, int))
    data = np.frombuffer(tensor.data, np.uint8).reshape((*tensor.shape, item_size(tensor.dtype)))
    return Tensor(tensor.dtype, sizes, data.swapaxes(-3, -2).tobytes())


class MatMul(Kernel):
    """MatMul-1, -9 and -13: the sums, of shapes as numpy.matmul."""

    def broken_rule(self, inputs: Sequence[Value | None]) -> str:
        rule = super().broken_rule(inputs) or same_type_rule(inputs, 2)
        if rule:
            return rule
        a, b = inputs[0], inputs[1]
        assert a is not None
        assert b is not None
        return product_rule(a.shape, b.shape)

    def outputs(self, inputs: Sequence[Value | None]) -> list[Value]:
        a, b = inputs[0], inputs[1]
        assert a is not None
        assert b is not None
        return [Value(self.node.outputs[0], a.dtype or b.dtype, product_shape(a.shape, b.shape))]

    def run(self, inputs: Sequence[Tensor | None]) -> list[Tensor]:
        a, b = inputs[0], inputs[1]
        assert a is not None
        assert b is not None
        product = Product(a, transposed(b))
        if a.dtype in FLOATS:
            return [float_tensor(a.dtype, product.shape, product.sums())]
        return [residue_tensor(a.dtype, product.shape, product.whole_sums())]


class Gemm(Kernel):
    """Gemm-1, -6, -7, -9, -11 and -13: alpha * A' * B' + beta * C, where ' is a transposition if transA, transB say so.

    In binary32, s being the sum of C6: t = alpha * s, then t + (beta * C), each operation rounded once. A factor of 1
    changes no bit. If there is no C (which it may be left out from version 11 on), or beta is 0, t is the result: C is
    not read, and nothing is added. C broadcasts to the product's shape, not the product to C's; in versions 1 and 6
    only if the attribute broadcast asks for it.

    Integers are exact modulo 2^32 or 2^64, so alpha and beta, which are floats, must be whole numbers, below 2^63 in
    magnitude; any other is declined.
    """

    def __init__(self, node: Node) -> None:
        super().__init__(node)
        self.alpha = real(node, "alpha", 1.0)
        self.beta = real(node, "beta", 1.0)
        self.transpose_a = integer(node, "transA", 0) != 0
        self.transpose_b = integer(node, "transB", 0) != 0
        self.spread = node.since_version >= 7 or integer(node, "broadcast", 0) != 0

    def shapes(self, inputs: Sequence[Value | None]) -> tuple[Shape, Shape]:
        """The shapes of A' and B'."""
        a, b = inputs[0], inputs[1]
        assert a is not None
        assert b is not None
        return (
            swapped(a.shape) if self.transpose_a else a.shape,
            swapped(b.shape) if self.transpose_b else b.shape,
        )

    def broken_rule(self, inputs: Sequence[Value | None]) -> str:
        rule = super().broken_rule(inputs) or same_type_rule(inputs, 2 if self.node.since_version >= 11 else 3)
        if rule:
            return rule
        for value in inputs[:2]:
            if value is not None and value.shape is not None and len(value.shape) != 2:
                return f"input '{value.name}' has rank {len(value.shape)}, but Gemm multiplies matrices, of rank 2"
        left, right = self.shapes(inputs)
        c = inputs[2] if len(inputs) > 2 else None
        rule = product_rule(left, right)
        if not rule and c is not None:
            rule = unidirectional_rule(c.shape, product_shape(left, right), self.spread)
            rule = f"C '{c.name}' {rule}" if rule else ""
        first = inputs[0]
        assert first is not None
        if rule or first.dtype in FLOATS or first.dtype == 0:
            return rule
        for name, factor in (("alpha", self.alpha), ("beta", self.beta)):
            if not (abs(factor) < 2.0**63 and factor == int(factor)):
                return f"{name} is {factor}, but of {dtype_name(first.dtype)} a whole number below 2^63 in magnitude"
        return ""

    def outputs(self, inputs: Sequence[Value | None]) -> list[Value]:
        a, b = inputs[0], inputs[1]
        assert a is not None
        assert b is not None
        left, right = self.shapes(inputs)
        shape: Shape = (None if left is None else left[0], None if right is None else right[1])
        return [Value(self.node.outputs[0], a.dtype or b.dtype, shape)]

    def run(self, inputs: Sequence[Tensor | None]) -> list[Tensor]:
        a, b = inputs[0], inputs[1]
        c = inputs[2] if len(inputs) > 2 and self.beta != 0.0 else None
        assert a is not None
        assert b is not None
        product = Product(transposed(a) if self.transpose_a else a, b if self.transpose_b else transposed(b))
        which = vec[i64]() if c is None else indices(c.shape, product.shape)
        if a.dtype in FLOATS:
            return [float_tensor(a.dtype, product.shape, self.combined(product.sums(), c, which))]
        return [residue_tensor(a.dtype, product.shape, self.whole_combined(product.whole_sums(), c, which))]

    def combined(self, sums: vec[float], c: Tensor | None, which: vec[i64]) -> vec[float]:
        """alpha * sum + beta * C; which: the element of C that belongs to each sum."""
        biases = vec[float]() if c is None else floats_of(c)
        found = vec[float]()
        for e in range(len(sums)):
            value = mul(self.alpha, sums[e])
            found = append(found, value if c is None else add(value, mul(self.beta, biases[which[e]])))
        return found

    def whole_combined(self, sums: list[int], c: Tensor | None, which: vec[i64]) -> list[int]:
        """The same of integers."""
        alpha, beta = int(self.alpha), int(self.beta)
        if c is None:
            return [alpha * total for total in sums]
        biases = residues_of(c)
        return [alpha * sums[e] + beta * int(biases[which[e]]) for e in range(len(sums))]


def same_type_rule(inputs: Sequence[Value | None], least: int) -> str:
    """The rule broken by inputs that are fewer than `least` or not all of one type; "" if there is none."""
    for position in range(least):
        if position >= len(inputs) or inputs[position] is None:
            return f"its input {'ABC'[position]} is missing"
    first = inputs[0]
    assert first is not None
    for value in inputs[1:]:
        if value is not None and first.dtype != value.dtype and first.dtype != 0 and value.dtype != 0:
            return f"input '{value.name}' is {dtype_name(value.dtype)}, the first {dtype_name(first.dtype)}"
    return ""
