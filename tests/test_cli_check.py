"""`ortwin check`: which nodes are compared, and that a wrong bit anywhere is found."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from ortwin import fast
from ortwin.conformance import check, copies, ortvalues
from ortwin.conformance.check import Arm, check_model
from ortwin.conformance.observe import observe
from test_cli import Capture, document, invoke, save, value

Array = npt.NDArray[Any]

LEVELS = ["as-written", "basic", "extended", "layout", "all"]
ARMS = ["ref", *(isa for isa, why in fast.isas().items() if not why)]


def ops(result: Mapping[str, Any]) -> dict[str, int]:
    """Nodes compared, by op."""
    return {row["op"]: row["nodes"] for row in result["rows"]}


def two_ops(folder: Path) -> str:
    nodes = [
        helper.make_node("LeakyRelu", ["x"], ["t"], name="leak", alpha=0.3),
        helper.make_node("Shrink", ["t"], ["u"], name="other"),
        helper.make_node("Sqrt", ["u"], ["y"]),
    ]
    return save(folder / "two.onnx", nodes, [value("x")], [value("y")])


def test_compares_what_the_provider_executed(capsys: Capture, tmp_path: Path) -> None:
    path = two_ops(tmp_path)
    before = fast.counters()["nodes_executed"]
    result = document(capsys, "check", path, "--dim", "N=1000")
    assert ops(result) == {"LeakyRelu": 1, "Sqrt": 1}  # Shrink is ONNX Runtime's
    assert [row["elements"] for row in result["rows"]] == [1000, 1000]
    assert all(row["differing"] == dict.fromkeys(ARMS, 0) for row in result["rows"])
    assert list(result["arms"]) == ["ref", *fast.isas()]
    assert (result["executed"], result["unobserved"], result["unmatched"]) == (2, 0, {})
    assert result["others"] == {"Shrink": 1}
    assert result["agree"] is True
    # the provider's run, and one per node on each instruction set
    assert fast.counters()["nodes_executed"] - before == 2 + 2 * (len(ARMS) - 1)
    code, out, err = invoke(capsys, "check", path)
    assert (code, err) == (0, "")
    assert "assumed size 1 for N" in out
    assert "not compared, as other providers have them or the optimiser took them away: 1 Shrink" in out
    (line,) = [line for line in out.splitlines() if "Sqrt" in line]
    assert line.split()[:4] == ["two.onnx", "Sqrt", "1", "1"]
    assert line.split().count("equal") == len(ARMS)


def one_bit(array: Array, index: int = 0) -> Array:
    """A copy with the lowest bit of one element flipped."""
    changed = array.copy()
    changed.reshape(-1).view(np.uint8)[index * array.itemsize] ^= 1
    return changed


@pytest.mark.parametrize("wrong", ARMS)
def test_finds_one_wrong_bit_in_an_arm(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: str
) -> None:
    right = check.arms

    def arms(threads: int) -> dict[str, Arm]:
        made = right(threads)
        honest = made[wrong]

        def lying(model: bytes) -> check.Compute:
            compute = honest(model)
            op = onnx.load_from_string(model).graph.node[0].op_type
            if op != "LeakyRelu":
                return compute
            return lambda feeds: [one_bit(array, 7) for array in compute(feeds)]

        return {**made, wrong: lying}

    monkeypatch.setattr(check, "arms", arms)
    path = two_ops(tmp_path)
    result = document(capsys, "check", path, "--dim", "N=10", code=1)
    assert result["agree"] is False
    (difference,) = result["differences"]
    x = np.frombuffer(bytes.fromhex(difference["inputs"][0]), np.float32)
    expected = (x * np.float32(0.3) if x < 0 else x).astype(np.float32)
    assert difference["node"] == "leak"
    assert difference["op"] == "LeakyRelu"
    assert difference["attributes"] == {"alpha": str(float(np.float32(0.3)))}
    assert difference["arm"] == wrong
    assert difference["index"] == 7
    assert difference["observed"] == expected.tobytes().hex()
    assert difference["expected"] == one_bit(expected).tobytes().hex()
    assert {row["op"]: row["differing"][wrong] for row in result["rows"]} == {"LeakyRelu": 1, "Sqrt": 0}
    assert all(row["differing"][arm] == 0 for row in result["rows"] for arm in ARMS if arm != wrong)
    code, out, _ = invoke(capsys, "check", path, "--dim", "N=10")
    assert code == 1
    assert "1 DIFFER" in out
    assert f"node 'leak' (LeakyRelu) {difference['attributes']} against {wrong}" in out
    assert difference["inputs"][0] in out
    assert f"observed {difference['observed']}, expected {difference['expected']}" in out


@pytest.mark.parametrize("level", LEVELS)
def test_finds_one_wrong_bit_in_the_provider(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, level: str
) -> None:
    """What ONNX Runtime hands back is changed in one bit: then every arm disagrees with it, in that node only."""
    right = ortvalues.run

    def run(session: Any, feeds: Mapping[str, Array]) -> dict[str, Any]:
        results = right(session, feeds)
        return {**results, "y": one_bit(results["y"], 3)}

    monkeypatch.setattr(ortvalues, "run", run)
    options = ("--dim", "N=10", "--graph-optimization", level)
    result = document(capsys, "check", two_ops(tmp_path), *options, code=1)
    assert [(d["op"], d["index"], d["arm"]) for d in result["differences"]] == [("Sqrt", 3, arm) for arm in ARMS]


def test_nan_payloads_and_zero_signs_are_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nan = np.array([0x7FC00001], np.uint32).view(np.float32)
    for wrong, x in ((nan, np.float32(-1.0)), (np.zeros(1, np.float32), np.float32(-0.0))):
        right = ortvalues.run
        with monkeypatch.context() as patch:
            patch.setattr(ortvalues, "run", lambda s, f, wrong=wrong, right=right: {**right(s, f), "y": wrong})
            node = helper.make_node("Sqrt", ["x"], ["y"])
            path = save(tmp_path / "m.onnx", [node], [value("x")], [value("y")])
            np.save(tmp_path / "x.npy", np.array([x]))
            result = check_model(path, files={"x": str(tmp_path / "x.npy")})
            assert [row.differing for row in result.rows] == [dict.fromkeys(ARMS, 1)]


@pytest.mark.parametrize("what", ["dtype", "shape"])
def test_finds_another_dtype_or_shape(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    right = ortvalues.run

    def run(session: Any, feeds: Mapping[str, Array]) -> dict[str, Any]:
        results = right(session, feeds)
        changed = results["y"].view(np.int32) if what == "dtype" else results["y"].reshape(1, -1)
        return {**results, "y": changed}

    monkeypatch.setattr(ortvalues, "run", run)
    result = check_model(two_ops(tmp_path), dims={"N": 4})
    assert not result.agree
    assert {difference.op for difference in result.differences} == {"Sqrt"}
    assert {difference.arm for difference in result.differences} == set(ARMS)
    for difference in result.differences:  # a backend may refuse a declared type it would not make
        assert difference.what.startswith(("made ", "refused: "))


def test_an_arm_that_refuses_differs(capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The provider executed the node, so the reference has to."""
    monkeypatch.setattr("ortwin.conformance.check.ref.Session", lambda model: fast.Session(model, isa="mmx"))
    result = document(capsys, "check", two_ops(tmp_path), code=1)
    assert {difference["arm"] for difference in result["differences"]} == {"ref"}
    assert all(difference["what"].startswith("refused: ") for difference in result["differences"])


def test_first_differences_only(capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = ortvalues.run
    monkeypatch.setattr(ortvalues, "run", lambda s, f: {k: one_bit(v) for k, v in right(s, f).items()})
    nodes = [helper.make_node("Abs", ["x"], [f"y{k}"]) for k in range(4)]
    path = save(tmp_path / "m.onnx", nodes, [value("x")], [value(f"y{k}") for k in range(4)])
    code, out, _ = invoke(capsys, "check", path)
    assert code == 1
    total = 4 * len(ARMS)
    assert out.count(" against ") == check.SHOWN < total
    assert f"and {total - check.SHOWN} more differences" in out


# which nodes are seen


def test_no_node(capsys: Capture, tmp_path: Path) -> None:
    path = save(tmp_path / "m.onnx", [helper.make_node("Shrink", ["x"], ["y"])], [value("x")], [value("y")])
    code, out, err = invoke(capsys, "check", path)
    assert (code, err) == (0, "")
    assert "executes no node" in out
    result = document(capsys, "check", path)
    assert (result["executed"], result["rows"], result["agree"]) == (0, [], True)


@pytest.mark.parametrize("dtype", [1, 7, 9, 10, 11, 16, 17])
def test_every_bit_pattern_passes(tmp_path: Path, dtype: int) -> None:
    """Identity copies: also element types that numpy, and ONNX Runtime's Python interface, don't know."""
    native = helper.tensor_dtype_to_np_dtype(dtype)
    node = helper.make_node("Identity", ["x"], ["y"])
    path = save(tmp_path / "m.onnx", [node], [value("x", dtype)], [value("y", dtype)])
    raw = np.random.default_rng(1).integers(0, 2 if dtype == 9 else 256, 64 * native.itemsize, np.uint8)
    np.save(tmp_path / "x.npy", raw.view(native))
    result = check_model(path, files={"x": str(tmp_path / "x.npy")})
    assert result.agree
    assert [(row.op, row.elements) for row in result.rows] == [("Identity", 64)]


@pytest.mark.parametrize("dtype", [TensorProto.FLOAT16, TensorProto.BFLOAT16])
def test_half_types(capsys: Capture, tmp_path: Path, dtype: int) -> None:
    """All commands that run a model; ONNX Runtime would take HardSwish and Softsign apart, were they not claimed."""
    used = ["HardSwish", "Sigmoid", "Softsign", "Clip"]
    nodes = [helper.make_node(op, [f"v{k}"], [f"v{k + 1}"]) for k, op in enumerate(used)]
    nodes[-1].input.extend(["lo", "hi"])
    bounds = [helper.make_tensor(name, dtype, [], [bound]) for name, bound in (("lo", 0.25), ("hi", 0.4))]
    path = save(tmp_path / "m.onnx", nodes, [value("v0", dtype)], [value("v4", dtype)], initializers=bounds)
    for level in LEVELS:
        result = check_model(path, dims={"N": 1000}, level=level)
        assert result.agree
        assert {row.op: row.nodes for row in result.rows} == dict.fromkeys(used, 1)
        assert (result.executed, result.unmatched) == (4, {})
    runs = [document(capsys, "run", path, "--dim", "N=9", "--backend", backend) for backend in ("ref", "fast", "ort")]
    assert len({run["outputs"][0]["sha256"] for run in runs}) == 1
    assert [run.get("nodes_executed") for run in runs] == [None, 4, 4]


Nodes = list[onnx.NodeProto]
HALF_GRAPHS: dict[str, tuple[Nodes, dict[str, int], dict[str, int]]] = {
    "two functions of one value, also an output": (
        [
            helper.make_node("Mish", ["x"], ["z"]),
            helper.make_node("HardSwish", ["z"], ["a"]),
            helper.make_node("Softsign", ["z"], ["b"]),
            helper.make_node("Concat", ["a", "b"], ["y"], axis=0),
        ],
        {"Mish": 1, "HardSwish": 1, "Softsign": 1},
        {"Mish": 1, "HardSwish": 1, "Softsign": 1},
    ),
    "a function of a constant": (
        [
            helper.make_node("HardSwish", ["x"], ["z"]),
            helper.make_node("Gelu", ["k"], ["b"], domain="com.microsoft"),
            helper.make_node("Concat", ["z", "b"], ["y"], axis=0),
        ],
        {"HardSwish": 1, "com.microsoft.Gelu": 1},
        {"HardSwish": 1, "com.microsoft.Gelu": 1},
    ),
    "nodes that ONNX Runtime makes one of": (
        [
            helper.make_node("Relu", ["x"], ["a"]),
            helper.make_node("Clip", ["a", "", "k"], ["z"]),
            helper.make_node("Abs", ["z"], ["y"]),
        ],
        {"Relu": 1, "Clip": 1, "Abs": 1},
        {"Clip": 1, "Abs": 1},
    ),
    "another provider's node between": (
        [
            helper.make_node("Selu", ["x"], ["a"]),
            helper.make_node("Transpose", ["a"], ["t"]),
            helper.make_node("Elu", ["t"], ["z"]),
            helper.make_node("Squeeze", ["z"], ["y"]),
        ],
        {"Selu": 1, "Elu": 1},
        {"Selu": 1, "Elu": 1},
    ),
    "branches": (
        [
            helper.make_node("HardSwish", ["x"], ["z"]),
            helper.make_node("Constant", [], ["c"], value=helper.make_tensor("", TensorProto.BOOL, [], [True])),
            helper.make_node(
                "If",
                ["c"],
                ["y"],
                then_branch=helper.make_graph([helper.make_node("Softsign", ["z"], ["t"])], "t", [], [value("t", 0)]),
                else_branch=helper.make_graph([helper.make_node("Neg", ["z"], ["t"])], "e", [], [value("t", 0)]),
            ),
        ],
        {"HardSwish": 1, "Softsign": 1},
        {"HardSwish": 1, "Softsign": 1},
    ),
}
"""By what they are: nodes from x to z and y, nodes by op that are executed as written, and optimised."""


@pytest.mark.parametrize("dtype", [TensorProto.FLOAT16, TensorProto.BFLOAT16])
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", HALF_GRAPHS)
def test_half_types_at_every_level(tmp_path: Path, kind: str, level: str, dtype: int) -> None:
    """The copy that is compared has what ONNX Runtime makes of the model, on the half type, and gives the same."""
    written, plain, optimised = HALF_GRAPHS[kind]
    nodes = [onnx.NodeProto.FromString(node.SerializeToString()) for node in written]
    for node in nodes:
        for graph in copies.subgraphs(node):
            graph.output[0].type.tensor_type.elem_type = dtype
    constants = [helper.make_tensor("k", dtype, [] if kind.startswith("nodes") else [1], [0.3])]
    outputs = [value("z", dtype), helper.make_empty_tensor_value_info("y")]
    opsets = [helper.make_opsetid("com.microsoft", 1)]
    path = save(tmp_path / "m.onnx", nodes, [value("x", dtype)], outputs, initializers=constants, opsets=opsets)
    result = check_model(path, dims={"N": 100}, level=level)
    assert result.agree
    assert {row.op: row.nodes for row in result.rows} == (plain if level == "as-written" else optimised)
    assert (result.executed, result.unobserved) == (sum(row.nodes for row in result.rows), 0)
    assert result.unmatched == {}

    model = onnx.load(path)
    x = np.random.default_rng(3).normal(0, 3, 100).astype(helper.tensor_dtype_to_np_dtype(dtype))
    seen = observe(model, tmp_path, {"x": x}, level=level)
    for observation in seen.observations:
        arrays = [array for array in (*observation.inputs, *observation.outputs) if array is not None]
        assert {array.dtype for array in arrays} == {x.dtype}
    own = ortvalues.run(copies.provider_session(model, tmp_path, level), {"x": x})
    assert own["z"].tobytes() in {
        array.tobytes() for o in seen.observations for array in o.outputs if array is not None
    }


def test_missing_and_repeated_operands(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Constant", [], ["lo"], value_float=-0.5),
        helper.make_node("Clip", ["x", "", "hi"], ["a"]),
        helper.make_node("Clip", ["a", "lo"], ["b"]),
        helper.make_node("Clip", ["b", "hi", "hi"], ["y"]),
    ]
    hi = helper.make_tensor("hi", TensorProto.FLOAT, [], [0.5])
    path = save(tmp_path / "m.onnx", nodes, [value("x")], [value("y")], initializers=[hi])
    for level in LEVELS:
        result = check_model(path, dims={"N": 100}, level=level)
        assert result.agree
        assert [(row.op, row.nodes) for row in result.rows] == [("Clip", 3)]
        assert not result.unobserved


def test_nodes_that_share_a_name(tmp_path: Path) -> None:
    """Names of nodes mean nothing to ONNX: a model may repeat them, or leave them out."""
    names = ["same", "same", "", "", "same_1"]
    nodes = [helper.make_node("Neg", [f"v{k}"], [f"v{k + 1}"], name=name) for k, name in enumerate(names)]
    path = save(tmp_path / "m.onnx", nodes, [value("v0")], [value("v5")])
    result = check_model(path, dims={"N": 10})
    assert [(row.op, row.nodes) for row in result.rows] == [("Neg", 5)]
    assert not result.unobserved


@pytest.mark.parametrize("level", LEVELS)
def test_external_data(tmp_path: Path, level: str) -> None:
    weights = np.random.default_rng(2).standard_normal((64, 64)).astype(np.float32)  # large enough to be kept beside
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["t"]),
        helper.make_node("Relu", ["t"], ["u"]),
        helper.make_node("Abs", ["w"], ["a"]),
        helper.make_node("Max", ["u", "a"], ["y"]),
    ]
    inputs, outputs = [value("x", shape=(64, 64))], [value("y", shape=(64, 64))]
    path = save(tmp_path / "m.onnx", nodes, inputs, outputs, initializers=[numpy_helper.from_array(weights, "w")])
    onnx.save_model(
        onnx.load(path),
        path,
        save_as_external_data=True,
        location="beside.bin",
        size_threshold=0,
        all_tensors_to_one_file=True,
    )
    assert (tmp_path / "beside.bin").stat().st_size == weights.nbytes
    result = check_model(path, level=level)
    assert result.agree
    seen = {row.op: row.nodes for row in result.rows}
    folded = {"MatMul": 1, "Relu": 1}  # Abs, of a constant, is
    assert seen == ({"Abs": 1, **folded} if level == "as-written" else folded)


@pytest.mark.parametrize("level", LEVELS)
def test_optimised_graphs_keep_what_only_the_provider_has(capsys: Capture, tmp_path: Path, level: str) -> None:
    """ONNX Runtime has no kernel for HardSwish: without the provider it would inline it before it saves the graph."""
    nodes = [
        helper.make_node("HardSwish", ["x"], ["t"]),
        helper.make_node("Identity", ["t"], ["u"]),
        helper.make_node("HardSwish", ["k"], ["c"]),
        helper.make_node("Max", ["u", "c"], ["y"]),
    ]
    k = helper.make_tensor("k", TensorProto.FLOAT, [1], [0.3])
    path = save(tmp_path / "m.onnx", nodes, [value("x")], [value("y")], initializers=[k])
    result = document(capsys, "check", path, "--graph-optimization", level)
    assert ops(result) == {"HardSwish": 2, **({"Identity": 1} if level == "as-written" else {})}
    assert result["unmatched"] == {}


def test_stand_ins_leave_no_trace(tmp_path: Path) -> None:
    """The node that was kept is as it was, with its attributes, and at its place."""
    nodes = [
        helper.make_node("Neg", ["x"], ["t"]),
        helper.make_node("Swish", ["t"], ["u"], name="kept", alpha=0.5),
        helper.make_node("Swish", ["u"], ["y"], name="lost", alpha=0.25),
    ]
    model = onnx.load(save(tmp_path / "m.onnx", nodes, [value("x")], [value("y")], opset=24))
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    saved = copies.optimised(model, tmp_path, "basic", {"kept"}, scratch)
    found = {node.name: node for node in saved.graph.node}
    assert "lost" not in found
    kept = found["kept"]
    assert (kept.domain, kept.op_type, list(kept.input), list(kept.output)) == ("", "Swish", ["t"], ["u"])
    assert [(a.name, a.f) for a in kept.attribute] == [("alpha", 0.5)]
    assert not [node for node in saved.graph.node if node.domain == copies.STAND_IN[0]]


def test_says_what_the_copy_lacks(capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Should an optimised copy ever lose a claimed node, that is told, not passed over."""
    nodes = [helper.make_node("Neg", ["x"], ["t"]), helper.make_node("HardSwish", ["t"], ["y"])]
    path = save(tmp_path / "m.onnx", nodes, [value("x")], [value("y")])
    monkeypatch.setattr("ortwin.conformance.copies._stand_ins", lambda model, lost: {})
    result = document(capsys, "check", path, "--graph-optimization", "basic")
    assert result["unmatched"] == {"HardSwish": 1}
    assert (
        "not in the copy that was compared: 1 HardSwish"
        in invoke(capsys, "check", path, "--graph-optimization", "basic")[1]
    )


@pytest.mark.parametrize("level", LEVELS)
def test_functions_are_looked_into(tmp_path: Path, level: str) -> None:
    body = [
        helper.make_node("Abs", ["a"], ["t"]),
        helper.make_node("Sqrt", ["t"], ["u"], name="root"),
        helper.make_node("HardSwish", ["u"], ["b"]),
    ]
    function = helper.make_function("own", "Three", ["a"], ["b"], body, [helper.make_opsetid("", 22)])
    nodes = [helper.make_node("Three", [a], [b], domain="own") for a, b in (("x", "p"), ("p", "y"))]
    opsets = [helper.make_opsetid("own", 1)]
    path = save(tmp_path / "m.onnx", nodes, [value("x")], [value("y")], functions=[function], opsets=opsets)
    result = check_model(path, dims={"N": 10}, level=level)
    assert {row.op: row.nodes for row in result.rows} == {"Abs": 2, "HardSwish": 2, "Sqrt": 2}
    assert (result.agree, result.unobserved, result.unmatched) == (True, 0, {})


def test_bodies_of_ops_are_looked_into(tmp_path: Path) -> None:
    """ONNX Runtime has no kernel for GroupNormalization: of the nodes in its definition the provider gets the Sqrt
    and the arithmetic."""
    constant = helper.make_tensor("c", TensorProto.FLOAT, [4], [1.0, 2.0, 3.0, 4.0])
    node = helper.make_node("GroupNormalization", ["x", "c", "c"], ["y"], num_groups=2)
    shape = ("N", 4, 3)
    path = save(
        tmp_path / "m.onnx", [node], [value("x", shape=shape)], [value("y", shape=shape)], initializers=[constant]
    )
    result = check_model(path, dims={"N": 2})
    seen = {row.op: row.nodes for row in result.rows}
    assert seen["Sqrt"] == 1
    assert (result.agree, result.unobserved, result.executed) == (True, 0, sum(seen.values()))


def nested_if(folder: Path) -> str:
    """Branches that use the same names, read values from outside, have claimed nodes as results, and an If in one."""

    def branch(name: str, nodes: list[onnx.NodeProto], result: str) -> onnx.GraphProto:
        return helper.make_graph(nodes, name, [], [value(result, shape=None)])

    def either(condition: str, yes: onnx.GraphProto, no: onnx.GraphProto, result: str) -> onnx.NodeProto:
        return helper.make_node("If", [condition], [result], then_branch=yes, else_branch=no)

    inner_yes = branch("a", [helper.make_node("Abs", ["r"], ["q"])], "q")
    inner_no = branch("b", [helper.make_node("Neg", ["x"], ["p"]), helper.make_node("Relu", ["p"], ["q"])], "q")
    yes = [
        helper.make_node("Relu", ["x"], ["r"]),
        either("inner", inner_yes, inner_no, "z"),
        helper.make_node("Floor", ["z"], ["o"]),
    ]
    no = [helper.make_node("Ceil", ["s"], ["r"]), helper.make_node("Sqrt", ["r"], ["o"])]
    nodes = [
        helper.make_node("Softsign", ["x"], ["s"]),
        either("outer", branch("y", yes, "o"), branch("n", no, "o"), "y"),
    ]
    conditions = [value(name, TensorProto.BOOL, ()) for name in ("outer", "inner")]
    return save(folder / "if.onnx", nodes, [value("x"), *conditions], [value("y", shape=None)], opset=16)


@pytest.mark.parametrize("size", [0, 5])
@pytest.mark.parametrize(
    ("outer", "inner", "expected"),
    [
        (True, True, {"Softsign": 1, "Relu": 1, "Abs": 1, "Floor": 1}),
        (True, False, {"Softsign": 1, "Relu": 2, "Neg": 1, "Floor": 1}),
        (False, True, {"Softsign": 1, "Ceil": 1, "Sqrt": 1}),
        (False, False, {"Softsign": 1, "Ceil": 1, "Sqrt": 1}),
    ],
)
def test_branches_are_looked_into(
    capsys: Capture, tmp_path: Path, outer: bool, inner: bool, expected: dict[str, int], size: int
) -> None:
    path = nested_if(tmp_path)
    np.save(tmp_path / "outer.npy", np.array(outer))
    np.save(tmp_path / "inner.npy", np.array(inner))
    given = [f"--input={name}={tmp_path / name}.npy" for name in ("outer", "inner")]
    result = document(capsys, "check", path, *given, "--dim", f"N={size}")
    assert Counter(ops(result)) == Counter(expected)
    assert (result["executed"], result["unobserved"]) == (sum(expected.values()), 0)


def test_loops_are_counted_not_seen(capsys: Capture, tmp_path: Path) -> None:
    body = helper.make_graph(
        [helper.make_node("Relu", ["c"], ["d"]), helper.make_node("Not", ["no"], ["go"])],
        "body",
        [value("i", TensorProto.INT64, ()), value("go_in", TensorProto.BOOL, ()), value("c")],
        [value("go", TensorProto.BOOL, ()), value("d")],
        [helper.make_tensor("no", TensorProto.BOOL, [], [False])],
    )
    nodes = [helper.make_node("Loop", ["m", "", "x"], ["t"], body=body), helper.make_node("Abs", ["t"], ["y"])]
    m = helper.make_tensor("m", TensorProto.INT64, [], [3])
    path = save(tmp_path / "m.onnx", nodes, [value("x")], [value("y")], initializers=[m])
    result = document(capsys, "check", path)
    assert (ops(result), result["executed"], result["unobserved"]) == ({"Abs": 1}, 4, 3)
    (line,) = [line for line in invoke(capsys, "check", path)[1].splitlines() if "(not observed)" in line]
    assert line.split()[-1] == "3"


def test_values_that_are_no_tensors_stay_inside(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("SequenceConstruct", ["x"], ["s"]),
        helper.make_node("SequenceAt", ["s", "zero"], ["t"]),
        helper.make_node("Relu", ["t"], ["y"]),
    ]
    zero = helper.make_tensor("zero", TensorProto.INT64, [], [0])
    path = save(tmp_path / "m.onnx", nodes, [value("x")], [value("y")], initializers=[zero])
    result = check_model(path, dims={"N": 10})
    assert [(row.op, row.elements) for row in result.rows] == [("Relu", 10)]


@pytest.mark.parametrize("isa", [isa for isa, why in fast.isas().items() if not why])
def test_isa_and_threads_of_the_provider(capsys: Capture, tmp_path: Path, isa: str) -> None:
    result = document(capsys, "check", two_ops(tmp_path), "--isa", isa, "--threads", "2", "--dim", "N=100000")
    assert ops(result) == {"LeakyRelu": 1, "Sqrt": 1}


def test_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    path = Path(shutil.copy(two_ops(tmp_path), tmp_path / "copy.onnx"))
    before = path.read_bytes()
    check_model(str(path), level="basic")
    assert path.read_bytes() == before
    assert list(scratch.iterdir()) == []
