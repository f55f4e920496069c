"""The C library through ctypes: its functions, structures, instruction sets, counters and op table.

Structures and numbers mirror csrc/ortwin.h. Nothing is loaded before it is needed: a process that only registers the
library with ONNX Runtime must be able to unload it again.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import operator
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ortwin.ref.errors import InputError, OrtwinError, SizeError, UnsupportedError


class IsaError(OrtwinError):
    """An instruction set that is unknown, or that this CPU or operating system lacks."""


class LibraryError(OrtwinError):
    """The C library refused a call: an overlap of buffers, a misuse of the plan."""


class CError(ctypes.Structure):
    _fields_ = (("text", ctypes.c_char * 512),)


class CTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("dims", ctypes.POINTER(ctypes.c_int64)),
        ("rank", ctypes.c_size_t),
        ("bytes", ctypes.c_size_t),
        ("dtype", ctypes.c_int32),
    )


class COperand(ctypes.Structure):
    _fields_ = (("dtype", ctypes.c_int32), ("rank", ctypes.c_int32), ("dims", ctypes.POINTER(ctypes.c_int64)))


class CAttr(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("type", ctypes.c_int32),
        ("f", ctypes.c_float),
        ("i", ctypes.c_int64),
        ("s", ctypes.c_char_p),
        ("length", ctypes.c_size_t),
    )


class CNode(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("domain", ctypes.c_char_p),
        ("op_type", ctypes.c_char_p),
        ("since_version", ctypes.c_int32),
        ("inputs", ctypes.POINTER(ctypes.c_int32)),
        ("input_count", ctypes.c_size_t),
        ("output_count", ctypes.c_size_t),
        ("attrs", ctypes.POINTER(CAttr)),
        ("attr_count", ctypes.c_size_t),
    )


class COpRow(ctypes.Structure):
    _fields_ = (
        ("domain", ctypes.c_char_p),
        ("name", ctypes.c_char_p),
        ("cost_class", ctypes.c_char_p),
        ("since_version", ctypes.c_int32),
        ("dtypes", ctypes.c_uint32),
    )


TASK_FN: Final = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t)
DISPATCH_FN: Final = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, TASK_FN, ctypes.c_size_t, ctypes.c_void_p)


class CHost(ctypes.Structure):
    _fields_ = (("dispatch", DISPATCH_FN), ("context", ctypes.c_void_p), ("state", ctypes.POINTER(ctypes.c_uint32)))


OUTPUT_FN: Final = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.POINTER(CTensor))

# ortwin_attr_type
ATTR_INT: Final = 1
ATTR_INTS: Final = 2
ATTR_FLOAT: Final = 3
ATTR_FLOATS: Final = 4
ATTR_STRING: Final = 5
ATTR_STRINGS: Final = 6
ATTR_GRAPH: Final = 7
ATTR_TENSOR: Final = 8

# ortwin_status to the exception that says the same; the others are LibraryError
_ERRORS: Final[dict[int, type[OrtwinError]]] = {
    3: UnsupportedError,
    4: InputError,
    5: InputError,
    6: SizeError,
    8: SizeError,
    9: IsaError,
    11: InputError,
}


@dataclass(frozen=True)
class OpRow:
    """One row of the library's op table: a schema version of an op and the element types it is executed on."""

    domain: str
    name: str
    since_version: int
    dtypes: frozenset[int]  # ONNX element type numbers of the first input
    cost_class: str


class Library:
    """One build of the C library. Two builds can be loaded side by side; each has its own counters."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).resolve()
        try:
            self._dll = ctypes.CDLL(str(self.path))
        except OSError as error:
            raise LibraryError(f"the library can't be loaded: {error}") from error
        error_out = ctypes.POINTER(CError)
        plan, status = ctypes.c_void_p, ctypes.c_int
        slot = ctypes.POINTER(ctypes.c_int32)
        signatures: dict[str, tuple[type, tuple[type, ...]]] = {
            "plan_new": (status, (ctypes.c_char_p, ctypes.c_int32, ctypes.POINTER(plan), error_out)),
            "plan_nbits_level": (status, (plan, ctypes.c_int32, error_out)),
            "plan_input": (status, (plan, ctypes.POINTER(COperand), slot, error_out)),
            "plan_constant": (status, (plan, ctypes.POINTER(CTensor), slot, error_out)),
            "plan_node": (status, (plan, ctypes.POINTER(CNode), slot, error_out)),
            "plan_output": (status, (plan, ctypes.c_int32, error_out)),
            "plan_seal": (status, (plan, error_out)),
            "plan_run": (
                status,
                (plan, ctypes.POINTER(CTensor), ctypes.c_size_t, OUTPUT_FN, ctypes.c_void_p, error_out),
            ),
        }
        run = signatures["plan_run"][1]
        signatures["plan_run_in"] = (status, (plan, ctypes.POINTER(CHost), *run[1:]))
        signatures["parallel"] = (
            status,
            (ctypes.POINTER(CHost), ctypes.c_int32, ctypes.c_size_t, TASK_FN, ctypes.c_void_p, error_out),
        )
        for name, (result, arguments) in signatures.items():
            function = self._dll[f"ortwin_{name}"]
            function.restype, function.argtypes = result, arguments
        self._dll.ortwin_plan_free.restype = None
        self._dll.ortwin_plan_free.argtypes = (plan,)
        self._dll.ortwin_plan_isa.restype = ctypes.c_char_p
        self._dll.ortwin_plan_isa.argtypes = (plan,)
        self._dll.ortwin_plan_dtype.restype = ctypes.c_int32
        self._dll.ortwin_plan_dtype.argtypes = (plan, ctypes.c_int32)
        self._dll.ortwin_version.restype = ctypes.c_char_p
        self._dll.ortwin_piece_length.restype = ctypes.c_size_t
        self._dll.ortwin_piece_length.argtypes = (ctypes.c_char_p, ctypes.c_size_t, ctypes.c_size_t)
        self._dll.ortwin_pack_bytes.restype = None
        self._dll.ortwin_pack_bytes.argtypes = (ctypes.c_uint64,)
        for name in ("ortwin_serial_begin", "ortwin_serial_end"):
            self._dll[name].restype, self._dll[name].argtypes = None, ()

    def call(self, name: str, *arguments: object) -> None:
        """Calls ortwin_<name> with a place for its error behind the arguments; raises what its status says."""
        error = CError()
        status = self._dll[f"ortwin_{name}"](*arguments, ctypes.byref(error))
        if status:
            raise _ERRORS.get(status, LibraryError)(error.text.decode("utf-8", "replace"))

    def plan_free(self, plan: ctypes.c_void_p) -> None:
        """Frees a plan; None is allowed."""
        self._dll.ortwin_plan_free(plan)

    def plan_isa(self, plan: ctypes.c_void_p) -> str:
        """The instruction set a plan runs on."""
        return str(self._dll.ortwin_plan_isa(plan).decode())

    def plan_dtype(self, plan: ctypes.c_void_p, slot: int) -> int:
        """ONNX element type number of a value of a plan."""
        return int(self._dll.ortwin_plan_dtype(plan, slot))

    def version(self) -> str:
        """The version the library was built from."""
        return str(self._dll.ortwin_version().decode())

    def isas(self) -> dict[str, str]:
        """Instruction sets, widest first: "" where available, else the reason why not."""
        name, why = ctypes.c_char_p(), ctypes.c_char_p()
        found: dict[str, str] = {}
        while self._dll.ortwin_isa(ctypes.c_size_t(len(found)), ctypes.byref(name), ctypes.byref(why)):
            found[(name.value or b"").decode()] = (why.value or b"").decode()
        return found

    def piece_length(self, cost_class: str, length: int, row_width: int = 1) -> int:
        """Elements of the pieces that a tensor of `length` elements is cut into for several threads; `length` where it
        is not cut. row_width: the length of a bias. LibraryError: there is no such cost class."""
        piece = int(self._dll.ortwin_piece_length(cost_class.encode(), length, row_width))
        if not piece and length:
            raise LibraryError(f"there is no cost class '{cost_class}'")
        return piece

    def pack_bytes(self, count: int) -> None:
        """Bytes that the packed constant matrices of the process may take together, from now on; what was said last
        holds, and packs that are there stay. LibraryError: not 0 to 2^64 - 1."""
        self._dll.ortwin_pack_bytes(check_pack_bytes(count))

    @contextlib.contextmanager
    def serial(self) -> Iterator[None]:
        """A scope in which the runs of this thread are serial, whatever their thread budget. Scopes nest."""
        self._dll.ortwin_serial_begin()
        try:
            yield
        finally:
            self._dll.ortwin_serial_end()

    def counters(self) -> dict[str, int]:
        """Process totals since the library was loaded, by name; a Run adds its own at its end."""
        name, value = ctypes.c_char_p(), ctypes.c_uint64()
        found: dict[str, int] = {}
        while self._dll.ortwin_counter(ctypes.c_size_t(len(found)), ctypes.byref(name), ctypes.byref(value)):
            found[(name.value or b"").decode()] = value.value
        return found

    def ops(self) -> list[OpRow]:
        """The op table, in its own order."""
        return list(self._op_rows())

    def _op_rows(self) -> Iterator[OpRow]:
        row, index = COpRow(), 0
        while self._dll.ortwin_op(ctypes.c_size_t(index), ctypes.byref(row)):
            dtypes = frozenset(bit for bit in range(32) if row.dtypes >> bit & 1)
            yield OpRow(row.domain.decode(), row.name.decode(), row.since_version, dtypes, row.cost_class.decode())
            index += 1


def check_pack_bytes(count: int) -> int:
    """The number of bytes, as a plain int. LibraryError: not 0 to 2^64 - 1."""
    count = operator.index(count)
    if not 0 <= count < 1 << 64:
        raise LibraryError(f"pack_bytes must be 0 to {(1 << 64) - 1}, not {count}")
    return count


def library_path() -> Path:
    """Absolute path of the shared object: what ctypes loads, and what ONNX Runtime registers."""
    return Path(__file__).resolve().with_name("libortwin.so")


@functools.cache
def default_library() -> Library:
    """The library of this package, loaded on first use and for good."""
    return Library(library_path())


def isas() -> dict[str, str]:
    """Instruction sets of this machine, widest first: "" where available, else the reason why not."""
    return default_library().isas()


def counters() -> dict[str, int]:
    """Counters of the library, process totals since it was loaded, over ctypes and ONNX Runtime together: runs, nodes
    executed, signatures, what threads did, allocations by phase, calls of ONNX Runtime by function (csrc/counters.def
    tells of each)."""
    return default_library().counters()


def serial() -> contextlib.AbstractContextManager[None]:
    """A scope in which this thread's runs, directly or in ONNX Runtime, use this thread alone: `with serial(): ...`."""
    return default_library().serial()
