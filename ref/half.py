"""binary16 and bfloat16: exact widening to binary32 and narrowing with one rounding, to nearest even (C5).

Everything here is integer work on bit patterns: sign | exponent | fraction, IEEE 754 3.4. A NaN becomes the canonical
quiet NaN of the other format (C3); subnormals are kept on both sides (C4).
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, read_i16_le, read_i32_le, write_i16_le, write_i32_le
from mypy_extensions import i16, i32, i64

from ortwin.ref.tensor import FLOAT16

_F32_INF: Final = 0x7F800000
_F32_NAN: Final = 0x7FC00000


class Half:
    """A 16-bit format with the given widths of fraction and exponent."""

    def __init__(self, fraction_bits: int, exponent_bits: int) -> None:
        self.fraction_bits: i64 = fraction_bits
        self.inf: i64 = ((1 << exponent_bits) - 1) << fraction_bits
        self.nan: i64 = self.inf | (1 << (fraction_bits - 1))
        self.drop: i64 = 23 - fraction_bits  # fraction bits that binary32 has more
        self.rebias: i64 = 128 - (1 << (exponent_bits - 1))  # how much more binary32 adds to exponents

    def widen(self, bits: i64) -> i64:
        """The binary32 pattern of the same value."""
        sign: i64 = (bits & 0x8000) << 16
        magnitude: i64 = bits & 0x7FFF
        if magnitude >= self.inf:
            return _F32_NAN if magnitude > self.inf else sign | _F32_INF
        exponent: i64 = magnitude >> self.fraction_bits
        fraction: i64 = (magnitude & ((1 << self.fraction_bits) - 1)) << self.drop
        if exponent == 0:
            if fraction == 0 or self.rebias == 0:  # the same exponent range: subnormal in both formats
                return sign | fraction
            exponent = 1
            while fraction < 0x800000:  # normal in binary32: shift the leading bit into its implicit place
                fraction <<= 1
                exponent -= 1
            fraction -= 0x800000
        return sign | ((exponent + self.rebias) << 23) | fraction

    def narrow(self, bits: i64) -> i64:
        """The pattern of the value nearest to a binary32 pattern's, ties to even; too large is an infinity."""
        sign: i64 = (bits >> 16) & 0x8000
        magnitude: i64 = bits & 0x7FFFFFFF
        if magnitude > _F32_INF:
            return self.nan
        exponent: i64 = magnitude >> 23
        significand: i64 = magnitude & 0x7FFFFF
        if exponent == 0:
            exponent = 1
        else:
            significand += 0x800000
        exponent -= self.rebias
        shift: i64 = self.drop
        if exponent >= 1:
            significand += (exponent - 1) << 23  # the implicit bit counts as one step of the exponent field
        else:
            shift += 1 - exponent  # subnormal here: the last place stays at the smallest exponent's
            if shift > 25:
                shift = 25  # already less than half of the smallest subnormal
        narrowed: i64 = significand >> shift
        rest: i64 = significand - (narrowed << shift)
        half: i64 = 1 << (shift - 1)
        if rest > half or (rest == half and (narrowed & 1) == 1):
            narrowed += 1  # a carry out of the fraction is the next exponent, out of the last exponent infinity
        if narrowed > self.inf:
            narrowed = self.inf
        return sign | narrowed

    def widen_buffer(self, data: bytes) -> bytes:
        """Little-endian 16-bit elements in, as many binary32 elements out."""
        writer = BytesWriter()
        for i in range(0, len(data), 2):
            bits: i64 = self.widen(i64(read_i16_le(data, i)) & 0xFFFF)
            write_i32_le(writer, i32(bits - ((bits >> 31) << 32)))  # the pattern as a signed number
        return writer.getvalue()

    def narrow_buffer(self, data: bytes) -> bytes:
        """Little-endian binary32 elements in, as many 16-bit elements out."""
        writer = BytesWriter()
        for i in range(0, len(data), 4):
            bits: i64 = self.narrow(i64(read_i32_le(data, i)) & 0xFFFFFFFF)
            write_i16_le(writer, i16(bits - ((bits >> 15) << 16)))
        return writer.getvalue()


BINARY16: Final = Half(fraction_bits=10, exponent_bits=5)
BFLOAT16: Final = Half(fraction_bits=7, exponent_bits=8)


def half_format(dtype: int) -> Half:
    """The format of an element type that is float16 or bfloat16."""
    return BINARY16 if dtype == FLOAT16 else BFLOAT16
