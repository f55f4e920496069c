"""Nodes on float16 and bfloat16 in a model that ONNX Runtime's CPU provider is to optimise, and has no kernels for.

It would compute float16 in float32 between casts of its own, taking functions apart, and refuse bfloat16. So the nodes
of the provider are made float32 before (widen), values between them too, so that they fuse as ever; and in what ONNX
Runtime made of the model each is put back, between casts (narrow). Widening is exact, and so is narrowing what a node
on a half type gave, so every node is given what it is given in the model itself, NaNs perhaps in other bits.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import onnx
import onnx.helper
from onnx import TensorProto

from ortwin.conformance import copies
from ortwin.conformance.expose import expose

HALVES = {"tensor(float16)": TensorProto.FLOAT16, "tensor(bfloat16)": TensorProto.BFLOAT16}
"""ONNX Runtime's names of the half types, with ONNX's numbers."""


@dataclass(frozen=True)
class Operands:
    """The half types among a node's inputs and outputs: a number, or 0 for another type. An input that is left out, and
    that the optimiser may give the node when it takes in a neighbour, is of the first one's type."""

    inputs: list[int]
    outputs: list[int]


@dataclass(frozen=True)
class Widened:
    """model: the nodes named in operands are on float32."""

    model: onnx.ModelProto
    operands: dict[str, Operands] = field(default_factory=dict)


def half_values(model: onnx.ModelProto, folder: Path, chosen: Collection[str]) -> dict[str, int]:
    """The values of half types that the chosen nodes read or write, as ONNX Runtime knows them. Those in bodies of Loop
    and Scan, and in branches where the onnx package can't tell the type, are not among them."""
    found = {tensor.name: tensor.data_type for graph in copies.graphs(model.graph) for tensor in graph.initializer}
    found |= {value.name: value.type.tensor_type.elem_type for value in model.graph.input}
    shown = onnx.ModelProto()
    shown.CopyFrom(model)
    outputs = expose(shown, chosen).outputs
    session = copies.provider_session(shown, folder, "as-written")
    types = {output.name: HALVES.get(output.type, 0) for output in session.get_outputs()}
    found |= {value: types.get(output, 0) for value, output in outputs.items()}
    return {value: dtype for value, dtype in found.items() if dtype in HALVES.values()}


def widen(model: onnx.ModelProto, halves: Mapping[str, int], chosen: Collection[str]) -> Widened:
    """A copy of the model, whose values have names of their own, with the chosen nodes on float32 where they are on
    half types. A value keeps its type for others; what chosen nodes read and write is another one beside it."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    made = Widened(copy)
    taken = {name for graph in copies.graphs(copy.graph) for name in copies.defined(graph)}
    wide: dict[str, str] = {}
    written = set[str]()
    for node in copies.nodes(copy):
        first = node.input[0] if node.input else ""
        operands = Operands([halves.get(n or first, 0) for n in node.input], [halves.get(n, 0) for n in node.output])
        node.doc_string = ""
        if node.name in chosen and any(operands.inputs + operands.outputs):
            made.operands[node.name] = operands
            node.doc_string = node.name  # which stays, also where a branch is taken out of its If
            written.update(name for name in node.output if name in halves)
            for name in (*node.input, *node.output):
                if name in halves and name not in wide:
                    wide[name] = copies.fresh(f"{name}_wide", taken)
            node.input[:] = [wide[n] if n in halves else n for n in node.input]
            node.output[:] = [wide[n] if n in halves else n for n in node.output]
    used = {output.name for graph in copies.graphs(copy.graph) for output in graph.output}
    used.update(name for node in copies.nodes(copy) for name in node.input)  # unread, a cast would keep nodes apart
    own = {wide[name]: name for name in written & used}
    for graph in copies.graphs(copy.graph):
        given = dict.fromkeys(value.name for value in (*graph.input, *graph.initializer))
        before = [_cast(name, wide[name], TensorProto.FLOAT) for name in given if name in wide]
        after = []
        for node in graph.node:
            after.append(node)
            after += [_cast(name, own[name], halves[own[name]]) for name in node.output if name in own]
            after += [_cast(n, wide[n], TensorProto.FLOAT) for n in node.output if n in wide and n not in written]
        _replace(graph, [*before, *after])
    return made


def narrow(model: onnx.ModelProto, operands: Mapping[str, Operands]) -> None:
    """Changes the model: the nodes named in operands, which are on float32, are on their half types again."""
    taken = {name for graph in copies.graphs(model.graph) for name in copies.defined(graph)}
    for graph in copies.graphs(model.graph):
        found = []
        for node in graph.node:
            after = []
            known = operands.get(node.doc_string)
            if known:
                node.doc_string = ""
                for at, name in enumerate(node.input):
                    dtype = known.inputs[at if at < len(known.inputs) else 0]
                    if name and dtype:
                        node.input[at] = copies.fresh(f"{name}_half", taken)
                        found.append(_cast(name, node.input[at], dtype))
                for at, (name, dtype) in enumerate(zip(node.output, known.outputs, strict=True)):
                    if name and dtype:
                        node.output[at] = copies.fresh(f"{name}_half", taken)
                        after.append(_cast(node.output[at], name, TensorProto.FLOAT))
            found += [node, *after]
        _replace(graph, found)
    copies.name_nodes(model)


def _cast(name: str, result: str, dtype: int) -> onnx.NodeProto:
    return onnx.helper.make_node("Cast", [name], [result], name=f"{result}_cast", to=dtype)


def _replace(graph: onnx.GraphProto, nodes: list[onnx.NodeProto]) -> None:
    kept = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(kept)
