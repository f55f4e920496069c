"""Sessions of ONNX Runtime with the execution provider: options, errors at run time, binding, threads."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import numpy_helper

from models import (
    AVAILABLE,
    FLOAT,
    ISAS,
    Row,
    arguments,
    assert_bits,
    expected,
    node,
    of_nodes,
    one_node,
    oracle,
    quiet,
    sample,
    value,
    with_arguments,
    work,
)
from ort_sessions import X, assigned, bind, executed, reports, session, unranked
from ortwin import fast
from ortwin.fast import LibraryError, counters, ort_session

Fail = onnxruntime.capi.onnxruntime_pybind11_state.Fail
InvalidArgument = onnxruntime.capi.onnxruntime_pybind11_state.InvalidArgument


# options


def test_options_of_the_provider_itself(tmp_path: Path) -> None:
    model = one_node(Row("Neg", 13), ["n"])
    good: list[dict[str, str]] = [{"ep.ortwin.threads": "1"}, {"ep.ortwin.threads": "1024"}, {"ep.ortwin.isa": ""}]
    good += [{"ep.ortwin.threads": "0"}, {"ep.ortwin.threads": "auto"}]
    good += [{"ep.ortwin.isa": isa} for isa in AVAILABLE] + [{"ep.ortwin.report": str(tmp_path / "r")}]
    good += [{"ep.another.threads": "x"}, {"ep.ortwins.threads": "x"}, {"ep.ortwi.threads": "x"}]
    for option in good:
        _, count = executed(session(model, **option).run, None, {"x": X})
        assert count == 1, option
    assert len(reports(tmp_path / "r")) == 1


@pytest.mark.parametrize(
    ("option", "bad", "rule"),
    [
        ("threads", "AUTO", "option threads='AUTO': a number from 0 to 1024, or auto, is needed"),
        ("threads", "0x", "option threads='0x': a number from 0 to 1024, or auto, is needed"),
        ("threads", "-1", "option threads='-1': a number from 0 to 1024, or auto, is needed"),
        ("threads", "1025", "option threads='1025': a number from 0 to 1024, or auto, is needed"),
        ("threads", "4294967297", "a number from 0 to 1024, or auto, is needed"),
        ("threads", "99999999999999999999", "a number from 0 to 1024, or auto, is needed"),
        ("threads", "two", "option threads='two': a number from 0 to 1024, or auto, is needed"),
        ("threads", "2 ", "option threads='2 ': a number from 0 to 1024, or auto, is needed"),
        ("threads", "2.0", "a number from 0 to 1024, or auto, is needed"),
        ("threads", "", "option threads='': a number from 0 to 1024, or auto, is needed"),
        ("isa", "sse9", "isa 'sse9' is unknown: choose avx512, avx2 or portable"),
        ("isa", "AVX2", "isa 'AVX2' is unknown"),
        ("report", "/nonexistent/folder/r", "option report='/nonexistent/folder/r': the file can't be written"),
        ("bogus", "1", "option bogus='1': unknown option; there are isa, threads, report, group, pack_bytes, nb"),
        ("", "1", "option ='1': unknown option"),
        ("pack_bytes", "1GB", "option pack_bytes='1GB': a number of bytes from 0 to 18446744073709551615 is needed"),
        ("pack_bytes", "-1", "option pack_bytes='-1': a number of bytes from 0 to 18446744073709551615 is needed"),
        ("pack_bytes", "18446744073709551616", "a number of bytes from 0 to 18446744073709551615 is needed"),
        ("pack_bytes", "", "option pack_bytes='': a number of bytes from 0 to 18446744073709551615 is needed"),
    ],
)
def test_bad_options_name_option_and_rule(option: str, bad: str, rule: str) -> None:
    model = one_node(Row("Neg", 13), ["n"])
    with pytest.raises(InvalidArgument) as caught:
        session(model, **{f"ep.ortwin.{option}": bad})
    assert rule in str(caught.value)
    assert "EP_FAIL" not in str(caught.value)
    _, count = executed(session(model).run, None, {"x": X})  # and the next session is well
    assert count == 1


def test_bad_arguments_of_ort_session() -> None:
    model = one_node(Row("Neg", 13), ["n"])
    for threads in (-1, 1025, 2**40):
        with pytest.raises(LibraryError, match=f"threads must be 0 to 1024, not {threads}"):
            session(model, threads=threads)
    with pytest.raises(LibraryError, match="graph_optimization 'none' is unknown: choose as-written, basic"):
        session(model, graph_optimization="none")
    with pytest.raises(InvalidArgument, match="isa 'sse9' is unknown"):
        session(model, isa="sse9")
    for count in (-1, 2**64):
        with pytest.raises(LibraryError, match=f"pack_bytes must be 0 to 18446744073709551615, not {count}"):
            session(model, pack_bytes=count)
        with pytest.raises(LibraryError, match=f"pack_bytes must be 0 to 18446744073709551615, not {count}"):
            fast.Session(model, pack_bytes=count)


def test_the_environment_names_the_default_isa_and_the_argument_beats_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    model = one_node(Row("Neg", 13), ["n"])

    def reported(**options: Any) -> str:
        session(model, report=tmp_path / "r", **options)
        return str(reports(tmp_path / "r")[0]["isa"])

    for isa in AVAILABLE:
        monkeypatch.delenv("ORTWIN_ISA", raising=False)
        assert reported() == AVAILABLE[0]
        assert reported(isa=isa) == isa
        monkeypatch.setenv("ORTWIN_ISA", isa)
        assert reported() == isa
        for other in AVAILABLE:
            assert reported(isa=other) == other
    monkeypatch.setenv("ORTWIN_ISA", "sse9")
    with pytest.raises(InvalidArgument, match=r"isa 'sse9' \(from ORTWIN_ISA\) is unknown"):
        session(model)
    _, count = executed(session(model, isa="portable").run, None, {"x": X})
    assert count == 1
    monkeypatch.setenv("ORTWIN_ISA", "portable")
    _, count = executed(session(model).run, None, {"x": X})
    assert count == 1


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("threads", [1, 2, 8])
def test_threads_and_isa_do_not_change_bits(threads: int, isa: str) -> None:
    row = Row("HardSwish", 22)
    x = np.resize(sample(FLOAT), 200_003)
    want = np.resize(expected(row, arguments(row)[0]), 200_003)
    made = session(with_arguments(row, arguments(row)[0]), threads=threads, isa=isa)
    assert made.get_session_options().intra_op_num_threads == threads
    assert_bits(made.run(None, {"x": x})[0], want)


def test_session_config_and_options_are_passed_on() -> None:
    options = quiet()
    options.inter_op_num_threads = 3
    entry = "session.set_denormal_as_zero"
    config: dict[str, Any] = {entry: "0"}
    made = ort_session(one_node(Row("Neg", 13), ["n"]), session_options=options, **config)
    used = made.get_session_options()
    assert used.get_session_config_entry(entry) == "0"
    assert used.get_session_config_entry("session.disable_cpu_ep_fallback") == "1"
    assert used.inter_op_num_threads == 3
    assert used.graph_optimization_level == onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    lax = session(one_node(Row("Neg", 13), ["n"]), **{"session.disable_cpu_ep_fallback": "0"})
    assert lax.get_session_options().get_session_config_entry("session.disable_cpu_ep_fallback") == "0"


@pytest.mark.parametrize("level", ["as-written", "basic", "extended", "layout", "all"])
def test_optimisation_levels(level: str) -> None:
    """As written, every node of the model runs here; from basic on, ONNX Runtime folds and removes some first."""
    nodes = [node("Neg", ["k"], "m"), node("Identity", ["x"], "i"), node("Relu", ["i"], "y"), node("Abs", ["m"], "z")]
    constant = numpy_helper.from_array(np.array([1, -2], np.float32), "k")
    model = of_nodes(nodes, [value("x")], [value("y"), value("z")], [constant])
    before = work()["nodes_folded"]
    made = session(model, graph_optimization=level, cpu_fallback=True)
    folded = work()["nodes_folded"] - before
    (y, z), count = executed(made.run, None, {"x": X[:5]})
    assert (count, folded) == ((2, 2) if level == "as-written" else (1, 0))
    assert count + folded == len(assigned(made))
    assert_bits(y, np.array([0, 0, -0.0, 0.5, 3], np.float32))
    assert_bits(z, np.array([1, 2], np.float32))


# errors at run time


def test_a_rule_seen_only_at_run_time(capfd: pytest.CaptureFixture[str]) -> None:
    """The error names the node, is not code 11, on which the Python wrapper would rebuild the session on the CPU
    provider, and leaves the session as it was."""
    model = of_nodes([node("Clip", ["x", "b"], "y", "the_clip")], [value("x"), unranked("b")], [value("y")])
    made = session(model)
    for bad in (np.ones(1, np.float32), np.ones((1, 1), np.float32), np.ones(0, np.float32)):
        before = work()
        with pytest.raises(InvalidArgument) as caught:
            made.run(None, {"x": X, "b": bad})
        assert f"node 'the_clip' (Clip): the min has rank {bad.ndim}, the rule is rank 0" in str(caught.value)
        assert "[ONNXRuntimeError] : 2 : " in str(caught.value)
        assert work() == before
        assert made.get_providers()[0] == "ortwin"
        (got,), count = executed(made.run, None, {"x": X, "b": np.array(1, np.float32)})
        assert count == 1
        assert_bits(got[:5], np.array([1, 1, 1, 1, 3], np.float32))
    assert "Falling back" not in "".join(capfd.readouterr())


# binding and threads


def test_io_binding_at_every_offset() -> None:
    row = Row("HardSwish", 22)
    made = session(with_arguments(row, arguments(row)[0]))
    values, want = sample(FLOAT), expected(row, arguments(row)[0])
    for offset in range(64):
        memory = np.full(64 + 4 * 37 + 64, 0xA5, np.uint8)
        result = memory.copy()
        x = np.frombuffer(memory.data, np.float32, 37, offset)
        y = np.frombuffer(result.data, np.float32, 37, 63 - offset)
        x[:] = values[offset : offset + 37]
        _, count = executed(bind, made, {"x": (FLOAT, x)}, FLOAT, y)
        assert count == 1
        assert_bits(y, want[offset : offset + 37], offset)
        assert (result[: 63 - offset] == 0xA5).all()
        assert (result[63 - offset + 148 :] == 0xA5).all()


def test_io_binding_in_place_and_overlapping() -> None:
    """Exactly in place is fine, any other overlap an error that leaves the memory alone."""
    made = session(one_node(Row("Neg", 13), ["n"]))
    memory = np.arange(1, 17, dtype=np.float32)
    bind(made, {"x": (FLOAT, memory[:8])}, FLOAT, memory[:8])
    assert_bits(memory, np.array([*range(-1, -9, -1), *range(9, 17)], np.float32))
    before = memory.copy()
    with pytest.raises(RuntimeError, match="output 0 overlaps input 0 and is not an exact in-place use"):
        bind(made, {"x": (FLOAT, memory[:8])}, FLOAT, memory[4:12])
    assert_bits(memory, before)


def test_what_onnx_runtime_says_of_a_bound_output_comes_through() -> None:
    """Its own words and code, when it can't give the output a buffer; the session lives on."""
    made = session(one_node(Row("Neg", 13), ["n"]))
    x, y = np.ones(8, np.float32), np.full(4, 99, np.float32)
    before = work()
    with pytest.raises(RuntimeError, match=r"2 : INVALID_ARGUMENT : .*has shape \{4\} but the computed output shape"):
        bind(made, {"x": (FLOAT, x)}, FLOAT, y)
    assert (y == 99).all()
    assert work() == before
    assert_bits(made.run(None, {"x": x})[0], -x)


def test_bound_values_are_reused_by_many_runs() -> None:
    made = session(one_node(Row("Neg", 13), ["n"]))
    x, binding = np.arange(1, 9, dtype=np.float32), made.io_binding()
    binding.bind_cpu_input("x", x)
    binding.bind_output("y", "cpu")
    for k in range(5):
        x[0] = k + 1
        _, count = executed(made.run_with_iobinding, binding)
        assert count == 1
    assert_bits(binding.copy_outputs_to_cpu()[0], np.array([-5, -2, -3, -4, -5, -6, -7, -8], np.float32))


def test_two_sessions_from_two_threads() -> None:
    rows = [Row("HardSwish", 22), Row("Softsign", 22)]
    wants = {row: expected(row, arguments(row)[0]) for row in rows}
    barrier = threading.Barrier(2)

    def many(row: Row) -> int:
        barrier.wait()
        for _ in range(20):  # made, run and dropped at the same time as the other's
            made = session(with_arguments(row, arguments(row)[0]))
            for _ in range(20):
                assert_bits(made.run(None, {"x": sample(FLOAT)})[0], wants[row])
        return 20 * 20

    before = work()
    with ThreadPoolExecutor(2) as pool:
        total = sum(pool.map(many, rows))
    after = work()
    assert [after[name] - before[name] for name in after] == [total, total, 0]


def test_eight_threads_on_one_session() -> None:
    """Runs at once share nothing: intermediates of 20 nodes, a bound, other lengths and values in each thread."""
    names = ["x", *(f"t{k}" for k in range(18)), "y"]
    nodes = [node(("HardSwish", "Neg")[k % 2], names[k : k + 1], names[k + 1]) for k in range(19)]
    nodes.append(node("Clip", ["y", "low"], "z"))
    model = of_nodes(nodes, [value("x"), value("low", FLOAT, [])], [value("z"), value("t9")], opset=22)
    made = session(model)
    feeds = [
        {"x": np.roll(sample(FLOAT), k)[: 100 + 50 * k], "low": np.array(k / 8 - 0.5, np.float32)} for k in range(8)
    ]
    wants = [oracle(model, feed) for feed in feeds]
    barrier = threading.Barrier(8)

    def many(k: int) -> None:
        barrier.wait()
        for _ in range(50):
            assert_bits(made.run(["z"], feeds[k])[0], wants[k], f"thread {k}")

    before = counters()["nodes_executed"]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(many, range(8)))
    assert counters()["nodes_executed"] - before == 8 * 50 * 20
