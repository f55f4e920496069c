"""Inputs that tripped other implementations, with their right answers: on the reference, the C library and ONNX
Runtime, on every instruction set, at lengths 0 to 67 and every byte offset. The ids are those of the case list.

B63 is in test_fpstate.py, B70 in test_lifecycle.py: both need processes of their own.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest

from models import (
    AVAILABLE,
    BFLOAT16,
    CANONICAL_NAN,
    FLOAT,
    INTEGERS,
    PAIRED,
    VERSIONS,
    Arguments,
    Array,
    Buffer,
    Row,
    arguments,
    assert_bits,
    numpy_dtype,
    quiet,
    with_arguments,
)
from ortwin import fast, ref
from test_accuracy import TRUE, error_in_ulp

RunInto = Callable[[Array, Array], None]
"""Reads x, writes y, at whatever addresses they are."""

ARMS = ["ref", *AVAILABLE, *(f"ort-{isa}" for isa in AVAILABLE)]


def arm(name: str, model: onnx.ModelProto, threads: int = 1) -> RunInto:
    """A backend on a model of one input x and one output y of the same shape and type."""
    if name == "ref":
        reference = ref.Session(model)

        def on_ref(x: Array, y: Array) -> None:
            y[...] = reference.run(None, {"x": x})[0]

        return on_ref
    if not name.startswith("ort-"):
        session = fast.Session(model, threads, name)
        return lambda x, y: session.run_into({"y": y}, {"x": x})
    in_ort: Any = fast.ort_session(model, isa=name[4:], threads=threads, session_options=quiet())
    dtype = model.graph.input[0].type.tensor_type.elem_type

    def on_ort(x: Array, y: Array) -> None:
        binding = in_ort.io_binding()
        binding.bind_input("x", "cpu", 0, dtype, list(x.shape), x.ctypes.data)
        binding.bind_output("y", "cpu", 0, dtype, list(y.shape), y.ctypes.data)
        in_ort.run_with_iobinding(binding)

    return on_ort


def check_everywhere(run: RunInto, x: Array, want: Array) -> None:
    """x and its answers, repeated to lengths 0 to 67, each at 8 byte offsets: over 8 lengths every one of 0 to 63."""
    for n in range(68):
        values, answers = np.resize(x, n), np.resize(want, n)
        for offset in range(n % 8, 64, 8):
            target = (offset + n) % 64
            source, result = Buffer(offset, values), Buffer(target, np.zeros_like(answers))
            run(source.array, result.array)
            result.assert_holds(answers, target, f"length {n}, offsets {offset} and {target}")


def bits(*patterns: int) -> Array:
    return np.array(patterns, np.uint32).view(np.float32)


# B01: tanh beyond 1; B02: sigmoid 0 in its tail; B03: e^x - 1 without its digits near 0


ACTIVATIONS: list[tuple[str, str, list[float], list[float]]] = [
    ("b01", "Tanh", [8.9988, -8.9988, 9, 10], [0.99999994, -0.99999994, 0.99999994, 1]),
    ("b02", "Sigmoid", [-15.9114, -18, -30, -88], [1.2296083e-07, 1.5229979e-08, 9.357623e-14, 6.0546e-39]),
    ("b03", "Elu", [-1e-4, -1e-6, -1e-8, -1e-10, -0.0], [-9.9995e-05, -9.999995e-07, -1e-08, -1e-10, -0.0]),
    (
        "gelu",
        "Gelu",
        [-5, -6, -8, -10, -13],
        [-1.4332578e-06, -5.9195258e-09, -4.9767683e-15, -7.619853e-23, -7.9523e-38],
    ),
    ("mish", "Mish", [-60, -20, -1e-30], [-5.253906e-25, -4.122307e-08, -6e-31]),
]


@pytest.mark.parametrize("name", ARMS)
@pytest.mark.parametrize(("op", "x", "want"), [case[1:] for case in ACTIVATIONS], ids=[case[0] for case in ACTIVATIONS])
def test_b01_b02_b03_activations_keep_their_digits(op: str, x: list[float], want: list[float], name: str) -> None:
    """Within 1 ulp of the true value, which to 5 digits is the one in the case list; one result everywhere."""
    run = arm(name, with_arguments(Row(op, VERSIONS[op][-1]), Arguments()))
    values, got = np.array(x, np.float32), np.empty(len(x), np.float32)
    run(values, got)
    true = TRUE[op](values.astype(np.float64))
    assert (error_in_ulp(got, true) <= 1).all(), got
    np.testing.assert_allclose(true, want, rtol=1e-5)
    assert (np.signbit(got) == np.signbit(want)).all()
    check_everywhere(run, values, got)


@pytest.mark.parametrize("name", ARMS)
@pytest.mark.parametrize(("op", "limit"), [("Tanh", 1), ("Sigmoid", 1), ("Erf", 1)])
def test_b01_b02_within_the_range(op: str, limit: float, name: str) -> None:
    """|y| <= 1 on a dense sample of [-30, 30]; odd to the bit, or Sigmoid positive down to -103."""
    x = np.linspace(-30, 30, 20_001 if name != "ref" else 2_001).astype(np.float32)
    y, mirrored = np.empty_like(x), np.empty_like(x)
    run = arm(name, with_arguments(Row(op, 13), Arguments()))
    run(x, y)
    run(-x, mirrored)
    assert (np.abs(y) <= limit).all()
    if op == "Sigmoid":
        tail = np.linspace(-103, -15, 2_001).astype(np.float32)
        z = np.empty_like(tail)
        run(tail, z)
        assert (z > 0).all()
        assert (np.diff(z) >= 0).all()
    else:
        assert_bits(mirrored, -y)


# B05: the same value gives different bits in the vector body and in the tail


def least(row: Row) -> Arguments:
    """No more than a node must be given: a second operand, if it has two."""
    return Arguments(bounds=(3,)) if row.op in PAIRED else Arguments()


@pytest.mark.parametrize("name", ARMS)
@pytest.mark.parametrize("op", VERSIONS)
def test_b05_a_value_alone_and_in_company(op: str, name: str) -> None:
    """Each of 500 N(0, 3) values alone, as all lanes of four, and among all, where each ends up in every position."""
    row = Row(op, VERSIONS[op][-1])
    x = np.random.default_rng(81138).normal(0, 3, 500).astype(np.float32)
    of_any_length = [given for given in arguments(row) if not any(isinstance(bound, bytes) for bound in given.bounds)]
    for given in (of_any_length[0], of_any_length[-1]):
        run = arm(name, with_arguments(row, given))
        together, one, four = np.empty_like(x), np.empty(1, np.float32), np.empty(4, np.float32)
        run(x, together)
        for k in range(x.size):
            run(x[k : k + 1], one)
            run(np.full(4, x[k]), four)
            assert one.tobytes() == together[k].tobytes(), (k, x[k])
            assert four.tobytes() == together[k].tobytes() * 4, (k, x[k])
        for shift in (1, 2, 3, 5, 11, 64, 67):
            moved = np.empty(x.size - shift, np.float32)
            run(x[shift:], moved)
            assert_bits(moved, together[shift:], shift)


@pytest.mark.parametrize("name", ARMS)
@pytest.mark.parametrize("op", VERSIONS)
def test_b05_nan_of_every_length(op: str, name: str) -> None:
    row = Row(op, VERSIONS[op][-1])
    run = arm(name, with_arguments(row, least(row)))
    for pattern in (0x7FC00000, 0xFFC00001, 0x7F800001, 0xFFFFFFFF):
        want = {"Identity": pattern, "ThresholdedRelu": 0}.get(op, CANONICAL_NAN)
        for n in range(1, 101):
            y = np.empty(n, np.float32)
            run(np.resize(bits(pattern), n), y)
            assert (y.view(np.uint32) == want).all(), (hex(pattern), n)


@pytest.mark.parametrize("name", ["ref", AVAILABLE[0], f"ort-{AVAILABLE[0]}"])
@pytest.mark.parametrize("op", VERSIONS)
def test_b05_one_to_eight_threads(op: str, name: str) -> None:
    """1000003 elements of C and ONNX Runtime; the reference knows no threads and takes fewer."""
    row = Row(op, VERSIONS[op][-1])
    model = with_arguments(row, least(row))
    x = np.random.default_rng(5).normal(0, 3, 1009 if name == "ref" else 1_000_003).astype(np.float32)
    want, y = np.empty_like(x), np.empty_like(x)
    arm("portable", model)(x, want)
    for threads in range(1, 2 if name == "ref" else 9):
        arm(name, model, threads)(x, y)
        assert_bits(y, want, threads)


# B20: min > max gave different answers by order of operations


@pytest.mark.parametrize("name", ARMS)
@pytest.mark.parametrize("dtype", [FLOAT, *INTEGERS])
def test_b20_min_above_max_gives_max(dtype: int, name: str) -> None:
    item = numpy_dtype(dtype)
    cases: dict[int, tuple[list[int], int, int]] = {FLOAT: ([-2, 0, 6], 2, 1), 3: ([-128, 0, 127], 5, -5)}
    limits = [0, 4, 5, 6, 255 if item.kind == "u" else 100]
    x, low, high = cases.get(dtype, (limits, 6, 5))
    run = arm(name, with_arguments(Row("Clip", 13, dtype), Arguments(bounds=(low, high))))
    check_everywhere(run, np.array(x, item), np.full(len(x), high, item))


@pytest.mark.parametrize("name", ARMS)
@pytest.mark.parametrize("version", [1, 6])
def test_b20_bounds_as_attributes(version: int, name: str) -> None:
    run = arm(name, with_arguments(Row("Clip", version), Arguments((("min", 2.0), ("max", 1.0)))))
    check_everywhere(run, np.array([-2, 0, 6], np.float32), np.ones(3, np.float32))


# B21: a missing bound took the default 0, or integers went through float

BIG = 2**53 + 1  # the first integer that binary64 lacks

B21: list[tuple[str, int, tuple[int | None, ...], list[int], list[int]]] = [
    ("int64 no max", 7, (-100,), [BIG, -(2**53) - 1, 2**63 - 1], [BIG, -100, 2**63 - 1]),
    ("int64 empty max", 7, (-100, None), [BIG, -(2**53) - 1, 2**63 - 1], [BIG, -100, 2**63 - 1]),
    ("int64 empty min", 7, (None, -100), [BIG, -BIG, -(2**63), -99], [-100, -BIG, -(2**63), -100]),
    ("int64 next to big bounds", 7, (-BIG, BIG), [BIG + 1, -BIG - 1, BIG - 1, 1 - BIG], [BIG, -BIG, BIG - 1, 1 - BIG]),
    ("int64 none", 7, (), [BIG, -BIG, -(2**63), 2**63 - 1, 0], [BIG, -BIG, -(2**63), 2**63 - 1, 0]),
    ("uint64 no max", 13, (2**63 + 1,), [2**63, 2**64 - 1, 0], [2**63 + 1, 2**64 - 1, 2**63 + 1]),
    ("uint64 empty min", 13, (None, 2**63 - 1), [2**63, 2**64 - 1, 0, 7], [2**63 - 1, 2**63 - 1, 0, 7]),
    ("uint8 no max", 2, (3,), [0, 3, 255], [3, 3, 255]),
    ("uint8 empty min", 2, (None, 200), [0, 3, 255], [0, 3, 200]),
    ("int8 no max", 3, (-3,), [-128, 3, 127], [-3, 3, 127]),
    ("int8 empty min", 3, (None, 3), [-128, 3, 127], [-128, 3, 3]),
    ("uint16 no max", 4, (3,), [0, 65535], [3, 65535]),
    ("int16 empty min", 5, (None, 3), [-32768, 32767], [-32768, 3]),
    ("int32 no max", 6, (2**24 + 1,), [2**24, 2**31 - 1], [2**24 + 1, 2**31 - 1]),
    ("uint32 empty min", 12, (None, 2**24 + 1), [2**24 + 2, 0, 2**32 - 1], [2**24 + 1, 0, 2**24 + 1]),
]


@pytest.mark.parametrize("name", ARMS)
@pytest.mark.parametrize(("dtype", "bounds", "x", "want"), [case[1:] for case in B21], ids=[case[0] for case in B21])
def test_b21_missing_bounds_and_big_integers(
    dtype: int, bounds: tuple[int | None, ...], x: list[int], want: list[int], name: str
) -> None:
    item = numpy_dtype(dtype)
    for version in (12, 13):
        run = arm(name, with_arguments(Row("Clip", version, dtype), Arguments(bounds=bounds)))
        if version == 12:  # the same loop
            y = np.empty(len(x), item)
            run(np.array(x, item), y)
            assert_bits(y, np.array(want, item))
        else:
            check_everywhere(run, np.array(x, item), np.array(want, item))


@pytest.mark.parametrize("name", ARMS)
def test_b21_a_missing_float_bound_is_the_largest_finite_number(name: str) -> None:
    largest = np.finfo(np.float32).max
    x = np.array([np.inf, -np.inf, largest, -largest, 0, -0.0], np.float32)
    want = np.array([largest, -largest, largest, -largest, 0, -0.0], np.float32)
    for version, given in ((1, Arguments()), (6, Arguments()), (11, Arguments()), (13, Arguments(bounds=(None, None)))):
        check_everywhere(arm(name, with_arguments(Row("Clip", version), given)), x, want)


# B27: bfloat16 is rounded step by step, if it is computed at all; B28: bfloat16 by cutting bits off


def bfloat16(numbers: list[float]) -> Array:
    return np.array(numbers, np.float32).astype(numpy_dtype(BFLOAT16))


@pytest.mark.parametrize("name", ARMS)
def test_b27_bfloat16_is_computed_in_binary32_and_rounded_once(name: str) -> None:
    x = bfloat16([0.5, -0.5, 3e38, np.nan])
    for row, want in (
        (Row("Relu", 14, BFLOAT16), [0.5, 0.0, 3e38, np.nan]),
        (Row("Sigmoid", 13, BFLOAT16), [0.62109375, 0.376953125, 1.0, np.nan]),
    ):
        check_everywhere(arm(name, with_arguments(row, Arguments())), x, bfloat16(want))


@pytest.mark.parametrize("name", ARMS)
def test_b28_bfloat16_rounds_ties_to_even_and_keeps_a_nan_a_nan(name: str) -> None:
    """What is narrowed is LeakyRelu's alpha, which 1 is multiplied by: -1 times -alpha."""
    patterns = {0x3F808000: 0x3F80, 0x3F818000: 0x3F82, 0x7F800001: 0x7FC0, 0xFF800001: 0x7FC0, 0x7F7FFFFF: 0x7F80}
    for pattern, want in patterns.items():
        alpha = -float(bits(pattern)[0])
        run = arm(name, with_arguments(Row("LeakyRelu", 16, BFLOAT16), Arguments((("alpha", alpha),))))
        check_everywhere(run, bfloat16([-1.0]), np.array([want], np.uint16).view(numpy_dtype(BFLOAT16)))
