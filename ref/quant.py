"""QuantizeLinear, DequantizeLinear and DynamicQuantizeLinear, from the ONNX text, and the rounding that all have.

A quantised number q stands for (q - zero_point) * scale. To quantise, a binary32 value p = x / scale is rounded to the
nearest integer, ties to even; then the zero point is added; then the sum saturates to the type. A NaN p counts as 0,
so it gives the zero point; an infinity saturates (C10f).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
from librt.vecs import append, vec
from mypy_extensions import i64

from ortwin.ref.binary32 import div, mul, rint, round, sub
from ortwin.ref.elements import HIGHEST, LOWEST, float_tensor, floats_of, integer_tensor, integers_of
from ortwin.ref.errors import UnsupportedError
from ortwin.ref.graph import Node, Value
from ortwin.ref.kernel import Kernel, integer
from ortwin.ref.matmul_shape import Shape
from ortwin.ref.tensor import FLOAT, FLOATS, INT4, INT8, INT16, UINT4, UINT8, UINT16, Tensor, dtype_name

BYTES: Final = frozenset({UINT8, INT8})
QUANTISED: Final = frozenset({UINT8, INT8, UINT16, INT16, UINT4, INT4})
"""Element types that are quantised to, from version 21 on; before, BYTES."""


def quantise(p: float, zero_point: i64, lowest: i64, highest: i64) -> i64:
    """The quantised number of p, a binary32 value in units of the scale."""
    if p != p:
        return zero_point
    if p > 2.0**32:  # no zero point reaches back from here, and i64 would not hold all
        return highest
    if p < -(2.0**32):
        return lowest
    whole: i64 = int(rint(p))
    moved: i64 = whole + zero_point
    return lowest if moved < lowest else highest if moved > highest else moved


def requantise(accumulator: i64, scale: float, zero_point: i64, lowest: i64, highest: i64) -> i64:
    """An int32 sum of products to a quantised number: the sum rounded to binary32, times the scale, rounded."""
    return quantise(mul(round(float(accumulator)), scale), zero_point, lowest, highest)


def dynamic_scale(x: vec[float]) -> tuple[float, int]:
    """Scale and zero point (uint8) of DynamicQuantizeLinear for these elements.

    With 0 counted among them: scale = (max - min) / 255, zero_point = rint(saturate(0 - min / scale)), each operation
    rounded to binary32. All zero or empty: scale 0, zero point 0. A NaN makes the scale NaN and the zero point 0.
    """
    least, most = 0.0, 0.0
    for v in x:
        if v != v:
            return math.nan, 0
        if v < least:
            least = v
        if v > most:
            most = v
    scale = div(sub(most, least), 255.0)
    zero_point = sub(0.0, div(least, scale))
    if zero_point != zero_point:
        return scale, 0
    return scale, int(rint(min(max(zero_point, 0.0), 255.0)))


class Granular(Kernel):
    """What QuantizeLinear and DequantizeLinear share: one scale for all, for each index of an axis, or for blocks."""

    def __init__(self, node: Node) -> None:
        super().__init__(node)
        self.axis = integer(node, "axis", 1)
        self.block_size = integer(node, "block_size", 0)
        self.output_dtype = integer(node, "output_dtype", 0)
        if self.block_size < 0:
            raise UnsupportedError(f"{node.label}: block_size must not be negative")

    def granularity_rule(self, inputs: Sequence[Value | None]) -> str:
        """The rule that the shapes of x, scale and zero point break; "" if there is none."""
        x, scale = inputs[0], inputs[1]
        zero_point = inputs[2] if len(inputs) > 2 else None
        assert x is not None
        assert scale is not None
        if zero_point is not None and _differ(zero_point.shape, scale.shape):
            return f"zero point '{zero_point.name}' has not the shape of scale '{scale.name}'"
        return "" if x.shape is None or scale.shape is None else self._scale_rule(scale, x.shape, scale.shape)

    def _scale_rule(self, scale: Value, x: tuple[int | str | None, ...], s: tuple[int | str | None, ...]) -> str:
        if self.block_size == 0 and (not s or (len(s) == 1 and s[0] == 1)):
            return ""
        if self.node.since_version < 13:
            return "" if len(s) == 1 and not isinstance(s[0], int) else f"scale '{scale.name}' is not one number"
        if self.block_size == 0 and len(s) == 1 and not isinstance(s[0], int):
            return ""  # may turn out to be [1]
        if not -len(x) <= self.axis < len(x):
            return f"axis {self.axis} is none of an input of rank {len(x)}"
        axis = self.axis % len(x)
        if self.block_size == 0:
            if len(s) != 1:
                return f"scale '{scale.name}' has rank {len(s)}, but without block_size it has 0 or 1"
            wanted: list[int | str | None] = [x[axis]]
        else:
            size = x[axis]
            wanted = list(x)
            wanted[axis] = -(-size // self.block_size) if isinstance(size, int) else None
            if len(s) != len(x):
                return f"scale '{scale.name}' has rank {len(s)}, but with block_size it has that of the input, {len(x)}"
        for have, want in zip(s, wanted, strict=True):
            if isinstance(have, int) and isinstance(want, int) and have != want:
                return f"scale '{scale.name}' has shape {list(s)}, not {wanted}"
        return ""

    def scale_of(self, x: tuple[int, ...], scale: tuple[int, ...]) -> vec[i64]:
        """For each element of x, in order, the element of the scale that belongs to it."""
        index = np.arange(math.prod(scale)).reshape(scale)
        if self.block_size > 0:
            axis = self.axis % len(x)
            index = np.take(index, np.arange(x[axis]) // self.block_size, axis)
        elif len(scale) == 1 and scale[0] != 1:
            axis = self.axis % len(x)
            index = index.reshape((-1,) + (1,) * (len(x) - axis - 1))
        else:
            index = index.reshape(())
        found = vec[i64]()
        for k in np.broadcast_to(index, x).reshape(-1).tolist():
            found = append(found, k)
        return found

    def zero_points(self, inputs: Sequence[Tensor | None], count: int) -> vec[i64]:
        """The zero points; without any, as many zeros."""
        given = inputs[2] if len(inputs) > 2 else None
        return vec[i64]([0] * count) if given is None else integers_of(given)


def _differ(a: Shape, b: Shape) -> bool:
    """Whether these are two shapes of different tensors. [] and [1] are the same: one number for all."""
    if a is None or b is None or (len(a) < 2 and len(b) < 2 and set(a + b) <= {1}):
        return False
    return len(a) != len(b) or any(
        isinstance(p, int) and isinstance(q, int) and p != q for p, q in zip(a, b, strict=True)
    )


def type_rule(value: Value | None, allowed: frozenset[int], what: str) -> str:
    """The rule broken by a value that is none or of none of these element types; "" if there is none."""
    if value is None:
        return f"its {what} is missing"
    if value.dtype != 0 and value.dtype not in allowed:
        names = " or ".join(dtype_name(dtype) for dtype in sorted(allowed))
        return f"{what} '{value.name}' is {dtype_name(value.dtype)}, not {names}"
    return ""


class QuantizeLinear(Granular):
    """y = saturate(rint(x / y_scale) + y_zero_point); versions 10, 13, 19, 21, 23, 24, 25, 28.

    x / y_scale is one binary32 division, of halves widened (C5) and of an int32 x rounded to binary32. From version 23
    on the text gives the division a precision: the attribute's, or else the scale's type. If that is a half type, both
    operands and then the quotient are rounded to it. Declined: float8, float4, float6 and 2-bit results, a scale of
    int32 (what its division would round to is not said) or float8_e8m0.
    """

    def __init__(self, node: Node) -> None:
        super().__init__(node)
        self.precision = integer(node, "precision", 0)
        self.results = BYTES if node.since_version < 21 else QUANTISED
        if self.output_dtype != 0 and self.output_dtype not in self.results:
            raise UnsupportedError(
                f"{node.label}: output_dtype {dtype_name(self.output_dtype)} is not implemented, "
                f"only {' '.join(dtype_name(dtype) for dtype in sorted(self.results))}"
            )
        if self.precision != 0 and self.precision not in FLOATS:
            raise UnsupportedError(f"{node.label}: precision {dtype_name(self.precision)} is not implemented")

    def broken_rule(self, inputs: Sequence[Value | None]) -> str:
        rule = super().broken_rule(inputs)
        x = inputs[0] if inputs else None
        scale = inputs[1] if len(inputs) > 1 else None
        zero_point = inputs[2] if len(inputs) > 2 else None
        rule = rule or type_rule(scale, FLOATS if self.node.since_version >= 19 else frozenset({FLOAT}), "scale")
        if not rule and zero_point is not None:
            rule = type_rule(zero_point, self.results, "zero point")
            if not rule and 0 != self.output_dtype != zero_point.dtype != 0:
                rule = f"output_dtype is {dtype_name(self.output_dtype)}, the zero point {dtype_name(zero_point.dtype)}"
        if rule or x is None or scale is None:
            return rule
        if self.node.since_version in (19, 21) and x.dtype != scale.dtype and x.dtype != 0 and scale.dtype != 0:
            return f"scale '{scale.name}' is {dtype_name(scale.dtype)}, the input {dtype_name(x.dtype)}"
        return self.granularity_rule(inputs)

    def outputs(self, inputs: Sequence[Value | None]) -> list[Value]:
        x, zero_point = inputs[0], inputs[2] if len(inputs) > 2 else None
        assert x is not None
        given = UINT8 if zero_point is None else zero_point.dtype
        return [Value(self.node.outputs[0], self.output_dtype or given, x.shape)]

    def run(self, inputs: Sequence[Tensor | None]) -> list[Tensor]:
        x, scale = inputs[0], inputs[1]
        zero_point = inputs[2] if len(inputs) > 2 else None
        assert x is not None
        assert scale is not None
        dtype = self.output_dtype or (UINT8 if zero_point is None else zero_point.dtype)
        precision = FLOAT if self.node.since_version < 23 else self.precision or scale.dtype
        quotients = self._quotients(x, scale, precision)
        which = self.scale_of(x.shape, scale.shape)
        zero_points = self.zero_points(inputs, scale.size)
        lowest: i64 = LOWEST[dtype]
        highest: i64 = HIGHEST[dtype]
        y = vec[i64]()
        for i in range(len(quotients)):
            y = append(y, quantise(quotients[i], zero_points[which[i]], lowest, highest))
        return [integer_tensor(dtype, x.shape, y)]

    def _quotients(self, x: Tensor, scale: Tensor, precision: int) -> vec[float]:
        """x / scale, operands and quotient rounded to the precision."""
        xs = _rounded(floats_of(x), precision)
        scales = _rounded(floats_of(scale), precision)
        which = self.scale_of(x.shape, scale.shape)
        quotients = vec[float]()
        for i in range(len(xs)):
            quotients = append(quotients, div(xs[i], scales[which[i]]))
        return _rounded(quotients, precision)


def _rounded(values: vec[float], dtype: int) -> vec[float]:
    return values if dtype == FLOAT else floats_of(float_tensor(dtype, (len(values),), values))


class DequantizeLinear(Granular):
    """y = (x - x_zero_point) * x_scale; versions 10, 13, 19, 21, 23, 24, 25, 28.

    The difference is exact, then rounded to binary32 (which only an int32 feels), then multiplied; a result of a half
    type is rounded once more (C5). It has the scale's type, or from version 23 on that of output_dtype. Declined:
    float8, float4, float6 and 2-bit inputs, a scale of float8_e8m0.
    """

    def __init__(self, node: Node) -> None:
        super().__init__(node)
        if self.output_dtype != 0 and self.output_dtype not in FLOATS:
            raise UnsupportedError(f"{node.label}: output_dtype {dtype_name(self.output_dtype)} is not implemented")

    def broken_rule(self, inputs: Sequence[Value | None]) -> str:
        rule = super().broken_rule(inputs)
        x = inputs[0] if inputs else None
        scale = inputs[1] if len(inputs) > 1 else None
        zero_point = inputs[2] if len(inputs) > 2 else None
        rule = rule or type_rule(scale, FLOATS if self.node.since_version >= 19 else frozenset({FLOAT}), "scale")
        if not rule and zero_point is not None and x is not None and x.dtype != 0:
            rule = type_rule(zero_point, frozenset({x.dtype}), "zero point")
        return rule or self.granularity_rule(inputs)

    def outputs(self, inputs: Sequence[Value | None]) -> list[Value]:
        x, scale = inputs[0], inputs[1]
        assert x is not None
        assert scale is not None
        return [Value(self.node.outputs[0], self.output_dtype or scale.dtype, x.shape)]

    def run(self, inputs: Sequence[Tensor | None]) -> list[Tensor]:
        x, scale = inputs[0], inputs[1]
        assert x is not None
        assert scale is not None
        xs, scales = integers_of(x), floats_of(scale)
        which = self.scale_of(x.shape, scale.shape)
        zero_points = self.zero_points(inputs, scale.size)
        y = vec[float]()
        for i in range(len(xs)):
            k = which[i]
            y = append(y, mul(round(float(xs[i] - zero_points[k])), scales[k]))
        return [float_tensor(self.output_dtype or scale.dtype, x.shape, y)]


class DynamicQuantizeLinear(Kernel):
    """DynamicQuantizeLinear-11: scale and zero point from the data, then y as QuantizeLinear would."""

    def outputs(self, inputs: Sequence[Value | None]) -> list[Value]:
        x = inputs[0]
        assert x is not None
        found = [Value("", UINT8, x.shape), Value("", FLOAT, ()), Value("", UINT8, ())]
        return [Value(name, value.dtype, value.shape) for name, value in zip(self.node.outputs, found, strict=False)]

    def run(self, inputs: Sequence[Tensor | None]) -> list[Tensor]:
        x = inputs[0]
        assert x is not None
        y, scale, zero_point = quantise_dynamically(x)
        return [y, float_tensor(FLOAT, (), vec[float]([scale])), integer_tensor(UINT8, (), vec[i64]([zero_point]))]


def quantise_dynamically(x: Tensor) -> tuple[Tensor, float, int]:
    """A float32 tensor as uint8, with its scale and zero point."""
    xs = floats_of(x)
    scale, zero_point = dynamic_scale(xs)
    z: i64 = zero_point
    y = vec[i64]()
    for v in xs:
        y = append(y, quantise(div(v, scale), z, 0, 255))
    return integer_tensor(UINT8, x.shape, y), scale, zero_point
