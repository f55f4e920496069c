"""binary32 arithmetic against three yardsticks: numpy's float32 (hardware), C's fmaf, and exact rational rounding."""

import ctypes
import ctypes.util
import itertools
import math
import struct
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ortwin.ref
from ortwin.ref import binary32

NAN = 0x7FC00000
INF = 0x7F800000

_libm = ctypes.CDLL(ctypes.util.find_library("m") or "libm.so.6")
_libm.fmaf.restype = ctypes.c_float
_libm.fmaf.argtypes = [ctypes.c_float] * 3


def value(bits: int) -> float:
    return float(struct.unpack("<f", struct.pack("<I", bits))[0])


def pattern(x: float) -> int:
    """Bits of a value that must be a binary32 number already; any NaN counts as the canonical one."""
    if x != x:
        return NAN
    bits = int(struct.unpack("<I", struct.pack("<f", x))[0])
    assert value(bits) == x, f"{x.hex()} is no binary32 value"
    return bits


def nearest(exact: Fraction, negative_zero: bool = False) -> int:
    """Bits of the binary32 number nearest to an exact one, ties to even: integers only, nothing shared with ref."""
    if exact == 0:
        return 0x80000000 if negative_zero else 0
    sign = 0x80000000 if exact < 0 else 0
    magnitude = abs(exact)
    exponent = -149
    while magnitude >= Fraction(2) ** (exponent + 24):
        exponent += 1
    units = magnitude / Fraction(2) ** exponent
    whole = units.numerator // units.denominator
    rest = units - whole
    if rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole % 2 == 1):
        whole += 1
    # In units of 2^exponent the pattern counts up by one from 0; each higher exponent skips 2^23 patterns.
    return sign | min(whole + (exponent + 149) * 2**23, INF)


def hexa(bits: int) -> str:
    return f"{bits:#010x}"


# Zeros, both ends of the subnormals, of the normals, of each kind of binade neighbour; infinities; NaNs with payload.
MAGNITUDES = [
    0x00000000, 0x00000001, 0x00000002, 0x00000003, 0x00400000, 0x007FFFFE, 0x007FFFFF, 0x00800000, 0x00800001,
    0x00FFFFFF, 0x01000000, 0x0B800000, 0x1FFFFFFF, 0x33800000, 0x34000001, 0x3EAAAAAB, 0x3F7FFFFF, 0x3F800000,
    0x3F800001, 0x40490FDB, 0x4B000000, 0x4B7FFFFF, 0x4B800001, 0x5F7FFFFF, 0x5F800000, 0x73800000, 0x7E800000,
    0x7EFFFFFF, 0x7F000000, 0x7F7FFFFE, 0x7F7FFFFF, INF, 0x7F800001, NAN,
]  # fmt: skip
BOUNDARY = [bits | sign for bits in MAGNITUDES for sign in (0, 0x80000000)]

any_bits = st.integers(0, 2**32 - 1)
boundary_bits = st.sampled_from(BOUNDARY)
operand = st.one_of(any_bits, boundary_bits, st.integers(0x3F000000, 0x40FFFFFF), st.integers(0, 0x00FFFFFF))

BINARY: dict[str, tuple[Callable[[float, float], float], Callable[[np.float32, np.float32], np.float32]]] = {
    "add": (binary32.add, lambda a, b: a + b),
    "sub": (binary32.sub, lambda a, b: a - b),
    "mul": (binary32.mul, lambda a, b: a * b),
    "div": (binary32.div, lambda a, b: a / b),
}


def hardware(name: str, a: int, b: int) -> int:
    with np.errstate(all="ignore"):
        return pattern(float(BINARY[name][1](np.float32(value(a)), np.float32(value(b)))))


def fmaf(a: int, b: int, c: int) -> int:
    return pattern(_libm.fmaf(value(a), value(b), value(c)))


def fma(a: int, b: int, c: int) -> int:
    return pattern(binary32.fma(value(a), value(b), value(c)))


@pytest.mark.parametrize("name", BINARY)
def test_two_operands_on_all_boundary_pairs(name: str) -> None:
    for a, b in itertools.product(BOUNDARY, BOUNDARY):
        got = pattern(BINARY[name][0](value(a), value(b)))
        assert got == hardware(name, a, b), f"{name}({hexa(a)}, {hexa(b)}) = {hexa(got)}"


@pytest.mark.parametrize("name", BINARY)
@given(a=operand, b=operand)
def test_two_operands_against_hardware(name: str, a: int, b: int) -> None:
    assert hexa(pattern(BINARY[name][0](value(a), value(b)))) == hexa(hardware(name, a, b))


@given(a=operand, b=operand)
def test_two_operands_against_exact_arithmetic(a: int, b: int) -> None:
    x, y = value(a), value(b)
    if not (math.isfinite(x) and math.isfinite(y)):
        return
    if x + y != 0:
        assert pattern(binary32.add(x, y)) == nearest(Fraction(x) + Fraction(y))
    if x - y != 0:
        assert pattern(binary32.sub(x, y)) == nearest(Fraction(x) - Fraction(y))
    negative = (a ^ b) >= 2**31
    assert pattern(binary32.mul(x, y)) == nearest(Fraction(x) * Fraction(y), negative)
    if y != 0:
        assert pattern(binary32.div(x, y)) == nearest(Fraction(x) / Fraction(y), negative)


@pytest.mark.parametrize("a", BOUNDARY, ids=hexa)
def test_sqrt_on_boundaries(a: int) -> None:
    with np.errstate(all="ignore"):
        expected = pattern(float(np.sqrt(np.float32(value(a)))))
    assert hexa(pattern(binary32.sqrt(value(a)))) == hexa(expected)


@given(a=operand)
def test_sqrt_against_hardware(a: int) -> None:
    with np.errstate(all="ignore"):
        assert pattern(binary32.sqrt(value(a))) == pattern(float(np.sqrt(np.float32(value(a)))))


@given(x=st.floats(width=64))
def test_round_against_hardware(x: float) -> None:
    with np.errstate(all="ignore"):
        assert hexa(pattern(binary32.round(x))) == hexa(pattern(float(np.float32(x))))


@pytest.mark.parametrize("low", [b for b in MAGNITUDES if b < INF] + [0x12345678, 0x2AAAAAAA, 0x55555555], ids=hexa)
def test_round_at_and_beside_ties(low: int) -> None:
    """Midway between neighbours, one binary64 step to either side, and the neighbours themselves."""
    above = Fraction(value(low + 1)) if low + 1 < INF else Fraction(2) ** 128
    tie = float((Fraction(value(low)) + above) / 2)  # exact: 25 bits
    for x in (tie, math.nextafter(tie, 0.0), math.nextafter(tie, math.inf), value(low)):
        for signed in (x, -x):
            expected = nearest(Fraction(signed), math.copysign(1.0, signed) < 0)
            assert hexa(pattern(binary32.round(signed))) == hexa(expected), signed.hex()


@pytest.mark.parametrize("x", [5e-324, 2.0**-1022, 2.0**-151, 2.0**-150, 1.7e308, 2.0**128, math.inf])
def test_round_far_outside(x: float) -> None:
    expected = INF if x > 1 else 0
    assert pattern(binary32.round(x)) == expected
    assert pattern(binary32.round(-x)) == expected | 0x80000000


def test_round_gives_the_canonical_nan() -> None:
    for bits in (0x7FF0000000000001, 0xFFF8000000000000, 0x7FFFFFFFFFFFFFFF):
        x = struct.unpack("<d", struct.pack("<Q", bits))[0]
        assert struct.pack("<f", binary32.round(x)) == struct.pack("<I", NAN)


@pytest.mark.parametrize(
    ("a", "b", "c"),
    [
        (math.inf, 0.0, 1.0),
        (-0.0, math.inf, math.nan),
        (math.inf, 1.0, -math.inf),
        (math.nan, 1.0, 1.0),
        (1.0, 1.0, -math.nan),
        (2.0**127, 2.0**127, -math.inf),
    ],
)
def test_fma_special_values_give_canonical_nan_or_infinity(a: float, b: float, c: float) -> None:
    got = struct.pack("<f", binary32.fma(a, b, c))
    assert got == struct.pack("<I", 0xFF800000 if a == 2.0**127 else NAN)


def test_every_nan_has_canonical_bits() -> None:
    """C3, on the sign and payload themselves: hardware's own 0 * Inf is a negative NaN on x86."""
    nans = [
        binary32.add(math.inf, -math.inf),
        binary32.sub(math.inf, math.inf),
        binary32.mul(math.inf, -0.0),
        binary32.div(0.0, -0.0),
        binary32.div(math.inf, -math.inf),
        binary32.div(math.nan, 0.0),
        binary32.div(-math.nan, -1.0),
        binary32.sqrt(-1.0),
        binary32.sqrt(-math.inf),
        binary32.sqrt(-math.nan),
        binary32.rint(-math.nan),
    ]
    assert [struct.pack("<f", x) for x in nans] == [struct.pack("<I", NAN)] * len(nans)


def test_fma_on_all_boundary_triples_of_one_sign_choice() -> None:
    """Every magnitude triple; the product's sign and the addend's vary, which is all that matters."""
    for a, b, c in itertools.product(MAGNITUDES, MAGNITUDES, BOUNDARY):
        assert fma(a, b, c) == fmaf(a, b, c), f"fma({hexa(a)}, {hexa(b)}, {hexa(c)}) = {hexa(fma(a, b, c))}"


def near_ties() -> list[tuple[float, float, float]]:
    """Triples whose sum is a hair off a tie of two binary32 numbers: so little that binary64 loses the hair.

    First kind: c is a binary32 number, a * b half its last place times (1 - k^2 2^-46). Second kind: a * b is midway
    itself (a 25-bit number in two factors), c is tiny. Third kind: a * b is half, or for contrast a quarter, of the
    last place of c, times (1 + 2^-36), since 4097 * 16773121 = 2^36 + 1.
    """
    triples: list[tuple[float, float, float]] = []
    for k in (0, 1, 2, 3, 5, 11, 64, 127, 180):
        up, down = 1.0 + k * 2.0**-23, 1.0 - k * 2.0**-23
        for c in (1.0, 1.0 + 2.0**-23, 1.5, 2.0 - 2.0**-23, 1.0 + 2.0**-22):
            for scale in (-126, -100, -1, 0, 60, 127):
                half = 2.0 ** ((scale - 24) // 2), 2.0 ** ((scale - 24) - (scale - 24) // 2)
                for sign in (1.0, -1.0):
                    triples.append((up * half[0], sign * down * half[1], c * 2.0**scale))
    for p, q in ((601.0, 31.0 * 1801.0), (4097.0, 4097.0), (3.0, 6990507.0), (5.0, 5033165.0), (1.0, 2.0**24 - 1.0)):
        for scale in (-150, -149, -140, -100, 0, 103 - 1, 103):
            for tiny in (0.0, 2.0**-149, 2.0**-120, 2.0 ** max(scale - 40, -149), 2.0 ** max(scale - 29, -149)):
                for sign in (1.0, -1.0):
                    half = 2.0 ** (scale // 2), 2.0 ** (scale - scale // 2)
                    if max(q * half[1], p * half[0]) < 2.0**127:
                        triples.append((p * half[0], q * half[1], sign * tiny))
                        triples.append((p * half[0], -q * half[1], sign * tiny))
    for c in (1.0, 1.0 + 2.0**-22, 1.5, 2.0 - 2.0**-22):
        for scale in (-127, -126, -1, 0, 60, 127):
            for part in (1, 2):
                exponent = max(scale - 23, -149) - part
                a = 4097.0 * 2.0**-12 * 2.0 ** (exponent // 2)
                b = 16773121.0 * 2.0**-24 * 2.0 ** (exponent - exponent // 2)
                triples.extend([(a, b, c * 2.0**scale), (a, b, -c * 2.0**scale)])
    return triples


def test_fma_near_ties() -> None:
    rounding_twice_is_wrong = 0
    for a, b, c in near_ties():
        exact = Fraction(a) * Fraction(b) + Fraction(c)
        expected = nearest(exact)
        assert fmaf(pattern(a), pattern(b), pattern(c)) == expected or exact == 0
        got = pattern(binary32.fma(a, b, c))
        assert hexa(got) == hexa(expected) or exact == 0, f"fma({a.hex()}, {b.hex()}, {c.hex()})"
        rounding_twice_is_wrong += pattern(binary32.round(a * b + c)) != expected
    assert rounding_twice_is_wrong > 200, "these triples no longer tell fma from a product and a sum"


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_fma_overflow_tie(sign: float) -> None:
    """2^128 - 2^103 is midway between the largest number and 2^128: any error below it decides."""
    a, b = 601.0 * 2.0**60, 31.0 * 1801.0 * 2.0**43
    assert a * b == 2.0**128 - 2.0**103
    negative = 0x80000000 if sign < 0 else 0
    for tiny in (2.0**-149, 1.0, 2.0**60, 2.0**74):
        assert pattern(binary32.fma(sign * a, b, -sign * tiny)) == 0x7F7FFFFF | negative
        assert pattern(binary32.fma(sign * a, b, sign * tiny)) == INF | negative
    assert pattern(binary32.fma(sign * a, b, 0.0)) == INF | negative
    largest = binary32.MAX
    assert pattern(binary32.fma(1.0 + 2.0**-23, sign * (2.0**103 - 2.0**80), sign * largest)) == 0x7F7FFFFF | negative


@given(a=operand, b=operand, c=operand)
def test_fma_against_libm(a: int, b: int, c: int) -> None:
    assert hexa(fma(a, b, c)) == hexa(fmaf(a, b, c))


@given(a=operand, b=operand, distance=st.integers(-60, 60), fraction=st.integers(0, 2**24 - 1), sign=st.booleans())
def test_fma_with_an_addend_near_the_product(a: int, b: int, distance: int, fraction: int, sign: bool) -> None:
    """Exponents of product and addend within 60 of each other: cancellation and every overlap of the two."""
    x, y = value(a), value(b)
    if not (math.isfinite(x) and math.isfinite(y)) or x * y == 0:
        return
    exponent = max(-149, min(104, math.frexp(x * y)[1] + distance))
    c = (-1.0 if sign else 1.0) * fraction * 2.0 ** (exponent - 24 if exponent > -125 else -149)
    exact = Fraction(x) * Fraction(y) + Fraction(c)
    got = pattern(binary32.fma(x, y, c))
    assert hexa(got) == hexa(nearest(exact)) if exact != 0 else got & 0x7FFFFFFF == 0
    assert hexa(got) == hexa(fmaf(a, b, pattern(c)))


@given(a=operand)
def test_rint_against_hardware(a: int) -> None:
    with np.errstate(all="ignore"):
        assert pattern(binary32.rint(value(a))) == pattern(float(np.rint(np.float32(value(a)))))


@pytest.mark.parametrize(
    "x", [0.5, 1.5, 2.5, 2.0**22 + 0.5, 2.0**23 - 0.5, 2.0**23, 2.0**23 + 1, 0.49999997, 2.0**-149]
)
def test_rint_ties_and_last_fractions(x: float) -> None:
    expected = pattern(float(np.rint(np.float32(x))))
    assert pattern(binary32.rint(x)) == expected
    assert pattern(binary32.rint(-x)) == expected | 0x80000000


CONTRACTED = """
def _multiply_add(a: float, b: float, c: float) -> float:
    from fractions import Fraction
    return float(Fraction(a) * Fraction(b) + Fraction(c))
"""


def test_import_fails_where_products_and_sums_are_contracted() -> None:
    source = Path(ortwin.ref.__file__).with_name("binary32.py")
    if not source.exists():
        pytest.skip("binary32.py is not installed beside its compiled form")
    text = source.read_text()
    exec(compile(text, "binary32.py", "exec"), {"__name__": "unchanged"})
    marker = "\ndef _check_arithmetic"
    assert marker in text
    with pytest.raises(ImportError, match="-ffp-contract=off"):
        exec(compile(text.replace(marker, CONTRACTED + marker), "binary32.py", "exec"), {"__name__": "contracted"})
