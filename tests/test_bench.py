"""The measuring: no ratio without ownership, thread parity and right outputs; statistics on planted samples."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builds import build_library
from ortwin.conformance import plugins
from ortwin.conformance.bench import arms, cells, host, products, report, statistics, timing
from ortwin.fast import library_path, ort_session
from ortwin.fast.library import Library, LibraryError
from ortwin.ref import InputError

CPUS = len(os.sched_getaffinity(0))


def _rig(cell: cells.Cell, arm: arms.Arm, threads: int = CPUS) -> arms.Rig:
    return arms.Rig(cell, [*arms.control("all"), arm], threads)


def _ours(isa: str | None = "portable") -> arms.Arm:
    return arms.plugin("ortwin", str(library_path()), isa)


def _bench(*words: str, threads: int = 1) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ortwin.conformance.cli", "bench", "--rounds", "5", *words],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "COLUMNS": "250"},
    )


# ---- refusals ----


def test_a_right_arm_is_accepted_with_its_difference() -> None:
    rig = _rig(cells.unary("Relu", 1000), _ours())
    assert rig.refused == {}
    assert list(rig.bound) == ["ort", "ort again", "ortwin"]
    assert rig.differences["ortwin"] == arms.Difference(0.0, 0.0)


def test_a_node_that_another_provider_owns_is_refused() -> None:
    ours = _ours()

    def with_fallback(model: bytes, threads: int) -> Any:
        return ort_session(model, threads=threads, cpu_fallback=True)

    cell = cells.chain(["Relu", "Det"], 1, 16)  # a chain of one: Relu alone
    assert _rig(cell, arms.Arm("ours", with_fallback, ours.ep_name, ours.library)).refused == {}
    mixed = cells.chain(["Relu", "Cos"], 2, 16)
    refused = _rig(mixed, arms.Arm("ours", with_fallback, ours.ep_name, ours.library)).refused["ours"]
    assert refused == "ownership: it has 1 of 2 nodes; others have Cos"


def test_a_declined_node_is_refused_with_what_onnxruntime_says() -> None:
    assert _rig(cells.unary("Cos", 16), _ours()).refused["ortwin"].startswith("no session: ")


def test_float16_has_a_control_and_bfloat16_has_none() -> None:
    rig = _rig(cells.unary("Relu", 1000, "float16"), _ours())
    assert (list(rig.bound), rig.differences["ortwin"].ulp) == (["ort", "ort again", "ortwin"], 0.0)
    rig = _rig(cells.unary("Relu", 1000, "bfloat16"), _ours())
    assert list(rig.bound) == ["ortwin"]
    assert "NOT_IMPLEMENTED" in rig.refused["ort"]


def test_a_counter_that_did_not_move_is_refused(tmp_path: Path) -> None:
    ours = _ours()
    elsewhere = tmp_path / "other.so"  # another build's counters do not count what this one executed
    elsewhere.write_bytes(library_path().read_bytes())
    arm = arms.Arm("ours", ours.make, ours.ep_name, Library(elsewhere))
    refused = _rig(cells.unary("Relu", 16), arm).refused["ours"]
    assert refused == "ownership: 0 of 1 nodes were executed by its counter"


def test_unmatched_threads_are_refused() -> None:
    refused = _rig(cells.unary("Relu", 16), _ours(), threads=CPUS + 1).refused
    assert set(refused) == {"ort", "ort again", "ortwin"}
    assert refused["ortwin"] == f"thread parity: a thread may use {CPUS} CPUs with {CPUS + 1} threads under test"


def test_more_threads_than_cpus_cannot_be_pinned() -> None:
    with pytest.raises(host.ParityError, match=f"{CPUS + 1} threads need as many CPUs, this process may use {CPUS}"):
        host.pin(CPUS + 1)


def test_a_wrong_output_is_refused(tmp_path: Path) -> None:
    wrong = build_library(tmp_path, {"kernels/unary.h": ("or_nan(vf_abs(x), x, x)", "or_nan(vf_neg(x), x, x)")})
    arm = arms.plugin("wrong_abs", str(wrong), "portable")
    refused = _rig(cells.unary("Abs", 64), arm).refused["wrong_abs"]
    assert refused.startswith("wrong output: ")
    assert refused.endswith("differ from the reference")
    assert _rig(cells.unary("Relu", 64), arm).refused == {}


def test_an_output_that_is_not_written_is_refused(tmp_path: Path) -> None:
    call = "step->unary(x, y, count, step->params); break;"
    lazy = build_library(tmp_path, {"run/plan.c": (call, "break;")})
    # Identity's path is left: it copies, so Neg gives x instead of -x
    assert "wrong output" in _rig(cells.unary("Neg", 64), arms.plugin("lazy", str(lazy))).refused["lazy"]


def test_a_missing_arm_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(LibraryError, match=r"there is no library .*nowhere\.so"):
        arms.plugin("nowhere", str(tmp_path / "nowhere.so"))
    done = _bench("--op", "Relu", "--size", "64", "--arm", f"nowhere={tmp_path / 'nowhere.so'}")
    assert done.returncode == 2
    assert done.stderr.startswith("ortwin: there is no library ")
    assert done.stdout == ""


def test_a_library_that_is_no_plugin_is_refused(tmp_path: Path) -> None:
    not_one = tmp_path / "plain.so"
    source = tmp_path / "plain.c"
    source.write_text("int plain(void) { return 1; }\n", encoding="utf-8")
    subprocess.run(["gcc", "-shared", "-o", str(not_one), str(source)], check=True)
    done = _bench("--op", "Relu", "--size", "64", "--arm", f"plain={not_one}")
    assert done.returncode == 2
    assert "CreateEpFactories" in done.stderr


def test_every_arm_refused_ends_with_2() -> None:
    done = _bench("--op", "Cos", "--size", "64", "--isa", "portable")
    assert done.returncode == 2
    assert "Cos float32 64: no ratio for ortwin:portable: no session: " in done.stdout
    assert "ortwin: ortwin:portable was measured nowhere: no session: " in done.stderr
    assert "op Cos of domain ai.onnx is not implemented" in done.stderr


# ---- the command ----


def test_json_has_the_raw_samples_and_replays(tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    done = _bench("--op", "Relu,Clip", "--size", "64", "--chain", "Relu:10:8", "--json", str(file))
    assert done.returncode == 0, done.stderr
    document = json.loads(file.read_text(encoding="utf-8"))
    assert document["command"][0] == "bench"
    assert document["threads"] == 1
    assert len(document["host"]["affinity"]) == 1
    assert document["host"]["library"]["sha256"]
    (result,) = document["results"]  # chains asked for by name stand instead of the standard grid
    assert result["cell"] == "10 x Relu float32 8"
    samples = result["measurement"]["samples"]
    ours = [f"ortwin:{isa}" for isa, why in document["host"]["library"]["isas"].items() if not why]
    assert list(samples) == ["ort", "ort again", *ours, "memcpy"]
    assert {len(rounds) for rounds in samples.values()} == {5}
    recomputed = statistics.ratio(samples["ortwin:portable"], samples["ort"])
    assert recomputed.p50 == result["ratios"]["ortwin:portable"]["p50"]

    again = _bench("--replay", str(file))
    assert again.returncode == 0, again.stderr
    assert "p50 then" in again.stdout
    assert f"{recomputed.p50:.3f}" in again.stdout


def test_replay_of_something_else_is_one_sentence(tmp_path: Path) -> None:
    file = tmp_path / "other.json"
    file.write_text("{}", encoding="utf-8")
    done = _bench("--replay", str(file))
    assert done.returncode == 2
    assert done.stderr.startswith("ortwin: ")
    assert "is no file of ortwin bench --json" in done.stderr


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        (("--size", "many"), "'many' is no size"),
        (("--size", "0"), "--size: a number of at least 1"),
        (("--chain", "Relu:3"), "3 parts separated by ':'"),
        (("--chain", "Relu:0:8"), "--chain: a number of at least 1"),
        (("--chain", "Relu+Foo:2:8"), "ONNX has no op 'Foo'"),
        (("--op", ","), "ONNX has no op ''"),
        (("--op", "MatMul", "--shape", "2x3"), "3 parts separated by 'x'"),
        (("--op", "MatMul", "--shape", "0x2x3"), "--shape: a number of at least 1"),
        (("--op", "MatMulInteger", "--dtype", "float32"), "--dtype 'float32' is not one of u8u8, u8s8, s8u8, s8s8, "),
        (("--op", "MatMul", "--b", "packed"), "--b 'packed' is not one of constant, runtime"),
        (("--arm", "x"), "2 parts separated by '='"),
        (("--isa", "foo"), "--isa 'foo' is unknown: choose avx512, avx2, portable"),
        (("--threads", "0"), "--threads must be 1 to 1024, not 0"),
        (("--rounds", "1"), "--rounds must be at least 5, not 1"),
        (("--dtype", "int4"), "--dtype 'int4' is not one of float32, "),
        (("--control-optimization", "foo"), "--control-optimization must be one of as-written, "),
        (("--json", "/nowhere/file.json", "--size", "8"), "can't use '/nowhere/file.json'"),
        (("--model", __file__), "can't be parsed as an ONNX model"),
        (("--model", "x.onnx", "--dim", "N=x"), "'x' is no size"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, tuple) else "",
)
def test_bad_words_are_one_sentence_before_anything_is_measured(words: tuple[str, ...], rule: str) -> None:
    done = _bench(*words)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("ortwin: ")
    assert rule in done.stderr
    assert done.stderr.count("\n") == 1


def test_the_ratios_can_be_read_at_80_columns() -> None:
    text = _bench("--op", "Relu", "--size", "64Ki", "--isa", "portable").stdout
    (line,) = (line for line in text.splitlines() if "ortwin:portable" in line)
    assert line.split()[:4] == ["Relu", "float32", "64Ki", "ortwin:portable"]
    assert all(0.01 < float(word) < 100 for word in line.split()[4:6])
    assert len(line.rstrip()) <= 100


def test_a_whole_model(tmp_path: Path) -> None:
    path = tmp_path / "chain.onnx"
    path.write_bytes(cells.chain(["Relu", "Abs"], 4, 16).make().model)
    done = _bench("--model", str(path), "--isa", "portable", "--json", "-")
    assert done.returncode == 0, done.stderr
    (result,) = json.loads(done.stdout)["results"]
    assert result["cell"] == "chain.onnx"
    assert result["memcpy_us"] is None
    assert "ortwin:portable" in result["ratios"]


def test_a_product_that_onnxruntime_refuses_is_timed_alone_and_the_report_says_so() -> None:
    words = ("--op", "QLinearMatMul", "--shape", "4x64x64", "--dtype", "s8u8,u8s8", "--b", "constant")
    done = _bench(*words, "--isa", "portable")
    assert done.returncode == 0, done.stderr
    alone, beside = (
        next(line for line in done.stdout.splitlines() if f"QLinearMatMul {signs} 4x64x64" in line)
        for signs in ("s8u8", "u8s8")
    )
    assert alone.split()[3] == "ortwin:portable"
    assert float(alone.split()[4]) > 0
    assert alone.rstrip().endswith("no control")
    assert all(0.01 < float(word) < 10_000 for word in beside.split()[4:6])
    (refusal,) = (line for line in done.stdout.splitlines() if "refuses" in line)
    assert refusal.startswith("QLinearMatMul s8u8 4x64x64: no ratios, times alone: ort refuses it: no session: ")
    assert "NOT_IMPLEMENTED" in refusal


def test_a_b_given_at_run_time_is_an_input_and_a_constant_one_is_not() -> None:
    for op, product in products.PRODUCTS.items():
        kinds = [products.product(op, (2, 3, 4), product.standard[0], kind).make() for kind in products.B_KINDS]
        names = product.operands(2, 3, 4, product.standard[0]).b_names
        assert [set(made.feeds) for made in kinds] == [{"a"}, {"a", *names}]
        rig = _rig(products.product(op, (5, 17, 9), product.standard[0], products.RUNTIME), _ours())
        assert rig.refused == {}
        assert rig.differences["ortwin"].absolute <= {"MatMulInteger": 0, "QLinearMatMul": 1}.get(op, 1e-4)


# ---- cells ----


@pytest.mark.parametrize(("text", "size"), [("4096", 4096), ("64Ki", 65536), ("1Mi", 1 << 20), ("0", 0)])
def test_sizes(text: str, size: int) -> None:
    assert cells.parse_size(text) == size


@pytest.mark.parametrize("text", ["", "Ki", "1G", "-1", "1.5", "1KiKi", "\u0663"])
def test_bad_sizes(text: str) -> None:
    with pytest.raises(InputError, match="is no size"):
        cells.parse_size(text)


def test_cells_are_valid_models_with_the_nodes_they_claim() -> None:
    made = [
        cells.unary("Sqrt", 7),
        cells.chain(["Relu", "Abs"], 5, 9),
        *(cell for op in products.PRODUCTS for cell in products.grid(op, [(2, 3, 4)], [], products.B_KINDS)),
        *cells.grid(["Relu"], [1, 2], ["float32", "float16"]),
    ]
    for cell in made:
        ready = cell.make()
        model = onnx.load_from_string(ready.model)
        onnx.checker.check_model(model, full_check=True)
        assert len(model.graph.node) == cell.nodes
        assert {value.name for value in model.graph.input} == set(ready.feeds)
        if " s8u8 " not in cell.name:  # which ONNX Runtime has no kernels for
            plugins.cpu_session(ready.model, 1).run(None, ready.feeds)
    assert np.all(made[0].make().feeds["x"] >= 0)


# ---- statistics ----


def _samples(values: list[float]) -> list[list[float]]:
    """Rounds of five equal blocks."""
    return [[value] * 5 for value in values]


QUIET = _samples([100.0, 101.0, 99.0, 100.5, 99.5, 100.0, 100.2])
QUIET_AGAIN = _samples([100.3, 100.8, 99.1, 100.1, 99.9, 99.8, 100.4])


def test_a_planted_tenth_is_seen() -> None:
    band = statistics.null_band(QUIET_AGAIN, QUIET)
    slower = statistics.ratio(_samples([b[0] * 1.1 for b in QUIET]), QUIET)
    assert slower.p50 == pytest.approx(1.1)
    assert slower.won == 0
    assert statistics.verdict(slower.p50, band) == "slower"
    assert statistics.verdict(1 / slower.p50, band) == "faster"


def test_an_effect_inside_the_band_is_no_difference() -> None:
    band = statistics.null_band(QUIET_AGAIN, QUIET)
    assert band >= statistics.FLOOR
    assert statistics.verdict(1 + 0.99 * band, band) == "no difference"
    assert statistics.verdict(1 - 0.99 * band, band) == "no difference"
    assert statistics.verdict(1 + 1.01 * band, band) == "slower"


def test_a_noisy_control_widens_the_band() -> None:
    noisy = _samples([100.0, 140.0, 90.0, 100.0, 70.0, 100.0, 130.0])
    assert statistics.null_band(noisy, QUIET) > 10 * statistics.null_band(QUIET_AGAIN, QUIET)


def test_ratios_are_taken_within_rounds() -> None:
    # the machine slows down threefold, for both arms alike: the ratio does not move
    control = _samples([100.0, 100.0, 100.0, 300.0, 300.0, 300.0, 300.0])
    arm = _samples([b[0] * 0.5 for b in control])
    assert statistics.ratio(arm, control).p50 == 0.5
    assert statistics.ratio(arm, control).spread == 0.0
    assert statistics.drift(control) == pytest.approx(200 / 300)
    assert statistics.drifted_rounds(control, 0.05) == [0, 1, 2]


def test_p90_sees_what_the_median_does_not() -> None:
    control = [[100.0] * 20] * 5
    arm = [[100.0] * 17 + [200.0] * 3] * 5
    value = statistics.ratio(arm, control)
    assert (value.p50, value.p90) == (1.0, 2.0)


@given(st.lists(st.floats(1, 1e6), min_size=1), st.sampled_from([0.5, 0.9, 1.0]))
def test_percentile_is_the_smallest_that_enough_do_not_exceed(values: list[float], share: float) -> None:
    found = statistics.percentile(values, share)
    assert found in values
    assert sum(value <= found for value in values) >= share * len(values) - 1e-6
    below = [value for value in values if value < found]
    assert not below or sum(value <= max(below) for value in values) < share * len(values)


def test_too_few_rounds() -> None:
    with pytest.raises(ValueError, match="at least 5 rounds"):
        timing.measure({"a": lambda: None}, 1, rounds=4)


def test_arms_alternate_and_every_block_is_kept() -> None:
    calls: list[str] = []
    taken = timing.measure(
        {"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, threads=1, rounds=5, blocks=3
    )
    assert {len(blocks) for rounds in taken.samples.values() for blocks in rounds} == {3}
    timed = calls[-1::-1]
    assert timed.index("a") < len(timed) / 2 > timed.index("b")


def test_marked_rounds_are_reported() -> None:
    control = _samples([100.0, 100.0, 100.0, 100.0, 100.0, 100.0, 200.0])
    taken = timing.Measurement({"ort": control, "ort again": QUIET_AGAIN, "x": QUIET}, {}, busy=[2])
    result = report.evaluate("cell", taken, "ort", "ort again", {}, {})
    assert result.marked == {"drift": [6], "others were running": [2]}
    assert len(result.measurement.samples["ort"]) == 7 if result.measurement else False


# ---- distances ----


def test_ulp_distance() -> None:
    next_one = float(np.nextafter(np.float32(1), np.float32(2)))

    def distance(a: float, b: float) -> float:
        return arms.ulp_distance(np.array([a], np.float32), np.array([b], np.float32))

    assert distance(1.0, next_one) == 1
    assert distance(-0.0, 0.0) == 0
    assert distance(-1e-45, 1e-45) == 2
    assert distance(math.nan, math.nan) == 0
    assert distance(math.nan, 1.0) == math.inf
    assert distance(math.inf, float(np.finfo(np.float32).max)) == 1
    assert arms.ulp_distance(np.zeros(2, np.float32), np.zeros(3, np.float32)) == math.inf
    for half in (np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)):
        a, b = (np.array(patterns, np.uint16).view(half) for patterns in ([0x3C00, 0x8001], [0x3C03, 0x0001]))
        assert arms.ulp_distance(a, b) == 3
        assert arms.ulp_distance(a, b.astype(np.float32)) == math.inf
    assert arms.ulp_distance(np.array([1.0]), np.array([1.5])) == math.inf
    assert arms.ulp_distance(np.array([1, -128], np.int8), np.array([1, 127], np.int8)) == 255


def test_absolute_distance() -> None:
    a = np.array([1.0, np.inf, np.nan], np.float32)
    assert arms.absolute_distance(a, a.copy()) == 0
    assert arms.absolute_distance(a, np.array([1.5, np.inf, np.nan], np.float32)) == 0.5
    assert arms.absolute_distance(a, np.array([1.0, 1.0, np.nan], np.float32)) == math.inf
    assert arms.absolute_distance(np.array([1], np.int8), np.array([-2], np.int8)) == 3
