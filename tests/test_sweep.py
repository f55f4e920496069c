"""Sweeps: the yardstick against mpmath, measures of arms that are wrong in known ways, state files and merging."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest
from onnx import helper

from models import AVAILABLE, Array
from ortwin.conformance import cli, plugins
from ortwin.conformance.sweep import arms, blocks, cases, elementary, exact, measure
from ortwin.conformance.sweep.blocks import BLOCK, BLOCKS, CHUNK, Record, State
from ortwin.conformance.sweep.cases import CASES, Case, find
from ortwin.conformance.sweep.functions import FAMILIES, Function, Monotone
from ortwin.conformance.sweep.measure import Measures, Truth
from ortwin.fast import library_path
from ortwin.ref.errors import OrtwinError
from ortwin.ref.graph import load
from ortwin.ref.ops import OPS, lookup
from ortwin.ref.unary import Elementwise

Capture = pytest.CaptureFixture[str]
ISA = AVAILABLE[0]

FUNCTIONS = {
    **{f"{domain}.{op}": cases.make(domain, op) for domain, op in FAMILIES},
    **{case.name: case for case in CASES},
    **{
        case.name: case
        for case in (
            cases.make("", "Elu", alpha=0.3),
            cases.make("", "Selu", alpha=1.5, gamma=1.1),  # whose limit is a tie
            cases.make("", "Celu", alpha=0.7),
            cases.make("", "Celu", alpha=1e30),
            cases.make("", "Swish", alpha=-0.7),
            cases.make("", "Swish", alpha=50.0),
            cases.make("", "HardSigmoid", alpha=3.3, beta=-0.1),
        )
    },
}
"""Every function there is a yardstick for, also of ops that the reference lacks."""


def floats(bits: Array) -> Array:
    return bits.astype(np.uint32).view(np.float32)


def points(seed: int, count: int) -> Array:
    """Finite inputs: any pattern, and numbers of ordinary size with the tails of the exponential family."""
    rng = np.random.default_rng(seed)
    x = np.concatenate([floats(rng.integers(0, 2**32, count)), rng.normal(0, 5, count).astype(np.float32)])
    x = np.concatenate([x, rng.uniform(-106, 106, count).astype(np.float32)])
    return np.asarray(x[np.isfinite(x)])


def hard_points(function: Function, count: int) -> Array:
    """Of many inputs those whose true values are nearest to midpoints of binary32."""
    x = points(5, 40_000)
    with np.errstate(all="ignore"):
        value = function.value(x.astype(np.float64))
        unit = np.ldexp(1.0, np.maximum(np.frexp(value)[1] - 24, -149))
        distance = np.abs(np.abs(value) / unit % 1.0 - 0.5)
    distance[~np.isfinite(value)] = 1.0
    return np.asarray(x[np.argsort(distance)[:count]])


def in_domain(case: Case, x: Array) -> Array:
    return np.asarray(x[x > 0]) if case.op in ("Log", "Sqrt") else np.asarray(x[x != 0])


def relative_error(function: Function, x: Array) -> float:
    """The largest error of the yardstick, relative to the true value or to 2^-24 of the smallest subnormal."""
    with np.errstate(all="ignore"):
        values = function.value(x.astype(np.float64))
    worst = 0.0
    for number, value in zip(x, values, strict=True):
        true = exact.true_value(function, float(number))
        if abs(true) < 2.0**128:
            with mpmath.workprec(200):
                worst = max(worst, float(abs(mpmath.mpf(float(value)) - true) / max(abs(true), 2.0**-173 * 2.0**52)))
        else:
            assert abs(value) >= 2.0**128
    return worst


# The yardstick


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_yardstick_is_as_good_as_it_says(name: str) -> None:
    case = FUNCTIONS[name]
    function = case.function
    x = in_domain(case, np.concatenate([points(1, 60), hard_points(function, 40)]))
    limit = function.error or 2.0**-53
    assert relative_error(function, x) <= limit
    wrong = replace(function, value=lambda x: function.value(x) * (1.0 + 2.0**-42))
    assert relative_error(wrong, x) > limit


@pytest.mark.parametrize("name", FUNCTIONS)
def test_correct_rounding_at_the_hardest_points(name: str) -> None:
    """mpmath's own rounding to 24 bits, where results are normal numbers."""
    case = FUNCTIONS[name]
    for x in map(float, in_domain(case, hard_points(case.function, 30))):
        true = exact.true_value(case.function, x)
        if 2.0**-126 <= abs(true) < 2.0**127:
            with mpmath.workprec(24):
                assert exact.rounded(case.function, x) == float(+true)


def test_ties_go_to_even_unless_the_function_breaks_them() -> None:
    half = Function(lambda x: x / 2, lambda x: x / 2)
    least = 2.0**-149
    assert [exact.rounded(half, k * least) / least for k in (1, 3, 5, -1, -3)] == [0, 2, 2, 0, -2]
    swish = find("Swish").function  # x/2 + x^2/4
    assert [exact.rounded(swish, k * least) / least for k in (1, 3, 5, -1, -3)] == [1, 2, 3, 0, -1]


@pytest.mark.parametrize("op", ["Swish", "HardSwish", "com.microsoft.QuickGelu", "com.microsoft.FastGelu"])
@pytest.mark.parametrize("first", [0, 0x80000000, 0x00FF8000, 0x80FF8000])
def test_ties_of_subnormal_halves_without_mpmath(op: str, first: int) -> None:
    """Half of the 2^24 subnormal inputs are ties to binary64: they are decided without a close call each."""
    function = find(op).function
    truth = Truth(function, blocks.BASE + np.uint32(first))
    assert truth.tolerance == 0.0
    for k in (1, 2, 3, 5, 1001, 32767):
        assert float(truth.rounded[k]) == exact.rounded(function, float(truth.x[k])), k


@pytest.mark.parametrize("name", [case.name for case in CASES])
@pytest.mark.parametrize("first", [0x00000000, 0x80000000, 0x7F7F8000, 0xFF7F8000, 0x7F800000, 0xFF800000])
def test_the_reference_is_right_at_the_ends(name: str, first: int) -> None:
    """Signed zeros, infinities and NaNs as the contract has them (C3, C10), by two independent hands."""
    case = find(name)
    try:
        arm = arms.make(arms.REFERENCE, case)
    except OrtwinError as error:
        pytest.skip(f"the reference has no {name}: {error}")
    truth = Truth(case.function, blocks.BASE[:256] + np.uint32(first))
    found = truth.measure(arm.compute(truth.x), arm)
    assert found.max_ulp <= 1.0
    assert (found.zero_sign, found.range, found.oddness) == (0, 0, 0)
    assert found.classes.get("other NaN", 0) == 0 or case.op == "Identity"


@pytest.mark.parametrize("name", ["Gelu", "Gelu-approximate=tanh", ".Mish", "HardSwish", "Swish"])
def test_limits_of_the_gated_functions(name: str) -> None:
    value = FUNCTIONS[name].function.value
    with np.errstate(all="ignore"):
        y = value(np.array([-math.inf, -1e30, -300.0, -0.0, 0.0, math.inf, math.nan])).astype(np.float32)
    assert y[:4].tolist() == [0.0] * 4
    assert np.signbit(y[:5]).tolist() == [True] * 4 + [False]
    assert y[5] == math.inf
    assert math.isnan(y[6])


def test_worst_errors_by_mpmath() -> None:
    exp = find("Exp").function
    right = exact.rounded(exp, 1.0)
    assert exact.error_in_ulp(exp, 1.0, right) < 0.5
    beside = float(np.nextafter(np.float32(right), np.float32(9)))
    assert exact.error_in_ulp(exp, 1.0, beside) == pytest.approx(abs(beside - math.e) * 2.0**22, abs=1e-6)
    assert exact.error_in_ulp(exp, 1.0, math.inf) == math.inf
    assert exact.error_in_ulp(exp, 89.0, math.inf) == 0.0
    assert exact.error_in_ulp(exp, 89.0, 3e38) == math.inf
    assert exact.error_in_ulp(exp, -104.0, 0.0) == pytest.approx(math.exp(-104.0) * 2.0**149)


def test_every_unary_float_op_can_be_swept() -> None:
    assert {(case.domain, case.op) for case in CASES} == set(FAMILIES) & set(OPS)
    for domain, op in set(OPS) - set(FAMILIES):
        node = helper.make_node(op, ["x"], ["y"], domain=domain)
        values = [helper.make_tensor_value_info(name, 1, ["n"]) for name in "xy"]
        imports = [helper.make_opsetid(domain, max(OPS[domain, op].versions)), helper.make_opsetid("", 21)]
        graph = helper.make_graph([node], "g", values[:1], values[1:])
        model = helper.make_model(graph, opset_imports=imports[: 1 + bool(domain)], ir_version=10)
        try:
            kernel = lookup(load(model).nodes[0])
        except OrtwinError:
            continue  # it needs more than one input
        assert not isinstance(kernel, Elementwise), f"{op} has no yardstick"


# Measures


class Wrapped(arms.Arm):
    """An arm whose results are changed by a function of (x, y)."""

    def __init__(self, arm: arms.Arm, change: Callable[[Array, Array], None]) -> None:
        super().__init__(arm.name, arm.build)
        self._arm, self._change, self.ours = arm, change, arm.ours

    def compute(self, x: Array) -> Array:
        y = self._arm.compute(x)
        self._change(x, y)
        return np.asarray(y)


def at(x: float, result: float) -> Callable[[Array, Array], None]:
    """Another result at one input."""

    def change(inputs: Array, y: Array) -> None:
        same = inputs == np.float32(x)
        if x == 0.0:
            same &= np.signbit(inputs) == np.signbit(x)
        y[same] = result

    return change


def measured(op: str, x: float, change: Callable[[Array, Array], None] = lambda x, y: None) -> Measures:
    """The measures of the chunk that holds x."""
    case = find(op)
    arm = Wrapped(arms.make(ISA, case), change)
    bits = int(np.float32(x).view(np.uint32)) & ~(CHUNK - 1)
    truth = Truth(case.function, blocks.BASE + np.uint32(bits))
    return truth.measure(arm.compute(truth.x), arm)


def next_to(x: float, towards: float) -> float:
    return float(np.nextafter(np.float32(x), np.float32(towards)))


def test_a_wrong_last_place_is_counted_and_located() -> None:
    good = measured("Sqrt", 2.0)
    assert good.not_rounded == good.monotonicity == 0
    assert 0.49 < good.max_ulp < 0.5
    bad = measured("Sqrt", 2.0, at(2.0, next_to(math.sqrt(2), 0)))
    assert bad.not_rounded == 1
    assert bad.worst == int(np.float32(2.0).view(np.uint32))
    assert bad.max_ulp == pytest.approx((math.sqrt(2) - next_to(math.sqrt(2), 0)) * 2.0**23)


def test_a_close_call_is_decided_by_the_true_value() -> None:
    """A function that is 2^-60 beside a midpoint, which its yardstick calls the midpoint."""
    middle = 1.0 + 2.0**-24
    for side, right in ((1, 1.0 + 2.0**-23), (-1, 1.0)):
        tiny = side * mpmath.ldexp(1, -60)
        function = Function(lambda x: x * 0 + middle, lambda x, t=tiny: middle + t, error=2.0**-50)  # type: ignore[misc]
        bits = blocks.BASE[:4] + np.uint32(0x3F800000)
        truth = Truth(function, bits)
        for result in (1.0, 1.0 + 2.0**-23):
            y = np.full(4, result, np.float32)
            assert truth.measure(y, arms.make(ISA, find("Relu"))).not_rounded == (0 if result == right else 4)


def test_the_number_below_a_power_of_2_is_no_close_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is half a last place of 1 away from 1. A provider that saturates there does so for a billion inputs."""

    def refuse(function: Function, x: float) -> float:
        raise AssertionError(f"mpmath was asked about {x}")

    monkeypatch.setattr(exact, "rounded", refuse)
    for op, x in (("Softsign", 2.0**60), ("Tanh", 64.0)):
        wrong = measured(op, x, lambda _, y: y.fill(next_to(1.0, 0.0)))
        assert (wrong.max_ulp, wrong.not_rounded) == (0.5, CHUNK)


@pytest.mark.parametrize(
    ("op", "x", "result", "field", "count"),
    [
        ("Tanh", 0.5, math.nan, "max_ulp", math.inf),
        ("Tanh", 0.5, math.inf, "max_ulp", math.inf),
        ("Tanh", 0.5, math.nan, "not_rounded", 1),
        ("Tanh", -0.5, -0.75, "oddness", 1),
        ("Tanh", 0.5, 1.0 + 2.0**-23, "range", 1),
        ("Tanh", 0.51, 0.25, "monotonicity", 1),
        ("Tanh", -0.51, -0.75, "monotonicity", 1),
        ("Abs", -3.1, 4.0, "monotonicity", 1),
        ("Reciprocal", 4.0, 1.0, "monotonicity", 0),  # the first of its chunk: nothing before it
        ("Reciprocal", 4.1, 1.0, "monotonicity", 1),
        ("HardSwish", -2.0 - 2.0**-20, 0.5, "monotonicity", 1),
        ("HardSwish", -0.5 - 2.0**-20, 0.5, "monotonicity", 1),
        ("HardSwish", -0.5 - 2.0**-20, -0.376, "range", 1),
        ("Sigmoid", 0.0, math.nan, "not_rounded", 1),
        ("Tanh", 0.0, -0.0, "zero_sign", 1),
        ("Tanh", -0.0, 0.0, "zero_sign", 1),
        ("Tanh", math.inf, math.nan, "max_ulp", math.inf),
    ],
)
def test_violations_are_found(op: str, x: float, result: float, field: str, count: float) -> None:
    before = 0 if field == "max_ulp" else getattr(measured(op, x), field)
    assert field == "not_rounded" or before == 0
    assert getattr(measured(op, x, at(x, result)), field) == before + count


@pytest.mark.parametrize("x", [math.inf, -math.inf])
def test_what_a_nan_gives_is_no_violation(x: float) -> None:
    """Behind the infinity the patterns are NaNs, of which ThresholdedRelu makes 0."""
    assert measured("ThresholdedRelu", x).monotonicity == measured("LeakyRelu", x).monotonicity == 0
    assert measured("ThresholdedRelu", 1.6, at(1.6, 0.0)).monotonicity == 1


def test_classes_of_results() -> None:
    assert measured("Exp", math.nan).classes == {"canonical NaN": CHUNK}
    assert measured("Exp", 89.0).classes == {"+infinity": CHUNK}

    def other(x: Array, y: Array) -> None:
        y.view(np.uint32)[7] = 0xFFC00000

    assert measured("Exp", math.nan, other).classes == {"canonical NaN": CHUNK - 1, "other NaN": 1}
    assert measured("Relu", 0.0).classes == {"+0": 1, "+smallest subnormal": 1}


def test_falls_and_rises_are_told_apart() -> None:
    function = Function(lambda x: x, lambda x: x, monotone=Monotone(1, 1, turn=-1.5))
    turn = measure.turn_bits(function)
    assert turn == 0xBFC00000
    assert measure.direction(function, 0x80000000, turn) == -1  # away from 0 down to the turn
    assert measure.direction(function, turn + 1, 0xFF800000) == 1
    assert measure.direction(function, turn, turn + 1) == 0
    assert measure.direction(function, 0, 5) == 1


def synthetic(block: int, first: float, last: float) -> Record:
    before, after = (int(np.float32(value).view(np.uint32)) for value in (first, last))
    return Record(block, "00" * 16, before, after, 0.0, Measures(max_ulp=0.0))


def test_monotone_across_block_borders_and_zero() -> None:
    rising = find("Tanh").function
    good = {0: synthetic(0, 0.0, 0.1), 1: synthetic(1, 0.1, 0.2), 128: synthetic(128, -0.0, -0.1)}
    assert blocks.total(rising, good).monotonicity == 0
    assert blocks.total(rising, {**good, 1: synthetic(1, 0.0999, 0.2)}).monotonicity == 1
    assert blocks.total(rising, {**good, 129: synthetic(129, -0.05, -0.2)}).monotonicity == 1
    assert blocks.total(rising, {**good, 128: synthetic(128, 0.01, -0.1)}).monotonicity == 1
    signs = {127: synthetic(127, 3.0, 4.0), 128: synthetic(128, -0.0, -1.0)}  # no neighbours
    assert blocks.total(rising, signs).monotonicity == 0
    assert blocks.total(find("Reciprocal").function, {0: synthetic(0, math.inf, 9.0), 128: good[128]}).monotonicity == 0


def test_monotone_across_chunk_borders() -> None:
    """A drop at the first input of a chunk is no drop inside it."""
    x = float(floats(np.array([63 * BLOCK + CHUNK]))[0])
    case = find("Relu")
    arm = Wrapped(arms.make(ISA, case), at(x, next_to(next_to(x, 0), 0)))
    (record,) = blocks.sweep_block(63, [arm], case.function)
    assert record.measures is not None
    assert record.measures.monotonicity == 1
    assert record.measures.not_rounded == 1


def test_arms_that_share_a_hash() -> None:
    """The digests of arms that are swept together are those of the arms alone, wherever they part."""
    x = floats(np.array([63 * BLOCK, 63 * BLOCK + 5 * CHUNK + 7, 64 * BLOCK - 1]))
    case = find("Relu")
    plain = arms.make(ISA, case)
    wrong = [Wrapped(plain, at(float(value), next_to(float(value), 0))) for value in x]
    together = blocks.sweep_block(63, [plain, *wrong, plain], None)
    alone = [blocks.sweep_block(63, [arm], None)[0] for arm in (plain, *wrong)]
    assert [record.digest for record in together] == [record.digest for record in [*alone, alone[0]]]
    assert len({record.digest for record in alone}) == 4


# State, shards, merging


def document(capsys: Capture, *arguments: str, code: int = 0) -> dict[str, Any]:
    assert cli.main([*arguments, "--json"]) == code
    out = capsys.readouterr().out
    parsed: dict[str, Any] = json.loads(out)
    return parsed


def untimed(found: dict[str, Any]) -> dict[str, Any]:
    (result,) = found["sweeps"]
    kept = {k: v for k, v in result["arms"][ISA].items() if "seconds" not in k}
    return {"arm": kept, "differences": result["differences"]}


def lines(folder: Path) -> list[str]:
    return [line for path in sorted(folder.glob("*.jsonl")) for line in path.read_text().splitlines()]


SOFTSIGN = ("sweep", "Softsign", "--isa", ISA, "--blocks", "62:65")


def test_shards_and_a_resumed_sweep_are_the_whole(capsys: Capture, tmp_path: Path) -> None:
    whole, one, two = tmp_path / "whole", tmp_path / "one", tmp_path / "two"
    expected = untimed(document(capsys, *SOFTSIGN, "--state", str(whole)))
    assert expected["arm"]["blocks"] == 3
    assert expected["arm"]["figures"]["max_ulp"] == 0.500001
    document(capsys, *SOFTSIGN, "--state", str(one), "--shard", "0/2")
    assert len(lines(one)) == 2
    merged = document(capsys, *SOFTSIGN, "--state", str(two), "--state", str(one), "--shard", "1/2")
    assert untimed(merged) == expected
    assert len(lines(two)) == 1

    (path,) = whole.glob("*.jsonl")
    text = path.read_text()
    path.write_text(text[: len(text) - 40])  # ended while it wrote the last line
    assert untimed(document(capsys, *SOFTSIGN, "--state", str(whole))) == expected
    assert len(lines(whole)) == 4  # the torn line, and one for its block alone
    assert untimed(document(capsys, *SOFTSIGN, "--state", str(whole))) == expected
    assert len(lines(whole)) == 4


def test_blocks_of_other_code_or_numerics_do_not_count(tmp_path: Path) -> None:
    case = find("Relu")
    arm = arms.make(ISA, case)
    State([tmp_path], "Relu").append([arm], [synthetic(3, 0.0, 1.0)], "x")
    assert set(State([tmp_path], "Relu").records(ISA, arm.build)) == {3}
    assert not State([tmp_path], "Relu").records(ISA, "another build")
    (path,) = tmp_path.glob("*.jsonl")
    assert '"numerics": 1' in path.read_text()
    path.write_text(path.read_text().replace('"numerics": 1', '"numerics": 0'))
    assert not State([tmp_path], "Relu").records(ISA, arm.build)


def test_two_digests_of_one_block_are_an_error(tmp_path: Path) -> None:
    arm = arms.make(ISA, find("Relu"))
    State([tmp_path], "Relu").append([arm], [synthetic(3, 0.0, 1.0)], "x")
    other = replace(synthetic(3, 0.0, 1.0), digest="11" * 16)
    with pytest.raises(blocks.StateError, match="block 3 has two digests"):
        State([tmp_path], "Relu").append([arm], [other], "y")


def test_processes_give_what_one_gives(capsys: Capture, tmp_path: Path) -> None:
    arguments = ("sweep", "Abs", "--isa", ISA, "--blocks", "126:130", "--no-measure", "--state")
    document(capsys, *arguments, str(tmp_path / "one"))
    document(capsys, *arguments, str(tmp_path / "two"), "--jobs", "2")
    digests = [[json.loads(line)["record"]["digest"] for line in lines(tmp_path / name)] for name in ("one", "two")]
    assert digests[0] == digests[1]
    assert len(set(digests[0])) == 4


def test_arms_that_differ_end_with_1(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    if len(AVAILABLE) < 2:
        pytest.skip("this machine has one instruction set only")
    real = arms.make

    def make(name: str, case: Case, dtype: int = 1) -> arms.Arm:
        arm = real(name, case, dtype)
        return Wrapped(arm, at(1.5, 1.0)) if name == AVAILABLE[1] else arm

    monkeypatch.setattr(arms, "make", make)
    arguments = ("sweep", "Relu", "--isa", AVAILABLE[0], "--isa", AVAILABLE[1], "--blocks", "63:64", "--no-measure")
    (result,) = document(capsys, *arguments, code=1)["sweeps"]
    assert [difference["block"] for difference in result["differences"]] == [63]


def test_foreign_arms_are_measured_beside(capsys: Capture) -> None:
    """ONNX Runtime's own provider, and ours inside ONNX Runtime as any plugin by path."""
    names = (ISA, arms.ORT, f"ortwin={library_path()}")
    arguments = [word for name in names for word in ("--arm", name)]
    (result,) = document(capsys, "sweep", "Softsign", "--blocks", "63:64", *arguments)["sweeps"]
    figures = {name: arm["figures"] for name, arm in result["arms"].items()}
    assert figures["ortwin"] == figures[ISA]
    assert figures[arms.ORT]["max_ulp"] > 1.0
    assert "onnxruntime" in result["arms"][arms.ORT]["build"]


def test_a_plugin_that_does_not_own_the_node_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugins, "assigned_nodes", lambda session: [("CPUExecutionProvider", "", "Relu")])
    with pytest.raises(arms.ArmError, match="does not execute Relu"):
        arms.make(f"ortwin={library_path()}", find("Relu"))


def test_all_cases_one_after_the_other(capsys: Capture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An op that can't be computed is named and left out."""
    chosen = [find("Relu"), Case("", "Celu", (("alpha", -1.0),))]
    monkeypatch.setattr("ortwin.conformance.sweep.command.CASES", chosen)
    arguments = ("sweep", "--all", "--isa", ISA, "--blocks", "255:256", "--no-measure", "--json")
    assert cli.main([*arguments, "--certificates", str(tmp_path)]) == 0
    said = capsys.readouterr()
    assert [result["case"] for result in json.loads(said.out)["sweeps"]] == ["Relu"]
    assert "Celu-alpha=-1.0 is left out" in said.err
    assert "no certificate: Relu: 256 blocks of ref are still to be swept" in said.err


# Requests that can't be met


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("sweep",), "needs an op or --all"),
        (("sweep", "--all", "Relu"), "needs an op or --all"),
        (("sweep", "MatMul"), "'MatMul' can't be swept"),
        (("sweep", "Elu", "--attr", "beta=1"), "Elu has no attribute 'beta', only alpha"),
        (("sweep", "Elu", "--attr", "alpha=x"), "alpha must be a number"),
        (("sweep", "Elu", "--attr", "alpha=1e39"), "alpha must be a binary32 number"),
        (("sweep", "Relu", "--shard", "2/2"), "must be i/n"),
        (("sweep", "Relu", "--blocks", "5:5"), "must be a:b"),
        (("sweep", "Relu", "--jobs", "0"), "must be 1 to 256"),
        (("sweep", "Relu", "--arm", "sse"), "'sse' is no arm"),
        (("sweep", "Relu", "--arm", "x=/nowhere"), "there is no library /nowhere"),
        (("sweep", "Relu", "--arm", "ref=/nowhere"), "a name of its own"),
        (("certify", "Relu"), "--state"),
    ],
)
def test_requests_that_cannot_be_met(capsys: Capture, arguments: tuple[str, ...], said: str) -> None:
    assert cli.main(arguments) == 2
    got = capsys.readouterr()
    assert said in got.err
    assert not got.out


def test_without_the_extra(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ival", None)
    elementary.crival.cache_clear()
    assert cli.main(["sweep", "Relu", "--isa", ISA, "--blocks", "0:1"]) == 2
    assert "pip install 'ortwin[sweep]'" in capsys.readouterr().err
    document(capsys, "sweep", "Relu", "--isa", ISA, "--blocks", "0:1", "--no-measure")
    elementary.crival.cache_clear()


def test_names_of_cases() -> None:
    assert find("Elu").name == find("Elu", {"alpha": "1"}).name == "Elu"
    assert find("Elu", {"alpha": "0.1"}).name == "Elu-alpha=0.1"
    assert find("Gelu", {"approximate": "tanh"}) in CASES
    assert find("com.microsoft.QuickGelu").attributes == {"alpha": float(np.float32(1.702))}
    assert all(find(case.name) == case for case in CASES)
    assert len({case.name for case in CASES}) == len(CASES)


def test_the_walk_covers_every_pattern_once() -> None:
    starts = [int(bits[0]) for block in (0, 1, 255) for bits in blocks.chunks(block)]
    assert starts[:2] == [0, CHUNK]
    assert starts[-1] == 2**32 - CHUNK
    assert (len(starts) * CHUNK, BLOCKS * BLOCK) == (3 * BLOCK, 2**32)
