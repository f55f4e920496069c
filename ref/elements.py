"""Tensors of numbers as vectors: whatever the element type, integers as i64 and floats as binary32 values, and back."""

from __future__ import annotations

from typing import Final

from librt.strings import (
    BytesWriter,
    read_f32_le,
    read_i16_le,
    read_i32_le,
    write_f32_le,
    write_i16_le,
    write_i32_le,
)
from librt.vecs import append, vec
from mypy_extensions import i16, i32, i64

from ortwin.ref.binary32 import NAN, round
from ortwin.ref.half import BFLOAT16 as BFLOAT16_FORMAT
from ortwin.ref.half import BINARY16
from ortwin.ref.tensor import (
    BFLOAT16,
    FLOAT16,
    FLOATS,
    INT4,
    INT8,
    INT16,
    INT32,
    NIBBLES,
    UINT4,
    UINT8,
    UINT16,
    Tensor,
    item_size,
)

LOWEST: Final[dict[int, int]] = {
    UINT4: 0, INT4: -8, UINT8: 0, INT8: -128, UINT16: 0, INT16: -32768, INT32: -(2**31),
}  # fmt: skip
HIGHEST: Final[dict[int, int]] = {
    UINT4: 15, INT4: 7, UINT8: 255, INT8: 127, UINT16: 65535, INT16: 32767, INT32: 2**31 - 1,
}  # fmt: skip
"""The range of each element type that integers_of and integer_tensor take."""


def integers_of(tensor: Tensor) -> vec[i64]:
    """The elements of a tensor of integers of at most 32 bits."""
    data = tensor.data
    lowest: i64 = LOWEST[tensor.dtype]
    found = vec[i64]()
    if tensor.dtype in NIBBLES:
        count: i64 = tensor.size
        for k in range(count):
            byte: i64 = data[k >> 1]
            nibble: i64 = (byte >> 4 * (k & 1)) & 15
            found = append(found, nibble - 16 if nibble > 7 and lowest < 0 else nibble)
        return found
    size: i64 = item_size(tensor.dtype)
    end: i64 = len(data)
    at: i64 = 0
    while at < end:
        value: i64 = 0
        if size == 1:
            value = data[at]
            if value > 127 and lowest < 0:
                value -= 256
        elif size == 2:
            value = i64(read_i16_le(data, at))
            if lowest == 0:
                value &= 0xFFFF
        else:
            value = i64(read_i32_le(data, at))
        found = append(found, value)
        at += size
    return found


def integer_tensor(dtype: int, shape: tuple[int, ...], values: vec[i64]) -> Tensor:
    """A tensor of integers, which are in the range of the type."""
    writer = BytesWriter()
    count: i64 = len(values)
    if dtype in NIBBLES:
        for k in range(0, count, 2):
            high: i64 = values[k + 1] & 15 if k + 1 < count else 0
            writer.append(int((values[k] & 15) | (high << 4)))
        return Tensor(dtype, shape, writer.getvalue())
    size: i64 = item_size(dtype)
    for k in range(count):
        v = values[k]
        if size == 1:
            writer.append(int(v & 0xFF))
        elif size == 2:
            write_i16_le(writer, i16(v - 65536 if v > 32767 else v))
        else:
            write_i32_le(writer, i32(v))
    return Tensor(dtype, shape, writer.getvalue())


def floats_of(tensor: Tensor) -> vec[float]:
    """The elements of a tensor of floats, or of int32 rounded to binary32."""
    found = vec[float]()
    if tensor.dtype not in FLOATS:
        for value in integers_of(tensor):
            found = append(found, round(float(value)))
        return found
    data = tensor.data
    if tensor.dtype == FLOAT16:
        data = BINARY16.widen_buffer(data)
    elif tensor.dtype == BFLOAT16:
        data = BFLOAT16_FORMAT.widen_buffer(data)
    for at in range(0, len(data), 4):
        found = append(found, read_f32_le(data, at))
    return found


def float_tensor(dtype: int, shape: tuple[int, ...], values: vec[float]) -> Tensor:
    """A tensor of floats, each rounded once to the type; a NaN gets canonical bits (C3)."""
    writer = BytesWriter()
    for value in values:
        write_f32_le(writer, value if value == value else NAN)
    data = writer.getvalue()
    if dtype == FLOAT16:
        data = BINARY16.narrow_buffer(data)
    elif dtype == BFLOAT16:
        data = BFLOAT16_FORMAT.narrow_buffer(data)
    return Tensor(dtype, shape, data)
