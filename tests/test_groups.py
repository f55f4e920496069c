"""Claims as groups: as large as they can be, never such that ONNX Runtime would drop them."""

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from c_plans import f
from models import FLOAT, INT64, Array, assert_bits, node, of_nodes, oracle, quiet, sample, value, work
from ortwin.fast import LibraryError, ort_session
from ortwin.ref import Session as RefSession

OTHER = "Cos"
"""An op that is not claimed."""


def session(model: onnx.ModelProto, **options: Any) -> Any:
    return ort_session(model, session_options=quiet(), cpu_fallback=True, **options)


def groups(model: onnx.ModelProto, tmp_path: Path, **options: Any) -> dict[str, int]:
    """Claimed nodes and the number of their group; ONNX Runtime has kept all of them."""
    made = session(model, report=tmp_path / "r", **options)
    lines = [json.loads(line) for line in (tmp_path / "r").read_text().splitlines()]
    found = {line["node"]: int(line["group"]) for line in lines if line["claimed"]}
    kept = [part for part in made.get_provider_graph_assignment_info() if part.ep_name == "ortwin"]
    assert sorted(n.name for part in kept for n in part.get_nodes()) == sorted(found), "claims were dropped"
    together = [sorted(n.name for n in part.get_nodes()) for part in kept]
    by_number = [sorted(n for n in found if found[n] == g) for g in set(found.values())]
    assert sorted(together) == sorted(by_number)
    return found


def simple(*nodes: tuple[str, str, str], outputs: str = "y") -> onnx.ModelProto:
    """Nodes as (output, op, inputs), each named by its output; x is the input."""
    made = [node(op, inputs.split(), output, output) for output, op, inputs in nodes]
    return of_nodes(made, [value("x")], [value(name) for name in outputs.split()])


def test_all_of_a_model_is_one_group(tmp_path: Path) -> None:
    model = simple(("a", "Neg", "x"), ("b", "Abs", "x"), ("c", "Mul", "a b"), ("d", "Relu", "c"), ("y", "Add", "d a"))
    assert set(groups(model, tmp_path).values()) == {0}
    before = work()
    made = session(model)
    assert_bits(made.run(None, {"x": sample(FLOAT)})[0], oracle(model, {"x": sample(FLOAT)}))
    after = work()
    assert {name: after[name] - before[name] for name in after} == {"runs": 1, "nodes_executed": 5, "nodes_folded": 0}


def test_what_has_nothing_to_do_with_each_other_is_one_group_too(tmp_path: Path) -> None:
    model = simple(("a", "Neg", "x"), ("y", "Abs", "x"), ("b", OTHER, "x"), outputs="a y b")
    assert groups(model, tmp_path) == {"a": 0, "y": 0}


def test_a_path_does_not_leave_a_group_and_come_back(tmp_path: Path) -> None:
    model = simple(("a", "Relu", "x"), ("b", OTHER, "a"), ("c", "Neg", "a"), ("y", "Add", "b c"))
    assert groups(model, tmp_path) == {"a": 0, "c": 0, "y": 1}
    given = {"x": np.zeros(5, np.float32)}
    assert_bits(session(model).run(None, given)[0], np.ones(5, np.float32))


def test_groups_do_not_wait_for_one_another_in_a_circle(tmp_path: Path) -> None:
    """a1 and a2, and b1 and b2, are not connected, so each pair alone would be convex; both pairs are a circle."""
    model = simple(
        *[("a1", "Neg", "x"), ("b2", "Abs", "x"), ("u", OTHER, "a1"), ("v", OTHER, "b2")],
        *[("b1", "Sqrt", "u"), ("a2", "Relu", "v"), ("y", "Add", "b1 a2")],
    )
    assert groups(model, tmp_path) == {"a1": 0, "b2": 0, "b1": 1, "a2": 1, "y": 1}


def test_what_a_branch_reads_from_outside_is_a_path(tmp_path: Path) -> None:
    """The If names no input but its condition, yet waits for `a`."""

    def branch(name: str, op: str) -> onnx.GraphProto:
        return helper.make_graph([node(op, ["a"], f"{name}_y", f"{name}_node")], name, [], [value(f"{name}_y")])

    choice = helper.make_node(
        "If", ["c"], ["b"], name="choice", then_branch=branch("t", OTHER), else_branch=branch("e", "Neg")
    )
    nodes = [node("Relu", ["x"], "a", "a"), choice, node("Add", ["a", "b"], "y", "y"), node("Abs", ["a"], "z", "z")]
    model = of_nodes(nodes, [value("x"), value("c", TensorProto.BOOL, [])], [value("y"), value("z")])
    found = groups(model, tmp_path)
    assert found["a"] == found["z"] != found["y"]
    assert found["e_node"] not in (found["a"], found["y"])
    for taken, want in ((True, 1 + 0.5), (False, 0.0)):
        x = np.array([0.0], np.float32) if taken else np.array([3.0], np.float32)
        (y, z) = session(model).run(None, {"x": x, "c": np.array(taken)})
        assert_bits(y, np.array([1.0 if taken else want], np.float32))
        assert_bits(z, x)


def test_bodies_of_loop_are_groups_too(tmp_path: Path) -> None:
    body = helper.make_graph(
        [
            node("Identity", ["go"], "on", "on"),
            node("Add", ["v", "x"], "w", "w"),
            node(OTHER, ["w"], "u", "u"),
            node("Mul", ["u", "half"], "carried", "carried"),
        ],
        "body",
        [value("trip", INT64, []), value("go", TensorProto.BOOL, []), value("v")],
        [value("on", TensorProto.BOOL, []), value("carried")],
    )
    loop = helper.make_node("Loop", ["trips", "", "x"], ["y"], name="loop", body=body)
    half = numpy_helper.from_array(np.array(0.5, np.float32), "half")
    model = of_nodes([loop], [value("x"), value("trips", INT64, [])], [value("y")], [half], opset=16)
    found = groups(model, tmp_path)
    assert found["on"] == found["w"] != found["carried"]
    (got,) = session(model).run(None, {"x": np.zeros(2, np.float32), "trips": np.array(1)})
    assert_bits(got, np.full(2, 0.5, np.float32))


def test_a_group_without_inputs(tmp_path: Path) -> None:
    k = numpy_helper.from_array(f(1, -2, 3), "k")
    nodes = [node("Neg", ["k"], "a", "a"), node("Mul", ["a", "k"], "y", "y"), node("Abs", ["a"], "z", "z")]
    model = of_nodes(nodes, [], [value("y"), value("z")], [k])
    assert set(groups(model, tmp_path).values()) == {0}
    for made in (session(model), session(model, group="node")):
        y, z = made.run(None, {})
        assert_bits(y, f(-1, -4, -9))
        assert_bits(z, f(1, 2, 3))


def test_a_value_inside_that_is_an_output_and_one_named_twice(tmp_path: Path) -> None:
    nodes = [node("Neg", ["x"], "a", "a"), node("Add", ["a", "a"], "b", "b"), node("Mul", ["b", "a"], "y", "y")]
    model = of_nodes(nodes, [value("x")], [value("y"), value("a"), value("b")])
    assert set(groups(model, tmp_path).values()) == {0}
    for got, want in zip(session(model).run(None, {"x": f(2, 3)}), (f(8, 18), f(-2, -3), f(-4, -6)), strict=True):
        assert_bits(got, want)
    assert_bits(session(model).run(["b"], {"x": f(2, 3)})[0], f(-4, -6))


def test_operands_left_out_within_a_group(tmp_path: Path) -> None:
    nodes = [
        node("Clip", ["x", "", "hi"], "a", "a"),
        node("Clip", ["a", "lo"], "b", "b"),
        node("Clip", ["b"], "y", "y"),
    ]
    inputs = [value("x"), value("hi", FLOAT, []), value("lo", FLOAT, [])]
    model = of_nodes(nodes, inputs, [value("y")])
    assert set(groups(model, tmp_path).values()) == {0}
    feeds = {"x": f(-9, 0, 9), "hi": np.array(5, np.float32), "lo": np.array(-5, np.float32)}
    assert_bits(session(model).run(None, feeds)[0], f(-5, 0, 5))


def test_unknown_ranks_within_a_group(tmp_path: Path) -> None:
    nodes = [node("Add", ["x", "b"], "a", "a"), node("Neg", ["a"], "y", "y")]
    model = of_nodes(nodes, [value("x", FLOAT, None), value("b", FLOAT, None)], [value("y", FLOAT, None)])
    assert set(groups(model, tmp_path).values()) == {0}
    made = session(model)
    for a, b in (((2, 3), (3,)), ((), (2, 2)), ((1,) * 9, (2,)), ((0, 3), (1, 1))):
        feeds = {"x": np.ones(a, np.float32), "b": np.ones(b, np.float32)}
        assert_bits(made.run(None, feeds)[0], oracle(model, feeds), (a, b))


def test_an_overridable_initializer_is_an_input_of_the_group(tmp_path: Path) -> None:
    k = numpy_helper.from_array(f(1, 2), "k")
    nodes = [node("Neg", ["k"], "a", "a"), node("Add", ["a", "x"], "y", "y")]
    model = of_nodes(nodes, [value("x"), value("k")], [value("y")], [k])
    assert set(groups(model, tmp_path).values()) == {0}
    made = session(model)
    assert_bits(made.run(None, {"x": f(0, 0)})[0], f(-1, -2))
    assert_bits(made.run(None, {"x": f(0, 0), "k": f(5, 6)})[0], f(-5, -6))


def test_one_claim_per_node(tmp_path: Path) -> None:
    model = simple(("a", "Neg", "x"), ("b", "Abs", "a"), ("c", OTHER, "b"), ("y", "Mul", "c a"))
    assert groups(model, tmp_path, group="node") == {"a": 0, "b": 1, "y": 2}
    with pytest.raises(LibraryError, match="group 'line' is unknown: choose graph or node"):
        session(model, group="line")
    with pytest.raises(Exception, match="option group='line': graph or node is needed"):
        session(model, **{"ep.ortwin.group": "line"})


def test_operands_in_the_report(tmp_path: Path) -> None:
    k = numpy_helper.from_array(np.array(2, np.float32), "k")
    nodes = [node("Mul", ["x", "k"], "a", "a"), node("Clip", ["a", "", "k"], "y", "y"), node(OTHER, ["y"], "z", "z")]
    groups(of_nodes(nodes, [value("x")], [value("z")], [k]), tmp_path)
    lines = {line["node"]: line for line in map(json.loads, (tmp_path / "r").read_text().splitlines())}
    assert [lines["a"][key] for key in ("kernel", "constant_operands", "runtime_operands")] == ["mul float32", 1, 1]
    assert [lines["y"][key] for key in ("kernel", "constant_operands", "runtime_operands")] == ["clip float32", 1, 1]
    assert "group" not in lines["z"]


# any graph


def random_graph(random: np.random.Generator, size: int) -> tuple[onnx.ModelProto, list[tuple[str, str, list[str]]]]:
    """Nodes of which about a third is not claimed, each reading values made before it."""
    nodes: list[tuple[str, str, list[str]]] = []
    for k in range(size):
        made = ["x", *(name for name, _, _ in nodes)]
        near = made[-8:]  # so that paths are long
        op = str(random.choice(["Neg", "Abs", "Add", "Mul", OTHER, OTHER]))
        count = 2 if op in ("Add", "Mul") else 1
        nodes.append((f"n{k}", op, [str(random.choice(near if random.random() < 0.8 else made)) for _ in range(count)]))
    read = {name for _, _, inputs in nodes for name in inputs}
    outputs = [name for name, _, _ in nodes if name not in read]
    model = of_nodes(
        [node(op, inputs, name, name) for name, op, inputs in nodes], [value("x")], [value(name) for name in outputs]
    )
    return model, nodes


def has_circle(edges: Sequence[tuple[str, str]], merged: dict[str, str]) -> bool:
    """Whether the graph in which some nodes are one has a path that comes back to where it began."""
    follows: dict[str, set[str]] = {}
    for source, target in edges:
        a, b = merged.get(source, source), merged.get(target, target)
        if a != b:
            follows.setdefault(a, set()).add(b)
    left = {*follows, *(b for targets in follows.values() for b in targets)}
    while True:
        inner = {b for a in left for b in follows.get(a, ()) if b in left}
        if inner == left:
            return bool(left)
        left = inner


@pytest.mark.parametrize("seed", range(12))
def test_groups_of_random_graphs(seed: int, tmp_path: Path) -> None:
    """No circle among them, no two that could be one, and ONNX Runtime keeps them all."""
    model, nodes = random_graph(np.random.default_rng(seed), 40)
    found = groups(model, tmp_path)
    assert set(found) == {name for name, op, _ in nodes if op != OTHER}
    edges = [(source, name) for name, _, inputs in nodes for source in inputs]
    merged = {name: f"group {group}" for name, group in found.items()}
    assert not has_circle(edges, merged)
    for a, b in itertools.combinations(set(merged.values()), 2):
        assert has_circle(edges, {name: a if group == b else group for name, group in merged.items()}), (a, b)
    x = np.linspace(-2, 2, 9, dtype=np.float32)
    one, many = session(model).run(None, {"x": x}), session(model, group="node").run(None, {"x": x})
    for got, want in zip(one, many, strict=True):
        assert_bits(got, want)


def test_that_has_circle_sees_one() -> None:
    assert has_circle([("a", "b"), ("b", "a")], {})
    assert not has_circle([("a", "b"), ("a", "c"), ("b", "c")], {})
    assert has_circle([("a", "b"), ("b", "c")], {"a": "g", "c": "g"})


def test_a_large_group_is_compiled_quickly(tmp_path: Path) -> None:
    """3000 nodes: neither grouping nor looking values up by name may take the square of that."""
    nodes = [node("Neg" if k % 2 else "Abs", [f"v{k}"], f"v{k + 1}") for k in range(3000)]
    model = of_nodes(nodes, [value("v0")], [value("v3000")])
    x: Array = sample(FLOAT)
    (got,) = session(model).run(None, {"v0": x})
    assert_bits(got, RefSession(of_nodes(nodes[:2], [value("v0")], [value("v2")])).run(None, {"v0": x})[0])
