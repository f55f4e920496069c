"""The C interface, call by call: every status it can give."""

import ctypes
from typing import Any

import numpy as np
import pytest

from c_plans import (
    ATTR_FLOAT,
    ATTR_INT,
    ATTR_INTS,
    BAD_DTYPE,
    BAD_SHAPE,
    DLL,
    ISA_UNAVAILABLE,
    MISUSE,
    NULL_POINTER,
    OK,
    OVERFLOW,
    UNSUPPORTED,
    Plan,
    X,
    call,
    dims,
    f,
    operand,
    relu,
    tensor,
    text,
)
from models import AVAILABLE, FLOAT, Array, assert_bits
from ortwin.fast.library import OUTPUT_FN, CAttr, CNode, COperand, CTensor

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
