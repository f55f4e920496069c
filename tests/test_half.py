"""binary16 and bfloat16 conversions: every pattern widened, every boundary between patterns narrowed (C3, C4, C5)."""

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from ortwin.ref.half import BFLOAT16, BINARY16, Half

FORMATS = [
    pytest.param(BINARY16, np.dtype(np.float16), id="f16"),
    pytest.param(BFLOAT16, np.dtype(ml_dtypes.bfloat16), id="bf16"),
]

Bits = npt.NDArray[Any]


def canonical32(bits: Bits) -> Bits:
    return np.where((bits & 0x7FFFFFFF) > 0x7F800000, np.uint32(0x7FC00000), bits).astype(np.uint32)


def all_patterns() -> Bits:
    return np.arange(65536, dtype=np.uint16)


@pytest.mark.parametrize(("half", "dtype"), FORMATS)
def test_widening_every_pattern(half: Half, dtype: np.dtype[Any]) -> None:
    patterns = all_patterns()
    got = np.frombuffer(half.widen_buffer(patterns.tobytes()), np.uint32)
    with np.errstate(all="ignore"):
        expected = canonical32(patterns.view(dtype).astype(np.float32).view(np.uint32))
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize(("half", "dtype"), FORMATS)
def test_narrowing_undoes_widening(half: Half, dtype: np.dtype[Any]) -> None:
    patterns = all_patterns()
    back = np.frombuffer(half.narrow_buffer(half.widen_buffer(patterns.tobytes())), np.uint16)
    is_nan = np.isnan(patterns.view(dtype).astype(np.float32))
    np.testing.assert_array_equal(back, np.where(is_nan, np.uint16(half.nan), patterns))


def boundaries(half: Half) -> Bits:
    """Per finite pattern: its value, the midpoint to the next magnitude, and both with their binary32 neighbours."""
    magnitudes = np.arange(int(half.inf) + 1).astype(np.uint16)
    at = np.frombuffer(half.widen_buffer(magnitudes.tobytes()), np.uint32)
    largest = np.uint32(at[-2] + (at[-2] - at[-3]))  # where the next number would be, had the format one
    values = np.concatenate([at[:-1], [largest]]).view(np.float32).astype(np.float64)
    middle = ((values[1:] + values[:-1]) / 2).astype(np.float32).view(np.uint32)
    centres = np.concatenate([at, middle]).astype(np.int64)
    near = np.unique((centres[:, None] + np.arange(-2, 3)[None, :]).ravel())
    near = near[(near >= 0) & (near < 2**31)].astype(np.uint32)
    return np.concatenate([near, near | np.uint32(0x80000000)])


@pytest.mark.parametrize(("half", "dtype"), FORMATS)
def test_narrowing_at_every_boundary(half: Half, dtype: np.dtype[Any]) -> None:
    bits = boundaries(half)
    got = np.frombuffer(half.narrow_buffer(bits.tobytes()), np.uint16)
    with np.errstate(all="ignore"):
        expected = bits.view(np.float32).astype(dtype).view(np.uint16)
    expected = np.where((bits & 0x7FFFFFFF) > 0x7F800000, np.uint16(half.nan), expected)
    wrong = np.flatnonzero(got != expected)
    assert wrong.size == 0, f"{bits[wrong[0]]:#010x} => {got[wrong[0]]:#06x} expected {expected[wrong[0]]:#06x}"


@pytest.mark.parametrize(("half", "dtype"), FORMATS)
def test_narrowing_random_patterns(half: Half, dtype: np.dtype[Any]) -> None:
    bits = np.random.default_rng(7).integers(0, 2**32, 20000, dtype=np.uint64).astype(np.uint32)
    got = np.frombuffer(half.narrow_buffer(bits.tobytes()), np.uint16)
    with np.errstate(all="ignore"):
        expected = bits.view(np.float32).astype(dtype).view(np.uint16)
    np.testing.assert_array_equal(got, np.where(np.isnan(bits.view(np.float32)), np.uint16(half.nan), expected))


def test_bfloat16_ties_and_nan_payloads() -> None:
    """Case B28: truncating loses ties, and dropping payload bits turns a NaN into an infinity."""
    bits = [0x3F808000, 0x3F818000, 0x7F800001, 0xFF800001, 0x7F7FFFFF]
    assert [BFLOAT16.narrow(b) for b in bits] == [0x3F80, 0x3F82, 0x7FC0, 0x7FC0, 0x7F80]


def test_binary16_by_hand() -> None:
    # 65504 is the largest; 65520 is the tie to the missing 65536; 2^-24 the smallest; 2^-25 its tie with zero.
    cases = {
        0x477FE000: 0x7BFF, 0x477FEFFF: 0x7BFF, 0x477FF000: 0x7C00, 0x33800000: 0x0001, 0x33000000: 0x0000,
        0x33000001: 0x0001, 0xB3000000: 0x8000, 0x33C00000: 0x0002, 0x387FC000: 0x03FF, 0x387FE000: 0x0400,
        0x00000001: 0x0000, 0x80000000: 0x8000, 0x7FFFFFFF: 0x7E00, 0xFF800000: 0xFC00, 0x3F801000: 0x3C00,
        0x3F803000: 0x3C02,
    }  # fmt: skip
    assert {bits: BINARY16.narrow(bits) for bits in cases} == cases


@pytest.mark.parametrize("half", [BINARY16, BFLOAT16])
def test_one_pattern_and_buffer_agree(half: Half) -> None:
    patterns = [0x0000, 0x8000, 0x0001, 0x83FF, 0x7BFF, 0xFC00, 0x7C01, 0x7F80, 0x7F81, 0xFFFF]
    wide = np.frombuffer(half.widen_buffer(np.array(patterns, np.uint16).tobytes()), np.uint32)
    assert [half.widen(p) for p in patterns] == wide.tolist()
    narrow = np.frombuffer(half.narrow_buffer(wide.tobytes()), np.uint16)
    assert [half.narrow(int(w)) for w in wide] == narrow.tolist()
    assert half.widen_buffer(b"") == half.narrow_buffer(b"") == b""
