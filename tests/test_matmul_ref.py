"""The reference of MatMul and Gemm against exact arithmetic: fractions rounded once per step, and Python's integers."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import onnx.defs
import pytest

from ortwin.ref import InputError, Session, UnsupportedError
from ortwin.ref.ops import OPS
from ortwin.ref.tensor import DTYPE_NAMES, dtype_number
from quantised import Array, model

F32 = np.float32
HALVES = [np.float16, ml_dtypes.bfloat16]
INTEGERS = [np.int32, np.uint32, np.int64, np.uint64]
INNER = (0, 1, 2, 255, 256, 257, 512, 513)
INF, NAN = math.inf, math.nan

Vector = Sequence[float]


def built(op: str, inputs: Sequence[Array | None], **options: Any) -> Session:
    proto = model(op, inputs, **{"opset": 13, **options})
    first = inputs[0]
    assert first is not None
    proto.graph.output[0].type.tensor_type.elem_type = dtype_number(first.dtype)
    return Session(proto)


def run(op: str, inputs: Sequence[Array | None], **options: Any) -> Array:
    """The op by the reference."""
    feeds = {f"i{k}": x for k, x in enumerate(inputs) if x is not None}
    (y,) = built(op, inputs, **options).run(None, feeds)
    return y


def bits(x: Array) -> list[int]:
    return [int(v) for v in np.ascontiguousarray(x).reshape(-1).view(f"u{x.dtype.itemsize}")]


# what is right: every step as a fraction, rounded once

FORMATS = {np.dtype(F32): (24, -149, 128), np.dtype(np.float16): (11, -24, 16),
           np.dtype(ml_dtypes.bfloat16): (8, -133, 128)}  # fmt: skip
"""Digits, exponent of the smallest subnormal, exponent of the first power of two that is too large."""


def nearest(x: Fraction, dtype: Any = F32) -> float:
    """The number of a format that is nearest to x, which is not 0; ties to even, an infinity if too large (IEEE 754
    4.3.1); a zero has the sign of x."""
    digits, least, end = FORMATS[np.dtype(dtype)]
    exponent = abs(x.numerator).bit_length() - x.denominator.bit_length()  # of the leading digit, or one more
    if abs(x) < Fraction(2) ** exponent:
        exponent -= 1
    unit = Fraction(2) ** max(exponent - digits + 1, least)
    magnitude = round(abs(x) / unit) * unit
    return math.copysign(INF if magnitude >= Fraction(2) ** end else float(magnitude), x)


def multiply_add(a: float, b: float, c: float) -> float:
    """a * b + c, rounded once. Where it is 0, an infinity or NaN, binary64 gives it rightly: it holds the product."""
    if not (math.isfinite(a) and math.isfinite(b) and math.isfinite(c)):
        return a * b + c
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    return nearest(exact) if exact else a * b + c


def product_of(a: float, b: float) -> float:
    return multiply_add(a, b, math.copysign(0.0, a) * math.copysign(1.0, b))  # that zero changes no sign


def sum_of(a: float, b: float) -> float:
    return multiply_add(a, 1.0, b)


def chain(a: Vector, b: Vector) -> float:
    """One chain from +0.0."""
    return functools.reduce(lambda total, pair: multiply_add(pair[0], pair[1], total), zip(a, b, strict=True), 0.0)


def inner(a: Vector, b: Vector) -> float:
    """C6: a chain for each 256 values of k, and these added in their order."""
    blocks = [chain(a[k : k + 256], b[k : k + 256]) for k in range(0, len(a), 256)]
    return functools.reduce(sum_of, blocks) if blocks else 0.0


def right(a: Array, b: Array, alpha: float = 1.0, beta: float = 1.0, c: Array | None = None) -> Array:
    """alpha * a @ b + beta * c of matrices, of a's type."""
    dtype = a.dtype
    left, across = a.astype(F32).tolist(), b.astype(F32).T.tolist()
    y = np.empty((len(left), b.shape[1]), dtype)
    wide = None if c is None else np.broadcast_to(c.astype(F32), y.shape).tolist()
    for i, j in np.ndindex(*y.shape):
        value = inner(left[i], across[j])
        value = value if alpha == 1 else product_of(alpha, value)
        if wide is not None and beta != 0:
            value = sum_of(value, wide[i][j] if beta == 1 else product_of(beta, wide[i][j]))
        if dtype != F32 and math.isfinite(value) and value:
            value = nearest(Fraction(value), dtype)
        y[i, j] = np.array(value).astype(dtype)
        if math.isnan(value):
            y[i, j] = np.abs(np.array(NAN, F32)).astype(dtype)  # canonical (C3)
    return y


def same(y: Array, expected: Array) -> None:
    assert (y.dtype, y.shape) == (expected.dtype, expected.shape)
    assert bits(y) == bits(expected)


# values


def normal(rng: np.random.Generator, *shape: int) -> Array:
    return np.asarray(rng.normal(size=shape))


def wide(rng: np.random.Generator, *shape: int) -> Array:
    """Of all exponents that products can have: subnormal, infinite, and lost beside one another."""
    return np.asarray(np.ldexp(rng.normal(size=shape), rng.integers(-90, 64, shape)))


def small(rng: np.random.Generator, *shape: int) -> Array:
    """Products are subnormal, or midway between 0 and the least of them, of either sign."""
    return np.asarray(np.ldexp(rng.integers(-3, 4, shape).astype(float), rng.choice([-75, -74, -149, -60], shape)))


def cancelling(rng: np.random.Generator, *shape: int) -> Array:
    """Few different magnitudes, so that partial sums meet their opposites and ties."""
    return rng.choice([1.0, -1.0, 1.0 + 2.0**-23, -3.0, 2.0**-24, -(2.0**24), 5592407.0], shape)


def special(rng: np.random.Generator, *shape: int) -> Array:
    """One in sixteen an infinity, NaN, zero of either sign or next to too large."""
    chosen = rng.choice([INF, -INF, NAN, -0.0, 0.0, 3e38, -3e38], shape)
    return np.where(rng.random(shape) < 1 / 16, chosen, rng.normal(size=shape))


KINDS = [normal, wide, small, cancelling, special]


def drawn(kind: Any, dtype: Any, rng: np.random.Generator, *shape: int) -> Array:
    with np.errstate(all="ignore"):
        return np.asarray(kind(rng, *shape).astype(F32).astype(dtype))


# sums


@pytest.mark.parametrize("k", INNER)
@pytest.mark.parametrize("kind", KINDS)
def test_every_sum_is_the_exact_one_rounded_step_by_step(kind: Any, k: int) -> None:
    rng = np.random.default_rng(k)
    a, b = drawn(kind, F32, rng, 2, k), drawn(kind, F32, rng, k, 4)
    same(run("MatMul", [a, b]), right(a, b))


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("kind", KINDS)
def test_halves_are_summed_in_binary32_and_rounded_once(kind: Any, half: Any) -> None:
    rng = np.random.default_rng(1)
    for k in (0, 1, 5, 257):
        a, b, c = drawn(kind, half, rng, 3, k), drawn(kind, half, rng, k, 4), drawn(kind, half, rng, 4)
        same(run("MatMul", [a, b]), right(a, b))
        y = run("Gemm", [a, b, c], alpha=0.3, beta=-1.7)
        same(y, right(a, b, float(F32(0.3)), float(F32(-1.7)), c))


def test_blocks_of_256_and_the_order_of_their_sums() -> None:
    """What is left of 2^24 + 1 - 2^24, by where the three lie."""
    big = 2.0**24

    def left(k: int, *terms: tuple[int, float]) -> float:
        b = np.zeros((k, 1), F32)
        for at, value in terms:
            b[at] = value
        return float(run("MatMul", [np.ones((1, k), F32), b])[0, 0])

    assert left(256, (0, 1.0), (1, big), (255, -big)) == 0.0  # in one chain the 1 is lost,
    assert left(257, (0, big), (255, -big), (256, 1.0)) == 1.0
    assert left(257, (0, big), (255, 1.0), (256, -big)) == 0.0  # 255 is still of the first block,
    assert left(257, (255, big), (256, 1.0)) == big  # and 256 is not:
    assert left(300, (0, big), (256, 1.0), (257, 1.0)) == big + 2.0  # a chain of its own, where 1 + 1 is not lost
    assert left(300, (0, big), (254, 1.0), (255, 1.0)) == big
    assert left(768, (0, 1.0), (256, big), (512, -big)) == 0.0  # (1 + 2^24) - 2^24
    assert left(768, (0, -big), (256, big), (512, 1.0)) == 1.0  # backwards it would be 0
    assert left(768, (0, big), (256, -big), (512, 1.0)) == 1.0


def test_signs_of_zero() -> None:
    def one(a: float, b: float, **options: Any) -> str:
        y = run("Gemm", [np.array([[a]], F32), np.array([[b]], F32)], **options)
        return str(float(y[0, 0]))

    assert one(-0.0, 1.0) == "0.0"  # the chain begins with +0.0
    assert one(-(2.0**-100), 2.0**-100) == "-0.0"  # but a product that underflows has its sign, and that is assigned
    assert one(0.0, 1.0, alpha=-1.0) == "-0.0"
    assert one(0.0, 1.0, alpha=-1.0, beta=0.0) == "-0.0"  # without C nothing is added
    y = run("Gemm", [np.zeros((1, 1), F32), np.ones((1, 1), F32), np.array([0.0], F32)], alpha=-1.0)
    assert str(float(y[0, 0])) == "0.0"


@pytest.mark.parametrize("dtype", [F32, *HALVES])
def test_no_zero_is_skipped_and_nan_is_canonical(dtype: Any) -> None:
    other = np.array([INF, -INF, NAN, 1.0], F32).astype(dtype)
    negative = np.array(-NAN, F32).astype(dtype)  # a NaN with a sign
    other[2] = negative
    for zero in (0.0, -0.0):
        y = run("MatMul", [np.full((1, 1), zero, dtype), other.reshape(1, 4)])
        assert np.isnan(y.astype(F32)[0, :3]).all()
        assert bits(y)[:3] == [{2: {"float16": 0x7E00}.get(y.dtype.name, 0x7FC0)}.get(y.itemsize, 0x7FC00000)] * 3
        assert float(y[0, 3]) == 0.0


def test_k_of_0() -> None:
    a, b = np.zeros((2, 0), F32), np.zeros((0, 3), F32)
    assert bits(run("MatMul", [a, b])) == [0] * 6
    y = run("Gemm", [a, b, np.array([1.0, -2.0, NAN], F32)], alpha=-1.0, beta=-3.0)
    assert str(y.tolist()) == str([[-3.0, 6.0, NAN]] * 2)
    assert math.isnan(run("Gemm", [a, b], alpha=INF)[0, 0])  # alpha * 0
    whole = run("Gemm", [a.astype(np.int64), b.astype(np.int64), np.array(7)], beta=3.0)
    assert whole.tolist() == [[21] * 3] * 2


@pytest.mark.parametrize("dtype", [F32, np.float16])
def test_a_row_alone_gives_its_row(dtype: Any) -> None:
    rng = np.random.default_rng(2)
    a, b, c = (drawn(normal, dtype, rng, *shape) for shape in ((17, 300), (300, 9), (17, 1)))
    whole, biased = run("MatMul", [a, b]), run("Gemm", [a, b, c], alpha=0.7)
    turned = run("Gemm", [a.T.copy(), b.T.copy(), c], alpha=0.7, transA=1, transB=1)
    same(turned, biased)
    for i in range(17):
        row = a[i : i + 1]
        same(run("MatMul", [row, b]), whole[i : i + 1])
        same(run("MatMul", [a[i], b]), whole[i])
        same(run("Gemm", [row, b, c[i : i + 1]], alpha=0.7), biased[i : i + 1])
    for j in range(9):
        same(run("MatMul", [a, b[:, j].copy()]), whole[:, j])


def test_reported_cases() -> None:
    """Equal rows in one batch, bias of rank 0, bfloat16 with one rounding."""
    rng = np.random.default_rng(3)
    row, b = drawn(normal, F32, rng, 1, 512), drawn(normal, F32, rng, 512, 64)
    whole = run("MatMul", [np.repeat(row, 2, axis=0), b])
    same(whole, np.repeat(run("MatMul", [row, b]), 2, axis=0))
    square = np.array([[1, 2], [3, 4]], F32)
    for shape in ((), (1,), (1, 1)):
        assert run("Gemm", [square, square, np.full(shape, 5, F32)]).tolist() == [[12, 15], [20, 27]]
    assert run("Gemm", [square, square, np.array([[5], [6]], F32)]).tolist() == [[12, 15], [21, 28]]
    x = np.array([[0.5, -0.5, 3e38]], F32).astype(ml_dtypes.bfloat16)
    assert float(run("MatMul", [x, np.array([[1], [1], [0.0]], F32).astype(x.dtype)])[0, 0]) == 0.0


# shapes


BATCHES: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((3,), (3,)),
    ((3,), (3, 4)),
    ((2, 3), (3,)),
    ((3,), (5, 3, 2)),
    ((5, 2, 3), (3,)),
    ((4, 1, 2, 3), (5, 3, 2)),
    ((1, 2, 3), (3, 2)),
    ((2, 3), (6, 3, 1)),
    ((2, 1, 2, 3), (1, 3, 3, 1)),
    ((0, 2, 3), (3, 2)),
    ((1, 2, 3), (0, 3, 2)),
    ((0, 3), (3, 2)),
    ((2, 3), (3, 0)),
    ((2, 0), (0, 3)),
    ((2, 2, 0), (0,)),
]


@pytest.mark.parametrize("unknown_shapes", [False, True])
@pytest.mark.parametrize("shapes", BATCHES, ids=str)
def test_shapes_are_those_of_numpy_matmul(shapes: Any, unknown_shapes: bool) -> None:
    rng = np.random.default_rng(4)
    for dtype in (F32, np.int32):
        a, b = (rng.integers(-9, 10, shape).astype(dtype) for shape in shapes)
        same(run("MatMul", [a, b], unknown_shapes=unknown_shapes), a @ b)


# Gemm

BIASES: list[tuple[int, ...] | None] = [None, (), (1,), (4,), (1, 1), (1, 4), (3, 1), (3, 4)]
FACTORS = [
    (1.0, 1.0),
    (0.3, 1.0),
    (1.0, -0.7),
    (-1.5, 0.3),
    (0.0, 2.0),
    (1.0, 0.0),
    (INF, 1.0),
    (1.0, NAN),
    (3e38, -INF),
]


@pytest.mark.parametrize("bias", BIASES, ids=str)
@pytest.mark.parametrize(("turn_a", "turn_b"), list(itertools.product((0, 1), (0, 1))))
def test_every_form_of_gemm(turn_a: int, turn_b: int, bias: tuple[int, ...] | None) -> None:
    rng = np.random.default_rng(5)
    for (alpha, beta), kind in zip(FACTORS, itertools.cycle(KINDS), strict=False):
        a, b = drawn(kind, F32, rng, 3, 7), drawn(kind, F32, rng, 7, 4)
        c = None if bias is None else drawn(special if kind is special else normal, F32, rng, *bias)
        inputs = [a.T.copy() if turn_a else a, b.T.copy() if turn_b else b, *([] if c is None else [c])]
        expected = right(a, b, float(F32(alpha)), float(F32(beta)), c)
        for version in (7, 9, 11, 13) if c is not None else (11, 13):
            y = run("Gemm", inputs, opset=version, alpha=alpha, beta=beta, transA=turn_a, transB=turn_b)
            same(y, expected)


def test_c_is_not_read_with_a_beta_of_0() -> None:
    a, c = np.array([[2.0]], F32), np.array([[NAN]], F32)
    for beta in (0.0, -0.0):
        assert run("Gemm", [a, a, c], beta=beta).tolist() == [[4.0]]
    assert math.isnan(run("Gemm", [a, a, c], beta=2.0**-149)[0, 0])


def test_c_may_be_named_and_left_out() -> None:
    a = np.array([[2.0]], F32)
    assert run("Gemm", [a, a, None]).tolist() == [[4.0]]


def test_alpha_is_applied_to_the_whole_sum_and_beta_c_is_rounded_before_it_is_added() -> None:
    """Each of these would be another number if alpha scaled the factors, or one fma added beta * C."""
    rng = np.random.default_rng(6)
    a, b, c = (drawn(normal, F32, rng, *shape) for shape in ((4, 40), (40, 4), (4, 4)))
    alpha, beta = F32(0.1), F32(0.7)
    s = run("MatMul", [a, b])
    y = run("Gemm", [a, b, c], alpha=float(alpha), beta=float(beta))
    same(y, alpha * s + beta * c)
    assert bits(y) != bits(run("MatMul", [alpha * a, b]) + beta * c)
    fused = (np.float64(beta) * c.astype(np.float64) + (alpha * s).astype(np.float64)).astype(F32)
    assert bits(y) != bits(fused)


@pytest.mark.parametrize("version", [1, 6])
def test_the_first_versions_broadcast_when_asked(version: int) -> None:
    a = np.arange(6, dtype=F32).reshape(2, 3)
    b, c = a.T.copy(), np.array([10.0, 20.0], F32)
    assert run("Gemm", [a, b, c], opset=version, broadcast=1).tolist() == (a @ b + c).tolist()
    whole = np.stack([c, c])
    assert run("Gemm", [a, b, whole], opset=version).tolist() == (a @ b + c).tolist()
    for short in (c, c.reshape(1, 2), c[:1]):
        for unknown, error in ((False, UnsupportedError), (True, InputError)):
            with pytest.raises(error, match="the product's"):
                run("Gemm", [a, b, short], opset=version, unknown_shapes=unknown)


# integers


def extremes(rng: np.random.Generator, dtype: Any, *shape: int) -> Array:
    info = np.iinfo(dtype)
    ends = rng.choice(np.array([info.min, info.max, info.max - 1], dtype), shape)
    return np.where(rng.random(shape) < 0.5, ends, rng.integers(info.min, info.max, shape, dtype, True)).astype(dtype)


def congruent(value: int, dtype: Any) -> int:
    info = np.iinfo(dtype)
    return int((value - int(info.min)) % 2 ** int(info.bits) + int(info.min))


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("version", [9, 13])
def test_integers_are_exact_modulo_their_width(dtype: Any, version: int) -> None:
    rng = np.random.default_rng(7)
    for m, k, n in [(1, 1, 1), (2, 300, 3), (3, 5, 2), (2, 0, 2)]:
        a, b, c = extremes(rng, dtype, m, k), extremes(rng, dtype, k, n), extremes(rng, dtype, m, 1)
        y = run("MatMul", [a, b], opset=version)
        assert y.dtype == dtype
        exact = [[sum(int(p) * int(q) for p, q in zip(row, line, strict=True)) for line in b.T] for row in a]
        assert y.tolist() == [[congruent(v, dtype) for v in row] for row in exact]
        for alpha, beta in [(1, 1), (-1, 3), (0, -1), (2**62, -(2**31)), (5, 0)]:
            z = run("Gemm", [a, b, c], opset=version, alpha=float(alpha), beta=float(beta))
            whole = [[alpha * v + beta * int(c[i, 0]) for v in row] for i, row in enumerate(exact)]
            assert z.tolist() == [[congruent(v, dtype) for v in row] for row in whole], (alpha, beta)
        assert run("Gemm", [a, b], opset=11, alpha=-0.0).tolist() == np.zeros((m, n)).tolist()


@pytest.mark.parametrize("factor", [0.5, 2.0**63, -(2.0**63), INF, NAN, 1.0 + 2.0**-23])
@pytest.mark.parametrize("name", ["alpha", "beta"])
def test_integers_decline_factors_that_are_not_whole(name: str, factor: float) -> None:
    one = np.ones((1, 1), np.int64)
    options: dict[str, Any] = {name: factor}
    for inputs in ([one, one, one], [one, one]):
        with pytest.raises(UnsupportedError, match=f"Gemm-13.: {name} is .*int64 a whole number below 2\\^63"):
            built("Gemm", inputs, **options)


# what is declined


def names(op: str, version: int) -> set[str]:
    return {DTYPE_NAMES[dtype] for dtype in OPS["", op].dtypes[version]}


@pytest.mark.parametrize("op", ["MatMul", "Gemm"])
def test_all_versions_and_all_types_but_float64(op: str) -> None:
    versions = {schema.since_version for schema in onnx.defs.get_all_schemas_with_history() if schema.name == op}
    assert set(OPS["", op].versions) == versions
    for version in versions:
        (constraint,) = onnx.defs.get_schema(op, version).type_constraints
        allowed = {text.removeprefix("tensor(").rstrip(")") for text in constraint.allowed_type_strs}
        allowed = {{"float": "float32"}.get(name, name) for name in allowed} - {"double"}
        assert names(op, version) == allowed


X, Q = np.zeros((2, 3), F32), np.zeros((3, 2), F32)
REFUSED: list[tuple[str, list[Array | None], dict[str, Any], str]] = [
    ("MatMul", [X, X], {}, "the inner dimensions differ: A has 3 columns, B 2 rows"),
    ("MatMul", [X, np.zeros((), F32)], {}, "B has rank 0"),
    ("MatMul", [np.zeros(2, F32), Q], {}, "the inner dimensions differ: A has 2 columns, B 3 rows"),
    ("MatMul", [np.zeros((2, 2, 3), F32), np.zeros((3, 3, 2), F32)], {}, "batch dimensions 2 and 3 of A and B"),
    ("Gemm", [X, X], {}, "the inner dimensions differ: A has 3 columns, B 2 rows"),
    ("Gemm", [X, Q], {"transA": 1}, "the inner dimensions differ: A has 2 columns, B 3 rows"),
    ("Gemm", [X, Q], {"transB": -1}, "the inner dimensions differ: A has 3 columns, B 2 rows"),
    ("Gemm", [np.zeros((1, 2, 3), F32), Q], {}, "input 'i0' has rank 3, but Gemm multiplies matrices"),
    ("Gemm", [X, np.zeros(3, F32)], {}, "input 'i1' has rank 1"),
    ("Gemm", [X, Q, np.zeros(3, F32)], {}, "C 'i2' has shape [3], which does not broadcast to the product's [2, 2]"),
    ("Gemm", [X, Q, np.zeros((3, 1), F32)], {"beta": 0.0}, "does not broadcast to the product's [2, 2]"),
    ("Gemm", [X, Q, np.zeros((1, 1, 1), F32)], {}, "C 'i2' has rank 3, the product 2"),
    ("Gemm", [X[:1], Q[:, :1].copy(), np.zeros((2, 1), F32)], {}, "does not broadcast to the product's [1, 1]"),
]


@pytest.mark.parametrize("case", REFUSED, ids=str)
def test_broken_rules_are_told_before_data_is_seen_and_at_run(case: Any) -> None:
    op, inputs, options, reason = case
    for unknown, error in ((False, UnsupportedError), (True, InputError)):
        with pytest.raises(error) as caught:
            run(op, inputs, unknown_shapes=unknown, **options)
        assert f"({op}-13): " in str(caught.value)
        assert reason in str(caught.value)


DECLINED: list[tuple[str, list[Array | None], int, str]] = [
    ("MatMul", [X.astype(float), Q.astype(float)], 13, "input 'i0' is float64, not"),
    ("MatMul", [X.astype(np.int32), Q.astype(np.int32)], 1, "input 'i0' is int32, not float32 or float16"),
    ("MatMul", [X.astype(np.int8), Q.astype(np.int8)], 13, "input 'i0' is int8, not"),
    ("MatMul", [X.astype(ml_dtypes.bfloat16), Q.astype(ml_dtypes.bfloat16)], 9, "input 'i0' is bfloat16, not"),
    ("MatMul", [X, Q.astype(np.float16)], 13, "input 'i1' is float16, the first float32"),
    ("Gemm", [X, Q, Q[0].astype(np.float16)], 13, "input 'i2' is float16, the first float32"),
    ("Gemm", [X.astype(float), Q.astype(float)], 13, "input 'i0' is float64, not"),
    ("Gemm", [X.astype(np.int32), Q.astype(np.int32), Q[0].astype(np.int32)], 7, "input 'i0' is int32, not"),
]


@pytest.mark.parametrize("case", DECLINED, ids=str)
def test_what_is_not_implemented_is_declined_with_the_reason(case: Any) -> None:
    op, inputs, version, reason = case
    with pytest.raises(UnsupportedError, match=reason):
        built(op, inputs, opset=version)
