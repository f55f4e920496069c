"""Elementwise nodes behind a product: computed tile by tile as it is, with the bits they have by themselves."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from ml_dtypes import bfloat16
from onnx import helper, numpy_helper

from c_plans import OK, Plan, tensor, text
from c_plans import operand as known
from models import AVAILABLE, Array, assert_bits, oracle, quiet
from ortwin import fast
from ortwin.ref import InputError
from ortwin.ref.tensor import dtype_number

F32 = np.float32
THREADS = (1, 2, 3, 8)


def numbers(seed: int, dtype: Any, *shape: int) -> Array:
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind in "iu":
        return rng.integers(-100 if np.dtype(dtype).kind == "i" else 0, 100, shape).astype(dtype)
    return rng.normal(size=shape).astype(dtype)


def graph(
    nodes: Sequence[tuple[Any, ...]], outputs: Sequence[str], feeds: Mapping[str, Array], constants: Mapping[str, Array]
) -> onnx.ModelProto:
    """nodes: (op, inputs, output) and perhaps attributes, names separated by blanks; an op may have its domain."""
    made = []
    for op, inputs, output, *attributes in nodes:
        domain, _, name = op.rpartition(".")
        made.append(helper.make_node(name, inputs.split(), [output], domain=domain, **dict(*attributes)))
    ends = [helper.make_tensor_value_info(name, dtype_number(x.dtype), x.shape) for name, x in feeds.items()]
    given = [numpy_helper.from_array(x, name) for name, x in constants.items()]
    results = [helper.make_empty_tensor_value_info(name) for name in outputs]
    whole = helper.make_graph(made, "g", ends, results, given)
    imports = [helper.make_opsetid("", 24), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(whole, ir_version=10, opset_imports=imports)
    model = onnx.shape_inference.infer_shapes(model)
    for result in model.graph.output:
        if not result.type.tensor_type.elem_type:  # an op that inference does not know
            result.type.tensor_type.elem_type = dtype_number(next(iter(feeds.values())).dtype)
    return model


def chains(session: Any, feeds: Mapping[str, Array]) -> tuple[list[Array], int, int]:
    """The results; chains that the run counted, and their pieces."""
    before = fast.counters()
    results = session.run(None, dict(feeds))
    after = fast.counters()
    return results, after["chains"] - before["chains"], after["chain_pieces"] - before["chain_pieces"]


def everywhere(model: onnx.ModelProto, feeds: Mapping[str, Array], expected: Sequence[Array], together: int) -> None:
    """On every instruction set, with any number of threads, and in ONNX Runtime: bits, and how many chains."""
    for isa, threads in itertools.product(AVAILABLE, THREADS):
        got, count, pieces = chains(fast.Session(model, threads=threads, isa=isa), feeds)
        assert (count, pieces > 0) == (together, expected[0].size > 0), (isa, threads)
        for y, want in zip(got, expected, strict=True):
            assert_bits(y, want, f"{isa} {threads}")
    if all(x.dtype != bfloat16 for x in feeds.values()):
        session: Any = fast.ort_session(model, threads=2, session_options=quiet())
        for _ in range(2):
            for y, want in zip(session.run(None, dict(feeds)), expected, strict=True):
                assert_bits(y, want, "onnxruntime")


def product(dtype: Any, m: int, k: int, n: int) -> tuple[dict[str, Array], dict[str, Array]]:
    return {"x": numbers(1, dtype, m, k)}, {"w": numbers(2, dtype, k, n), "b": numbers(3, dtype, n)}


BEHIND = [
    ("Add", "s b", "t"),
    ("Gelu", "t", "u"),
    ("Mul", "u c", "v"),
]
"""A row, a unary op, and a column."""


@pytest.mark.parametrize("runtime", [False, True], ids=["constant", "runtime"])
@pytest.mark.parametrize("dtype", [F32, np.float16, bfloat16])
@pytest.mark.parametrize("shape", [(1, 40, 70), (5, 300, 33), (3, 7, 1), (2, 0, 5), (0, 4, 5)], ids=str)
def test_a_bias_and_more_behind_a_matmul(shape: Any, dtype: Any, runtime: bool) -> None:
    feeds, constants = product(dtype, *shape)
    constants["c"] = numbers(4, dtype, shape[0], 1)
    if runtime:
        feeds, constants = {**feeds, **constants}, {}
    model = graph([("MatMul", "x w", "s"), *BEHIND], ["v"], feeds, constants)
    everywhere(model, feeds, [oracle(model, feeds)] if shape[0] else [np.empty((0, 5), dtype)], 1)


def test_behind_every_other_product() -> None:
    x, w, b = numbers(1, F32, 3, 64), numbers(2, F32, 64, 33), numbers(3, F32, 33)
    byte_x, byte_w = np.rint(x * 20).astype(np.int8), np.rint(w * 20).astype(np.int8)
    packed = np.random.default_rng(5).integers(0, 256, (33, 2, 16), dtype=np.uint8)
    scales, bias = numbers(6, F32, 66), numbers(3, np.int32, 33)
    attributes = {"K": 64, "N": 33, "bits": 4, "block_size": 32}
    nbits, tanh = "com.microsoft.MatMulNBits", ("Tanh", "a", "y")
    forms: list[tuple[list[tuple[Any, ...]], Array, dict[str, Array]]] = [
        ([("Gemm", "x w b", "a", {"alpha": 0.5}), ("Relu", "a", "y")], x, {"w": w, "b": b}),
        ([("MatMul", "x w", "a"), ("Add", "a a", "y")], byte_x.astype(np.int64), {"w": byte_w.astype(np.int64)}),
        ([("MatMulInteger", "x w", "a"), ("Add", "a b", "y")], byte_x, {"w": byte_w, "b": bias}),
        ([(nbits, "x w s", "a", attributes), tanh], x, {"w": packed, "s": scales}),
        ([(nbits, "x w s", "a", {**attributes, "accuracy_level": 4}), tanh], x, {"w": packed, "s": scales}),
        ([("com.microsoft.DynamicQuantizeMatMul", "x w s", "a"), ("Erf", "a", "y")], x, {"w": byte_w, "s": scales[:1]}),
    ]
    for nodes, given, constants in forms:
        feeds = {"x": given}
        model = graph(nodes, ["y"], feeds, constants)
        everywhere(model, feeds, [oracle(model, feeds)], 1)


LARGE = [
    ((1, 1030), (1030, 2100)),
    ((300, 300), (300, 331)),
    ((12, 60, 64), (12, 64, 130)),
    ((3, 140, 300), (3, 300, 400)),
]


@pytest.mark.parametrize("dtype", [F32, np.int64])
@pytest.mark.parametrize("shapes", LARGE, ids=str)
def test_tiles_and_batches(shapes: Any, dtype: Any) -> None:
    """Against the product and what is behind it in sessions of their own. The product's value is an output as well."""
    feeds = {
        "x": numbers(1, dtype, *shapes[0]),
        "w": numbers(2, dtype, *shapes[1]),
        "b": numbers(3, dtype, shapes[1][-1]),
    }
    nodes = [("MatMul", "x w", "s"), ("Add", "s b", "t"), ("Mul", "t s", "u"), ("Sub", "u t", "v")]
    sums = fast.Session(graph(nodes[:1], ["s"], feeds, {})).run(None, feeds)[0]
    apart = {"s": sums, "b": feeds["b"]}
    ended = fast.Session(graph(nodes[1:], ["v"], apart, {})).run(None, apart)[0]
    everywhere(graph(nodes, ["s", "v"], feeds, {}), feeds, [sums, ended], 1)
    constants = {name: feeds.pop(name) for name in ("w", "b")}
    everywhere(graph(nodes, ["v"], feeds, constants), feeds, [ended], 1)


def test_pieces_are_the_tiles() -> None:
    """A thread alone has bands of 128 whole rows, and several have tiles, whose rows are pieces."""
    feeds = {"x": numbers(1, F32, 300, 64), "w": numbers(2, F32, 64, 1000)}
    model = graph([("MatMul", "x w", "s"), ("Abs", "s", "y")], ["y"], feeds, {})
    *_, pieces = chains(fast.Session(model), feeds)
    bands = [128 * 1000, 128 * 1000, 44 * 1000]
    assert pieces == sum(-(-count // 4096) for count in bands)
    *_, pieces = chains(fast.Session(model, threads=2), feeds)
    assert pieces == 300 * 4  # four widths of 256, 256, 256 and 232 columns


def test_what_follows_is_worth_several_threads_where_the_product_is_not() -> None:
    feeds = {"x": numbers(1, F32, 512, 3), "w": numbers(2, F32, 3, 512)}

    def splits(*nodes: tuple[Any, ...]) -> int:
        session = fast.Session(graph([("MatMul", "x w", "s"), *nodes], ["y" if nodes else "s"], feeds, {}), threads=2)
        before = fast.counters()["splits"]
        session.run(None, feeds)
        return fast.counters()["splits"] - before

    assert (splits(), splits(("Abs", "s", "y")), splits(("Gelu", "s", "y"))) == (0, 0, 1)


@pytest.mark.parametrize("size", [3, 300])
def test_no_operand_of_the_product_is_written_while_it_is_read(size: int) -> None:
    """What follows reads w for the last time, and w is an intermediate: the next tile still needs it."""
    feeds = {"a": numbers(1, F32, size, size), "x": numbers(2, F32, size, size)}
    nodes = [("Neg", "a", "w"), ("MatMul", "x w", "s"), ("Add", "w s", "t"), ("Mul", "w t", "u"), ("Abs", "u", "y")]
    parts = {"w": -feeds["a"], "x": feeds["x"]}
    parts["s"] = fast.Session(graph(nodes[1:2], ["s"], parts, {})).run(None, parts)[0]
    del parts["x"]
    expected = fast.Session(graph(nodes[2:], ["y"], parts, {})).run(None, parts)[0]
    everywhere(graph(nodes, ["y"], feeds, {}), feeds, [expected], 1)


@pytest.mark.parametrize("isa", AVAILABLE)
def test_no_output_in_place_of_an_operand_that_tiles_read(isa: str) -> None:
    """A product's own operand may not be written by what follows it; another operand of that may."""
    x, w, c = numbers(1, F32, 4, 4), numbers(2, F32, 4, 4), numbers(3, F32, 4, 4)
    plan = Plan(isa.encode())
    slots = [plan.input(known(1, (4, 4))) for _ in range(3)]
    product = plan.node("MatMul", slots[0], slots[1])
    plan.output(plan.node("Add", product, slots[2], since_version=14)).seal()
    for array in (x, w):
        kept, at = array.copy(), array.ctypes.data
        assert plan.try_run([tensor(x), tensor(w), tensor(c)], functools.partial(lambda to, *_: to, at)) != OK
        assert "is not an exact in-place use" in text()
        assert_bits(array, kept, isa)
    feeds = {"x": x, "w": w, "c": c.copy()}
    model = graph([("MatMul", "x w", "s"), ("Add", "s c", "y")], ["y"], feeds, {})
    assert plan.try_run([tensor(x), tensor(w), tensor(c)], lambda *_: c.ctypes.data) == OK, text()
    assert_bits(c, oracle(model, feeds), isa)


def test_a_product_that_fails_is_followed_by_nothing() -> None:
    """Inner dimensions that differ at Run: an error, and the next Run is well."""
    shape = helper.make_tensor_value_info
    nodes = [helper.make_node("MatMul", ["x", "w"], ["s"]), helper.make_node("Relu", ["s"], ["y"])]
    ends = [shape("x", 1, ["m", "k"]), shape("w", 1, ["j", "n"])]
    whole = helper.make_graph(nodes, "g", ends, [shape("y", 1, ["m", "n"])])
    model = helper.make_model(whole, ir_version=10, opset_imports=[helper.make_opsetid("", 14)])
    session = fast.Session(model)
    with pytest.raises(InputError, match="inner dimensions"):
        session.run(None, {"x": numbers(1, F32, 3, 4), "w": numbers(2, F32, 5, 6)})
    feeds = {"x": numbers(1, F32, 3, 5), "w": numbers(2, F32, 5, 6)}
    assert_bits(session.run(None, feeds)[0], oracle(model, feeds), "again")
