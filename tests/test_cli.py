"""The command line: run, explain, ops, the inputs made for a model, and errors in one sentence."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from ortwin import fast
from ortwin.conformance import cli
from ortwin.conformance.inputs import make_feeds, read_model
from ortwin.fast.library import default_library
from ortwin.ref.errors import InputError
from ortwin.ref.ops import OPS

Capture = pytest.CaptureFixture[str]


def value(name: str, dtype: int = TensorProto.FLOAT, shape: Sequence[int | str | None] | None = ("N",)) -> Any:
    return helper.make_tensor_value_info(name, dtype, shape)


def save(path: Path, nodes: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any], **more: Any) -> str:
    """Writes a model; more: opset, initializers, functions."""
    graph = helper.make_graph(nodes, "g", inputs, outputs, more.get("initializers", []))
    opsets = [helper.make_opsetid("", more.get("opset", 22)), *more.get("opsets", [])]
    made = helper.make_model(graph, opset_imports=opsets, functions=more.get("functions", []), ir_version=10)
    onnx.save(made, path)
    return str(path)


def invoke(capsys: Capture, *arguments: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a command line."""
    code = cli.main(arguments)
    said = capsys.readouterr()
    return code, said.out, said.err


def document(capsys: Capture, *arguments: str, code: int = 0) -> dict[str, Any]:
    """What a command prints with --json."""
    got, out, err = invoke(capsys, *arguments, "--json")
    assert (got, err) == (code, "")
    parsed: dict[str, Any] = json.loads(out)
    return parsed


@pytest.fixture
def clip(tmp_path: Path) -> str:
    node = helper.make_node("Clip", ["x", "", "hi"], ["y"])
    hi = helper.make_tensor("hi", TensorProto.FLOAT, [], [1.0])
    return save(tmp_path / "clip.onnx", [node], [value("x")], [value("y")], initializers=[hi], opset=13)


@pytest.fixture
def mixed(tmp_path: Path) -> str:
    """A node the provider claims, one it declines, and one without a CPU kernel in ONNX Runtime that is inlined."""
    nodes = [
        helper.make_node("Relu", ["x"], ["t"], name="first"),
        helper.make_node("CastLike", ["t", "x"], ["u"]),
        helper.make_node("Shrink", ["u"], ["y"]),
    ]
    return save(tmp_path / "mixed.onnx", nodes, [value("x")], [value("y")])


# run


def test_backends_agree(capsys: Capture, clip: str) -> None:
    results = {
        name: document(capsys, "run", clip, "--backend", name, "--dim", "N=1000") for name in ("ref", "fast", "ort")
    }
    (output,) = results["ref"]["outputs"]
    assert output["dtype"] == "float32"
    assert output["shape"] == [1000]
    assert output["max"] == 1.0
    assert all(result["outputs"] == [output] for result in results.values())
    assert all(result["inputs"] == results["ref"]["inputs"] for result in results.values())
    assert results["fast"]["nodes_executed"] == results["ort"]["nodes_executed"] == 1


def test_run_shows_a_table(capsys: Capture, clip: str) -> None:
    code, out, err = invoke(capsys, "run", clip)
    assert (code, err) == (0, "")
    assert "assumed size 1 for N" in out
    digest = document(capsys, "run", clip)["outputs"][0]["sha256"]
    assert digest[:16] in out
    assert "assumed" not in invoke(capsys, "run", clip, "--dim", "N=3")[1]


def test_digest_is_that_of_the_bytes(capsys: Capture, clip: str, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([-2.5, np.nan, 7.0, np.inf, -np.inf, 0.5], np.float32))
    (output,) = document(capsys, "run", clip, "--input", f"x={tmp_path / 'x.npy'}")["outputs"]
    lowest = np.finfo(np.float32).min
    expected = np.array([-2.5, np.nan, 1.0, 1.0, lowest, 0.5], np.float32)
    assert output["sha256"] == hashlib.sha256(expected.tobytes()).hexdigest()
    assert output["first"] == [-2.5, "nan", 1.0, 1.0]
    assert (output["min"], output["max"]) == (float(str(lowest)), 1.0)


@pytest.mark.parametrize("isa", [name for name, why in fast.isas().items() if not why])
@pytest.mark.parametrize("backend", ["fast", "ort"])
def test_isa_and_threads(capsys: Capture, clip: str, isa: str, backend: str) -> None:
    result = document(capsys, "run", clip, "--isa", isa, "--threads", "2", "--backend", backend)
    assert (result["isa"], result["threads"]) == (isa, 2)


def test_run_falls_back_in_onnxruntime_only(capsys: Capture, mixed: str) -> None:
    assert document(capsys, "run", mixed, "--backend", "ort")["nodes_executed"] == 1
    code, out, err = invoke(capsys, "run", mixed)
    assert (code, out) == (2, "")
    assert "CastLike" in err


def test_empty_output(capsys: Capture, clip: str) -> None:
    (output,) = document(capsys, "run", clip, "--dim", "N=0")["outputs"]
    assert (output["shape"], output["min"], output["first"]) == ([0], None, [])


def test_what_is_no_tensor_of_numbers(capsys: Capture, tmp_path: Path) -> None:
    nodes = [helper.make_node("SequenceConstruct", ["x"], ["s"]), helper.make_node("StringNormalizer", ["t"], ["n"])]
    outputs = [helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, None), value("n", TensorProto.STRING)]
    path = save(tmp_path / "m.onnx", nodes, [value("x"), value("t", TensorProto.STRING, ("M",))], outputs)
    np.save(tmp_path / "t.npy", np.array(["a", "b"]))
    sequence, strings = document(capsys, "run", path, "--backend", "ort", "--input", f"t={tmp_path / 't.npy'}")[
        "outputs"
    ]
    assert sequence["dtype"] == "seq(tensor(float))"
    assert strings["dtype"] == "string"
    assert strings["first"] == ["a", "b"]
    assert strings["sha256"] == hashlib.sha256(b"a\0b").hexdigest()


# inputs


def feeds(path: str, seed: int = 0, **dims: int) -> dict[str, Any]:
    return make_feeds(read_model(path), {}, dims, seed).arrays


def test_seeded_inputs_stay(tmp_path: Path) -> None:
    """The bits of a seed are for good: results of different days are compared by their digests."""
    path = save(tmp_path / "m.onnx", [helper.make_node("Relu", ["x"], ["y"])], [value("x")], [value("y")])
    digest = hashlib.sha256(feeds(path, N=1000)["x"].tobytes()).hexdigest()
    assert digest == "c442c3e680394e15b6f08954612ee751616818e10ba3ca720ca55f815942bc1e"
    assert hashlib.sha256(feeds(path, 1, N=1000)["x"].tobytes()).hexdigest() != digest


def test_another_input_changes_none(tmp_path: Path) -> None:
    nodes = [helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Relu", ["a"], ["b"])]
    one = feeds(save(tmp_path / "1.onnx", nodes[:1], [value("x")], [value("y")]), N=100)
    two = feeds(save(tmp_path / "2.onnx", nodes, [value("a"), value("x")], [value("y"), value("b")]), N=100)
    assert list(two) == ["a", "x"]
    assert two["x"].tobytes() == one["x"].tobytes()
    assert two["a"].tobytes() != two["x"].tobytes()


@pytest.mark.parametrize(
    "dtype",
    [TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE, TensorProto.FLOAT8E4M3FN],
)
def test_floats_are_normal(tmp_path: Path, dtype: int) -> None:
    path = save(
        tmp_path / "m.onnx", [helper.make_node("Identity", ["x"], ["y"])], [value("x", dtype)], [value("y", dtype)]
    )
    x = feeds(path, N=10000)["x"]
    assert x.dtype == helper.tensor_dtype_to_np_dtype(dtype)
    wide = x.astype(np.float64)
    assert abs(wide.mean()) < 0.05
    assert abs(wide.std() - 1) < 0.05


def test_integers_are_tokens_and_masks_mask_nothing(tmp_path: Path) -> None:
    names = ["input_ids", "attention_mask", "token_type_ids", "flags", "byte"]
    dtypes = [TensorProto.INT64, TensorProto.INT64, TensorProto.INT64, TensorProto.BOOL, TensorProto.INT8]
    nodes = [helper.make_node("Identity", [name], [f"{name}_out"]) for name in names]
    inputs = [value(name, dtype) for name, dtype in zip(names, dtypes, strict=True)]
    outputs = [value(f"{name}_out", dtype) for name, dtype in zip(names, dtypes, strict=True)]
    made = feeds(save(tmp_path / "m.onnx", nodes, inputs, outputs), N=1000)
    assert set(made["input_ids"]) == set(range(100))
    assert set(made["attention_mask"]) == {1}
    assert set(made["token_type_ids"]) == {0, 1}
    assert set(made["flags"]) == {False, True}
    assert set(made["byte"]) == set(range(100))


def test_a_file_tells_dimensions(capsys: Capture, tmp_path: Path) -> None:
    nodes = [helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Relu", ["a"], ["b"])]
    path = save(tmp_path / "m.onnx", nodes, [value("a"), value("x")], [value("y"), value("b")])
    np.save(tmp_path / "x.npy", np.zeros(5, np.float32))
    result = document(capsys, "run", path, "--input", f"x={tmp_path / 'x.npy'}")
    assert [item["shape"] for item in result["inputs"]] == [[5], [5]]
    assert result["assumed"] == []
    code, _, err = invoke(capsys, "run", path, "--input", f"x={tmp_path / 'x.npy'}", "--dim", "N=4")
    assert code == 2
    assert "dimension 'N' is given as 4, but 5 in the file" in err


def test_extension_types_in_files(capsys: Capture, tmp_path: Path) -> None:
    """numpy writes bfloat16 as raw bytes of two; the model knows what they are."""
    node = helper.make_node("Identity", ["x"], ["y"])
    path = save(tmp_path / "m.onnx", [node], [value("x", 16)], [value("y", 16)])
    x = np.array([1.5, -2.0, np.nan], ml_dtypes.bfloat16)
    np.save(tmp_path / "x.npy", x)
    for backend in ("ref", "fast", "ort"):
        (output,) = document(capsys, "run", path, "--input", f"x={tmp_path / 'x.npy'}", "--backend", backend)["outputs"]
        assert output["dtype"] == "bfloat16"
        assert output["sha256"] == hashlib.sha256(x.tobytes()).hexdigest()


def test_inputs_with_initializers_may_be_given(capsys: Capture, tmp_path: Path) -> None:
    node = helper.make_node("Clip", ["x", "lo"], ["y"])
    lo = helper.make_tensor("lo", TensorProto.FLOAT, [], [0.25])
    inputs = [value("x"), value("lo", shape=())]
    path = save(tmp_path / "m.onnx", [node], inputs, [value("y")], initializers=[lo])
    np.save(tmp_path / "lo.npy", np.array(9.0, np.float32))
    for backend in ("ref", "fast", "ort"):
        options = (path, "--backend", backend, "--dim", "N=100")
        result = document(capsys, "run", *options)
        assert [item["name"] for item in result["inputs"]] == ["x"]
        assert result["outputs"][0]["min"] == 0.25
        assert document(capsys, "run", *options, "--input", f"lo={tmp_path / 'lo.npy'}")["outputs"][0]["min"] == 9.0


def test_unknown_shapes_want_a_file(capsys: Capture, tmp_path: Path) -> None:
    node = helper.make_node("Relu", ["x"], ["y"])
    np.save(tmp_path / "x.npy", np.zeros((2, 3), np.float32))
    for shape, what in ((None, "rank of input 'x'"), ((2, None), "size of input 'x' on axis 1")):
        path = save(tmp_path / "m.onnx", [node], [value("x", shape=shape)], [value("y", shape=None)])
        code, _, err = invoke(capsys, "run", path)
        assert code == 2
        assert what in err
        assert "--input x=FILE.npy" in err
        assert document(capsys, "run", path, "--input", f"x={tmp_path / 'x.npy'}")["outputs"][0]["shape"] == [2, 3]


def test_inputs_that_are_no_tensors(tmp_path: Path) -> None:
    sequence = helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, None)
    path = save(
        tmp_path / "m.onnx", [helper.make_node("SequenceLength", ["s"], ["n"])], [sequence], [value("n", 7, ())]
    )
    with pytest.raises(InputError, match="input 's' is a sequence, and only tensors can be given"):
        feeds(path)


# explain and ops


def test_explain(capsys: Capture, mixed: str) -> None:
    result = document(capsys, "explain", mixed)
    by_op = {node["op"]: node for node in result["nodes"]}
    assert by_op["Relu"]["claimed"] is True
    assert by_op["Relu"]["node"] == "first"
    assert by_op["Relu"]["reason"] == ""
    assert by_op["Shrink"]["claimed"] is False
    assert by_op["Shrink"]["reason"] == "op Shrink of domain ai.onnx is not implemented"
    assert by_op["Shrink"]["node"] == "Shrink_2"  # the model gives it no name
    assert by_op["CastLike"]["reason"] == "op CastLike of domain ai.onnx is not implemented"
    assert {"op": "Relu", "claimed": 1, "declined": 0} in result["totals"]
    assert result["claimed"] == 1
    assert result["declined"] == len(result["nodes"]) - 1 == sum(total["declined"] for total in result["totals"])
    code, out, err = invoke(capsys, "explain", mixed)
    assert (code, err) == (0, "")
    assert "op Shrink of domain ai.onnx is not implemented" in out
    assert "1 of " in out


@pytest.mark.parametrize("inline", [True, False])
def test_explain_tells_each_node_once(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inline: bool
) -> None:
    """ONNX Runtime asks the provider again after each function it has inlined; nodes of one body may look the same."""
    body = [helper.make_node("Abs", ["a"], ["t"], name="one"), helper.make_node("Shrink", ["t"], ["b"], name="two")]
    function = helper.make_function("own", "Two", ["a"], ["b"], body, [helper.make_opsetid("", 22)])
    nodes = [
        helper.make_node("Two", ["x"], ["p"], domain="own"),
        helper.make_node("Two", ["p"], ["q"], domain="own"),
        helper.make_node("CastLike", ["q", "x"], ["r"]),
        helper.make_node("CastLike", ["r", "x"], ["s"]),
        helper.make_node("Relu", ["s"], ["y"], name="last"),
    ]
    opsets = [helper.make_opsetid("own", 1)]
    path = save(tmp_path / "m.onnx", nodes, [value("x")], [value("y")], functions=[function], opsets=opsets)
    if not inline:
        monkeypatch.setattr("ortwin.conformance.copies.inline", lambda model: model)
    result = document(capsys, "explain", path)
    totals = {total["op"]: total["claimed"] + total["declined"] for total in result["totals"]}
    assert totals["Abs"] == totals["Shrink"] == totals["CastLike"] == 2
    assert totals["Relu"] == 1
    assert result["claimed"] == 3
    if inline:  # otherwise the nodes of CastLike's definition, which have no names, are offered more than once
        assert totals["Cast"] == 2


def test_explain_runs_nothing(capsys: Capture, mixed: str) -> None:
    before = fast.counters()["runs"]
    document(capsys, "explain", mixed)
    assert fast.counters()["runs"] == before


def test_explain_tells_groups_kernels_and_operands(capsys: Capture, tmp_path: Path) -> None:
    k = helper.make_tensor("k", TensorProto.FLOAT, [1], [2.0])
    nodes = [
        helper.make_node("Mul", ["x", "k"], ["a"], name="first"),
        helper.make_node("Neg", ["k"], ["m"], name="folded"),
        helper.make_node("Cos", ["a"], ["b"], name="other"),
        helper.make_node("Add", ["b", "m"], ["y"], name="last"),
    ]
    path = save(tmp_path / "m.onnx", nodes, [value("x")], [value("y")], initializers=[k])
    result = document(capsys, "explain", path)
    found = {node["node"]: node for node in result["nodes"]}
    assert found["first"]["group"] == found["folded"]["group"] != found["last"]["group"]
    assert "group" not in found["other"]
    assert [found[name]["kernel"] for name in ("first", "folded", "last")] == [
        f"{kernel} float32" for kernel in ("mul", "neg", "add")
    ]
    assert result["operands"] == {"constant": 2, "runtime": 3}
    assert [group["nodes"] for group in result["groups"]] == [2, 1]
    assert "run" not in result
    ran = document(capsys, "explain", path, "--run")["run"]
    assert (ran["assigned"], ran["executed"] + ran["folded"], ran["all"]) == (3, 3, True)
    _, out, _ = invoke(capsys, "explain", path, "--run", "--dim", "N=5")
    assert "3 of 4" in out
    assert "nodes assigned 3 == executed" in out


def test_explain_tells_what_of_a_product_only_a_run_can_check(capsys: Capture, tmp_path: Path) -> None:
    def told(a: list[int | str], b: list[int | str]) -> str:
        product = helper.make_node("MatMulInteger", ["a", "b"], ["y"])
        inputs = [value("a", TensorProto.INT8, a), value("b", TensorProto.INT8, b)]
        path = save(tmp_path / "m.onnx", [product], inputs, [value("y", TensorProto.INT32, None)])
        (node,) = document(capsys, "explain", path)["nodes"]
        _, out, _ = invoke(capsys, "explain", path)
        assert f"inner dimensions {node['inner_dimensions']}" in " ".join(out.replace("\n", " ").split())
        return str(node["inner_dimensions"])

    assert told(["M", 3], [3, "N"]) == told([3], ["B", 3, 2]) == "known to be equal"
    assert told(["M", "K"], [3, 2]) == told([2, 3], ["K", 2]) == told(["M", "K"], ["K", 2]) == "checked by each run"


def test_explain_at_another_level(capsys: Capture, tmp_path: Path) -> None:
    nodes = [helper.make_node("Identity", ["x"], ["t"]), helper.make_node("Relu", ["t"], ["y"])]
    path = save(tmp_path / "m.onnx", nodes, [value("x")], [value("y")])
    ops = {
        level: [node["op"] for node in document(capsys, "explain", path, "--graph-optimization", level)["nodes"]]
        for level in ("as-written", "basic")
    }
    assert ops == {"as-written": ["Identity", "Relu"], "basic": ["Relu"]}  # the optimiser drops an Identity


def test_ops(capsys: Capture) -> None:
    listed = document(capsys, "ops")["ops"]
    assert len(listed) == len(default_library().ops())
    found = {(row["op"], row["since_version"]): row for row in listed}
    assert {name for _, name in OPS} <= {row["op"] for row in listed}
    assert found["Sqrt", 6]["dtypes"] == ["float32", "float16"]
    assert found["Sqrt", 13]["dtypes"] == ["float32", "float16", "bfloat16"]
    assert found["Sqrt", 13]["cost_class"] == "light"
    assert "int8" in found["Clip", 12]["dtypes"]
    assert "int8" not in found["Clip", 11]["dtypes"]
    code, out, _ = invoke(capsys, "ops")
    assert code == 0
    lines = [line.split() for line in out.splitlines() if "Sqrt" in line]
    assert lines == [
        ["ai.onnx", "Sqrt", "1", "6", "float32", "float16", "light"],
        ["ai.onnx", "Sqrt", "13", "float32", "float16", "bfloat16", "light"],
    ]


# errors


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        pytest.param(["run", "missing.onnx"], "can't use 'missing.onnx': No such file or directory", id="no-file"),
        pytest.param(["run", "{tmp}"], "Is a directory", id="directory"),
        pytest.param(["check", "{tmp}/text"], "can't be parsed as an ONNX model", id="no-model"),
        pytest.param(["check", "{tmp}/empty"], "holds no ONNX graph", id="empty"),
        pytest.param(["explain", "{tmp}/text"], "can't be parsed as an ONNX model", id="explain-no-model"),
        pytest.param(["run", "{clip}", "--dim", "Q=4"], "no input has a dimension 'Q', only 'N'", id="unknown-dim"),
        pytest.param(["run", "{clip}", "--dim", "N=x"], "N must be a size, not 'x'", id="dim-value"),
        pytest.param(["run", "{clip}", "--dim", "N=-1"], "N must be a size, not '-1'", id="dim-negative"),
        pytest.param(["run", "{clip}", "--dim", "N"], "--dim needs NAME=N, not 'N'", id="dim-form"),
        pytest.param(["run", "{clip}", "--dim", "N=1", "--dim", "N=2"], "names 'N' twice", id="dim-twice"),
        pytest.param(
            ["run", "{clip}", "--dim", "N=999999999999999"],
            "not enough memory",
            id="dim-huge",
            marks=pytest.mark.nosanitize("its malloc ends the process where others return NULL"),
        ),
        pytest.param(["run", "{clip}", "--input", "q={tmp}/x.npy"], "no input 'q', only 'x'", id="unknown-input"),
        pytest.param(["run", "{clip}", "--input", "x={tmp}/text"], "no .npy file of numbers", id="input-no-npy"),
        pytest.param(["run", "{clip}", "--input", "x={tmp}/none.npy"], "No such file or directory", id="input-no-file"),
        pytest.param(["run", "{clip}", "--input", "x={tmp}/i.npy"], "'x' must be float32, not int32", id="input-dtype"),
        pytest.param(["run", "{clip}", "--input", "x={tmp}/x.npy"], "'x' must have rank 1, not 2", id="input-rank"),
        pytest.param(["run", "{clip}", "--input", "x={tmp}/z.npz"], "is an archive", id="input-archive"),
        pytest.param(["run", "{clip}", "--isa", "mmx"], "isa 'mmx' is unknown", id="isa"),
        pytest.param(["run", "{clip}", "--isa", "mmx", "--backend", "ort"], "isa 'mmx' is unknown", id="isa-ort"),
        pytest.param(["check", "{clip}", "--isa", "mmx"], "isa 'mmx' is unknown", id="isa-check"),
        pytest.param(
            ["run", "{clip}", "--isa", "avx2", "--backend", "ref"], "no meaning for the reference", id="isa-ref"
        ),
        pytest.param(["run", "{clip}", "--threads", "0"], "must be 1 to 1024, not '0'", id="threads"),
        pytest.param(["run", "{clip}", "--seed", "x"], "invalid int value: 'x'", id="seed"),
        pytest.param(["check", "{clip}", "--graph-optimization", "x"], "invalid choice: 'x'", id="level"),
        pytest.param(["run"], "arguments are required: MODEL", id="no-model-given"),
        pytest.param(["frob"], "invalid choice: 'frob'", id="unknown-command"),
        pytest.param([], "arguments are required: COMMAND", id="no-command"),
        pytest.param(["check", "{bad}"], "NotAnOp", id="onnxruntime-refuses"),
    ],
)
def test_errors_are_one_sentence(
    capsys: Capture, clip: str, tmp_path: Path, arguments: list[str], sentence: str
) -> None:
    (tmp_path / "text").write_text("this is no model")
    (tmp_path / "empty").write_bytes(b"")
    np.save(tmp_path / "x.npy", np.zeros((2, 2), np.float32))
    np.save(tmp_path / "i.npy", np.zeros(2, np.int32))
    np.savez(tmp_path / "z.npz", x=np.zeros(2, np.float32))
    bad = save(tmp_path / "bad.onnx", [helper.make_node("NotAnOp", ["x"], ["y"])], [value("x")], [value("y")])
    filled = [argument.format(tmp=tmp_path, clip=clip, bad=bad) for argument in arguments]
    code, out, err = invoke(capsys, *filled)
    assert code == 2
    assert out == ""
    assert err.startswith("ortwin: ")
    assert err.count("\n") == 1
    assert err.endswith("\n")
    assert "Traceback" not in err
    assert "[ONNXRuntimeError]" not in err
    assert sentence in err


@pytest.mark.parametrize("command", [["check"], ["explain"], ["run", "--backend", "ort"]])
def test_without_onnxruntime(capsys: Capture, clip: str, monkeypatch: pytest.MonkeyPatch, command: list[str]) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    code, out, err = invoke(capsys, command[0], clip, *command[1:])
    assert (code, out) == (2, "")
    assert err == "ortwin: onnxruntime is not installed: pip install ortwin[ort]\n"


def test_the_rest_without_onnxruntime(capsys: Capture, clip: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    assert invoke(capsys, "run", clip)[0] == 0
    assert invoke(capsys, "run", clip, "--backend", "ref")[0] == 0
    assert invoke(capsys, "ops")[0] == 0


def test_mistakes_of_our_own_are_not_hidden(capsys: Capture, clip: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One sentence is for what the user can mend; a bug keeps its traceback, and is no difference (1)."""

    def broken(*_: object) -> None:
        raise AssertionError("a bug")

    monkeypatch.setattr("ortwin.conformance.run.make_feeds", broken)
    code, out, err = invoke(capsys, "run", clip)
    assert (code, out) == (2, "")
    assert err.startswith("Traceback")
    assert err.endswith("AssertionError: a bug\n")


def test_as_a_program(clip: str) -> None:
    program = [sys.executable, "-m", "ortwin.conformance.cli"]
    done = subprocess.run([*program, "run", clip, "--json"], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["outputs"][0]["name"] == "y"
    assert done.stderr == ""
    failed = subprocess.run([*program, "run", "missing"], capture_output=True, text=True, check=False)
    assert failed.returncode == 2
    helped = subprocess.run([*program, "check", "--help"], capture_output=True, text=True, check=True)
    assert "--graph-optimization" in helped.stdout


def test_errors_at_run_are_said_once(tmp_path: Path) -> None:
    """ONNX Runtime logs an error and raises it; the user reads one line."""
    shape = helper.make_tensor("s", TensorProto.INT64, [1], [7])
    node = helper.make_node("Reshape", ["x", "s"], ["y"])
    path = save(tmp_path / "m.onnx", [node], [value("x")], [value("y")], initializers=[shape])
    command = [sys.executable, "-m", "ortwin.conformance.cli", "run", path, "--backend", "ort", "--dim", "N=3"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert "Reshape" in done.stderr


def test_a_reader_that_leaves() -> None:
    """`ortwin ops | head -1` ends quietly."""
    program = f"{sys.executable} -m ortwin.conformance.cli ops | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "0"
    assert done.stderr == ""


def test_version(capsys: Capture) -> None:
    assert invoke(capsys, "--version")[1].strip() == f"ortwin {default_library().version()}"
