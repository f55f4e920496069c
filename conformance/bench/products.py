"""Cells of products: A[M, K] times B[K, N], for every op of PRODUCTS, with B constant or given to every run.

An op is one entry of PRODUCTS: its type names and a function that makes its operands.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnx.helper as oh
import onnx.numpy_helper

from ortwin.conformance.bench.cells import Cell, Made, make_node, normal, serialised
from ortwin.ref.errors import InputError
from ortwin.ref.tensor import dtype_number

Array = npt.NDArray[Any]
Shape = tuple[int, int, int]
"""M, K, N."""

STANDARD_SHAPES: Final = tuple((m, size, size) for size in (2048, 3584) for m in (1, 4, 8, 128))
SIGNS: Final = ("u8u8", "u8s8", "s8u8", "s8s8")
"""Types of A and B."""
DTYPES_OF_A: Final = ("float32", "float16", "bfloat16")
CONSTANT, RUNTIME = "constant", "runtime"
B_KINDS: Final = (CONSTANT, RUNTIME)


@dataclass(frozen=True)
class Operands:
    """What a node is given. inputs: by name, in the node's order; "a" is an input of the graph in every cell, those
    that b_names names are where B is given at run time, all others are constants. output: element type."""

    inputs: dict[str, Array]
    output: np.dtype[Any]
    b_names: tuple[str, ...] = ("b",)
    attributes: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Product:
    """operands: made of M, K, N and a type name. standard: the type names of the standard grid; others: more."""

    operands: Callable[[int, int, int, str], Operands]
    standard: tuple[str, ...]
    others: tuple[str, ...] = ()


def product(op: str, shape: Shape, dtype: str, b_kind: str) -> Cell:
    """One node. InputError: the op has no such element types."""
    known = PRODUCTS[op].standard + PRODUCTS[op].others
    if dtype not in known:
        raise InputError(f"--dtype '{dtype}' is not one of {', '.join(known)}, which cells of {op} have")
    name = f"{op} {dtype} {'x'.join(map(str, shape))}" + (f" {b_kind} B" if b_kind != CONSTANT else "")
    return Cell(name, functools.partial(_make, op, shape, dtype, b_kind), 1)


def grid(op: str, shapes: Sequence[Shape], dtypes: Sequence[str], b_kinds: Sequence[str]) -> Iterator[Cell]:
    """Every shape and element type, each kind of B; no shapes, types: the standard ones."""
    for dtype in dtypes or PRODUCTS[op].standard:
        for shape in shapes or STANDARD_SHAPES:
            for b_kind in b_kinds:
                yield product(op, shape, dtype, b_kind)


def _make(op: str, shape: Shape, dtype: str, b_kind: str) -> Made:
    operands = PRODUCTS[op].operands(*shape, dtype)
    given = {"a", *operands.b_names} if b_kind == RUNTIME else {"a"}
    node = make_node(op, list(operands.inputs), ["y"], "node")
    node.attribute.extend(oh.make_attribute(name, value) for name, value in operands.attributes.items())
    graph = oh.make_graph(
        [node],
        "cell",
        [
            oh.make_tensor_value_info(name, dtype_number(array.dtype), array.shape)
            for name, array in operands.inputs.items()
            if name in given
        ],
        [oh.make_tensor_value_info("y", dtype_number(operands.output), [shape[0], shape[2]])],
        [onnx.numpy_helper.from_array(array, name) for name, array in operands.inputs.items() if name not in given],
    )
    return Made(serialised(graph), {name: array for name, array in operands.inputs.items() if name in given})


# ---- operands ----


def _floats(m: int, k: int, n: int, dtype: str) -> Operands:
    a, b = normal((m, k), dtype, 0), normal((k, n), dtype, 1)
    return Operands({"a": a, "b": b}, a.dtype)


def _transposed(m: int, k: int, n: int, dtype: str) -> Operands:
    """B as [N, K], as most exporters write a linear layer, and a bias."""
    a, b, c = normal((m, k), dtype, 0), normal((n, k), dtype, 1), normal((n,), dtype, 2)
    return Operands({"a": a, "b": b, "c": c}, a.dtype, attributes={"transB": 1})


def _bytes(m: int, k: int, n: int, signs: str) -> tuple[Array, Array, Array, Array]:
    """A and B uniform over their types, and their zero points: of A one off the middle, of B the middle."""
    found: list[Array] = []
    for seed, (shape, name, off) in enumerate((((m, k), signs[:2], 5), ((k, n), signs[2:], 0))):
        dtype = {"u8": np.uint8, "s8": np.int8}[name]
        limits = np.iinfo(dtype)
        found.append(np.random.default_rng(seed).integers(limits.min, limits.max + 1, shape, dtype))
        found.append(np.array(limits.min + 128 + off, dtype))
    return found[0], found[1], found[2], found[3]


def _matmul_integer(m: int, k: int, n: int, signs: str) -> Operands:
    a, a_zero, b, b_zero = _bytes(m, k, n, signs)
    return Operands({"a": a, "b": b, "a_zero_point": a_zero, "b_zero_point": b_zero}, np.dtype(np.int32))


def _qlinear_matmul(m: int, k: int, n: int, signs: str) -> Operands:
    """Results of A's type, whose standard deviation is a third of its range."""
    a, a_zero, b, b_zero = _bytes(m, k, n, signs)
    a_scale, b_scale = np.float32(0.02), np.float32(0.005)
    deviation = 256**2 / 12 * np.sqrt(k)  # of a sum of k products of bytes uniform about their zero points
    y_scale = np.float32(a_scale * b_scale * deviation / (128 / 3))
    inputs = {
        "a": a,
        "a_scale": np.array(a_scale),
        "a_zero_point": a_zero,
        "b": b,
        "b_scale": np.array(b_scale),
        "b_zero_point": b_zero,
        "y_scale": np.array(y_scale),
        "y_zero_point": a_zero,
    }
    return Operands(inputs, a.dtype)


def nbits_type(dtype: str, bits: int, block_size: int, level: int, zero_points: bool = False) -> str:
    """What cells of MatMulNBits call a type: that of A, bits by block size, accuracy level, whether zero points are
    given (packed; else the default ones)."""
    return f"{dtype}:{bits}x{block_size}:{level}{'z' if zero_points else ''}"


def _nbits_types(*choices: Sequence[Any]) -> tuple[str, ...]:
    return tuple(nbits_type(*choice) for choice in itertools.product(*choices))


def _matmul_nbits(m: int, k: int, n: int, name: str) -> Operands:
    """Weights uniform, scales around 1 / 2^bits."""
    dtype, form, level = name.split(":")
    bits, block_size = (int(number) for number in form.split("x"))
    blocks, rng = -(-k // block_size), np.random.default_rng(1)
    a = normal((m, k), dtype, 0)
    inputs = {
        "a": a,
        "b": rng.integers(0, 256, (n, blocks, block_size * bits // 8), np.uint8),
        "scales": ((rng.random((n, blocks)) + 0.5) / 2**bits).astype(a.dtype),
    }
    if level.endswith("z"):
        inputs["zero_points"] = rng.integers(0, 256, (n, -(-blocks * bits // 8)), np.uint8)
    attributes = {"K": k, "N": n, "bits": bits, "block_size": block_size, "accuracy_level": int(level[0])}
    return Operands(inputs, a.dtype, tuple(inputs)[1:], attributes)


PRODUCTS: Final = {
    "MatMul": Product(_floats, DTYPES_OF_A[:2], DTYPES_OF_A[2:]),  # ONNX Runtime has no bfloat16
    "Gemm": Product(_transposed, DTYPES_OF_A[:2], DTYPES_OF_A[2:]),
    "com.microsoft.MatMulNBits": Product(
        _matmul_nbits,
        (
            *_nbits_types(("float32",), (4,), (16, 32, 128), (0, 4), (False, True)),
            *_nbits_types(("float32",), (2, 8), (32,), (0, 4)),
            *_nbits_types(("float16",), (4,), (32,), (0, 4)),
        ),
        _nbits_types(DTYPES_OF_A, (2, 4, 8), (16, 32, 64, 128, 256), (0, 1, 2, 3, 4), (False, True)),
    ),
    "MatMulInteger": Product(_matmul_integer, SIGNS),
    "QLinearMatMul": Product(_qlinear_matmul, SIGNS),
}
