"""Models of one node, values to try them on, and comparison of bits: shared by the tests of csrc/ and fast/.

The list of ops, versions and element types is written here once more, by hand from the ONNX text: test_tables.py holds
both op tables against it.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

from ortwin.fast import counters, isas
from ortwin.ref import Session as RefSession

Array = npt.NDArray[Any]
Attributes = Mapping[str, Any]

FLOAT, UINT8, INT8, UINT16, INT16, INT32, INT64, UINT32, UINT64 = 1, 2, 3, 4, 5, 6, 7, 12, 13
FLOAT16, BFLOAT16 = 10, 16
HALVES = (FLOAT16, BFLOAT16)
INTEGERS = (UINT8, INT8, UINT16, INT16, INT32, INT64, UINT32, UINT64)
# bool, float16, float64, complex64, complex128, bfloat16, the five float8: whole bytes, so Identity can copy them
MOVED = (FLOAT, *INTEGERS, 9, 10, 11, 14, 15, 16, 17, 18, 19, 20, 24)
CANONICAL_NAN = 0x7FC00000
HALF_NANS = {FLOAT16: 0x7E00, BFLOAT16: 0x7FC0}
"""The canonical NaN of each half type."""

VERSIONS: dict[str, tuple[int, ...]] = {
    "Identity": (1, 13, 14, 16, 19, 21, 23, 24, 25),
    "Relu": (1, 6, 13, 14),
    "LeakyRelu": (1, 6, 16),
    "ThresholdedRelu": (10, 22),
    "HardSigmoid": (1, 6, 22),
    "HardSwish": (14, 22),
    "Clip": (1, 6, 11, 12, 13),
    "Abs": (1, 6, 13),
    "Neg": (1, 6, 13),
    "Reciprocal": (1, 6, 13),
    "Sqrt": (1, 6, 13),
    "Floor": (1, 6, 13),
    "Ceil": (1, 6, 13),
    "Round": (11, 22),
    "Sign": (9, 13),
    "Softsign": (1, 22),
    "Exp": (1, 6, 13),
    "Log": (1, 6, 13),
    "Tanh": (1, 6, 13),
    "Sigmoid": (1, 6, 13),
    "Erf": (9, 13),
    "Elu": (1, 6, 22),
    "Selu": (1, 6, 22),
    "Celu": (12, 28),
    "Swish": (24,),
    "Gelu": (20,),
    "Softplus": (1, 22),
    "Mish": (18, 22),
    "com.microsoft.Gelu": (1,),
    "com.microsoft.QuickGelu": (1,),
    "com.microsoft.FastGelu": (1,),
    "Add": (1, 6, 7, 13, 14),
    "Sub": (1, 6, 7, 13, 14),
    "Mul": (1, 6, 7, 13, 14),
    "Div": (1, 6, 7, 13, 14),
}
"""By name, after its domain if that is not ai.onnx. Not those of BIASED."""

BIASED = {"com.microsoft.BiasGelu": (1,)}
"""Ops that have to be given a bias as long as the rows of x, so tests of their own: test_bias.py."""

PAIRED = ("Add", "Sub", "Mul", "Div")
"""Ops of two inputs."""

BFLOAT16_FROM = {
    **dict.fromkeys(("Relu", "Clip", "Abs", "Neg", "Reciprocal", "Sqrt", "Floor", "Ceil", "Sign"), 13),
    **dict.fromkeys(("Add", "Sub", "Mul", "Div"), 13),
    **dict.fromkeys(("Exp", "Log", "Tanh", "Sigmoid", "Erf"), 13),
    "LeakyRelu": 16,
    "Gelu": 20,
    **dict.fromkeys(
        ("ThresholdedRelu", "HardSigmoid", "HardSwish", "Round", "Softsign", "Elu", "Selu", "Softplus", "Mish"), 22
    ),
    "Swish": 24,
    "Celu": 28,
    **dict.fromkeys(("com.microsoft.Gelu", "com.microsoft.QuickGelu", "com.microsoft.FastGelu"), 1),
    "com.microsoft.BiasGelu": 1,
}
"""The first version of an op that takes bfloat16. float16 all versions take, but for Celu-12."""


@dataclass(frozen=True)
class Row:
    """An op at one schema version on one element type of its first input."""

    op: str
    version: int
    dtype: int = FLOAT

    @property
    def domain(self) -> str:
        return self.op.rpartition(".")[0]

    @property
    def name(self) -> str:
        return self.op.rpartition(".")[2]

    def __str__(self) -> str:
        return f"{self.op}-{self.version}-{numpy_dtype(self.dtype).name}"


@dataclass(frozen=True)
class Arguments:
    """What a node has besides x: attributes as (name, value), and its operands after x, None for one left out."""

    attributes: tuple[tuple[str, Any], ...] = ()
    bounds: tuple[Any, ...] = ()


def numpy_dtype(dtype: int) -> np.dtype[Any]:
    return np.dtype(helper.tensor_dtype_to_np_dtype(dtype))


def dtypes(op: str, version: int) -> tuple[int, ...]:
    if op == "Identity":
        return MOVED
    integers: tuple[int, ...] = INTEGERS if op == "Clip" and version >= 12 else ()
    if op in PAIRED and version > 1:
        integers = (INT32, INT64)
    if version >= BFLOAT16_FROM[op]:
        return (FLOAT, *HALVES, *integers)
    return (FLOAT,) if (op, version) == ("Celu", 12) else (FLOAT, FLOAT16, *integers)


ROWS = [Row(op, version, dtype) for op in VERSIONS for version in VERSIONS[op] for dtype in dtypes(op, version)]
"""Every op, version and element type."""

KERNELS = [
    *(Row(op, VERSIONS[op][-1]) for op in VERSIONS if "." not in op),
    Row("com.microsoft.FastGelu", 1),  # the others of com.microsoft run the loops of Gelu and Swish
    *(Row("Clip", 13, dtype) for dtype in INTEGERS),
    *(Row(op, 14, dtype) for op in PAIRED for dtype in (INT32, INT64)),
    *(Row("Identity", 25, dtype) for dtype in (UINT8, 10, 11, 15)),  # copies of 1, 2, 8 and 16 bytes
    Row("HardSwish", 22, FLOAT16),
    Row("Swish", 24, BFLOAT16),
]
"""One row for each loop of the C library; of those of the half types, one each: the others are in HALF_KERNELS."""

HALF_KERNELS = [Row(op, VERSIONS[op][-1], dtype) for op in VERSIONS if op != "Identity" for dtype in HALVES]
"""One row for each loop over a half type."""

ISAS = [
    pytest.param(name, marks=pytest.mark.skip(reason=f"isa {name} is not available: {why}") if why else ())
    for name, why in isas().items()
]
AVAILABLE = [name for name, why in isas().items() if not why]


def one_node(
    row: Row,
    shape: Sequence[int | str | None] | None = None,
    attributes: Attributes | None = None,
    bounds: Sequence[Array | str | None] = (),
    name: str = "node0",
) -> onnx.ModelProto:
    """A model of one node with input x and output y. A bound is an initializer, the name of a scalar input, or None."""
    inputs = [helper.make_tensor_value_info("x", row.dtype, shape)]
    initializers: list[onnx.TensorProto] = []
    names: list[str] = []
    for position, bound in enumerate(bounds):
        if isinstance(bound, str):
            if bound not in ("x", *names):
                inputs.append(helper.make_tensor_value_info(bound, row.dtype, []))
            names.append(bound)
        elif bound is None:
            names.append("")
        else:
            names.append(f"bound{position}")
            initializers.append(numpy_helper.from_array(bound, names[-1]))
    node = helper.make_node(row.name, ["x", *names], ["y"], name=name, domain=row.domain, **dict(attributes or {}))
    outputs = [helper.make_tensor_value_info("y", row.dtype, shape)]
    imports = [helper.make_opsetid(row.domain, row.version)]
    if row.domain:
        imports.append(helper.make_opsetid("", 13))  # ONNX Runtime wants it of every model
    return of_nodes([node], inputs, outputs, initializers, opset_imports=imports)


def of_nodes(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    initializers: Sequence[onnx.TensorProto] = (),
    opset: int = 13,
    **more: Any,
) -> onnx.ModelProto:
    graph = helper.make_graph(nodes, "g", inputs, outputs, initializers)
    more.setdefault("opset_imports", [helper.make_opsetid("", opset)])
    return helper.make_model(graph, ir_version=10, **more)


def value(name: str, dtype: int = FLOAT, shape: Sequence[int | str | None] | None = ("n",)) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, shape)


def node(op: str, inputs: Sequence[str], output: str, name: str = "", **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(op, inputs, [output], name=name or f"make_{output}", **attributes)


def with_arguments(row: Row, arguments: Arguments, shape: Sequence[int | str | None] | None = None) -> onnx.ModelProto:
    bounds = [_operand(row, bound) for bound in arguments.bounds]
    return one_node(row, shape, dict(arguments.attributes), bounds)


LIMITED = (("broadcast", 1),)  # before version 7 the shapes must be equal unless this is said


def _operand(row: Row, given: Any) -> Array | str | None:
    item = numpy_dtype(row.dtype)
    if isinstance(given, bytes):  # a whole tensor
        return np.frombuffer(given, item)
    return given if given is None or isinstance(given, str) else np.array(given, item)


def arguments(row: Row) -> list[Arguments]:
    """The defaults, then values that make every branch of the op matter; for the half types, one that does."""
    if row.dtype in HALVES:
        some = arguments(Row(row.op, row.version))
        return [some[0], some[-1]] if row.op == "Gelu" or (row.op == "Clip" and row.version >= 11) else some[:2]
    subnormal, huge, inf, nan = 2.0**-140, 3.0e38, float("inf"), float("nan")
    if row.op == "Gelu":
        return [Arguments(), *(Arguments((("approximate", text),)) for text in ("none", "tanh"))]
    if row.op in PAIRED:
        limited = LIMITED if row.version < 7 else ()
        single = (3, 0, -1, -7) if row.dtype != FLOAT else (3.0, 0.0, -0.0, 0.3, inf, nan, subnormal, huge)
        other = sample(row.dtype, seed=2)  # as many as the inputs that tests use
        return [*(Arguments(limited, (b,)) for b in single), Arguments((), (other.tobytes(),))]
    if row.op in ("Elu", "Swish", "com.microsoft.QuickGelu"):
        alphas = (0.3, -1.5, 0.0, -0.0, subnormal, huge, inf, -inf, nan, 1.0e-37, 50.0)
        return [Arguments(), *(Arguments((("alpha", a),)) for a in alphas)]
    if row.op == "Celu":
        return [Arguments(), *(Arguments((("alpha", a),)) for a in (0.3, 50.0, subnormal, 1.0e-37, huge))]
    if row.op == "Selu":
        pairs = [(0.3, 0.7), (-1.5, 0.1), (0.0, -0.0), (subnormal, 0.25), (huge, -huge), (inf, 0.0), (1.0, nan)]
        return [Arguments(), *(Arguments((("alpha", a), ("gamma", b))) for a, b in pairs)]
    if row.op in ("LeakyRelu", "ThresholdedRelu"):
        return [Arguments(), *(Arguments((("alpha", a),)) for a in (0.3, -1.5, 0.0, -0.0, subnormal, huge, inf, nan))]
    if row.op == "HardSigmoid":
        pairs = [(0.3, 0.7), (-1.5, 0.1), (0.0, -0.0), (subnormal, 0.25), (huge, -huge), (inf, 0.0), (1.0, nan)]
        return [Arguments(), *(Arguments((("alpha", a), ("beta", b))) for a, b in pairs)]
    if row.op != "Clip":
        return [Arguments()]
    if row.dtype == FLOAT:
        pairs = [(-1.0, 1.0), (2.0, 1.0), (0.0, -0.0), (-0.0, 0.0), (-inf, inf), (inf, -inf), (nan, 1.0), (1.0, nan)]
        pairs += [(-subnormal, subnormal)]
    else:
        limits = np.iinfo(numpy_dtype(row.dtype))
        low, high = int(limits.min), int(limits.max)
        pairs = [(low, high), (high, low), (3, 100), (100, 3), (low + 1, high - 1)]
    if row.version < 11:
        both = [Arguments((("min", lo), ("max", hi))) for lo, hi in pairs]
        return [Arguments(), *both, Arguments((("min", 0.5),)), Arguments((("max", 0.5),))]
    one, seven = pairs[0][0] + 1, 7
    partial: list[tuple[Any, ...]] = [(), (None, seven), (one,), (one, None), (None, None)]
    return [*(Arguments(bounds=pair) for pair in pairs), *(Arguments(bounds=some) for some in partial)]


@functools.cache
def specials() -> Array:
    """binary32 patterns where something changes, with both neighbours: zeros, subnormals, thirds, ties, 2^23, NaNs."""
    near = [0.0, 2.0**-149, 2.0**-126, 2.0**-64, 0.25, 0.3, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 6.0, 7.0, 2.0**22 + 0.5]
    near += [2.0**23, 2.0**24, 2.0**25, 2.0**31, 2.0**64, 2.0**127, 2.0**128 - 2.0**104, float("inf")]
    centres = np.array(near, np.float32).view(np.uint32).astype(np.int64)
    positive = np.unique((centres[:, None] + np.array([-1, 0, 1])).clip(0))
    nans = [0x7FC00000, 0x7F800001, 0x7FFFFFFF, 0x7FA5A5A5]
    magnitudes = np.concatenate([positive, nans]).astype(np.uint32)
    return np.unique(np.concatenate([magnitudes, magnitudes | np.uint32(0x80000000)])).view(np.float32)


@functools.cache
def sample(dtype: int, count: int = 509, seed: int = 1) -> Array:
    """count values of an element type, special ones and random bits mixed; read-only."""
    item = numpy_dtype(dtype)
    random = np.random.default_rng(seed)
    bits: Array = np.frombuffer(random.bytes(count * item.itemsize), np.uint8)
    if item == np.bool_:
        bits = bits & 1
    array: Array = np.frombuffer(bits.tobytes(), item).copy()
    if dtype == FLOAT:
        first = specials()[:count]
        array[: first.size] = first
        half = array[first.size :: 2]  # every other random one of moderate size, where most branches are
        half[:] = random.normal(0.0, 2.0, half.size).astype(np.float32)
        half[::2] *= np.float32(20)  # the tails of the exponential family
        array = array[random.permutation(count)]
    elif dtype in HALVES:
        with np.errstate(all="ignore"):
            array[::2] = sample(FLOAT, count, seed)[::2].astype(item)
    elif dtype in INTEGERS:
        limits = np.iinfo(item)
        edges = np.array([limits.min, limits.max, 0, 1, 2, 3, 4, 7, 99, 100, 101], item)
        array[: edges.size] = edges
    array.flags.writeable = False
    return array


def oracle(model: onnx.ModelProto, feeds: Mapping[str, Array]) -> Array:
    """The reference's first output."""
    result: Array = RefSession(model).run(None, feeds)[0]
    return result


_expected: dict[tuple[Row, str], Array] = {}


def expected(row: Row, arguments: Arguments) -> Array:
    """The reference on sample(row.dtype); read-only, computed once."""
    key = row, repr(arguments)  # as text, since 0.0 == -0.0
    if key not in _expected:
        _expected[key] = oracle(with_arguments(row, arguments), {"x": sample(row.dtype)})
        _expected[key].flags.writeable = False
    return _expected[key]


def assert_bits(got: Array, want: Array, what: object = "") -> None:
    """Equality of element type, shape and every bit."""
    assert got.dtype == want.dtype, what
    assert got.shape == want.shape, what
    if got.tobytes() == want.tobytes():
        return
    size = got.dtype.itemsize
    a, b = (np.frombuffer(array.tobytes(), np.uint8).reshape(-1, size) for array in (got, want))
    wrong = np.flatnonzero((a != b).any(axis=1))
    first = int(wrong[0])
    observed, right = (bytes(array[first][::-1]).hex() for array in (a, b))
    pytest.fail(f"{what}: {wrong.size} of {len(a)} differ, first at {first}: 0x{observed}, expected 0x{right}")


def work() -> dict[str, int]:
    """The counters of work done; a run that is refused leaves them as they are."""
    return {name: counters()[name] for name in ("runs", "nodes_executed", "nodes_folded")}


class Buffer:
    """Bytes with guards around an array at a chosen byte offset."""

    GUARD = 0xA5

    def __init__(self, offset: int, array: Array) -> None:
        self.bytes = np.full(64 + array.nbytes + 64, self.GUARD, np.uint8)
        self.array: Array = np.frombuffer(self.bytes.data, array.dtype, array.size, offset).reshape(array.shape)
        self.array[...] = array

    def assert_holds(self, want: Array, offset: int, what: object = "") -> None:
        """The array has these bits and no byte around it changed."""
        assert_bits(self.array, want, what)
        after = self.bytes[offset + want.nbytes :]
        if (self.bytes[:offset] != self.GUARD).any() or (after != self.GUARD).any():
            pytest.fail(f"{what}: bytes outside the output were written")


def quiet() -> Any:
    """Session options under which ONNX Runtime does not print what the tests provoke."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return options


def python(script: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Runs a script that can import this folder's helpers; its failure is ours."""
    path = os.pathsep.join(filter(None, [str(Path(__file__).parent), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": path, **(env or {})}
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(script)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"exit code {done.returncode}\n{done.stderr}"
    return done


class _Mallinfo(ctypes.Structure):
    """glibc's struct mallinfo2."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    )


def heap_bytes() -> int:
    """Bytes that malloc has given out in this process and not got back, all threads together."""
    gc.collect()
    function = ctypes.CDLL(None).mallinfo2
    function.restype = _Mallinfo
    info = function()
    return int(info.uordblks + info.hblkhd)


Test = TypeVar("Test", bound=Callable[..., None])


def counts_heap(test: Test) -> Test:
    """Marks a test that looks at heap_bytes."""
    present = hasattr(ctypes.CDLL(None), "mallinfo2")
    pytest.mark.skipif(not present, reason="this C library has no mallinfo2")(test)
    pytest.mark.nosanitize("AddressSanitizer has its own malloc, which keeps freed memory")(test)
    return test


def flat(make: Callable[[], object], warm_up: int = 20, rounds: int = 200) -> float:
    """Bytes of heap that a round leaves behind, once everything that is made only once has been made.

    The heap is the whole process's: what earlier tests left may go at any time, so of three measurements the flattest
    counts. A leak is in all of them.
    """
    for _ in range(warm_up):
        make()
    found: list[float] = []
    for _ in range(3):
        gc.collect()
        before = heap_bytes()
        for _ in range(rounds):
            make()
        found.append((heap_bytes() - before) / rounds)
    return min(found, key=abs)
