"""What the execution provider declines inside ONNX Runtime, and how it says so."""

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

from models import FLOAT, Row, assert_bits, node, numpy_dtype, of_nodes, one_node, value
from ort_sessions import X, assigned, executed, if_model, reports, session
from ortwin.fast import ort_session, register
from ortwin.ref import UnsupportedError


def test_an_earlier_report_says_nothing_of_this_session(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    declined = of_nodes([node("Det", ["x"], "y")], [value("x", FLOAT, [2, 2])], [value("y", FLOAT, [])])
    with pytest.raises(UnsupportedError, match="Det"):
        session(declined, report=path)
    assert "Det" in path.read_text(encoding="utf-8")
    good = of_nodes([node("Relu", ["x"], "y")], [value("x")], [value("y")])
    with pytest.raises(Exception, match="isa 'sse' is unknown"):
        session(good, report=path, isa="sse")
    path.write_text("no JSON\n", encoding="utf-8")
    session(good, report=path)
    assert [offer["op"] for offer in reports(path)] == ["Relu"]


@pytest.mark.parametrize(
    ("op", "opset", "dtype", "reason"),
    [
        ("Relu", 14, 11, "Relu-14 on float64 is not implemented"),
        ("Exp", 13, 11, "Exp-13 on float64 is not implemented"),
        ("Relu", 14, 6, "Relu-14 on int32 is not implemented"),
        ("Neg", 13, 6, "Neg-13 on int32 is not implemented"),
        ("Sqrt", 13, 11, "Sqrt-13 on float64 is not implemented"),
        ("Clip", 13, 11, "Clip-13 on float64 is not implemented"),
        ("Identity", 19, 8, "Identity-19 on string is not implemented"),
        ("Cos", 13, FLOAT, "op Cos of domain ai.onnx is not implemented"),
        ("Sinh", 22, FLOAT, "op Sinh of domain ai.onnx is not implemented"),
        ("Tanh", 13, 11, "Tanh-13 on float64 is not implemented"),
    ],
)
def test_what_is_declined_is_reported_with_its_reason(
    op: str, opset: int, dtype: int, reason: str, tmp_path: Path
) -> None:
    model = of_nodes([node(op, ["x"], "y", 'odd "one"\n')], [value("x", dtype)], [value("y", dtype)], opset=opset)
    with pytest.raises(UnsupportedError, match=re.escape(f"({op}): {reason}")):  # C9: it says which and why
        session(model, isa="portable", report=tmp_path / "strict")
    made = session(model, isa="portable", cpu_fallback=True, report=tmp_path / "lax")
    assert assigned(made) == []
    assert assigned(made, "CPUExecutionProvider") == [op]
    for name in ("strict", "lax"):
        (line,) = reports(tmp_path / name)
        since = onnx.defs.get_schema(op, opset).since_version
        assert line == {
            "graph": "g",
            "node": 'odd "one"\n',
            "domain": "",
            "op": op,
            "since_version": since,
            "isa": "portable",
            "claimed": False,
            "reason": reason,
        }
    x = np.array(["a"], object) if dtype == 8 else np.ones(3, numpy_dtype(dtype))
    _, count = executed(made.run, None, {"x": x})
    assert count == 0


@pytest.mark.parametrize(
    ("dtype", "opset", "name"),
    [
        (21, 21, "uint4"),
        (22, 21, "int4"),
        (23, 23, "float4_e2m1fn"),
        (24, 24, "unknown type"),
        (25, 25, "unknown type"),
    ],
)
def test_types_that_share_bytes_or_have_two_numbers_are_declined(
    dtype: int, opset: int, name: str, tmp_path: Path
) -> None:
    """From 24 on ONNX and ONNX Runtime number types differently: ONNX's float8e8m0 is ONNX Runtime's uint2."""
    model = one_node(Row("Identity", opset, dtype), ["n"])
    with pytest.raises(onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented):  # the CPU provider declines as well
        session(model, cpu_fallback=True, report=tmp_path / "r")
    (line,) = reports(tmp_path / "r")
    assert (line["claimed"], line["reason"]) == (False, f"Identity-{opset} on {name} is not implemented")


def test_sequences_are_declined(tmp_path: Path) -> None:
    sequence = helper.make_tensor_sequence_value_info
    model = of_nodes(
        [node("Identity", ["x"], "y")], [sequence("x", FLOAT, None)], [sequence("y", FLOAT, None)], opset=14
    )
    made = session(model, cpu_fallback=True, report=tmp_path / "r")
    (line,) = reports(tmp_path / "r")
    assert (line["claimed"], line["reason"]) == (False, "Identity-14 on unknown type is not implemented")
    (got,), count = executed(made.run, None, {"x": [X]})
    assert count == 0
    assert_bits(got[0], X)


def test_a_bound_of_rank_1_is_declined_where_the_model_says_so(tmp_path: Path) -> None:
    model = of_nodes([node("Clip", ["x", "", "b"], "y")], [value("x"), value("b", FLOAT, [1])], [value("y")])
    session(model, cpu_fallback=True, report=tmp_path / "r")
    assert reports(tmp_path / "r")[0]["reason"] == "Clip: the max has rank 1, the rule is rank 0"


def test_the_report_has_a_line_for_every_node_offered(tmp_path: Path) -> None:
    model = if_model(low_is_input=False)
    model.graph.node.append(node("Cos", ["y"], "z"))
    model.graph.node.append(node("Relu", ["z"], "w"))
    model.graph.output.append(value("w"))
    made = session(model, cpu_fallback=True, report=tmp_path / "r")
    lines = reports(tmp_path / "r")
    claimed = sorted(line["op"] for line in lines if line["claimed"])
    assert claimed == assigned(made) == ["Abs", "Clip", "Neg", "Relu"]
    assert {line["op"] for line in lines if not line["claimed"]} == {"If", "Cos"}
    assert {line["graph"] for line in lines} == {"g", "then", "else"}
    assert all(bool(line["reason"]) != line["claimed"] for line in lines)


@pytest.mark.parametrize("text", ["", "None", "tan", "tanh2", "tanh" * 7 + "tanh", "tanh" * 8 + "t", "t" * 100_000])
def test_a_string_attribute_that_is_not_the_one_asked_for(text: str) -> None:
    """ONNX Runtime hands strings over by their length; those of more than 32 bytes are not even fetched."""
    model = one_node(Row("Gelu", 20), ["n"], {"approximate": text})
    with pytest.raises(UnsupportedError, match=r"Gelu-20: approximate=.* is not implemented, only none and tanh"):
        session(model)


def test_part_of_a_model_is_claimed(tmp_path: Path) -> None:
    nodes = [node("Relu", ["x"], "a"), node("Cos", ["a"], "b"), node("Neg", ["b"], "y")]
    model = of_nodes(nodes, [value("x")], [value("y")])
    with pytest.raises(UnsupportedError, match=r"\(Cos\): op Cos of domain ai\.onnx is not implemented"):
        session(model)
    made = session(model, cpu_fallback=True)
    assert assigned(made) == ["Neg", "Relu"]
    (got,), count = executed(made.run, None, {"x": np.zeros(3, np.float32)})
    assert count == 2
    assert_bits(got, np.full(3, -1.0, np.float32))


@pytest.fixture
def log() -> Iterator[None]:
    onnxruntime.set_default_logger_severity(1)
    yield
    onnxruntime.set_default_logger_severity(2)


def test_the_log_names_what_is_declined(capfd: pytest.CaptureFixture[str], log: None) -> None:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 1
    model = of_nodes([node("Cos", ["x"], "y", "the_cosine")], [value("x")], [value("y")])
    ort_session(model, session_options=options, cpu_fallback=True)
    said = capfd.readouterr().err
    assert "ortwin declines node 'the_cosine' (Cos): op Cos of domain ai.onnx is not implemented" in said


def test_a_device_is_listed_once() -> None:
    register()
    (device,) = [d for d in onnxruntime.get_ep_devices() if d.ep_name == "ortwin"]
    assert device.ep_vendor == "ortwin"
