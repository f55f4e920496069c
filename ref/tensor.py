"""A tensor as the reference sees it: an ONNX element type, a shape and the bytes, little endian, in C order."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnx.helper

from ortwin.ref.errors import InputError, UnsupportedError

FLOAT: Final = 1
UINT8: Final = 2
INT8: Final = 3
UINT16: Final = 4
INT16: Final = 5
INT32: Final = 6
INT64: Final = 7
FLOAT16: Final = 10
UINT32: Final = 12
UINT64: Final = 13
BFLOAT16: Final = 16
UINT4: Final = 21
INT4: Final = 22

FLOATS: Final = frozenset({FLOAT, FLOAT16, BFLOAT16})
"""Float types that are computed with; the arithmetic is binary32's for all of them (C5)."""

DTYPE_NAMES: Final[dict[int, str]] = {
    1: "float32",
    2: "uint8",
    3: "int8",
    4: "uint16",
    5: "int16",
    6: "int32",
    7: "int64",
    8: "string",
    9: "bool",
    10: "float16",
    11: "float64",
    12: "uint32",
    13: "uint64",
    14: "complex64",
    15: "complex128",
    16: "bfloat16",
    17: "float8_e4m3fn",
    18: "float8_e4m3fnuz",
    19: "float8_e5m2",
    20: "float8_e5m2fnuz",
    21: "uint4",
    22: "int4",
    23: "float4_e2m1fn",
    24: "float8_e8m0fnu",
    25: "uint2",
    26: "int2",
    27: "float6_e2m3fn",
    28: "float6_e3m2fn",
}
"""ONNX ``TensorProto.DataType`` number to the name numpy (with ml_dtypes) gives the element type."""

_DTYPE_NUMBERS: Final[dict[str, int]] = {name: number for number, name in DTYPE_NAMES.items()}

_ITEM_SIZES: Final[dict[int, int]] = {
    1: 4, 2: 1, 3: 1, 4: 2, 5: 2, 6: 4, 7: 8, 9: 1, 10: 2, 11: 8, 12: 4, 13: 8, 14: 8, 15: 16, 16: 2,
    17: 1, 18: 1, 19: 1, 20: 1, 24: 1,
}  # fmt: skip
"""Bytes per element; absent: strings and element types that share a byte or leave part of it unused."""

BYTE_SIZED: Final = frozenset(_ITEM_SIZES)
"""Every element type of a whole number of bytes per element."""

NIBBLES: Final = frozenset({UINT4, INT4})
"""Element types of 4 bits, the only others that a Tensor can hold."""


def dtype_name(dtype: int) -> str:
    """The element type's name for messages, whatever the number."""
    return DTYPE_NAMES.get(dtype, f"element type {dtype}")


def item_size(dtype: int) -> int:
    """Bytes per element. UnsupportedError for strings, types smaller than a byte and unknown numbers."""
    size = _ITEM_SIZES.get(dtype)
    if size is None:
        raise UnsupportedError(f"{dtype_name(dtype)} has no fixed whole number of bytes per element")
    return size


def byte_size(dtype: int, count: int) -> int:
    """Bytes that count elements take. Elements of 4 bits lie two to a byte, the first in the low half, and an odd last
    one leaves the high half zero: so do ONNX's raw_data and ONNX Runtime. UnsupportedError as item_size."""
    return (count + 1) // 2 if dtype in NIBBLES else count * item_size(dtype)


class Tensor:
    """dtype: ONNX element type number; shape: dimensions, () for a scalar; data: ``byte_size(dtype, size)`` bytes."""

    def __init__(self, dtype: int, shape: tuple[int, ...], data: bytes) -> None:
        self.dtype = dtype
        self.shape = shape
        self.data = data
        if len(data) != byte_size(dtype, self.size):
            raise ValueError(f"{len(data)} bytes don't make a {dtype_name(dtype)} tensor of shape {shape}")

    @property
    def size(self) -> int:
        """Number of elements: 1 for a scalar, 0 if any dimension is 0."""
        return math.prod(self.shape)

    def __repr__(self) -> str:
        return f"Tensor({dtype_name(self.dtype)}, {self.shape})"


def dtype_number(dtype: np.dtype[Any]) -> int:
    """ONNX number of a numpy dtype in any byte order, 0 if ONNX has no such element type."""
    return _DTYPE_NUMBERS.get(dtype.name, 0)


def from_numpy(array: npt.NDArray[Any]) -> Tensor:
    """Copies an array of any byte order and strides. InputError if ONNX has no such element type."""
    dtype = dtype_number(array.dtype)
    if dtype == 0:
        raise InputError(f"numpy dtype {array.dtype} has no ONNX element type")
    if dtype in NIBBLES:
        low = array.astype(np.int8).reshape(-1).view(np.uint8) & 15
        pairs = np.append(low, np.zeros(len(low) % 2, np.uint8)).reshape(-1, 2)
        return Tensor(dtype, array.shape, (pairs[:, 0] | pairs[:, 1] << 4).tobytes())
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    return Tensor(dtype, array.shape, little.tobytes())


def to_numpy(tensor: Tensor) -> npt.NDArray[Any]:
    """A writable copy in native byte order; bfloat16, float8 and 4-bit integers come as ml_dtypes."""
    native = onnx.helper.tensor_dtype_to_np_dtype(tensor.dtype)
    if tensor.dtype in NIBBLES:
        packed = np.frombuffer(tensor.data, np.uint8)
        low = np.stack([packed & 15, packed >> 4], axis=-1).reshape(-1)[: tensor.size]
        whole = low.astype(np.int8) if tensor.dtype == UINT4 else (low.astype(np.int8) ^ 8) - 8
        return whole.reshape(tensor.shape).astype(native)
    array = np.frombuffer(tensor.data, native.newbyteorder("<")).reshape(tensor.shape)
    return array.astype(native)
