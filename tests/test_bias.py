"""com.microsoft FastGelu and BiasGelu: a bias is a row, which is added to every row of x before the function."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from onnx import helper, numpy_helper

import models
from models import (
    AVAILABLE,
    BFLOAT16,
    FLOAT,
    FLOAT16,
    Arguments,
    Array,
    Buffer,
    Row,
    assert_bits,
    numpy_dtype,
    oracle,
    sample,
    with_arguments,
)
from ort_sessions import bind
from ortwin import fast
from ortwin.ref import InputError, UnsupportedError
from ortwin.ref import Session as RefSession
from threads import LIBRARY, moved

OPS = {"FastGelu": Row("Gelu", 20), "BiasGelu": Row("com.microsoft.Gelu", 1)}
"""By name, an op that runs the same function without a bias (Gelu with approximate=tanh)."""

KINDS = [(op, dtype) for op in OPS for dtype in (FLOAT, FLOAT16, BFLOAT16)]


def biased(
    width: int | str | None,
    op: str = "FastGelu",
    dtype: int = FLOAT,
    *,
    constant: Array | None = None,
    rank: int = 1,
    other: int | None = None,
) -> Any:
    """An op on x, of rows of `width`, with a bias that is an input (of type `other`) or a constant."""
    dims: list[int | str | None] = ["m", width]
    inputs = [models.value("x", dtype, dims)]
    if constant is None:
        inputs.append(models.value("b", other or dtype, [width] * rank))
    constants = [] if constant is None else [numpy_helper.from_array(constant, "b")]
    node = helper.make_node(op, ["x", "b"], ["y"], name="node0", domain="com.microsoft")
    imports = [helper.make_opsetid("com.microsoft", 1), helper.make_opsetid("", 13)]
    return models.of_nodes([node], inputs, [models.value("y", dtype, dims)], constants, opset_imports=imports)


@functools.cache
def rows_of(width: int, count: int, op: str = "FastGelu", dtype: int = FLOAT) -> tuple[Array, Array, Array]:
    """x of about `count` elements in rows of `width`, a bias, and the reference's result. The rows repeat after about
    3,000 elements, which are what the reference computes."""
    few = max(3, 3000 // width)
    block = np.resize(sample(dtype, few * width, width), (few, width))
    bias = np.array(sample(dtype, max(width, 509), 77)[:width])
    bias[::3] = 0.1
    want = oracle(biased(width, op, dtype), {"x": block, "b": bias})
    repeat = max(1, count // block.size + 1)
    return np.tile(block, (repeat, 1)), bias, np.tile(want, (repeat, 1))


WIDTHS = (1, 3, 7, 11, 64, 4096, 4099)


@pytest.mark.parametrize("isa", AVAILABLE)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(("op", "dtype"), KINDS)
def test_rows_with_a_bias_have_the_bits_of_one_thread(op: str, dtype: int, width: int, isa: str) -> None:
    x, bias, want = rows_of(width, 300_000, op, dtype)
    most = x.shape[0]
    heights = [(1, most), (2, most), (16, most - 1), (7, 131_072 // width + 1), (3, 2), (4, 1)]
    for threads, height in heights if (op, dtype) == KINDS[0] else heights[2:4]:
        session = fast.Session(biased(width, op, dtype), threads, isa)
        given, got = Buffer(4 * threads + 1, x[:height]), Buffer(threads, np.zeros((height, width), x.dtype))
        counted = moved(lambda: session.run_into({"y": got.array}, {"x": given.array, "b": bias}))  # noqa: B023
        got.assert_holds(want[:height], threads, f"{threads} threads, {height} rows")
        piece = LIBRARY.piece_length("composite", height * width, width)
        assert counted.get("pieces", 0) == (
            -(-height * width // piece) if threads > 1 and piece < height * width else 0
        )


@pytest.mark.parametrize(("op", "dtype"), KINDS)
def test_rows_with_a_bias_in_onnx_runtime(op: str, dtype: int) -> None:
    for width in (7, 64, 4099):
        x, bias, want = rows_of(width, 300_000, op, dtype)
        for constant in (None, bias):
            model = biased(width, op, dtype, constant=constant)
            session = fast.ort_session(model, threads=3, session_options=models.quiet())
            feeds = {"x": (dtype, x)} if constant is not None else {"x": (dtype, x), "b": (dtype, bias)}
            for _ in range(4):
                y = np.zeros_like(x)
                bind(session, feeds, dtype, y)
                assert_bits(y, want, width)


def test_pieces_of_a_chain_begin_within_rows() -> None:
    """What goes through the cache at a time are no whole rows; and the bias may be made by the same chain."""
    imports = [helper.make_opsetid("com.microsoft", 1), helper.make_opsetid("", 13)]

    def gelu(op: str, bias: str, x: str, y: str) -> Any:
        return helper.make_node(op, [x, bias], [y], name=y, domain="com.microsoft")

    nodes = [
        models.node("Tanh", ["x"], "t"),
        models.node("Neg", ["b"], "c"),
        gelu("BiasGelu", "c", "t", "u"),
        gelu("FastGelu", "d", "u", "y"),
    ]
    for width, height in ((1021, 301), (48, 7000), (5, 70_000)):
        shapes: dict[str, tuple[int | str, ...]] = {"x": ("m", width), "b": (width,), "d": (width,)}
        inputs = [models.value(name, FLOAT, shape) for name, shape in shapes.items()]
        outputs = [models.value("y", FLOAT, ["m", width])]
        model = models.of_nodes(nodes, inputs, outputs, opset_imports=imports)
        feeds: dict[str, Array] = {"x": np.resize(sample(FLOAT, 7001), (height, width))}
        feeds |= {"b": np.resize(sample(FLOAT, 509, 3), width), "d": np.resize(sample(FLOAT, 509, 4), width)}
        (want,) = fast.Session(model).run(None, feeds)
        few = max(1, 5000 // width)
        assert_bits(want[:few], RefSession(model).run(None, feeds | {"x": feeds["x"][:few]})[0], width)
        for threads in (2, 5):
            assert_bits(fast.Session(model, threads).run(None, feeds)[0], want, (width, threads))
    row = [models.node("Neg", ["x"], "c"), gelu("BiasGelu", "c", "x", "t"), gelu("BiasGelu", "t", "c", "y")]
    model = models.of_nodes(row, [models.value("x")], [models.value("y")], opset_imports=imports)
    x = np.resize(sample(FLOAT, 7001), 300_001)  # one row, of which each element is its own bias
    (want,) = fast.Session(model).run(None, {"x": x})
    assert_bits(want[:7001], RefSession(model).run(None, {"x": x[:7001]})[0])
    assert_bits(fast.Session(model, 4).run(None, {"x": x})[0], want)


@pytest.mark.parametrize("isa", AVAILABLE)
@pytest.mark.parametrize(("op", "dtype"), KINDS)
def test_a_bias_at_every_width_and_offset(op: str, dtype: int, isa: str) -> None:
    session = fast.Session(biased(None, op, dtype), isa=isa)
    widths = (*range(1, 70), 127, 128, 129, 255, 256, 257)
    for width in widths if (op, dtype) == KINDS[0] else widths[::7]:
        x, bias, want = rows_of(width, 0, op, dtype)
        for height in (1, 2, x.shape[0]):
            given, row = Buffer(width % 64, x[:height]), Buffer((width * 5 + 2) % 64, bias)
            got = Buffer((width * 3 + height) % 64, np.zeros((height, width), x.dtype))
            session.run_into({"y": got.array}, {"x": given.array, "b": row.array})
            got.assert_holds(want[:height], (width * 3 + height) % 64, f"{height} rows of {width}")


@pytest.mark.parametrize(("op", "dtype"), KINDS)
def test_a_bias_is_added_before_the_function_and_the_sum_rounded_once(op: str, dtype: int) -> None:
    """To binary32; from a half type the result is narrowed, once (C5)."""
    values, bias = sample(dtype, 2000), sample(dtype, 2000, 9)
    tanh = Arguments((("approximate", "tanh"),)) if op == "FastGelu" else Arguments()
    with np.errstate(all="ignore"):
        sums = np.add(values.astype(np.float32), bias.astype(np.float32))
        want = oracle(with_arguments(OPS[op], tanh), {"x": sums}).astype(numpy_dtype(dtype)).reshape(1, -1)
    feeds = {"x": values.reshape(1, -1), "b": bias}
    assert_bits(oracle(biased(2000, op, dtype), feeds), want, "ref")
    for isa in AVAILABLE:
        assert_bits(fast.Session(biased(2000, op, dtype), isa=isa).run(None, feeds)[0], want, isa)


def test_a_bias_that_has_to_be_there() -> None:
    for inputs in (["x"], ["x", ""]):
        model = biased(4, "BiasGelu")
        model.graph.node[0].ClearField("input")
        model.graph.node[0].input.extend(inputs)
        for make in (fast.Session, RefSession):
            with pytest.raises(UnsupportedError, match=r"BiasGelu.*(the bias is missing|takes 2 to 2 inputs)"):
                make(model)


def test_no_rows_and_rows_of_nothing() -> None:
    for make in (fast.Session, RefSession, lambda m: fast.ort_session(m, session_options=models.quiet())):
        session = make(biased(None))
        for shape in ((0, 5), (3, 0), (0, 0)):
            feeds = {"x": np.zeros(shape, np.float32), "b": np.zeros(shape[1], np.float32)}
            assert_bits(session.run(None, feeds)[0], np.zeros(shape, np.float32), shape)


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"width": 4, "constant": np.ones(3, np.float32)}, "the bias is not as long as the input's last dimension"),
        ({"width": 4, "constant": np.ones((1, 4), np.float32)}, "the rank of the bias is not 1"),
        ({"width": 4, "constant": np.array(1, np.float32)}, "the rank of the bias is not 1"),
        ({"width": 4, "rank": 2}, "the rank of the bias is not 1"),
        ({"width": 4, "other": 10}, "the bias is float16, the input float32"),
    ],
    ids=str,
)
def test_a_bias_that_does_not_fit_is_declined_before_data_is_seen(change: dict[str, Any], rule: str) -> None:
    model = biased(**change)
    makers: list[Callable[[Any], Any]] = [fast.Session, RefSession]
    if "other" not in change:  # ONNX Runtime itself refuses that model
        makers.append(lambda m: fast.ort_session(m, session_options=models.quiet()))
    for make in makers:
        with pytest.raises(UnsupportedError, match=rule):
            make(model)


def test_a_bias_of_an_input_of_rank_0_is_declined() -> None:
    model = biased(4)
    model.graph.input[0].CopyFrom(models.value("x", FLOAT, []))
    model.graph.output[0].CopyFrom(models.value("y", FLOAT, []))
    for make in (fast.Session, RefSession):
        with pytest.raises(UnsupportedError, match="an input of rank 0 has no rows for a bias"):
            make(model)


def test_a_bias_that_does_not_fit_at_run_is_an_error_in_words() -> None:
    x = np.ones((2, 4), np.float32)
    for make in (fast.Session, RefSession, lambda m: fast.ort_session(m, session_options=models.quiet())):
        model = biased(None)
        for graph_input in model.graph.input:
            graph_input.type.tensor_type.ClearField("shape")
        session = make(model)
        for feeds, rule in (
            ({"x": x, "b": np.ones(3, np.float32)}, "not as long as the input's last dimension"),
            ({"x": x, "b": np.ones((1, 4), np.float32)}, "the rank of the bias is not 1"),
            ({"x": np.array(1, np.float32), "b": np.ones(1, np.float32)}, "an input of rank 0 has no rows"),
        ):
            with pytest.raises(Exception, match=rule) as caught:
                session.run(None, feeds)
            assert make not in (fast.Session, RefSession) or isinstance(caught.value, InputError)
        assert session.run(None, {"x": x, "b": np.ones(4, np.float32)})[0].shape == (2, 4)
