"""Products of 8-bit matrices: MatMulInteger, QLinearMatMul; com.microsoft DynamicQuantizeMatMul, MatMulIntegerToFloat.

All are one sum, sum over k of (a[m, k] - a_zero_point) * (b[k, n] - b_zero_point), exact modulo 2^32 and read as an
int32 (C7), and differ in what they do to it. Operands of all four combinations of signs; shapes as numpy.matmul; zero
points and scales one number, or one per row of A and per column of B.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from librt.vecs import append, vec
from mypy_extensions import i64

from ortwin.ref.binary32 import add, div, mul, round
from ortwin.ref.elements import HIGHEST, LOWEST, float_tensor, floats_of, integer_tensor, integers_of
from ortwin.ref.graph import Node, Value
from ortwin.ref.kernel import Kernel
from ortwin.ref.matmul_shape import Layout, per_line, per_line_rule, product_rule, product_shape
from ortwin.ref.quant import BYTES, quantise_dynamically, requantise, type_rule
from ortwin.ref.tensor import FLOAT, FLOAT16, FLOATS, INT32, Tensor

HALF_SCALES: Final = frozenset({FLOAT, FLOAT16})
_NONE: Final = -1  # no such input


class Product(Layout):
    """The sums of a product: accumulators in C order, and where the numbers that belong to each are found."""

    def __init__(self, a: Tensor, a_zero_point: Tensor | None, b: Tensor, b_zero_point: Tensor | None) -> None:
        super().__init__(a.shape, b.shape)
        self.a_shape, self.b_shape = a.shape, b.shape
        self.left = _centred(a, a_zero_point, self.inner, True)
        self.right = _centred(b, b_zero_point, self.columns, False)

    def accumulators(self) -> vec[i64]:
        """The sums, of which no step can leave an i64, each reduced modulo 2^32 at its end."""
        found = vec[i64]()
        inner, columns, left, right = self.inner, self.columns, self.left, self.right
        for matrix in range(len(self.a_matrix)):
            a_from: i64 = self.a_matrix[matrix] * self.rows * inner
            b_from: i64 = self.b_matrix[matrix] * inner * columns
            for m in range(self.rows):
                sums = vec[i64]([0] * int(columns))
                at: i64 = a_from + m * inner
                for k in range(inner):
                    factor: i64 = left[at + k]
                    row: i64 = b_from + k * columns
                    for n in range(columns):
                        sums[n] = sums[n] + factor * right[row + n]
                for total in sums:
                    found = append(found, ((total + 0x80000000) & 0xFFFFFFFF) - 0x80000000)
        return found

    def row_values(self, values: vec[float], shape: tuple[int, ...]) -> vec[float]:
        """The number that belongs to each row of A."""
        return _spread(values, per_line(shape, self.a_shape, True))

    def column_values(self, values: vec[float], shape: tuple[int, ...]) -> vec[float]:
        """The number that belongs to each column of B."""
        return _spread(values, per_line(shape, self.b_shape, False))


def _spread(values: vec[float], which: vec[i64]) -> vec[float]:
    found = vec[float]()
    for k in which:
        found = append(found, values[k])
    return found


def _centred(matrix: Tensor, zero_point: Tensor | None, columns: i64, rows: bool) -> vec[i64]:
    """The elements less their zero points, which belong to rows or to columns; 9-bit numbers."""
    values = integers_of(matrix)
    if zero_point is None:
        return values
    zero_points = integers_of(zero_point)
    which = per_line(zero_point.shape, matrix.shape, rows)
    height: i64 = matrix.shape[-2] if len(matrix.shape) > 1 else matrix.shape[0]
    for i in range(len(values)):
        line: i64 = i // columns if rows else i // (height * columns) * columns + i % columns
        values[i] = values[i] - zero_points[which[line]]
    return values


class IntegerProduct(Kernel):
    """What the four ops share. Positions are those of a, b, their zero points and scales among the inputs; -1: none."""

    def __init__(self, node: Node) -> None:
        super().__init__(node)
        self.a, self.b = 0, 1
        self.a_zero_point, self.b_zero_point = 2, 3
        self.a_scale, self.b_scale = _NONE, _NONE
        self.scale_types: frozenset[int] = frozenset({FLOAT})

    def find(self, inputs: Sequence[Value | None], position: int) -> Value | None:
        """The input at a position; None if there is none."""
        return inputs[position] if 0 <= position < len(inputs) else None

    def broken_rule(self, inputs: Sequence[Value | None]) -> str:
        rule = super().broken_rule(inputs)
        a, b = self.find(inputs, self.a), self.find(inputs, self.b)
        rule = rule or type_rule(b, BYTES, "matrix B")
        if rule or a is None or b is None:
            return rule
        rule = product_rule(a.shape, b.shape)
        for matrix, zero_at, scale_at, rows in (
            (a, self.a_zero_point, self.a_scale, True),
            (b, self.b_zero_point, self.b_scale, False),
        ):
            zero_point, scale = self.find(inputs, zero_at), self.find(inputs, scale_at)
            if not rule and zero_point is not None:
                rule = type_rule(zero_point, frozenset({matrix.dtype}) if matrix.dtype else BYTES, "zero point")
                rule = rule or self.line_rule(zero_point, "zero point", matrix, rows)
            if not rule and scale_at != _NONE:
                rule = type_rule(scale, self.scale_types, "scale")
                if not rule and scale is not None:
                    rule = self.line_rule(scale, "scale", matrix, rows)
        return rule

    def line_rule(self, value: Value, what: str, matrix: Value, rows: bool) -> str:
        """The rule that the shape of a zero point or scale breaks."""
        rule = per_line_rule(value.shape, matrix.shape, rows)
        return f"{what} '{value.name}' {rule}" if rule else ""

    def product(self, inputs: Sequence[Tensor | None]) -> Product:
        """The product of the inputs."""
        a, b = inputs[self.a], inputs[self.b]
        assert a is not None
        assert b is not None
        return Product(a, _at(inputs, self.a_zero_point), b, _at(inputs, self.b_zero_point))

    def result(self, inputs: Sequence[Value | None], dtype: int) -> list[Value]:
        """The output, of this element type."""
        a, b = inputs[self.a], inputs[self.b]
        assert a is not None
        assert b is not None
        return [Value(self.node.outputs[0], dtype, product_shape(a.shape, b.shape))]


def _at(inputs: Sequence[Tensor | None], position: int) -> Tensor | None:
    return inputs[position] if 0 <= position < len(inputs) else None


class MatMulInteger(IntegerProduct):
    """MatMulInteger-10: the sums."""

    def outputs(self, inputs: Sequence[Value | None]) -> list[Value]:
        return self.result(inputs, INT32)

    def run(self, inputs: Sequence[Tensor | None]) -> list[Tensor]:
        product = self.product(inputs)
        return [integer_tensor(INT32, product.shape, product.accumulators())]


class QLinearMatMul(IntegerProduct):
    """QLinearMatMul-10 and -21: each sum requantised with s = a_scale * b_scale / y_scale, in binary32 and in that
    order; scales of a half type are widened. Declined: float8 matrices."""

    def __init__(self, node: Node) -> None:
        super().__init__(node)
        self.a_scale, self.a_zero_point, self.b, self.b_scale, self.b_zero_point = 1, 2, 3, 4, 5
        if node.since_version >= 21:
            self.scale_types = FLOATS

    def broken_rule(self, inputs: Sequence[Value | None]) -> str:
        rule = super().broken_rule(inputs)
        if rule:
            return rule
        for position, name in ((2, "a_zero_point"), (5, "b_zero_point")):
            if self.find(inputs, position) is None:
                return f"its {name} is missing"
        scale, zero_point = self.find(inputs, 6), self.find(inputs, 7)
        rule = type_rule(scale, self.scale_types, "scale") or type_rule(zero_point, BYTES, "zero point")
        if rule or scale is None or zero_point is None:
            return rule
        scales = {value.dtype for value in (inputs[1], inputs[4], scale) if value is not None and value.dtype}
        if len(scales) > 1:
            return "its scales are not all of one type"
        for value in (scale, zero_point):
            if value.shape is not None and any(isinstance(dim, int) and dim != 1 for dim in value.shape):
                return f"'{value.name}' of the result has shape {list(value.shape)}, but is one number"
        return ""

    def outputs(self, inputs: Sequence[Value | None]) -> list[Value]:
        zero_point = inputs[7]
        assert zero_point is not None
        return self.result(inputs, zero_point.dtype)

    def run(self, inputs: Sequence[Tensor | None]) -> list[Tensor]:
        a_scale, b_scale, y_scale, zero = inputs[1], inputs[4], inputs[6], inputs[7]
        assert a_scale is not None
        assert b_scale is not None
        assert y_scale is not None
        assert zero is not None
        product = self.product(inputs)
        sums = product.accumulators()
        row_scales = product.row_values(floats_of(a_scale), a_scale.shape)
        column_scales = product.column_values(floats_of(b_scale), b_scale.shape)
        divisor = floats_of(y_scale)[0]
        zero_point = integers_of(zero)[0]
        lowest: i64 = LOWEST[zero.dtype]
        highest: i64 = HIGHEST[zero.dtype]
        y = vec[i64]()
        at: i64 = 0
        for matrix in range(len(product.a_matrix)):
            for m in range(product.rows):
                row_scale = row_scales[product.a_matrix[matrix] * product.rows + m]
                for n in range(product.columns):
                    column_scale = column_scales[product.b_matrix[matrix] * product.columns + n]
                    scale = div(mul(row_scale, column_scale), divisor)
                    y = append(y, requantise(sums[at], scale, zero_point, lowest, highest))
                    at += 1
        return [integer_tensor(zero.dtype, product.shape, y)]


def scaled(product: Product, a_scale: float, b_scale: Tensor, bias: Tensor | None, dtype: int) -> Tensor:
    """Each sum, rounded to binary32, times a_scale * b_scale, and then plus the bias of its column, if there is one."""
    sums = product.accumulators()
    column_scales = product.column_values(floats_of(b_scale), b_scale.shape)
    y = vec[float]()
    at: i64 = 0
    biases = vec[float]() if bias is None else floats_of(bias)
    for matrix in range(len(product.a_matrix)):
        for _ in range(product.rows):
            for n in range(product.columns):
                column_scale = column_scales[product.b_matrix[matrix] * product.columns + n]
                value = mul(round(float(sums[at])), mul(a_scale, column_scale))
                y = append(y, value if bias is None else add(value, biases[n]))
                at += 1
    return float_tensor(dtype, product.shape, y)


def _bias_rule(bias: Value | None, b: Value | None, types: frozenset[int]) -> str:
    if bias is None or b is None:
        return ""
    rule = type_rule(bias, types, "bias")
    if rule or bias.shape is None or b.shape is None:
        return rule
    columns = b.shape[-1] if len(b.shape) > 1 else 1
    if len(bias.shape) != 1 or (
        isinstance(columns, int) and isinstance(bias.shape[0], int) and bias.shape[0] != columns
    ):
        return f"bias '{bias.name}' has shape {list(bias.shape)}, not [{columns}]"
    return ""


class MatMulIntegerToFloat(IntegerProduct):
    """com.microsoft.MatMulIntegerToFloat: float(sum) * (a_scale * b_scale) + bias, in binary32, float16 rounded once.

    A's scale and zero point are one number: of a vector, the schema says that it goes with columns.
    """

    def __init__(self, node: Node) -> None:
        super().__init__(node)
        self.a_scale, self.b_scale, self.a_zero_point, self.b_zero_point = 2, 3, 4, 5
        self.scale_types = HALF_SCALES

    def broken_rule(self, inputs: Sequence[Value | None]) -> str:
        rule = super().broken_rule(inputs)
        if rule:
            return rule
        a_scale, b_scale, bias = inputs[2], inputs[3], self.find(inputs, 6)
        assert a_scale is not None
        assert b_scale is not None
        types = {value.dtype for value in (a_scale, b_scale, bias) if value is not None and value.dtype}
        if len(types) > 1:
            return "its scales and bias are not all of one type"
        return _bias_rule(bias, self.find(inputs, 1), self.scale_types)

    def line_rule(self, value: Value, what: str, matrix: Value, rows: bool) -> str:
        if rows and value.shape is not None and any(isinstance(dim, int) and dim != 1 for dim in value.shape):
            return f"{what} '{value.name}' of A has shape {list(value.shape)}, but is one number"
        return super().line_rule(value, what, matrix, rows)

    def outputs(self, inputs: Sequence[Value | None]) -> list[Value]:
        scale = inputs[2]
        assert scale is not None
        return self.result(inputs, scale.dtype)

    def run(self, inputs: Sequence[Tensor | None]) -> list[Tensor]:
        a_scale, b_scale = inputs[2], inputs[3]
        assert a_scale is not None
        assert b_scale is not None
        return [scaled(self.product(inputs), floats_of(a_scale)[0], b_scale, _at(inputs, 6), a_scale.dtype)]


class DynamicQuantizeMatMul(IntegerProduct):
    """com.microsoft.DynamicQuantizeMatMul: A as DynamicQuantizeLinear gives it, then as MatMulIntegerToFloat.

    A's scale is that of the whole tensor, so here a row's result depends on the other rows.
    """

    def __init__(self, node: Node) -> None:
        super().__init__(node)
        self.b_scale, self.b_zero_point, self.a_zero_point = 2, 3, _NONE

    def broken_rule(self, inputs: Sequence[Value | None]) -> str:
        return super().broken_rule(inputs) or _bias_rule(self.find(inputs, 4), self.find(inputs, 1), frozenset({FLOAT}))

    def outputs(self, inputs: Sequence[Value | None]) -> list[Value]:
        return self.result(inputs, FLOAT)

    def run(self, inputs: Sequence[Tensor | None]) -> list[Tensor]:
        a, b, b_scale = inputs[0], inputs[1], inputs[2]
        assert a is not None
        assert b is not None
        assert b_scale is not None
        quantised, scale, zero_point = quantise_dynamically(a)
        zero = integer_tensor(quantised.dtype, (), vec[i64]([zero_point]))
        product = Product(quantised, zero, b, _at(inputs, 3))
        return [scaled(product, scale, b_scale, _at(inputs, 4), FLOAT)]
