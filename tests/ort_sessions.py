"""What tests of the execution provider inside ONNX Runtime share."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from models import FLOAT, Array, node, of_nodes, quiet, value
from ortwin.fast import counters, ort_session

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


def reports(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
