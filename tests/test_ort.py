"""The execution provider inside ONNX Runtime: what it claims and executes, op by op and in models of every kind."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from models import (
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
from ort_sessions import X, assigned, bind, executed, if_model, session, unranked
from ortwin.fast import ort_session, register

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
