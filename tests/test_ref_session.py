"""The reference's ops and executor: answers derived by hand, exact rational arithmetic, shapes, types and errors."""

import ctypes
import ctypes.util
import math
import platform
import struct
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from ortwin.ref import InputError, ModelError, Session, UnsupportedError
from ortwin.ref.ops import OPS
from ortwin.ref.tensor import BYTE_SIZED, DTYPE_NAMES

Array = npt.NDArray[Any]
FLOAT = TensorProto.FLOAT
NAN = 0x7FC00000


def one_node(
    op: str,
    version: int,
    attributes: Mapping[str, Any] | None = None,
    dtype: int = FLOAT,
    bounds: Sequence[Array | None] = (),
) -> onnx.ModelProto:
    """A model of one node with input x and output y of unknown rank; bounds become initializers. The name of an op
    that is not of ai.onnx comes after its domain."""
    names = [f"bound{i}" if bound is not None else "" for i, bound in enumerate(bounds)]
    domain, _, op_type = op.rpartition(".")
    node = helper.make_node(op_type, ["x", *names], ["y"], domain=domain, **(attributes or {}))
    initializers = [numpy_helper.from_array(b, n) for b, n in zip(bounds, names, strict=True) if b is not None]
    values = [helper.make_tensor_value_info(name, dtype, None) for name in "xy"]
    graph = helper.make_graph([node], "g", values[:1], values[1:], initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid(domain, version)], ir_version=10)


def run(model: onnx.ModelProto, x: Array) -> Array:
    (y,) = Session(model).run(None, {"x": x})
    return y


def floats(bits: Sequence[int]) -> Array:
    return np.array(bits, np.uint32).view(np.float32)


def bits(array: Array) -> list[int]:
    return [int(b) for b in np.ascontiguousarray(array).view(np.uint32).ravel()]


def f(x: float | str) -> int:
    """Bits of a number that binary32 holds exactly; a string is a hexadecimal float."""
    number = float.fromhex(x) if isinstance(x, str) else x
    packed = struct.pack("<f", number)
    assert struct.unpack("<f", packed)[0] == number
    return int.from_bytes(packed, "little")


ZERO, MINUS_ZERO, INF, MINUS_INF = 0x00000000, 0x80000000, 0x7F800000, 0xFF800000
ONE, MINUS_ONE = 0x3F800000, 0xBF800000
LEAST, LARGEST_SUBNORMAL, LEAST_NORMAL, LARGEST = 0x00000001, 0x007FFFFF, 0x00800000, 0x7F7FFFFF
NEG = 0x80000000

# Quiet and signalling, with payloads, of both signs; then the numbers every op answers for.
NANS = [0x7FC00000, 0x7F800001, 0x7FFFFFFF, 0xFFC00000, 0xFF812345, 0xFFFFFFFF]
SPECIAL = [ZERO, MINUS_ZERO, INF, MINUS_INF, LEAST, NEG | LEAST, LARGEST_SUBNORMAL, NEG | LARGEST_SUBNORMAL,
           LEAST_NORMAL, NEG | LEAST_NORMAL, LARGEST, NEG | LARGEST]  # fmt: skip

ANSWERS: dict[str, list[int]] = {
    "Relu": [ZERO, MINUS_ZERO, INF, ZERO, LEAST, ZERO, LARGEST_SUBNORMAL, ZERO, LEAST_NORMAL, ZERO, LARGEST, ZERO],
    # 0.01 * 2^-149 is under half of 2^-149; 0.01 * (2^23 - 1) = 83886.07; 0.01 * 2^23 = 83886.08, in steps of 2^-149
    "LeakyRelu": [ZERO, MINUS_ZERO, INF, MINUS_INF, LEAST, MINUS_ZERO, LARGEST_SUBNORMAL, NEG | 83886, LEAST_NORMAL,
                  NEG | 83886, LARGEST, f("-0x1.47ae12p+121")],
    "ThresholdedRelu": [ZERO, ZERO, INF, ZERO, ZERO, ZERO, ZERO, ZERO, ZERO, ZERO, LARGEST, ZERO],
    "HardSigmoid": [f(0.5), f(0.5), ONE, ZERO, f(0.5), f(0.5), f(0.5), f(0.5), f(0.5), f(0.5), ONE, ZERO],
    # near zero x / 2: halves of odd numbers of steps go to even ones
    "HardSwish": [ZERO, MINUS_ZERO, INF, MINUS_ZERO, ZERO, MINUS_ZERO, 0x00400000, NEG | 0x00400000, 0x00400000,
                  NEG | 0x00400000, LARGEST, MINUS_ZERO],
    "Clip": [ZERO, MINUS_ZERO, LARGEST, NEG | LARGEST, LEAST, NEG | LEAST, LARGEST_SUBNORMAL, NEG | LARGEST_SUBNORMAL,
             LEAST_NORMAL, NEG | LEAST_NORMAL, LARGEST, NEG | LARGEST],
    "Abs": [b & 0x7FFFFFFF for b in SPECIAL],
    "Neg": [b ^ NEG for b in SPECIAL],
    # 1 / 2^-126 = 2^126; 1 / (2^-126 - 2^-149) = 2^126 (1 + 2^-23 + ...); 1 / (2^128 - 2^104) = 2^-128 (1 + 2^-24 ..)
    "Reciprocal": [INF, MINUS_INF, ZERO, MINUS_ZERO, INF, MINUS_INF, f("0x1.000002p+126"), f("-0x1.000002p+126"),
                   f(2.0**126), f(-(2.0**126)), f(2.0**-128), f(-(2.0**-128))],
    # sqrt(2^-149) = sqrt(2) 2^-75; sqrt(2^-126 (1 - 2^-23)) = 2^-63 (1 - 2^-24); sqrt(2^128 (1 - 2^-24)) rounds as
    # 2^64 (1 - 2^-25 - 2^-51), in steps of 2^-24: down from the tie
    "Sqrt": [ZERO, MINUS_ZERO, INF, NAN, f("0x1.6a09e6p-75"), NAN, f("0x1.fffffep-64"), NAN, f(2.0**-63), NAN,
             f("0x1.fffffep+63"), NAN],
    "Floor": [ZERO, MINUS_ZERO, INF, MINUS_INF, ZERO, MINUS_ONE, ZERO, MINUS_ONE, ZERO, MINUS_ONE, LARGEST,
              NEG | LARGEST],
    "Ceil": [ZERO, MINUS_ZERO, INF, MINUS_INF, ONE, MINUS_ZERO, ONE, MINUS_ZERO, ONE, MINUS_ZERO, LARGEST,
             NEG | LARGEST],
    "Round": [ZERO, MINUS_ZERO, INF, MINUS_INF, ZERO, MINUS_ZERO, ZERO, MINUS_ZERO, ZERO, MINUS_ZERO, LARGEST,
              NEG | LARGEST],
    "Sign": [ZERO, ZERO, ONE, MINUS_ONE, ONE, MINUS_ONE, ONE, MINUS_ONE, ONE, MINUS_ONE, ONE, MINUS_ONE],
    # x - x^2 ...: equal to x for subnormals; 2^-126 (1 - 2^-126) too
    "Softsign": [ZERO, MINUS_ZERO, ONE, MINUS_ONE, LEAST, NEG | LEAST, LARGEST_SUBNORMAL, NEG | LARGEST_SUBNORMAL,
                 LEAST_NORMAL, NEG | LEAST_NORMAL, ONE, MINUS_ONE],
    "Identity": SPECIAL,
    # e^x = 1 + x + ..., and half a step of 1 is 2^-25 or more
    "Exp": [ONE, ONE, INF, ZERO, *[ONE] * 6, INF, ZERO],
    # log 2^-149 = -103.27893, log 2^-126 = -87.33655, in steps of 2^-17; log(2^128 - 2^104) = 88.72284
    "Log": [MINUS_INF, MINUS_INF, INF, NAN, 0xC2CE8ED0, NAN, 0xC2AEAC50, NAN, 0xC2AEAC50, NAN, 0x42B17218, NAN],
    "Tanh": [ZERO, MINUS_ZERO, ONE, MINUS_ONE, *SPECIAL[4:10], ONE, MINUS_ONE],
    "Sigmoid": [f(0.5), f(0.5), ONE, ZERO, *[f(0.5)] * 6, ONE, ZERO],
    # 2 / sqrt(pi) = 1.12837917: 1 step is 1.13, 2^23 - 1 and 2^23 steps are 9465529.38 and 9465530.51, which within
    # 1 ulp (C8) may be 9465530
    "Erf": [ZERO, MINUS_ZERO, ONE, MINUS_ONE, LEAST, NEG | LEAST, 9465529, NEG | 9465529, 9465530, NEG | 9465530, ONE,
            MINUS_ONE],
    "Elu": [ZERO, MINUS_ZERO, INF, MINUS_ONE, *SPECIAL[4:10], LARGEST, MINUS_ONE],
    "Celu": [ZERO, MINUS_ZERO, INF, MINUS_ONE, *SPECIAL[4:10], LARGEST, MINUS_ONE],
    # gamma = 1.05070102, gamma * alpha = 1.75809935: times 1, 2^23 - 1 and 2^23 steps of 2^-149
    "Selu": [ZERO, MINUS_ZERO, INF, f("-0x1.c212ccp+0"), LEAST, NEG | 2, 8813918, NEG | 14748004, 8813919,
             NEG | 14748006, INF, f("-0x1.c212ccp+0")],
    # log 2 = 0.69314718 where x is small; then x or 0
    "Softplus": [0x3F317218, 0x3F317218, INF, ZERO, *[0x3F317218] * 6, LARGEST, ZERO],
    # near zero 0.6 x: 0.6 (2^23 - 1) = 5033164.2, 0.6 * 2^23 = 5033164.8
    "Mish": [ZERO, MINUS_ZERO, INF, MINUS_ZERO, LEAST, NEG | LEAST, 5033164, NEG | 5033164, 5033165, NEG | 5033165,
             LARGEST, MINUS_ZERO],
}  # fmt: skip
GATED = ("Swish", "Gelu", "com.microsoft.Gelu", "com.microsoft.QuickGelu", "com.microsoft.FastGelu")
for _op in GATED:  # near zero x / 2; the limit at an infinity (C10b)
    ANSWERS[_op] = ANSWERS["HardSwish"]

# Selu-1 has shorter defaults: gamma = 1.05069995, gamma * alpha = 1.75803117; 2^23 - 1 steps are 14747432.55
SELU_1 = [ZERO, MINUS_ZERO, INF, f("-0x1.c20e54p+0"), LEAST, NEG | 2, 8813909, NEG | 14747432, 8813910, NEG | 14747434,
          INF, f("-0x1.c20e54p+0")]  # fmt: skip


def newest(op: str) -> int:
    domain, _, name = op.rpartition(".")
    return max(OPS[domain, name].versions)


def answers(op: str, version: int) -> list[int]:
    return SELU_1 if (op, version) == ("Selu", 1) else ANSWERS[op]


# What a NaN of any kind becomes (C3); ThresholdedRelu compares, and no comparison with a NaN is true.
NAN_ANSWERS = {op: [NAN] * len(NANS) for op in ANSWERS} | {"Identity": NANS, "ThresholdedRelu": [ZERO] * len(NANS)}

PAIRED = ("Add", "Sub", "Mul", "Div", "BiasGelu")  # of two inputs: in test_binary.py and test_bias.py
UNARY = {key: row for key, row in OPS.items() if row.elementwise and row.name not in PAIRED}
EVERY_VERSION = [
    (f"{domain}.{op}" if domain else op, version) for (domain, op), row in UNARY.items() for version in row.versions
]
ELEMENTWISE = [(op, version) for op, version in EVERY_VERSION if op != "Identity"]


def test_the_table_holds_every_version_of_the_onnx_text() -> None:
    known = {schema.name: set[int]() for schema in onnx.defs.get_all_schemas_with_history() if schema.domain == ""}
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain == "":
            known[schema.name].add(schema.since_version)
    assert set(ANSWERS) == {op for op, _ in EVERY_VERSION}
    for (domain, name), op in OPS.items():
        assert (op.domain, op.name) == (domain, name)
        assert set(op.versions) == ({1} if domain else known[name]), name


@pytest.mark.parametrize(("op", "version"), EVERY_VERSION)
def test_special_values_at_every_version_c3_c4_c10(op: str, version: int) -> None:
    got = bits(run(one_node(op, version), floats(SPECIAL + NANS)))
    expected = answers(op, version) + NAN_ANSWERS[op]
    for x, y, want in zip(SPECIAL + NANS, got, expected, strict=True):
        assert y == want, f"{op}-{version}({x:#010x}) => {y:#010x} expected: {want:#010x}"


NUMBERS: list[tuple[str, dict[str, float], list[float], list[float]]] = [
    ("Relu", {}, [-1.5, 1.5], [0.0, 1.5]),
    ("LeakyRelu", {"alpha": 0.5}, [-3.0, 3.0, -math.inf], [-1.5, 3.0, -math.inf]),
    ("LeakyRelu", {"alpha": -2.0}, [-3.0, -math.inf, -0.0], [6.0, math.inf, -0.0]),
    ("LeakyRelu", {"alpha": 0.0}, [-3.0, -math.inf, math.inf], [-0.0, math.nan, math.inf]),
    ("LeakyRelu", {"alpha": math.inf}, [-3.0, -0.0, 2.0], [-math.inf, -0.0, 2.0]),
    ("LeakyRelu", {"alpha": math.nan}, [-3.0, 0.0, 2.0], [math.nan, 0.0, 2.0]),
    ("ThresholdedRelu", {}, [1.0, 1.0000001192092896, 0.5, -5.0], [0.0, 1.0000001192092896, 0.0, 0.0]),
    ("ThresholdedRelu", {"alpha": -2.0}, [-2.0, -1.5, -0.0, -math.inf], [0.0, -1.5, -0.0, 0.0]),
    ("ThresholdedRelu", {"alpha": math.nan}, [-2.0, 0.0, 3.0, math.inf], [0.0, 0.0, 0.0, 0.0]),
    ("ThresholdedRelu", {"alpha": math.inf}, [3.0, math.inf], [0.0, 0.0]),
    ("ThresholdedRelu", {"alpha": -math.inf}, [-3.0, -math.inf], [-3.0, 0.0]),
    ("HardSigmoid", {}, [2.5, -2.5, 3.0, -3.0, 2.0], [1.0, 0.0, 1.0, 0.0, 0.8999999761581421]),
    ("HardSigmoid", {"alpha": 0.0}, [1.0, math.inf], [0.5, math.nan]),
    ("HardSigmoid", {"alpha": -1.0, "beta": 0.0}, [0.0, 0.25, -0.25, -math.inf], [0.0, 0.0, 0.25, 1.0]),
    ("HardSigmoid", {"alpha": math.inf, "beta": -math.inf}, [1.0, -1.0, 0.0], [math.nan, 0.0, math.nan]),
    ("HardSigmoid", {"alpha": 1.0, "beta": math.nan}, [1.0], [math.nan]),
    ("HardSwish", {}, [-3.0, 3.0, 4.0, 1.5, -1.5, 1.0], [-0.0, 3.0, 4.0, 1.125, -0.375, 0.6666666865348816]),
    ("Abs", {}, [-1.5, 2.0], [1.5, 2.0]),
    ("Neg", {}, [-1.5, 2.0], [1.5, -2.0]),
    ("Reciprocal", {}, [4.0, -0.5, 3.0], [0.25, -2.0, 0.3333333432674408]),
    ("Sqrt", {}, [4.0, 2.0, -1.0], [2.0, 1.4142135381698608, math.nan]),
    ("Floor", {}, [-0.3, 0.3, 1.5, -1.5, 0.99999994, 8388607.5, -8388607.5], [-1, 0.0, 1, -2, 0.0, 8388607, -8388608]),
    ("Ceil", {}, [-0.3, 0.3, 1.5, -1.5, -0.99999994, 8388607.5, -8388607.5], [-0.0, 1, 2, -1, -0.0, 8388608, -8388607]),
    ("Round", {}, [-0.3, -0.5, 0.5, 1.5, 2.5, -2.5, 0.49999997, 8388607.5], [-0.0, -0.0, 0.0, 2, 2, -2, 0.0, 8388608]),
    ("Sign", {}, [7.0, -7.0], [1.0, -1.0]),
    ("Softsign", {}, [1.0, -1.0, 3.0, 2.0**24, 2.0**25], [0.5, -0.5, 0.75, 0.99999994, 1.0]),
]  # fmt: skip


@pytest.mark.parametrize(("op", "attributes", "xs", "ys"), NUMBERS)
def test_numbers_by_hand(op: str, attributes: dict[str, float], xs: list[float], ys: list[float]) -> None:
    for version in OPS["", op].versions:
        got = run(one_node(op, version, attributes), np.array(xs, np.float32))
        assert bits(got) == bits(np.array(ys, np.float32)), f"{op}-{version}: {got}"


def test_consumed_inputs_of_version_1_means_nothing() -> None:
    for (domain, op), row in UNARY.items():
        if 1 in row.versions and not domain and op not in ("Identity", "Softsign", "Softplus"):
            got = bits(run(one_node(op, 1, {"consumed_inputs": [0]}), floats(SPECIAL)))
            assert got == answers(op, 1)


# Exact rational arithmetic


def samples() -> list[int]:
    """Finite patterns: both sides of every power of two, and random ones."""
    edges = [(e << 23) + d for e in range(255) for d in (-1, 0, 1, 0x2AAAAA) if 0 <= (e << 23) + d < INF]
    drawn = np.random.default_rng(3).integers(0, INF, 1500).tolist()
    dense = np.random.default_rng(4).integers(0x3E000000, 0x41000000, 1500).tolist()
    magnitudes = [*edges, *drawn, *dense]
    return [*magnitudes, *(m | NEG for m in magnitudes)]


def exact(pattern: int) -> Fraction:
    return Fraction(float(floats([pattern])[0]))


def step(magnitude: Fraction) -> Fraction:
    """The spacing of binary32 at a positive number."""
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    if magnitude < Fraction(2) ** exponent:
        exponent -= 1  # 2^exponent <= magnitude < 2^(exponent + 1)
    return Fraction(2) ** max(exponent - 23, -149)


def nearest(true: Fraction, negative_zero: bool = False) -> int:
    """Bits of the binary32 number nearest to true, ties to even."""
    if true == 0:
        return MINUS_ZERO if negative_zero else ZERO
    unit = step(abs(true))
    value = round(abs(true) / unit) * unit  # Fraction's own rounding is half to even
    magnitude = INF if value >= 2**128 else f(float(value))
    return magnitude | (NEG if true < 0 else 0)


def root(true: Fraction) -> Fraction:
    """The square root to 80 bits, the last set if it isn't exact: enough to round from."""
    scaled = true * 2**320
    whole = math.isqrt(scaled.numerator // scaled.denominator)
    return Fraction(2 * whole + (whole * whole != scaled), 2**161)


def check_nearest(op: str, attributes: dict[str, float], true: Callable[[Fraction], Fraction], xs: list[int]) -> None:
    ys = bits(run(one_node(op, 22, attributes), floats(xs)))
    for x, y in zip(xs, ys, strict=True):
        want = nearest(true(exact(x)), x >= NEG)
        assert y == want, f"{op}({x:#010x}) => {y:#010x} expected: {want:#010x}"


def test_reciprocal_is_correctly_rounded() -> None:
    check_nearest("Reciprocal", {}, lambda x: 1 / x, [x for x in samples() if x & ~NEG])


def test_sqrt_is_correctly_rounded() -> None:
    check_nearest("Sqrt", {}, root, [x for x in samples() if x < NEG])


@pytest.mark.parametrize("alpha", [0.01, -1.75, 3.0e38, 1.0e-42])
def test_leaky_relu_is_correctly_rounded(alpha: float) -> None:
    slope = Fraction(float(np.float32(alpha)))
    negative = [x for x in samples() if x > NEG]
    ys = bits(run(one_node("LeakyRelu", 22, {"alpha": alpha}), floats(negative)))
    assert ys == [nearest(slope * exact(x), alpha > 0) for x in negative]


@pytest.mark.parametrize(
    ("alpha", "beta"), [(0.2, 0.5), (0.1, 0.3), (-0.7, 0.123), (1e-30, 1e-30), (1 / 3, 0.0), (1e30, -1e30)]
)
def test_hard_sigmoid_is_correctly_rounded(alpha: float, beta: float) -> None:
    slope, offset = Fraction(float(np.float32(alpha))), Fraction(float(np.float32(beta)))

    def true(x: Fraction) -> Fraction:
        return max(Fraction(0), min(Fraction(1), slope * x + offset))

    xs = samples()
    ys = bits(run(one_node("HardSigmoid", 22, {"alpha": alpha, "beta": beta}), floats(xs)))
    assert ys == [nearest(true(exact(x))) for x in xs]


@pytest.mark.parametrize(
    ("op", "true"),
    [
        ("HardSwish", lambda x: x * max(Fraction(0), min(Fraction(1), x / 6 + Fraction(1, 2)))),
        ("Softsign", lambda x: x / (1 + abs(x))),
    ],
)
def test_error_is_at_most_half_an_ulp_and_a_millionth(op: str, true: Callable[[Fraction], Fraction]) -> None:
    near_three = [f(3.0) + d for d in range(-40, 40)] + [f(-3.0) + d for d in range(-40, 40)]
    xs = samples() + near_three
    ys = bits(run(one_node(op, 22), floats(xs)))
    for x, y in zip(xs, ys, strict=True):
        want = true(exact(x))
        error = abs(exact(y) - want) / step(abs(want)) if want else abs(exact(y))
        assert error <= Fraction(500001, 1000000), f"{op}({x:#010x}) => {y:#010x}, {float(error)} ulp off"
        assert (y ^ x) & NEG == 0, "the sign of x, for zeros as well"


@pytest.mark.parametrize("op", ["Floor", "Ceil", "Round"])
def test_integers_near_x(op: str) -> None:
    functions: dict[str, Callable[[Fraction], int]] = {
        "Floor": math.floor,
        "Ceil": math.ceil,
        "Round": lambda x: round(x),
    }
    check_nearest(op, {}, lambda x: Fraction(functions[op](x)), samples())


# Clip

INTEGERS = [2, 3, 4, 5, 6, 7, 12, 13]


def native(dtype: int) -> np.dtype[Any]:
    return np.dtype(DTYPE_NAMES[dtype])


def test_clip_with_attributes() -> None:
    x = floats([f(-2.0), f(0.0), f(6.0), 0xFF800001])
    for version in (1, 6):
        assert bits(run(one_node("Clip", version, {"min": -1.0, "max": 2.0}), x)) == [MINUS_ONE, ZERO, f(2.0), NAN]
        assert bits(run(one_node("Clip", version, {"max": 2.0}), x)) == [f(-2.0), ZERO, f(2.0), NAN]
        assert bits(run(one_node("Clip", version, {"min": -1.0}), x)) == [MINUS_ONE, ZERO, f(6.0), NAN]
        assert bits(run(one_node("Clip", version, {"min": 2.0, "max": 1.0}), x)) == [ONE, ONE, ONE, NAN]
        assert bits(run(one_node("Clip", version, {"min": math.nan}), x)) == [NAN] * 4


@pytest.mark.parametrize("version", [11, 12, 13])
def test_clip_with_inputs_c10d(version: int) -> None:
    def clip(lo: int | None, hi: int | None) -> list[int]:
        bounds = [None if b is None else floats([b]).reshape(()) for b in (lo, hi)]
        return bits(run(one_node("Clip", version, bounds=bounds), x))

    x = floats([f(-2.0), MINUS_ZERO, ZERO, f(6.0), INF, MINUS_INF, 0x7F812345])
    assert clip(MINUS_ONE, ONE) == [MINUS_ONE, MINUS_ZERO, ZERO, ONE, ONE, MINUS_ONE, NAN]
    assert clip(f(2.0), ONE) == [ONE] * 6 + [NAN], "min above max gives max"
    assert clip(NAN, ONE) == clip(MINUS_ONE, 0xFF800001) == clip(NAN, None) == [NAN] * 7
    assert clip(None, ONE) == [f(-2.0), MINUS_ZERO, ZERO, ONE, ONE, NEG | LARGEST, NAN]
    assert clip(MINUS_ONE, None) == [MINUS_ONE, MINUS_ZERO, ZERO, f(6.0), LARGEST, MINUS_ONE, NAN]
    assert clip(MINUS_INF, INF) == [*bits(x)[:6], NAN]
    # equal operands, also zeros of different sign: max(x, lo) keeps x, min(hi, t) keeps hi
    assert clip(ZERO, None)[1:3] == clip(MINUS_ZERO, None)[1:3] == [MINUS_ZERO, ZERO]
    assert clip(None, ZERO)[1:3] == [ZERO, ZERO]
    assert clip(None, MINUS_ZERO)[1:3] == [MINUS_ZERO, MINUS_ZERO]
    assert clip(LEAST, LARGEST_SUBNORMAL)[1:4] == [LEAST, LEAST, LARGEST_SUBNORMAL]


@pytest.mark.parametrize("version", [12, 13])
@pytest.mark.parametrize("dtype", INTEGERS, ids=lambda d: DTYPE_NAMES[d])
def test_integer_clip_against_python_integers(dtype: int, version: int) -> None:
    limits = np.iinfo(native(dtype))
    least, most = int(limits.min), int(limits.max)
    half = most // 2
    candidates = (least, least + 1, -1, 0, 1, 3, half - 1, half, half + 1, half + 2, most - 1, most)
    xs = [x for x in candidates if least <= x <= most]
    bounds = [None, least, max(least, -5), 0, 5, half, half + 1, most]
    for lo in bounds:
        for hi in bounds:
            arrays = [None if b is None else np.array(b, native(dtype)) for b in (lo, hi)]
            y = run(one_node("Clip", version, dtype=dtype, bounds=arrays), np.array(xs, native(dtype)))
            expected = [min(most if hi is None else hi, max(x, least if lo is None else lo)) for x in xs]
            assert y.dtype == native(dtype)
            assert y.tolist() == expected, (lo, hi)


def test_reported_clip_cases_b20_b21() -> None:
    """Bounds in the wrong order; a missing bound; integers that float32 and float64 can't hold."""

    def clip(dtype: type[Any], x: list[Any], lo: Any, hi: Any) -> list[Any]:
        number = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        bounds = [None if b is None else np.array(b, dtype) for b in (lo, hi)]
        answer: list[Any] = run(one_node("Clip", 13, dtype=number, bounds=bounds), np.array(x, dtype)).tolist()
        return answer

    assert clip(np.float32, [-2, 0, 6], 2, 1) == [1, 1, 1]
    assert clip(np.int8, [-128, 0, 127], 5, -5) == [-5, -5, -5]
    assert clip(np.int64, [2**53 + 1, -(2**53) - 1, 2**63 - 1], -100, None) == [2**53 + 1, -100, 2**63 - 1]
    assert clip(np.uint8, [0, 3, 255], 3, None) == [3, 3, 255]
    assert clip(np.uint64, [0, 2**63, 2**64 - 1], 2**63 - 1, 2**63 + 1) == [2**63 - 1, 2**63, 2**63 + 1]


def test_clip_bound_that_is_no_scalar_or_of_another_type() -> None:
    with pytest.raises(UnsupportedError, match=r"node 'Clip_0' \(Clip-13\): bound 'bound0' has rank 1, not 0"):
        Session(one_node("Clip", 13, bounds=[np.zeros(1, np.float32)]))
    with pytest.raises(UnsupportedError, match="bound 'bound1' is float64, the input float32"):
        Session(one_node("Clip", 13, bounds=[None, np.zeros((), np.float64)]))

    node = helper.make_node("Clip", ["x", "", "hi"], ["y"], name="late")
    inputs = [helper.make_tensor_value_info(name, FLOAT, None) for name in ("x", "hi")]
    graph = helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info("y", FLOAT, None)])
    session = Session(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=10))
    x = np.array([1.0, 5.0], np.float32)
    assert session.run(None, {"x": x, "hi": np.array(2.0, np.float32)})[0].tolist() == [1.0, 2.0]
    for shape in ((1,), (2,), (1, 1)):
        with pytest.raises(InputError, match=rf"node 'late' \(Clip-13\): bound 'hi' has rank {len(shape)}, not 0"):
            session.run(None, {"x": x, "hi": np.zeros(shape, np.float32)})


def test_an_input_needs_an_element_type() -> None:
    node = helper.make_node("Clip", ["x", "lo"], ["y"])
    inputs = [helper.make_tensor_value_info("x", FLOAT, None), helper.make_tensor_value_info("lo", 0, [])]
    graph = helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info("y", FLOAT, None)])
    with pytest.raises(ModelError, match="input 'lo' has no element type"):
        Session(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=10))


# Shapes and types


@pytest.mark.parametrize("op", list(ANSWERS))
def test_any_rank_and_no_elements(op: str) -> None:
    session = Session(one_node(op, newest(op)))
    values = floats((SPECIAL * 43)[: 2**9])
    flat = session.run(None, {"x": values})[0]
    for rank in range(10):
        shape = (2,) * rank
        size = 2**rank
        (y,) = session.run(None, {"x": values[:size].reshape(shape)})
        assert y.shape == shape
        assert bits(y) == bits(flat[:size])
    for empty in ((0,), (3, 0), (0, 5, 2), (1, 0, 0, 4)):
        (y,) = session.run(None, {"x": np.zeros(empty, np.float32)})
        assert y.shape == empty
        assert y.dtype == np.float32


@pytest.mark.parametrize("op", list(ANSWERS))
def test_result_does_not_depend_on_length_or_position_c1(op: str) -> None:
    session = Session(one_node(op, newest(op)))
    values = floats([*SPECIAL, *NANS, *np.random.default_rng(5).integers(0, 2**32, 49).tolist()])
    alone = [bits(session.run(None, {"x": values[i : i + 1]})[0])[0] for i in range(len(values))]
    for length in range(len(values) + 1):
        assert bits(session.run(None, {"x": values[:length]})[0]) == alone[:length]
        assert bits(session.run(None, {"x": values[length:]})[0]) == alone[length:]


def test_strided_and_big_endian_feeds() -> None:
    session = Session(one_node("Neg", 13))
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    for view in (x[:, ::2, ::-1], x.T, x.astype(">f4"), np.broadcast_to(x[0, 0], (5, 4)), np.asfortranarray(x)):
        (y,) = session.run(None, {"x": view})
        assert y.shape == view.shape
        assert y.tolist() == (-view).tolist()
        assert y.flags.writeable


@pytest.mark.parametrize("dtype", sorted(BYTE_SIZED), ids=lambda d: DTYPE_NAMES[d])
def test_identity_moves_bits_of_every_byte_sized_type_c3(dtype: int) -> None:
    element = helper.tensor_dtype_to_np_dtype(dtype)
    raw = bytes(range(256)) * 16 if dtype != TensorProto.BOOL else bytes([0, 1]) * 8
    x = np.frombuffer(raw, element)
    y = run(one_node("Identity", 25, dtype=dtype), x)
    assert (y.dtype, y.tobytes()) == (element, raw)


def test_identity_of_every_half_type_nan() -> None:
    for dtype in (np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)):
        x = np.arange(65536, dtype=np.uint16).view(dtype)
        number = helper.np_dtype_to_tensor_dtype(dtype)
        assert run(one_node("Identity", 13, dtype=number), x).tobytes() == x.tobytes()


# The executor


def chain() -> onnx.ModelProto:
    nodes = [
        helper.make_node("Neg", ["x"], ["a"]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Clip", ["b", "", "hi"], ["c"]),
    ]
    inputs = [helper.make_tensor_value_info("x", FLOAT, ["N"]), helper.make_tensor_value_info("hi", FLOAT, [])]
    outputs = [helper.make_tensor_value_info(name, FLOAT, ["N"]) for name in ("c", "a", "x")]
    graph = helper.make_graph(nodes, "g", inputs, outputs, [numpy_helper.from_array(np.array(2.0, np.float32), "hi")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=10)


def test_outputs_by_name_and_order_and_overridable_initializers() -> None:
    session = Session(chain())
    assert session.graph.required_inputs == ("x",)
    x = np.array([-5.0, -1.0, 3.0], np.float32)
    assert [y.tolist() for y in session.run(None, {"x": x})] == [[2.0, 1.0, 0.0], [5.0, 1.0, -3.0], [-5.0, -1.0, 3.0]]
    assert [y.tolist() for y in session.run(["a", "c"], {"x": x})] == [[5.0, 1.0, -3.0], [2.0, 1.0, 0.0]]
    assert session.run(["c"], {"x": x, "hi": np.array(4.0, np.float32)})[0].tolist() == [4.0, 1.0, 0.0]
    assert session.run(["c"], {"x": x})[0].tolist() == [2.0, 1.0, 0.0], "an override lasts one run"
    assert session.run([], {"x": x}) == []
    with pytest.raises(InputError, match="no output 'b'"):
        session.run(["b"], {"x": x})
    with pytest.raises(InputError, match="input 'x' is missing"):
        session.run(None, {})


def test_outputs_are_copies() -> None:
    session = Session(one_node("Identity", 13))
    x = np.ones(3, np.float32)
    (y,) = session.run(None, {"x": x})
    y[:] = 7
    assert x.tolist() == [1, 1, 1]


def test_model_without_inputs() -> None:
    node = helper.make_node("Neg", ["w"], ["y"])
    output = helper.make_tensor_value_info("y", FLOAT, [2])
    graph = helper.make_graph([node], "g", [], [output], [numpy_helper.from_array(np.array([1, -2], np.float32), "w")])
    session = Session(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=10))
    assert session.run(None, {})[0].tolist() == [-1, 2]


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (one_node("Cos", 13), "node 'Cos_0' (Cos-7): the op is not implemented"),
        (
            one_node("Gelu", 20, {"approximate": "None"}),
            "node 'Gelu_0' (Gelu-20): approximate=None is not implemented, only none and tanh",
        ),
        (one_node("com.microsoft.Gelu", 1, {"approximate": "tanh"}), "the op has no attribute approximate"),
        (one_node("Celu", 12, {"alpha": -1.0}), "node 'Celu_0' (Celu-12): alpha must be positive and finite"),
        (
            one_node("com.microsoft.QuickGelu", 1, {"beta": 1.0}),
            "(com.microsoft.QuickGelu-1): the op has no attribute beta",
        ),
        (
            one_node("com.microsoft.QuickGelu", 1, bounds=[np.array(1, np.float32)]),
            "the op takes 1 to 1 inputs and 1 output, not 2 and 1",
        ),
        (
            one_node("com.microsoft.FastGelu", 1, bounds=[np.array(1, np.float32)]),
            "(com.microsoft.FastGelu-1): the rank of the bias is not 1",
        ),
        (one_node("com.microsoft.FastGelu", 2), "(com.microsoft.FastGelu-2): version 2 is not implemented, only 1"),
        (one_node("Relu", 14, dtype=TensorProto.INT32), "node 'Relu_0' (Relu-14): input 'x' is int32, not float32"),
        (one_node("Abs", 13, dtype=TensorProto.DOUBLE), "input 'x' is float64, not float32"),
        (one_node("Clip", 11, dtype=TensorProto.INT64), "(Clip-11): input 'x' is int64, not float32"),
        (one_node("Clip", 12, dtype=TensorProto.BFLOAT16), "(Clip-12): input 'x' is bfloat16, not float32 or"),
        (one_node("Exp", 6, dtype=TensorProto.BFLOAT16), "input 'x' is bfloat16, not float32 or float16"),
        (one_node("Celu", 12, dtype=TensorProto.FLOAT16), "input 'x' is float16, not float32"),
    ],
)
def test_what_cannot_be_computed_is_refused_when_the_session_is_built_c9(model: onnx.ModelProto, message: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        Session(model)
    assert message in str(caught.value)


def test_types_follow_the_graph_and_contradictions_are_refused() -> None:
    nodes = [helper.make_node("Identity", ["x"], ["t"]), helper.make_node("Sqrt", ["t"], ["y"])]
    inputs = [helper.make_tensor_value_info("x", TensorProto.DOUBLE, [1])]
    graph = helper.make_graph(nodes, "g", inputs, [helper.make_tensor_value_info("y", TensorProto.DOUBLE, [1])])
    with pytest.raises(UnsupportedError, match=r"\(Sqrt-13\): input 't' is float64"):
        Session(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=10))

    model = one_node("Sqrt", 13)
    model.graph.output[0].type.tensor_type.elem_type = TensorProto.INT64
    with pytest.raises(UnsupportedError, match="output 'y' is float32, but the model declares int64"):
        Session(model)


def test_custom_domain_is_refused_by_name() -> None:
    model = one_node("Relu", 14)
    model.graph.node[0].domain = "com.example"
    model.opset_import.append(helper.make_opsetid("com.example", 3))
    with pytest.raises(UnsupportedError, match=r"node 'Relu_0' \(com\.example\.Relu-3\): the op is not implemented"):
        Session(model)


# The thread's floating-point state (C4)

FLUSH, DENORMALS_ARE_ZERO, ROUND_UP = 0x8000, 0x0040, 0x4000
_libm = ctypes.CDLL(ctypes.util.find_library("m") or "libm.so.6")


def read_mxcsr() -> int:
    state = ctypes.create_string_buffer(64)
    _libm.fegetenv(state)
    return int.from_bytes(state.raw[28:32], "little")  # the last field of x86-64's fenv_t


def write_mxcsr(value: int) -> None:
    state = ctypes.create_string_buffer(64)
    _libm.fegetenv(state)
    changed = state.raw[:28] + value.to_bytes(4, "little") + state.raw[32:]
    _libm.fesetenv(ctypes.create_string_buffer(changed, 64))


@pytest.mark.skipif(platform.machine() != "x86_64", reason="sets x86's MXCSR")
@pytest.mark.parametrize("op", ["Sqrt", "LeakyRelu", "HardSwish", "Softsign", "Clip"])
def test_state_of_the_calling_thread_changes_nothing_and_is_kept_c4(op: str) -> None:
    session = Session(one_node(op, newest(op)))
    x = floats([*SPECIAL, *np.random.default_rng(6).integers(0, 2**32, 500).tolist()])
    expected = session.run(None, {"x": x})[0].tobytes()
    clean = read_mxcsr()
    try:
        for dirt in (FLUSH, DENORMALS_ARE_ZERO, FLUSH | DENORMALS_ARE_ZERO, ROUND_UP):
            write_mxcsr(clean | dirt)
            got = session.run(None, {"x": x})[0].tobytes()
            kept = read_mxcsr() & (FLUSH | DENORMALS_ARE_ZERO | ROUND_UP)
            write_mxcsr(clean)
            assert got == expected
            assert kept == dirt
    finally:
        write_mxcsr(clean)
