"""Plans of the C interface, called through ctypes without the package's wrapper, which would keep most mistakes from
reaching C."""

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from models import FLOAT, Array
from ortwin.fast import library_path
from ortwin.fast.library import OUTPUT_FN, CError, CNode, COperand, CTensor, Library

OK, NULL_POINTER, MISUSE, UNSUPPORTED, BAD_DTYPE, BAD_SHAPE, OVERFLOW, OVERLAP = range(8)
ISA_UNAVAILABLE, HOST_FAILED = 9, 10
ATTR_INT, ATTR_INTS, ATTR_FLOAT = 1, 2, 3
PTRDIFF_MAX = 2**63 - 1

DLL: Any = Library(library_path())._dll


def call(name: str, *arguments: Any) -> int:
    """The status; its sentence is there exactly when something is wrong, and may be declined."""
    error = CError()
    ctypes.memset(ctypes.byref(error), 0, ctypes.sizeof(error))
    status: int = DLL[f"ortwin_{name}"](*arguments, ctypes.byref(error))
    assert bool(status) == bool(error.text), (status, error.text)
    call.text = error.text.decode()  # type: ignore[attr-defined]
    return status


def text() -> str:
    """The sentence of the last call."""
    said: str = call.text  # type: ignore[attr-defined]
    return said


def dims(shape: Sequence[int] | None) -> Any:
    return None if shape is None else (ctypes.c_int64 * len(shape))(*shape)


def operand(dtype: int = FLOAT, shape: Sequence[int] | None = None) -> COperand:
    return COperand(dtype, -1, None) if shape is None else COperand(dtype, len(shape), dims(shape))


def tensor(array: Array, **change: Any) -> CTensor:
    """A view of the array, with some members changed."""
    numbers = {"float32": 1, "uint8": 2, "int8": 3, "int64": 7, "float64": 11}
    made = CTensor(array.ctypes.data, dims(array.shape), array.ndim, array.nbytes, numbers[array.dtype.name])
    for member, changed in change.items():
        setattr(made, member, dims(changed) if member == "dims" else changed)
    return made


class Plan:
    """A plan under construction. Methods that must work return slots; `call` is for what must not."""

    def __init__(self, isa: bytes | None = None, threads: int = 1) -> None:
        self.handle = ctypes.c_void_p()
        assert call("plan_new", isa, threads, ctypes.byref(self.handle)) == OK, text()

    def __del__(self) -> None:
        DLL.ortwin_plan_free(self.handle)

    def input(self, what: COperand | None = None) -> int:
        slot = ctypes.c_int32(-7)
        assert call("plan_input", self.handle, ctypes.byref(what or operand()), ctypes.byref(slot)) == OK, text()
        return slot.value

    def constant(self, array: Array) -> int:
        slot = ctypes.c_int32(-7)
        assert call("plan_constant", self.handle, ctypes.byref(tensor(array)), ctypes.byref(slot)) == OK, text()
        return slot.value

    def try_node(self, op: str, *inputs: int, **change: Any) -> tuple[int, int]:
        """(status, slot)"""
        slots = (ctypes.c_int32 * max(1, len(inputs)))(*inputs)
        versions = {"Clip": 13, "Relu": 14, "HardSwish": 22, "LeakyRelu": 16}
        what = CNode(b"n", b"", op.encode(), versions.get(op, 13), slots, len(inputs), 1, None, 0)
        for member, changed in change.items():
            setattr(what, member, changed)
        slot = ctypes.c_int32(-7)
        return call("plan_node", self.handle, ctypes.byref(what), ctypes.byref(slot)), slot.value

    def node(self, op: str, *inputs: int, **change: Any) -> int:
        status, slot = self.try_node(op, *inputs, **change)
        assert status == OK, text()
        return slot

    def output(self, *slots: int) -> "Plan":
        for slot in slots:
            assert call("plan_output", self.handle, slot) == OK, text()
        return self

    def seal(self) -> "Plan":
        assert call("plan_seal", self.handle) == OK, text()
        return self

    def try_run(self, inputs: Sequence[CTensor], place: Callable[[int, Any], int | None]) -> int:
        def output(_user: int | None, index: int, shape: Any) -> int | None:
            return place(index, shape.contents)

        given = (CTensor * max(1, len(inputs)))(*inputs)
        return call("plan_run", self.handle, given, len(inputs), OUTPUT_FN(output), None)

    def run(self, inputs: Sequence[Array], into: dict[int, Array] | None = None) -> list[Array]:
        """The outputs as arrays of the size asked for; into: arrays to use for some."""
        made: dict[int, Array] = {}
        types = {1: np.float32, 2: np.uint8, 3: np.int8, 7: np.int64, 11: np.float64}

        def place(index: int, shape: Any) -> int:
            size = tuple(shape.dims[axis] for axis in range(shape.rank))
            assert not shape.data
            made[index] = (into or {}).get(index, np.full(size, 99, types[shape.dtype]))
            assert made[index].nbytes == shape.bytes
            assert made[index].shape == size
            return made[index].ctypes.data

        assert self.try_run([tensor(array) for array in inputs], place) == OK, text()
        assert sorted(made) == list(range(len(made)))
        return [made[index] for index in sorted(made)]


def relu(isa: bytes | None = None) -> Plan:
    plan = Plan(isa)
    return plan.output(plan.node("Relu", plan.input())).seal()


X = np.array([-2, -1, 0, 3], np.float32)


def f(*numbers: float) -> Array:
    return np.array(numbers, np.float32)
