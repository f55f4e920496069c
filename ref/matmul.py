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
from ortwin.ref.matmul_shape import Layout, Shape, indices, product_rule, product_shape, swapped, unidirectional_rule
from ortwin.ref.tensor import FLOATS, Tensor, dtype_name, item_size

BLOCK: Final = 256
"""Values of k whose products are summed in one chain: part of the definition of the result, not a matter of speed."""


class Product(Layout):
    """A product A * B to be summed up, row by row; of a vector as of the one row or column that it is."""

    def __init__(self, a: Tensor, b: Tensor) -> None:
        super().__init__(a.shape, b.shape)
        self.a = a
        self.b = b

    def sums(self) -> vec[float]:
        """The sums of tensors of floats, in C order."""
        a, b = floats_of(self.a), floats_of(self.b)
        found = vec[float]()
        for matrix in range(len(self.a_matrix)):
            for m in range(self.rows):
                a_from: i64 = (self.a_matrix[matrix] * self.rows + m) * self.inner
                b_from: i64 = self.b_matrix[matrix] * self.inner * self.columns
                for total in row_sums(a, a_from, b, b_from, self.inner, self.columns):
                    found = append(found, total)
        return found

    def whole_sums(self) -> list[int]:
        """The sums of tensors of integers, exact."""
        a, b = residues_of(self.a), residues_of(self.b)
        found: list[int] = []
        for matrix in range(len(self.a_matrix)):
            for m in range(self.rows):
                a_from: i64 = (self.a_matrix[matrix] * self.rows + m) * self.inner
                b_from: i64 = self.b_matrix[matrix] * self.inner * self.columns
                for n in range(self.columns):
                    total: int = 0
                    for k in range(self.inner):
                        total += int(a[a_from + k]) * int(b[b_from + k * self.columns + n])
                    found.append(total)
        return found


def row_sums(a: vec[float], a_from: i64, b: vec[float], b_from: i64, inner: i64, columns: i64) -> vec[float]:
    """The sum over k of a[a_from + k] * b[b_from + k * columns + n] for each column n (C6).

    The columns take turns, which changes nothing for any of them: each waits less for its own last step.
    """
    totals = vec[float]([0.0] * int(columns))
    first: i64 = 0
    while first < inner:
        last: i64 = min(first + BLOCK, inner)
        block = vec[float]([0.0] * int(columns))
        for k in range(first, last):
            factor = a[a_from + k]
            row: i64 = b_from + k * columns
            for n in range(columns):
                block[n] = fma(factor, b[row + n], block[n])
        for n in range(columns):
            totals[n] = block[n] if first == 0 else add(totals[n], block[n])  # 0.0 + -0.0 would be 0.0
        first = last
    return totals


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


def transposed(matrix: Tensor) -> Tensor:
    """The matrix with rows and columns exchanged."""
    rows, columns = matrix.shape
    data = np.frombuffer(matrix.data, np.uint8).reshape(rows, columns, item_size(matrix.dtype))
    return Tensor(matrix.dtype, (columns, rows), data.swapaxes(0, 1).tobytes())


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
        product = Product(a, b)
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

    def shapes(self, inputs: Sequence[Value | None]) -> tuple[Shape, Shape, Shape]:
        """The shapes of A' and B', and of their product: a matrix, whether or not the ranks of A and B are known."""
        a, b = inputs[0], inputs[1]
        assert a is not None
        assert b is not None
        left = swapped(a.shape) if self.transpose_a else a.shape
        right = swapped(b.shape) if self.transpose_b else b.shape
        return left, right, (None if left is None else left[0], None if right is None else right[1])

    def broken_rule(self, inputs: Sequence[Value | None]) -> str:
        rule = super().broken_rule(inputs) or same_type_rule(inputs, 2 if self.node.since_version >= 11 else 3)
        if rule:
            return rule
        for value in inputs[:2]:
            if value is not None and value.shape is not None and len(value.shape) != 2:
                return f"input '{value.name}' has rank {len(value.shape)}, but Gemm multiplies matrices, of rank 2"
        left, right, product = self.shapes(inputs)
        c = inputs[2] if len(inputs) > 2 else None
        rule = product_rule(left, right)
        if not rule and c is not None:
            rule = unidirectional_rule(c.shape, product, self.spread)
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
        return [Value(self.node.outputs[0], a.dtype or b.dtype, self.shapes(inputs)[2])]

    def run(self, inputs: Sequence[Tensor | None]) -> list[Tensor]:
        a, b = inputs[0], inputs[1]
        c = inputs[2] if len(inputs) > 2 and self.beta != 0.0 else None
        assert a is not None
        assert b is not None
        product = Product(transposed(a) if self.transpose_a else a, transposed(b) if self.transpose_b else b)
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
