"""Runs a model in ONNX Runtime with the provider, and brings back what each of its nodes was given and made of it."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx.numpy_helper

from ortwin.conformance import copies, halves, ortvalues
from ortwin.conformance.conform.case import op_text
from ortwin.conformance.expose import expose
from ortwin.fast.library import LibraryError, counters

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Observation:
    """One execution of a node by the provider: an array where the node names a value, None where it leaves one out."""

    node: onnx.NodeProto
    inputs: tuple[Array | None, ...]
    outputs: tuple[Array | None, ...]

    @property
    def op(self) -> str:
        """The op as tables show it."""
        return op_text(self.node.domain, self.node.op_type)


@dataclass(frozen=True)
class Observed:
    """model: what was run, for its opset imports. observations: in the model's order.

    executed: nodes the provider executed in the run, or folded before it, by the library's own counters. unobserved:
    how many of them have no observation (bodies of Loop and Scan). unmatched: by op, nodes the provider claims in a
    session on the model itself at this optimisation level, but not in the copy that was run. others: by op, nodes of
    the model, functions inlined, that have no observation: other providers have them, or the optimiser took them away.
    """

    model: onnx.ModelProto
    observations: tuple[Observation, ...]
    executed: int
    unobserved: int
    unmatched: dict[str, int]
    others: dict[str, int]


def observe(
    model: onnx.ModelProto,
    folder: Path,
    feeds: Mapping[str, Array],
    *,
    level: str = "as-written",
    threads: int = 1,
    isa: str | None = None,
) -> Observed:
    """Runs a copy of the model whose outputs show every value the provider's nodes read or write.

    model: is not changed; folder: where its external data lies. level: of ONNX Runtime's optimiser. At "as-written" the
    copy is the model with its own functions inlined. At other levels, and where the provider claims nodes of an op's
    body that ONNX Runtime inlines, it is what ONNX Runtime makes of the model (copies.optimised).
    """
    with tempfile.TemporaryDirectory(prefix="ortwin-") as scratch:
        copy = onnx.ModelProto()
        copy.CopyFrom(model)
        copy = copies.inline(copy)
        copies.name_nodes(copy)
        written = Counter(op_text(node.domain, node.op_type) for node in copies.nodes(copy))
        claimed = copies.claims(copies.provider_session(copy, folder, level))
        names = {node.name for node in copies.nodes(copy)}
        chosen = {name for name, _, _ in claimed}
        if claimed and (level != "as-written" or not chosen <= names):
            copies.name_values(copy)
            present = copies.claims(copies.provider_session(copy, folder, "as-written"))
            kept = names & (chosen | {name for name, _, _ in present})
            wide = halves.widen(copy, halves.half_values(copy, folder, kept), kept)
            copy, folder = copies.optimised(wide.model, folder, level, chosen & names, Path(scratch)), Path(scratch)
            halves.narrow(copy, wide.operands)
            chosen = {name for name, _, _ in copies.claims(copies.provider_session(copy, folder, "as-written"))}
        copies.name_values(copy)
        exposed = expose(copy, chosen)
        before = counters()
        session = copies.provider_session(copy, folder, "as-written", threads=threads, isa=isa)
        present = copies.claims(session)
        by_provider = {name for name, _, _ in present}
        results = ortvalues.run(session, feeds)
        after = counters()
        executed = sum(after[name] - before[name] for name in ("nodes_executed", "nodes_folded"))
        values = {**_constants(copy, folder), **feeds}
    values.update((value, results[output]) for value, output in exposed.outputs.items() if output in results)

    observations: list[Observation] = []
    for place in exposed.places:
        node = place.node
        known = all(name in values for name in (*node.input, *node.output) if name)
        if known and node.name in by_provider and exposed.ran(place, results):
            inputs = tuple(values[name] if name else None for name in node.input)
            outputs = tuple(values[name] if name else None for name in node.output)
            observations.append(Observation(node, inputs, outputs))
    if executed < len(observations):
        raise LibraryError(f"{len(observations)} nodes have results, but the library counted only {executed} executed")
    lost = Counter(op for _, _, op in claimed) - Counter(op for _, _, op in present)
    others = written - Counter(observation.op for observation in observations)
    return Observed(copy, tuple(observations), executed, executed - len(observations), dict(lost), dict(others))


def _constants(model: onnx.ModelProto, folder: Path) -> dict[str, Array]:
    """Initializers of the graph and of the graphs within it, by name."""
    found: dict[str, Array] = {}
    for graph in copies.graphs(model.graph):
        for tensor in graph.initializer:
            if tensor.data_type != onnx.TensorProto.STRING:
                found[tensor.name] = np.asarray(onnx.numpy_helper.to_array(tensor, str(folder)))
    return found
