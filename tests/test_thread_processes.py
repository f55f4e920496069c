"""Threads and the process they live in: idle, forked, restricted, at exit, unloaded."""

import os
from pathlib import Path

import pytest

from models import python
from threads import needs_proc

# processes


@needs_proc
def test_idle_threads_sleep() -> None:
    script = """
        from threads import *
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
        from threads import *
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
        from models import *
        from threads import *
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
        from threads import *
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
        from ortwin.fast.library import Library
        from pathlib import Path
        from test_thread_processes import CGROUPS
        from threads import *
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
        from threads import *
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
        from pathlib import Path
        from ortwin.fast.library import Library
        from threads import *
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
