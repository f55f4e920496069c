"""The C products of 8-bit matrices: exact on every instruction set, packed ahead or not, to the last column."""

from __future__ import annotations

import ctypes
import itertools
import mmap
from typing import Any

import numpy as np
import pytest

from models import AVAILABLE, ISAS
from products import FLOATS, QUANTISED, SUMS, Array, c_tensor, driver, product
from quantised import SIGNS, run, sums

F32 = np.float32
INNER = (1, 15, 16, 17, 31, 255, 256, 257, 1029, 1031)
COLUMNS = (1, 15, 16, 17, 31, 63, 64, 65, 255, 257, 1029)
FORMS = ("none", "scalar", "one", "lines", "matrix")


def extremes(rng: np.random.Generator, dtype: Any, *shape: int) -> Array:
    """Half of the elements are ends of the range or next to them."""
    info = np.iinfo(dtype)
    ends = rng.choice([info.min, info.min + 1, info.max - 1, info.max], shape)
    return np.where(rng.random(shape) < 0.5, ends, rng.integers(info.min, info.max + 1, shape)).astype(dtype)


def zero(rng: np.random.Generator, form: str, dtype: Any, lines: int, rows: bool) -> tuple[Array | None, Array]:
    """A zero point of a form, and the same as numpy broadcasts it."""
    if form == "none":
        return None, np.zeros((), dtype)
    if form in ("scalar", "one"):
        z = extremes(rng, dtype)
        return (z if form == "scalar" else z.reshape(1)), z
    z = extremes(rng, dtype, lines)
    wide = z.reshape((lines, 1) if rows else (1, lines))
    return (z if form == "lines" else wide), wide


def check(isa: str, a: Array, b: Array, za: Array | None, zb: Array | None, expected: Array, what: Any = None) -> None:
    operands = {"a": a, "b": b} | ({} if za is None else {"a_zero": za}) | ({} if zb is None else {"b_zero": zb})
    for packed in (False, True):
        y = product(isa, SUMS, operands, expected.shape, packed)
        assert np.array_equal(y, expected), (isa, packed, what)


@pytest.mark.parametrize(("ta", "tb"), SIGNS)
@pytest.mark.parametrize("isa", ISAS)
def test_every_shape_and_zero_point(isa: str, ta: Any, tb: Any) -> None:
    """Each number of rows with each K and each N, and forms of zero points in turn, so that all pairs occur."""
    rng = np.random.default_rng(1)
    forms = itertools.cycle(itertools.product(FORMS, FORMS))
    for m, k in itertools.product(range(1, 18), INNER):
        for n in COLUMNS[(m + k) % 6 :: 6] if isa != "portable" else (COLUMNS[(m + k) % len(COLUMNS)],):
            fa, fb = next(forms)
            a, b = extremes(rng, ta, m, k), extremes(rng, tb, k, n)
            (za, za_wide), (zb, zb_wide) = zero(rng, fa, ta, m, True), zero(rng, fb, tb, n, False)
            check(isa, a, b, za, zb, exact(a, b, za_wide, zb_wide), (m, k, n, fa, fb))


def exact(a: Array, b: Array, za: Array, zb: Array) -> Array:
    """As `sums`, by binary64, which BLAS is fast at and which holds every sum here exactly."""
    total = (a.astype(float) - za.astype(float)) @ (b.astype(float) - zb.astype(float))
    return np.asarray(total.astype(np.int64).astype(np.int32))


@pytest.mark.parametrize(("ta", "tb"), SIGNS)
def test_ref_and_all_instruction_sets_agree(ta: Any, tb: Any) -> None:
    rng = np.random.default_rng(2)
    for (m, k, n), fa, fb in zip([(1, 31, 65), (5, 17, 130), (17, 257, 33)], FORMS[1:], reversed(FORMS), strict=False):
        a, b = extremes(rng, ta, m, k), extremes(rng, tb, k, n)
        (za, _), (zb, _) = zero(rng, fa, ta, m, True), zero(rng, fb, tb, n, False)
        expected = run("MatMulInteger", [a, b, za, zb], opset=10)[0]
        for isa in AVAILABLE:
            check(isa, a, b, za, zb, expected)


@pytest.mark.parametrize("isa", ISAS)
def test_sums_wrap(isa: str) -> None:
    """70,000 products of 255 and 255, or -255: beyond 2^32 and below -2^31."""
    for m, low, high in ((1, 0, 0), (9, 0, 255)):
        a, b = np.full((m, 70_000), low, np.uint8), np.full((70_000, 3), 255, np.uint8)
        za, zb = np.array(255 - high, np.uint8), np.array(0, np.uint8)
        if not low and not high:
            a[:] = 255
            za = np.array(0, np.uint8)
        check(isa, a, b, za, zb, sums(a, b, za, zb))
    a, b = np.full((2, 70_000), -128, np.int8), np.full((70_000, 17), -128, np.int8)
    check(isa, a, b, np.array(127, np.int8), np.array(127, np.int8), sums(a, b, np.array(127), np.array(127)))


@pytest.mark.parametrize("isa", ISAS)
def test_the_largest_products_side_by_side(isa: str) -> None:
    """Every choice of extremes for two neighbours in k, in every place of a group: no pair saturates."""
    for ta, tb in SIGNS:
        for za, zb in itertools.product((np.iinfo(ta).min, np.iinfo(ta).max), (np.iinfo(tb).min, np.iinfo(tb).max)):
            left = [v for v in (-128, -127, 127, 255) if np.iinfo(ta).min <= v <= np.iinfo(ta).max] + [0]
            right = [v for v in (-128, -127, 127, 255) if np.iinfo(tb).min <= v <= np.iinfo(tb).max] + [0]
            for at in range(5):
                a, b = np.zeros((len(left) ** 2, 8), ta), np.zeros((8, len(right) ** 2), tb)
                a[:, at : at + 2] = list(itertools.product(left, left))
                b[at : at + 2, :] = np.array(list(itertools.product(right, right))).T
                z, w = np.array(za, ta), np.array(zb, tb)
                check(isa, a, b, z, w, sums(a, b, z, w))


@pytest.mark.parametrize("isa", ISAS)
def test_a_row_alone_gives_its_row(isa: str) -> None:
    rng = np.random.default_rng(3)
    a, b, za = extremes(rng, np.uint8, 140, 300), extremes(rng, np.int8, 300, 70), extremes(rng, np.uint8, 140)
    for packed in (False, True):
        whole = product(isa, SUMS, {"a": a, "b": b, "a_zero": za}, (140, 70), packed)
        assert np.array_equal(whole, exact(a, b, za.reshape(-1, 1), np.array(0)))
        for row in (0, 1, 63, 127, 128, 139):
            operands = {"a": a[row : row + 1], "b": b, "a_zero": za[row : row + 1]}
            assert np.array_equal(product(isa, SUMS, operands, (1, 70), packed)[0], whole[row])


@pytest.mark.parametrize("isa", ISAS)
def test_threads_change_nothing(isa: str) -> None:
    """Pieces by 2, 3 and 8 threads and out of order; row counts on both sides of the kernels' and pieces' bounds."""
    rng = np.random.default_rng(11)
    for m, k, n in [(1, 1030, 2100), (4, 517, 1100), (5, 430, 1100), (129, 100, 331)]:
        a, b = extremes(rng, np.int8, m, k), extremes(rng, np.uint8, k, n)
        operands = {"a": a, "b": b, "a_zero": extremes(rng, np.int8, m), "b_zero": extremes(rng, np.uint8, n)}
        expected = exact(a, b, operands["a_zero"].reshape(-1, 1), operands["b_zero"])
        for packed, threads in itertools.product((False, True), (1, 2, 3, 8)):
            before = driver().driver_pieces()
            assert np.array_equal(product(isa, SUMS, operands, (m, n), packed, threads), expected), (m, packed, threads)
            fanned = driver().driver_pieces() - before
            assert fanned == 0 if threads == 1 else 1 < fanned <= 64, (m, packed)


BATCHES: list[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]] = [
    ((3,), (3,), (), ()),
    ((3,), (3, 4), (1,), (4,)),
    ((2, 3), (3,), (2,), (1,)),
    ((4, 1, 2, 3), (5, 3, 2), (4, 1, 2, 1), (5, 1, 2)),
    ((4, 1, 2, 3), (5, 3, 2), (4, 1, 1, 1), (1, 1, 2)),
    ((4, 1, 2, 3), (5, 3, 2), (2, 1), (5, 1, 1)),
    ((1, 2, 3), (3, 2), (1, 2, 1), (1, 2)),
    ((2, 1, 2, 3), (1, 3, 3, 1), (2, 1, 2, 1), (1, 3, 1, 1)),
    ((0, 2, 3), (3, 2), (2,), (2,)),
    ((0, 3), (3, 2), (0,), (2,)),
    ((2, 3), (3, 0), (2,), (0,)),
    ((2, 0), (0, 3), (2,), (3,)),
]


@pytest.mark.parametrize("case", BATCHES, ids=str)
@pytest.mark.parametrize("isa", ISAS)
def test_batches_vectors_and_empty_matrices(isa: str, case: Any) -> None:
    rng = np.random.default_rng(4)
    a, b = extremes(rng, np.int8, *case[0]), extremes(rng, np.uint8, *case[1])
    za, zb = extremes(rng, np.int8, *case[2]), extremes(rng, np.uint8, *case[3])
    check(isa, a, b, za, zb, run("MatMulInteger", [a, b, za, zb], opset=10)[0])


def quantised_operands(rng: np.random.Generator, ta: Any, tb: Any, ty: Any, m: int, k: int, n: int) -> dict[str, Array]:
    return {
        "a": extremes(rng, ta, m, k),
        "a_scale": np.array(0.02, F32),
        "a_zero": extremes(rng, ta),
        "b": extremes(rng, tb, k, n),
        "b_scale": (rng.random(n) * 0.01).astype(F32),
        "b_zero": extremes(rng, tb, n),
        "y_scale": np.array(0.3 * k**0.5, F32),
        "y_zero": extremes(rng, ty),
    }


def qlinear(operands: dict[str, Array]) -> Array:
    order = ("a", "a_scale", "a_zero", "b", "b_scale", "b_zero", "y_scale", "y_zero")
    return run("QLinearMatMul", [operands[name] for name in order], opset=10)[0]


@pytest.mark.parametrize(("ta", "tb"), SIGNS)
def test_requantisation_has_the_bits_of_the_reference(ta: Any, tb: Any) -> None:
    rng = np.random.default_rng(5)
    for ty, (m, k, n) in itertools.product((np.uint8, np.int8), [(1, 40, 130), (6, 33, 65), (3, 1, 17)]):
        for rows in (False, True):
            operands = quantised_operands(rng, ta, tb, ty, m, k, n)
            if rows:
                operands["a_scale"] = (rng.random((m, 1)) * 0.05).astype(F32)
                operands["a_zero"] = extremes(rng, ta, m)
                operands["b_scale"] = np.array([0.003], F32)
            expected = qlinear(operands)
            for isa, packed in itertools.product(AVAILABLE, (False, True)):
                assert np.array_equal(product(isa, QUANTISED, operands, (m, n), packed), expected), (isa, ty, m)


@pytest.mark.parametrize("zero_point", [-128, -3, 0, 4, 5, 127])
def test_ties_and_scales_without_an_answer(zero_point: int) -> None:
    a = np.arange(-64, 64, dtype=np.int8).reshape(1, -1)
    b = np.zeros((128, 128), np.int8)
    np.fill_diagonal(b, 1)
    operands: dict[str, Array] = {
        "a": a, "a_scale": np.array(1, F32), "a_zero": np.array(0, np.int8),
        "b": b, "b_zero": np.array(0, np.int8), "y_zero": np.array(zero_point, np.int8),
    }  # fmt: skip
    for b_scale, y_scale in [
        (1, 2),
        (1, -2),
        (1, 0),
        (0, 0),
        (np.nan, 1),
        (np.inf, 1),
        (-np.inf, 1),
        (3e38, 1e-38),
        (1e-45, 1),
    ]:
        operands |= {"b_scale": np.array(b_scale, F32), "y_scale": np.array(y_scale, F32)}
        expected = qlinear(operands)
        if (b_scale, y_scale) == (1, 2):
            exactly = [max(-128, min(127, round(v / 2) + zero_point)) for v in range(-64, 64)]
            assert expected[0].tolist() == exactly
        for isa in AVAILABLE:
            assert np.array_equal(product(isa, QUANTISED, operands, (1, 128), True), expected), (isa, b_scale, y_scale)


def test_large_sums_are_rounded_to_binary32_first() -> None:
    """Sums about 2^24 and 2^31 with scales that bring them near ties."""
    rng = np.random.default_rng(6)
    a, b = np.full((2, 40_000), 255, np.uint8), rng.integers(250, 256, (40_000, 70)).astype(np.uint8)
    for k, power in ((300, -17), (40_000, -24)):
        operands: dict[str, Array] = {
            "a": a[:, :k].copy(), "a_scale": np.array(1, F32), "a_zero": np.array(0, np.uint8),
            "b": b[:k].copy(), "b_scale": np.array(2.0**power, F32), "b_zero": np.array(0, np.uint8),
            "y_scale": np.array(1, F32), "y_zero": np.array(3, np.uint8),
        }  # fmt: skip
        expected = qlinear(operands)
        for isa in AVAILABLE:
            assert np.array_equal(product(isa, QUANTISED, operands, (2, 70), True), expected)


def test_results_as_floats() -> None:
    rng = np.random.default_rng(7)
    a, b = extremes(rng, np.uint8, 3, 90), extremes(rng, np.int8, 90, 70)
    base = {"a": a, "b": b, "a_zero": extremes(rng, np.uint8), "b_zero": extremes(rng, np.int8, 70)}
    scales = (rng.random(70) * 0.01).astype(F32)
    scales[:3] = [np.nan, np.inf, 0.0]
    bias = rng.normal(size=70).astype(F32)
    bias[3:6] = [np.nan, np.inf, -0.0]
    halves = (scales.astype(np.float16), bias.astype(np.float16))
    cases: list[tuple[Array, Array | None]] = [(scales, bias), (scales, None), (np.array(0.5, F32), bias), halves]
    for b_scale, given in cases:
        operands = base | {"a_scale": np.array(0.3, b_scale.dtype), "b_scale": b_scale}
        inputs = [a, b, operands["a_scale"], b_scale, base["a_zero"], base["b_zero"], given]
        expected = run("MatMulIntegerToFloat", inputs, domain="com.microsoft")[0]
        if given is not None:
            operands["bias"] = given
        for isa, packed in itertools.product(AVAILABLE, (False, True)):
            y = product(isa, FLOATS, operands, (3, 70), packed)
            assert y.tobytes() == expected.tobytes()


def before_a_wall(array: Array) -> Array:
    """A copy whose last byte lies before a page that cannot be read."""
    pages = -(-array.nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
    room = mmap.mmap(-1, pages + mmap.PAGESIZE)
    bytes_ = np.frombuffer(room, np.uint8)
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.mprotect(ctypes.c_void_p(bytes_.ctypes.data + pages), ctypes.c_size_t(mmap.PAGESIZE), 0) == 0
    copy = bytes_[pages - array.nbytes : pages].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


@pytest.mark.parametrize("isa", ISAS)
def test_nothing_is_read_behind_an_operand(isa: str) -> None:
    rng = np.random.default_rng(8)
    for m, k, n in [(1, 1, 1), (1, 3, 5), (2, 5, 17), (7, 3, 66), (9, 18, 15)]:
        a, b = before_a_wall(extremes(rng, np.uint8, m, k)), before_a_wall(extremes(rng, np.int8, k, n))
        za, zb = before_a_wall(extremes(rng, np.uint8, m)), before_a_wall(extremes(rng, np.int8, n))
        check(isa, a, b, za, zb, sums(a, b, za.reshape(-1, 1), zb.reshape(1, -1)))


def totals() -> dict[str, int]:
    found = (ctypes.c_uint64 * 5)()
    driver().driver_totals(found)
    return dict(zip(("live_bytes", "live", "built", "shared", "declined"), found, strict=True))


def take(b: Array, isa: str = "portable") -> Any:
    return driver().driver_take({"portable": 0, "avx2": 1, "avx512": 2}[isa], ctypes.byref(c_tensor(b)))


def test_packs_are_shared_by_content_and_freed_with_their_last_user() -> None:
    rng = np.random.default_rng(9)
    b = extremes(rng, np.int8, 100, 70)
    before = totals()
    first, second = take(b), take(b.copy())
    assert first == second
    other = take(np.where(b == b[3, 4], 0, b).astype(np.int8))
    assert other != first
    unsigned = take(b.view(np.uint8))
    assert unsigned not in (first, other)
    during = totals()
    assert during["live"] - before["live"] == 3
    assert during["built"] - before["built"] == 3
    assert during["shared"] - before["shared"] == 1
    assert during["live_bytes"] - before["live_bytes"] == 3 * (100 * 72 + 4 * 72)
    for pack in (first, other, unsigned):
        driver().driver_give(pack)
    assert totals()["live"] == before["live"] + 1, "its second user is still there"
    driver().driver_give(second)
    driver().driver_give(None)
    after = totals()
    assert (after["live"], after["live_bytes"]) == (before["live"], before["live_bytes"])


def test_a_pack_beyond_the_budget_is_declined_and_the_bits_stay() -> None:
    rng = np.random.default_rng(10)
    b, before = extremes(rng, np.int8, 64, 64), totals()
    driver().driver_budget(before["live_bytes"] + 64 * 64 + 4 * 64)
    try:
        held = take(b)
        assert held is not None
        assert take(np.zeros((1, 1), np.int8)) is None
        assert take(b) == held, "what is there already costs nothing"
        driver().driver_give(held)
        driver().driver_give(held)
    finally:
        driver().driver_budget(1 << 30)
    assert totals()["declined"] == before["declined"] + 1
    assert totals()["live"] == before["live"]
