"""The C interface, call by call: every status it can give, and plans of many nodes.

Everything goes through ctypes without the package's wrapper, which would keep most mistakes from reaching C.
"""

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from models import AVAILABLE, FLOAT, Array, Row, assert_bits, counts_heap, one_node, oracle, python, sample, work
from ortwin.fast import counters, library_path
from ortwin.fast.library import OUTPUT_FN, CAttr, CError, CNode, COperand, CTensor, Library

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


# NULL


def test_null_where_a_pointer_is_required() -> None:
    plan, slot = Plan(), ctypes.c_int32(-7)
    h, into, what, value = plan.handle, ctypes.byref(slot), ctypes.byref(operand()), ctypes.byref(tensor(X))
    plan.input()
    good = CNode(b"n", b"", b"Relu", 14, (ctypes.c_int32 * 1)(0), 1, 1, None, 0)
    no_inputs = CNode(b"n", b"", b"Relu", 14, None, 1, 1, None, 0)
    no_attrs = CNode(b"n", b"", b"Relu", 14, (ctypes.c_int32 * 1)(0), 1, 1, None, 1)
    calls: list[tuple[Any, ...]] = [
        ("plan_new", None, 1, None),
        ("plan_input", None, what, into),
        ("plan_input", h, None, into),
        ("plan_input", h, what, None),
        ("plan_input", h, ctypes.byref(COperand(FLOAT, 1, None)), into),
        ("plan_constant", None, value, into),
        ("plan_constant", h, None, into),
        ("plan_constant", h, value, None),
        ("plan_constant", h, ctypes.byref(tensor(X, dims=None)), into),
        ("plan_constant", h, ctypes.byref(tensor(X, data=None)), into),
        ("plan_node", None, ctypes.byref(good), into),
        ("plan_node", h, None, into),
        ("plan_node", h, ctypes.byref(good), None),
        ("plan_node", h, ctypes.byref(no_inputs), into),
        ("plan_node", h, ctypes.byref(no_attrs), into),
        ("plan_output", None, 0),
        ("plan_seal", None),
    ]
    for name, *arguments in calls:
        assert call(name, *arguments) == NULL_POINTER, (name, arguments)
        assert "NULL" in text()
        assert DLL[f"ortwin_{name}"](*arguments, None) == NULL_POINTER  # without a place for the sentence
    assert slot.value == -7
    assert plan.input() == 1, "a refused call left a slot behind"


def test_null_at_run() -> None:
    plan, given = relu(), (CTensor * 1)(tensor(X))
    callback = OUTPUT_FN(lambda *_: None)
    none = OUTPUT_FN()
    for arguments in ((None, given, 1, callback), (plan.handle, None, 1, callback), (plan.handle, given, 1, none)):
        assert call("plan_run", *arguments, None) == NULL_POINTER, arguments
        assert DLL.ortwin_plan_run(*arguments, None, None) == NULL_POINTER
    for change in ({"data": None}, {"dims": None}):
        assert plan.try_run([tensor(X, **change)], lambda *_: X.ctypes.data) == NULL_POINTER, change
        assert "input 0" in text()


def test_null_where_it_means_nothing_to_do_or_the_end() -> None:
    name, why, number = ctypes.c_char_p(), ctypes.c_char_p(), ctypes.c_uint64()
    DLL.ortwin_plan_free(None)
    assert DLL.ortwin_plan_isa(None) == b""
    for function, first, second in (("ortwin_isa", name, why), ("ortwin_counter", name, number)):
        index = ctypes.c_size_t(0)
        assert DLL[function](index, ctypes.byref(first), ctypes.byref(second)) == 1
        assert DLL[function](index, None, ctypes.byref(second)) == 0
        assert DLL[function](index, ctypes.byref(first), None) == 0
        for past in (1000, 2**64 - 1):
            assert DLL[function](ctypes.c_size_t(past), ctypes.byref(first), ctypes.byref(second)) == 0
    assert DLL.ortwin_op(ctypes.c_size_t(0), None) == 0


def test_names_of_a_node_may_be_null() -> None:
    plan = Plan()
    x = plan.input()
    y = plan.node("Relu", x, name=None, domain=None)
    status, _ = plan.try_node("Relu", x, op_type=None)
    assert status == UNSUPPORTED
    status, _ = plan.try_node("Cos", x, name=None)
    assert (status, text()) == (UNSUPPORTED, "node '' (Cos): op Cos of domain ai.onnx is not implemented")
    assert_bits(plan.output(y).seal().run([X])[0], f(0, 0, 0, 3))


def test_the_domain_has_two_spellings() -> None:
    plan = Plan()
    y = plan.node("Relu", plan.input(), domain=b"ai.onnx")
    assert plan.try_node("Relu", 0, domain=b"com.example")[0] == UNSUPPORTED
    assert "domain com.example" in text()
    assert_bits(plan.output(y).seal().run([X])[0], f(0, 0, 0, 3))


# sizes, shapes, types


@pytest.mark.parametrize(
    ("change", "status", "words"),
    [
        ({"bytes": 15}, BAD_SHAPE, "the buffer has 15 bytes, its shape 16"),
        ({"bytes": 17}, BAD_SHAPE, "the buffer has 17 bytes, its shape 16"),
        ({"bytes": 0}, BAD_SHAPE, "the buffer has 0 bytes, its shape 16"),
        ({"dims": [5]}, BAD_SHAPE, "the buffer has 16 bytes, its shape 20"),
        ({"dims": [0]}, BAD_SHAPE, "the buffer has 16 bytes, its shape 0"),
        ({"dims": [-4]}, BAD_SHAPE, "dimension 0 is negative"),
        ({"dims": [-2, -2], "rank": 2}, BAD_SHAPE, "dimension 0 is negative"),
        ({"dims": [0, -1], "rank": 2, "bytes": 0}, BAD_SHAPE, "dimension 1 is negative"),
        ({"dims": [2**62, 4, 4], "rank": 3, "bytes": 0}, OVERFLOW, "does not fit in memory"),
        ({"dims": [2**32, 2**30], "rank": 2, "bytes": 0}, OVERFLOW, "does not fit in memory"),
        ({"dims": [2**63 - 1], "bytes": 2**64 - 4}, OVERFLOW, "does not fit in memory"),
        ({"dims": [2**61], "bytes": 2**63}, OVERFLOW, "does not fit in memory"),
        ({"dims": [2**61 - 1], "bytes": 16}, BAD_SHAPE, f"the buffer has 16 bytes, its shape {2**63 - 4}"),
        ({"dtype": 11}, BAD_SHAPE, "the buffer has 16 bytes, its shape 32"),
        *(({"dtype": bad}, BAD_DTYPE, "has no fixed element size") for bad in (0, -1, 8, 23, 25, 2**31 - 1)),
    ],
    ids=str,
)
def test_tensors_that_contradict_themselves(change: dict[str, Any], status: int, words: str) -> None:
    plan, slot = Plan(), ctypes.c_int32(-7)
    assert call("plan_constant", plan.handle, ctypes.byref(tensor(X, **change)), ctypes.byref(slot)) == status
    assert "constant" in text()
    assert words in text()
    assert slot.value == -7
    assert relu().try_run([tensor(X, **change)], lambda *_: pytest.fail("an output was asked for")) == status
    assert "input 0" in text()
    assert words in text()


def test_empty_tensors_need_no_data_and_huge_dimensions_beside_a_zero_are_fine() -> None:
    plan = relu()
    for shape in ((0,), (2**62, 0, 2**62), (3, 0)):
        asked: list[tuple[int, int]] = []

        def place(_index: int, given: Any, asked: list[tuple[int, int]] = asked) -> None:
            asked.append((given.bytes, given.rank))

        assert plan.try_run([CTensor(None, dims(shape), len(shape), 0, FLOAT)], place) == OK, text()
        assert asked == [(0, len(shape))]


def test_scalars_need_no_dims() -> None:
    y = np.zeros((), np.float32)
    assert relu().try_run([CTensor(f(-0.0, 5)[1:].ctypes.data, None, 0, 4, FLOAT)], lambda *_: y.ctypes.data) == OK


@pytest.mark.parametrize("dtype", [0, -1, 8, 23, 25, 99])
def test_an_input_needs_an_element_size(dtype: int) -> None:
    plan, slot = Plan(), ctypes.c_int32(-7)
    assert call("plan_input", plan.handle, ctypes.byref(operand(dtype)), ctypes.byref(slot)) == BAD_DTYPE
    assert slot.value == -7


def test_what_a_run_is_given_must_be_what_the_plan_was_built_for() -> None:
    plan = Plan()
    plan.output(plan.node("Identity", plan.input(operand(FLOAT, [-1, 3])))).seal()
    good = np.ones((2, 3), np.float32)
    assert_bits(plan.run([good])[0], good)
    bad: list[tuple[Array, int, str]] = [
        (np.ones((2, 3)), BAD_DTYPE, "input 0 is float64, the plan was built for float32"),
        (np.ones((2, 2), np.float32), BAD_SHAPE, "input 0: dimension 1 is 2, the plan was built for 3"),
        (np.ones(3, np.float32), BAD_SHAPE, "input 0 has rank 1, the plan was built for 2"),
        (np.ones((2, 3, 1), np.float32), BAD_SHAPE, "input 0 has rank 3, the plan was built for 2"),
        (np.ones((), np.float32), BAD_SHAPE, "input 0 has rank 0, the plan was built for 2"),
    ]
    for array, status, words in bad:
        assert plan.try_run([tensor(array)], lambda *_: pytest.fail("an output was asked for")) == status
        assert text() == words
    for inputs in ([], [tensor(good)] * 2):
        assert plan.try_run(inputs, lambda *_: None) == MISUSE
        assert text() == f"the plan has 1 inputs, {len(inputs)} were given"


def test_the_caller_may_forget_what_it_built_a_plan_from() -> None:
    """Names, dims, attribute lists and constants are copied."""
    plan, constant = Plan(), f(1, -2, 3)
    size = dims([3])
    x = plan.input(COperand(FLOAT, 1, size))
    k = plan.constant(constant)
    name = ctypes.create_string_buffer(b"soon_gone")
    low = (CAttr * 1)(CAttr(b"alpha", ATTR_FLOAT, 0.5, 0))
    y = plan.node("LeakyRelu", x, name=ctypes.cast(name, ctypes.c_char_p), attrs=low, attr_count=1)
    z = plan.node("Neg", k)
    size[0] = 77
    constant[:] = 55
    low[0].f = 0.25
    name.value = b"xxxx_xxxx"
    plan.output(y, z).seal()
    got = plan.run([f(-4, 0, 4)])
    assert_bits(got[0], f(-2, 0, 4))
    assert_bits(got[1], f(-1, 2, -3))
    assert plan.try_run([tensor(f(1))], lambda *_: None) == BAD_SHAPE
    assert "built for 3" in text()


# order of calls, slots, nodes


def test_a_plan_runs_only_sealed_and_changes_only_unsealed() -> None:
    plan, slot = Plan(), ctypes.c_int32(-7)
    plan.output(plan.node("Relu", plan.input()))
    assert plan.try_run([tensor(X)], lambda *_: None) == MISUSE
    assert text() == "the plan is not sealed"
    plan.seal()
    into = ctypes.byref(slot)
    relu_node = CNode(b"n", b"", b"Relu", 14, (ctypes.c_int32 * 1)(0), 1, 1, None, 0)
    late: list[tuple[Any, ...]] = [
        ("plan_input", plan.handle, ctypes.byref(operand()), into),
        ("plan_constant", plan.handle, ctypes.byref(tensor(X)), into),
        ("plan_node", plan.handle, ctypes.byref(relu_node), into),
        ("plan_output", plan.handle, 0),
        ("plan_seal", plan.handle),
    ]
    for name, *arguments in late:
        assert call(name, *arguments) == MISUSE, name
        assert text() == "the plan is sealed"
    assert slot.value == -7
    assert_bits(plan.run([X])[0], f(0, 0, 0, 3))


@pytest.mark.parametrize("threads", [-1, 1025, -(2**31), 2**31 - 1])
def test_thread_counts(threads: int) -> None:
    handle = ctypes.c_void_p(12345)
    assert call("plan_new", None, threads, ctypes.byref(handle)) == MISUSE
    assert text() == f"threads must be 0 to 1024, not {threads}"
    assert handle.value is None


def test_unknown_isa() -> None:
    handle = ctypes.c_void_p(12345)
    assert call("plan_new", b"sse9", 1, ctypes.byref(handle)) == ISA_UNAVAILABLE
    assert text() == "isa 'sse9' is unknown: choose avx512, avx2 or portable"
    assert handle.value is None


@pytest.mark.parametrize("isa", AVAILABLE)
def test_the_plan_names_its_isa(isa: str) -> None:
    assert DLL.ortwin_plan_isa(relu(isa.encode()).handle) == isa.encode()


def test_slots_that_do_not_exist() -> None:
    plan = Plan()
    x = plan.input()
    for slot in (-1, -(2**31), x + 1, 2**31 - 1):
        assert call("plan_output", plan.handle, slot) == MISUSE
        assert text() == f"slot {slot} does not exist"
    for slot in (x + 1, 2**31 - 1):
        assert plan.try_node("Relu", slot) == (MISUSE, -7)
        assert plan.try_node("Clip", x, slot) == (MISUSE, -7)
        assert text() == f"slot {slot} does not exist"
    assert plan.node("Relu", x) == x + 1, "a refused node left a slot behind"


@pytest.mark.parametrize(
    ("op", "change", "words"),
    [
        ("Cos", {}, "op Cos of domain ai.onnx is not implemented"),
        ("Relu", {"domain": b"com.microsoft"}, "op Relu of domain com.microsoft is not implemented"),
        ("relu", {}, "op relu of domain ai.onnx is not implemented"),
        ("", {}, "op  of domain ai.onnx is not implemented"),
        ("Relu", {"since_version": 15}, "Relu: since_version 15 is not implemented"),
        ("Relu", {"since_version": 0}, "Relu: since_version 0 is not implemented"),
        ("Relu", {"since_version": -14}, "Relu: since_version -14 is not implemented"),
        ("Relu", {"input_count": 0}, "takes 1 to 1 inputs and 1 output, not 0 and 1"),
        ("Relu", {"output_count": 0}, "takes 1 to 1 inputs and 1 output, not 1 and 0"),
        ("Relu", {"output_count": 2}, "takes 1 to 1 inputs and 1 output, not 1 and 2"),
        ("Clip", {"since_version": 6, "slots": [0, 0]}, "takes 1 to 1 inputs"),
        ("Clip", {"slots": [0, 0, 0, 0]}, "Clip-13 takes 1 to 3 inputs"),
        ("Relu", {"slots": [-1]}, "the first input is missing"),
        ("Clip", {"slots": [0, 2]}, "Clip: the min is int64, the input float32"),
        ("Clip", {"slots": [0, -1, 2]}, "Clip: the max is int64"),
        ("Clip", {"slots": [0, 3]}, "Clip: the min has rank 1"),
        ("Clip", {"slots": [0, -1, 3]}, "Clip: the max has rank 1"),
        ("Relu", {"slots": [1]}, "Relu-14 on float64 is not implemented"),
        ("Clip", {"slots": [1]}, "Clip-13 on float64 is not implemented"),
    ],
    ids=str,
)
def test_nodes_that_cannot_be_executed_as_written(op: str, change: dict[str, Any], words: str) -> None:
    plan = Plan()
    shapes = [operand(), operand(11), operand(7), operand(FLOAT, [-1])]
    assert [plan.input(shape) for shape in shapes] == [0, 1, 2, 3]
    members = {"slots": [0], **change}
    assert plan.try_node(op, *members.pop("slots"), **members) == (UNSUPPORTED, -7), text()
    assert text().startswith(f"node 'n' ({op}): ")
    assert words in text()
    y = plan.output(plan.node("Neg", 0)).seal()
    feeds: list[Array] = [X, np.ones(1), np.ones(1, np.int64), f(1)]
    assert_bits(y.run(feeds)[0], -X)


@pytest.mark.parametrize(
    ("op", "version", "attribute", "words"),
    [
        ("LeakyRelu", 16, (b"beta", ATTR_FLOAT), "LeakyRelu-16 has no attribute beta"),
        ("LeakyRelu", 16, (b"Alpha", ATTR_FLOAT), "LeakyRelu-16 has no attribute Alpha"),
        ("LeakyRelu", 16, (b"alpha", ATTR_INT), "LeakyRelu-16: attribute alpha has the wrong type"),
        ("LeakyRelu", 16, (b"consumed_inputs", ATTR_INTS), "LeakyRelu-16 has no attribute consumed_inputs"),
        ("LeakyRelu", 1, (b"consumed_inputs", ATTR_FLOAT), "attribute consumed_inputs has the wrong type"),
        ("Clip", 13, (b"min", ATTR_FLOAT), "Clip-13 has no attribute min"),
        ("Relu", 14, (None, ATTR_FLOAT), "Relu-14 has no attribute (NULL)"),
    ],
)
def test_attributes_that_the_schema_does_not_have(
    op: str, version: int, attribute: tuple[bytes | None, int], words: str
) -> None:
    plan = Plan()
    attrs = (CAttr * 1)(CAttr(*attribute, 0.5, 0))
    status, _ = plan.try_node(op, plan.input(), since_version=version, attrs=attrs, attr_count=1)
    assert status == UNSUPPORTED
    assert words in text()


def test_a_sentence_always_fits_and_keeps_its_rule() -> None:
    plan = Plan()
    status, _ = plan.try_node("Cos", plan.input(), name=b"n" * 5000)
    assert status == UNSUPPORTED
    assert "op Cos of domain ai.onnx is not implemented" in text()


# the host's callback


def test_an_output_without_a_buffer() -> None:
    plan = Plan()
    x = plan.input()
    plan.output(plan.node("Relu", x), x).seal()
    y = np.full(4, 99, np.float32)
    before = work()
    assert plan.try_run([tensor(X)], lambda index, _: None if index == 0 else y.ctypes.data) == HOST_FAILED
    assert text() == "node 'n' (Relu), output 0: the host gave no buffer of 16 bytes"
    assert (y == 99).all()
    assert plan.try_run([tensor(X)], lambda index, _: None if index == 1 else y.ctypes.data) == HOST_FAILED
    assert text() == "output 1: the host gave no buffer of 16 bytes"
    assert work() == before
    assert_bits(plan.run([X])[1], X)


def test_each_output_is_asked_for_once() -> None:
    plan = Plan()
    x = plan.input()
    a = plan.node("Neg", x)
    b = plan.node("Relu", a)
    plan.output(b, x, a, b).seal()
    buffers, asked = [np.zeros(4, np.float32) for _ in range(4)], []

    def place(index: int, shape: Any) -> int:
        asked.append((index, shape.rank, shape.dims[0], shape.bytes, shape.dtype))
        return buffers[index].ctypes.data

    assert plan.try_run([tensor(X)], place) == OK
    assert sorted(asked) == [(index, 1, 4, 16, FLOAT) for index in range(4)]
    for got, want in zip(buffers, (np.maximum(-X, 0), X, -X, np.maximum(-X, 0)), strict=True):
        assert_bits(got + 0, want + 0)


# plans of many nodes


def test_a_value_used_twice_and_by_one_node_twice() -> None:
    plan = Plan()
    x, k = plan.input(), plan.input(operand(FLOAT, []))
    t = plan.node("Neg", x)
    u = plan.node("Neg", k)
    plan.output(plan.node("Relu", t), plan.node("Abs", t), plan.node("Clip", t, u, u), plan.node("Sign", t)).seal()
    got = plan.run([f(-3, 2), np.array(-1, np.float32)])
    for array, want in zip(got, (f(3, 0), f(3, 2), f(1, 1), f(1, -1)), strict=True):
        assert_bits(array, want)


def test_a_scalar_as_all_three_operands() -> None:
    plan = Plan()
    x = plan.input(operand(FLOAT, []))
    t = plan.node("Neg", x)
    plan.output(plan.node("Clip", t, t, t)).seal()
    assert_bits(plan.run([np.array(5, np.float32)])[0], np.array(-5, np.float32))


def test_outputs_that_are_inputs_constants_or_listed_twice() -> None:
    plan = Plan()
    x, k = plan.input(), plan.constant(np.array([[7], [8]], np.int64))
    y = plan.node("Neg", x)
    plan.output(x, k, y, y, x, k).seal()
    got = plan.run([X])
    wants: list[Array] = [X, np.array([[7], [8]], np.int64), -X, -X, X, np.array([[7], [8]], np.int64)]
    for array, want in zip(got, wants, strict=True):
        assert_bits(array, want)


def test_a_plan_without_nodes_inputs_or_outputs() -> None:
    assert Plan().seal().run([]) == []
    plan = Plan()
    plan.input()
    assert plan.seal().run([X]) == []
    constant = Plan()
    assert_bits(constant.output(constant.node("Neg", constant.constant(X))).seal().run([])[0], -X)


def test_results_that_nobody_reads_are_computed_and_freed() -> None:
    plan = Plan()
    x = plan.input()
    for _ in range(5):
        plan.node("Neg", x)
    plan.output(plan.node("Relu", x)).seal()
    before = counters()["nodes_executed"]
    assert_bits(plan.run([X])[0], f(0, 0, 0, 3))
    assert counters()["nodes_executed"] - before == 6


@pytest.mark.parametrize("isa", AVAILABLE)
@pytest.mark.parametrize("length", [1, 7, 8, 9, 100, 1000])
def test_long_chains_and_many_outputs(isa: str, length: int) -> None:
    """More slots and outputs than a small plan keeps on the stack, and more than the arrays first had room for."""
    plan, x = Plan(isa.encode()), sample(FLOAT)
    clean = oracle(one_node(Row("Abs", 13)), {"x": x})
    constants = [plan.constant(np.full(k % 5, k, np.float32)) for k in range(length)]
    slots = [plan.input(operand(FLOAT, [x.size]))]
    slots.append(plan.node("Abs", slots[0]))
    for _ in range(length):
        slots.append(plan.node("Neg", slots[-1]))
    plan.output(*constants, *slots[1::2], slots[-1]).seal()
    got = plan.run([x])
    for k in range(length):
        assert_bits(got[k], np.full(k % 5, k, np.float32))
    flipped = oracle(one_node(Row("Neg", 13)), {"x": clean})
    for array in got[length:-1]:
        assert_bits(array, clean)
    assert_bits(got[-1], flipped if length % 2 else clean)


# buffers that overlap


def chain(outputs: str) -> Plan:
    """x -Neg-> t -Abs-> u -Neg-> y; outputs in the order of the letters."""
    plan = Plan()
    slots = {"x": plan.input()}
    for name, op, source in (("t", "Neg", "x"), ("u", "Abs", "t"), ("y", "Neg", "u")):
        slots[name] = plan.node(op, slots[source])
    return plan.output(*(slots[name] for name in outputs)).seal()


WANTS = {"x": X, "t": -X, "u": abs(X), "y": -abs(X)}


def test_in_place_across_nodes() -> None:
    """x is read by the first node only: any later result may take its place."""
    for name in "tuy":
        x = X.copy()
        assert_bits(chain(name).run([x], {0: x})[0], WANTS[name], name)
    x = X.copy()
    got = chain("yu").run([x], {1: x})
    assert_bits(got[0], WANTS["y"])
    assert_bits(got[1], WANTS["u"])


def test_an_input_that_is_read_later_may_not_be_overwritten() -> None:
    plan = Plan()
    x = plan.input()
    plan.output(plan.node("Neg", x), plan.node("Abs", x)).seal()
    first, other = X.copy(), np.zeros(4, np.float32)
    status = plan.try_run([tensor(first)], lambda index, _: (first if index == 0 else other).ctypes.data)
    assert status == OVERLAP
    assert text() == "output 0 overlaps input 0 and is not an exact in-place use"
    assert_bits(first, X)
    got = plan.run([first], {1: first})  # the last reader may
    assert_bits(got[0], -X)
    assert_bits(got[1], abs(X))


def test_an_input_that_is_an_output_too_may_not_be_overwritten_by_another() -> None:
    plan = chain("xt")
    x, other = X.copy(), np.zeros(4, np.float32)
    assert plan.try_run([tensor(x)], lambda index, _: (other if index == 0 else x).ctypes.data) == OVERLAP
    assert_bits(x, X)
    assert_bits(plan.run([x], {0: x})[0], X)  # its own copy may stay where it is


def test_two_inputs_in_one_buffer() -> None:
    """Writing over one is writing over both, so the later reader of the two decides."""
    plan = Plan()
    a, b = plan.input(), plan.input()
    plan.output(plan.node("Neg", a), plan.node("Abs", b)).seal()
    x, other = X.copy(), np.zeros(4, np.float32)
    assert plan.try_run([tensor(x)] * 2, lambda k, _: (x if k == 0 else other).ctypes.data) == OVERLAP
    assert_bits(x, X)
    got = plan.run([x, x], {1: x})
    assert_bits(got[0], -X)
    assert_bits(got[1], abs(X))


@pytest.mark.parametrize("outputs", ["tu", "ty", "ut", "yt", "xt", "xx", "tt", "ttt", "xyx"])
def test_outputs_may_not_share_bytes(outputs: str) -> None:
    plan = chain(outputs)
    memory = np.zeros(64, np.float32)
    apart = {k: memory[4 * k : 4 * k + 4] for k in range(len(outputs))}
    for got, name in zip(plan.run([X], apart), outputs, strict=True):  # neighbours do not overlap
        assert_bits(got, WANTS[name], name)
    for shift in (0, 1, 15):
        if shift == 0 and outputs[0] == outputs[1]:
            continue  # the same bytes for the same value: either answer is right
        at = [memory.ctypes.data + 64, memory.ctypes.data + 64 + shift, memory.ctypes.data + 128]
        assert plan.try_run([tensor(X)], lambda k, _, at=at: at[k]) == OVERLAP, shift  # type: ignore[misc]
        assert "overlaps output" in text()


def test_a_part_of_an_input_is_not_in_place() -> None:
    plan = Plan()
    x, low = plan.input(), plan.input(operand(FLOAT, []))
    plan.output(plan.node("Clip", x, low)).seal()
    memory = f(-1, -2, -3, 4)
    for at in range(4):  # the output starts where the bound lies, or covers it
        bound = memory[at : at + 1].reshape(())
        assert plan.try_run([tensor(X), tensor(bound)], lambda *_: memory.ctypes.data) == OVERLAP
        assert text() == "output 0 overlaps input 1 and is not an exact in-place use"
    assert_bits(memory, f(-1, -2, -3, 4))


def test_empty_tensors_overlap_nothing() -> None:
    plan = chain("tu")
    x = X[:0]
    assert plan.try_run([tensor(x)], lambda *_: x.ctypes.data) == OK


# memory


def build_and_drop() -> None:
    """Plans finished, abandoned and refused, with every list longer than it first had room for."""
    plan = Plan()
    slot = plan.input(operand(FLOAT, [-1] * 100))
    for k in range(20):
        plan.constant(np.ones(k, np.float32))
        plan.output(plan.node("Neg", slot, name=b"n" * 500))
    for op, inputs, change in (("Cos", (slot,), {}), ("Clip", (slot, 99), {}), ("Relu", (slot,), {"output_count": 2})):
        status, _ = plan.try_node(op, *inputs, name=b"n" * 500, **change)
        assert status
    assert call("plan_constant", plan.handle, ctypes.byref(tensor(X, bytes=3)), ctypes.byref(ctypes.c_int32()))
    plan.seal()


def run_well_and_badly(plan: Plan) -> None:
    x, y = np.ones((2, 1000), np.float32)
    plan.run([x])
    plan.try_run([tensor(x)], lambda *_: None)
    plan.try_run([tensor(x)], lambda k, _: None if k else y.ctypes.data)
    plan.try_run([tensor(x)], lambda *_: x.ctypes.data + 4)
    plan.try_run([tensor(x, bytes=3)], lambda *_: None)


@counts_heap
@pytest.mark.parametrize(
    "work", ["build_and_drop", *(f"partial(run_well_and_badly, chain('{o}'))" for o in ("y", "ty", "yxtyxu"))]
)
def test_nothing_leaks(work: str) -> None:
    script = f"""
        from functools import partial
        from models import flat
        from test_c_api import *
        print(flat({work}))
    """
    grown = float(python(script).stdout)
    assert grown < 64, f"{grown} bytes a round"


@pytest.mark.nosanitize("AddressSanitizer keeps freed memory in quarantine")
def test_an_intermediate_lives_until_its_last_reader_only() -> None:
    script = """
    import resource
    from test_c_api import *
    def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    plan = Plan()
    slot = plan.input()
    for _ in range(100):
        slot = plan.node("Neg", slot)
    plan.output(slot).seal()
    x = np.ones(1 << 20, np.float32)
    before = peak()
    (y,) = plan.run([x])
    assert (y == 1).all()
    print(peak() - before)
    """
    grown = int(python(script).stdout)
    assert grown < 40 * 1024, f"{grown} kB"  # output and two intermediates are 12 MB, all would be 400 MB
