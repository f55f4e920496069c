"""What a model is run on: arrays from .npy files, and from a seed where no file is given.

Each input made from the seed has a stream of its own, derived from the seed and the input's name: giving one input by
file, or another input in the model, changes no other.
"""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx.helper
from google.protobuf.message import Error as ProtobufError  # type: ignore[import-untyped, unused-ignore]

from ortwin.ref.errors import InputError, ModelError
from ortwin.ref.graph import Graph, Value, check_feeds
from ortwin.ref.tensor import BYTE_SIZED, dtype_name

Array = npt.NDArray[Any]

TOKEN_LIMIT = 100
"""Integers made from the seed are below this (and never negative), which makes them valid token ids and indices."""


@dataclass(frozen=True)
class Feeds:
    """arrays: by input name. assumed: the symbolic dimensions nothing was said of, taken as 1."""

    arrays: dict[str, Array]
    assumed: tuple[str, ...]


def read_model(path: str) -> onnx.ModelProto:
    """The model in a file, without its external data. ModelError if it can't be parsed, OSError if not opened."""
    try:
        model = onnx.load(path, load_external_data=False)
    except (ProtobufError, ValueError) as error:
        raise ModelError(f"'{path}' can't be parsed as an ONNX model: {error}") from error
    if not model.HasField("graph"):
        raise ModelError(f"'{path}' holds no ONNX graph")
    return model


def make_feeds(model: onnx.ModelProto, files: Mapping[str, str], dims: Mapping[str, int], seed: int) -> Feeds:
    """An array for every input of the model that has no initializer.

    files: .npy file by input name. dims: size by name of a symbolic dimension; one that a file's shape tells is taken
    from there, any other is 1. InputError: an unknown name, a file that doesn't fit, an input that can't be made up.
    """
    known = {info.name: info for info in model.graph.input}
    optional = {tensor.name for tensor in model.graph.initializer}
    optional |= {tensor.values.name for tensor in model.graph.sparse_initializer}
    for name in files:
        if name not in known:
            raise InputError(f"the model has no input '{name}', only {_listed(known)}")
    values = [input_value(info) for name, info in known.items() if name in files or name not in optional]
    symbols = {dim for value in values for dim in value.shape or () if isinstance(dim, str)}
    for name in dims:
        if name not in symbols:
            raise InputError(f"no input has a dimension '{name}', only {_listed(symbols)}")

    arrays = {value.name: read_array(files[value.name], value) for value in values if value.name in files}
    sizes = dict(dims)
    for value in values:
        if value.name not in arrays or value.shape is None:
            continue
        for dim, size in zip(value.shape, arrays[value.name].shape, strict=False):
            if isinstance(dim, str) and sizes.setdefault(dim, size) != size and dim in dims:
                raise InputError(
                    f"dimension '{dim}' is given as {dims[dim]}, but {size} in the file for '{value.name}'"
                )
    assumed: list[str] = []
    for value in values:
        if value.name not in arrays:
            shape = _shape(value, sizes, assumed)
            try:
                arrays[value.name] = generate(value, shape, seed)
            except ValueError as error:  # numpy's word for a shape beyond the address space
                raise InputError(f"input '{value.name}' of shape {shape} does not fit in memory") from error
    numbers = {value.name: value for value in values if dtype_name(value.dtype) != "string"}  # a Graph holds no strings
    checked = {name: array for name, array in arrays.items() if name in numbers}
    check_feeds(Graph(model.graph.name, tuple(numbers.values()), (), {}, (), {}, {}), checked)
    return Feeds({value.name: arrays[value.name] for value in values}, tuple(assumed))


def input_value(info: onnx.ValueInfoProto) -> Value:
    """Name, element type and shape of a graph input. InputError if it is no tensor."""
    kind = info.type.WhichOneof("value")
    if kind != "tensor_type":
        what = (kind or "untyped value").removesuffix("_type")
        raise InputError(f"input '{info.name}' is a {what.replace('_', ' ')}, and only tensors can be given")
    tensor = info.type.tensor_type
    if not tensor.HasField("shape"):
        return Value(info.name, tensor.elem_type, None)
    shape = [
        dim.dim_value if dim.HasField("dim_value") and dim.dim_value >= 0 else dim.dim_param or None
        for dim in tensor.shape.dim
    ]
    return Value(info.name, tensor.elem_type, tuple(shape))


def read_array(path: str, value: Value) -> Array:
    """The array of a .npy file, for an input. InputError if the file holds none."""
    try:
        array = np.load(path, allow_pickle=False)
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        raise InputError(f"'{path}' for input '{value.name}' is no .npy file of numbers: {error}") from error
    if not isinstance(array, np.ndarray):
        raise InputError(f"'{path}' for input '{value.name}' is an archive, not a .npy file")
    if dtype_name(value.dtype) == "string" and array.dtype.kind != "U":
        raise InputError(f"input '{value.name}' must be string, not {array.dtype}")
    if array.dtype.kind == "U":
        return array.astype(object)
    if array.dtype.kind == "V" and value.dtype in BYTE_SIZED:  # how .npy stores bfloat16 and float8: as raw bytes
        expected = onnx.helper.tensor_dtype_to_np_dtype(value.dtype)
        if expected.itemsize == array.dtype.itemsize:
            array = array.view(expected)
    return array


def generate(value: Value, shape: Sequence[int], seed: int) -> Array:
    """An array for an input from the seed.

    Floats are normally distributed with mean 0 and deviation 1, bools even. Integers are token ids, uniform below
    TOKEN_LIMIT, except that an input called a mask masks nothing (1) and one of token types or segments is 0 or 1.
    """
    if value.dtype not in BYTE_SIZED:
        raise InputError(
            f"input '{value.name}' is {dtype_name(value.dtype)}, which no seed can make: {_as_file(value)}"
        )
    dtype = onnx.helper.tensor_dtype_to_np_dtype(value.dtype)
    digest = hashlib.sha256(f"{seed}\0{value.name}".encode()).digest()
    stream = np.random.Generator(np.random.PCG64(int.from_bytes(digest, "little")))
    if dtype.kind == "b":
        return stream.integers(0, 2, shape).astype(dtype)
    if dtype.kind in "iu":
        lowered = value.name.lower()
        if "mask" in lowered:
            return np.ones(shape, dtype)
        few = "token_type" in lowered or "segment" in lowered
        return stream.integers(0, 2 if few else TOKEN_LIMIT, shape).astype(dtype)
    real = stream.standard_normal(shape, np.float32)
    if dtype.kind == "c":
        return (real + 1j * stream.standard_normal(shape, np.float32)).astype(dtype)
    return np.asarray(real).astype(dtype)


def _shape(value: Value, sizes: Mapping[str, int], assumed: list[str]) -> list[int]:
    if value.shape is None:
        raise InputError(f"the rank of input '{value.name}' is unknown: {_as_file(value)}")
    shape: list[int] = []
    for axis, dim in enumerate(value.shape):
        if dim is None:
            raise InputError(
                f"the size of input '{value.name}' on axis {axis} is unknown and has no name: {_as_file(value)}"
            )
        if isinstance(dim, str) and dim not in sizes and dim not in assumed:
            assumed.append(dim)
        shape.append(dim if isinstance(dim, int) else sizes.get(dim, 1))
    return shape


def _as_file(value: Value) -> str:
    return f"give it as a file, --input {value.name}=FILE.npy"


def _listed(names: Mapping[str, object] | set[str]) -> str:
    return ", ".join(f"'{name}'" for name in sorted(names)) or "none"
