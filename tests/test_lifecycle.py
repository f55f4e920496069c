"""Loading and unloading: the library leaves the process as it came (case B70), and two builds live side by side.

ONNX Runtime keeps providers per process, so each test is a process of its own.
"""

import os
from pathlib import Path

import pytest

from models import counts_heap, python

# The scripts do without models.py, which asks for the instruction sets and so loads the library for good.
SETUP = """
    import gc, sys
    import numpy as np
    import onnxruntime
    from onnx import helper
    from ortwin.fast import library_path, ort_session, register, unregister

    onnxruntime.set_default_logger_severity(4)
    x, y = (helper.make_tensor_value_info(name, 1, ["n"]) for name in "xy")
    graph = helper.make_graph([helper.make_node("HardSwish", ["x"], ["y"])], "g", [x], [y])
    opsets = [helper.make_opsetid("", 22)]
    MODEL = helper.make_model(graph, ir_version=10, opset_imports=opsets).SerializeToString()
    X = np.linspace(-4, 4, 1001, dtype=np.float32)

    def mapped(name="libortwin.so"):
        return sum(line.rstrip().endswith(name) for line in open("/proc/self/maps"))

    def resident():
        fields = dict(line.split(":", 1) for line in open("/proc/self/status"))
        return int(fields["VmRSS"].split()[0])

    def devices(name):
        return [device for device in onnxruntime.get_ep_devices() if device.ep_name == name]

    def run_once(name="ortwin", **options):
        session = ort_session(MODEL, name=name, **options)
        return session.run(None, {"x": X})[0].tobytes()
"""

needs_proc = pytest.mark.skipif(not os.path.exists("/proc/self/maps"), reason="this system has no /proc/self/maps")


@needs_proc
def test_importing_and_registering_load_nothing_too_early() -> None:
    script = (
        SETUP
        + """
    assert mapped() == 0, "the import loaded the library"
    register()
    assert mapped() > 0
    unregister()
    assert mapped() == 0
    print("ok")
    """
    )
    assert python(script).stdout == "ok\n"


@needs_proc
@pytest.mark.nosanitize("AddressSanitizer keeps freed memory in quarantine")
def test_50_cycles_leave_nothing_behind() -> None:
    """register, session, run, delete, unregister: unmapped every time, memory flat, no thread left."""
    script = (
        SETUP
        + """
    import os
    first = None
    sizes, threads = [], []
    for cycle in range(50):
        register()
        assert len(devices("ortwin")) == 1
        assert mapped() > 0
        result = run_once()
        first = first or result
        assert result == first
        failed = 0
        try:
            run_once(isa="sse9")
        except Exception as error:
            failed = 1
            del error
        assert failed
        gc.collect()
        unregister()
        assert mapped() == 0, f"still mapped after cycle {cycle}"
        assert devices("ortwin") == []
        sizes.append(resident())
        threads.append(len(os.listdir("/proc/self/task")))
    print(max(sizes[10:]) - sizes[10], len(set(threads)))
    """
    )
    grown, thread_counts = map(int, python(script).stdout.split())
    assert grown < 2048, f"{grown} kB more after 40 cycles"
    assert thread_counts == 1


@needs_proc
def test_b70_register_get_devices_session_delete_unregister_again_and_again() -> None:
    script = (
        SETUP
        + """
    for _ in range(3):
        register()
        (device,) = devices("ortwin")
        session = ort_session(MODEL)
        kept = session.run(None, {"x": X})[0]
        assert [n.op_type for g in session.get_provider_graph_assignment_info() for n in g.get_nodes()] == ["HardSwish"]
        del session, device
        gc.collect()
        unregister()
        assert mapped() == 0
        assert np.isfinite(kept).all()  # memory of the session's, not of the library's
    print("ok")
    """
    )
    assert python(script).stdout == "ok\n"


@counts_heap
@pytest.mark.parametrize("work", ["one_session", "one_registration"])
def test_sessions_and_registrations_free_what_they_took(work: str) -> None:
    """Plans, constants, names, report. ONNX Runtime's own sessions leave some 50 bytes behind, now more, now less."""
    script = f"""
    from onnx import numpy_helper
    from models import *
    from ortwin.fast import ort_session, register, unregister

    constants = [numpy_helper.from_array(np.ones(n, np.float32), f"k{{n}}") for n in (1, 40, 4000)]
    nodes = [node("Neg", [k.name], f"y{{k.name}}", k.name * 200) for k in constants]
    nodes += [node("LeakyRelu", ["x"], "t", alpha=0.5), node("Clip", ["t", "", "b"], "y")]
    outputs = [value("y"), *(value(f"y{{k.name}}", FLOAT, None) for k in constants)]
    model = of_nodes(nodes, [value("x"), value("b", FLOAT, [])], outputs, constants).SerializeToString()

    def one_session():
        session = ort_session(model, session_options=quiet(), report="/dev/null", isa="portable", threads=1)
        session.run(None, {{"x": np.ones(5, np.float32), "b": np.zeros((), np.float32)}})

    def one_registration():
        register("another name")
        unregister("another name")

    print(min(flat({work}, rounds=100) for _ in range(4)))
    """
    grown = float(python(script).stdout)
    assert grown < 160, f"{grown} bytes a round"


PRODUCTS = """
    from onnx import numpy_helper
    from models import *
    from ortwin import fast

    constants = {"b": np.arange(1200, dtype=np.int8).reshape(40, 30), "s": np.float32(0.1), "z": np.int8(3)}
    constants = [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()]
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "scale", "zero"]),
        node("QLinearMatMul", ["q", "scale", "zero", "b", "s", "z", "s", "z"], "p"),
        node("DequantizeLinear", ["p", "s", "z"], "y"),
    ]
    model = of_nodes(nodes, [value("x", FLOAT, ["m", 40])], [value("y", FLOAT, None)], constants, opset=21)
    model = model.SerializeToString()
    rows = [np.full((m, 40), m, np.float32) for m in range(1, 41)]
"""


@counts_heap
@pytest.mark.parametrize("make", ["fast.Session(model)", "fast.ort_session(model, session_options=quiet())"])
def test_sessions_of_products_free_what_they_took(make: str) -> None:
    """Packs, what runs of several shapes have kept, and what folding constants made."""
    script = f"""{PRODUCTS}
    def one_session():
        session = {make}
        for x in rows[::8]:
            session.run(None, {{"x": x}})

    grown = min(flat(one_session, rounds=60) for _ in range(4))
    gc.collect()
    counted = fast.counters()
    print(grown, counted["packs_built"] - counted["packs_freed"], counted["pack_bytes"])
    """
    grown, packs, pack_bytes = python(script).stdout.split()
    assert float(grown) < 160, f"{grown} bytes a round"
    assert (packs, pack_bytes) == ("0", "0")


@counts_heap
@pytest.mark.parametrize("make", ["fast.Session(model)", "fast.ort_session(model, session_options=quiet())"])
def test_any_number_of_runs_of_any_shapes_grows_nothing(make: str) -> None:
    """More shapes than a plan keeps, so that each run computes what follows from them and lets go of another."""
    script = f"""{PRODUCTS}
    session = {make}

    def runs():
        for x in rows:
            session.run(None, {{"x": x}})

    def failing():
        try:
            session.run(None, {{"x": rows[0][:, :7]}})
        except Exception:
            pass

    runs()
    before = fast.counters()
    grown = min(flat(runs, rounds=20), flat(failing, rounds=100))
    moved = {{name: count - before[name] for name, count in fast.counters().items()}}
    print(grown, moved["signatures_computed"] - moved["signatures_evicted"], moved["frames"], moved["arena_bytes"])
    assert moved["signatures_evicted"] > 1000
    """
    grown, kept, frames, arena = python(script).stdout.split()
    assert float(grown) < 160, f"{grown} bytes a round"
    assert (kept, frames, arena) == ("0", "0", "0")


@pytest.mark.parametrize("at_exit", ["pass", "unregister()", "sys.exit(0)", "held.append(held)"])
def test_exit_with_live_sessions(at_exit: str) -> None:
    script = (
        SETUP
        + f"""
    sessions = [ort_session(MODEL) for _ in range(2)]
    before = sessions[0].run(None, {{"x": X}})
    held = [sessions, before]
    print("ok", flush=True)
    if {at_exit!r} == "unregister()":
        del sessions, held
        gc.collect()
    {at_exit}
    """
    )
    done = python(script)
    assert done.stdout == "ok\n"
    assert done.stderr == ""


def test_registering_a_name_twice() -> None:
    script = (
        SETUP
        + """
    import shutil, tempfile
    from ortwin.fast import LibraryError
    register()
    register()
    assert len(devices("ortwin")) == 1
    with tempfile.TemporaryDirectory() as folder:
        other = shutil.copy(library_path(), folder)
        for path, text in ((other, "the name 'ortwin' is registered for"), (folder + "/none.so", "is registered for")):
            try:
                register("ortwin", path)
            except LibraryError as error:
                assert text in str(error), error
            else:
                raise AssertionError("another library was registered under the same name")
        try:
            register("second", folder + "/none.so")
        except LibraryError as error:
            assert "there is no library" in str(error), error
        else:
            raise AssertionError("a library that does not exist was registered")
    run_once()
    gc.collect()
    unregister()
    assert devices("ortwin") == []
    for name in ("ortwin", "second", ""):
        try:
            unregister(name)
        except LibraryError as error:
            assert str(error) == f"no provider is registered as '{name}'"
        else:
            raise AssertionError("an unknown name was unregistered")
    register()
    run_once()
    print("ok")
    """
    )
    assert python(script).stdout == "ok\n"


def test_the_same_library_under_two_names() -> None:
    script = (
        SETUP
        + """
    from ortwin.fast import counters
    register("One")
    register("two.b")
    before = counters()["nodes_executed"]
    assert run_once("One") == run_once("two.b")
    assert counters()["nodes_executed"] - before == 2
    both = [ort_session(MODEL, name=name, isa="portable") for name in ("One", "two.b")]
    assert [session.get_providers()[0] for session in both] == ["One", "two.b"]
    for session, name in zip(both, ("One", "two.b")):
        assert [g.ep_name for g in session.get_provider_graph_assignment_info()] == [name]
    for name in ("One", "two.b"):
        try:
            run_once(name, isa="sse9")
        except Exception as error:
            assert "isa 'sse9' is unknown" in str(error)
        else:
            raise AssertionError("an option did not arrive")
    print("ok")
    """
    )
    assert python(script).stdout == "ok\n"


def test_two_builds_in_one_process_count_apart_and_agree(tmp_path: Path) -> None:
    """Another path is another build to the loader: own code, own counters."""
    script = (
        SETUP
        + f"""
    import shutil
    from ortwin import fast, ref
    from ortwin.fast.library import Library, default_library
    path = shutil.copy(library_path(), {str(tmp_path / "libother.so")!r})
    register("first")
    register("second", path)
    other = Library(path)
    assert mapped() > 0 and mapped("libother.so") > 0

    def moved(call):
        before = [library.counters()["nodes_executed"] for library in (default_library(), other)]
        result = call()
        after = [library.counters()["nodes_executed"] for library in (default_library(), other)]
        return result, [b - a for a, b in zip(before, after)]

    want = ref.Session(MODEL).run(None, {{"x": X}})[0].tobytes()
    assert moved(lambda: run_once("first")) == (want, [1, 0])
    assert moved(lambda: run_once("second")) == (want, [0, 1])
    mine, theirs = fast.Session(MODEL), fast.Session(MODEL, library=other)
    assert moved(lambda: mine.run(None, {{"x": X}})[0].tobytes()) == (want, [1, 0])
    assert moved(lambda: theirs.run(None, {{"x": X}})[0].tobytes()) == (want, [0, 1])
    a, b = ort_session(MODEL, name="first"), ort_session(MODEL, name="second")
    for _ in range(3):
        assert moved(lambda: a.run(None, {{"x": X}})[0].tobytes()) == (want, [1, 0])
        assert moved(lambda: b.run(None, {{"x": X}})[0].tobytes()) == (want, [0, 1])
    assert fast.counters() == default_library().counters()
    del a, b
    gc.collect()
    unregister("first")
    assert run_once("second") == want
    print("ok")
    """
    )
    assert python(script).stdout == "ok\n"


def test_a_library_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "libortwin.so").write_bytes(b"no ELF file")
    script = (
        SETUP
        + f"""
    from ortwin.fast import LibraryError
    from ortwin.fast.library import Library
    try:
        Library({str(tmp_path / "libortwin.so")!r})
    except LibraryError as error:
        assert "can't be loaded" in str(error)
    else:
        raise AssertionError("loaded")
    try:
        register("bad", {str(tmp_path / "libortwin.so")!r})
    except Exception as error:
        assert "libortwin.so" in str(error)
    else:
        raise AssertionError("registered")
    register("bad")
    run_once("bad")
    print("ok")
    """
    )
    assert python(script).stdout == "ok\n"


def test_library_path_is_absolute_from_anywhere(tmp_path: Path) -> None:
    script = (
        SETUP
        + f"""
    import os
    os.chdir({str(tmp_path)!r})
    assert library_path().is_absolute() and library_path().is_file()
    run_once()
    print("ok")
    """
    )
    assert python(script).stdout == "ok\n"
