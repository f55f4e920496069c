"""The reference of the quantised ops against Python's integers and fractions, and its rules."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ortwin.ref import InputError, Session, UnsupportedError
from ortwin.ref.binary32 import INF, NAN
from ortwin.ref.quant import quantise, requantise
from ortwin.ref.tensor import INT4, UINT4, Tensor, from_numpy, to_numpy
from quantised import SIGNS, Array, half_even, iinfo, model, nearest_f32, run, sums, typed, wrapped

F32 = np.float32


def integers(rng: np.random.Generator, dtype: Any, *shape: int) -> Array:
    """Random elements, every fourth an end of the range or next to it."""
    info = np.iinfo(dtype)
    ends = rng.choice([info.min, info.min + 1, info.max - 1, info.max], shape)
    return np.where(rng.random(shape) < 0.25, ends, rng.integers(info.min, info.max + 1, shape)).astype(dtype)


def zero_points(form: str, dtype: Any, lines: int, batch: tuple[int, ...], rows: bool) -> tuple[Array, Array]:
    """A zero point of this form, and the same so that numpy broadcasts it against the matrices."""
    rng = np.random.default_rng(len(form) + lines)
    if form in ("scalar", "one"):
        z = integers(rng, dtype)
        return (z, z) if form == "scalar" else (z.reshape(1), z)
    across = (lines, 1) if rows else (1, lines)
    if form == "vector":
        z = integers(rng, dtype, lines)
        return z, z.reshape(across)
    z = integers(rng, dtype, *(batch if form == "batched" else ()), *across)
    return z, z


FORMS = ["none", "scalar", "one", "vector", "matrix", "batched"]


@pytest.mark.parametrize(("ta", "tb"), SIGNS)
def test_matmul_integer_is_the_sum_of_big_integers(ta: Any, tb: Any) -> None:
    rng = np.random.default_rng(1)
    for fa, fb, (m, k, n) in itertools.product(FORMS, FORMS, [(1, 1, 1), (2, 3, 5), (3, 17, 2)]):
        a, b = integers(rng, ta, 2, m, k), integers(rng, tb, 2, k, n)
        za, za_wide = zero_points(fa, ta, m, (2,), True) if fa != "none" else (None, np.zeros((), ta))
        zb, zb_wide = zero_points(fb, tb, n, (2,), False) if fb != "none" else (None, np.zeros((), tb))
        y = run("MatMulInteger", [a, b, za, zb], opset=10)[0]
        assert y.dtype == np.int32
        left = np.broadcast_to(za_wide, (2, m, 1))
        right = np.broadcast_to(zb_wide, (2, 1, n))
        for p, i, j in np.ndindex(2, m, n):
            total = sum(
                (int(a[p, i, q]) - int(left[p, i, 0])) * (int(b[p, q, j]) - int(right[p, 0, j])) for q in range(k)
            )
            assert int(y[p, i, j]) == wrapped(total), (fa, fb, p, i, j)


def test_sums_wrap_modulo_2_to_the_32() -> None:
    a, b = np.full((2, 70_000), 255, np.uint8), np.full((70_000, 1), 255, np.uint8)
    assert run("MatMulInteger", [a, b], opset=10)[0].tolist() == [[wrapped(70_000 * 255 * 255)]] * 2
    low = np.full((1, 70_000), -128, np.int8)
    y = run("MatMulInteger", [low, b, np.array(127, np.int8), None], opset=10)[0]
    assert y.tolist() == [[wrapped(-255 * 255 * 70_000)]]


@pytest.mark.parametrize(
    ("a_shape", "b_shape"),
    [
        ((3,), (3,)),
        ((3,), (3, 4)),
        ((2, 3), (3,)),
        ((4, 1, 2, 3), (5, 3, 2)),
        ((1, 2, 3), (3, 2)),
        ((0, 2, 3), (3, 2)),
        ((0, 3), (3, 2)),
        ((2, 3), (3, 0)),
        ((2, 0), (0, 3)),
        ((2, 1, 2, 3), (1, 3, 3, 1)),
    ],
)
@pytest.mark.parametrize("unknown_shapes", [False, True])
def test_shapes_are_those_of_numpy_matmul(
    a_shape: tuple[int, ...], b_shape: tuple[int, ...], unknown_shapes: bool
) -> None:
    rng = np.random.default_rng(2)
    a, b = integers(rng, np.int8, *a_shape), integers(rng, np.uint8, *b_shape)
    za, zb = np.array(-3, np.int8), np.array(200, np.uint8)
    y = run("MatMulInteger", [a, b, za, zb], opset=10, unknown_shapes=unknown_shapes)[0]
    expected = sums(a, b, za, zb)
    assert y.shape == expected.shape
    assert np.array_equal(y, expected)


def test_the_case_list() -> None:
    """B33 to B36."""
    assert run("MatMulInteger", [np.array([[255, 255]], np.uint8), np.array([[127], [127]], np.int8)], opset=10)[
        0
    ].tolist() == [[64770]]
    assert run("MatMulInteger", [np.array([[255, 255]], np.uint8), np.array([[-128], [-128]], np.int8)], opset=10)[
        0
    ].tolist() == [[-65280]]
    a, b = np.array([[10, 10], [20, 20]], np.uint8), np.array([[1, 2], [3, 4]], np.int8)
    for form in ((2,), (2, 1)):
        z = np.array([10, 20], np.uint8).reshape(form)
        assert run("MatMulInteger", [a, b, z], opset=10)[0].tolist() == [[0, 0], [0, 0]]
    y = run("QLinearMatMul", ties(np.array([[1], [3], [5], [7]], np.int8), 1, np.int8), opset=10)[0]
    assert y.reshape(-1).tolist() == [1, 3, 3, 5]
    empty = run("MatMulInteger", [np.zeros((2, 0), np.uint8), np.zeros((0, 3), np.int8)], opset=10)[0]
    assert empty.tolist() == [[0, 0, 0], [0, 0, 0]]


def ties(a: Array, zero_point: int, dtype: Any) -> list[Array | None]:
    one, zero = F32(1), np.zeros((), np.int8)
    b = np.ones((1, 1), np.int8)
    return [a, np.array(one), zero, b, np.array(one), zero, np.array(F32(2)), np.array(zero_point, dtype)]


@pytest.mark.parametrize(("dtype", "zero_point"), [(np.int8, -3), (np.int8, 4), (np.uint8, 100), (np.uint8, 101)])
def test_ties_go_to_the_even_quotient_before_the_zero_point_is_added(dtype: Any, zero_point: int) -> None:
    a = np.arange(-21, 22, dtype=np.int8).reshape(-1, 1)
    y = run("QLinearMatMul", ties(a, zero_point, dtype), opset=10)[0].reshape(-1)
    assert y.tolist() == [half_even(Fraction(v, 2)) + zero_point for v in range(-21, 22)]


def scale_values(rng: np.random.Generator, *shape: int) -> Array:
    return np.ldexp(rng.random(shape) + 0.5, rng.integers(-12, 3, shape)).astype(F32)


@pytest.mark.parametrize(("ta", "tb"), SIGNS)
def test_qlinear_matmul_by_fractions(ta: Any, tb: Any) -> None:
    """Every form of scale and zero point, all types of result; scales are multiplied and divided left to right."""
    rng = np.random.default_rng(3)
    m, k, n = 3, 300, 4
    for fa, fb, ty in itertools.product(FORMS[1:], FORMS[1:], (np.uint8, np.int8)):
        a, b = integers(rng, ta, 2, m, k), integers(rng, tb, 2, k, n)
        za, za_wide = zero_points(fa, ta, m, (2,), True)
        zb, zb_wide = zero_points(fb, tb, n, (2,), False)
        sa, sb, sy = scale_values(rng, *za.shape), scale_values(rng, *zb.shape), F32(rng.random() * 900 + 1)
        zy = integers(rng, ty)
        y = run("QLinearMatMul", [a, sa, za, b, sb, zb, np.array(sy), zy], opset=21)[0]
        assert y.dtype == ty
        left = np.broadcast_to(sa.reshape(za_wide.shape), (2, m, 1))
        right = np.broadcast_to(sb.reshape(zb_wide.shape), (2, 1, n))
        exact = sums(a, b, za_wide, zb_wide)
        info = np.iinfo(ty)
        for p, i, j in np.ndindex(2, m, n):
            product = nearest_f32(Fraction(float(left[p, i, 0])) * Fraction(float(right[p, 0, j])))
            scale = nearest_f32(product / Fraction(float(sy)))
            q = half_even(nearest_f32(nearest_f32(Fraction(int(exact[p, i, j]))) * scale)) + int(zy)
            assert int(y[p, i, j]) == min(max(q, info.min), info.max)


def test_requantisation_at_its_edges() -> None:
    lo, hi = -128, 127
    assert requantise(0, INF, 5, lo, hi) == 5
    assert requantise(7, NAN, 5, lo, hi) == 5
    assert requantise(7, INF, 5, lo, hi) == hi
    assert requantise(-7, INF, 5, lo, hi) == lo
    assert requantise(7, 0.0, 5, lo, hi) == 5
    assert requantise(-(2**31), 2.0**-24, 0, lo, hi) == -128
    # 2^24 + 1 is no binary32 number: it is rounded to 2^24 before the product, which is then a tie
    assert requantise(2**24 + 1, 2.0**-25, 0, lo, hi) == 0
    assert requantise(2**24 + 3, 2.0**-25, 0, lo, hi) == 1
    assert quantise(3.0e38, 255, 0, 255) == 255
    assert quantise(-3.0e38, 255, 0, 255) == 0
    assert quantise(-254.5, 255, 0, 255) == 1
    assert quantise(-253.5, 255, 0, 255) == 1


def test_k_of_0_gives_the_zero_point() -> None:
    a, b = np.zeros((2, 0), np.uint8), np.zeros((0, 3), np.int8)
    one = np.array(F32(0.5))
    zeros = [np.array(3, np.uint8), np.array(-4, np.int8), np.array(-7, np.int8)]
    y = run("QLinearMatMul", [a, one, zeros[0], b, one, zeros[1], one, zeros[2]])
    assert y[0].tolist() == [[-7] * 3] * 2
    bias = np.array([1, -2, 3], F32)
    cases: list[tuple[str, list[Array | None]]] = [
        ("MatMulIntegerToFloat", [a, b, one, one, None, None, bias]),
        ("DynamicQuantizeMatMul", [a.astype(F32), b, one, None, bias]),
    ]
    for op, inputs in cases:
        assert run(op, inputs, domain="com.microsoft")[0].tolist() == [[1.0, -2.0, 3.0]] * 2


@pytest.mark.parametrize("half", [np.float16, ml_dtypes.bfloat16])
def test_scales_of_a_half_type_are_widened(half: Any) -> None:
    rng = np.random.default_rng(4)
    a, b = integers(rng, np.uint8, 5, 40), integers(rng, np.int8, 40, 6)
    scales = [np.array(v, half) for v in (0.0371, 0.00213, 0.3)]
    zeros = [np.array(120, np.uint8), np.array(3, np.int8), np.array(77, np.uint8)]

    def call(s: list[Array]) -> Array:
        return run("QLinearMatMul", [a, s[0], zeros[0], b, s[1], zeros[1], s[2], zeros[2]])[0]

    assert np.array_equal(call(scales), call([s.astype(F32) for s in scales]))


def test_to_float_multiplies_then_adds() -> None:
    rng = np.random.default_rng(5)
    a, b = integers(rng, np.int8, 3, 700), integers(rng, np.uint8, 700, 4)
    sa, sb, bias = np.array(F32(0.00037)), scale_values(rng, 4), rng.normal(size=4).astype(F32)
    za, zb = np.array(-5, np.int8), integers(rng, np.uint8, 4)
    total = sums(a, b, za, zb.reshape(1, 4)).astype(F32)
    inputs = [a, b, sa, sb, za, zb]
    y = run("MatMulIntegerToFloat", inputs, domain="com.microsoft")[0]
    assert np.array_equal(y, total * (sa * sb))
    y = run("MatMulIntegerToFloat", [*inputs, bias], domain="com.microsoft")[0]
    assert np.array_equal(y, total * (sa * sb) + bias)
    halves = [x.astype(np.float16) if x.dtype == F32 else x for x in [*inputs, bias]]
    y = run("MatMulIntegerToFloat", halves, domain="com.microsoft")[0]
    wide = total * (halves[2].astype(F32) * halves[3].astype(F32)) + halves[6].astype(F32)
    assert np.array_equal(y, wide.astype(np.float16))


def dynamic(x: Array) -> tuple[Array, np.float32, int]:
    """DynamicQuantizeLinear of finite numbers that are not all 0, by numpy's binary32."""
    most, least = np.maximum(F32(0), x.max(initial=0)), np.minimum(F32(0), x.min(initial=0))
    scale = F32(F32(most - least) / F32(255))
    zero_point = int(np.rint(np.clip(F32(0) - F32(least / scale), 0, 255)))
    return np.clip(np.rint(x / scale) + F32(zero_point), 0, 255).astype(np.uint8), scale, zero_point


@pytest.mark.parametrize("shift", [-1.0, -0.3, 0.0, 0.4, 2.0])
def test_dynamic_quantisation(shift: float) -> None:
    rng = np.random.default_rng(6)
    x = (rng.normal(size=(4, 50)) + shift).astype(F32)
    y, scale, zero_point = run("DynamicQuantizeLinear", [x], 3, opset=11)
    assert [x.dtype.name for x in (y, scale, zero_point)] == ["uint8", "float32", "uint8"]
    expected = dynamic(x)
    assert np.array_equal(y, expected[0])
    assert scale == expected[1]
    assert zero_point == expected[2]
    b, sb, bias = integers(rng, np.int8, 50, 3), scale_values(rng, 3), rng.normal(size=3).astype(F32)
    z = run("DynamicQuantizeMatMul", [x, b, sb, None, bias], domain="com.microsoft")[0]
    total = sums(expected[0], b, np.array(expected[2]), np.array(0)).astype(F32)
    assert np.array_equal(z, total * (expected[1] * sb) + bias)


def test_dynamic_quantisation_at_its_edges() -> None:
    def values(*x: float) -> list[Any]:
        y, scale, zero_point = run("DynamicQuantizeLinear", [np.array(x, F32)], 3, opset=11)
        return [y.tolist(), float(scale), int(zero_point)]

    assert values() == [[], 0.0, 0]
    assert values(0.0, -0.0) == [[0, 0], 0.0, 0]
    assert math.copysign(1, values(-0.0)[1]) == 1
    y, scale, zero_point = values(1.0, math.nan, -1.0)
    assert (y, math.isnan(scale), zero_point) == ([0, 0, 0], True, 0)
    assert values(math.inf, 1.0) == [[0, 0], math.inf, 0]
    assert values(3e38, -3e38) == [[0, 0], math.inf, 0]
    assert values(2.0**-149, 0.0)[1] == 0.0  # 2^-149 / 255 underflows; x / 0 is an infinity
    assert values(2.0**-149, 0.0)[0] == [255, 0]


def expand(scale: Array, x: Array, axis: int, block: int) -> Array:
    """The scale of each element of x, by numpy."""
    if scale.ndim == 0 or (scale.ndim == 1 and scale.size == 1 and not block):
        return np.broadcast_to(scale.reshape(()), x.shape)
    if block:
        return np.repeat(scale, block, axis)[tuple(slice(size) for size in x.shape)]
    return np.broadcast_to(scale.reshape([-1] + [1] * (x.ndim - 1 - axis % x.ndim)), x.shape)


GRANULARITIES = [
    ((), 1, 0),
    ((1,), 1, 0),
    ((3,), 1, 0),
    ((4,), -1, 0),
    ((2,), 0, 0),
    ((2, 3, 2), 2, 2),
    ((2, 1, 4), 1, 5),
]
RESULTS = [np.uint8, np.int8, np.uint16, np.int16, ml_dtypes.uint4, ml_dtypes.int4]


@pytest.mark.parametrize("dtype", RESULTS)
def test_quantise_and_dequantise_linear(dtype: Any) -> None:
    rng = np.random.default_rng(7)
    info = iinfo(dtype)
    for shape, axis, block in GRANULARITIES:
        x = (rng.normal(size=(2, 3, 4)) * 3.0 * int(info.max)).astype(F32)
        x.reshape(-1)[:6] = [math.inf, -math.inf, 0.0, -0.0, math.nan, 3e38]
        scale = (rng.random(shape) + 1.0).astype(F32)
        zero = rng.integers(int(info.min), int(info.max) + 1, shape).astype(np.int32).astype(dtype)
        options = {"axis": axis} | ({"block_size": block} if block else {})
        y = run("QuantizeLinear", [x, scale, zero], **options)[0]
        assert y.dtype == dtype
        s, z = expand(scale, x, axis, block), expand(zero.astype(np.int64), x, axis, block)
        steps = np.nan_to_num(np.rint(x / s), nan=0.0).astype(np.float64)
        expected = np.clip(steps + z, int(info.min), int(info.max)).astype(np.int64)
        assert np.array_equal(y.astype(np.int64), expected), (shape, axis)
        back = run("DequantizeLinear", [y, scale, zero], **options)[0]
        assert back.dtype == F32
        assert np.array_equal(back, (y.astype(np.int64) - z).astype(F32) * s)


@pytest.mark.parametrize("opset", [10, 13, 19, 21, 23, 24, 25, 28])
def test_every_version_quantises(opset: int) -> None:
    x = np.array([[-3.5, 0.25], [1.5, 700.0]], F32)
    s = np.array(0.5, F32)
    assert run("QuantizeLinear", [x, s], opset=opset)[0].tolist() == [[0, 0], [3, 255]]
    q = np.array([[-7, 3]], np.int8)
    assert run("DequantizeLinear", [q, s, np.array(1, np.int8)], opset=opset)[0].tolist() == [[-4.0, 1.0]]
    if opset not in (19, 21):
        wide = np.array([2**24 + 1, -5], np.int32)
        y = run("QuantizeLinear", [wide, np.array(2.0**17, F32), np.array(0, np.int8)], opset=opset)[0]
        assert y.tolist() == [127, 0]
    wide = np.array([2**24 + 1, -(2**31)], np.int32)
    assert run("DequantizeLinear", [wide, s], opset=opset)[0].tolist() == [2.0**23, -(2.0**30)]


def test_the_difference_of_int32_is_exact() -> None:
    x, z = np.array([-(2**31), 2**31 - 1], np.int32), np.array(2**31 - 1, np.int32)
    y = run("DequantizeLinear", [x, np.array(1, F32), z])[0]
    assert y.tolist() == [-(2.0**32), 0.0]


@pytest.mark.parametrize("half", [np.float16, ml_dtypes.bfloat16])
def test_quantising_halves(half: Any) -> None:
    """Before version 23 the quotient is one of binary32; from then on one of the precision."""
    x, s = np.array([0.35, 240.0, -3.3, 6.125, 9.0625, 4.9375, 7.3125], half), np.array(0.07, half)
    wide = x.astype(F32) / s.astype(F32)
    clip = np.clip(np.rint(wide) + 10, 0, 255).astype(np.uint8)
    zero = np.array(10, np.uint8)
    assert np.array_equal(run("QuantizeLinear", [x, s, zero], opset=21)[0], clip)
    narrow = np.rint(wide.astype(half).astype(F32))
    rounded = np.clip(narrow + 10, 0, 255).astype(np.uint8)
    assert np.array_equal(run("QuantizeLinear", [x, s, zero], opset=23)[0], rounded)
    by_attribute = run("QuantizeLinear", [x, s, zero], opset=23, precision=1)[0]
    assert np.array_equal(by_attribute, clip)
    assert not np.array_equal(clip, rounded), "the inputs show no difference"
    q, z = np.array([0, 200, 255], np.uint8), np.array(7, np.uint8)
    y = run("DequantizeLinear", [q, s, z])[0]
    assert y.dtype == half
    difference = q.astype(F32) - F32(7)
    assert np.array_equal(y, (difference * s.astype(F32)).astype(half))
    assert (
        run("DequantizeLinear", [q, s, z], opset=23, output_dtype=1)[0].tolist()
        == (difference * s.astype(F32)).tolist()
    )


@pytest.mark.parametrize("dtype", [ml_dtypes.int4, ml_dtypes.uint4])
def test_nibbles_lie_two_to_a_byte(dtype: Any) -> None:
    low = int(iinfo(dtype).min)
    values = np.arange(low, low + 15).astype(np.int32).astype(dtype)
    tensor = from_numpy(values)
    assert len(tensor.data) == 8
    assert [byte & 15 for byte in tensor.data] == [(low + k) & 15 for k in range(0, 15, 2)]
    assert tensor.data[7] >> 4 == 0
    assert np.array_equal(to_numpy(tensor), values)
    empty = to_numpy(Tensor(INT4 if low else UINT4, (0, 3), b""))
    assert empty.shape == (0, 3)
    identity = run("QuantizeLinear", [np.arange(5, dtype=F32), np.array(1, F32), np.array(1, np.int32).astype(dtype)])
    assert identity[0].astype(int).tolist() == [1, 2, 3, 4, 5]


ONE, Z8, ZU = np.array(1, F32), np.array(0, np.int8), np.array(0, np.uint8)
X, Q = np.zeros((2, 3), F32), np.zeros((2, 3), np.int8)
REFUSED: list[tuple[str, list[Array | None], dict[str, Any], str]] = [
    ("MatMulInteger", [Q, np.zeros((4, 2), np.int8)], {}, "inner dimensions differ"),
    ("MatMulInteger", [Q, np.zeros((), np.int8)], {}, "rank 0"),
    ("MatMulInteger", [Q, np.zeros((3, 2), np.int8), np.zeros(3, np.int8)], {}, "one per row"),
    ("MatMulInteger", [Q, np.zeros((3, 2), np.int8), np.zeros((1, 2), np.int8)], {}, "last dimension is not 1"),
    ("MatMulInteger", [Q, np.zeros((3, 2), np.int8), None, np.zeros((2, 1), np.int8)], {}, "last but one"),
    ("MatMulInteger", [np.zeros((2, 2, 3), np.int8), np.zeros((3, 3, 2), np.int8)], {}, "don't broadcast"),
    ("QLinearMatMul", [Q, ONE, Z8, Q.T.copy(), ONE, Z8, np.ones(2, F32), Z8], {}, "is one number"),
    ("QuantizeLinear", [X, np.ones(2, F32)], {}, "not [3]"),
    ("QuantizeLinear", [X, np.ones(3, F32)], {"axis": 2}, "axis 2 is none"),
    ("QuantizeLinear", [X, np.ones((2, 3), F32)], {}, "without block_size"),
    ("QuantizeLinear", [X, np.ones((2, 2), F32)], {"block_size": 3}, "not [2, 1]"),
    ("QuantizeLinear", [X, np.ones(3, F32), ZU], {}, "has not the shape"),
    ("DequantizeLinear", [Q, np.ones(3, F32), Z8], {}, "has not the shape"),
]


@pytest.mark.parametrize("case", REFUSED, ids=str)
def test_broken_rules_are_told_before_data_is_seen_and_at_run(case: Any) -> None:
    op, inputs, options, reason = case
    with pytest.raises(UnsupportedError, match=reason.replace("[", r"\[").replace("]", r"\]")):
        run(op, inputs, **options)
    with pytest.raises(InputError, match=reason.replace("[", r"\[").replace("]", r"\]")):
        run(op, inputs, unknown_shapes=True, **options)


DECLINED: list[tuple[str, list[Array | None], dict[str, Any], str]] = [
    ("QuantizeLinear", [X, ONE], {"output_dtype": 17}, "output_dtype float8_e4m3fn is not implemented"),
    ("QuantizeLinear", [X, ONE, np.zeros((), ml_dtypes.float8_e5m2)], {}, "is float8_e5m2, not"),
    ("QuantizeLinear", [X.astype(np.int32), np.array(1, np.int32)], {"opset": 23}, "is int32, not"),
    ("DequantizeLinear", [Q.astype(ml_dtypes.float8_e4m3fn), ONE], {}, "is float8_e4m3fn, not"),
    ("QuantizeLinear", [X, ONE, ZU], {"output_dtype": 3}, "output_dtype is int8, the zero point uint8"),
    ("QuantizeLinear", [X, ONE], {"block_size": -1}, "must not be negative"),
]


@pytest.mark.parametrize("case", DECLINED, ids=str)
def test_what_is_not_implemented_is_declined_with_the_reason(case: Any) -> None:
    op, inputs, options, reason = case
    proto = typed(model(op, inputs, **options), inputs, options)
    with pytest.raises(UnsupportedError, match=reason):
        Session(proto)
