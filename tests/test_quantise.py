"""The C steps of quantising, on every instruction set, against the reference; and the shape rules of both sides."""

from __future__ import annotations

import ctypes
import itertools
import math
import random
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from models import ISAS
from ortwin.fast.library import CError, COperand, CTensor
from ortwin.ref.matmul_shape import per_line_rule, product_rule, product_shape
from ortwin.ref.tensor import Tensor, dtype_number, from_numpy, to_numpy
from products import ISA_NUMBERS, NAMES, Array, driver
from quantised import iinfo, run

F32 = np.float32
RESULTS = [np.uint8, np.int8, np.uint16, np.int16, ml_dtypes.uint4, ml_dtypes.int4]
WIDE = [F32, np.float16, ml_dtypes.bfloat16]
# shape of x, of the scale, axis, block_size
GRANULARITIES: list[tuple[tuple[int, ...], tuple[int, ...], int, int]] = [
    ((0,), (), 1, 0),
    ((1,), (), 1, 0),
    ((1031,), (1,), 1, 0),
    ((7, 5, 3), (5,), 1, 0),
    ((7, 5, 3), (3,), -1, 0),
    ((3, 700), (700,), 1, 0),
    ((2, 3, 600), (3,), 1, 0),
    ((4, 35), (4, 5), 1, 8),
    ((7, 33), (3, 33), 0, 3),
    ((2, 9, 5), (2, 3, 5), 1, 4),
    ((1200,), (2,), 0, 700),
]


def packed(array: Array) -> tuple[CTensor, bytearray]:
    """A tensor as ONNX and ONNX Runtime hold it, also of 4-bit elements; the bytes must outlive it."""
    data = bytearray(from_numpy(array).data)
    address = ctypes.addressof((ctypes.c_char * len(data)).from_buffer(data)) if data else 0
    dims = (ctypes.c_int64 * array.ndim)(*array.shape)
    return CTensor(address, dims, array.ndim, len(data), dtype_number(array.dtype)), data


def linear(
    isa: str, x: Array, scale: Array, zero: Array | None, axis: int, block: int, to: Any, precision: int
) -> Array:
    """QuantizeLinear, or, with precision 0, DequantizeLinear."""
    held = [packed(v) for v in (x, scale, *(() if zero is None else (zero,)), np.zeros(x.shape, np.int32).astype(to))]
    tensors: list[Any] = [ctypes.byref(tensor) for tensor, _ in held]
    if zero is None:
        tensors.insert(2, None)
    error = CError()
    for value in held[-1][1:]:
        value[:] = b"\xa5" * len(value)
    x_, s, z, y = tensors
    status = driver().driver_quantise(
        ISA_NUMBERS[isa], x_, s, z, ctypes.c_int64(axis), ctypes.c_int64(block), precision, y, ctypes.byref(error)
    )
    assert status == 0, error.text
    return to_numpy(Tensor(dtype_number(np.dtype(to)), x.shape, bytes(held[-1][1])))


def hard_floats(rng: np.random.Generator, shape: tuple[int, ...], spread: float, dtype: Any) -> Array:
    x = (rng.normal(size=shape) * spread).astype(F32)
    special = [math.inf, -math.inf, math.nan, 0.0, -0.0, 2.5, -3.5, 1e-45, 3e38, -3e38]
    flat = x.reshape(-1)
    flat[: min(len(flat), len(special))] = special[: len(flat)]
    with np.errstate(over="ignore"):
        return x.astype(dtype)


@pytest.mark.parametrize("case", GRANULARITIES, ids=str)
@pytest.mark.parametrize("isa", ISAS)
def test_quantise_linear(isa: str, case: Any) -> None:
    shape, scale_shape, axis, block = case
    rng = np.random.default_rng(1)
    options: dict[str, Any] = {"axis": axis} | ({"block_size": block} if block else {})
    for dtype, source in itertools.product(RESULTS, WIDE):
        info = iinfo(dtype)
        x = hard_floats(rng, shape, 2.0 * int(info.max), source)
        scale = (rng.random(scale_shape) + 0.5).astype(source)
        zero = rng.integers(int(info.min), int(info.max) + 1, scale_shape).astype(np.int32).astype(dtype)
        for precision in {1, dtype_number(np.dtype(source))}:
            expected = run("QuantizeLinear", [x, scale, zero], opset=23, precision=precision, **options)[0]
            y = linear(isa, x, scale, zero, axis, block, dtype, precision)
            assert np.array_equal(y.astype(int), expected.astype(int)), (dtype, source, precision)


@pytest.mark.parametrize("case", GRANULARITIES, ids=str)
@pytest.mark.parametrize("isa", ISAS)
def test_dequantise_linear(isa: str, case: Any) -> None:
    shape, scale_shape, axis, block = case
    rng = np.random.default_rng(2)
    options: dict[str, Any] = {"axis": axis} | ({"block_size": block} if block else {})
    for dtype, target in itertools.product([*RESULTS, np.int32], WIDE):
        info = iinfo(dtype)
        x, zero = (
            rng.integers(int(info.min), int(info.max) + 1, s).astype(np.int32).astype(dtype)
            for s in (shape, scale_shape)
        )
        scale = hard_floats(rng, scale_shape, 0.01, target)
        for given in (zero, None):
            expected = run("DequantizeLinear", [x, scale, given], **options)[0]
            y = linear(isa, x, scale, given, axis, block, target, 0)
            assert y.tobytes() == expected.tobytes(), (dtype, target)


@pytest.mark.parametrize("isa", ISAS)
def test_int32_is_rounded_to_binary32_before_it_is_divided(isa: str) -> None:
    x = np.array([2**24 + 1, -(2**31), 2**31 - 1, 7, 0], np.int32)
    scale, zero = np.array(2.0**18, F32), np.array(1, np.int8)
    expected = run("QuantizeLinear", [x, scale, zero], opset=23)[0]
    assert np.array_equal(linear(isa, x, scale, zero, 1, 0, np.int8, 1), expected)


@pytest.mark.parametrize("isa", ISAS)
def test_dynamic_quantisation(isa: str) -> None:
    rng = np.random.default_rng(3)
    cases = [(rng.normal(size=n) + shift).astype(F32) for n in (*range(1, 40), 600) for shift in (-5.0, 0.0, 5.0)]
    cases += [np.array(x, F32) for x in ([], [0.0, -0.0], [1e-45, 0.0], [3e38, -3e38], [math.inf, 1.0], [-math.inf])]
    cases += [np.array([1.0] * at + [math.nan] + [-1.0] * (20 - at), F32) for at in range(20)]
    for x in cases:
        scale, zero, y = ctypes.c_float(), ctypes.c_uint8(), np.full(len(x) + 1, 0xA5, np.uint8)
        driver().driver_dynamic(
            ISA_NUMBERS[isa], ctypes.c_void_p(x.ctypes.data), ctypes.c_size_t(len(x)), ctypes.byref(scale),
            ctypes.byref(zero), ctypes.c_void_p(y.ctypes.data),
        )  # fmt: skip
        expected = run("DynamicQuantizeLinear", [x], 3, opset=11)
        assert np.array(scale.value, F32).tobytes() == expected[1].tobytes() or math.isnan(scale.value)
        assert math.isnan(scale.value) == bool(np.isnan(expected[1]))
        assert zero.value == expected[2]
        assert np.array_equal(y[:-1], expected[0])
        assert y[-1] == 0xA5


class CShapes(ctypes.Structure):
    _fields_ = (*((name, COperand) for name in NAMES), ("a_is_whole", ctypes.c_int))


def operand(shape: tuple[int | None, ...] | None, dtype: int = 1) -> COperand:
    if shape is None:
        return COperand(dtype, -1, None)
    return COperand(dtype, len(shape), (ctypes.c_int64 * len(shape))(*(-1 if dim is None else dim for dim in shape)))


def test_both_sides_have_the_same_shape_rules() -> None:
    """Random shapes, dimensions and ranks partly unknown: the same ones are refused, the same shapes come out."""
    draw = random.Random(4)

    def shape(most: int) -> tuple[int | None, ...] | None:
        if draw.random() < 0.05:
            return None
        return tuple(draw.choice([0, 1, 1, 2, 2, 3, None]) for _ in range(draw.randint(0, most)))

    verdicts = {True: 0, False: 0}
    for _ in range(30_000):
        a, b, line, rows = shape(4), shape(4), shape(4), draw.random() < 0.5
        if draw.random() < 0.7 and a is not None and b is not None and len(a) > 0 and len(b) > 0:
            a = (*a[:-1], b[-2 if len(b) > 1 else 0])  # else nearly all would be refused for this
        rule = product_rule(a, b) or per_line_rule(line, a if rows else b, rows)
        shapes = CShapes(a_is_whole=0, a=operand(a), b=operand(b), **{"a_zero" if rows else "b_zero": operand(line)})
        dims, rank, error = (ctypes.c_int64 * 8)(), ctypes.c_int32(), CError()
        status = driver().driver_shape(ctypes.byref(shapes), dims, ctypes.byref(rank), ctypes.byref(error))
        assert (status == 0) == (rule == ""), (a, b, line, rows, rule, error.text)
        verdicts[rule == ""] += 1
        if not rule:
            expected = product_shape(a, b)
            found = None if rank.value < 0 else tuple(None if d < 0 else d for d in dims[: rank.value])
            assert found == expected, (a, b)
    assert min(verdicts.values()) > 3000, verdicts
