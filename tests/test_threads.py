"""Threads: no bit depends on how many there are, and none is made or asked for where there is nothing to win.

What a thread did does not show in results, so mechanisms are tested by counters, and by hosts made up here: a host is a
program with a thread pool of its own, as ONNX Runtime is.
"""

import ctypes
import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import models
from builds import ROOT, build_library
from models import (
    AVAILABLE,
    FLOAT,
    HALF_KERNELS,
    KERNELS,
    VERSIONS,
    Arguments,
    Array,
    Buffer,
    Row,
    arguments,
    assert_bits,
    expected,
    numpy_dtype,
    python,
    sample,
    with_arguments,
)
from ortwin import fast
from ortwin.fast.library import DISPATCH_FN, OUTPUT_FN, TASK_FN, CError, CHost, CTensor, Library, default_library
from ortwin.ref import Session as RefSession
from test_c_api import DLL, Plan, operand, tensor
from test_ort import bind

SHORTEST = {"memory": 524_288, "light": 524_288, "transcendental": 262_144, "composite": 131_072}
"""The shortest tensor that is cut, by cost class."""

LIBRARY = default_library()
COSTS = {(row.domain, row.name): row.cost_class for row in LIBRARY.ops()}
THREADS = (2, 3, 4, 7, 8, 16)
BIG = 2**20
ALL_LENGTHS = sorted({n + d for n in (16, 4096, *SHORTEST.values(), BIG) for d in (-1, 0, 1)})
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


# where a tensor is cut


def test_the_cut_is_whole_rows_of_multiples_of_16_in_at_most_64_pieces() -> None:
    """Swept as a function alone, to lengths of 2^62 and widths of 2^31."""
    random = np.random.default_rng(6)
    near = [2**k for k in (0, 4, 12, 16, 17, 18, 19, 20, 22, 24, 31, 32, 33, 47, 62)]
    lengths = {n + d for n in near for d in (-17, -16, -1, 0, 1, 15, 16) if n + d >= 0}
    lengths |= {int(2 ** random.uniform(15, 62)) for _ in range(60)}
    widths = {1, 2, 3, 7, 11, 15, 16, 17, 48, 64, 4096, 4099, 2**20, 2**31 - 1, 2**31}
    widths |= {int(2 ** random.uniform(0, 31)) for _ in range(40)}
    cut = 0
    for cost, limit in SHORTEST.items():
        for width in widths:
            for length in lengths:
                piece = LIBRARY.piece_length(cost, length, width)
                if piece == length:
                    continue
                cut += 1
                assert 0 < piece < length
                assert length >= limit
                assert piece % 16 == 0, "a piece starts off the grid of 16 elements"
                assert piece % width == 0, "a row is cut"
                assert 2 <= -(-length // piece) <= 64, "too many pieces, or one that is empty"
    assert cut > 5000


@pytest.mark.parametrize("cost", SHORTEST)
def test_what_is_cut(cost: str) -> None:
    for length in (0, 1, 15, 16, 17, 4096, SHORTEST[cost] - 1):
        assert LIBRARY.piece_length(cost, length) == length
    for length in (SHORTEST[cost], SHORTEST[cost] + 1, BIG - 1, BIG, BIG + 1, 2**62, 2**64 - 1):
        assert LIBRARY.piece_length(cost, length) < length
    assert 2**62 // LIBRARY.piece_length(cost, 2**62) == 64
    for width in (0, 2**60 + 1, 2**61 + 2, 2**63 - 1, 2**64 - 1):  # no row, and rows of which 16 overflow
        assert LIBRARY.piece_length(cost, 2**64 - 1, width) == 2**64 - 1, width
    assert LIBRARY.piece_length(cost, BIG, BIG) == BIG  # a single row
    assert LIBRARY.piece_length(cost, 2 * BIG + 2, BIG + 1) == 2 * BIG + 2  # 16 rows of an odd width are too many
    with pytest.raises(fast.LibraryError, match="there is no cost class 'heavy'"):
        LIBRARY.piece_length("heavy", 5)


# C1: the bits


def compare(session: Any, row: Row, count: int, offset: int, what: str) -> None:
    """Runs on `count` elements at a byte offset; the reference's results repeat, as the values do."""
    values, want = sample(row.dtype), expected(row, typical(row))
    x, y = Buffer(offset, np.resize(values, count)), Buffer((offset * 7 + 3) % 64, np.zeros(count, values.dtype))
    session.run_into({"y": y.array}, {"x": x.array})
    y.assert_holds(np.resize(want, count), (offset * 7 + 3) % 64, what)


@pytest.mark.parametrize("row", KERNELS, ids=str)
def test_bits_are_those_of_one_thread(row: Row) -> None:
    """Own pool; lengths around each boundary. Longer tensors with another number of threads each."""
    around = [n + d for n in (16, 4096, 65536, shortest(row), BIG) for d in (-1, 0, 1)]
    sessions = {threads: fast.Session(with_arguments(row, typical(row)), threads) for threads in THREADS}
    before, cut = fast.counters(), 0
    for k, count in enumerate(around):
        threads = THREADS[k % len(THREADS)]
        compare(sessions[threads], row, count, k % 5 * 13, f"{count} elements, {threads} threads")
        cut += count >= shortest(row)
    for threads in THREADS:
        compare(sessions[threads], row, shortest(row) + 17 * threads, threads, f"{threads} threads")
    assert fast.counters()["splits"] - before["splits"] == cut + len(THREADS)


@pytest.mark.parametrize("row", HALF_KERNELS, ids=str)
def test_bits_of_the_half_types_are_those_of_one_thread(row: Row) -> None:
    threads = THREADS[HALF_KERNELS.index(row) % len(THREADS)]
    session, before = fast.Session(with_arguments(row, typical(row)), threads), fast.counters()
    for k, extra in enumerate((-1, 0, 1, 4099)):
        compare(session, row, shortest(row) + extra, 7 * k, f"{extra} elements more, {threads} threads")
    assert fast.counters()["splits"] - before["splits"] == 3


@pytest.mark.long("every length with every number of threads on every instruction set")
@pytest.mark.parametrize("row", [*KERNELS, *HALF_KERNELS], ids=str)
def test_bits_are_those_of_one_thread_in_full(row: Row) -> None:
    for isa in AVAILABLE:
        for threads in (1, *THREADS):
            session = fast.Session(with_arguments(row, typical(row)), threads, isa)
            for count in ALL_LENGTHS:
                compare(session, row, count, count * threads % 64, f"{count} elements, {threads} threads, {isa}")


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


@pytest.mark.parametrize("row", [row for row in KERNELS if row.dtype not in (14, 15)], ids=str)
def test_bits_are_those_of_one_thread_in_onnx_runtime(row: Row) -> None:
    check_onnx_runtime(row, THREADS[KERNELS.index(row) % len(THREADS)], [shortest(row) + 5], None)


@pytest.mark.long("every length with every number of threads on every instruction set, in ONNX Runtime")
@pytest.mark.parametrize("row", [row for row in KERNELS if row.dtype not in (14, 15)], ids=str)
def test_bits_are_those_of_one_thread_in_onnx_runtime_in_full(row: Row) -> None:
    for isa in AVAILABLE:
        for threads in (1, *THREADS):
            counts = [15, 16, 17, 4096, *(shortest(row) + d for d in (-1, 0, 1)), BIG + 1]
            check_onnx_runtime(row, threads, counts, isa)


def check_onnx_runtime(row: Row, threads: int, counts: Sequence[int], isa: str | None) -> None:
    model = with_arguments(row, typical(row))

    def make() -> Any:
        return fast.ort_session(model, threads=threads, isa=isa, session_options=models.quiet())

    for count in counts:
        x, want = np.resize(sample(row.dtype), count), np.resize(expected(row, typical(row)), count)
        y = np.zeros_like(x)
        if count >= shortest(row) and threads > 1:
            y = run_split(make, row, x)
        else:
            bind(make(), {"x": (row.dtype, x)}, row.dtype, y)
        assert_bits(y, want, f"{count} elements, {threads} threads")


@pytest.mark.stress
def test_chains_constants_and_copied_outputs_are_computed_in_pieces_too() -> None:
    """The three nodes are one chain, which is cut as a whole; an output that is an input is bytes to move, cut too."""
    nodes = [models.node("Tanh", ["x"], "t"), models.node("Identity", ["t"], "u"), models.node("Neg", ["u"], "y")]
    model = models.of_nodes(nodes, [models.value("x")], [models.value(name) for name in "yux"])
    x = np.resize(sample(FLOAT), BIG + 3)
    wants = fast.Session(model).run(None, {"x": x})
    session, got = fast.Session(model, 3), []
    counted = moved(lambda: got.extend(session.run(None, {"x": x})))
    assert counted["splits"] == 2
    for array, want in zip(got, wants, strict=True):
        assert_bits(array, want)


@pytest.mark.stress
@pytest.mark.parametrize("threads", [2, 4, 16])
def test_pieces_of_a_chain_that_run_at_once_have_buffers_of_their_own(threads: int) -> None:
    """What only the chain itself reads is never whole: each piece that may run beside others needs its own place."""
    nodes = [
        models.node("Tanh", ["x"], "a"),
        models.node("Neg", ["x"], "b"),
        models.node("Add", ["a", "b"], "c"),
        models.node("Mul", ["a", "c"], "d"),
        models.node("Sub", ["b", "d"], "e"),
        models.node("Sigmoid", ["e"], "y"),
        models.node("Sqrt", ["c"], "unread"),
    ]
    model = models.of_nodes(nodes, [models.value("x")], [models.value("y")])
    x = np.resize(sample(FLOAT, 100_003), BIG + 21)
    (want,) = fast.Session(model).run(None, {"x": x})
    assert_bits(want[:3000], RefSession(model).run(None, {"x": x[:3000]})[0])
    session = fast.Session(model, threads)
    for _ in range(10):
        got: list[Array] = []
        counted = moved(lambda: got.extend(session.run(None, {"x": x})))  # noqa: B023
        assert counted["splits"] == 1
        assert_bits(got[0], want)
    with fast.serial():
        assert_bits(session.run(None, {"x": x})[0], want, "serial")


@pytest.mark.stress
@pytest.mark.parametrize("dtype", [FLOAT, 10, 16, 6, 7])
def test_broadcasting_operands_are_walked_from_where_a_piece_begins(dtype: int) -> None:
    """Rows, columns and both, within a chain: a piece begins anywhere in them."""
    nodes = [
        models.node("Add", ["x", "row"], "a"),
        models.node("Mul", ["column", "a"], "b"),
        models.node("Sub", ["b", "cube"], "y"),
    ]
    height, width = 1031, 509
    shapes = {"x": (2, height, width), "row": (width,), "column": (height, 1), "cube": (2, 1, 1)}
    inputs = [models.value(name, dtype, shape) for name, shape in shapes.items()]
    model = models.of_nodes(nodes, inputs, [models.value("y", dtype, shapes["x"])], opset=14)
    feeds = {name: np.resize(sample(dtype, 4001, k), shape) for k, (name, shape) in enumerate(shapes.items())}
    (want,) = fast.Session(model).run(None, feeds)
    for threads in THREADS:
        session, got = fast.Session(model, threads), []
        counted = moved(lambda: got.extend(session.run(None, feeds)))  # noqa: B023
        assert counted["splits"] == 1
        assert_bits(got[0], want, threads)


@pytest.mark.stress
def test_in_place() -> None:
    row = Row("Neg", 13)
    x = np.resize(sample(FLOAT), BIG + 1)
    want = fast.Session(with_arguments(row, Arguments())).run(None, {"x": x})[0]
    session = fast.Session(with_arguments(row, Arguments()), 4)
    for _ in range(5):
        y = x.copy()
        session.run_into({"y": y}, {"x": y})
        assert_bits(y, want)


WIDEST = AVAILABLE[0]


@pytest.fixture(scope="module")
def altered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A build all whose kernel sets but the widest negate Abs; which reads its cgroups from its own folder, and thinks
    that it may use 64 CPUs but for those."""
    folder = tmp_path_factory.mktemp("altered")
    source = (ROOT / "csrc" / "kernels" / "unary.h").read_text(encoding="utf-8")
    assert source.count("or_nan(vf_abs(x), x, x)") == 1
    others = [isa for isa in AVAILABLE if isa != WIDEST]
    changes = {f"simd/{isa}.c": ("kernels/unary.h", "kernels/wrong.h") for isa in others}
    changes["run/affinity.c"] = ("granted_cpus(masked_cpus())", "granted_cpus(64 + 0 * masked_cpus())")
    files = {"kernels/wrong.h": source.replace("or_nan(vf_abs(x), x, x)", "or_nan(vf_neg(vf_abs(x)), x, x)")}
    paths = {'"/proc/self/cgroup"': f'"{folder / "self"}"', '"/sys/fs/cgroup': f'"{folder / "cgroup"}'}
    return build_library(folder, changes, files, {"run/affinity.c": paths})


@pytest.mark.skipif(len(AVAILABLE) < 2, reason="this machine has one kernel set only")
def test_the_kernel_is_the_plans_for_every_piece(altered: Path) -> None:
    """However short the last piece is, no other set than the plan's is used."""
    library = Library(altered)
    model = with_arguments(Row("Abs", 13), Arguments())
    x = np.linspace(-3, 5, BIG, dtype=np.float32)
    assert (fast.Session(model, isa=AVAILABLE[-1], library=library).run(None, {"x": x})[0] <= 0).all()
    session = fast.Session(model, 4, isa=WIDEST, library=library)
    for count in (*range(1, 70), 1000, 4097, SHORTEST["memory"], SHORTEST["memory"] + 1, BIG - 1, BIG):
        assert_bits(session.run(None, {"x": x[:count]})[0], np.abs(x[:count]), f"{count} elements")


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
        from test_threads import *
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


def elsewhere(call: Callable[[int], None], total: int) -> int:
    """One other thread does it all."""
    worker = threading.Thread(target=inline, args=(call, total))
    worker.start()
    worker.join()
    return 0


def refuse(_call: Callable[[int], None], _total: int) -> int:
    return 1


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


def relu(threads: int = 0) -> Plan:
    plan = Plan(None, threads)
    return plan.output(plan.node("Relu", plan.input(operand(FLOAT)))).seal()


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


# one split at a time


def meeting() -> Callable[[], None]:
    """A function that returns on the first thread only after another thread has called it too."""
    seen: set[int] = set()

    def meet() -> None:
        seen.add(threading.get_ident())
        end = time.monotonic() + 20
        while len(seen) < 2 and time.monotonic() < end:
            time.sleep(0.0005)
        assert len(seen) > 1, "no other thread came"

    return meet


@pytest.mark.stress
@pytest.mark.parametrize("pool", ["own", "host"])
def test_a_split_inside_a_task_is_serial(pool: str) -> None:
    host = Host(spread, LATCHED) if pool == "host" else None
    x, want = np.resize(sample(FLOAT), BIG), np.resize(expected(Row("Relu", 14), Arguments()), BIG)
    plans = [relu(4) for _ in range(8)]
    results = [np.zeros(BIG, np.float32) for _ in range(8)]
    meet = meeting()

    def task(index: int) -> None:
        meet()
        if host:
            host.run(plans[index], x, results[index])
        else:
            plans[index].run([x], {0: results[index]})
        parallel(3, lambda _: None, 4, host)

    counted = moved(lambda: parallel(8, task, 4, host))
    assert counted["splits"] == 1
    assert counted["pieces"] == 8
    assert counted["pieces_elsewhere"] > 0
    assert counted["runs"] == 8
    assert counted.get("own_pool_fanouts", 0) + counted.get("host_dispatches", 0) == 1
    assert "probes" not in counted
    for result in results:
        assert_bits(result, want)
    assert moved(lambda: parallel(8, lambda _: None, 4, host))["splits"] == 1, "the thread stayed serial"


@pytest.mark.stress
@pytest.mark.parametrize("pool", ["own", "host"])
def test_the_serial_scope(pool: str) -> None:
    """It nests, ends on every path out, and is the calling thread's alone."""
    host = Host(spread, LATCHED) if pool == "host" else None

    def split() -> bool:
        return "splits" in moved(lambda: parallel(4, lambda _: None, 3, host))

    assert split()
    with fast.serial():
        assert not split()
        with fast.serial():
            assert not split()
        assert not split()
        others: list[bool] = []
        other = threading.Thread(target=lambda: others.append(split()))
        other.start()
        other.join()
        assert others == [True]
    assert split()
    with pytest.raises(ZeroDivisionError), fast.serial(), fast.serial():
        assert 1 / 0
    assert split()
    DLL.ortwin_serial_end()  # one too many means nothing
    assert split()
    with fast.serial():
        assert not split()


def test_the_serial_scope_holds_in_onnx_runtime() -> None:
    row = Row("Tanh", 13)
    session = fast.ort_session(with_arguments(row, Arguments()), threads=2)
    x = np.ones(BIG, np.float32)
    with fast.serial():
        counted = moved(lambda: session.run(None, {"x": x}))
    assert counted == {"runs": 1, "nodes_executed": 1}


# callers and results


def check_eight_callers(session: Any, row: Row) -> None:
    values, want = sample(row.dtype), expected(row, typical(row))

    def work(count: int, shift: int) -> None:
        x, y = np.resize(np.roll(values, shift), count), np.resize(np.roll(want, shift), count)
        for _ in range(10):
            assert_bits(session.run(None, {"x": x})[0], y)

    together(8, work, [shortest(row) + 1001 * k for k in range(8)], [37 * k for k in range(8)])


@pytest.mark.stress
def test_eight_callers_of_one_session_get_their_own_results() -> None:
    row = Row("Sigmoid", 13)
    check_eight_callers(fast.Session(with_arguments(row, Arguments()), 4), row)


def test_eight_callers_of_one_session_in_onnx_runtime_get_their_own_results() -> None:
    """Not among the stress tests: of ONNX Runtime's threads ThreadSanitizer would report every access."""
    row = Row("Sigmoid", 13)
    check_eight_callers(fast.ort_session(with_arguments(row, Arguments()), threads=3), row)


@pytest.mark.stress
def test_many_callers_of_many_sessions_in_pools_of_every_kind() -> None:
    """The library's pool grows while it is at work; hosts are found out while others use them."""
    x = np.linspace(-4, 4, 140_000, dtype=np.float32)
    want = fast.Session(GELU).run(None, {"x": x})[0]
    sessions = [fast.Session(GELU, threads) for threads in (0, *THREADS, 1)]
    hosts = [Host(spread), Host(inline), Host(refuse, LATCHED)]

    def work(seed: int) -> None:
        random = np.random.default_rng(seed)
        for _ in range(15):
            assert_bits(sessions[random.integers(8)].run(None, {"x": x})[0], want)
            ran: list[int] = []
            parallel(9, ran.append, 3, hosts[random.integers(3)])
            assert sorted(ran) == list(range(9))

    together(8, work, range(8))


@pytest.mark.stress
def test_what_ran_elsewhere_is_counted() -> None:
    meet = meeting()
    ran: dict[int, int] = {}

    def task(index: int) -> None:
        ran[index] = threading.get_ident()
        meet()

    counted = moved(lambda: parallel(40, task, 3))
    assert sorted(ran) == list(range(40))
    assert counted["pieces"] == 40
    assert counted["pieces_elsewhere"] == sum(who != threading.get_ident() for who in ran.values()) > 0


def test_parallel_refuses_bad_arguments() -> None:
    task, error = TASK_FN(lambda *_: None), CError()
    for threads in (-1, 1025):
        assert DLL.ortwin_parallel(None, threads, 2, task, None, ctypes.byref(error)) == 2
        assert error.text == f"threads must be 0 to 1024, not {threads}".encode()
    assert DLL.ortwin_parallel(None, 2, 2, TASK_FN(), None, ctypes.byref(error)) == 1
    assert error.text == b"task is NULL"
    for host in (CHost(DISPATCH_FN(), None, None), CHost(DISPATCH_FN(lambda *_: 0), None, None)):
        assert DLL.ortwin_parallel(ctypes.byref(host), 2, 2, task, None, ctypes.byref(error)) == 1
        assert error.text == b"a member of the host is NULL"
    parallel(0, lambda _: pytest.fail("there is no task"))


# C4


def test_tasks_run_in_the_floating_point_state_of_the_contract_c4() -> None:
    """On the library's threads and on a host's, which may be in any state and get it back."""
    fpstate = pytest.importorskip("test_fpstate", reason="it needs MXCSR")
    odd = fpstate.DEFAULT | fpstate.FTZ | fpstate.DAZ | fpstate.UP
    after: list[int] = []

    def odd_workers(call: Callable[[int], None], total: int) -> int:
        def work(first: int) -> None:
            fpstate.set_mxcsr(odd)
            for index in range(first, total, 2):
                call(index)
            after.append(fpstate.mxcsr() & ~fpstate.FLAGS)

        worker = threading.Thread(target=work, args=(1,))
        worker.start()
        for index in range(0, total, 2):
            call(index)
        worker.join()
        return 0

    for host in (None, Host(odd_workers, LATCHED)):
        meet = meeting()
        found: dict[int, set[int]] = {}

        def task(_index: int, meet: Any = meet, found: dict[int, set[int]] = found) -> None:
            found.setdefault(threading.get_ident(), set()).add(fpstate.mxcsr() & ~fpstate.FLAGS)
            meet()

        with fpstate.state(odd):
            parallel(16, task, 2, host)
            given_back = fpstate.mxcsr() & ~fpstate.FLAGS
        assert given_back == odd
        assert len(found) > 1
        assert set().union(*found.values()) == {fpstate.DEFAULT}
    assert after == [odd]


def test_flush_to_zero_on_the_threads_of_onnx_runtime_changes_nothing_c4() -> None:
    """In a process of its own, since ONNX Runtime sets the state of its threads once."""
    script = """
        from models import oracle
        from test_threads import *
        row = Row("LeakyRelu", 16)
        x = np.resize(np.float32([1e-40, -1e-40, -3e-39]), SHORTEST["memory"])
        model = with_arguments(row, Arguments((("alpha", 0.5),)))
        def make(): return fast.ort_session(model, threads=3, **{"session.set_denormal_as_zero": "1"})
        want = np.resize(oracle(model, {"x": x[:3]}), x.size)
        for _ in range(300):  # until one of those threads had a share, for which a busy machine takes long
            assert_bits(run_split(make, row, x), want)
            if fast.counters()["pieces_elsewhere"]:
                break
        assert fast.counters()["pieces_elsewhere"] > 0
        print("ok")
    """
    assert python(script).stdout == "ok\n"


# ONNX Runtime's pool


def long_way(model: onnx.ModelProto, intra_op: int, **options: str) -> Any:
    """A session as anyone makes it who does not use ort_session."""
    import onnxruntime

    fast.register()
    settings = models.quiet()
    settings.intra_op_num_threads = intra_op
    settings.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    devices = [device for device in onnxruntime.get_ep_devices() if device.ep_name == "ortwin"]
    settings.add_provider_for_devices(devices, options)
    return onnxruntime.InferenceSession(model.SerializeToString(), settings)


@pytest.mark.parametrize("option", [{}, {"threads": "0"}, {"threads": "auto"}, {"threads": "4"}], ids=str)
def test_a_session_of_one_thread_is_asked_15_times_in_4096_calls(option: dict[str, str]) -> None:
    session, calls = long_way(GELU, 1, **option), 4096 if not option else 10
    binding = session.io_binding()
    x, y = np.ones(SHORTEST["composite"], np.float32), np.zeros(SHORTEST["composite"], np.float32)
    binding.bind_input("x", "cpu", 0, FLOAT, [x.size], x.ctypes.data)
    binding.bind_output("y", "cpu", 0, FLOAT, [x.size], y.ctypes.data)
    counted = moved(lambda: [session.run_with_iobinding(binding) for _ in range(calls)])
    assert counted == {"runs": calls, "nodes_executed": calls, "probes": 15 if not option else 8}


def test_a_session_of_several_threads_is_found_out_once_for_all_its_nodes() -> None:
    nodes = [models.node("Tanh", [f"t{k}"], f"t{k + 1}") for k in range(5)]
    model = models.of_nodes(nodes, [models.value("t0")], [models.value("t5")])
    makers: list[Callable[[], Any]] = [
        lambda: long_way(model, 3, group="node"),
        lambda: fast.ort_session(model, threads=3, group="node"),
    ]
    for make in makers:
        before, x = fast.counters(), np.ones(BIG, np.float32)
        for attempt in range(100):
            session = make()
            for _ in range(3):
                session.run(None, {"t0": x})
            if fast.counters()["latches"] > before["latches"]:
                break
            time.sleep(0.001 * attempt)
        counted = moved(lambda: [session.run(None, {"t0": x}) for _ in range(20)])  # noqa: B023
        assert counted["host_dispatches"] == counted["splits"] == 100
        assert "probes" not in counted
        assert "own_pool_fanouts" not in counted
        assert "refusals" not in counted
    assert moved(lambda: long_way(model, 3, threads="1").run(None, {"t0": x})) == {"runs": 1, "nodes_executed": 5}


# processes


@needs_proc
def test_idle_threads_sleep() -> None:
    script = """
        from test_threads import *
        session, x = fast.Session(GELU, 4), np.ones(BIG, np.float32)
        for _ in range(10):
            session.run(None, {"x": x})
        time.sleep(0.05)
        before = time.process_time()
        time.sleep(2)
        print(time.process_time() - before)
    """
    used = float(python(script).stdout)
    assert used < 0.02, f"{used} s of CPU time in 2 s"


def test_a_forked_child_works() -> None:
    """Also when the parent's threads are at work at that moment; the child makes threads of its own."""
    script = """
        import warnings
        from test_threads import *
        warnings.simplefilter("ignore")  # newer Pythons warn of any fork with threads
        x = np.linspace(-3, 3, BIG, dtype=np.float32)
        session = fast.Session(GELU, 4)
        want = fast.Session(GELU).run(None, {"x": x})[0]

        def child():
            ok = True
            for _ in range(3):
                ok = ok and session.run(None, {"x": x})[0].tobytes() == want.tobytes()
            ok = ok and fast.Session(GELU, 2).run(None, {"x": x})[0].tobytes() == want.tobytes()
            return ok

        def check(built):
            pid = os.fork()
            if pid == 0:
                before = fast.counters()
                try:
                    ok = child()
                    after = fast.counters()
                    ok = ok and after["pools_built"] - before["pools_built"] == 1
                    ok = ok and after["threads_created"] - before["threads_created"] == 3
                    ok = ok and len(os.listdir("/proc/self/task")) == 4
                finally:
                    os._exit(0 if ok else 1)
            end = time.monotonic() + 60
            while True:
                done, status = os.waitpid(pid, os.WNOHANG)
                if done:
                    assert status == 0, status
                    return
                if time.monotonic() > end:
                    os.kill(pid, 9)
                    raise AssertionError("the child hangs")
                time.sleep(0.01)

        check(0)  # before there are threads
        assert child()
        check(1)
        stop = []
        def busy():
            while not stop:
                session.run(None, {"x": x})
        threads = [threading.Thread(target=busy) for _ in range(2)]
        for thread in threads: thread.start()
        for _ in range(10):
            check(1)
        stop.append(1)
        for thread in threads: thread.join()
        assert child()
        print("ok")
    """
    assert python(script).stdout == "ok\n"


def test_a_forked_child_ends_in_the_ordinary_way() -> None:
    """Without onnxruntime, which waits at exit for a thread of its own that the child does not have."""
    script = """
        import os, sys, warnings
        import numpy as np
        from onnx import helper
        from ortwin import fast
        warnings.simplefilter("ignore")
        x, y = (helper.make_tensor_value_info(name, 1, ["n"]) for name in "xy")
        graph = helper.make_graph([helper.make_node("Tanh", ["x"], ["y"])], "g", [x], [y])
        session = fast.Session(helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 13)]), 4)
        X = np.ones(1 << 20, np.float32)
        session.run(None, {"x": X})
        for work in (False, True):
            pid = os.fork()
            if pid == 0:
                if work:
                    session.run(None, {"x": X})
                sys.exit(7)
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
        assert "onnxruntime" not in sys.modules
        print("ok")
    """
    assert python(script).stdout == "ok\n"


@needs_proc
@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system has no affinity masks")
def test_a_restricted_cpu_set_decides_where_the_caller_does_not() -> None:
    script = """
        import os
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # as taskset does
        from test_threads import *
        x = np.resize(sample(FLOAT), BIG)
        want = fast.Session(GELU).run(None, {"x": x})[0]
        assert_bits(fast.Session(GELU, 0).run(None, {"x": x})[0], want)
        counted = fast.counters()
        assert (counted["threads_created"], counted["pools_built"], counted["splits"]) == (0, 0, 0), counted
        for _ in range(3):
            assert_bits(fast.Session(GELU, 4).run(None, {"x": x})[0], want)
        assert fast.counters()["threads_created"] == 3
        assert_bits(fast.ort_session(GELU, threads=3).run(None, {"x": x})[0], want)
        print("ok")
    """
    assert python(script).stdout == "ok\n"


def test_without_a_budget_there_is_a_thread_for_each_usable_cpu() -> None:
    script = """
        from test_threads import *
        fast.Session(GELU, 0).run(None, {"x": np.ones(BIG, np.float32)})
        cpus = len(os.sched_getaffinity(0))
        made = fast.counters()["threads_created"]
        assert made <= min(cpus, 64) - 1  # a quota may make it fewer
        print("ok")
    """
    assert python(script).stdout == "ok\n"


CGROUPS: dict[str, tuple[str, dict[str, str], int]] = {
    "none": ("0::/\n", {}, 64),
    "v2": ("0::/a/b\n", {"a/b/cpu.max": "250000 100000\n"}, 3),
    "v2 of a parent": ("0::/a/b\n", {"a/b/cpu.max": "max 100000\n", "a/cpu.max": "200000 100000\n"}, 2),
    "v2 of the root": ("0::/\n", {"cpu.max": "350000 100000\n"}, 4),
    "v2 without limit": ("0::/a\n", {"a/cpu.max": "max 100000\n"}, 64),
    "v2 nonsense": ("0::/a\n", {"a/cpu.max": "100000\n"}, 64),
    "v1": (
        "9:cpuset:/z\n4:cpu,cpuacct:/a\n0::/\n",
        {"cpu/a/cpu.cfs_quota_us": "150000\n", "cpu/a/cpu.cfs_period_us": "50000\n"},
        3,
    ),
    "v1 without limit": (
        "4:cpuacct,cpu:/a\n",
        {"cpu/a/cpu.cfs_quota_us": "-1\n", "cpu/a/cpu.cfs_period_us": "100000\n"},
        64,
    ),
    "v1 of a parent": (
        "4:cpu:/a/b\n",
        {"cpu/cpu.cfs_quota_us": "500000\n", "cpu/cpu.cfs_period_us": "100000\n"},
        5,
    ),
    "less than one": ("0::/a\n", {"a/cpu.max": "1000 100000\n"}, 1),
}


def test_a_cgroups_quota_is_a_limit(altered: Path) -> None:
    """Asked in a forked child each, since a pool asks once."""
    script = f"""
        import warnings
        from test_threads import *
        warnings.simplefilter("ignore")
        library, folder = Library({str(altered)!r}), Path({str(altered.parent)!r})
        for name, (own, files, cpus) in CGROUPS.items():
            (folder / "self").write_text(own)
            for file, content in files.items():
                path = folder / "cgroup" / file
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(content)
            pid = os.fork()
            if pid == 0:
                fast.Session(GELU, 0, library=library).run(None, {{"x": np.ones(BIG, np.float32)}})
                os._exit(library.counters()["threads_created"] + 1)
            got = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            assert got == cpus, (name, got)
            for file in files:
                (folder / "cgroup" / file).unlink()
        print("ok")
    """
    assert python(script).stdout == "ok\n"


@pytest.mark.stress
@pytest.mark.parametrize("at_exit", ["pass", "sys.exit(0)", "fast.Session(GELU, 3)", "daemon()"])
def test_exit_with_live_sessions_and_threads(at_exit: str) -> None:
    script = f"""
        import sys
        from test_threads import *
        x = np.ones(BIG, np.float32)
        sessions = [fast.Session(GELU, 4), fast.ort_session(GELU, threads=3)]
        for session in sessions:
            session.run(None, {{"x": x}})

        def forever():
            while True:
                sessions[0].run(None, {{"x": x}})

        def daemon():
            threading.Thread(target=forever, daemon=True).start()
            time.sleep(0.1)

        print("ok", flush=True)
        {at_exit}
    """
    done = python(script)
    assert (done.stdout, done.stderr) == ("ok\n", "")


@needs_proc
@pytest.mark.nosanitize("AddressSanitizer keeps a library mapped")
def test_unloading_joins_the_threads() -> None:
    script = """
        import shutil, tempfile, _ctypes
        from test_threads import *
        def tasks(): return len(os.listdir("/proc/self/task"))
        at_first = tasks()
        kept = []  # what frees its plan when it goes: the library is gone first
        with tempfile.TemporaryDirectory() as folder:
            path = shutil.copy(fast.library_path(), folder + "/libother.so")
            for _ in range(5):
                library = Library(path)
                kept.append(fast.Session(GELU, 5, library=library))
                kept[-1].run(None, {"x": np.ones(BIG, np.float32)})
                assert tasks() == at_first + 4
                library.plan_free(kept[-1]._plan.handle)
                _ctypes.dlclose(library._dll._handle)
                assert tasks() == at_first
                assert "libother.so" not in Path("/proc/self/maps").read_text()
        print("ok", flush=True)
        os._exit(0)
    """
    assert python(script).stdout == "ok\n"
