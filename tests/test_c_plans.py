"""Plans in the C interface: their outputs, values used many times, buffers that overlap, memory."""

import ctypes
from typing import Any

import numpy as np
import pytest

from c_plans import HOST_FAILED, OK, OVERLAP, Plan, X, call, f, operand, tensor, text
from models import AVAILABLE, FLOAT, Array, Row, assert_bits, counts_heap, one_node, oracle, python, sample, work
from ortwin.fast import counters

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
        from test_c_plans import *
        print(flat({work}))
    """
    grown = float(python(script).stdout)
    assert grown < 64, f"{grown} bytes a round"


@pytest.mark.nosanitize("AddressSanitizer keeps freed memory in quarantine")
def test_an_intermediate_lives_until_its_last_reader_only() -> None:
    script = """
    import resource
    from test_c_plans import *
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
