"""`ortwin check`: every node that the provider executes in a model, computed again by the reference and by the C
library on each instruction set, and compared bit for bit.

The inputs are the node's actual ones in that run, so a difference belongs to the node it is reported for. How the
values are got at is told in observe, how optimised graphs are had in copies.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import onnx
import onnx.helper

from ortwin import fast, ref
from ortwin.conformance.inputs import make_feeds, read_model
from ortwin.conformance.observe import Observation, observe
from ortwin.conformance.tables import progress, say, table, write_json
from ortwin.ref.errors import OrtwinError
from ortwin.ref.tensor import dtype_number

Array = npt.NDArray[Any]
Compute: TypeAlias = Callable[[Mapping[str, Array]], list[Array]]
Arm: TypeAlias = Callable[[bytes], Compute]

REFERENCE = "ref"
SHOWN = 5
"""Differences printed in full."""


@dataclass(frozen=True)
class Difference:
    """Where an arm first disagrees with the provider in a node. observed and expected are hex bytes, as in memory."""

    node: str
    op: str
    attributes: dict[str, str]
    arm: str
    what: str
    index: int | None = None
    inputs: list[str] = field(default_factory=list)
    observed: str = ""
    expected: str = ""


@dataclass
class Row:
    """One op in a model. differing: elements that differ, by arm."""

    op: str
    nodes: int = 0
    elements: int = 0
    differing: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Result:
    """What check found in a model; arms: "" or the reason why an arm is not available."""

    model: str
    graph_optimization: str
    arms: dict[str, str]
    rows: list[Row]
    executed: int
    unobserved: int
    unmatched: dict[str, int]
    differences: list[Difference]
    assumed: tuple[str, ...] = ()
    others: dict[str, int] = field(default_factory=dict)

    @property
    def agree(self) -> bool:
        """Whether nothing that was compared differs."""
        return not self.differences


def arms(threads: int = 1) -> dict[str, Arm]:
    """The ways to compute a one-node model, by name: the reference, and the C library per available instruction set."""

    def on(isa: str) -> Arm:
        return lambda model: _running(fast.Session(model, threads, isa))

    available = [isa for isa, why in fast.isas().items() if not why]
    return {REFERENCE: lambda model: _running(ref.Session(model)), **{isa: on(isa) for isa in available}}


def _running(session: ref.Session | fast.Session) -> Compute:
    return lambda feeds: session.run(None, feeds)


def check_model(
    path: str,
    *,
    files: Mapping[str, str] | None = None,
    dims: Mapping[str, int] | None = None,
    seed: int = 0,
    level: str = "as-written",
    threads: int = 1,
    isa: str | None = None,
) -> Result:
    """Runs the model and compares; options as those of the command."""
    model = read_model(path)
    feeds = make_feeds(model, files or {}, dims or {}, seed)
    seen = observe(model, Path(path).absolute().parent, feeds.arrays, level=level, threads=threads, isa=isa)
    comparison = Comparison(seen.model, arms(threads))
    for observation in progress(seen.observations, "comparing nodes"):
        comparison.add(observation)
    return Result(
        path,
        level,
        {REFERENCE: "", **fast.isas()},
        sorted(comparison.rows.values(), key=lambda row: row.op),
        seen.executed,
        seen.unobserved,
        seen.unmatched,
        comparison.differences,
        feeds.assumed,
        seen.others,
    )


class Comparison:
    """Compares observations with the arms; arms keep their session for nodes that say the same."""

    def __init__(self, model: onnx.ModelProto, arms: Mapping[str, Arm]) -> None:
        self.model = model
        self.arms = arms
        self.rows: dict[str, Row] = {}
        self.differences: list[Difference] = []
        self.sessions: dict[tuple[str, bytes], Compute] = {}

    def add(self, seen: Observation) -> None:
        """Compares one execution of a node on all arms."""
        row = self.rows.setdefault(seen.op, Row(seen.op, differing=dict.fromkeys(self.arms, 0)))
        row.nodes += 1
        row.elements += sum(array.size for array in seen.outputs if array is not None)
        model = single_node(self.model, seen)
        feeds = {f"i{k}": array for k, array in enumerate(seen.inputs) if array is not None}
        for arm, make in self.arms.items():
            try:
                if (arm, model) not in self.sessions:
                    self.sessions[arm, model] = make(model)
                expected = self.sessions[arm, model](feeds)
            except OrtwinError as error:  # the provider executed it, so every arm must
                self.report(row, seen, arm, f"refused: {error}", sum(a.size for a in seen.outputs if a is not None))
                continue
            for observed, wanted in zip((a for a in seen.outputs if a is not None), expected, strict=True):
                self.compare(row, seen, arm, observed, wanted)

    def compare(self, row: Row, seen: Observation, arm: str, observed: Array, expected: Array) -> None:
        if (observed.dtype, observed.shape) != (expected.dtype, expected.shape):
            what = f"made {observed.dtype}{list(observed.shape)}, expected {expected.dtype}{list(expected.shape)}"
            self.report(row, seen, arm, what, max(1, observed.size))
            return
        ours, theirs = _items(observed), _items(expected)
        bad = np.flatnonzero((ours != theirs).any(axis=1))
        if bad.size:
            at = int(bad[0])
            inputs = [_hex_at(array, at, observed.size) for array in seen.inputs]
            what = f"{bad.size} of {observed.size} elements differ, first at {at}"
            self.report(row, seen, arm, what, int(bad.size), at, inputs, ours[at].tobytes(), theirs[at].tobytes())

    def report(
        self,
        row: Row,
        seen: Observation,
        arm: str,
        what: str,
        count: int,
        index: int | None = None,
        inputs: list[str] | None = None,
        observed: bytes = b"",
        expected: bytes = b"",
    ) -> None:
        row.differing[arm] += count
        attributes = {a.name: str(onnx.helper.get_attribute_value(a)) for a in seen.node.attribute}
        difference = Difference(
            seen.node.name, seen.op, attributes, arm, what, index, inputs or [], observed.hex(), expected.hex()
        )
        self.differences.append(difference)


def single_node(model: onnx.ModelProto, seen: Observation) -> bytes:
    """A model of the node alone, its values called i0, i1 ... and o0, o1 ..., of known type and unknown rank."""
    node = onnx.NodeProto()
    node.CopyFrom(seen.node)
    node.name = "node"
    inputs: list[onnx.ValueInfoProto] = []
    outputs: list[onnx.ValueInfoProto] = []
    for letter, names, arrays, infos in (
        ("i", node.input, seen.inputs, inputs),
        ("o", node.output, seen.outputs, outputs),
    ):
        for k, array in enumerate(arrays):
            names[k] = "" if array is None else f"{letter}{k}"
            if array is not None:
                infos.append(onnx.helper.make_tensor_value_info(names[k], dtype_number(array.dtype), None))
    graph = onnx.helper.make_graph([node], "node", inputs, outputs)
    used = [entry for entry in model.opset_import if entry.domain == node.domain]
    made = onnx.helper.make_model(graph, opset_imports=used, ir_version=model.ir_version)
    return bytes(made.SerializeToString(deterministic=True))


def _items(array: Array) -> npt.NDArray[np.uint8]:
    """The array's bytes, a row per element."""
    return np.frombuffer(array.tobytes(), np.uint8).reshape(array.size, array.dtype.itemsize)


def _hex_at(array: Array | None, index: int, size: int) -> str:
    """An input in hex: the element at the index, if it has the output's size, else its first eight."""
    if array is None:
        return ""
    chosen = _items(array)[index : index + 1] if array.size == size else _items(array)[:8]
    return " ".join(item.tobytes().hex() for item in chosen)


def command(args: argparse.Namespace) -> int:
    """Runs the command; 1 if anything differs."""
    result = check_model(
        args.model,
        files=args.input,
        dims=args.dim,
        seed=args.seed,
        level=args.graph_optimization,
        threads=args.threads or 1,
        isa=args.isa,
    )
    if args.json:
        write_json({**asdict(result), "agree": result.agree})
    else:
        show(result)
    return 0 if result.agree else 1


def show(result: Result) -> None:
    """Prints the table of ops, what was not compared, and the first differences."""
    if result.assumed:
        say(f"assumed size 1 for {', '.join(result.assumed)}; --dim NAME=N gives another")
    if not result.executed:
        say(f"the execution provider executes no node of {result.model}")
    else:
        table(*agreement([result]))
    if result.others:
        listed = ", ".join(f"{count} {op}" for op, count in sorted(result.others.items()))
        say(f"not compared, as other providers have them or the optimiser took them away: {listed}")
    if result.unmatched:
        listed = ", ".join(f"{count} {op}" for op, count in sorted(result.unmatched.items()))
        say(f"claimed in the model itself, but not in the copy that was compared: {listed}")
    for difference in result.differences[:SHOWN]:
        say(f"node '{difference.node}' ({difference.op}) {difference.attributes or ''} against {difference.arm}:")
        say(f"  {difference.what}")
        if difference.index is not None:
            say(f"  inputs {', '.join(difference.inputs)}")
            say(f"  observed {difference.observed}, expected {difference.expected} (bytes as in memory)")
    if len(result.differences) > SHOWN:
        say(f"... and {len(result.differences) - SHOWN} more differences, all of them in --json")


def agreement(results: list[Result]) -> tuple[str, list[str], list[list[str]], set[str]]:
    """Title, columns, rows and right-aligned columns of the table over models."""
    names = list(results[0].arms)
    rows: list[list[str]] = []
    for result in results:
        for row in result.rows:
            marks = [_mark(result, row, name) for name in names]
            rows.append([Path(result.model).name, row.op, str(row.nodes), f"{row.elements:,}", *marks])
        if result.unobserved:
            rows.append([Path(result.model).name, "(not observed)", str(result.unobserved), "", *("" for _ in names)])
    title = "executed by the provider in ONNX Runtime, compared bit for bit"
    return title, ["model", "op", "nodes", "elements", *names], rows, {"nodes", "elements"}


def _mark(result: Result, row: Row, arm: str) -> str:
    if result.arms[arm]:
        return "not available"
    return f"{row.differing[arm]:,} DIFFER" if row.differing[arm] else "equal"
