"""Threads: one split at a time, several callers at once, the floating-point state of tasks, ONNX Runtime's pool."""

import ctypes
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest

import models
from c_plans import DLL
from models import FLOAT, Arguments, Row, assert_bits, expected, python, sample, with_arguments
from ortwin import fast
from ortwin.fast.library import DISPATCH_FN, TASK_FN, CError, CHost
from threads import (
    BIG,
    GELU,
    LATCHED,
    SHORTEST,
    THREADS,
    Host,
    inline,
    moved,
    parallel,
    refuse,
    relu,
    shortest,
    spread,
    together,
    typical,
)

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
        from models import *
        from threads import *
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
