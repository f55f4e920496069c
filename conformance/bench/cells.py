"""What is measured: small models made on the fly, or a model of the user's, each with its inputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnx
import onnx.defs
import onnx.helper as oh

from ortwin.conformance.inputs import make_feeds, read_model
from ortwin.ref.errors import InputError
from ortwin.ref.tensor import DTYPE_NAMES

DTYPES: Final = {
    DTYPE_NAMES[number]: number for number in (1, 10, 16, 11, 2, 3, 4, 5, 6, 7, 12, 13)
}  # float32 first, the floats, then the integers
SIZES: Final = {"": 1, "Ki": 1 << 10, "Mi": 1 << 20}
POSITIVE: Final = frozenset({"Log", "Sqrt"})
"""Ops that are measured on their domain; NaN results could take another path in somebody's kernel."""
OPSET: Final = 24


@dataclass(frozen=True)
class Cell:
    """A model and its inputs. nodes: how many nodes an owner must own; elementwise: memcpy is its limit."""

    name: str
    model: bytes = field(repr=False)
    feeds: dict[str, npt.NDArray[Any]] = field(repr=False)
    nodes: int
    elementwise: bool


def parse_size(text: str) -> int:
    """4096, 64Ki, 1Mi. InputError otherwise."""
    digits = text.rstrip("KMi")
    unit = text[len(digits) :]
    if not digits.isascii() or not digits.isdigit() or unit not in SIZES:
        raise InputError(f"'{text}' is no size: write 4096, 64Ki or 1Mi")
    return int(digits) * SIZES[unit]


def show_size(size: int) -> str:
    """As parse_size reads it, in the largest unit that divides it."""
    unit = next(name for name in ("Mi", "Ki", "") if size % SIZES[name] == 0)
    return f"{size // SIZES[unit]}{unit}"


def parse_dtype(text: str) -> str:
    """The name of an element type that inputs can be made of. InputError otherwise."""
    if text not in DTYPES:
        raise InputError(f"--dtype '{text}' is not one of {', '.join(DTYPES)}")
    return text


def make_node(op: str, inputs: list[str], outputs: list[str], name: str) -> onnx.NodeProto:
    """A node of the op that `op` names: Gelu, com.microsoft.QuickGelu, Gelu@approximate=tanh, Elu@alpha=0.5.

    InputError if ONNX has no such op; of other domains only ONNX Runtime knows. An attribute is of the type its schema
    says; without a schema a number is a float.
    """
    path, *settings = op.split("@")
    domain, _, kind = path.rpartition(".")
    if not kind or (not domain and not onnx.defs.has(kind, OPSET)):
        raise InputError(f"ONNX has no op '{path}'")
    schema = onnx.defs.get_schema(kind, OPSET) if not domain else None
    attributes: dict[str, Any] = {}
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not key or not equals:
            raise InputError(f"'{op}': an attribute is written @name=value")
        try:
            attributes[key] = float(text)
        except ValueError:
            attributes[key] = text
        if schema is not None and key not in schema.attributes:
            raise InputError(f"{kind} has no attribute '{key}'")
    return oh.make_node(kind, inputs, outputs, name=name, domain=domain, **attributes)


def unary(op: str, size: int, dtype: str = "float32") -> Cell:
    """One node on `size` elements."""
    return _chain(f"{op} {dtype} {show_size(size)}", [op], size, dtype)


def chain(ops: Sequence[str], count: int, size: int, dtype: str = "float32") -> Cell:
    """`count` nodes one after another, the ops in turn."""
    return _chain(
        f"{count} x {'+'.join(ops)} {dtype} {show_size(size)}", [ops[k % len(ops)] for k in range(count)], size, dtype
    )


def matmul(m: int, k: int, n: int, dtype: str = "float32") -> Cell:
    """A[M, K] times a constant B[K, N]."""
    a, b = _normal((m, k), dtype, 0), _normal((k, n), dtype, 1)
    kind = oh.np_dtype_to_tensor_dtype(a.dtype)
    graph = oh.make_graph(
        [oh.make_node("MatMul", ["a", "b"], ["y"], name="node")],
        "cell",
        [oh.make_tensor_value_info("a", kind, [m, k])],
        [oh.make_tensor_value_info("y", kind, [m, n])],
        [onnx.numpy_helper.from_array(b, "b")],
    )
    return Cell(f"MatMul {dtype} {m}x{k}x{n}", _bytes(graph), {"a": a}, 1, False)


NBITS: Final = {"bits": 4, "block_size": 32, "accuracy_level": 0, "zero_points": 0}
"""What a cell of MatMulNBits can be told, and what holds otherwise. zero_points: 1 for packed ones, else none."""


def nbits(m: int, k: int, n: int, settings: dict[str, int], dtype: str = "float32") -> Cell:
    """com.microsoft MatMulNBits: A[M, K] times constant weights of a few bits, with random scales around 1 / 2^bits."""
    told = NBITS | settings
    bits, block_size = told["bits"], told["block_size"]
    blocks, rng = -(-k // block_size), np.random.default_rng(1)
    a = _normal((m, k), dtype, 0)
    constants = {
        "b": rng.integers(0, 256, (n, blocks, block_size * bits // 8), np.uint8),
        "scales": ((rng.random((n, blocks)) + 0.5) / 2**bits).astype(a.dtype),
    }
    if told["zero_points"]:
        constants["zero_points"] = rng.integers(0, 256, (n, -(-blocks * bits // 8)), np.uint8)
    kind = oh.np_dtype_to_tensor_dtype(a.dtype)
    attributes: dict[str, Any] = {"K": k, "N": n, **{key: value for key, value in told.items() if key != "zero_points"}}
    node = oh.make_node("MatMulNBits", ["a", *constants], ["y"], name="node", domain="com.microsoft", **attributes)
    graph = oh.make_graph(
        [node],
        "cell",
        [oh.make_tensor_value_info("a", kind, [m, k])],
        [oh.make_tensor_value_info("y", kind, [m, n])],
        [onnx.numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    zeros = " zero points" if told["zero_points"] else ""
    how = f"{bits} bits by {block_size} level {told['accuracy_level']}{zeros}"
    return Cell(f"MatMulNBits {dtype} {m}x{k}x{n} {how}", _bytes(graph), {"a": a}, 1, False)


def whole(path: str, dims: dict[str, int], seed: int) -> Cell:
    """A model of the user's with inputs from the seed."""
    feeds = make_feeds(read_model(path), {}, dims, seed).arrays
    model = onnx.load(path)  # with its external data
    return Cell(Path(path).name, model.SerializeToString(), feeds, len(model.graph.node), False)


def grid(ops: Sequence[str], sizes: Sequence[int], dtypes: Sequence[str]) -> Iterator[Cell]:
    """Every op on every element type and size."""
    for op in ops:
        for dtype in dtypes:
            for size in sizes:
                yield unary(op, size, dtype)


def _chain(name: str, ops: Sequence[str], size: int, dtype: str) -> Cell:
    x = _normal((size,), dtype, 0)
    if POSITIVE & set(ops):
        x = np.abs(x)
    kind = oh.np_dtype_to_tensor_dtype(x.dtype)
    values = ["x", *(f"v{k}" for k in range(len(ops) - 1)), "y"]
    nodes = [make_node(op, [values[k]], [values[k + 1]], f"node{k}") for k, op in enumerate(ops)]
    ends = [oh.make_tensor_value_info(end, kind, [size]) for end in ("x", "y")]
    graph = oh.make_graph(nodes, "cell", ends[:1], ends[1:])
    return Cell(name, _bytes(graph), {"x": x}, len(ops), True)


def _normal(shape: tuple[int, ...], dtype: str, seed: int) -> npt.NDArray[Any]:
    values = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    return values.astype(oh.tensor_dtype_to_np_dtype(DTYPES[dtype]))


def _bytes(graph: onnx.GraphProto) -> bytes:
    opsets = [oh.make_opsetid("", OPSET), oh.make_opsetid("com.microsoft", 1)]
    model = oh.make_model(graph, opset_imports=opsets, ir_version=10)
    return bytes(model.SerializeToString())
