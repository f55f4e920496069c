"""What tests of threads share: hosts with a thread pool of their own, counters, and what is long enough to be cut."""

import ctypes
import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from c_plans import DLL, Plan, operand, tensor
from models import AVAILABLE, FLOAT, Arguments, Array, Row, arguments, with_arguments
from ort_sessions import bind
from ortwin import fast
from ortwin.fast.library import DISPATCH_FN, OUTPUT_FN, TASK_FN, CError, CHost, CTensor, default_library

SHORTEST = {"memory": 524_288, "light": 524_288, "transcendental": 262_144, "composite": 131_072}
"""The shortest tensor that is cut, by cost class."""

LIBRARY = default_library()

COSTS = {(row.domain, row.name): row.cost_class for row in LIBRARY.ops()}

THREADS = (2, 3, 4, 7, 8, 16)

BIG = 2**20

LATCHED = 2**32 - 1

GELU = with_arguments(Row("Gelu", 20), Arguments())

COUNTED = (
    *("runs", "nodes_executed", "splits", "pieces", "pieces_elsewhere", "own_pool_fanouts", "host_dispatches"),
    *("refusals", "probes", "latches", "pools_built", "threads_created"),
)

needs_proc = pytest.mark.skipif(not os.path.exists("/proc/self/task"), reason="this system has no /proc/self/task")


def shortest(row: Row) -> int:
    return SHORTEST[COSTS[row.domain, row.name]]


def pieces(row: Row, length: int) -> int:
    return -(-length // LIBRARY.piece_length(COSTS[row.domain, row.name], length))


def moved(call: Callable[[], object]) -> dict[str, int]:
    """The counters of runs and of threads that a call moves, and by how much."""
    before = fast.counters()
    call()
    after = fast.counters()
    return {name: after[name] - before[name] for name in COUNTED if after[name] != before[name]}


def plain(row: Row) -> Arguments:
    return arguments(row)[0]


def typical(row: Row) -> Arguments:
    some = ("LeakyRelu", "ThresholdedRelu", "HardSigmoid", "Selu")
    return arguments(row)[1 if row.dtype == FLOAT and row.op in some else 0]


def run_split(make: Callable[[], Any], row: Row, x: Array) -> Array:
    """A result in ONNX Runtime of a session that has seen that its pool has workers. On a busy machine these may not
    show themselves in time, so other sessions are tried."""
    y = np.zeros_like(x)
    for attempt in range(100):
        session = make()
        for _ in range(8):
            before = fast.counters()["splits"]
            bind(session, {"x": (row.dtype, x)}, row.dtype, y)
            if fast.counters()["splits"] > before:
                return y
        time.sleep(0.001 * attempt)
    pytest.fail("in 100 sessions no other thread of the pool was seen")


WIDEST = AVAILABLE[0]


class Host:
    """A host's pool: `serve` runs a dispatch, given a way to call an index, and the dispatch's size."""

    def __init__(self, serve: Callable[[Callable[[int], None], int], int], state: int = 0) -> None:
        self.state = ctypes.c_uint32(state)
        self.totals: list[int] = []
        self.serve = serve

        def dispatch(_context: int | None, task: Any, total: int, user: int | None) -> int:
            self.totals.append(total)
            return self.serve(lambda index: task(user, index), total)

        self.dispatch = DISPATCH_FN(dispatch)
        self.c = CHost(self.dispatch, None, ctypes.pointer(self.state))

    def parallel(self, count: int, task: Callable[[int], None] = lambda _: None, threads: int = 0) -> None:
        parallel(count, task, threads, self)

    def run(self, plan: Plan, x: Array, y: Array) -> None:
        """Runs a plan of one input and one output."""
        error, given = CError(), (CTensor * 1)(tensor(x))
        output = OUTPUT_FN(lambda *_: y.ctypes.data)
        status = DLL.ortwin_plan_run_in(plan.handle, ctypes.byref(self.c), given, 1, output, None, ctypes.byref(error))
        assert status == 0, error.text


def parallel(count: int, task: Callable[[int], None], threads: int = 0, host: Host | None = None) -> None:
    called = TASK_FN(lambda _user, index: task(index))
    LIBRARY.call("parallel", ctypes.byref(host.c) if host else None, threads, count, called, None)


def repeat(count: int, call: Callable[[], None]) -> None:
    for _ in range(count):
        call()


def inline(call: Callable[[int], None], total: int) -> int:
    """No workers: everything on the thread that asks."""
    for index in range(total):
        call(index)
    return 0


def spread(call: Callable[[int], None], total: int) -> int:
    """Three workers and the caller, each of which takes every fourth index."""

    def take(first: int) -> None:
        for index in range(first, total, 4):
            call(index)

    workers = [threading.Thread(target=take, args=(first,)) for first in (1, 2, 3)]
    for worker in workers:
        worker.start()
    take(0)
    for worker in workers:
        worker.join()
    return 0


def refuse(_call: Callable[[int], None], _total: int) -> int:
    return 1


def relu(threads: int = 0) -> Plan:
    plan = Plan(None, threads)
    return plan.output(plan.node("Relu", plan.input(operand(FLOAT)))).seal()


def together(count: int, work: Callable[..., object], *each: Sequence[Any]) -> None:
    """Runs work in `count` threads at once; their exceptions are ours."""
    failures: list[BaseException] = []
    gate = threading.Barrier(count)

    def run(k: int) -> None:
        try:
            gate.wait()
            work(*(values[k] for values in each))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(k,)) for k in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
