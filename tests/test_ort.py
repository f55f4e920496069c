"""The execution provider inside ONNX Runtime: what it claims and executes, what it declines and how it says so."""

import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from models import (
    AVAILABLE,
    FLOAT,
    INT64,
    INTEGERS,
    ISAS,
    PAIRED,
    ROWS,
    Array,
    Row,
    arguments,
    assert_bits,
    expected,
    node,
    numpy_dtype,
    of_nodes,
    one_node,
    oracle,
    quiet,
    sample,
    value,
    with_arguments,
    work,
)
from ortwin import fast
from ortwin.fast import LibraryError, counters, ort_session, register
from ortwin.ref import UnsupportedError

Fail = onnxruntime.capi.onnxruntime_pybind11_state.Fail
InvalidArgument = onnxruntime.capi.onnxruntime_pybind11_state.InvalidArgument

X = np.array([-5, -1, -0.0, 0.5, 3, np.nan], np.float32)


def session(model: onnx.ModelProto | str | Path, **options: Any) -> Any:
    return ort_session(model, session_options=quiet(), **options)


def executed(run: Callable[..., Any], *arguments: Any) -> tuple[Any, int]:
    """What a call returns, and the nodes that were executed meanwhile."""
    before = counters()["nodes_executed"]
    result = run(*arguments)
    return result, counters()["nodes_executed"] - before


def assigned(made: Any, provider: str = "ortwin") -> list[str]:
    """Op types of the nodes that ONNX Runtime gave to the provider."""
    groups = made.get_provider_graph_assignment_info()
    return sorted(n.op_type for group in groups if group.ep_name == provider for n in group.get_nodes())


def bind(made: Any, feeds: Mapping[str, tuple[int, Array]], dtype: int, y: Array) -> None:
    """Runs on memory as it lies, whatever its address; works for element types that numpy does not know."""
    binding = made.io_binding()
    for name, (feed_type, array) in feeds.items():
        binding.bind_input(name, "cpu", 0, feed_type, list(array.shape), array.ctypes.data)
    binding.bind_output("y", "cpu", 0, dtype, list(y.shape), y.ctypes.data)
    made.run_with_iobinding(binding)


def unranked(name: str, dtype: int = FLOAT) -> onnx.ValueInfoProto:
    return value(name, dtype, None)


# every row


def known_to_ort(row: Row) -> bool:
    """ONNX Runtime has no complex or float8e8m0 tensors, and holds Identity to the types of its schema version."""
    if row.dtype in (14, 15, 24):
        return False
    return row.op != "Identity" or row.version >= (19 if row.dtype > 16 else 13 if row.dtype == 16 else 1)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("row", [row for row in ROWS if known_to_ort(row)], ids=str)
def test_every_row_is_claimed_and_executed_without_fallback(row: Row, isa: str) -> None:
    for given in arguments(row):
        made = session(with_arguments(row, given), isa=isa)
        x = np.array(sample(row.dtype))
        y = np.zeros_like(x)
        assert assigned(made) == [row.name]
        _, count = executed(bind, made, {"x": (row.dtype, x)}, row.dtype, y)
        assert count == 1, "nodes assigned and nodes executed differ"
        assert_bits(y, expected(row, given), given)


def test_assignment_and_counter_agree_on_a_model_of_every_op() -> None:
    newest = {row.op: row for row in ROWS if row.dtype == FLOAT}
    nodes = [
        node(row.name, [f"t{k}"] * (2 if row.op in PAIRED else 1), f"t{k + 1}", domain=row.domain)
        for k, row in enumerate(newest.values())
    ]
    imports = [helper.make_opsetid("", 25), helper.make_opsetid("com.microsoft", 1)]
    model = of_nodes(nodes, [value("t0")], [value(f"t{len(nodes)}")], opset_imports=imports)
    made = session(model)
    assert assigned(made) == sorted(row.name for row in newest.values())
    (got,), count = executed(made.run, None, {"t0": X})
    assert count == len(newest)
    assert_bits(got, oracle(model, {"t0": X}))


def test_the_counter_rests_in_a_session_without_the_provider() -> None:
    register()
    model = one_node(Row("Neg", 13), ["n"])
    plain = onnxruntime.InferenceSession(model.SerializeToString(), quiet(), providers=["CPUExecutionProvider"])
    (got,), count = executed(plain.run, None, {"x": X})
    assert count == 0
    assert_bits(got[:5], -X[:5])


def test_a_session_beside_an_ordinary_one() -> None:
    """Each does its own: ONNX Runtime's Neg flips the sign of a NaN, ours gives the canonical one."""
    model = one_node(Row("Neg", 13), ["n"])
    ours = session(model)
    plain = onnxruntime.InferenceSession(model.SerializeToString(), quiet(), providers=["CPUExecutionProvider"])
    for _ in range(3):
        (got,), count = executed(ours.run, None, {"x": X})
        (other,), none = executed(plain.run, None, {"x": X})
        assert (count, none) == (1, 0)
        assert got.view(np.uint32)[-1] == 0x7FC00000
        assert other.view(np.uint32)[-1] == 0xFFC00000
    assert ours.get_providers()[0] == "ortwin"
    assert plain.get_providers() == ["CPUExecutionProvider"]


# Clip's bounds

KINDS = ["omitted", "empty", "constant", "input", "default", "overridden"]


@pytest.mark.parametrize("dtype", [FLOAT, INT64, *(d for d in INTEGERS if d != INT64)])
@pytest.mark.parametrize("low", KINDS)
@pytest.mark.parametrize("high", KINDS)
def test_every_way_to_give_clip_its_bounds(low: str, high: str, dtype: int) -> None:
    """The fused node's inputs are deduplicated and lack what is missing or constant: only names tell them apart."""
    if low == "omitted" and high != "omitted":
        low = "empty"  # ONNX has no other way
    item = numpy_dtype(dtype)
    numbers = {"low": np.array(20, item), "high": np.array(60, item)}
    x = np.array([0, 19, 20, 21, 59, 60, 61, 100], item)
    names, inputs, initializers, feeds = ["x"], [value("x", dtype)], [], {"x": x}
    for name, kind in (("low", low), ("high", high)):
        if kind == "omitted":
            continue
        names.append("" if kind == "empty" else name)
        if kind in ("constant", "default", "overridden"):
            stored = numbers[name] if kind != "overridden" else np.array(40, item)
            initializers.append(numpy_helper.from_array(stored, name))
        if kind in ("input", "default", "overridden"):
            inputs.append(value(name, dtype, []))
        if kind in ("input", "overridden"):
            feeds[name] = numbers[name]
    model = of_nodes([node("Clip", names, "y")], inputs, [value("y", dtype)], initializers)
    made = session(model)
    assert assigned(made) == ["Clip"]
    (got,), count = executed(made.run, None, feeds)
    assert count == 1
    want = np.minimum(np.maximum(x, x.min() if low in ("omitted", "empty") else item.type(20)),
                      x.max() if high in ("omitted", "empty") else item.type(60))  # fmt: skip
    assert_bits(got, want)
    assert_bits(oracle(model, feeds), want)


def test_one_value_in_several_places_of_a_node() -> None:
    scalar, bound = np.array(3, np.float32), np.array(0.25, np.float32)
    cases: list[tuple[list[str], dict[str, Array]]] = [
        (["x", "x", "x"], {"x": scalar}),
        (["x", "x"], {"x": scalar}),
        (["x", "b", "x"], {"x": scalar, "b": bound}),
        (["x", "", "x"], {"x": scalar}),
        (["x", "b", "b"], {"x": X, "b": bound}),
        (["x", "k", "k"], {"x": X}),
    ]
    for names, feeds in cases:
        inputs = [value(name, FLOAT, array.shape) for name, array in feeds.items()]
        constants = [numpy_helper.from_array(bound, "k")] if "k" in names else []
        model = of_nodes([node("Clip", names, "y")], inputs, [unranked("y")], constants)
        (got,), count = executed(session(model).run, None, feeds)
        assert count == 1
        assert_bits(got, oracle(model, feeds), names)


def test_a_bound_that_is_computed() -> None:
    nodes = [node("Neg", ["b"], "low"), node("Clip", ["x", "low", "b"], "y"), node("Clip", ["y", "b", "low"], "z")]
    model = of_nodes(nodes, [value("x"), value("b", FLOAT, [])], [value("y"), value("z")])
    feeds = {"x": X, "b": np.array(1, np.float32)}
    got, count = executed(session(model).run, None, feeds)
    assert count == 3
    assert_bits(got[0], oracle(model, feeds))
    assert_bits(got[1][:5], np.full(5, -1, np.float32))


# shapes


def test_unknown_rank_and_ranks_beyond_8() -> None:
    shapes: list[tuple[int, ...]] = [(), (0,), (3,), (2, 0, 3), (1,) * 9, (2,) * 10, (1,) * 12 + (0,)]
    made = session(of_nodes([node("Neg", ["x"], "y")], [unranked("x")], [unranked("y")]))
    for shape in shapes:
        x = np.resize(X, shape).astype(np.float32)
        (got,), count = executed(made.run, None, {"x": x})
        assert count == 1
        assert_bits(got, oracle(one_node(Row("Neg", 13)), {"x": x}), shape)


def test_dynamic_dimensions_one_session() -> None:
    made = session(one_node(Row("Neg", 13), ["a", None, 2]))
    for shape in ((3, 5, 2), (0, 5, 2), (3, 0, 2), (1, 1, 2), (200, 3, 2), (0, 0, 2)):
        x = np.resize(X, shape)
        (got,), count = executed(made.run, None, {"x": x})
        assert count == 1
        assert_bits(got, oracle(one_node(Row("Neg", 13)), {"x": x}), shape)


def test_static_shapes_down_to_a_scalar_and_to_nothing() -> None:
    for shape in ([], [0], [1], [2, 3], [2, 0], [1] * 10):
        x = np.resize(X, shape).astype(np.float32).reshape(shape)
        (got,) = session(one_node(Row("Abs", 13), shape)).run(None, {"x": x})
        assert_bits(got, oracle(one_node(Row("Abs", 13)), {"x": x}), shape)


# models


def test_a_model_with_no_inputs() -> None:
    model = of_nodes([node("Neg", ["k"], "y")], [], [value("y")], [numpy_helper.from_array(X, "k")])
    before = work()["nodes_folded"]
    made = session(model)
    assert work()["nodes_folded"] - before == 1
    (got,), count = executed(made.run, None, {})
    assert count == 0
    assert_bits(got, oracle(model, {}))


def test_constant_nodes() -> None:
    constant = helper.make_node("Constant", [], ["k"], value=numpy_helper.from_array(X))
    model = of_nodes([constant, node("Neg", ["k"], "y")], [], [value("y")])
    (got,), count = executed(session(model).run, None, {})
    assert count == 0, "it was folded"
    assert_bits(got, oracle(one_node(Row("Neg", 13)), {"x": X}))


def test_large_and_external_initializers(tmp_path: Path) -> None:
    """Constants of any size are the provider's own copies: the session's may be dropped."""
    big = np.resize(sample(FLOAT), 100_000)
    tensors = [numpy_helper.from_array(big, "big"), numpy_helper.from_array(X, "small")]
    nodes = [node("Neg", ["big"], "y"), node("Neg", ["small"], "z"), node("Abs", ["big"], "w")]
    model = of_nodes(nodes, [], [value(name) for name in "yzw"], tensors)
    path = tmp_path / "m.onnx"
    inline = model.SerializeToString()
    onnx.save(model, path, save_as_external_data=True, location="weights", size_threshold=64)  # changes the model
    assert (tmp_path / "weights").stat().st_size >= big.nbytes
    wants = [oracle(one_node(Row(op, 13)), {"x": x}) for op, x in (("Neg", big), ("Neg", X), ("Abs", big))]
    for source in (inline, path, str(path)):
        made = session(source)
        for _ in range(2):
            got, count = executed(made.run, None, {})
            assert count == 0, "they were folded"
            for array, want in zip(got, wants, strict=True):
                assert_bits(array, want, type(source))


def test_bytes_path_and_proto_are_the_same_model(tmp_path: Path) -> None:
    model = one_node(Row("HardSwish", 22), ["n"])
    onnx.save(model, tmp_path / "m.onnx")
    x = sample(FLOAT)
    want = oracle(model, {"x": x})
    for source in (model, model.SerializeToString(), tmp_path / "m.onnx", str(tmp_path / "m.onnx")):
        assert_bits(ort_session(source, session_options=quiet()).run(None, {"x": x})[0], want)


def branch(name: str, nodes: Sequence[onnx.NodeProto], output: str, **more: Any) -> onnx.GraphProto:
    return helper.make_graph(nodes, name, [], [value(output)], **more)


def if_model(low_is_input: bool) -> onnx.ModelProto:
    """if c: Clip with bounds from the outer graph and its own; else: Neg of Abs."""
    own = numpy_helper.from_array(np.array(1, np.float32), "own_high")
    then = branch("then", [node("Clip", ["x", "low", "own_high"], "t")], "t", initializer=[own])
    other = branch("else", [node("Abs", ["x"], "a"), node("Neg", ["a"], "e")], "e")
    choice = helper.make_node("If", ["c"], ["y"], name="choice", then_branch=then, else_branch=other)
    inputs = [value("x"), value("c", TensorProto.BOOL, [])] + [value("low", FLOAT, [])] * low_is_input
    low = numpy_helper.from_array(np.array(-1, np.float32), "low")
    return of_nodes([choice], inputs, [value("y")], [low])


@pytest.mark.parametrize("low_is_input", [False, True])
def test_bodies_of_if(low_is_input: bool) -> None:
    made = session(if_model(low_is_input), cpu_fallback=True)
    assert assigned(made) == ["Abs", "Clip", "Neg"]
    assert assigned(made, "CPUExecutionProvider") == ["If"]
    x = X[:5]
    for given, low in (({}, -1), ({"low": np.array(-3, np.float32)}, -3))[: 1 + low_is_input]:
        (got,), count = executed(made.run, None, {"x": x, "c": np.array(True), **given})
        assert count == 1
        assert_bits(got, np.clip(x, np.float32(low), np.float32(1)))
    (got,), count = executed(made.run, None, {"x": x, "c": np.array(False)})
    assert count == 2
    assert_bits(got, -abs(x))


def test_bodies_of_loop() -> None:
    """Each trip runs the body's nodes once, on a loop-carried value and one of the outer graph."""
    condition = value("go", TensorProto.BOOL, [])
    body = helper.make_graph(
        [
            node("Identity", ["go"], "on"),
            node("LeakyRelu", ["v"], "w", alpha=0.5),
            node("Neg", ["w"], "carried"),
            node("Abs", ["x"], "scanned"),
        ],
        "body",
        [value("trip", INT64, []), condition, value("v")],
        [value("on", TensorProto.BOOL, []), value("carried"), value("scanned")],
    )
    loop = helper.make_node("Loop", ["trips", "", "x"], ["y", "all"], name="loop", body=body)
    trips = value("trips", INT64, [])
    model = of_nodes([loop], [value("x"), trips], [value("y"), value("all", FLOAT, ["t", "n"])], opset=16)
    made, x = session(model, cpu_fallback=True), X[:5]
    assert assigned(made) == ["Abs", "Identity", "LeakyRelu", "Neg"]
    want = x
    for count in range(4):
        (got, scanned), nodes = executed(made.run, None, {"x": x, "trips": np.array(count)})
        assert nodes == 4 * count
        assert_bits(got, want)
        assert scanned.shape[0] == count
        assert scanned.tobytes() == abs(x).tobytes() * count
        want = -np.where(want < 0, np.float32(0.5) * want, want)


def test_functions_of_the_model() -> None:
    opsets = [helper.make_opsetid("", 13)]
    function = helper.make_function(
        "own", "Pair", ["a"], ["b"], [node("Neg", ["a"], "m"), node("Relu", ["m"], "b")], opsets
    )
    both = [*opsets, helper.make_opsetid("own", 1)]
    call = helper.make_node("Pair", ["x"], ["t"], domain="own", name="call")
    model = of_nodes(
        [call, node("Sqrt", ["t"], "y")], [value("x")], [value("y")], functions=[function], opset_imports=both
    )
    made = session(model)
    assert assigned(made) == ["Neg", "Relu", "Sqrt"]
    (got,), count = executed(made.run, None, {"x": X})
    assert count == 3
    assert_bits(got, oracle(model, {"x": X}))


def test_an_output_used_inside_and_listed_twice_and_an_input_passed_through() -> None:
    nodes = [node("Relu", ["x"], "t"), node("Neg", ["t"], "y"), node("Identity", ["x"], "z")]
    model = of_nodes(nodes, [value("x")], [value(name) for name in ("t", "y", "z", "y")])
    got, count = executed(session(model).run, None, {"x": X})
    assert count == 3
    for array, want in zip(got, (np.maximum(X, 0), -np.maximum(X, 0), X), strict=False):
        assert_bits(array[:2], want[:2])
    assert_bits(got[2], X)
    assert_bits(got[3], got[1])


# declined


def reports(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


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
