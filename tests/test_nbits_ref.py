"""MatMulNBits of the reference against exact steps, its accuracy by level, and its rules."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import onnxruntime
import pytest

from nbits import BF16, F16, F32, Array, Problem, problem, wide
from ortwin.ref import InputError, Session, UnsupportedError
from quantised import model, run, typed

TYPES = [F32, F16, BF16]
LEVELS = [0, 4]
BITS = [2, 4, 8]
DOMAIN: dict[str, Any] = {"domain": "com.microsoft"}


def same(y: Array, expected: Array, what: object = None) -> None:
    assert (y.dtype, y.shape) == (expected.dtype, expected.shape), what
    assert y.tobytes() == expected.tobytes(), (what, y, expected)


# Bits


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("bits", BITS)
def test_every_combination_of_optional_inputs(bits: int, level: int) -> None:
    """With each type and flat or two-dimensional scales in turn, constant weights and others."""
    rng = np.random.default_rng(bits + level)
    types = itertools.cycle(TYPES)
    turns = itertools.product(("none", "packed", "float"), ("none", "short", "padded"), (False, True), (False, True))
    for turn, (zero_points, groups, bias, flat) in enumerate(turns):
        p = problem(
            rng, 2, 37, 3, zero_points=zero_points, groups=groups, bias=bias, flat=flat, dtype=next(types), bits=bits,
            level=level,
        )  # fmt: skip
        constants = [k for k in range(1, 6) if p.inputs[k] is not None] if turn % 5 < 2 else []
        unknown = turn % 5 == 4
        expected = p.expected()
        same(p.by_reference(constants=constants, unknown_shapes=unknown), expected, (zero_points, groups, bias, flat))


def test_levels_1_to_3_are_level_0() -> None:
    p = problem(np.random.default_rng(0), 3, 37, 3, zero_points="packed")
    for level in (1, 2, 3):
        same(replace(p, level=level).by_reference(), p.expected())


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("block_size", [16, 32, 64, 128, 256])
def test_sizes_on_both_sides_of_a_block(block_size: int, bits: int) -> None:
    rng = np.random.default_rng(block_size)
    for k, level in itertools.product((1, 2, block_size - 1, block_size, block_size + 1, 2 * block_size + 3), (0, 4)):
        p = problem(rng, 2, k, 2, zero_points="packed", bits=bits, block_size=block_size, level=level)
        same(p.by_reference(), p.expected(), (k, level))


SPECIAL = [
    0.0, -0.0, 2.0**-149, -(2.0**-149), 3 * 2.0**-149, 2.0**-126, -(2.0**-126), 2.0**-140, 1.0, -1.0, 1.0 + 2.0**-23,
    3.0, 2.0**24 + 2.0, 2.0**100, -(2.0**100), 2.0**127, 2.0**128 - 2.0**104, -(2.0**128 - 2.0**104),
]  # fmt: skip
NOT_FINITE = [math.inf, -math.inf, math.nan]


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("level", LEVELS)
def test_adversarial_numbers(level: int, dtype: Any) -> None:
    """Subnormals, overflow, cancellation, and numbers that are none, in each operand."""
    rng = np.random.default_rng(level)
    for turn in range(84):
        form = ("none", "packed", "float")[turn % 3]
        p = problem(rng, 2, 35, 3, zero_points=form, groups="short" if turn % 7 == 6 else "none", bias=turn % 2 == 0,
                    dtype=dtype, level=level)  # fmt: skip
        pool = np.array(SPECIAL + NOT_FINITE * (turn % 4 == 3))
        with np.errstate(over="ignore"):
            a = rng.choice(pool, p.a.shape).astype(dtype)
            scales = np.where(rng.random(p.scales.shape) < 0.3, rng.choice(pool, p.scales.shape), wide(p.scales))
            p = replace(p, a=a, scales=scales.astype(dtype))
            if p.bias is not None and turn % 4 < 2:
                p = replace(p, bias=rng.choice(pool, p.bias.shape).astype(dtype))
            if form == "float" and p.zero_points is not None and turn % 2:
                p = replace(p, zero_points=rng.choice(pool, p.zero_points.shape).astype(dtype))
            same(p.by_reference(), p.expected(), turn)


@pytest.mark.parametrize("dtype", [F32, BF16], ids=str)
def test_activations_of_a_few_subnormal_steps_at_level_4(dtype: Any) -> None:
    """Where max |a| / 127 is subnormal it has few bits, so that a / sa reaches 190 and is cut to 127, or it is 0."""
    p = problem(np.random.default_rng(8), 1, 16, 3, dtype=dtype, level=4)
    step = 2.0**-149 if dtype == F32 else 2.0**-133
    p = replace(p, scales=np.full(p.scales.shape, 2.0**120, dtype))
    for most in (1, 63, 64, 127, 128, 190, 191, 1000, 2**20):
        a = (np.array([[most, -most, 1, -1, 0, 40, -50, 60] * 2]) * step).astype(dtype)
        y = replace(p, a=a).by_reference()
        same(y, replace(p, a=a).expected(), most)
        assert np.any(wide(y) != 0.0) == (most * step / 2.0**-149 > 63), most


@pytest.mark.parametrize("zero_point", [None, 0, 15])
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("bits", BITS)
def test_every_byte_in_every_place_of_a_block(bits: int, level: int, zero_point: int | None) -> None:
    """Column 256 p + v has the byte v in place p and weights of 0 elsewhere; sums of such are exact integers."""
    width = 2 * bits
    neutral = 2 ** (bits - 1) if zero_point is None else min(zero_point, 2**bits - 1)
    filled = sum(neutral << bits * k for k in range(8 // bits))
    b = np.full((256 * width, 1, width), filled, np.uint8)
    for place, value in np.ndindex(width, 256):
        b[256 * place + value, 0, place] = value
    a = np.array([[1, 127, -3, 5, -7, 11, 13, -17, 19, 23, -29, 31, 37, -41, 43, 47]], np.float32)  # sa is 1
    scales = np.full((len(b), 1), 0.5, np.float32)
    zeros = None if zero_point is None else np.full((len(b), 1), neutral, np.uint8)
    y = Problem(a, b, scales, zeros, bits=bits, level=level).by_reference()
    per_byte = 8 // bits
    for place, value in np.ndindex(width, 256):
        q = [value >> bits * k & 2**bits - 1 for k in range(per_byte)]
        total = sum(int(a[0, place * per_byte + k]) * (q[k] - neutral) for k in range(per_byte))
        assert y[0, 256 * place + value] == 0.5 * total, (place, value)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("block_size", [16, 64])
def test_padding_never_matters(block_size: int, bits: int, level: int) -> None:
    """In the weights behind K, the zero points behind the last block, the group indices behind K."""
    rng = np.random.default_rng(bits)
    for k in (1, 5, block_size - 1, 2 * block_size + 7):
        for groups in ("none", "padded"):
            p = problem(
                rng, 2, k, 3, zero_points="packed", groups=groups, bits=bits, block_size=block_size, level=level
            )
            assert p.zero_points is not None
            results = []
            for poison in (0x00, 0xFF, 0x5A):
                b, zero_points = p.b.copy(), p.zero_points.copy()
                poisoned(b[:, -1], (k - 1) % block_size + 1, bits, poison)
                poisoned(zero_points, -(-k // block_size), bits, poison)
                other = replace(p, b=b, zero_points=zero_points)
                if p.groups is not None:
                    indices = p.groups.copy()
                    indices[k:] = {0x00: 0, 0xFF: -1, 0x5A: 2**31 - 1}[poison]
                    other = replace(other, groups=indices)
                results.append(other.by_reference())
            same(results[0], p.expected(), k)
            same(results[1], results[0], k)
            same(results[2], results[0], k)


def poisoned(lines: Array, used: int, bits: int, poison: int) -> None:
    """Whatever follows the first numbers of each line becomes the poison."""
    whole, rest = divmod(used * bits, 8)
    keep = (1 << rest) - 1
    if rest:
        lines[:, whole] = (lines[:, whole] & keep) | (poison & ~keep & 0xFF)
    lines[:, whole + (rest > 0) :] = poison


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("level", LEVELS)
def test_a_row_alone_gives_its_row(level: int, dtype: Any) -> None:
    p = problem(np.random.default_rng(5), 17, 45, 5, zero_points="packed", bias=True, dtype=dtype, level=level)
    whole = p.by_reference()
    for m in (1, 2, 3, 16):
        for row in range(0, 18 - m, m):
            same(replace(p, a=p.a[row : row + m]).by_reference(), whole[row : row + m])
    same(replace(p, a=p.a[3]).by_reference(), whole[3])
    same(replace(p, a=p.a.reshape(17, 1, 1, 45)).by_reference(), whole.reshape(17, 1, 1, 5))
    same(replace(p, a=p.a[:0]).by_reference(), whole[:0])


def test_sums_of_level_4_beyond_24_bits_are_rounded_to_even() -> None:
    """8 bits in a block of 1024: odd sums above 2^24, each midway between two binary32 numbers."""
    a = np.full((1, 1024), 127.0, np.float32)
    a[0, 0] = 1.0
    scales = np.random.default_rng(4).random((8, 1)).astype(np.float32)
    scales[0] = 1.0
    for first in (2, 4):
        b = np.full((8, 1, 1024), 255, np.uint8)
        b[:, 0, 0] = first
        d = 127 * 255 * 1023 + first
        p = Problem(a, b, scales, np.zeros((8, 1), np.uint8), bits=8, block_size=1024, level=4)
        y = p.by_reference()
        assert int(y[0, 0]) == d + {1: -1, 3: 1}[d % 4]
        same(y, p.expected())


def test_largest_sums_of_level_4() -> None:
    """The largest block that level 4 has, whole; beyond it, the bits of level 0."""
    rng = np.random.default_rng(6)
    full = np.full((1, 65536), -127.0, np.float32)
    p = Problem(full, np.full((1, 1, 65536), 255, np.uint8), np.ones((1, 1), np.float32), np.zeros((1, 1), np.uint8),
                bits=8, block_size=65536, level=4)  # fmt: skip
    assert p.by_reference().tolist() == [[-127.0 * 255 * 65536]]
    for block_size in (65536, 131072):
        p = problem(rng, 1, 21, 2, zero_points="packed", block_size=block_size, level=4)
        y = p.by_reference()
        same(y, p.expected())
        assert np.array_equal(y, replace(p, level=0).by_reference()) == (block_size > 65536)


@pytest.mark.parametrize("level", LEVELS)
def test_nothing_to_sum_is_plus_0(level: int) -> None:
    """K = 0, N = 0, and weights that are left out, whose scales, zero points and group indices then do not matter."""
    none = Problem(
        np.ones((2, 0), np.float32), np.zeros((3, 0, 8), np.uint8), np.zeros((3, 0), np.float32), level=level
    )
    same(none.by_reference(), np.zeros((2, 3), np.float32))
    minus = np.array([-0.0, 1.0, np.nan], np.float32)
    same(replace(none, bias=minus).by_reference(), np.array([[0.0, 1.0, np.nan]] * 2, np.float32))
    p = problem(np.random.default_rng(7), 2, 40, 3, zero_points="packed", bias=True, level=level)
    columns = replace(p, b=p.b[:0], scales=p.scales[:0], zero_points=None, bias=None)
    same(columns.by_reference(), np.zeros((2, 0), np.float32))
    own = np.stack([p.bias, p.bias]) if p.bias is not None else None
    assert own is not None
    for shape in [(0, 3, 8), (3, 0, 8), (3, 3, 0), (0, 0, 0)]:
        for scales in (p.scales, np.zeros((0, 3), np.float32), np.zeros(5, np.float32)):
            for unknown in (False, True):
                given = [np.full_like(p.a, np.nan), np.zeros(shape, np.uint8), scales, p.zero_points, None, p.bias]
                y = run("MatMulNBits", given, unknown_shapes=unknown, **DOMAIN, **p.attributes)[0]
                same(y, own, shape)


# Accuracy


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize(("k", "block_size"), [(32, 16), (257, 32), (512, 128)])
def test_the_error_of_each_level_has_a_bound_on_both_sides(k: int, block_size: int, bits: int) -> None:
    """Levels 0 to 3: at most one rounding per step. Level 4: activations are off by up to half their step, and by
    a twelfth of its square on average, so its error is neither larger nor smaller than that makes."""
    p = problem(np.random.default_rng(k), 8, k, 24, zero_points="packed", bits=bits, block_size=block_size)
    exact, absolute = p.exact()
    rounding = (block_size + k / block_size + 3) * 2.0**-24 * absolute
    for level in range(4):
        error = np.abs(replace(p, level=level).by_reference() - exact)
        assert np.all(error <= rounding), level
        assert np.any(error > 0), level
    error = np.abs(replace(p, level=4).by_reference() - exact)
    blocks = -(-k // block_size)
    padded = np.pad(np.abs(p.a), ((0, 0), (0, blocks * block_size - k))).reshape(8, blocks, block_size)
    step = np.repeat(padded.max(-1) / 127.0, block_size, axis=1)[:, :k]
    w = np.array([[float(q - (zero or 0)) * scale for q, zero, scale in column] for column in p.weights]).T
    assert np.all(error <= step / 2 @ np.abs(w) + rounding)
    variance = (step**2 / 12) @ w**2
    assert 0.8 < np.sqrt(np.mean(error**2 / variance)) < 1.2
    assert np.median(error / rounding) > 2.0, "level 4 is level 0"


def test_onnxruntime_agrees() -> None:
    """Where it computes what its schema says: of its 1.32, with g_idx only 4 bits without packed zero points."""
    rng = np.random.default_rng(9)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    forms = itertools.product(BITS, (16, 64), ("none", "packed", "float"), ("none", "short"), (False, True), LEVELS)
    compared = 0
    for bits, block_size, zero_points, groups, bias, level in forms:
        if (groups != "none" and (bits != 4 or zero_points == "packed")) or (zero_points == "float" and bits == 8):
            continue
        p = problem(rng, 2, 101, 4, zero_points=zero_points, groups=groups, bias=bias, bits=bits,
                    block_size=block_size, level=level)  # fmt: skip
        made = typed(model("MatMulNBits", p.inputs, **DOMAIN, **p.attributes), p.inputs, {})
        session = onnxruntime.InferenceSession(made.SerializeToString(), options, providers=["CPUExecutionProvider"])
        theirs = session.run(None, {f"i{k}": x for k, x in enumerate(p.inputs) if x is not None})[0]
        _, absolute = p.exact()
        bound = (2.0**-7 if p.integers else 2.0**-18) * absolute
        assert np.all(np.abs(p.by_reference() - theirs) <= bound), (bits, block_size, zero_points, groups, bias, level)
        compared += 1
    assert compared == 80


def test_the_case_list() -> None:
    """B45 to B47 and B56."""
    ones = np.ones((1, 2048), np.float32)
    for block_size, level in itertools.product((512, 1024), LEVELS):
        blocks = 2048 // block_size
        p = Problem(ones, np.full((4, blocks, block_size // 2), 0x22, np.uint8), np.full((4, blocks), 0.5, np.float32),
                    np.full((4, -(-blocks // 2)), 0x33, np.uint8), block_size=block_size, level=level)  # fmt: skip
        assert p.by_reference().tolist() == [[-1024.0] * 4]
    for m, block_size in ((1, 16), (1, 32), (4, 32), (1, 64), (1, 128)):
        rng = np.random.default_rng(block_size)
        p = problem(rng, m, 256, 96, zero_points="packed", block_size=block_size, level=4)
        exact, _ = p.exact()
        assert np.max(np.abs(p.by_reference() - exact)) < 2e-2 * np.max(np.abs(exact))
    zero_points = np.array([[0x21, 0x03], [0x54, 0x06]], np.uint8)
    for level in LEVELS:
        p = Problem(np.ones((1, 96), np.float32), np.full((2, 3, 16), 0x88, np.uint8), np.ones((2, 3), np.float32),
                    zero_points, block_size=32, level=level)  # fmt: skip
        assert p.by_reference().tolist() == [[576.0, 288.0]]
        p = problem(np.random.default_rng(0), 1, 512, 64, block_size=32, level=level)
        twice = replace(p, a=np.concatenate([p.a, p.a])).by_reference()
        assert twice[0].tobytes() == twice[1].tobytes() == p.by_reference().tobytes()


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_a_block_that_is_not_finite_makes_its_row_nan_at_level_4_c10g(dtype: Any) -> None:
    p = problem(np.random.default_rng(3), 4, 48, 3, bias=True, dtype=dtype, level=4)
    for value in NOT_FINITE:
        a = p.a.copy()
        a[1, 20], a[2, 47] = value, value
        y = replace(p, a=a).by_reference()
        assert np.isnan(wide(y[1:3])).all()
        same(y[::3], p.by_reference()[::3])
        same(y, replace(p, a=a).expected())
        a[:] = 0.0
        a[1:3, 16] = value
        y = replace(p, a=a).by_reference()
        assert np.isnan(wide(y[1:3])).all(), "among zeros only"
        same(y, replace(p, a=a).expected())


def test_no_zero_is_skipped_c10e() -> None:
    """0 times a zero point, a scale or a group's weight that is not finite."""
    p = problem(np.random.default_rng(2), 1, 20, 2, zero_points="float")
    nothing = replace(p, a=np.zeros((1, 20), np.float32))
    assert nothing.by_reference().tolist() == [[0.0, 0.0]]
    scales, far = p.scales.copy(), np.full((2, 2), 8.0, np.float32)
    scales[0, 1] = far[0, 1] = np.inf
    short = replace(nothing, scales=scales, zero_points=None, groups=np.ones(20, np.int32))
    others = [replace(nothing, scales=scales, zero_points=None, level=level) for level in LEVELS]
    for q in [replace(nothing, zero_points=far), short, *others]:
        y = q.by_reference()
        assert np.isnan(y[0, 0])
        assert y[0, 1] == 0.0
        same(y, q.expected())


# Rules


BASE = problem(np.random.default_rng(1), 2, 40, 3, zero_points="packed", bias=True)
ATTRIBUTES: list[tuple[dict[str, Any], str]] = [
    ({"bits": 3}, "bits is 3, not 2, 4 or 8"),
    ({"bits": 0}, "bits is 0"),
    ({"bits": 16}, "bits is 16"),
    ({"block_size": 8}, "block_size is 8, not a power of 2 from 16 on"),
    ({"block_size": 24}, "block_size is 24"),
    ({"block_size": 0}, "block_size is 0"),
    ({"block_size": -16}, "block_size is -16"),
    ({"block_size": -(2**63)}, "block_size is -9223372036854775808"),
    ({"K": -1}, "K is -1 and N 3"),
    ({"N": -(2**63)}, "N -9223372036854775808"),
    ({"accuracy_level": 5}, "accuracy_level is 5, not 0 to 4"),
    ({"accuracy_level": -1}, "accuracy_level is -1"),
    ({"weight_prepacked": 1}, "weight_prepacked is not 0"),
    ({"K": 40.0}, "attribute K is no integer"),
    ({"accuracy_level": 4.0}, "attribute accuracy_level is no integer"),
    ({"transB": 1}, "the op has no attribute transB"),
    ({"K": 41}, "whose last dimension is not K = 41"),
    ({"K": 2**63 - 1}, "whose last dimension is not K = 9223372036854775807"),
    ({"N": 4}, r"input B 'i1' has shape \[3, 3, 8\], not \[4, 3, 8\]"),
    ({"N": 2**63 - 1}, r"input B 'i1' has shape \[3, 3, 8\], not \[9223372036854775807, 3, 8\]"),
    ({"block_size": 2**62}, r"input B 'i1' has shape \[3, 3, 8\], not \[3, 1, 2305843009213693952\]"),
    ({"bits": 8}, r"input B 'i1' has shape \[3, 3, 8\], not \[3, 3, 16\]"),
]


@pytest.mark.parametrize("case", ATTRIBUTES, ids=str)
def test_attributes_are_checked_when_the_session_is_built(case: tuple[dict[str, Any], str]) -> None:
    changed, reason = case
    with pytest.raises(UnsupportedError, match=reason) as caught:
        run("MatMulNBits", BASE.inputs, **DOMAIN, **{**BASE.attributes, **changed})
    assert "com.microsoft.MatMulNBits-1" in str(caught.value)


@pytest.mark.parametrize("name", ["K", "N", "block_size"])
def test_attributes_without_a_default_must_be_there(name: str) -> None:
    attributes = {key: value for key, value in BASE.attributes.items() if key != name}
    with pytest.raises(UnsupportedError, match=f"attribute {name} is missing"):
        run("MatMulNBits", BASE.inputs, **DOMAIN, **attributes)


def with_input(position: int, value: Array | None) -> list[Array | None]:
    inputs = BASE.inputs
    inputs[position] = value
    return inputs


def zeros(dtype: Any, *shape: int) -> Array:
    return np.zeros(shape, dtype)


OPERANDS: list[tuple[list[Array | None], str]] = [
    (with_input(0, zeros(F32, 2, 39)), r"A has shape \[2, 39\], whose last dimension is not K = 40"),
    (with_input(0, zeros(F32)), r"A has shape \[\]"),
    (with_input(0, zeros(np.float64, 2, 40)), "is float64, not float32 or float16 or bfloat16"),
    (with_input(1, None), "its input B is missing"),
    (with_input(1, zeros(np.int8, 3, 3, 8)), "input B 'i1' is int8, not uint8"),
    (with_input(1, zeros(np.uint8, 3, 24)), r"input B 'i1' has shape \[3, 24\], not \[3, 3, 8\]"),
    (with_input(1, zeros(np.uint8, 3, 3, 7)), "input B 'i1' has shape"),
    (with_input(1, zeros(np.uint8, 3, 2, 8)), "input B 'i1' has shape"),
    (with_input(1, zeros(np.uint8, 72)), "input B 'i1' has shape"),
    (with_input(1, zeros(np.uint8, 0, 3, 7)), "input B 'i1' has shape"),
    (with_input(1, zeros(np.uint8, 0)), "input B 'i1' has shape"),
    (with_input(2, None), "its input scales is missing"),
    (with_input(2, zeros(F16, 3, 3)), "input scales 'i2' is float16, not float32"),
    (with_input(2, zeros(F32, 3, 2)), r"input scales 'i2' has shape \[3, 2\], not \[3, 3\] or \[9\]"),
    (with_input(2, zeros(F32, 8)), "input scales 'i2' has shape"),
    (with_input(2, zeros(F32, 3, 3, 1)), "input scales 'i2' has shape"),
    (with_input(2, zeros(F32, 0, 3)), "input scales 'i2' has shape"),
    (with_input(3, zeros(np.int8, 3, 2)), "input zero_points 'i3' is int8, not float32 or uint8"),
    (with_input(3, zeros(F16, 3, 3)), "input zero_points 'i3' is float16, not float32 or uint8"),
    (with_input(3, zeros(np.uint8, 3, 3)), r"input zero_points 'i3' has shape \[3, 3\], not \[3, 2\] or \[6\]"),
    (with_input(3, zeros(np.uint8, 5)), r"input zero_points 'i3' has shape \[5\], not"),
    (with_input(3, zeros(F32, 3, 2)), r"input zero_points 'i3' has shape \[3, 2\], not \[3, 3\] or \[9\]"),
    (with_input(4, zeros(np.int64, 40)), "input g_idx 'i4' is int64, not int32"),
    (with_input(4, zeros(np.int32, 41)), r"input g_idx 'i4' has shape \[41\], not \[40\] or \[48\]"),
    (with_input(4, zeros(np.int32, 1, 40)), "input g_idx 'i4' has shape"),
    (with_input(4, zeros(np.int32, 0)), "input g_idx 'i4' has shape"),
    (with_input(5, zeros(F16, 3)), "input bias 'i5' is float16, not float32"),
    (with_input(5, zeros(F32, 1, 3)), r"input bias 'i5' has shape \[1, 3\], not \[3\]"),
    (with_input(5, zeros(F32, 4)), "input bias 'i5' has shape"),
    (with_input(5, zeros(F32)), "input bias 'i5' has shape"),
]


@pytest.mark.parametrize("case", OPERANDS, ids=lambda case: case[1])
def test_operands_are_checked_before_data_is_seen_and_at_run(case: tuple[list[Array | None], str]) -> None:
    inputs, reason = case
    with pytest.raises(UnsupportedError, match=reason):
        run("MatMulNBits", inputs, **DOMAIN, **BASE.attributes)
    if "has shape" in reason:
        with pytest.raises(InputError, match=reason):
            run("MatMulNBits", inputs, unknown_shapes=True, **DOMAIN, **BASE.attributes)


@pytest.mark.parametrize(("at", "group"), [(0, -1), (39, 3), (20, 2**31 - 1), (20, -(2**31))])
def test_group_indices_out_of_range(at: int, group: int) -> None:
    """Told when the session is built if they are constant, even with weights still unknown; else when it runs."""
    groups = np.zeros(48, np.int32)
    groups[at] = group
    p = replace(BASE, groups=groups)
    reason = f"g_idx is {group} at {at}, not 0 to 2"
    for unknown in (False, True):
        with pytest.raises(UnsupportedError, match=reason):
            Session(typed(model("MatMulNBits", p.inputs, constants=(4,), unknown_shapes=unknown, **DOMAIN,
                                **p.attributes), p.inputs, {}))  # fmt: skip
    proto = typed(model("MatMulNBits", p.inputs, **DOMAIN, **p.attributes), p.inputs, {})
    feeds = {f"i{k}": x for k, x in enumerate(p.inputs) if x is not None}
    with pytest.raises(InputError, match=reason):
        Session(proto).run(None, feeds)
    made = model("MatMulNBits", p.inputs, constants=(4,), **DOMAIN, **p.attributes)
    proto.graph.initializer.append(made.graph.initializer[0])  # a preset, which a feed replaces
    session = Session(proto)
    with pytest.raises(InputError, match=reason):
        session.run(None, {name: x for name, x in feeds.items() if name != "i4"})
    good = replace(p, groups=np.zeros(48, np.int32))
    same(session.run(None, {**feeds, "i4": np.zeros(48, np.int32)})[0], good.expected())


def test_the_number_of_inputs() -> None:
    for inputs in (BASE.inputs[:2], [*BASE.inputs, BASE.bias]):
        with pytest.raises(UnsupportedError, match="takes 3 to 6 inputs and 1 output"):
            run("MatMulNBits", inputs, **DOMAIN, **BASE.attributes)
    same(run("MatMulNBits", BASE.inputs[:3], **DOMAIN, **BASE.attributes)[0],
         replace(BASE, zero_points=None, bias=None).expected())  # fmt: skip
    for keep in (3, 4, 5):
        inputs = [*BASE.inputs[:keep], None][:6]
        p = replace(BASE, zero_points=BASE.zero_points if keep > 3 else None, bias=None)
        same(run("MatMulNBits", inputs, **DOMAIN, **BASE.attributes)[0], p.expected())


@pytest.mark.parametrize("op", ["GatherBlockQuantized", "QMoE", "MatMulBnb4"])
def test_other_ops_on_such_weights_are_declined(op: str) -> None:
    with pytest.raises(UnsupportedError, match=rf"com.microsoft.{op}-1\): the op is not implemented"):
        run(op, [BASE.b, zeros(np.int32, 2), BASE.scales], **DOMAIN, block_size=16)
