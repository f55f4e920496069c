"""Makes every value that chosen nodes read or write an output of the model, also from inside the branches of an If.

An If yields one branch's values, so a value inside a branch leaves through an additional output of the If, for which
the other branch has an empty tensor; one more output per If tells which branch was taken. Bodies of Loop and Scan run
any number of times, and stay closed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper
import onnx.shape_inference
from onnx import TensorProto

from ortwin.conformance.copies import fresh, graphs, subgraphs

BRANCHES = ("then_branch", "else_branch")


@dataclass(frozen=True)
class Place:
    """A node, and the condition under which it runs: (output that tells the branch taken, its number) or always."""

    node: onnx.NodeProto
    when: tuple[str, int] | None


@dataclass(frozen=True)
class Exposed:
    """places: the chosen nodes within reach. outputs: output of the model by value name."""

    places: tuple[Place, ...]
    outputs: dict[str, str]

    def ran(self, place: Place, results: Mapping[str, Any]) -> bool:
        """Whether the node was executed in the run with these results."""
        if place.when is None:
            return True
        flag = results[self.outputs[place.when[0]]]
        return bool(flag.size == 1 and flag.item() == place.when[1])


def expose(model: onnx.ModelProto, chosen: Collection[str]) -> Exposed:
    """Changes the model, whose nodes and values have names of their own, so that its outputs show the chosen nodes.

    Chosen nodes in the body of a Loop or Scan have no place; a value in a branch has no output if the onnx package
    can't infer its element type.
    """
    return _Exposer(model, chosen).run()


class _Exposer:
    def __init__(self, model: onnx.ModelProto, chosen: Collection[str]) -> None:
        self.model = model
        self.chosen = chosen
        self.taken = {name for graph in graphs(model.graph) for node in graph.node for name in node.output}
        self.taken |= {value.name for graph in graphs(model.graph) for value in (*graph.input, *graph.initializer)}
        self.types: dict[str, int] = {}
        self.places: list[Place] = []
        self.outputs: dict[str, str] = {}

    def run(self) -> Exposed:
        graph = self.model.graph
        branches = [inner for node in graph.node if node.op_type == "If" for inner in subgraphs(node)]
        if any(node.name in self.chosen for branch in branches for inner in graphs(branch) for node in inner.node):
            self.types = _element_types(self.model)
        reach = list(self.reach(graph, None))
        wanted = {name for node in reach for name in (*node.input, *node.output) if name}
        shown = {output.name for output in graph.output}
        for value, inside in self.open(graph, wanted).items():
            self.outputs[value] = inside
            if inside not in shown:
                graph.output.add().name = inside
        return Exposed(tuple(self.places), self.outputs)

    def reach(self, graph: onnx.GraphProto, when: tuple[str, int] | None) -> Iterable[onnx.NodeProto]:
        """The chosen nodes here and in branches, each noted with its condition; gives each If its flag."""
        for node in graph.node:
            if node.name in self.chosen:
                self.places.append(Place(node, when))
                yield node
            if node.op_type != "If":
                continue
            flag = fresh(f"{node.name}_branch", self.taken)
            inside = [
                found for number, branch in enumerate(_branches(node)) for found in self.reach(branch, (flag, number))
            ]
            if inside:
                for number, branch in enumerate(_branches(node)):
                    own = fresh(f"{flag}_{number}", self.taken)
                    branch.node.append(_constant(own, np.array(number, np.int64)))
                    _add_output(branch, own, TensorProto.INT64)
                node.output.append(flag)
                self.outputs[flag] = flag
                self.types[flag] = TensorProto.INT64
            yield from inside

    def open(self, graph: onnx.GraphProto, wanted: Collection[str]) -> dict[str, str]:
        """Wanted values made in the graph or its branches, to the names they have in the graph."""
        found: dict[str, str] = {}
        for node in graph.node:
            found.update((name, name) for name in node.output if name in wanted or name in self.outputs)
            if node.op_type != "If":
                continue
            opened = [self.open(branch, wanted) for branch in _branches(node)]
            for number, values in enumerate(opened):
                for value, inside in values.items():
                    outside = self.lead_out(node, number, value, inside)
                    if outside:
                        found[value] = outside
        return found

    def lead_out(self, node: onnx.NodeProto, number: int, value: str, inside: str) -> str:
        """The output of an If that shows what is called `inside` in its branch of this number; "" if there can't be."""
        mine, theirs = _branches(node)[number], _branches(node)[1 - number]
        shown = [output.name for output in mine.output]
        if inside in shown:
            position = shown.index(inside)
            node.output[position] = node.output[position] or fresh(f"{value}_seen", self.taken)
            return str(node.output[position])
        dtype = self.types.get(value)
        if dtype is None:
            return ""
        absent, outside = fresh(f"{value}_absent", self.taken), fresh(f"{value}_seen", self.taken)
        theirs.node.append(_constant(absent, np.empty(0, onnx.helper.tensor_dtype_to_np_dtype(dtype))))
        _add_output(mine, inside, dtype)
        _add_output(theirs, absent, dtype)
        node.output.append(outside)
        return outside


def _branches(node: onnx.NodeProto) -> tuple[onnx.GraphProto, onnx.GraphProto]:
    by_name = {attribute.name: attribute.g for attribute in node.attribute}
    return by_name[BRANCHES[0]], by_name[BRANCHES[1]]


def _constant(name: str, array: np.ndarray[Any, Any]) -> onnx.NodeProto:
    return onnx.helper.make_node("Constant", [], [name], name, value=onnx.numpy_helper.from_array(array, name))


def _add_output(graph: onnx.GraphProto, name: str, dtype: int) -> None:
    output = graph.output.add()
    output.name = name
    output.type.tensor_type.elem_type = dtype


def _element_types(model: onnx.ModelProto) -> dict[str, int]:
    """Element types of values, as far as the onnx package infers them."""
    inferred = onnx.shape_inference.infer_shapes(model)
    return {
        value.name: value.type.tensor_type.elem_type
        for graph in graphs(inferred.graph)
        for value in (*graph.value_info, *graph.output, *graph.input)
        if value.type.WhichOneof("value") == "tensor_type" and value.type.tensor_type.elem_type
    }
