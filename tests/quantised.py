"""Models of the quantised ops, and what they must give, from Python's big integers and fractions: for tests."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper

from ortwin.ref import Session
from ortwin.ref.tensor import dtype_number

Array = npt.NDArray[Any]

FLOATS, BYTES = (1, 10, 16), (2, 3)
STORED, STORED_21 = (2, 3, 6), (2, 3, 6, 4, 5, 21, 22)
ROWS: dict[tuple[str, str, int], frozenset[int]] = {
    **{("", "QuantizeLinear", version): frozenset({1, 6}) for version in (10, 13)},
    **{("", "QuantizeLinear", version): frozenset(FLOATS) for version in (19, 21)},
    **{("", "QuantizeLinear", version): frozenset({*FLOATS, 6}) for version in (23, 24, 25, 28)},
    **{("", "DequantizeLinear", version): frozenset(STORED) for version in (10, 13, 19)},
    **{("", "DequantizeLinear", version): frozenset(STORED_21) for version in (21, 23, 24, 25, 28)},
    ("", "DynamicQuantizeLinear", 11): frozenset({1}),
    ("", "MatMulInteger", 10): frozenset(BYTES),
    **{("", "QLinearMatMul", version): frozenset(BYTES) for version in (10, 21)},
    ("com.microsoft", "MatMulIntegerToFloat", 1): frozenset(BYTES),
    ("com.microsoft", "DynamicQuantizeMatMul", 1): frozenset({1}),
    ("com.microsoft", "MatMulNBits", 1): frozenset(FLOATS),
}
"""The rows of these ops in both op tables, by hand from the ONNX text: (domain, op, version), types of input 0."""

SIGNS = [(np.uint8, np.uint8), (np.uint8, np.int8), (np.int8, np.uint8), (np.int8, np.int8)]


def iinfo(dtype: Any) -> Any:
    """numpy's iinfo, of 4-bit types too."""
    module: Any = ml_dtypes  # whose functions have no types
    return module.iinfo(dtype)


def model(
    op: str,
    inputs: Sequence[Array | None],
    outputs: int = 1,
    *,
    opset: int = 21,
    domain: str = "",
    unknown_shapes: bool = False,
    constants: Sequence[int] = (),
    **attributes: Any,
) -> onnx.ModelProto:
    """A model of one node; its inputs are i0, i1 ..., of these types and shapes, its outputs o0, o1 ...

    constants: positions of inputs that are initializers.
    """
    names = [f"i{k}" if value is not None else "" for k, value in enumerate(inputs)]
    made = [f"o{k}" for k in range(outputs)]
    graph = helper.make_graph(
        [helper.make_node(op, names, made, domain=domain, **attributes)],
        "g",
        [
            helper.make_tensor_value_info(f"i{k}", dtype_number(x.dtype), None if unknown_shapes else x.shape)
            for k, x in enumerate(inputs)
            if x is not None and k not in constants
        ],
        [onnx.ValueInfoProto(name=name) for name in made],
        [onnx.numpy_helper.from_array(x, f"i{k}") for k, x in enumerate(inputs) if x is not None and k in constants],
    )
    for value in graph.output:
        value.type.tensor_type.elem_type = 0
    opsets = [helper.make_opsetid("", opset)] + ([helper.make_opsetid(domain, 1)] if domain else [])
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def run(op: str, inputs: Sequence[Array | None], outputs: int = 1, **options: Any) -> list[Array]:
    """The op by the reference."""
    session = Session(typed(model(op, inputs, outputs, **options), inputs, options))
    return session.run(None, {value.name: np.asarray(inputs[int(value.name[1:])]) for value in session.graph.inputs})


def typed(proto: onnx.ModelProto, inputs: Sequence[Array | None], options: Any) -> onnx.ModelProto:
    """The model with its outputs' element types filled in: onnx wants one, and shape inference knows ai.onnx's."""
    op = proto.graph.node[0].op_type
    types = {
        "MatMulInteger": [6],
        "QLinearMatMul": [dtype_number(inputs[7].dtype)] if len(inputs) > 7 and inputs[7] is not None else [2],
        "MatMulIntegerToFloat": [dtype_number(inputs[2].dtype)] if len(inputs) > 2 and inputs[2] is not None else [1],
        "DynamicQuantizeMatMul": [1],
        "DynamicQuantizeLinear": [2, 1, 2],
        "MatMulNBits": [dtype_number(inputs[0].dtype)] if inputs[0] is not None else [1],
    }
    if op == "QuantizeLinear":
        zero_point = inputs[2] if len(inputs) > 2 else None
        given = 2 if zero_point is None else dtype_number(zero_point.dtype)
        types[op] = [options.get("output_dtype", 0) or given]
    if op == "DequantizeLinear":
        scale = inputs[1]
        assert scale is not None
        types[op] = [options.get("output_dtype", 0) or dtype_number(scale.dtype)]
    for value, dtype in zip(proto.graph.output, types.get(op, [1]), strict=False):
        value.type.tensor_type.elem_type = dtype
    return proto


def wrapped(total: int) -> int:
    """An integer modulo 2^32, as an int32."""
    return (total + 2**31) % 2**32 - 2**31


def half_even(x: Fraction) -> int:
    """The nearest integer, ties to even."""
    return round(x)


def nearest_f32(x: Fraction) -> Fraction:
    """The nearest binary32 number, ties to even, by definition; overflow is not meant to occur."""
    if x == 0:
        return Fraction(0)
    unit = Fraction(2) ** max(math.frexp(float(x))[1] - 24, -149)
    return round(x / unit) * unit


def sums(a: Array, b: Array, za: Array, zb: Array) -> Array:
    """The product of matrices of int64 less zero points that broadcast, modulo 2^32."""
    exact = (a.astype(np.int64) - za.astype(np.int64)) @ (b.astype(np.int64) - zb.astype(np.int64))
    return exact.astype(np.int32)  # numpy wraps here
