"""ONNX Runtime's tensors as numpy arrays and back, bit for bit and for every type of whole bytes; its errors."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnx.helper

from ortwin.fast.ort import onnxruntime
from ortwin.ref.errors import InputError
from ortwin.ref.tensor import BYTE_SIZED, DTYPE_NAMES, dtype_number

Array = npt.NDArray[Any]

STRING: Final = next(number for number, name in DTYPE_NAMES.items() if name == "string")


ORT_PREFIX: Final = re.compile(r"\[ONNXRuntimeError\] : \d+ : \w+ : ")
"""Stands in errors of ONNX Runtime once per layer an error has passed; what follows the last one says what happened."""


def quiet_options() -> Any:
    """SessionOptions that leave telling of errors to the exception: ONNX Runtime would log them as well."""
    options = onnxruntime().SessionOptions()
    options.log_severity_level = 4
    return options


def sentence(error: Exception) -> str:
    """What an error says, in one line, without what ONNX Runtime puts before it."""
    return " ".join(ORT_PREFIX.split(str(error))[-1].split())


def run(session: Any, feeds: Mapping[str, Array]) -> dict[str, Any]:
    """All outputs of a session by name: arrays, or the type's name where an output is no tensor.

    Session.run refuses the element types numpy lacks, bfloat16 for one; this doesn't.
    """
    outputs = [output.name for output in session.get_outputs()]
    if any(array.dtype.kind == "O" for array in feeds.values()):  # an OrtValue can't be made of strings
        plain = zip(session.get_outputs(), session.run(outputs, dict(feeds)), strict=True)
        return {output.name: value if isinstance(value, np.ndarray) else output.type for output, value in plain}
    values = session.run_with_ort_values(outputs, {name: to_ort(array, name) for name, array in feeds.items()})
    return {name: from_ort(value) for name, value in zip(outputs, values, strict=True)}


def to_ort(array: Array, name: str) -> Any:
    """An OrtValue over the array's memory or a copy; the array must outlive it."""
    ort = onnxruntime()
    number = dtype_number(array.dtype)
    plain = np.asarray(array, dtype=array.dtype.newbyteorder("="), order="C")
    if number in BYTE_SIZED and plain.dtype.isbuiltin != 1:  # an extension type of ml_dtypes
        raw = plain.view(np.dtype(f"u{plain.itemsize}"))
        return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(raw, number)
    if number in BYTE_SIZED:
        return ort.OrtValue.ortvalue_from_numpy(plain)
    raise InputError(f"input '{name}' is {array.dtype}, which can't be handed to ONNX Runtime")


def from_ort(value: Any) -> Any:
    """A copy of the tensor, strings as objects; the type's name for anything else."""
    if not value.has_value() or not value.is_tensor():
        return str(value.data_type())
    if value.element_type() == STRING:
        return value.numpy()
    if value.element_type() not in BYTE_SIZED:
        return str(value.data_type())
    dtype = onnx.helper.tensor_dtype_to_np_dtype(value.element_type())
    size = value.tensor_size_in_bytes()
    data = bytearray(ctypes.string_at(value.data_ptr(), size) if size else b"")
    return np.frombuffer(data, dtype).reshape(value.shape())
