"""Models and arguments made to mislead: the backends agree on them, or refuse them in one clear sentence."""

import copy
import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from ortwin import fast, ref
from ortwin.fast import IsaError, LibraryError, ort_session, register, unregister
from ortwin.ref import InputError, ModelError, OrtwinError, SizeError, UnsupportedError

FLOAT, INT32, BOOL, STRING = TensorProto.FLOAT, TensorProto.INT32, TensorProto.BOOL, TensorProto.STRING
X = np.array([-1.5, 0.25, 3.0], np.float32)
BACKENDS: dict[str, Callable[[Any], Any]] = {"ref": ref.Session, "fast": fast.Session}


def info(name: str, dtype: int = FLOAT, shape: list[int] | None = None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, [3] if shape is None else shape)


def shaped(name: str, shape: list[int | str] | None, dtype: int = FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, shape)


def model(nodes: list[onnx.NodeProto], **more: Any) -> onnx.ModelProto:
    inputs, outputs = more.pop("inputs", [info("x")]), more.pop("outputs", [info("y")])
    graph = helper.make_graph(nodes, "g", inputs, outputs, more.pop("initializers", []))
    opsets = [helper.make_opsetid("", 21), *more.pop("opsets", [])]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10, **more)


def relu(x: str = "x", y: str = "y") -> onnx.NodeProto:
    return helper.make_node("Relu", [x], [y], name="n")


def function(name: str, nodes: list[onnx.NodeProto], *more: Any, domain: str = "own") -> onnx.FunctionProto:
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("own", 1)]
    return helper.make_function(domain, name, ["a"], ["b"], nodes, imports, *more)


def calling(*functions: onnx.FunctionProto, call: str = "F") -> onnx.ModelProto:
    node = helper.make_node(call, ["x"], ["y"], domain="own", name="call")
    return model([node], functions=list(functions), opsets=[helper.make_opsetid("own", 1)])


def referring(op: str, attribute: str, to: str, kind: int) -> onnx.NodeProto:
    node = helper.make_node(op, ["a"], ["b"])
    reference = node.attribute.add()
    reference.name, reference.ref_attr_name, reference.type = attribute, to, kind
    return node


# functions


@pytest.mark.parametrize("nested", [False, True])
def test_defaults_of_function_attributes_count(nested: bool) -> None:
    body = referring("LeakyRelu", "alpha", "q", onnx.AttributeProto.FLOAT)
    functions = [function("F", [body], [], [helper.make_attribute("q", 0.5)])]
    if nested:
        functions.append(function("G", [helper.make_node("F", ["a"], ["b"], domain="own")]))
    proto = calling(*functions, call="G" if nested else "F")
    expected = [-0.75, 0.25, 3.0]
    for session in BACKENDS.values():
        assert session(proto).run(None, {"x": X})[0].tolist() == expected
    assert ort_session(proto).run(None, {"x": X})[0].tolist() == expected


def test_a_function_named_like_an_op_is_refused() -> None:
    shadow = function("Relu", [helper.make_node("Neg", ["a"], ["b"])], domain="")
    proto = model([relu()], functions=[shadow])
    for session in BACKENDS.values():
        with pytest.raises(ModelError, match="function 'Relu' has the name of an op"):
            session(proto)


def test_functions_that_grow_without_bound_are_refused_at_once() -> None:
    functions = [function("F0", [helper.make_node("Neg", ["a"], ["b"])])]
    for level in range(1, 64):
        calls = [helper.make_node(f"F{level - 1}", [x], [y], domain="own") for x, y in (("a", "t"), ("t", "b"))]
        functions.append(function(f"F{level}", calls))
    with pytest.raises(ModelError, match="more than 1000000 nodes"):
        ref.load(calling(*functions, call="F63"))
    endless = function("F", [helper.make_node("F", ["a"], ["b"], domain="own")])
    with pytest.raises(ModelError):
        ref.load(calling(endless))


@pytest.mark.parametrize(
    ("node", "rule"),
    [
        (helper.make_node("Neg", ["a"], ["q"]), "made by no node"),
        (helper.make_node("Clip", ["", "a"], ["b"]), "marked single but has an empty string"),
    ],
    ids=["no output", "no first input"],
)
def test_bad_functions_are_refused_in_words(node: onnx.NodeProto, rule: str) -> None:
    for session in BACKENDS.values():
        with pytest.raises(ModelError, match=rule):
            session(calling(function("F", [node])))


def test_a_call_without_the_input_its_function_needs() -> None:
    proto = calling(function("F", [helper.make_node("Relu", ["a"], ["b"])]))
    proto.graph.node[0].input[:] = [""]
    for session in BACKENDS.values():
        with pytest.raises(UnsupportedError, match="first input is missing"):
            session(proto)


def test_a_function_attribute_of_the_wrong_type() -> None:
    proto = calling(function("F", [referring("LeakyRelu", "alpha", "q", onnx.AttributeProto.FLOAT)], ["q"]))
    proto.graph.node[0].attribute.append(helper.make_attribute("q", 3))
    for session in BACKENDS.values():
        with pytest.raises(UnsupportedError, match="alpha"):
            session(proto)


# names


@pytest.mark.parametrize("names", [("v\0in", "v\0out"), ("v", "v\0out")])
def test_names_equal_up_to_a_nul_are_not_taken_for_one(names: tuple[str, str]) -> None:
    x, y = names
    proto = model([relu(x, y)], inputs=[info(x)], outputs=[info(y)])
    for session in BACKENDS.values():
        assert session(proto).run(None, {x: X})[0].tolist() == [0.0, 0.25, 3.0]
    with pytest.raises(UnsupportedError, match="two values are both called 'v' up to a NUL"):
        ort_session(proto)
    clip = helper.make_node("Clip", ["x", "b\0lo", "b\0hi"], ["y"])
    bounds = [numpy_helper.from_array(np.array(v, np.float32), n) for n, v in (("b\0lo", -1), ("b\0hi", 1))]
    with pytest.raises(UnsupportedError, match="two values are both called 'b' up to a NUL"):
        ort_session(model([clip], initializers=bounds))


def test_a_nul_does_not_end_a_domain_op_or_isa() -> None:
    for node in (helper.make_node("Relu", ["x"], ["y"], domain="\0e"), helper.make_node("Relu\0", ["x"], ["y"])):
        proto = model([node], opsets=[helper.make_opsetid("\0e", 14)])
        for session in BACKENDS.values():
            with pytest.raises(OrtwinError):
                session(proto)
    with pytest.raises(IsaError, match="holds a NUL"):
        fast.Session(model([relu()]), isa="avx2\0junk")


def test_names_that_are_no_utf8_are_refused() -> None:
    for field in (b"Relu", b"the_node", b"x_in", b"y_out"):
        proto = model(
            [helper.make_node("Relu", ["x_in"], ["y_out"], name="the_node")],
            inputs=[info("x_in")],
            outputs=[info("y_out")],
        )
        data = proto.SerializeToString().replace(field, b"\xff" + field[1:])
        for session in BACKENDS.values():
            with pytest.raises(ModelError):
                session(data)


def test_our_messages_are_utf8_wherever_they_are_cut(tmp_path: Path) -> None:
    """ONNX Runtime's Python wrapper would take a message it can't decode for a reason to drop the provider."""
    proto = model([relu()])
    for isa in ("x" + "é" * 300, "é" * 300):
        for fallback in (False, True):
            with pytest.raises(Exception, match="is unknown: choose") as caught:
                ort_session(proto, isa=isa, cpu_fallback=fallback)
            assert type(caught.value).__module__.startswith("onnxruntime")
    for name in ("x" + "é" * 300, "é" * 300):
        clip = helper.make_node("Clip", ["x", "lo"], ["y"], name=name)
        low = helper.make_tensor_value_info("lo", FLOAT, None)
        session = ort_session(model([clip], inputs=[info("x"), low]))
        with pytest.raises(Exception, match="the min has rank 1") as caught:
            session.run(None, {"x": X, "lo": np.zeros(1, np.float32)})
        assert type(caught.value).__module__.startswith("onnxruntime")
        report = tmp_path / "report"
        ort_session(model([helper.make_node("Cos", ["x"], ["y"], name=name)]), cpu_fallback=True, report=report)
        report.read_text(encoding="utf-8")


# what a model says of its values


def test_declared_types_that_contradict_are_refused_by_both() -> None:
    proto = model([relu()], outputs=[info("y", INT32)])
    for session in BACKENDS.values():
        with pytest.raises(UnsupportedError, match="its output 'y' is float32, but the model declares int32"):
            session(proto)


def test_what_is_computed_counts_more_than_what_is_declared() -> None:
    nodes = [helper.make_node("Identity", ["c"], ["lo"]), helper.make_node("Clip", ["x", "lo"], ["y"])]
    proto = model(nodes, initializers=[numpy_helper.from_array(np.array(0, np.float32), "c")])
    proto.graph.value_info.append(info("lo", FLOAT, [1]))
    proto.graph.value_info.append(info("c", FLOAT, [1]))
    for session in BACKENDS.values():
        assert session(proto).run(None, {"x": X})[0].tolist() == [0.0, 0.25, 3.0]


@pytest.mark.parametrize("declared", [[], [7, 7, 7]])
def test_a_shape_that_is_declared_wrongly_where_none_is_known(declared: list[int]) -> None:
    """The rank of x is unknown, so no shape is computed that could count before the declared one."""
    nodes = [helper.make_node("Identity", ["x"], ["t"]), helper.make_node("MatMulInteger", ["t", "b"], ["y"])]
    b = numpy_helper.from_array(np.arange(6, dtype=np.int8).reshape(3, 2), "b")
    inputs, outputs = [shaped("x", None, TensorProto.INT8)], [shaped("y", None, INT32)]
    proto = model(nodes, inputs=inputs, outputs=outputs, initializers=[b])
    proto.graph.value_info.append(info("t", TensorProto.INT8, declared))
    for session in BACKENDS.values():
        got = session(proto).run(None, {"x": np.array([[1, -2, 3]], np.int8)})[0]
        assert got.tolist() == [[8, 10]]


SIDE = 1 << 21
OUTER = helper.make_node("Add", ["x", "z"], ["y"], "outer")


@pytest.mark.nosanitize("AddressSanitizer ends the process for an allocation of this size")
@pytest.mark.parametrize("session", [*BACKENDS.values(), fast.ort_session])
@pytest.mark.parametrize("then", [[], [helper.make_node("DynamicQuantizeLinear", ["y"], ["q", "s", "w"])]], ids=len)
def test_a_value_too_large_for_memory_is_an_error_that_names_its_node(
    session: Callable[..., Any], then: list[onnx.NodeProto]
) -> None:
    """A broadcast to 16 TiB, as an output and as an intermediate."""
    feeds = {"x": np.zeros((SIDE, 1), np.float32), "z": np.zeros((1, SIDE), np.float32)}
    inputs, outputs = [shaped("x", ["M", 1]), shaped("z", [1, "N"])], [shaped("s" if then else "y", None)]
    made = session(model([OUTER, *then], inputs=inputs, outputs=outputs))
    with pytest.raises(Exception, match=rf"node 'outer' \(Add.* of {4 * SIDE**2} bytes") as caught:
        made.run(None, feeds)
    assert session is fast.ort_session or isinstance(caught.value, SizeError)


@pytest.mark.parametrize("array", [np.zeros(2, np.float32), np.zeros(3, np.int32), np.zeros((3, 1), np.float32)])
def test_an_initializer_that_is_not_what_its_input_says(array: np.ndarray[Any, Any]) -> None:
    proto = model([relu()], initializers=[numpy_helper.from_array(array, "x")])
    for session in BACKENDS.values():
        with pytest.raises(ModelError, match=r"initializer 'x' is no float32\[3\]"):
            session(proto)


@pytest.mark.parametrize("dtype", [STRING, TensorProto.FLOAT4E2M1])
def test_inputs_without_whole_bytes_are_unsupported_even_if_unused(dtype: int) -> None:
    proto = model([relu()], inputs=[info("x"), info("unused", dtype)])
    for session in BACKENDS.values():
        with pytest.raises(UnsupportedError, match="input 'unused'"):
            session(proto)


def test_bools_of_an_initializer_are_true_or_false() -> None:
    raw = TensorProto(name="c", data_type=BOOL, dims=[5], raw_data=b"\x00\x01\x02\xff\x80")
    ints = TensorProto(name="c", data_type=BOOL, dims=[5], int32_data=[0, 1, 2, 255, 256])
    for constant in (raw, ints):
        node = helper.make_node("Identity", ["c"], ["y"])
        proto = model([node], inputs=[], outputs=[info("y", BOOL, [5])], initializers=[constant])
        for make in (*BACKENDS.values(), ort_session):
            assert make(proto).run(None, {})[0].view(np.uint8).tolist() == [0, 1, 1, 1, 1]


# objects


def test_a_copy_of_a_session_outlives_it() -> None:
    session = fast.Session(model([relu()]))
    again = copy.copy(session)
    del session
    gc.collect()
    assert again.run(None, {"x": X})[0].tolist() == [0.0, 0.25, 3.0]


def test_a_provider_with_sessions_is_not_unloaded() -> None:
    register("held")
    session = ort_session(model([relu()]), name="held")
    with pytest.raises(LibraryError, match=r"1 session\(s\) of 'held' still exist"):
        unregister("held")
    assert session.run(None, {"x": X})[0].tolist() == [0.0, 0.25, 3.0]
    del session
    gc.collect()
    unregister("held")


def test_a_provider_registered_directly_is_found() -> None:
    onnxruntime.register_execution_provider_library("direct", str(fast.library_path()))
    register("direct")
    assert ort_session(model([relu()]), name="direct").run(None, {"x": X})[0].tolist() == [0.0, 0.25, 3.0]
    gc.collect()
    unregister("direct")
    with pytest.raises(LibraryError, match="no provider is registered as 'direct'"):
        unregister("direct")


@pytest.mark.parametrize("name", ["", "ortwin\0x"])
def test_names_that_no_provider_can_have(name: str) -> None:
    with pytest.raises(LibraryError, match="is no name for a provider"):
        register(name)


def test_providers_whose_names_continue_one_another() -> None:
    register("ow")
    register("ow.b")
    options = onnxruntime.SessionOptions()
    devices = onnxruntime.get_ep_devices()
    options.add_provider_for_devices([d for d in devices if d.ep_name == "ow.b"], {"isa": "portable"})
    session = ort_session(model([relu()]), name="ow", session_options=options)
    assert session.run(None, {"x": X})[0].tolist() == [0.0, 0.25, 3.0]
    del session
    gc.collect()
    unregister("ow")
    unregister("ow.b")


def test_thread_counts_are_whole_numbers() -> None:
    proto = model([relu()])
    for make in (fast.Session, ort_session):
        made: Any = make
        made(proto, threads=np.int64(2)).run(None, {"x": X})
        for bad in (1.5, "1", None):
            with pytest.raises(TypeError):
                made(proto, threads=bad)


def test_run_into_wants_arrays() -> None:
    outputs: Any = {"y": [0.0] * 3}
    with pytest.raises(InputError, match="no array was given for output 'y'"):
        fast.Session(model([relu()])).run_into(outputs, {"x": X})
