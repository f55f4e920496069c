"""The quantised ops in the plan and inside ONNX Runtime: bits of the reference, claims, packs, rules."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import helper

from models import AVAILABLE, quiet
from ortwin import fast, ref
from ortwin.fast.library import LibraryError, default_library
from ortwin.ref import InputError, UnsupportedError
from ortwin.ref.tensor import dtype_number
from quantised import SIGNS, Array, iinfo, model, typed

F32 = np.float32
Case = tuple[str, list[Array | None], int, dict[str, Any]]


def numbers(rng: np.random.Generator, dtype: Any, *shape: int) -> Array:
    info = iinfo(dtype)
    return rng.integers(int(info.min), int(info.max) + 1, shape).astype(np.int32).astype(dtype)


def product_cases() -> list[Case]:
    rng = np.random.default_rng(0)
    one, bias, columns = np.array(0.01, F32), rng.normal(size=70).astype(F32), (rng.random(70) * 0.1).astype(F32)
    found: list[Case] = []
    for (ta, tb), constant in itertools.product(SIGNS, (False, True)):
        a, b, zb = numbers(rng, ta, 7, 33), numbers(rng, tb, 33, 70), numbers(rng, tb, 70)
        y = np.array(3, F32)
        found += [
            ("MatMulInteger", [a, b, numbers(rng, ta, 7), zb], 1, {"opset": 10, "constants": (1,) * constant}),
            ("QLinearMatMul", [a, one, numbers(rng, ta), b, columns, zb, y, numbers(rng, tb)], 1,
             {"constants": (3,) * constant}),
            ("MatMulIntegerToFloat", [a, b, one, one, numbers(rng, ta), zb, bias], 1,
             {"domain": "com.microsoft", "constants": (1,) * constant}),
            ("DynamicQuantizeMatMul", [rng.normal(size=(5, 33)).astype(F32), b, columns, None, bias], 1,
             {"domain": "com.microsoft", "constants": (1,) * constant}),
        ]  # fmt: skip
    found.append(
        ("MatMulInteger", [numbers(rng, np.int8, 2, 3, 4, 5), numbers(rng, np.int8, 3, 5, 6)], 1, {"opset": 10})
    )
    found.append(("MatMulInteger", [numbers(rng, np.int8, 2, 0), numbers(rng, np.int8, 0, 6)], 1, {"opset": 10}))
    found.append(("MatMulInteger", [numbers(rng, np.int8, 5), numbers(rng, np.int8, 5)], 1, {"opset": 10}))
    return found


def linear_cases() -> list[Case]:
    rng = np.random.default_rng(1)
    x = (rng.normal(size=(3, 7, 5)) * 100).astype(F32)
    line, blocks = (rng.random(7) + 0.5).astype(F32), (rng.random((3, 4, 5)) + 0.5).astype(F32)
    found: list[Case] = [("DynamicQuantizeLinear", [x], 3, {"opset": 11})]
    for dtype in (np.uint8, np.int8, np.int16, np.uint16, ml_dtypes.int4, ml_dtypes.uint4):
        q = numbers(rng, dtype, 3, 7, 5)
        found += [
            ("QuantizeLinear", [x, line, numbers(rng, dtype, 7)], 1, {}),
            ("QuantizeLinear", [x, blocks, numbers(rng, dtype, 3, 4, 5)], 1, {"block_size": 2}),
            ("QuantizeLinear", [x, line[0], None], 1, {"output_dtype": dtype_number(np.dtype(dtype))}),
            ("DequantizeLinear", [q, line, numbers(rng, dtype, 7)], 1, {"opset": 24}),
            ("DequantizeLinear", [q, blocks.astype(np.float16)], 1, {"block_size": 2, "constants": (0, 1)}),
        ]
    found.append(("DequantizeLinear", [numbers(rng, np.int32, 4), line[0]], 1, {"opset": 10}))
    return found


def built(case: Case, unknown: bool = False) -> tuple[onnx.ModelProto, dict[str, Array]]:
    op, inputs, outputs, options = case
    arrays = [None if x is None else np.asarray(x) for x in inputs]
    proto = typed(model(op, arrays, outputs, unknown_shapes=unknown, **options), arrays, options)
    return proto, {value.name: np.asarray(arrays[int(value.name[1:])]) for value in proto.graph.input}


def same(found: list[Array], expected: list[Array], what: object) -> None:
    assert [(y.dtype, y.shape, y.tobytes()) for y in found] == [(y.dtype, y.shape, y.tobytes()) for y in expected], what


@pytest.mark.parametrize("unknown", [False, True])
@pytest.mark.parametrize("case", [*product_cases(), *linear_cases()], ids=lambda case: case[0])
def test_the_plan_has_the_bits_of_the_reference(case: Case, unknown: bool) -> None:
    proto, feeds = built(case, unknown)
    expected = ref.Session(proto).run(None, feeds)
    for isa in AVAILABLE:
        session = fast.Session(proto, isa=isa)
        for _ in range(2):
            same(session.run(None, feeds), expected, isa)


def is_packed(x: Array) -> bool:
    return x.dtype.name in ("int4", "uint4")


@pytest.mark.parametrize("case", [*product_cases(), *linear_cases()], ids=lambda case: case[0])
def test_onnxruntime_gives_them_to_us(case: Case) -> None:
    """Run by this provider, which the counter shows; 4-bit inputs and outputs pass between nodes, not through numpy."""
    proto, feeds = built(case)
    expected = ref.Session(proto).run(None, feeds)
    if any(map(is_packed, [*feeds.values(), *expected])):
        pytest.skip("numpy has no 4-bit elements that ONNX Runtime takes: chains of them are tested")
    session: Any = fast.ort_session(proto, session_options=quiet())
    before = fast.counters()
    same(session.run(None, feeds), expected, case[0])
    assert fast.counters()["runs"] == before["runs"] + 1


@pytest.mark.parametrize("dtype", ["int4", "uint4", "int8"])
def test_a_chain_from_float_to_float_inside_onnxruntime(dtype: str) -> None:
    """Quantised to a type and back, the middle value only between our nodes or in ONNX Runtime's hands."""
    zero = np.array(3).astype(np.int8).astype(getattr(ml_dtypes, dtype, np.int8))
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", 1, [5, 7])],
        [helper.make_tensor_value_info("y", 1, [5, 7])],
        [onnx.numpy_helper.from_array(np.array(0.5, F32), "s"), onnx.numpy_helper.from_array(zero, "z")],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    x = np.linspace(-9, 9, 35, dtype=F32).reshape(5, 7)
    expected = ref.Session(proto).run(None, {"x": x})
    same(fast.Session(proto).run(None, {"x": x}), expected, "fast")
    session: Any = fast.ort_session(proto, session_options=quiet())
    same(session.run(None, {"x": x}), expected, "onnxruntime")


def test_constant_matrices_are_packed_once_and_freed() -> None:
    case = product_cases()[4]
    assert case[3]["constants"] == (1,)
    proto, feeds = built(case)
    before = fast.counters()
    sessions = [fast.Session(proto) for _ in range(3)]
    during = fast.counters()
    assert during["packs_built"] == before["packs_built"] + 1
    assert during["packs_shared"] == before["packs_shared"] + 2
    assert during["pack_bytes"] > before["pack_bytes"]
    expected = ref.Session(proto).run(None, feeds)
    del sessions[0]
    same(sessions[0].run(None, feeds), expected, "shared")
    sessions.clear()
    after = fast.counters()
    assert after["packs_freed"] == before["packs_freed"] + 1
    assert after["pack_bytes"] == before["pack_bytes"]


@pytest.fixture
def budget() -> Iterator[None]:
    """The budget of packs is the process's: what a test says of it must not outlive the test."""
    yield
    default_library().pack_bytes(1 << 30)


def moved(before: dict[str, int], *names: str) -> list[int]:
    """How far these counters are from what they were."""
    now = fast.counters()
    return [now[name] - before[name] for name in names]


@pytest.mark.parametrize("make", [fast.Session, fast.ort_session], ids=["fast", "onnxruntime"])
def test_packs_keep_to_the_budget_that_was_said_last(make: Callable[..., Any], budget: None) -> None:
    proto, feeds = built(product_cases()[4])
    expected = ref.Session(proto).run(None, feeds)
    start = fast.counters()
    packed = make(proto, pack_bytes=2**64 - 1)
    assert moved(start, "packs_built", "packs_declined") == [1, 0]
    size = fast.counters()["pack_bytes"] - start["pack_bytes"]
    assert size > 0
    del packed
    for said, built_, declined in ((size - 1, 0, 1), (size, 1, 0), (0, 0, 1)):
        before = fast.counters()
        session = make(proto, pack_bytes=start["pack_bytes"] + said)
        assert moved(before, "packs_built", "packs_declined") == [built_, declined]
        same(session.run(None, feeds), expected, f"{said} bytes")
        del session


def test_a_pack_that_is_there_stays_and_is_shared_when_the_budget_shrinks(budget: None) -> None:
    proto, feeds = built(product_cases()[4])
    before = fast.counters()
    first = fast.Session(proto)
    second = fast.Session(proto, pack_bytes=0)  # the same bytes: nothing new is kept
    other = fast.Session(built(product_cases()[12])[0])  # says nothing: what was said last holds
    assert moved(before, "packs_built", "packs_shared", "packs_declined", "packs_freed") == [1, 1, 1, 0]
    expected = ref.Session(proto).run(None, feeds)
    same(first.run(None, feeds), expected, "first")
    same(second.run(None, feeds), expected, "second")
    del other


def test_a_session_that_is_refused_says_nothing_of_the_budget(budget: None) -> None:
    proto, _ = built(product_cases()[4])
    for bad in ("threads", "group", "a", "bogus", "pack", "zzz"):  # ONNX Runtime tells options in an order of its own
        options: dict[str, Any] = {"ep.ortwin.pack_bytes": "0", f"ep.ortwin.{bad}": "many"}
        with pytest.raises(Exception, match=f"option {bad}='many'"):
            fast.ort_session(proto, session_options=quiet(), **options)
    before = fast.counters()
    session = fast.Session(proto)
    assert moved(before, "packs_built", "packs_declined") == [1, 0]
    del session


@pytest.mark.parametrize(
    ("said", "result"),
    [
        ("0", "0 1"),
        ("", "1 0"),
        ("1000000", "1 0"),
        (
            "1e9",
            f"pack_bytes '1e9' (from ORTWIN_PACK_BYTES): a number of bytes from 0 to {2**64 - 1} is needed",
        ),
    ],
)
def test_the_environment_says_the_budget_until_somebody_else_does(said: str, result: str, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(built(product_cases()[4])[0], path)
    script = (
        "import sys\nfrom ortwin import fast, ref\n"
        "try:\n    session = fast.Session(sys.argv[1])\n"
        "except ref.OrtwinError as error:\n    sys.exit(print(error))\n"
        "found = fast.counters()\nprint(found['packs_built'], found['packs_declined'])\n"
        "fast.Session(sys.argv[1], pack_bytes=1 << 20)\nassert fast.counters()['packs_built'] == 1\n"
    )
    environment = {**os.environ, "ORTWIN_PACK_BYTES": said}
    done = subprocess.run(
        [sys.executable, "-c", script, str(path)], env=environment, capture_output=True, text=True, check=False
    )
    assert (done.stdout.strip(), done.returncode) == (result, 0), done.stderr


def test_an_initializer_that_a_feed_may_override_is_never_packed() -> None:
    case = product_cases()[4]
    proto, feeds = built(case)
    b = onnx.numpy_helper.to_array(proto.graph.initializer[0])
    proto.graph.input.append(helper.make_tensor_value_info("i1", dtype_number(b.dtype), b.shape))
    before = fast.counters()["packs_built"]
    reference, session = ref.Session(proto), fast.Session(proto)
    in_ort: Any = fast.ort_session(proto, session_options=quiet())
    assert fast.counters()["packs_built"] == before
    for given in (feeds, feeds | {"i1": b[::-1].copy()}):
        expected = reference.run(None, given)
        same(session.run(None, given), expected, "fast")
        same(in_ort.run(None, given), expected, "onnxruntime")


def test_dynamic_outputs_count_as_one_node() -> None:
    proto, feeds = built(linear_cases()[0])
    session = fast.Session(proto)
    before = fast.counters()["nodes_executed"]
    session.run(None, feeds)
    assert fast.counters()["nodes_executed"] == before + 1


def test_inner_dimensions_are_checked_where_they_are_known() -> None:
    a, b = np.zeros((2, 3), np.int8), np.zeros((4, 2), np.int8)
    case: Case = ("MatMulInteger", [a, b], 1, {"opset": 10})
    proto, feeds = built(case)
    with pytest.raises(UnsupportedError, match="the inner dimensions differ: A has 3 columns, B 4 rows"):
        fast.Session(proto)
    proto, feeds = built(case, unknown=True)
    with pytest.raises(InputError, match="the inner dimensions differ: A has 3 columns, B 4 rows"):
        fast.Session(proto).run(None, feeds)
    in_ort: Any = fast.ort_session(proto, session_options=quiet())
    with pytest.raises(Exception, match="the inner dimensions differ: A has 3 columns, B 4 rows"):
        in_ort.run(None, feeds)


SQUARE = np.zeros((2, 2), np.int8)
DECLINED: list[tuple[Case, str]] = [
    (("QuantizeLinear", [np.zeros((2, 3), F32), np.ones(2, F32)], 1, {}), "the scale has 2 in dimension 0, not 3"),
    (("QuantizeLinear", [np.zeros(3, F32), np.array(1, F32)], 1, {"output_dtype": 17}), "float8_e4m3fn"),
    (("QuantizeLinear", [np.zeros(3, F32), np.array(1, F32)], 1, {"block_size": -1}), "must not be negative"),
    (("DequantizeLinear", [np.zeros(3, ml_dtypes.float8_e5m2), np.array(1, F32)], 1, {}), "float8_e5m2"),
    (("MatMulInteger", [SQUARE, SQUARE, SQUARE[:1]], 1, {"opset": 10}), "last dimension is 2, not 1"),
]  # fmt: skip


@pytest.mark.parametrize(("case", "reason"), DECLINED, ids=[reason for _, reason in DECLINED])
def test_reasons(case: Case, reason: str) -> None:
    with pytest.raises(UnsupportedError, match=reason):
        fast.Session(built(case)[0])


def test_the_result_may_not_lie_where_an_operand_is() -> None:
    """Both are 2 x 2 int8; elementwise ops allow it."""
    one, zero = np.array(1, F32), np.array(0, np.int8)
    a = np.array([[1, 2], [3, 4]], np.int8)
    proto, feeds = built(("QLinearMatMul", [a, one, zero, a.copy(), one, zero, one, zero], 1, {}))
    session = fast.Session(proto)
    with pytest.raises(LibraryError, match="overlaps input 0"):
        session.run_into({"o0": feeds["i0"]}, feeds)


def test_products_among_elementwise_nodes() -> None:
    """Values before and after a product are whole; what only its neighbours read is not."""
    rng = np.random.default_rng(5)
    weights = numbers(rng, np.int8, 40, 30)
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("Abs", ["r"], ["t"]),
        helper.make_node("DynamicQuantizeLinear", ["t"], ["q", "s", "z"]),
        helper.make_node("MatMulInteger", ["q", "w", "z"], ["i"]),
        helper.make_node("Identity", ["i"], ["j"]),
        helper.make_node("DequantizeLinear", ["j", "s"], ["f"]),
        helper.make_node("Neg", ["f"], ["n"]),
        helper.make_node("Add", ["n", "f"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", 1, ["rows", 40])],
        [helper.make_tensor_value_info(name, kind, None) for name, kind in (("y", 1), ("n", 1), ("q", 2), ("j", 6))],
        [onnx.numpy_helper.from_array(weights, "w")],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    reference, session = ref.Session(proto), fast.Session(proto)
    in_ort: Any = fast.ort_session(proto, session_options=quiet())
    for rows in (1, 9, 0, 200, 9):
        x = rng.normal(size=(rows, 40)).astype(F32)
        expected = reference.run(None, {"x": x})
        same(session.run(None, {"x": x}), expected, rows)
        same(in_ort.run(None, {"x": x}), expected, rows)


@pytest.mark.parametrize("isa", AVAILABLE)
def test_ties_go_to_even_before_the_zero_point_is_added(isa: str) -> None:
    one, zero = np.array(1, F32), np.array(0, np.int8)
    a = np.arange(-21, 22, dtype=np.int8).reshape(-1, 1)
    for zero_point in (-3, 4):
        scale, offset = np.array(2, F32), np.array(zero_point, np.int8)
        inputs: list[Array | None] = [a, one, zero, np.ones((1, 1), np.int8), one, zero, scale, offset]
        proto, feeds = built(("QLinearMatMul", inputs, 1, {}))
        y = fast.Session(proto, isa=isa).run(None, feeds)[0]
        assert y.reshape(-1).tolist() == [round(v / 2) + zero_point for v in range(-21, 22)]


@pytest.mark.parametrize("isa", AVAILABLE)
@pytest.mark.parametrize("constant", [False, True])
def test_sums_wrap(isa: str, constant: bool) -> None:
    a, b = np.full((2, 70_000), 255, np.uint8), np.full((70_000, 3), 127, np.int8)
    proto, feeds = built(("MatMulInteger", [a, b], 1, {"opset": 10, "constants": (1,) * constant}))
    total = (70_000 * 255 * 127 + 2**31) % 2**32 - 2**31
    assert total < 0, "beyond 2^31"
    assert fast.Session(proto, isa=isa).run(None, feeds)[0].tolist() == [[total] * 3] * 2


BEFORE_A_WALL = """
import sys
import numpy as np
from ortwin import fast
from quantised import model, typed
from test_integer_matmul import before_a_wall

for m, k, n in [(1, 1, 1), (1, 3, 5), (2, 5, 17), (7, 3, 66), (9, 18, 15)]:
    a, b = (before_a_wall(np.ones(shape, np.uint8)) for shape in ((m, k), (k, n)))
    proto = typed(model("MatMulInteger", [a, b], opset=10), [a, b], {})
    y = fast.Session(proto, isa=sys.argv[1]).run(None, {"i0": a, "i1": b})[0]
    assert (y == k).all()

for count in range(1, 70):  # one scale for all: 8-bit numbers are read and written where they lie
    ones, numbers = before_a_wall(np.full(count, 3, np.float32)), before_a_wall(np.full(count, 7, np.uint8))
    scale, zero = np.array(0.5, np.float32), np.array(1, np.uint8)
    for op, x, result in (("QuantizeLinear", ones, numbers), ("DequantizeLinear", numbers, ones)):
        proto = typed(model(op, [x, scale, zero], opset=13), [x, scale, zero], {})
        y = before_a_wall(np.zeros_like(result))
        fast.Session(proto, isa=sys.argv[1]).run_into({"o0": y}, {"i0": x, "i1": scale, "i2": zero})
        assert (y == result).all()
"""


@pytest.mark.parametrize("isa", AVAILABLE)
def test_nothing_is_read_behind_an_operand(isa: str) -> None:
    """In a process of its own, which a read or write behind the last element would end."""
    folder = str(Path(__file__).parent)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([*sys.path, folder])}
    command = [sys.executable, "-c", BEFORE_A_WALL, isa]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_threads_take_pieces_and_change_no_bit() -> None:
    """M = 1 streams B, M = 200 takes packed panels; by 1, 2, 3 and 8 threads, from ctypes and inside ONNX Runtime."""
    rng = np.random.default_rng(6)
    b = numbers(rng, np.int8, 1100, 2100)
    for rows, constant in itertools.product((1, 4, 200), (False, True)):
        a = numbers(rng, np.uint8, rows, 1100)
        inputs: list[Array | None] = [a, b, np.array(7, np.uint8), numbers(rng, np.int8, 2100)]
        proto, feeds = built(("MatMulInteger", inputs, 1, {"opset": 10, "constants": (1,) * constant}))
        expected = fast.Session(proto).run(None, feeds)
        exact = (a.astype(float) - 7) @ (b.astype(float) - np.asarray(inputs[3]).astype(float))
        assert np.array_equal(expected[0], exact.astype(np.int32))
        for threads in (2, 3, 8):
            before = fast.counters()
            same(fast.Session(proto, threads).run(None, feeds), expected, threads)
            after = fast.counters()
            assert after["splits"] == before["splits"] + 1
            assert 2 <= after["pieces"] - before["pieces"] <= 64
        in_ort: Any = fast.ort_session(proto, threads=2, session_options=quiet())
        for _ in range(3):
            same(in_ort.run(None, feeds), expected, "onnxruntime")
