"""The model reader: what it hands to the backends, and one clear sentence for every model it can't hand over."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from ortwin.ref import InputError, ModelError, UnsupportedError, load
from ortwin.ref.graph import Graph, Node, Value, check_feeds, resolve_outputs
from ortwin.ref.tensor import DTYPE_NAMES, Tensor, from_numpy, item_size, to_numpy

FLOAT = TensorProto.FLOAT


def info(name: str, dtype: int = FLOAT, shape: Sequence[int | str | None] | None = ("N",)) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, shape)


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto] = (info("x"),),
    outputs: Sequence[onnx.ValueInfoProto] = (info("y"),),
    initializers: Sequence[onnx.TensorProto] = (),
    opset: int = 22,
    **more: Any,
) -> onnx.ModelProto:
    graph = helper.make_graph(nodes, "g", inputs, outputs, initializers)
    more.setdefault("opset_imports", [helper.make_opsetid("", opset)])
    return helper.make_model(graph, ir_version=10, **more)


RELU = helper.make_node("Relu", ["x"], ["y"])


def only_node(proto: onnx.ModelProto) -> Node:
    (node,) = load(proto).nodes
    return node


# What a model says


def test_node_graph_and_values() -> None:
    nodes = [helper.make_node("Abs", ["x"], ["t"], name="first"), helper.make_node("Relu", ["t"], ["y"])]
    proto = model(nodes, [info("x", FLOAT, ["N", 3, None])], [info("y", FLOAT, ["N", 3, None])])
    proto.graph.value_info.append(info("t", FLOAT, None))
    graph = load(proto)
    assert graph.name == "g"
    assert graph.opsets == {"": 22}
    assert graph.inputs == (Value("x", FLOAT, ("N", 3, None)),)
    assert graph.outputs == (Value("y", FLOAT, ("N", 3, None)),)
    assert graph.values["t"] == Value("t", FLOAT, None)
    assert [(n.name, n.op_type, n.domain, n.since_version) for n in graph.nodes] == [
        ("first", "Abs", "", 13),
        ("Relu_1", "Relu", "", 14),
    ]
    assert [(n.inputs, n.outputs) for n in graph.nodes] == [(("x",), ("t",)), (("t",), ("y",))]


def test_path_bytes_and_proto_read_alike_and_leave_the_proto_alone(tmp_path: Path) -> None:
    proto = model([RELU], [info("x", FLOAT, None)], [info("y", FLOAT, None)])
    before = proto.SerializeToString()
    path = tmp_path / "m.onnx"
    path.write_bytes(before)
    for source in (proto, before, path, os.fspath(path)):
        graph = load(source)
        assert [n.op_type for n in graph.nodes] == ["Relu"]
        assert graph.inputs == (Value("x", FLOAT, None),), "a graph input may leave its rank open"
    assert proto.SerializeToString() == before


def test_text_formats_are_read_by_their_suffix(tmp_path: Path) -> None:
    for suffix in ("textproto", "json"):
        path = tmp_path / f"m.{suffix}"
        onnx.save(model([RELU]), os.fspath(path))
        assert load(path).nodes[0].op_type == "Relu"


def test_unnamed_nodes_get_unique_names() -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Relu", ["a"], ["b"], name="Relu_2"),
        helper.make_node("Relu", ["b"], ["y"]),
    ]
    names = [n.name for n in load(model(nodes)).nodes]
    assert names[:2] == ["Relu_0", "Relu_2"]
    assert len(set(names)) == 3
    assert names[2].startswith("Relu_2")


@pytest.mark.parametrize(
    ("op", "opset", "since", "attributes"),
    [
        ("LeakyRelu", 1, 1, {"alpha": np.float32(0.01)}),
        ("LeakyRelu", 15, 6, {"alpha": np.float32(0.01)}),
        ("LeakyRelu", 22, 16, {"alpha": np.float32(0.01)}),
        ("HardSigmoid", 21, 6, {"alpha": np.float32(0.2), "beta": 0.5}),
        ("ThresholdedRelu", 22, 22, {"alpha": 1.0}),
        ("Clip", 1, 1, {}),
        ("Clip", 10, 6, {"min": -np.finfo(np.float32).max, "max": np.finfo(np.float32).max}),
        ("Clip", 12, 12, {}),
        ("Relu", 5, 1, {}),
    ],
)
def test_schema_version_and_defaults_per_opset(op: str, opset: int, since: int, attributes: dict[str, Any]) -> None:
    node = only_node(model([helper.make_node(op, ["x"], ["y"])], opset=opset))
    assert node.since_version == since
    assert node.attributes == {key: float(default) for key, default in attributes.items()}


def test_written_attributes_win_and_floats_hold_binary32_values() -> None:
    node = only_node(model([helper.make_node("HardSigmoid", ["x"], ["y"], alpha=0.1)]))
    assert node.attributes == {"alpha": float(np.float32(0.1)), "beta": 0.5}
    assert node.attributes["alpha"] != 0.1
    legacy = only_node(model([helper.make_node("Relu", ["x"], ["y"], consumed_inputs=[0])], opset=1))
    assert legacy.attributes == {"consumed_inputs": [0]}


def test_attributes_of_every_kind() -> None:
    tensor = numpy_helper.from_array(np.array([1, 2], np.int64), "t")
    body = helper.make_graph([helper.make_node("Relu", ["x"], ["p"])], "body", [], [info("p")])
    node = helper.make_node(
        "Any",
        ["x"],
        ["y"],
        domain="some.where",
        f=0.5,
        i=-3,
        s="é",
        t=tensor,
        g=body,
        fs=[1.5, 2.0],
        n=[1, 2],
        ss=["a", "b"],
    )
    imports = [helper.make_opsetid("", 22), helper.make_opsetid("some.where", 7)]
    read = only_node(model([node], opset_imports=imports))
    assert (read.domain, read.since_version) == ("some.where", 7)
    assert read.label == "node 'Any_0' (some.where.Any-7)"
    t, g = read.attributes.pop("t"), read.attributes.pop("g")
    assert read.attributes == {"f": 0.5, "i": -3, "s": "é", "fs": [1.5, 2.0], "n": [1, 2], "ss": ["a", "b"]}
    assert isinstance(t, Tensor)
    assert to_numpy(t).tolist() == [1, 2]
    assert isinstance(g, Graph)
    assert g.nodes[0].since_version == 14


def test_missing_optional_input_keeps_its_place() -> None:
    node = only_node(model([helper.make_node("Clip", ["x", "", "hi"], ["y"])], [info("x"), info("hi", FLOAT, [])]))
    assert node.inputs == ("x", "", "hi")


def test_ai_onnx_is_the_default_domain() -> None:
    node = helper.make_node("Relu", ["x"], ["y"], domain="ai.onnx")
    proto = model([node], opset_imports=[helper.make_opsetid("ai.onnx", 13)])
    graph = load(proto)
    assert graph.opsets == {"": 13}
    assert proto.graph.node[0].domain == "ai.onnx", "the caller's model is left alone"
    assert (graph.nodes[0].domain, graph.nodes[0].since_version) == ("", 13)


@pytest.mark.parametrize("typed_field", [False, True])
@pytest.mark.parametrize("dtype", [d for d in DTYPE_NAMES if d not in (8, 21, 22, 23, 25, 26, 27, 28)])
def test_initializer_bits_survive(dtype: int, typed_field: bool) -> None:
    native = helper.tensor_dtype_to_np_dtype(dtype)
    raw = bytes(range(1, 1 + 2 * item_size(dtype))) if dtype != TensorProto.BOOL else b"\0\1"
    array = np.frombuffer(raw, native)
    if typed_field:
        proto = helper.make_tensor("w", dtype, [2], array)
    else:
        proto = helper.make_tensor("w", dtype, [2], raw, raw=True)
    graph = load(model([RELU], initializers=[proto]))
    tensor = graph.initializers["w"]
    assert (tensor.dtype, tensor.shape, tensor.data) == (dtype, (2,), raw)
    assert to_numpy(tensor).dtype == native
    assert graph.values["w"] == Value("w", dtype, (2,))
    assert graph.required_inputs == ("x",)


def test_signalling_nan_payload_in_an_initializer() -> None:
    raw = np.array([0x7F800001, 0xFFABCDEF], np.uint32).tobytes()
    graph = load(model([RELU], initializers=[helper.make_tensor("w", FLOAT, [2], raw, raw=True)]))
    assert graph.initializers["w"].data == raw
    assert to_numpy(graph.initializers["w"]).tobytes() == raw
    swapped = np.frombuffer(raw, "<f4").byteswap().view(">f4")
    assert from_numpy(swapped).data == raw


def test_overridable_initializer_is_an_input_that_is_not_required() -> None:
    lo = numpy_helper.from_array(np.array(-1, np.float32), "lo")
    clip = helper.make_node("Clip", ["x", "lo"], ["y"])
    graph = load(model([clip], [info("x"), info("lo", FLOAT, [])], initializers=[lo]))
    assert [v.name for v in graph.inputs] == ["x", "lo"]
    assert graph.required_inputs == ("x",)


def test_external_data_is_read_beside_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weight = numpy_helper.from_array(np.arange(1000, dtype=np.float32), "w")
    path = tmp_path / "sub" / "m.onnx"
    path.parent.mkdir()
    onnx.save(
        model([RELU], initializers=[weight]),
        os.fspath(path),
        save_as_external_data=True,
        location="weights.bin",
        size_threshold=0,
    )
    assert (path.parent / "weights.bin").stat().st_size >= 4000
    monkeypatch.chdir(tmp_path)
    for name in (path, "sub/m.onnx"):
        assert to_numpy(load(name).initializers["w"]).tolist() == list(range(1000))
    with pytest.raises(ModelError, match="tensor 'w' keeps its data in another file"):
        load(path.read_bytes())
    with pytest.raises(ModelError, match="tensor 'w' keeps its data in another file"):
        load(onnx.load(os.fspath(path), load_external_data=False))
    os.truncate(path.parent / "weights.bin", 100)
    with pytest.raises(ModelError, match="'w'"):
        load(path)
    (path.parent / "weights.bin").unlink()
    with pytest.raises(ModelError, match=r"weights\.bin"):
        load(path)


def test_external_data_outside_the_model_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "secret.bin").write_bytes(bytes(4))
    proto = onnx.TensorProto(name="w", data_type=FLOAT, dims=[1], data_location=TensorProto.EXTERNAL)
    proto.external_data.add(key="location", value="../secret.bin")
    path = tmp_path / "sub" / "m.onnx"
    path.parent.mkdir()
    path.write_bytes(model([RELU], initializers=[proto]).SerializeToString())
    with pytest.raises(ModelError, match="w"):
        load(path)


def functions_model(function_opset: int, call: onnx.NodeProto, attributes: Sequence[str] = ()) -> onnx.ModelProto:
    leaky = helper.make_node("LeakyRelu", ["a"], ["t"])
    if attributes:
        reference = leaky.attribute.add(name="alpha", type=onnx.AttributeProto.FLOAT)
        reference.ref_attr_name = attributes[0]
    body = [leaky, helper.make_node("Abs", ["t"], ["b"])]
    function = helper.make_function(
        "local", "F", ["a"], ["b"], body, [helper.make_opsetid("", function_opset)], list(attributes)
    )
    imports = [helper.make_opsetid("", 22), helper.make_opsetid("local", 1)]
    return model([call], opset_imports=imports, functions=[function])


def test_local_functions_are_inlined() -> None:
    call = helper.make_node("F", ["x"], ["y"], domain="local", slope=0.25)
    graph = load(functions_model(22, call, ["slope"]))
    assert [n.op_type for n in graph.nodes] == ["LeakyRelu", "Abs"]
    assert graph.nodes[0].attributes == {"alpha": 0.25}
    assert graph.nodes[0].inputs == ("x",)
    assert graph.nodes[1].outputs == ("y",)
    assert graph.nodes[0].outputs == graph.nodes[1].inputs


def test_an_attribute_the_call_leaves_out_gets_the_schema_default() -> None:
    graph = load(functions_model(22, helper.make_node("F", ["x"], ["y"], domain="local"), ["slope"]))
    assert graph.nodes[0].attributes == {"alpha": float(np.float32(0.01))}


def test_a_function_of_another_opset_is_converted() -> None:
    graph = load(functions_model(21, helper.make_node("F", ["x"], ["y"], domain="local")))
    assert [(n.op_type, n.since_version) for n in graph.nodes] == [("LeakyRelu", 16), ("Abs", 13)]


def test_a_function_of_an_opset_with_other_schemas_is_refused() -> None:
    with pytest.raises(ModelError, match="version 15"):
        load(functions_model(15, helper.make_node("F", ["x"], ["y"], domain="local")))


# Models that can't be read


def sparse() -> onnx.ModelProto:
    proto = model([RELU])
    values = numpy_helper.from_array(np.ones(1, np.float32), "s")
    indices = numpy_helper.from_array(np.zeros(1, np.int64), "i")
    proto.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [3]))
    return proto


def newer_ir() -> onnx.ModelProto:
    proto = model([RELU])
    proto.ir_version = 999
    return proto


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (b"", "the model is not valid"),
        (b"hello, I am no model", "can't be parsed as an ONNX model"),
        (onnx.ModelProto(), "the model is not valid"),
        ("/no/such/model.onnx", "can't read '/no/such/model.onnx': No such file"),
        ("/", "can't read '/': Is a directory"),
        (model([helper.make_node("Foo", ["x"], ["y"])]), "No Op registered for Foo"),
        (model([RELU], opset=999), "opset 999 is newer than"),
        (newer_ir(), "ir_version"),
        (model([helper.make_node("Relu", ["z"], ["y"])]), "'z'"),
        (model([helper.make_node("Relu", ["x"], ["z"])]), "'y'"),
        (model([helper.make_node("Relu", ["x"], ["y"], surprise=1)]), "surprise"),
        (model([helper.make_node("Relu", ["x", "x"], ["y"])]), "Relu"),
        (model([helper.make_node("Relu", ["x"], ["y"], domain="no.import")]), "no.import"),
        (sparse(), "initializer 's' is sparse"),
        (model([RELU], initializers=[onnx.TensorProto(name="w", data_type=1, dims=[3], raw_data=b"1234")]), "w"),
        (model([RELU], initializers=[onnx.TensorProto(name="w", data_type=1, dims=[1], raw_data=bytes(99))]), "w"),
        (model([RELU], initializers=[onnx.TensorProto(name="w", data_type=99, dims=[1], raw_data=bytes(4))]), "w"),
    ],
    ids=lambda case: case if isinstance(case, str) else "",
)
def test_model_errors_are_one_sentence(bad: Any, message: str) -> None:
    with pytest.raises(ModelError) as caught:
        load(bad)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_unparsable_text(tmp_path: Path) -> None:
    for suffix in ("textproto", "json", "onnxtxt"):
        path = tmp_path / f"m.{suffix}"
        path.write_text("{ nonsense")
        with pytest.raises(ModelError, match="can't be parsed"):
            load(path)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (model([RELU], initializers=[numpy_helper.from_array(np.array(["a"], dtype=object), "w")]), "'w': string"),
        (model([RELU], initializers=[helper.make_tensor("w", TensorProto.FLOAT4E2M1, [2], [1, 2])]), "'w': float4"),
        (
            model([helper.make_node("Identity", ["q"], ["r"])],
                  [helper.make_tensor_sequence_value_info("q", FLOAT, None)],
                  [helper.make_tensor_sequence_value_info("r", FLOAT, None)]),
            "'q' is a sequence",
        ),
    ],
    ids=["string", "float4", "sequence"],
)  # fmt: skip
def test_values_that_no_tensor_can_hold(bad: onnx.ModelProto, message: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        load(bad)
    assert message in str(caught.value)


# Feeds and outputs


def two_inputs() -> Graph:
    add = helper.make_node("Add", ["a", "b"], ["y"])
    shapes = [info("a", FLOAT, ["N", 3, None]), info("b", FLOAT, [1, 3, "N"])]
    return load(model([add], shapes, [info("y", FLOAT, [None, 3, None])]))


def f32(*shape: int) -> np.ndarray[Any, Any]:
    return np.zeros(shape, np.float32)


def test_feeds_that_fit() -> None:
    check_feeds(two_inputs(), {"a": f32(2, 3, 7), "b": f32(1, 3, 2)})
    check_feeds(two_inputs(), {"a": f32(0, 3, 7).astype(">f4"), "b": f32(1, 3, 0)})


@pytest.mark.parametrize(
    ("feeds", "message"),
    [
        ({"a": f32(2, 3, 7)}, "input 'b' is missing"),
        ({"a": f32(2, 3, 7), "b": f32(1, 3, 2), "c": f32(1)}, "no input 'c', only 'a', 'b'"),
        ({"a": f32(2, 3, 7), "b": f32(1, 3, 2).astype(np.float64)}, "input 'b' must be float32, not float64"),
        ({"a": f32(2, 3), "b": f32(1, 3, 2)}, "input 'a' must have rank 3, not 2"),
        ({"a": f32(2, 4, 7), "b": f32(1, 3, 2)}, "input 'a' must have size 3 on axis 1, not 4"),
        ({"a": f32(2, 3, 7), "b": f32(1, 3, 3)}, "dimension 'N' is 2 in input 'a', but 3 in 'b', axis 2"),
        ({"a": [1.0], "b": f32(1, 3, 2)}, "input 'a' must be a numpy array, not list"),
        ({"a": np.array(["x"]), "b": f32(1, 3, 2)}, "input 'a' must be float32"),
    ],
)
def test_feeds_that_do_not_fit(feeds: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        check_feeds(two_inputs(), feeds)
    assert message in str(caught.value)


def test_resolve_outputs() -> None:
    nodes = [helper.make_node("Abs", ["x"], ["t"]), helper.make_node("Relu", ["t"], ["y"])]
    graph = load(model(nodes, outputs=[info("y"), info("t")]))
    assert resolve_outputs(graph, None) == ["y", "t"]
    assert resolve_outputs(graph, ["t"]) == ["t"]
    assert resolve_outputs(graph, []) == []
    with pytest.raises(InputError, match="no output 'x', only 'y', 't'"):
        resolve_outputs(graph, ["x"])


def test_tensor_checks_its_bytes() -> None:
    assert Tensor(FLOAT, (), bytes(4)).size == 1
    assert Tensor(FLOAT, (3, 0), b"").size == 0
    with pytest.raises(ValueError, match="3 bytes don't make a float32 tensor"):
        Tensor(FLOAT, (1,), bytes(3))
    with pytest.raises(UnsupportedError, match="int4"):
        item_size(TensorProto.INT4)
    with pytest.raises(InputError, match="datetime64"):
        from_numpy(np.zeros(1, "datetime64[s]"))


def test_to_numpy_is_a_writable_copy() -> None:
    tensor = from_numpy(np.arange(6, dtype=np.int32).reshape(2, 3)[:, ::2])
    array = to_numpy(tensor)
    assert array.tolist() == [[0, 2], [3, 5]]
    array[:] = 9
    assert to_numpy(tensor).tolist() == [[0, 2], [3, 5]]
