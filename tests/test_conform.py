"""`ortwin conform`: every arm at the quick level; and that it sees what it is for, by arms with faults put in."""

from __future__ import annotations

import ast
import json
import os
import shlex
import signal
import subprocess
import sys
import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from builds import ROOT, build_library
from ortwin import fast
from ortwin.conformance.conform import arms, values
from ortwin.conformance.conform.arms import Arm, Fast, Interpreted, Reference
from ortwin.conformance.conform.case import Case, Operand, operand, parse
from ortwin.conformance.conform.command import Report, choose, conform, open_arms
from ortwin.conformance.conform.generate import Generator
from ortwin.conformance.conform.outcome import Declined, Failed, Made, NotAsked, Outcome
from ortwin.conformance.conform.verify import Measure, compare
from ortwin.ref.ops import OPS
from ortwin.ref.tensor import FLOAT
from test_cli import Capture, document, invoke

OURS = list(arms.ours())
AVAILABLE = [isa for isa, why in fast.isas().items() if not why]
Fault = Callable[[Case, Operand], Operand | Made]


# the quick level


@pytest.fixture(scope="module")
def quick() -> Report:
    """All of our arms over the same cases in one pass, so that what is expected is computed once."""
    with open_arms([]) as made:
        return conform(choose(Generator(0, "quick"), []), made)


@pytest.mark.parametrize("name", OURS)
def test_arm(name: str, quick: Report) -> None:
    """All the cases: the same bits as the reference, and the same ones declined."""
    if quick.arms[name]:
        pytest.skip(f"{name} is not available: {quick.arms[name]}")
    wrong = [f"{f.label}: {f.difference.what}\n{f.repeat}" for f in quick.failures if f.arm == name]
    assert not wrong, "\n".join(wrong)
    assert {row.op for row in quick.rows} == {f"{domain}.{op}" if domain else op for domain, op in OPS}
    for row in quick.rows:
        cell = row.cells[name]
        assert cell.compared + cell.not_asked == row.cases
        assert cell.differing == 0
        assert cell.declined <= row.declined  # ONNX Runtime declines some of those before a provider is asked
        assert cell.compared - cell.declined > 20, f"{row.op}: next to nothing is computed"
        if not name.startswith("ep:"):
            assert cell.not_asked == 0


# faults


class Planted(Arm):
    """An arm that computes rightly and then does something wrong."""

    def __init__(self, fault: Fault, base: Arm | None = None) -> None:
        super().__init__("planted")
        self.base = base or Reference()
        self.fault = fault

    def run(self, case: Case) -> Outcome:
        outcome = self.base(case)
        if not isinstance(outcome, Made):
            return outcome
        made = self.fault(case, outcome.output)
        return made if isinstance(made, Made) else Made(made)


def on_bits(change: Callable[[Case, Any, Any], None]) -> Fault:
    """A fault in the output of float32 tensors: change(case, x, y) alters the patterns y."""

    def fault(case: Case, output: Operand) -> Operand:
        if output.dtype != FLOAT:
            return output
        y = np.array(output.array).reshape(-1).view(np.uint32)
        change(case, case.x.array.reshape(-1), y)
        return replace(output, data=y.tobytes())

    fault.__name__ = change.__name__
    return fault


def numbers(case: Case) -> dict[str, float]:
    """The attributes that are numbers."""
    return {name: value for name, value in case.attributes if isinstance(value, float)}


@on_bits
def flips_a_bit(case: Case, x: Any, y: Any) -> None:
    """In the last element of any tensor longer than a vector."""
    if y.size > 16:
        y[-1] ^= 1


@on_bits
def other_tail(case: Case, x: Any, y: Any) -> None:
    """alpha * x + beta rounded twice, in the elements behind the last whole vector only."""
    given = {"alpha": 0.2, "beta": 0.5, **numbers(case)}
    alpha, beta = np.float32(given["alpha"]), np.float32(given["beta"])
    tail = x[x.size - x.size % 8 :]
    with np.errstate(all="ignore"):
        t = alpha * tail + beta
        wrong = np.where(t >= 1, np.float32(1), np.where(t > 0, t, np.float32(0)))
    keep = np.isnan(t)
    if tail.size:
        y[-tail.size :] = np.where(keep, y[-tail.size :], wrong.astype(np.float32).view(np.uint32))


@on_bits
def loses_nan(case: Case, x: Any, y: Any) -> None:
    """As max(x, 0) does in most instruction sets."""
    y[np.isnan(x)] = 0


@on_bits
def keeps_payload(case: Case, x: Any, y: Any) -> None:
    """NaNs as they came."""
    nan = np.isnan(x)
    y[nan] = x.view(np.uint32)[nan]


@on_bits
def wrong_zero(case: Case, x: Any, y: Any) -> None:
    """-0.0 becomes +0.0."""
    y[y == 0x80000000] = 0


@on_bits
def flushes(case: Case, x: Any, y: Any) -> None:
    """Subnormal results become zeros."""
    y[(y & 0x7F800000) == 0] &= 0x80000000


@on_bits
def loses_an_attribute(case: Case, x: Any, y: Any) -> None:
    """An alpha below zero is taken for zero."""
    if numbers(case).get("alpha", 0.0) < 0:
        y[x < 0] = 0x80000000


@on_bits
def minds_the_address(case: Case, x: Any, y: Any) -> None:
    if case.offset % 4:
        y[:1] ^= 0x80000000


@on_bits
def minds_in_place(case: Case, x: Any, y: Any) -> None:
    if case.in_place:
        y[:1] ^= 2


@on_bits
def minds_threads(case: Case, x: Any, y: Any) -> None:
    if case.threads > 1 and y.size > 1000:
        y[y.size // 2] ^= 1


@on_bits
def minds_the_rank(case: Case, x: Any, y: Any) -> None:
    if len(case.x.shape) == 8:
        y[:1] ^= 1


def writes_elsewhere(case: Case, output: Operand) -> Made:
    return Made(output, "bytes outside the output were written" if output.size == 7 else "")


def other_shape(case: Case, output: Operand) -> Operand:
    return replace(output, shape=(1, *output.shape)) if output.size == 0 else output


FAULTS = [  # the fault, an op that shows it, elements of the smallest case that does, what else is left in it
    (flips_a_bit, "Abs", 17, ""),
    (other_tail, "HardSigmoid", 1, ""),
    (loses_nan, "Relu", 1, ""),
    (keeps_payload, "Neg", 1, ""),
    (wrong_zero, "Neg", 1, ""),
    (flushes, "Abs", 1, ""),
    (loses_an_attribute, "LeakyRelu", 1, "@alpha=-"),
    (minds_the_address, "Exp", 1, "offset="),
    (minds_in_place, "Sqrt", 1, "in_place"),
    (minds_threads, "Tanh", 1001, "threads=2"),
    (minds_the_rank, "Floor", 1, "float32[1,1,1,1,1,1,1,1]"),
    (writes_elsewhere, "Round", 7, ""),
    (other_shape, "Sign", 0, ""),
]


@pytest.fixture
def plant(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes an arm known to the command line as `planted`."""

    def put(fault: Fault, base: Callable[[], Arm] = Reference) -> None:
        monkeypatch.setattr(arms, "ours", lambda: {"planted": lambda: Planted(fault, base())})

    return put


@pytest.mark.parametrize(("fault", "op", "elements", "left"), FAULTS, ids=[fault[0].__name__ for fault in FAULTS])
def test_a_fault_is_caught_located_shrunk_and_repeated(
    fault: Fault, op: str, elements: int, left: str, plant: Callable[..., None], capsys: Capture
) -> None:
    plant(fault)
    found = document(capsys, "conform", "--op", op, code=1)
    assert found["agree"] is False
    (failure,) = found["failures"]
    assert (failure["op"], failure["arm"]) == (op, "planted")

    # the case as it was found, by its seed and number
    again = document(capsys, *shlex.split(failure["repeat"])[1:], code=1)
    assert again["failures"][0]["difference"] == failure["difference"]

    # the smallest one, by its text
    small = parse(failure["shrunk"])
    assert small.x.size == elements
    assert left in failure["shrunk"]
    for word in ("offset", "in_place", "threads", "constant"):
        assert (word in failure["shrunk"]) == (word in left)
    assert len(small.attributes) == left.count("@")
    assert len(small.x.shape) == (8 if "1,1" in left else 1)
    if failure["shrunk_repeat"]:
        again = document(capsys, *shlex.split(failure["shrunk_repeat"])[1:], code=1)
        assert again["failures"][0]["difference"] == failure["shrunk_difference"]
    else:
        assert elements > 200
    if failure["shrunk_difference"]["index"] is not None:
        at = failure["shrunk_difference"]["index"]
        right = Reference()(small)
        assert isinstance(right, Made)
        assert failure["shrunk_difference"]["expected"] == right.output.data[4 * at : 4 * at + 4].hex()
        assert failure["shrunk_difference"]["observed"] != failure["shrunk_difference"]["expected"]
        assert failure["shrunk_difference"]["inputs"][0] == small.x.data[4 * at : 4 * at + 4].hex()


@on_bits
def minds_the_rows(case: Case, x: Any, y: Any) -> None:
    """Of a product: a tile of four rows that is wrong from the fifth on, in its last column."""
    if case.x.shape[-2:-1] > (4,):
        y[-1:] ^= 1


@on_bits
def minds_the_bias(case: Case, x: Any, y: Any) -> None:
    """Gemm without the sign of beta."""
    if numbers(case).get("beta", 0.0) < 0 and len(case.inputs) > 2:
        y[:] ^= 0x80000000


def other_zero_point(case: Case, output: Operand) -> Operand:
    """A result of uint8 that is one too large at a vector's end, when the zero points come by rows."""
    rows = len(case.inputs) > 7 and case.inputs[2] is not None and case.inputs[2].size > 1
    return replace(output, data=output.data[:-1] + bytes([output.data[-1] ^ 1])) if rows and output.data else output


@pytest.mark.parametrize(
    ("fault", "op"),
    [(minds_the_rows, "MatMul"), (minds_the_bias, "Gemm"), (other_zero_point, "QLinearMatMul")],
    ids=["rows", "bias", "zero point"],
)
def test_a_fault_of_an_op_executed_as_a_whole_is_caught_and_repeated(
    fault: Fault, op: str, plant: Callable[..., None], capsys: Capture
) -> None:
    plant(fault)
    (failure,) = document(capsys, "conform", "--op", op, code=1)["failures"]
    again = document(capsys, *shlex.split(failure["repeat"])[1:], code=1)
    assert again["failures"][0]["difference"] == failure["difference"]
    assert parse(failure["shrunk"]).offset == 0
    assert failure["shrunk_difference"]["index"] is not None


def test_a_fault_in_a_further_output_is_caught() -> None:
    """The scale of a range of 256 steps."""
    case = parse("DynamicQuantizeLinear-11 x=float32[2]:0000803f00000040")
    right = Reference()(case)
    assert isinstance(right, Made)
    assert [item.dtype for item in right.outputs] == [2, 1, 2]
    scale, zero_point = right.others
    wrong = operand(scale.array * np.float32(255 / 256), FLOAT)
    difference = compare(case, right, replace(right, others=(wrong, zero_point)))
    assert difference is not None
    assert difference.what == "1 of 1 elements differ, first at []"


def test_what_is_printed_of_a_failure(plant: Callable[..., None], capsys: Capture) -> None:
    plant(loses_an_attribute)
    code, out, err = invoke(capsys, "conform", "--op", "LeakyRelu", "--seed", "5")
    assert (code, err) == (1, "")
    (row,) = [line.split() for line in out.splitlines() if line.strip().startswith("LeakyRelu  ")]
    assert row[-1] == "DIFFER"
    lines = out.splitlines()
    first = next(k for k, line in enumerate(lines) if line.endswith(" on planted:"))
    assert lines[first].startswith("LeakyRelu-")
    assert "@alpha=-" in lines[first]
    whole = "\n".join(lines[first:])
    for word in (
        "elements differ, first at [",
        "inputs ",
        "observed ",
        "expected ",
        "--seed 5",
        "shrunk:",
        "--level quick",
    ):
        assert word in whole
    repeats = [line.split(": ", 1)[1] for line in lines if line.startswith("  repeat: ")]
    assert len(repeats) == 2
    for repeat in repeats:
        assert invoke(capsys, *shlex.split(repeat)[1:])[0] == 1


def test_without_hypothesis_a_failure_is_as_it_was_found(
    plant: Callable[..., None], capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(loses_nan)
    monkeypatch.setitem(sys.modules, "hypothesis", None)
    code, out, err = invoke(capsys, "conform", "--op", "Relu")
    assert (code, err) == (1, "")
    assert "shrunk:" not in out
    assert "pip install 'ortwin[conform]' adds hypothesis, which shrinks them" in out
    assert out.count("repeat: ") == 1


def test_declining_is_a_verdict(plant: Callable[..., None], capsys: Capture) -> None:
    class Choosy(Reference):
        """Declines what the reference computes, and computes what it declines."""

        def run(self, case: Case) -> Outcome:
            outcome = super().run(case)
            if isinstance(outcome, Declined):
                return Made(case.x)
            return Declined("no") if dict(case.attributes) else outcome

    plant(lambda _case, output: output, Choosy)
    found = document(capsys, "conform", "--op", "Celu", code=1)
    assert found["failures"][0]["difference"]["what"].startswith(
        ("declined, but", "computed, but the reference declines")
    )
    cells = found["rows"][0]["cells"]["planted"]
    assert cells["differing"] >= found["rows"][0]["declined"] > 0


def test_an_arm_that_breaks_is_a_difference(plant: Callable[..., None], capsys: Capture) -> None:
    class Broken(Reference):
        def __call__(self, case: Case) -> Outcome:
            return Failed("out of order")

    plant(lambda _case, output: output, Broken)
    found = document(capsys, "conform", "--op", "Log", "--count", "5", code=1)
    assert found["failures"][0]["difference"]["what"] == "failed: out of order"
    assert found["rows"][0]["cells"]["planted"]["differing"] == 5


@pytest.fixture(scope="module")
def wrong_build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A build of the library in which Abs is Neg."""
    change = {"kernels/unary.h": ("or_nan(vf_abs(x), x, x)", "or_nan(vf_neg(x), x, x)")}
    return build_library(tmp_path_factory.mktemp("wrong"), change)


@pytest.mark.nosanitize("the build under test is not instrumented, and is loaded beside one that is")
def test_a_wrong_build_by_path_is_held_to_the_reference(wrong_build: Path) -> None:
    """In processes of its own, from the command line: found, and found again by what was printed."""
    start = [sys.executable, "-W", "error", "-m", "ortwin.conformance.cli"]
    words = ["conform", "--arm", f"mutant={wrong_build}", "--op", "Abs", "--op", "Neg", "--json"]
    done = subprocess.run([*start, *words], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (1, "")
    (failure,) = json.loads(done.stdout)["failures"]
    assert failure["op"] == "Abs"
    small = parse(failure["shrunk"])
    assert (small.x.size, small.offset) == (1, 0)
    words = shlex.split(failure["shrunk_repeat"])[1:]
    repeated = subprocess.run([*start, *words], capture_output=True, text=True, timeout=300)
    assert (repeated.returncode, repeated.stderr) == (1, "")
    difference = failure["shrunk_difference"]
    assert f"observed {difference['observed']}, expected {difference['expected']}" in repeated.stdout


# foreign arms


def test_a_foreign_arm_is_measured_and_nothing_asserted(capsys: Capture) -> None:
    found = document(capsys, "conform", "--arm", "ort-cpu", "--op", "Sigmoid", "--op", "Identity", "--op", "Sqrt")
    assert (found["agree"], found["failures"]) == (True, [])
    rows = {row["op"]: row["cells"]["ort-cpu"]["measure"] for row in found["rows"]}
    assert rows["Sigmoid"]["ulp"] > 1  # its answer for moderately negative numbers is 0
    label, x, got, want = rows["Sigmoid"]["worst"]
    assert label.startswith("Sigmoid-")
    assert got != want
    assert (len(x), len(got), len(want)) == (8, 8, 8)
    assert (rows["Identity"]["differing"], rows["Identity"]["ulp"]) == (0, 0)
    assert rows["Identity"]["elements"] > 1000
    assert rows["Sqrt"]["payload"] == rows["Sqrt"]["differing"] > 0  # rounded once, but its NaNs are of either sign
    assert sum(row["cells"]["ort-cpu"]["declined"] for row in found["rows"]) > 0


def test_the_table_of_what_was_measured(capsys: Capture) -> None:
    code, out, err = invoke(
        capsys, "conform", "--arm", "ort-cpu", "--op", "Sigmoid", "--op", "Identity", "--count", "60"
    )
    assert (code, err) == (0, "")
    assert "measured, not asserted" in out
    (line,) = [line for line in out.splitlines() if line.strip().startswith("ort-cpu   Sigmoid")]
    assert "(Sigmoid-" in line
    verdicts = [line.split() for line in out.splitlines() if line.strip().startswith(("Sigmoid", "Identity"))]
    assert [words[-1] for words in verdicts] == ["equal", "ulp"] or [words[-1] for words in verdicts] == [
        "ulp",
        "equal",
    ]


def float32(*numbers: float) -> Operand:
    return operand(np.array(numbers, np.float32), FLOAT)


def measured(got: Operand, want: Operand) -> Measure:
    measure = Measure()
    case = Case("", "Exp", 13, (), (want,))
    measure.add(case, Made(want), Made(got))
    return measure


def test_what_a_measure_counts() -> None:
    inf, nan = float("inf"), float("nan")
    want = float32(1.0, 2.0, nan, 1.0, inf, -inf, 0.0, nan, 0.0)
    got = float32(1.0, np.nextafter(np.float32(2), np.float32(3)), 1.0, nan, 1.0, inf, -0.0, -nan, 2.0**-149)
    measure = measured(got, want)
    assert (measure.elements, measure.differing) == (9, 8)
    assert (measure.ulp, measure.nan, measure.inf, measure.zero, measure.payload) == (1, 2, 2, 1, 1)
    assert measured(float32(-(2.0**-149)), float32(2.0**-149)).ulp == 2  # over both zeros as if they were one
    assert measured(float32(-1.0), float32(1.0)).ulp == 2 * 0x3F800000


@pytest.mark.parametrize("dtype", [10, 11, 16])
def test_ulp_of_other_formats(dtype: int) -> None:
    one = operand(np.ones(3, values.numpy_type(dtype)), dtype)
    bits = np.frombuffer(one.data, f"u{len(one.data) // 3}").copy()
    bits[1] += 5
    assert measured(replace(one, data=bits.tobytes()), one).ulp == 5


def test_integers_are_only_counted() -> None:
    want = operand(np.array([1, 2, 3], np.int32), 6)
    measure = measured(replace(want, data=np.array([1, 2, 4], np.int32).tobytes()), want)
    assert (measure.differing, measure.ulp) == (1, 0)


# arms


def test_an_instruction_set_that_is_missing_is_reported(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arms, "isas", lambda: {"avx1024": "the CPU lacks it", "portable": ""})
    found = document(capsys, "conform", "--op", "Relu", "--count", "20")
    assert found["arms"]["fast:avx1024"] == found["arms"]["ep:avx1024"] == "the CPU lacks it"
    assert found["arms"]["fast:portable"] == ""
    assert found["agree"] is True
    assert "fast:avx1024" not in found["rows"][0]["cells"]
    code, out, err = invoke(capsys, "conform", "--op", "Relu", "--count", "20", "--arm", "fast:avx1024")
    assert (code, err) == (0, "")
    assert "fast:avx1024 is not available: the CPU lacks it" in out
    assert "not available" in next(line for line in out.splitlines() if line.strip().startswith("Relu"))


def test_without_onnxruntime_the_other_arms_run(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    found = document(capsys, "conform", "--op", "Relu", "--count", "20")
    assert "onnxruntime is not installed" in found["arms"]["ep:portable"]
    assert found["rows"][0]["cells"]["fast:portable"]["compared"] == 20
    assert invoke(capsys, "conform", "--arm", "ort-cpu")[0] == 2


def test_interpreted_means_interpreted() -> None:
    arm = Interpreted()
    try:
        case = parse("Sqrt-13 x=float32[2]:0000804000000041")
        assert arm(case) == Reference()(case)
        declined = arm(parse("Celu-12 @alpha=-0x1p+0 x=float32[]:00000000"))
        assert isinstance(declined, Declined)
        assert "alpha" in declined.reason
        big = replace(case, inputs=(operand(np.zeros(arms.INTERPRETED_MOST + 1, np.float32), FLOAT),))
        assert isinstance(arm(big), NotAsked)
        assert arm._process is not None
        os.kill(arm._process.pid, signal.SIGKILL)
        arm._process.wait()
        failed = arm(case)
        assert isinstance(failed, Failed)
        assert "ended" in failed.reason
        assert arm(case) == Reference()(case)  # another process
    finally:
        arm.close()


@pytest.mark.parametrize("isa", AVAILABLE)
def test_where_operands_lie(isa: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The offsets and the sharing of buffers are what the case says, by the addresses that the session is given."""
    seen: list[tuple[int, int]] = []

    class Watched(fast.Session):
        def run_into(self, outputs: Any, feeds: Any) -> None:
            seen.append((feeds["x"].ctypes.data, outputs["y"].ctypes.data))
            super().run_into(outputs, feeds)

    monkeypatch.setattr(arms, "Session", Watched)
    arm = Fast(isa)
    case = parse("Abs-13 x=float32[3]:0000803f000000bf0000c07f")
    for offset in range(64):
        for in_place in (False, True):
            outcome = arm(replace(case, offset=offset, in_place=in_place))
            assert outcome == Reference()(case)
            x, y = seen.pop()
            assert x % 64 == offset
            assert (x == y) == in_place
            assert y % 64 == (offset if in_place else 63 - offset)


def test_bytes_around_an_output_are_watched() -> None:
    case = parse("Abs-13 x=float32[3]:0000803f000000bf0000c07f offset=5")
    for in_place in (False, True):
        for where in (-1, 12):
            buffers = arms.Buffers(case, 5, 5 if in_place else 58, in_place)
            assert buffers.made().damage == ""
            (target,) = buffers.targets
            target.room[target.start + where] ^= 1
            assert buffers.made().damage == "bytes outside the output were written"
    buffers = arms.Buffers(case, 5, 58, False)
    buffers.x[1] = 7
    assert buffers.made().damage == "the input was changed"


def test_the_provider_must_execute_the_node_itself() -> None:
    """ONNX Runtime puts Identity in the place of a Clip on bfloat16 that is declined: that is no Clip of ours."""
    arm = arms.provider("portable")
    outcome = arm(parse("Elu-6 x=float64[1]:0000000000000000"))
    assert isinstance(outcome, Declined)
    assert outcome.reason
    case = parse("Clip-13 x=bfloat16[1]:803f")
    outcome, right = arm(case), Reference()(case)
    assert isinstance(outcome, Declined) == isinstance(right, Declined)


def test_a_difference_needs_both_outcomes() -> None:
    case = parse("Abs-13 x=float32[1]:0000803f")
    made = Made(case.x)
    assert compare(case, made, made) is None
    assert compare(case, Declined("no"), Declined("neither")) is None
    assert compare(case, made, NotAsked("unknown to the host")) is None
    pairs: list[tuple[Outcome, Outcome]] = [
        (made, Declined("no")),
        (Declined("no"), made),
        (Declined("no"), Declined("")),
        (made, Failed("broken")),
        (Declined("no"), Failed("broken")),
        (Failed("broken"), made),
        (made, Made(case.x, "the input was changed")),
        (made, Made(replace(case.x, shape=()))),
        (made, Made(replace(case.x, dtype=6))),
        (made, Made(replace(case.x, data=b"\0\0\x80\xbf"))),
        (Made(case.x, others=(case.x,)), Made(case.x, others=(replace(case.x, data=b"\0\0\x80\xbf"),))),
    ]
    for expected, observed in pairs:
        assert compare(case, expected, observed) is not None, (expected, observed)


# the command line


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--op", "Nope"], "'Nope' is not implemented: `ortwin ops` lists the ops that are"),
        (["--arm", "fast:avx1024"], "there is no arm 'fast:avx1024': choose ref, ref:interpreted, "),
        (["--arm", "ref=/x.so"], "the arm name 'ref' is taken"),
        (["--arm", "x=/no/such.so"], "there is no library /no/such.so"),
        (["--case", "3"], "--case N needs one --op, of which it is the case"),
        (["--case", "Relu-14"], "a case needs its input x"),
        (["--case", "1", "--op", "Relu", "--count", "2"], "--case names one case: --count has no meaning beside it"),
        (["--case", str(1 << 50), "--op", "Relu"], "there is no case "),
        (["--count", "0"], "argument --count: must be at least 1, not '0'"),
        (["--level", "most"], "argument --level: invalid choice: 'most'"),
    ],
)
def test_requests_that_cannot_be_met(words: list[str], sentence: str, capsys: Capture) -> None:
    code, out, err = invoke(capsys, "conform", *words)
    assert (code, out) == (2, "")
    assert err.startswith(f"ortwin: {sentence}")
    assert err.count("\n") == 1


def test_lanes_and_extras_name_what_there_is() -> None:
    """noxfile.py can't ask the library which arms there are; the sentence about the extra must be true."""
    tree = ast.parse((ROOT / "noxfile.py").read_text(encoding="utf-8"))
    (found,) = [n.value for n in tree.body if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == "ARMS"]
    assert eval(compile(ast.Expression(found), "noxfile.py", "eval")) == OURS
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["optional-dependencies"]["conform"][0].startswith("hypothesis")


def test_ops_by_either_name(capsys: Capture) -> None:
    for text in ("QuickGelu", "com.microsoft.QuickGelu"):
        found = document(capsys, "conform", "--arm", "ref", "--op", text, "--op", "Abs", "--count", "3")
        assert [(row["op"], row["cases"]) for row in found["rows"]] == [("com.microsoft.QuickGelu", 3), ("Abs", 3)]


def test_the_full_level_in_samples(capsys: Capture) -> None:
    found = document(capsys, "conform", "--level", "full", "--count", "15", "--op", "Gelu", "--op", "Clip")
    assert found["agree"] is True
    assert found["level"] == "full"
