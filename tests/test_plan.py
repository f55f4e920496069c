"""The executor: signatures, frames, the arena, chains by pieces, folding. By counters, and by results."""

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import numpy_helper

from c_plans import Plan, f, operand, tensor, text
from models import FLOAT, Array, assert_bits, node, of_nodes, oracle, python, sample, value
from ortwin.fast import LibraryError, Session, counters, ort_session
from ortwin.ref import Session as RefSession

WATCHED = (
    *("runs", "nodes_executed", "nodes_folded", "chains", "chain_pieces", "values_in_place", "signatures_computed"),
    *("signatures_reused", "signatures_evicted", "frames", "arena_bytes", "allocations_run", "allocations_build"),
)
PIECE = 4096  # elements of float32


def counted(work: Callable[[], Any]) -> dict[str, int]:
    """What a call adds to the counters."""
    before = counters()
    work()
    after = counters()
    return {name: after[name] - before[name] for name in WATCHED}


def chain(count: int, op: str = "Neg") -> onnx.ModelProto:
    """x, count times the op, y."""
    names = ["x", *(f"t{k}" for k in range(count - 1)), "y"]
    nodes = [node(op, [names[k]], names[k + 1]) for k in range(count)]
    return of_nodes(nodes, [value("x", FLOAT, None)], [value("y", FLOAT, None)])


def feed(*shape: int) -> dict[str, Array]:
    return {"x": np.resize(sample(FLOAT), shape).reshape(shape)}


# signatures


def test_shapes_are_met_once() -> None:
    fast = Session(chain(3))
    assert counted(lambda: fast.run(None, feed(5, 7)))["signatures_computed"] == 1
    for _ in range(3):
        again = counted(lambda: fast.run(None, feed(5, 7)))
        assert (again["signatures_computed"], again["signatures_reused"]) == (0, 1)
        assert again["allocations_run"] == again["frames"] == again["arena_bytes"] == 0


@pytest.mark.parametrize("make", [Session, lambda model: ort_session(model)])
def test_a_steady_run_allocates_nothing(make: Callable[[onnx.ModelProto], Any]) -> None:
    """Also when shapes take turns, up to as many as are kept."""
    nodes = [node("Neg", ["x"], "t"), node("Mul", ["t", "b"], "u"), node("Clip", ["u", "", "b"], "v")]
    nodes += [node("Add", ["v", "x"], "y"), node("Abs", ["b"], "w"), node("Sub", ["y", "w"], "z")]
    inputs = [value("x", FLOAT, None), value("b", FLOAT, [])]
    fast = make(of_nodes(nodes, inputs, [value("z", FLOAT, None), value("t", FLOAT, None)]))
    feeds = [{**feed(*shape), "b": np.array(2, np.float32)} for shape in ((3, 5), (), (0, 2), (70, 100), (1,) * 11)]
    for given in feeds:
        fast.run(None, given)
    for _ in range(3):
        for given in feeds:
            done = counted(lambda given=given: fast.run(None, given))  # type: ignore[misc]
            assert (done["allocations_run"], done["signatures_computed"], done["signatures_reused"]) == (0, 0, 1)
            assert done["nodes_executed"] == 6


@pytest.mark.parametrize(
    ("first", "second"),
    [((2, 3), (3, 2)), ((6,), (2, 3)), ((2, 3), (6,)), ((2, 3, 4), (2, 4, 4)), ((2, 3, 4), (2, 3, 5)), ((1,), ()),
     ((0, 2), (2, 0)), ((2, 0), (3, 0)), ((0, 2), (0, 3)), ((2,) * 9 + (3,), (2,) * 9 + (4,)), ((1,) * 12, (1,) * 11)],
)  # fmt: skip
def test_every_dimension_and_the_rank_count(first: tuple[int, ...], second: tuple[int, ...]) -> None:
    fast = Session(chain(2))
    for shape in (first, second, first):
        given = feed(*shape)
        (got,) = fast.run(None, given)
        assert got.shape == shape
        assert_bits(got, oracle(chain(2), given))


def test_every_input_counts() -> None:
    model = of_nodes(
        [node("Add", ["a", "b"], "y")], [value("a", FLOAT, None), value("b", FLOAT, None)], [value("y", FLOAT, None)]
    )
    fast, a = Session(model), np.ones((3, 4), np.float32)
    for b_shape in ((3, 4), (1, 4), (3, 1), (4,), (), (1, 1), (1,), (3, 4)):
        feeds = {"a": a, "b": np.resize(sample(FLOAT), b_shape).reshape(b_shape)}
        assert_bits(fast.run(None, feeds)[0], oracle(model, feeds), b_shape)


def test_only_so_many_are_kept() -> None:
    fast = Session(chain(1))

    def run_all() -> None:
        for count in range(100):
            (got,) = fast.run(None, {"x": np.full(count, 3, np.float32)})
            assert_bits(got, np.full(count, -3, np.float32))

    for _ in range(2):
        done = counted(run_all)
        assert done["signatures_computed"] == 100
        assert done["signatures_evicted"] >= 92


def test_eviction_is_safe_for_runs_that_use_what_is_evicted() -> None:
    """More shapes than are kept, from eight threads at once, each with its own."""
    fast, barrier = Session(chain(4)), threading.Barrier(8)

    def many(k: int) -> None:
        random = np.random.default_rng(k)
        barrier.wait()
        for _ in range(200):
            count = int(random.integers(0, 40))
            (got,) = fast.run(None, {"x": np.full(count, k, np.float32)})
            assert_bits(got, np.full(count, k, np.float32))

    def run_all() -> None:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(many, range(8)))

    done = counted(run_all)
    assert done["signatures_evicted"] > 0
    assert done["runs"] == 1600
    assert done["frames"] <= 8


def test_a_refused_shape_leaves_nothing_behind() -> None:
    model = of_nodes(
        [node("Add", ["a", "b"], "y")], [value("a", FLOAT, None), value("b", FLOAT, None)], [value("y", FLOAT, None)]
    )
    fast = Session(model)
    fast.run(None, {"a": f(1), "b": f(1)})

    def refused() -> None:
        with pytest.raises(Exception, match="do not broadcast"):
            fast.run(None, {"a": f(1, 2), "b": f(1, 2, 3)})

    done = counted(refused)
    assert done["signatures_computed"] == done["signatures_evicted"] == done["runs"] == 0


# frames


def test_a_frame_for_each_call_at_once_and_no_more() -> None:
    fast, barrier = Session(chain(3)), threading.Barrier(6)

    def many(_: int) -> None:
        barrier.wait()
        for _ in range(100):
            fast.run(None, feed(3))

    def run_all() -> None:
        with ThreadPoolExecutor(6) as pool:
            list(pool.map(many, range(6)))

    assert counted(lambda: [fast.run(None, feed(3)) for _ in range(5)])["frames"] == 1
    assert counted(run_all)["frames"] <= 6
    steady = counted(lambda: [fast.run(None, feed(3)) for _ in range(50)])
    assert (steady["frames"], steady["allocations_run"]) == (0, 0)


# chains


@pytest.mark.parametrize("count", [0, 1, PIECE - 1, PIECE, PIECE + 1, 2 * PIECE, 5 * PIECE + 3])
def test_chains_go_by_pieces(count: int) -> None:
    nodes = [node("Neg", ["x"], "a"), node("Mul", ["a", "two"], "b"), node("Add", ["b", "x"], "c")]
    nodes += [node("Sub", ["c", "a"], "d"), node("Tanh", ["d"], "y")]
    two = numpy_helper.from_array(np.array(2, np.float32), "two")
    model = of_nodes(nodes, [value("x", FLOAT, None)], [value("y", FLOAT, None)], [two])
    fast, given = Session(model), {"x": np.resize(sample(FLOAT), count)}
    done = counted(lambda: fast.run(None, given))
    assert (done["chains"], done["chain_pieces"], done["nodes_executed"]) == (1, -(-count // PIECE), 5)
    assert done["arena_bytes"] <= 4 * 4 * PIECE, "no intermediate is there as a whole"
    assert_bits(fast.run(None, given)[0], oracle(model, given))


def test_a_row_and_a_column_in_a_chain_of_pieces() -> None:
    """Operands that are walked beside ones that lie in the buffer of a piece, whose borders cut the rows."""
    nodes = [node("Neg", ["x"], "a"), node("Mul", ["a", "row"], "b"), node("Add", ["column", "b"], "c")]
    nodes += [node("Sub", ["plane", "c"], "d"), node("Abs", ["d"], "y")]
    shapes = {"x": (7, 30, 61), "row": (61,), "column": (30, 1), "plane": (7, 1, 61)}
    inputs = [value(name, FLOAT, None) for name in shapes]
    model = of_nodes(nodes, inputs, [value("y", FLOAT, None)])
    feeds = {
        name: np.resize(sample(FLOAT, seed=k), shape).reshape(shape) for k, (name, shape) in enumerate(shapes.items())
    }
    done = counted(lambda: assert_bits(Session(model).run(None, feeds)[0], oracle(model, feeds)))
    assert done["chain_pieces"] == -(-7 * 30 * 61 // PIECE)


def test_values_of_a_chain_that_others_read_are_whole() -> None:
    nodes = [node("Neg", ["x"], "a"), node("Abs", ["a"], "b"), node("Abs", ["row"], "r"), node("Mul", ["b", "r"], "c")]
    nodes += [node("Neg", ["r"], "s"), node("Add", ["a", "c"], "y")]
    model = of_nodes(nodes, [value("x", FLOAT, None), value("row", FLOAT, None)], [value("y", FLOAT, None)])
    feeds = {"x": np.resize(sample(FLOAT), (300, 50)), "row": np.resize(sample(FLOAT, seed=4), 50)}
    assert_bits(Session(model).run(None, feeds)[0], oracle(model, feeds))


# the arena


def test_intermediates_take_over_the_buffers_of_operands_that_die() -> None:
    fast = Session(chain(100))
    done = counted(lambda: fast.run(None, feed(1000)))
    assert done["values_in_place"] == 98
    assert done["arena_bytes"] == 4032, "one buffer of 1000 floats"


def test_buffers_that_are_alive_do_not_overlap() -> None:
    """Long-lived values of many sizes over short-lived ones: were two to overlap, a late reader would see it."""
    sizes = [1, 100, 17, 4000, 3, 9000, 64, 5, 1000]
    nodes: list[onnx.NodeProto] = []
    for k in range(len(sizes)):
        nodes += [
            node("Neg", [f"x{k}"], f"a{k}"),
            node("Abs", [f"a{k}"], f"b{k}"),
            node("Sub", [f"a{k}", f"b{k}"], f"c{k}"),
        ]
    outputs = [f"y{k}" for k in range(len(sizes))]
    for k in reversed(range(len(sizes))):
        nodes += [node("Add", [f"a{k}", f"c{k}"], f"d{k}"), node("Mul", [f"d{k}", f"b{k}"], f"y{k}")]
    model = of_nodes(
        nodes, [value(f"x{k}", FLOAT, None) for k in range(len(sizes))], [value(y, FLOAT, None) for y in outputs]
    )
    feeds = {f"x{k}": np.resize(sample(FLOAT, seed=k), size) for k, size in enumerate(sizes)}
    fast, reference = Session(model), RefSession(model)
    for got, want in zip(fast.run(None, feeds), reference.run(None, feeds), strict=True):
        assert_bits(got, want)


def test_a_row_lives_as_long_as_what_it_is_added_to() -> None:
    """p is whole and begins at the step that reads r for the last time, once for each of its own rows."""
    nodes = [
        node("Neg", ["row"], "r"),
        node("Add", ["x", "r"], "p"),
        node("Abs", ["row"], "s"),
        node("Mul", ["p", "s"], "y"),
    ]
    model = of_nodes(nodes, [value("x", FLOAT, None), value("row", FLOAT, None)], [value("y", FLOAT, None)])
    feeds = {"x": np.resize(sample(FLOAT), (30, 50)), "row": np.resize(sample(FLOAT, seed=4), 50)}
    assert_bits(Session(model).run(None, feeds)[0], oracle(model, feeds))


def test_an_operand_that_is_read_again_is_not_written_over() -> None:
    nodes = [
        node("Neg", ["x"], "a"),
        node("Abs", ["a"], "b"),
        node("Sub", ["a", "b"], "c"),
        node("Mul", ["c", "c"], "d"),
    ]
    nodes += [node("Add", ["d", "a"], "y")]
    model = of_nodes(nodes, [value("x", FLOAT, None)], [value("y", FLOAT, None)])
    for count in (3, 3 * PIECE):
        given = {"x": np.resize(sample(FLOAT), count)}
        assert_bits(Session(model).run(None, given)[0], oracle(model, given))


# folding


def test_constants_are_folded_once() -> None:
    k = numpy_helper.from_array(np.arange(12, dtype=np.float32).reshape(3, 4), "k")
    row = numpy_helper.from_array(np.array([1, -2, 3, -4], np.float32), "row")
    nodes = [node("Mul", ["k", "row"], "a"), node("Tanh", ["a"], "b"), node("Clip", ["b", "low"], "c")]
    nodes += [node("Add", ["x", "c"], "y"), node("Identity", ["c"], "z")]
    low = numpy_helper.from_array(np.array(-0.5, np.float32), "low")
    model = of_nodes(nodes, [value("x", FLOAT, None)], [value(n, FLOAT, None) for n in "yz"], [k, row, low])
    sessions: list[Session] = []
    built = counted(lambda: sessions.append(Session(model)))
    assert (built["nodes_folded"], built["nodes_executed"]) == (4, 0)
    given = {"x": np.array(1, np.float32)}
    done = counted(lambda: sessions[0].run(None, given))
    assert (done["nodes_folded"], done["nodes_executed"]) == (0, 1)
    for got, want in zip(sessions[0].run(None, given), RefSession(model).run(None, given), strict=True):
        assert_bits(got, want)


def test_an_overridable_initializer_is_not_folded() -> None:
    k = numpy_helper.from_array(f(1, -2), "k")
    model = of_nodes(
        [node("Neg", ["k"], "t"), node("Add", ["t", "x"], "y")],
        [value("x", FLOAT, [2]), value("k", FLOAT, [2])],
        [value("y", FLOAT, [2])],
        [k],
    )
    for made in (Session(model), ort_session(model)):
        assert_bits(made.run(None, {"x": f(0, 0)})[0], f(-1, 2))
        assert_bits(made.run(None, {"x": f(0, 0), "k": f(5, 7)})[0], f(-5, -7))
        assert_bits(made.run(None, {"x": f(0, 0)})[0], f(-1, 2))


def test_a_fold_that_cannot_be_leaves_the_plan_usable() -> None:
    """An output too large for memory's address range: said when the plan is sealed, with the node's name."""
    plan = Plan()
    column = plan.constant(np.ones((0, 1), np.float32))
    y = plan.node("Add", column, plan.input(operand(FLOAT, [])))
    assert_bits(plan.output(y).seal().run([np.array(1, np.float32)])[0], np.ones((0, 1), np.float32))


# presence, type, size: what the host may get wrong


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"dtype": 0}, "input 0: unknown type has no fixed element size"),
        ({"dtype": 6}, "input 0 is int32, the plan was built for float32"),
        ({"bytes": 12}, "input 0: the buffer has 12 bytes, its shape 16"),
        ({"data": None}, "input 0: data is NULL"),
        ({"dims": None}, "input 0: dims are NULL at rank 1"),
        ({"rank": 0, "bytes": 4}, "input 0 has rank 0, the plan was built for 1"),
    ],
)
def test_a_known_shape_does_not_open_the_door(change: Mapping[str, Any], words: str) -> None:
    plan = Plan()
    plan.output(plan.node("Neg", plan.input(operand(FLOAT, [-1])))).seal()
    x, y = f(1, 2, 3, 4), np.zeros(4, np.float32)
    assert_bits(plan.run([x])[0], -x)
    assert plan.try_run([tensor(x, **change)], lambda *_: y.ctypes.data)
    assert words in text()
    assert_bits(plan.run([x])[0], -x)


# the trace


def traced(script: str, **env: str) -> str:
    return python(script, env).stderr


TRACED = """
import gc
import numpy as np
from models import *
from ortwin.fast import Session, ort_session
model = of_nodes([node("Neg", ["x"], "t"), node("Abs", ["t"], "y")], [value("x")], [value("y")])
made = {make}(model)
for _ in range(5):
    made.run(None, {{"x": np.ones(3, np.float32)}})
del made
gc.collect()
"""


@pytest.mark.parametrize("make", ["Session", "ort_session"])
def test_a_trace_at_the_end_of_a_session(make: str) -> None:
    said = traced(TRACED.format(make=make), ORTWIN_TRACE="1")
    lines = {line.split()[0]: line.split()[1:] for line in said.splitlines() if line}
    assert said.startswith("ortwin trace of ")
    assert said.count("ortwin trace of ") == 1
    phases = {"shapes", "outputs", "kernels", "run"} | (
        {"claim", "build", "inputs"} if make == "ort_session" else set()
    )
    assert phases <= set(lines)
    assert lines["run"][0] == lines["kernels"][0] == "5"
    for asked in ({}, {"ORTWIN_TRACE": "0"}, {"ORTWIN_TRACE": ""}):
        assert traced(TRACED.format(make=make), **asked) == ""


@pytest.mark.parametrize("make", ["Session", "ort_session"])
def test_a_trace_of_a_session_that_lives_to_the_end(make: str) -> None:
    other = f"{make}(model).run(None, {{'x': np.ones(3, 'f')}})"
    kept = "import ctypes\nctypes.pythonapi.Py_IncRef(ctypes.py_object(made))"  # the interpreter would end it
    said = traced(TRACED.format(make=make).replace("del made", f"{other}\n{kept}"), ORTWIN_TRACE="1")
    heads = [line for line in said.splitlines() if line.startswith("ortwin trace of ")]
    assert [head.endswith(", alive at exit") for head in heads] == [False, True]
    assert [line.split()[1] for line in said.splitlines() if line.startswith("run ")] == ["1", "5"]


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("n", [1025, 300_000])
def test_an_output_in_place_of_what_another_piece_still_reads_is_refused(n: int, threads: int) -> None:
    """Both nodes run piece by piece in turns, and the sum reads all of j for each of its two rows."""
    model = onnx.parser.parse_model(
        f'<ir_version: 10, opset_import: ["": 21]> g (int64[1, {n}] j, int64[2, 1] k, float[2, {n}] x) => '
        f"(int64[2, {n}] s, float[2, {n}] y) {{ s = Add(j, k) y = Relu(x) }}"
    )
    feeds = {"j": np.arange(n).reshape(1, -1), "k": np.array([[1], [2]]), "x": np.ones((2, n), np.float32)}
    session = Session(model, threads)
    in_j = feeds["j"].view(np.float32).reshape(2, n)
    with pytest.raises(LibraryError, match="output 1 overlaps input 0 and is not an exact in-place use"):
        session.run_into({"s": np.empty((2, n), np.int64), "y": in_j}, feeds)
    s = np.empty((2, n), np.int64)
    session.run_into({"s": s, "y": feeds["x"]}, feeds)  # exact, and in turns
    assert (s == feeds["j"] + feeds["k"]).all()


def test_outputs_lie_in_any_order_and_each_overlap_is_seen() -> None:
    count, size = 60, 5
    names = [f"y{k}" for k in range(count)]
    nodes = [node("Neg" if k % 2 else "Abs", ["x"], name) for k, name in enumerate(names)]
    session = Session(of_nodes(nodes, [value("x")], [value(name) for name in names]))
    rng = np.random.default_rng(0)
    feeds = {"x": np.arange(size, dtype=np.float32)}
    for _ in range(40):
        memory = np.zeros(count * size + 2, np.float32)
        places = rng.permutation(count) * size
        outputs = {name: memory[at : at + size] for name, at in zip(names, places, strict=True)}
        session.run_into(outputs, feeds)
        for k, name in enumerate(names):
            assert_bits(outputs[name], -feeds["x"] if k % 2 else feeds["x"])
        moved = int(rng.integers(count))  # two elements up, into its neighbour unless it is the last
        at = int(places[moved]) + 2
        outputs[names[moved]] = memory[at : at + size]
        if places[moved] == places.max():
            session.run_into(outputs, feeds)
            continue
        other = int(np.flatnonzero(places == places[moved] + size)[0])
        pair = f"output {max(moved, other)} overlaps output {min(moved, other)}"
        with pytest.raises(LibraryError, match=pair):
            session.run_into(outputs, feeds)
