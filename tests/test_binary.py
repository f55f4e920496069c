"""Add, Sub, Mul, Div: their numbers against numpy's, the shapes they broadcast to, and integers that have no answer."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
import pytest

from models import (
    AVAILABLE,
    BFLOAT16,
    CANONICAL_NAN,
    FLOAT,
    FLOAT16,
    INT32,
    INT64,
    ISAS,
    PAIRED,
    Array,
    assert_bits,
    node,
    numpy_dtype,
    of_nodes,
    oracle,
    sample,
    specials,
    value,
)
from ortwin.fast import Session
from ortwin.ref import InputError, UnsupportedError
from ortwin.ref import Session as RefSession
from ortwin.ref.binary import broadcast, fit

NUMPY: dict[str, Callable[..., Any]] = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide}
Shape = Sequence[int | str | None] | None


def model(
    op: str, a: Shape = None, b: Shape = None, *, dtype: int = FLOAT, opset: int = 14, **attributes: Any
) -> onnx.ModelProto:
    inputs = [value("a", dtype, a), value("b", dtype, b)]
    made = node(op, ["a", "b"], "y", "the_node", **attributes)
    return of_nodes([made], inputs, [value("y", dtype, None)], opset=opset)


def by_numpy(op: str, a: Array, b: Array) -> Array:
    """What IEEE 754 and two's complement say, from numpy; a NaN is the canonical one."""
    with np.errstate(all="ignore"):
        if a.dtype == np.float32:
            y: Array = np.asarray(NUMPY[op](a, b))
            y = np.where(np.isnan(y), np.uint32(CANONICAL_NAN).view(np.float32), y)
            return y.astype(np.float32, copy=False)
        if op != "Div":
            return np.asarray(NUMPY[op](a, b))
        bits = 8 * a.dtype.itemsize

        def divide(m: int, n: int) -> int:
            quotient = abs(m) // abs(n) if n else 0
            signed = quotient if (m < 0) == (n < 0) else -quotient
            return (signed + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))

        both = np.broadcast_arrays(a, b)
        found = [divide(m, n) for m, n in zip(both[0].ravel().tolist(), both[1].ravel().tolist(), strict=True)]
        return np.array(found, a.dtype).reshape(both[0].shape)


SHAPES: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((), ()),
    ((7,), ()),
    ((), (7,)),
    ((1,), (7,)),
    ((5, 7), (7,)),
    ((5, 7), (5, 1)),
    ((5, 1), (1, 7)),
    ((5, 1), (7,)),
    ((3, 1, 5), (4, 1)),
    ((2, 3, 4), (3, 1)),
    ((2, 1, 3, 1, 2), (1, 4, 1, 2, 1)),
    ((2, 3, 4), (2, 3, 4)),
    ((1, 2, 3, 4), (2, 3, 4)),
    ((2, 1, 17), (3, 17)),
    ((0,), ()),
    ((0,), (1,)),
    ((5, 0), (5, 1)),
    ((1, 0), (3, 1)),
    ((1, 1, 1), (1,)),
    ((2, 1) * 5, (1, 2) * 5),
    ((2,) * 10, (1,) * 9 + (2,)),
    ((1,) * 12, (2,)),
    ((17, 1, 35), (1, 5, 1)),
]


@pytest.mark.parametrize("dtype", [FLOAT, INT32, INT64])
def test_every_shape_broadcasts_as_numpys(dtype: int) -> None:
    pool, other = sample(dtype), sample(dtype, seed=3)
    for op in PAIRED:
        reference = RefSession(model(op, dtype=dtype))
        sessions = [Session(model(op, dtype=dtype), isa=isa) for isa in AVAILABLE]
        for a_shape, b_shape in SHAPES:
            a = np.resize(pool, a_shape).reshape(a_shape)
            b = np.resize(other, b_shape).reshape(b_shape)
            for x, y in ((a, b), (b, a)):
                (want,) = reference.run(None, {"a": x, "b": y})
                assert_bits(want, by_numpy(op, x, y).reshape(want.shape), (op, x.shape, y.shape, "ref"))
                for fast in sessions:
                    assert_bits(fast.run(None, {"a": x, "b": y})[0], want, (op, x.shape, y.shape, fast.isa))


@pytest.mark.parametrize("dtype", [FLOAT16, BFLOAT16])
def test_half_types_round_once(dtype: int) -> None:
    """C5, by numpy's float32 and its own conversions: all exponents, and shapes that are walked."""
    item = numpy_dtype(dtype)
    a, b = sample(dtype, 300, seed=1)[:, None], sample(dtype, 200, seed=2)[None, :]
    for op in PAIRED:
        made = model(op, dtype=dtype)
        with np.errstate(all="ignore"):
            wide = by_numpy(op, a.astype(np.float32), b.astype(np.float32))
            want = wide.astype(item).view(np.uint16)
        want = np.where(np.isnan(wide), np.uint16(0x7E00 if dtype == FLOAT16 else 0x7FC0), want)
        (got,) = RefSession(made).run(None, {"a": a, "b": b})
        assert_bits(got.view(np.uint16), want, (op, "ref"))
        for isa in AVAILABLE:
            fast = Session(made, isa=isa)
            assert_bits(fast.run(None, {"a": a, "b": b})[0], got, (op, isa))
            for shapes in (((37,), (37,)), ((37,), ()), ((), (37,)), ((3, 1), (3, 37)), ((1,), (1,))):
                x, y = (np.resize(sample(dtype, seed=k), shape).reshape(shape) for k, shape in enumerate(shapes, 5))
                feeds = {"a": x, "b": y}
                assert_bits(fast.run(None, feeds)[0], RefSession(made).run(None, feeds)[0], (op, isa, shapes))


@pytest.mark.parametrize("op", PAIRED)
def test_special_values_meet_each_other(op: str) -> None:
    """Also NaNs with payloads and of both signs, of which none comes through."""
    a, b = specials()[:, None], specials()[None, :]
    (want,) = RefSession(model(op)).run(None, {"a": a, "b": b})
    assert_bits(want, by_numpy(op, a, b), "ref")
    for isa in AVAILABLE:
        assert_bits(Session(model(op), isa=isa).run(None, {"a": a, "b": b})[0], want, isa)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dtype", [INT32, INT64])
def test_integers_wrap_and_never_trap(dtype: int, isa: str) -> None:
    item = numpy_dtype(dtype)
    low, high = int(np.iinfo(item).min), int(np.iinfo(item).max)
    cases = [
        ("Add", high, 1, low),
        ("Sub", low, 1, high),
        ("Mul", low, -1, low),
        ("Mul", high, high, 1),
        ("Div", low, -1, low),
        ("Div", low, 0, 0),
        ("Div", 7, 0, 0),
        ("Div", 0, 0, 0),
        ("Div", -7, 2, -3),
        ("Div", 7, -2, -3),
        ("Div", -7, -2, 3),
        ("Div", low, 1, low),
        ("Div", low, 2, low // 2),
    ]
    for op, a, b, want in cases:
        for count in (1, 40):
            feeds = {"a": np.full(count, a, item), "b": np.full(count, b, item)}
            assert_bits(oracle(model(op, dtype=dtype), feeds), np.full(count, want, item), (op, a, b))
            assert_bits(Session(model(op, dtype=dtype), isa=isa).run(None, feeds)[0], np.full(count, want, item))


# before version 7


@pytest.mark.parametrize("opset", [1, 6])
@pytest.mark.parametrize(
    ("b_shape", "attributes", "aligned"),
    [
        ((2, 3, 4, 5), {}, (2, 3, 4, 5)),
        ((), {"broadcast": 1}, (1, 1, 1, 1)),
        ((1, 1), {"broadcast": 1}, (1, 1, 1, 1)),
        ((5,), {"broadcast": 1}, (1, 1, 1, 5)),
        ((4, 5), {"broadcast": 1}, (1, 1, 4, 5)),
        ((3, 4), {"broadcast": 1, "axis": 1}, (1, 3, 4, 1)),
        ((2,), {"broadcast": 1, "axis": 0}, (2, 1, 1, 1)),
        ((2, 3, 4, 5), {"broadcast": 1}, (2, 3, 4, 5)),
        ((1,), {"broadcast": 1, "axis": 3}, (1, 1, 1, 1)),
    ],
    ids=str,
)
def test_limited_broadcasting(
    opset: int, b_shape: tuple[int, ...], attributes: dict[str, Any], aligned: tuple[int, ...]
) -> None:
    """The examples of ONNX's text."""
    a = np.resize(sample(FLOAT), (2, 3, 4, 5))
    b = np.resize(sample(FLOAT, seed=5), b_shape).reshape(b_shape)
    for op in PAIRED:
        made = model(op, opset=opset, **attributes)
        want = by_numpy(op, a, b.reshape(aligned))
        assert_bits(oracle(made, {"a": a, "b": b}), want, op)
        assert_bits(Session(made).run(None, {"a": a, "b": b})[0], want, op)


@pytest.mark.parametrize("opset", [1, 6])
@pytest.mark.parametrize(
    ("b_shape", "attributes"),
    [
        ((5,), {}),
        ((), {}),
        ((1, 3, 4, 5), {}),
        ((4,), {"broadcast": 1}),
        ((1, 5), {"broadcast": 1}),
        ((3, 4), {"broadcast": 1}),
        ((3, 4), {"broadcast": 1, "axis": 2}),
        ((4, 5), {"broadcast": 1, "axis": 3}),
        ((5,), {"broadcast": 1, "axis": 4}),
        ((1, 1, 1, 1, 1), {"broadcast": 1}),
        ((1, 2, 3, 4, 5), {"broadcast": 1}),
    ],
    ids=str,
)
def test_limited_broadcasting_is_limited(opset: int, b_shape: tuple[int, ...], attributes: dict[str, Any]) -> None:
    a, b = np.ones((2, 3, 4, 5), np.float32), np.ones(b_shape, np.float32)
    for make in (RefSession, Session):
        made: Any = make(model("Mul", opset=opset, **attributes))
        with pytest.raises(InputError, match=r"node 'the_node' .*shapes .* do not broadcast"):
            made.run(None, {"a": a, "b": b})
        with pytest.raises(UnsupportedError, match=r"node 'the_node' .*shapes .* do not broadcast"):
            make(model("Mul", a.shape, b_shape, opset=opset, **attributes))


def test_a_negative_axis_is_declined() -> None:
    for make in (RefSession, Session):
        with pytest.raises(UnsupportedError, match="axis must not be negative"):
            make(model("Add", opset=6, broadcast=1, axis=-1))


# shapes that do not fit


@pytest.mark.parametrize(
    ("a", "b"), [((2,), (3,)), ((2, 3), (2,)), ((0,), (2,)), ((2, 1, 4), (3, 3)), ((2,) * 10, (3,)), ((3, 2), (2, 3))]
)
def test_shapes_that_do_not_broadcast(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    """Declined where the model says the shapes, an error that names the node where only a run does."""
    feeds = {"a": np.ones(a, np.float32), "b": np.ones(b, np.float32)}
    for make in (RefSession, Session):
        with pytest.raises(UnsupportedError, match=r"node 'the_node' .*do not broadcast"):
            make(model("Add", a, b))
        made: Any = make(model("Add"))
        with pytest.raises(InputError, match=r"node 'the_node' .*do not broadcast"):
            made.run(None, feeds)
        (y,) = made.run(None, {name: np.ones(2, np.float32) for name in feeds})  # and it lives on
        assert_bits(y, np.full(2, 2, np.float32))


def test_shapes_that_may_broadcast_are_taken() -> None:
    """(1, 3) and (5, 1) are what they say; of the others the run decides."""
    told: list[Shape] = [("n", 3), ("n", "m"), (None, 3), (1, 3), (5, 1), None]
    for a, b in itertools.permutations(told, 2):
        feeds = {
            name: np.ones((1 if shape == (1, 3) else 5, 1 if shape == (5, 1) else 3), np.float32)
            for name, shape in (("a", a), ("b", b))
        }
        want = feeds["a"] - feeds["b"]
        for make in (RefSession, Session):
            assert_bits(make(model("Sub", a, b)).run(None, feeds)[0], want, (a, b))


def test_the_rule_on_unknown_dimensions() -> None:
    """By trying what the unknown ones can be."""
    known: list[int | None] = [0, 1, 2, 3, None]
    for m, n in itertools.product(known, known):
        possible = {
            max(i, j) if 0 not in (i, j) else 0
            for i in ([m] if m is not None else [0, 1, 2, 3])
            for j in ([n] if n is not None else [0, 1, 2, 3])
            if i == j or 1 in (i, j)
        }
        assert fit((m,), (n,)) == bool(possible)
        if possible:
            (size,) = broadcast((m,), (n,))
            assert size == (possible.pop() if len(possible) == 1 else None), (m, n)


@pytest.mark.parametrize("op", PAIRED)
def test_operands_of_two_types_are_declined(op: str) -> None:
    inputs = [value("a", FLOAT, None), value("b", INT32, None)]
    made = of_nodes([node(op, ["a", "b"], "y")], inputs, [value("y", FLOAT, None)], opset=14)
    for make in (RefSession, Session):
        with pytest.raises(UnsupportedError, match="int32"):
            make(made)
