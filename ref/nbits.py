"""com.microsoft MatMulNBits: Y = A W + bias, where the weights W are numbers of 2, 4 or 8 bits, quantised by blocks.

Each column of W is cut into blocks of block_size consecutive k, of which the last may be short. A block has a scale and
a zero point, and its weights are (q - zero_point) * scale. B holds the q of a column block after block, the low bits of
a byte first, and pads the last block: what stands there is never looked at. Text: the schema of ONNX Runtime 1.32.

The accuracy level says how inexact a result may be. Levels 0 to 3 are computed alike, in binary32:

    s = sum over the k of a block of a[k] * (q[k] - zero_point), a chain of fma from +0.0
    total = fma(s, scale, total) over the blocks, from +0.0

and level 4 with each block of activations rounded to 8 bits of its own scale:

    sa = max |a| / 127;  qa = rint(a / sa), from -127 to 127, and 0 if sa is 0
    d = sum of qa[k] * (q[k] - zero_point), exact, then rounded to binary32
    total = fma(d, sa * scale, total)

k and blocks ascend. A block with a NaN or an infinity has sa = NaN, and so its row is NaN (C10g). With group indices
the k of a block do not share a scale: weights are scaled one by one, and the sums of blocks then added.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from librt.vecs import append, vec
from mypy_extensions import i64

from ortwin.ref.binary32 import INF, NAN, add, div, fma, mul, rint, round, sub
from ortwin.ref.elements import float_tensor, floats_of, integers_of
from ortwin.ref.errors import UnsupportedError
from ortwin.ref.graph import Node, Value
from ortwin.ref.kernel import Kernel, integer
from ortwin.ref.matmul_shape import Shape
from ortwin.ref.quant import type_rule
from ortwin.ref.tensor import FLOATS, INT32, UINT8, Tensor

LARGEST_OF_INTEGERS: Final = 65536
"""The largest block_size that level 4 has: |d| <= block_size * 127 * 255 fits an int32. Larger blocks go by level 0."""


def unpack(data: bytes, rows: i64, count: i64, bits: i64) -> vec[i64]:
    """Rows of count unsigned numbers, the low bits of a byte first, each row from a byte of its own; bits divides 8."""
    stride: i64 = (count * bits + 7) // 8
    mask: i64 = (1 << bits) - 1
    found = vec[i64]()
    for row in range(rows):
        for k in range(count):
            byte: i64 = data[row * stride + (k * bits >> 3)]
            found = append(found, (byte >> (k * bits & 7)) & mask)
    return found


def quantise_activations(x: vec[float], rows: i64, inner: i64, block_size: i64) -> tuple[vec[float], vec[float]]:
    """Level 4: the qa of every element, and the sa of each block of each row."""
    whole, scales = vec[float](), vec[float]()
    blocks: i64 = (inner + block_size - 1) // block_size
    for row in range(rows):
        for block in range(blocks):
            start: i64 = row * inner + block * block_size
            end: i64 = min(start + block_size, (row + 1) * inner)
            most = 0.0
            for k in range(start, end):
                magnitude = abs(x[k])
                if magnitude > most or magnitude != magnitude:
                    most = magnitude
            scale = div(most, 127.0) if most < INF else NAN
            scales = append(scales, scale)
            for k in range(start, end):
                q = rint(div(x[k], scale)) if scale > 0.0 else 0.0
                whole = append(whole, min(max(q, -127.0), 127.0))
    return whole, scales


def matches(shape: Shape, *wanted: tuple[int, ...]) -> bool:
    """Whether a shape is, or may turn out to be, one of these."""
    if shape is None:
        return True
    for sizes in wanted:
        pairs = zip(shape, sizes, strict=False)
        if len(shape) == len(sizes) and all(p == q or not isinstance(p, int) for p, q in pairs):
            return True
    return False


class MatMulNBits(Kernel):
    """com.microsoft.MatMulNBits-1: A [..., K], B uint8 [N, blocks, block_size * bits / 8], scales [N, blocks] or flat.

    Optional are zero_points, either uint8, packed as B and filled up to whole bytes per column, or numbers of A's type
    in the shape of the scales (without any, 2^(bits - 1)); g_idx, int32 [K] or [blocks * block_size], the block whose
    scale and zero point belong to k; bias [N]. Y is [..., N]. A, scales, bias and Y are of one type; halves are widened
    to binary32, and the result rounded once, at the end (C5).

    B without elements stands for a projection left out: the product is +0.0, as with K = 0, and the bias still counts.
    Level 4 needs integer zero points, no g_idx and a block_size of at most 65536; otherwise it is computed as level 0.
    Declined: a B packed for another provider.
    """

    def __init__(self, node: Node) -> None:
        super().__init__(node)
        for name in ("K", "N", "block_size"):
            if name not in node.attributes:
                raise UnsupportedError(f"{node.label}: attribute {name} is missing")
        self.inner = integer(node, "K", 0)
        self.columns = integer(node, "N", 0)
        self.block_size = integer(node, "block_size", 0)
        self.bits = integer(node, "bits", 4)
        self.level = integer(node, "accuracy_level", 0)
        rule = self._attribute_rule()
        if rule:
            raise UnsupportedError(f"{node.label}: {rule}")
        self.blocks = -(-self.inner // self.block_size)

    def _attribute_rule(self) -> str:
        if self.inner < 0 or self.columns < 0:
            return f"K is {self.inner} and N {self.columns}, but sizes are not negative"
        if self.bits not in (2, 4, 8):
            return f"bits is {self.bits}, not 2, 4 or 8"
        if self.block_size < 16 or self.block_size & (self.block_size - 1) != 0:
            return f"block_size is {self.block_size}, not a power of 2 from 16 on"
        if not 0 <= self.level <= 4:
            return f"accuracy_level is {self.level}, not 0 to 4"
        if integer(self.node, "weight_prepacked", 0) != 0:
            return "weight_prepacked is not 0: its B is packed for another provider"
        return ""

    def broken_rule(self, inputs: Sequence[Value | None]) -> str:
        rule = super().broken_rule(inputs)
        if rule:
            return rule
        a, b, scales, zero_points, groups, bias = [*inputs, None, None, None, None, None][:6]
        assert a is not None
        own = frozenset({a.dtype}) if a.dtype != 0 else FLOATS
        rule = type_rule(b, frozenset({UINT8}), "input B") or type_rule(scales, own, "input scales")
        if not rule and zero_points is not None:
            rule = type_rule(zero_points, own | {UINT8}, "input zero_points")
        if not rule and groups is not None:
            rule = type_rule(groups, frozenset({INT32}), "input g_idx")
        if not rule and bias is not None:
            rule = type_rule(bias, own, "input bias")
        if rule or b is None:
            return rule
        if a.shape is not None and (not a.shape or (isinstance(a.shape[-1], int) and a.shape[-1] != self.inner)):
            return f"A has shape {list(a.shape)}, whose last dimension is not K = {self.inner}"
        if not self._is_omitted(b.shape):
            rule = _shape_rule(b, "input B", self._weight_shape())
        if not rule and self._is_there(b.shape):
            rule = self._block_rule(scales, zero_points, groups)
        return rule or _shape_rule(bias, "input bias", (self.columns,))

    def _weight_shape(self) -> tuple[int, ...]:
        return self.columns, self.blocks, self.block_size * self.bits // 8

    def _is_omitted(self, b: Shape) -> bool:
        """Whether B, as far as it is known, is as it should be but for zeros among its dimensions."""
        if b is None or len(b) != 3:
            return False
        pairs = list(zip(b, self._weight_shape(), strict=True))
        return 0 in b and all(p == q or p == 0 or not isinstance(p, int) for p, q in pairs)

    def _is_there(self, b: Shape) -> bool:
        """Whether it is known that B has elements, so that what belongs to its blocks counts."""
        return b is not None and all(isinstance(dim, int) and dim > 0 for dim in b)

    def _block_rule(self, scales: Value | None, zero_points: Value | None, groups: Value | None) -> str:
        count = self.columns * self.blocks
        rule = _shape_rule(scales, "input scales", (self.columns, self.blocks), (count,))
        if rule:
            return rule
        if zero_points is not None and zero_points.dtype != 0:
            row = -(-self.blocks * self.bits // 8) if zero_points.dtype == UINT8 else self.blocks
            rule = _shape_rule(zero_points, "input zero_points", (self.columns, row), (self.columns * row,))
        return rule or _shape_rule(groups, "input g_idx", (self.inner,), (self.blocks * self.block_size,))

    def broken_content(self, inputs: Sequence[Tensor | None]) -> str:
        groups = _at(inputs, 4)
        if groups is None:
            return ""
        for k, group in enumerate(integers_of(groups)):
            if k < self.inner and not 0 <= group < self.blocks:
                return f"g_idx is {group} at {k}, not 0 to {self.blocks - 1}"
        return ""

    def outputs(self, inputs: Sequence[Value | None]) -> list[Value]:
        a = inputs[0]
        assert a is not None
        return [Value(self.node.outputs[0], a.dtype, None if a.shape is None else (*a.shape[:-1], self.columns))]

    def run(self, inputs: Sequence[Tensor | None]) -> list[Tensor]:
        a, b, scales = inputs[0], inputs[1], inputs[2]
        assert a is not None
        assert b is not None
        assert scales is not None
        rows = math.prod(a.shape[:-1])
        if b.size == 0:
            y = vec[float]([0.0] * (rows * self.columns))
        else:
            y = self._totals(floats_of(a), rows, b, floats_of(scales), _at(inputs, 3), _at(inputs, 4))
        bias = _at(inputs, 5)
        if bias is not None:
            biases = floats_of(bias)
            for i in range(len(y)):
                y[i] = add(y[i], biases[i % len(biases)])
        return [float_tensor(a.dtype, (*a.shape[:-1], self.columns), y)]

    def _totals(
        self, x: vec[float], rows: i64, b: Tensor, scales: vec[float], zero_points: Tensor | None, groups: Tensor | None
    ) -> vec[float]:
        """The products, row after row."""
        columns: i64 = self.columns
        inner: i64 = self.inner
        blocks: i64 = self.blocks
        block_size: i64 = self.block_size
        w = self._weights(b, scales, zero_points, groups)
        integers = (
            self.level == 4
            and groups is None
            and (zero_points is None or zero_points.dtype == UINT8)
            and self.block_size <= LARGEST_OF_INTEGERS
        )
        x_scales = vec[float]()
        if integers:
            x, x_scales = quantise_activations(x, rows, inner, block_size)
        y = vec[float]()
        for row in range(rows):
            for column in range(columns):
                total = 0.0
                for block in range(blocks):
                    end: i64 = min((block + 1) * block_size, inner)
                    scale = scales[column * blocks + block] if groups is None else 1.0
                    s = 0.0
                    if integers:
                        for k in range(block * block_size, end):
                            s += x[row * inner + k] * w[column * inner + k]  # of whole numbers below 2^53: exact
                        s = round(s)
                        scale = mul(x_scales[row * blocks + block], scale)
                    else:
                        for k in range(block * block_size, end):
                            s = fma(x[row * inner + k], w[column * inner + k], s)
                    total = fma(s, scale, total)
                y = append(y, total)
        return y

    def _weights(self, b: Tensor, scales: vec[float], zero_points: Tensor | None, groups: Tensor | None) -> vec[float]:
        """q - zero_point of every column and k, exact if the zero point is an integer; with group indices times the
        scale."""
        columns: i64 = self.columns
        inner: i64 = self.inner
        blocks: i64 = self.blocks
        block_size: i64 = self.block_size
        q = unpack(b.data, columns * blocks, block_size, self.bits)
        zeros = self._zeros(zero_points)
        group = vec[i64]()
        if groups is not None:
            group = integers_of(groups)
        else:
            for k in range(inner):
                group = append(group, k // block_size)
        w = vec[float]()
        for column in range(columns):
            for k in range(inner):
                at: i64 = column * blocks + group[k]
                difference = sub(float(q[column * blocks * block_size + k]), zeros[at])
                w = append(w, difference if groups is None else mul(difference, scales[at]))
        return w

    def _zeros(self, zero_points: Tensor | None) -> vec[float]:
        """The zero point of every block of every column."""
        if zero_points is None:
            return vec[float]([float(1 << (self.bits - 1))] * (self.columns * self.blocks))
        if zero_points.dtype != UINT8:
            return floats_of(zero_points)
        found = vec[float]()
        for zero in unpack(zero_points.data, self.columns, self.blocks, self.bits):
            found = append(found, float(zero))
        return found


def _shape_rule(value: Value | None, what: str, *wanted: tuple[int, ...]) -> str:
    if value is None or matches(value.shape, *wanted):
        return ""
    shapes = " or ".join(str(list(shape)) for shape in wanted)
    return f"{what} '{value.name}' has shape {list(value.shape or ())}, not {shapes}"


def _at(inputs: Sequence[Tensor | None], position: int) -> Tensor | None:
    return inputs[position] if position < len(inputs) else None
