"""C4: whatever floating-point state the calling thread is in, results have the same bits and the state is given back.

The state is MXCSR, the control and status register of SSE (Intel SDM vol. 1, 10.2.3): flush-to-zero, rounding control,
exception masks, denormals-are-zero, sticky exception flags. It is read and written with C's fegetenv and fesetenv,
whose environment holds it at byte 28 on x86-64.
"""

import ctypes
import ctypes.util
import gc
import platform
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import models
from models import (
    AVAILABLE,
    BFLOAT16,
    FLOAT,
    HALVES,
    KERNELS,
    Array,
    Row,
    arguments,
    assert_bits,
    python,
    sample,
    specials,
    with_arguments,
)
from ortwin import fast, ref

if platform.machine() not in ("x86_64", "AMD64"):
    pytest.skip(f"the state is set through MXCSR, which {platform.machine()} does not have", allow_module_level=True)

LIBM = ctypes.CDLL(ctypes.util.find_library("m"))

DEFAULT, FLAGS, DAZ, DOWN, UP, ZERO, FTZ = 0x1F80, 0x3F, 0x40, 0x2000, 0x4000, 0x6000, 0x8000
STATES = [DEFAULT | flush | rounding for flush in (0, FTZ, DAZ, FTZ | DAZ) for rounding in (0, DOWN, UP, ZERO)]


def environment() -> Any:
    saved = ctypes.create_string_buffer(64)
    LIBM.fegetenv(saved)
    return saved


def mxcsr() -> int:
    return int.from_bytes(environment().raw[28:32], "little")


def set_mxcsr(value: int) -> None:
    wanted = environment()
    wanted[28:32] = value.to_bytes(4, "little")
    LIBM.fesetenv(wanted)


@contextmanager
def state(value: int) -> Iterator[None]:
    gc.disable()  # it would run the finalisers of others in this state
    saved = mxcsr()
    set_mxcsr(value)
    try:
        yield
    finally:
        set_mxcsr(saved)
        gc.enable()


def values(dtype: int) -> Array:
    """Mostly numbers whose results are subnormal, subnormal themselves, or rounded."""
    if dtype in HALVES:
        return np.arange(0, 1 << 16, 31).astype(np.uint16).view(models.numpy_dtype(dtype))
    if dtype != FLOAT:
        return sample(dtype, 67)
    tiny = (np.arange(1, 60, dtype=np.uint32) * np.uint32(0x21F35)).view(np.float32)
    moderate = np.random.default_rng(5).normal(0, 3, 200).astype(np.float32)
    both = np.concatenate([tiny, moderate])
    return np.concatenate([specials(), both, -both])


Run = Callable[[Array], Array]


def arm(name: str, model: Any) -> Run:
    """A backend's session, made in the current state, as a function of x."""
    session: Any
    if name == "ref":
        session = ref.Session(model)
    elif name.startswith("ort-"):
        session = fast.ort_session(model, isa=name[4:], session_options=models.quiet())
    else:
        session = fast.Session(model, isa=name)

    def run(x: Array) -> Array:
        result: Array = session.run(None, {"x": x})[0]
        return result

    return run


ARMS = ["ref", *AVAILABLE, *(f"ort-{isa}" for isa in AVAILABLE)]


def test_the_states_make_a_difference() -> None:
    """Else the tests below would show nothing: hardware arithmetic on these values follows the state."""
    x = np.full(1, 1e-40, np.float32)
    thirds = []
    for value in STATES:
        quotient, sum_ = np.empty(2, np.float32), np.empty(1, np.float32)
        with state(value):
            assert mxcsr() == value
            np.divide(np.array([1, -1], np.float32), np.float32(3), out=quotient)
            np.add(x, x, out=sum_)
            set_mxcsr(value)  # the flags these two raised
        thirds.append(quotient.tobytes())
        assert (sum_.view(np.uint32)[0] == 0) == bool(value & (FTZ | DAZ))
    assert len(set(thirds)) == 4


@pytest.mark.parametrize("name", ARMS)
@pytest.mark.parametrize("row", KERNELS, ids=str)
def test_the_callers_state_changes_nothing_and_comes_back(row: Row, name: str) -> None:
    if name.startswith("ort-") and row.dtype in (14, 15):
        pytest.skip("ONNX Runtime has no tensors of complex numbers")
    if name.startswith("ort-") and row.dtype == BFLOAT16:
        pytest.skip("InferenceSession.run has no arrays of bfloat16, and other ways to run raise flags themselves")
    x = values(row.dtype)
    for given in arguments(row):
        operands = tuple((2 * b)[: x.nbytes] if isinstance(b, bytes) else b for b in given.bounds)
        model = with_arguments(row, models.Arguments(given.attributes, operands))
        run = arm(name, model)
        want = run(x)
        for value in STATES:
            with state(value):
                y = run(x)
                after = mxcsr()
                again = arm(name, model)(x)  # a session made in that state: attributes and bounds are floats too
                end = mxcsr()
            assert after == value, f"{value:#x} became {after:#x}"
            assert end & ~FLAGS == value, f"{value:#x} became {end:#x}"
            assert_bits(y, want, f"{given} in state {value:#x}")
            assert_bits(again, want, f"{given} in state {value:#x}, session made there")


@pytest.mark.parametrize("name", ARMS)
@pytest.mark.parametrize("flags", [0, FLAGS, 0x15, 0x2A], ids=hex)
def test_exception_flags_come_back_as_they_were(flags: int, name: str) -> None:
    """Neither raised by our arithmetic nor lost: Sqrt and Reciprocal here meet every exception."""
    x = np.array([-1, 0, 3, 1e-40, 3e38, np.inf, np.nan], np.float32)
    for op in ("Sqrt", "Reciprocal", "HardSwish"):
        run = arm(name, with_arguments(Row(op, models.VERSIONS[op][-1]), models.Arguments()))
        with state(DEFAULT | flags):
            run(x)
            after = mxcsr()
        assert after == DEFAULT | flags, op


@pytest.mark.parametrize("name", ARMS)
def test_a_refused_run_gives_the_state_back(name: str) -> None:
    model = models.one_node(Row("Clip", 13), ["n"], bounds=("low",))
    model.graph.input[1].type.tensor_type.ClearField("shape")
    if name == "ref":
        session: Any = ref.Session(model)
    elif name.startswith("ort-"):
        session = fast.ort_session(model, isa=name[4:], session_options=models.quiet())
    else:
        session = fast.Session(model, isa=name)
    feeds = {"x": np.ones(3, np.float32), "low": np.ones(1, np.float32)}
    raised = None
    with state(DEFAULT | FTZ | DAZ | UP):
        try:
            session.run(None, feeds)
        except Exception as error:
            raised = error
        after = mxcsr()
    assert "rank 1" in str(raised)
    assert after & ~FLAGS == DEFAULT | FTZ | DAZ | UP


@pytest.mark.parametrize("name", AVAILABLE)
def test_the_whole_environment_comes_back(name: str) -> None:
    """The x87 part of it too."""
    run = arm(name, with_arguments(Row("Sqrt", 13), models.Arguments()))
    x = np.ones(3, np.float32)
    for rounding in (DOWN, UP, ZERO):
        saved = environment()
        LIBM.fesetround(rounding >> 3)  # FE_DOWNWARD 0x400, FE_UPWARD 0x800, FE_TOWARDZERO 0xc00: both units
        before = environment().raw[:32]
        run(x)
        after = environment().raw[:32]
        LIBM.fesetenv(saved)
        assert after == before


def test_unmasked_exceptions_do_not_trap() -> None:
    """A caller that wants a signal for its own mistakes gets none for ours."""
    script = """
        import numpy as np
        from test_fpstate import *
        x = np.array([-1, 0, 3, 1e-40, 3e38, np.inf, np.nan], np.float32)
        runs = [arm(name, with_arguments(Row(op, models.VERSIONS[op][-1]), models.Arguments()))
                for name in ARMS for op in ("Sqrt", "Reciprocal", "HardSwish", "Softsign", "Round")]
        wants = [run(x) for run in runs]
        got, after = [], []
        with state(0):
            for run in runs:
                got.append(run(x))
                after.append(mxcsr())
        assert after == [0] * len(runs), after
        for y, want in zip(got, wants, strict=True):
            assert_bits(y, want)
        print("no trap")
    """
    assert python(script).stdout == "no trap\n"


def test_threads_in_different_states_at_once() -> None:
    x = np.resize(values(FLOAT), 20_000)
    rows = [Row("HardSwish", 22), Row("Softsign", 22), Row("Reciprocal", 13)]
    runs = [(arm(name, with_arguments(row, models.Arguments())), name) for row in rows for name in ARMS[1:]]
    wants = [run(x).tobytes() for run, _ in runs]
    wrong: list[str] = []

    def work(value: int) -> None:
        set_mxcsr(value)  # of this thread alone, which ends with it
        for _ in range(5):
            for (run, name), want in zip(runs, wants, strict=True):
                y = run(x).tobytes()
                after = mxcsr() & ~FLAGS  # the interpreter, switching threads, may raise flags of its own
                if y != want or after != value:
                    wrong.append(f"{name}: {value:#x} became {after:#x}, bits equal: {y == want}")

    threads = [threading.Thread(target=work, args=(value,)) for value in STATES[::2]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_b63_flush_to_zero_asked_of_one_session_stays_its_own() -> None:
    """A new process, since ONNX Runtime sets the state once for all sessions: a session with set_denormal_as_zero,
    then numpy on the same thread, then a session without; 1e-40 must come through in all of them."""
    script = """
        import numpy as np
        from test_fpstate import *
        tiny = np.array([1e-40, -1e-40], np.float32)
        model = with_arguments(Row("LeakyRelu", 16), models.Arguments((("alpha", 1.0),)))
        before = mxcsr() & ~FLAGS
        a = fast.ort_session(model, **{"session.set_denormal_as_zero": "1"})
        made = mxcsr() & ~FLAGS
        results = [a.run(None, {"x": tiny})[0], ref.Session(model).run(None, {"x": tiny})[0]]
        results += [fast.Session(model, isa=isa).run(None, {"x": tiny})[0] for isa in AVAILABLE]
        results += [fast.ort_session(model).run(None, {"x": tiny})[0], a.run(None, {"x": tiny})[0]]
        for k, result in enumerate(results):
            assert result.view(np.uint32).tolist() == tiny.view(np.uint32).tolist() != [0, 0], (k, result)
        assert made == before, f"the session left the state {made:#x} on its thread, not {before:#x}"
        product = tiny * np.float32(1)
        assert product.view(np.uint32).tolist() == [0x116C2, 0x800116C2], product
        print("kept")
    """
    assert python(script).stdout == "kept\n"
