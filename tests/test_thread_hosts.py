"""Threads: which calls are cut, and what a program with a thread pool of its own is asked for.

What a thread did does not show in results, so mechanisms are tested by counters, and by hosts made up here: a host is a
program with a thread pool of its own, as ONNX Runtime is.
"""

import ctypes
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from c_plans import DLL, Plan, operand
from models import FLOAT, VERSIONS, Arguments, Row, numpy_dtype, python, with_arguments
from ortwin import fast
from ortwin.fast.library import TASK_FN
from threads import (
    BIG,
    LATCHED,
    SHORTEST,
    Host,
    inline,
    moved,
    needs_proc,
    pieces,
    plain,
    refuse,
    relu,
    repeat,
    shortest,
    spread,
    together,
)

# which calls are cut


@pytest.mark.parametrize("row", [Row(op, VERSIONS[op][-1]) for op in VERSIONS], ids=str)
def test_each_op_is_cut_from_its_threshold_on_and_asks_no_pool_below(row: Row) -> None:
    model, x = with_arguments(row, plain(row)), np.ones(shortest(row), np.float32)
    session = fast.Session(model, 2)
    counted = moved(lambda: session.run(None, {"x": x}))
    for name in ("pieces_elsewhere", "pools_built", "threads_created"):
        counted.pop(name, None)  # who was quick, and who came first
    once = {"runs": 1, "nodes_executed": 1}
    assert counted == once | {"splits": 1, "own_pool_fanouts": 1, "pieces": pieces(row, x.size)}
    assert moved(lambda: session.run(None, {"x": x[1:]})) == once
    assert moved(lambda: fast.Session(model, 1).run(None, {"x": x})) == once


@pytest.mark.parametrize("dtype", [2, 10, 11, 15])
def test_the_threshold_is_in_elements_whatever_their_size(dtype: int) -> None:
    row = Row("Identity", 25, dtype)
    session = fast.Session(with_arguments(row, Arguments()), 2)
    x = np.zeros(shortest(row), numpy_dtype(dtype))
    assert moved(lambda: session.run(None, {"x": x}))["splits"] == 1
    assert "splits" not in moved(lambda: session.run(None, {"x": x[1:]}))


@needs_proc
def test_one_thread_makes_none_and_none_is_made_before_it_is_needed() -> None:
    """In a process of its own, since a pool once built stays."""
    script = """
        from models import *
        from threads import *
        def tasks(): return len(os.listdir("/proc/self/task"))
        at_first = tasks()
        x = np.ones(BIG, np.float32)
        for op in VERSIONS:
            row = Row(op, VERSIONS[op][-1])
            fast.Session(with_arguments(row, plain(row))).run(None, {"x": x})
            fast.ort_session(with_arguments(row, plain(row))).run(None, {"x": x})
            fast.Session(with_arguments(row, plain(row)), 8).run(None, {"x": x[:shortest(row) - 1]})
        with fast.serial():
            fast.Session(with_arguments(row, plain(row)), 8).run(None, {"x": x})
        assert tasks() == at_first, (tasks(), at_first)
        counted = fast.counters()
        for name in ("splits", "probes", "host_dispatches", "own_pool_fanouts", "pools_built", "threads_created"):
            assert counted[name] == 0, name
        for threads, made in ((2, 1), (3, 2), (2, 2), (8, 7), (1, 7)):
            fast.Session(with_arguments(row, plain(row)), threads).run(None, {"x": x})
            assert tasks() == at_first + made
            assert fast.counters()["threads_created"] == made
        assert fast.counters()["pools_built"] == 1
        fast.Session(with_arguments(row, plain(row)), 1024).run(None, {"x": x})
        assert fast.counters()["threads_created"] == 63  # with the caller, one for each piece
        print("ok")
    """
    assert python(script).stdout == "ok\n"


# hosts


def elsewhere(call: Callable[[int], None], total: int) -> int:
    """One other thread does it all."""
    worker = threading.Thread(target=inline, args=(call, total))
    worker.start()
    worker.join()
    return 0


PROBES = [*range(1, 9), 72, 200, 456, 968, 1992, 3016, 4040, 5064]


def test_a_serial_host_is_asked_15_times_in_4096_calls() -> None:
    """The first 8 calls; then 64 later, the gap doubling up to 1024. And never is work in it."""
    host = Host(inline)
    asked: list[int] = []
    ran: list[int] = []
    before = fast.counters()
    for call in range(1, 5100):
        seen = len(host.totals)
        host.parallel(3, ran.append)
        if len(host.totals) > seen:
            asked.append(call)
        if call == 4096:
            assert fast.counters()["probes"] - before["probes"] == 15
    assert asked == PROBES
    assert set(host.totals) == {8}
    assert ran == [0, 1, 2] * 5099
    after = fast.counters()
    for name in ("splits", "pieces", "host_dispatches", "latches", "refusals", "own_pool_fanouts"):
        assert after[name] == before[name], name


def test_a_probe_carries_no_work() -> None:
    """While a host serves a probe nothing of the output is written; a host that loses the probe loses no work."""
    x, y = np.ones(BIG, np.float32), np.zeros(BIG, np.float32)
    untouched: list[bool] = []

    def serve(call: Callable[[int], None], total: int) -> int:
        inline(call, total)
        untouched.append(not y.any())
        return 0

    host = Host(serve)
    for lossy in (False, True):
        y[:] = 0
        host.serve = (lambda *_: 0) if lossy else serve
        assert moved(lambda: host.run(relu(), x, y))["probes"] == 1
        assert (y == 1).all()
    assert untouched == [True]


def test_a_plan_below_the_threshold_never_asks_a_host() -> None:
    host, x = Host(inline), np.ones(SHORTEST["memory"] - 1, np.float32)
    for _ in range(20):
        assert set(moved(lambda: host.run(relu(), x, np.zeros_like(x)))) == {"runs", "nodes_executed"}
    assert host.totals == []
    assert host.state.value == 0


def test_a_budget_of_one_never_asks_a_host() -> None:
    host, x = Host(spread, LATCHED), np.ones(BIG, np.float32)
    plan = relu(1)
    assert set(moved(lambda: host.run(plan, x, np.zeros_like(x)))) == {"runs", "nodes_executed"}
    host.parallel(8, threads=1)
    assert host.totals == []


@pytest.mark.stress
@pytest.mark.parametrize("serve", [spread, elsewhere])
def test_another_thread_seen_is_remembered_for_good(serve: Any) -> None:
    host, x, y = Host(serve), np.ones(BIG, np.float32), np.zeros(BIG, np.float32)
    plan = relu()
    counted = moved(lambda: host.run(plan, x, y))
    assert (counted["probes"], counted["latches"], counted["host_dispatches"], counted["splits"]) == (1, 1, 1, 1)
    assert host.state.value == LATCHED
    host.serve = inline  # even if no other thread comes any more
    for _ in range(100):
        counted = moved(lambda: host.run(plan, x, y))
        assert "probes" not in counted
        assert counted["host_dispatches"] == 1
    assert (y == 1).all()


def test_a_host_without_workers_is_not_taken_for_one_with() -> None:
    """Neither an inline dispatch, nor another thread in a dispatch that was refused, says that there are any."""

    def failing(call: Callable[[int], None], total: int) -> int:
        spread(call, total)
        return 1

    for serve in (inline, refuse, failing):
        host = Host(serve)
        counted = moved(lambda: repeat(10, lambda: host.parallel(2)))  # noqa: B023
        assert counted == {"probes": 8}, serve
        assert host.state.value == 10


@pytest.mark.stress
def test_the_budget_limits_the_turns_that_a_host_is_asked_for() -> None:
    for threads, turns in ((0, 20), (2, 2), (7, 7), (64, 20)):
        host = Host(spread, LATCHED)
        ran: list[int] = []
        host.parallel(20, ran.append, threads)
        assert host.totals == [turns]
        assert sorted(ran) == list(range(20))


def half(call: Callable[[int], None], total: int) -> int:
    """Refuses after one turn."""
    call(0)
    return 1


@pytest.mark.stress
@pytest.mark.parametrize("serve", [refuse, half])
def test_a_refused_dispatch_is_run_by_the_caller_each_piece_once(serve: Any) -> None:
    plan = Plan(None, 0)
    plan.output(plan.node("Neg", plan.input(operand(FLOAT)))).seal()
    host, y = Host(serve, LATCHED), np.ones(BIG, np.float32)
    counted = moved(lambda: host.run(plan, y, y))  # in place: a piece computed twice would come back
    assert (counted["refusals"], counted["host_dispatches"], counted["splits"]) == (1, 1, 1)
    assert (y == -1).all()
    ran: list[int] = []
    host.parallel(20, ran.append)
    assert ran == list(range(20))


@pytest.mark.stress
def test_four_threads_keep_the_state_consistent() -> None:
    """20,000 calls in no order: as many probes as in a row, 12 and one every 1024 from the 1992nd on."""
    host = Host(inline)
    before = fast.counters()["probes"]
    task = TASK_FN(lambda *_: None)

    def work() -> None:
        for _ in range(5000):
            assert DLL.ortwin_parallel(ctypes.byref(host.c), 0, 2, task, None, None) == 0

    together(4, work)
    assert fast.counters()["probes"] - before == 12 + (20_000 - 1992) // 1024 + 1
    assert host.state.value == 968 + (20_000 - 968) % 1024


@pytest.mark.stress
def test_threads_that_latch_at_once_latch_once() -> None:
    for _ in range(20):
        host = Host(spread)
        before = fast.counters()
        together(4, lambda: repeat(5, lambda: host.parallel(4)))  # noqa: B023
        after = fast.counters()
        assert after["latches"] - before["latches"] == 1
        assert after["host_dispatches"] - before["host_dispatches"] <= 20
        assert host.state.value == LATCHED
