"""Clip: min(max_bound, max(x, min_bound)), bounds as attributes (versions 1, 6) or optional scalar inputs (C10d)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from librt.strings import BytesWriter, read_f32_le, read_i16_le, read_i32_le, read_i64_le
from mypy_extensions import i64

from ortwin.ref import unary
from ortwin.ref.binary32 import MAX
from ortwin.ref.graph import Node, Value
from ortwin.ref.half import half_format
from ortwin.ref.kernel import Kernel, real
from ortwin.ref.tensor import FLOAT, FLOAT16, FLOATS, UINT8, UINT16, UINT32, UINT64, Tensor, dtype_name, item_size

UNSIGNED: Final = frozenset({UINT8, UINT16, UINT32, UINT64})


def largest_finite(dtype: int) -> float:
    """The largest finite number of a float type."""
    if dtype == FLOAT16:
        return 65504.0
    return MAX if dtype == FLOAT else 255.0 * 2.0**120


class ClipByAttributes(Kernel):
    """Clip-1 and Clip-6: the bounds are binary32, whatever the type of x.

    A missing bound is the lowest or largest finite number of that type. So is one that equals the default of version
    6, binary32's lowest or largest finite number, since nobody can tell whether that was given.
    """

    def __init__(self, node: Node) -> None:
        super().__init__(node)
        self.lo = real(node, "min", -MAX)
        self.hi = real(node, "max", MAX)

    def run(self, inputs: Sequence[Tensor | None]) -> list[Tensor]:
        x = inputs[0]
        assert x is not None
        most = largest_finite(x.dtype)
        op = unary.Clip(-most if self.lo == -MAX else self.lo, most if self.hi == MAX else self.hi)
        return [Tensor(x.dtype, x.shape, unary.map_floats(op, x.dtype, x.data))]


class ClipByInputs(Kernel):
    """Clip-11 and later: inputs x, min, max; the bounds optional, of rank 0 and of the type of x."""

    def broken_rule(self, inputs: Sequence[Value | None]) -> str:
        rule = super().broken_rule(inputs)
        x = inputs[0] if inputs else None
        for bound in inputs[1:]:
            if rule or x is None or bound is None:
                continue
            if bound.shape is not None and len(bound.shape) != 0:
                rule = f"bound '{bound.name}' has rank {len(bound.shape)}, not 0"
            elif bound.dtype != x.dtype and bound.dtype != 0 and x.dtype != 0:
                rule = f"bound '{bound.name}' is {dtype_name(bound.dtype)}, the input {dtype_name(x.dtype)}"
        return rule

    def run(self, inputs: Sequence[Tensor | None]) -> list[Tensor]:
        x = inputs[0]
        assert x is not None
        lo = inputs[1] if len(inputs) > 1 else None
        hi = inputs[2] if len(inputs) > 2 else None
        if x.dtype in FLOATS:
            most = largest_finite(x.dtype)
            op = unary.Clip(-most if lo is None else _number(lo), most if hi is None else _number(hi))
            return [Tensor(x.dtype, x.shape, unary.map_floats(op, x.dtype, x.data))]
        return [Tensor(x.dtype, x.shape, clip_integers(x, lo, hi))]


def _number(scalar: Tensor) -> float:
    """The value of a float scalar."""
    wide = scalar.data if scalar.dtype == FLOAT else half_format(scalar.dtype).widen_buffer(scalar.data)
    return read_f32_le(wide, 0)


def clip_integers(x: Tensor, lo: Tensor | None, hi: Tensor | None) -> bytes:
    """Clip of integers of any width, compared as integers; a missing bound bounds nothing."""
    size: i64 = item_size(x.dtype)
    unsigned = x.dtype in UNSIGNED
    least: i64 = 0 if lo is None else _rank(lo.data, 0, size, unsigned)
    most: i64 = 0 if hi is None else _rank(hi.data, 0, size, unsigned)
    data = x.data
    writer = BytesWriter()
    for i in range(0, len(data), size):
        chosen = data[i : i + size]
        rank = _rank(data, i, size, unsigned)
        if lo is not None and least > rank:
            chosen, rank = lo.data, least
        if hi is not None and not rank < most:
            chosen = hi.data
        writer.write(chosen)
    return writer.getvalue()


def _rank(data: bytes, offset: i64, size: i64, unsigned: bool) -> i64:
    """The little-endian integer at offset as an i64 of the same order: itself, or less 2^63 if it is a uint64."""
    if size == 8:
        wide: i64 = read_i64_le(data, offset)
        return wide ^ -0x8000000000000000 if unsigned else wide
    if size == 4:
        word: i64 = i64(read_i32_le(data, offset))
        return word & 0xFFFFFFFF if unsigned else word
    if size == 2:
        short: i64 = i64(read_i16_le(data, offset))
        return short & 0xFFFF if unsigned else short
    byte: i64 = data[offset]
    return byte if unsigned or byte < 128 else byte - 256
