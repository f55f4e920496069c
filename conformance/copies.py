"""Copies of a model to run in its place: every node and value with a name of its own, and as ONNX Runtime optimised it.

How the optimised graph is had. ONNX Runtime saves what it has made of a model, but not if a provider has compiled
nodes, as this one does; and a session without the provider inlines the functions that only the provider computes whole,
such as HardSwish. So the model is saved by a session of the CPU provider in which the nodes that the provider claims,
and that get lost, are each replaced by a STAND_IN: one node of an op that has the same type and shape rule and a CPU
kernel, and that no rule of the optimiser touches. Afterwards the original is put back. Only optimisation up to "basic"
is done this way: what is above happens after providers have claimed their nodes, and leaves those alone. Nodes on half
types are made float32 before (halves.py). Whoever uses the copy compares its claims with those of a session on the
model itself.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import onnx
import onnx.helper
import onnx.inliner

from ortwin.conformance.ortvalues import quiet_options
from ortwin.fast.ort import LEVELS, onnxruntime, ort_session

STAND_IN = ("com.microsoft", "QuickGelu")
FOLDER_KEY = "session.model_external_initializers_file_folder_path"
WEIGHTS = "weights.bin"


def subgraphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """The graphs among a node's attributes."""
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            yield attribute.g
        yield from attribute.graphs


def graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """The graph and all graphs within it."""
    yield graph
    for node in graph.node:
        for inner in subgraphs(node):
            yield from graphs(inner)


def nodes(model: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    """The nodes of the model's graph and of the graphs within it."""
    for graph in graphs(model.graph):
        yield from graph.node


def fresh(name: str, taken: set[str]) -> str:
    """The name, with a number behind it if it is taken; now taken."""
    found, count = name, 1
    while found in taken:
        found, count = f"{name}_{count}", count + 1
    taken.add(found)
    return found


def name_nodes(model: onnx.ModelProto) -> None:
    """Gives each node of the model, subgraphs included, a name of its own; the first of a name keeps it."""
    taken = {""}
    given = {node.name for node in nodes(model)}
    for index, node in enumerate(nodes(model)):
        if not node.name:
            node.name = fresh(f"{node.op_type}_{index}", taken | given)
        elif node.name in taken:
            node.name = fresh(node.name, taken | given)
        taken.add(node.name)


def name_values(model: onnx.ModelProto) -> None:
    """Gives each value a name of its own: two branches of an If may use the same names for different values."""
    graph = model.graph
    outer = {name: name for name in defined(graph)}
    taken = set(outer) | {""}
    for node in graph.node:
        for inner in subgraphs(node):
            _name_values(inner, outer, taken)


def defined(graph: onnx.GraphProto) -> list[str]:
    """The names of the values that the graph itself holds or makes."""
    names = [value.name for value in (*graph.input, *graph.initializer)]
    names += [tensor.values.name for tensor in graph.sparse_initializer]
    names += [name for node in graph.node for name in node.output if name]
    return list(dict.fromkeys(names))


def _name_values(graph: onnx.GraphProto, outer: Mapping[str, str], taken: set[str]) -> None:
    names = {**outer, **{name: fresh(name, taken) for name in defined(graph)}}
    for value in (*graph.input, *graph.output, *graph.initializer, *graph.value_info):
        value.name = names.get(value.name, value.name)
    for sparse in graph.sparse_initializer:
        sparse.values.name = names[sparse.values.name]
    for node in graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
        for inner in subgraphs(node):
            _name_values(inner, names, taken)


def inline(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with calls of its own functions replaced by their bodies, as ONNX Runtime does before anything else; or
    itself if the onnx package can't do that."""
    if not model.functions:
        return model
    try:
        inlined = onnx.inliner.inline_local_functions(model)
    except RuntimeError:
        return model
    return model if inlined.functions else inlined


def provider_session(
    model: onnx.ModelProto,
    folder: Path,
    level: str,
    *,
    threads: int = 1,
    isa: str | None = None,
    report: str | os.PathLike[str] | None = None,
) -> Any:
    """A session with the provider and ONNX Runtime's CPU provider behind it. folder: where external data lies."""
    config: dict[str, Any] = {FOLDER_KEY: str(folder)}
    return ort_session(
        model,
        threads=threads,
        isa=isa,
        cpu_fallback=True,
        graph_optimization=level,
        report=report,
        session_options=quiet_options(),
        **config,
    )


def claims(session: Any, provider: str = "ortwin") -> list[tuple[str, str, str]]:
    """(node name, domain, op) of every node the provider has in the session, in any graph."""
    parts = session.get_provider_graph_assignment_info()
    return [(n.name, n.domain, n.op_type) for part in parts if part.ep_name == provider for n in part.get_nodes()]


def optimised(
    model: onnx.ModelProto, folder: Path, level: str, claimed: Collection[str], into: Path
) -> onnx.ModelProto:
    """What ONNX Runtime makes of the model at this level, with the claimed nodes (by name) kept as they are.

    folder: where the model's external data lies; into: an empty folder, where the copy's lies afterwards.
    """
    saved = _save(model, folder, level, into / "plain")
    lost = set(claimed) - {node.name for node in nodes(saved)}
    stand_ins = _stand_ins(model, lost)
    if stand_ins:
        replaced = onnx.ModelProto()
        replaced.CopyFrom(model)
        for node in nodes(replaced):
            if node.name in stand_ins:
                node.domain, node.op_type = STAND_IN
                del node.attribute[:]
        if all(entry.domain != STAND_IN[0] for entry in replaced.opset_import):
            replaced.opset_import.append(onnx.helper.make_opsetid(STAND_IN[0], 1))
        saved = _save(replaced, folder, level, into / "kept")
        for node in nodes(saved):
            if node.name in stand_ins and (node.domain, node.op_type) == STAND_IN:
                original = stand_ins[node.name]
                node.domain, node.op_type = original.domain, original.op_type
                del node.attribute[:]
                node.attribute.extend(original.attribute)
    name_nodes(saved)
    return saved


def _stand_ins(model: onnx.ModelProto, lost: Collection[str]) -> dict[str, onnx.NodeProto]:
    """The lost nodes that a stand-in fits, by name."""
    return {
        node.name: node
        for node in nodes(model)
        if node.name in lost and len(node.input) == len(node.output) == 1 and not list(subgraphs(node))
    }


def _save(model: onnx.ModelProto, folder: Path, level: str, into: Path) -> onnx.ModelProto:
    into.mkdir()
    ort, options = onnxruntime(), quiet_options()
    basic = "as-written" if level == "as-written" else "basic"
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, LEVELS[basic])
    options.optimized_model_filepath = str(into / "model.onnx")
    options.add_session_config_entry(FOLDER_KEY, str(folder))
    options.add_session_config_entry("session.optimized_model_external_initializers_file_name", WEIGHTS)
    options.add_session_config_entry("session.optimized_model_external_initializers_min_size_in_bytes", "1024")
    ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    saved = onnx.load(into / "model.onnx", load_external_data=False)
    for graph in graphs(saved.graph):
        for tensor in graph.initializer:
            for entry in tensor.external_data:  # relative to the folder the caller knows
                if entry.key == "location":
                    entry.value = f"{into.name}/{entry.value}"
    return saved
