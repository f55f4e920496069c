"""Model-local functions: their calls are replaced by their bodies, by the onnx package's inliner.

What the inliner leaves to its caller is done here first: defaults of a function's attributes, and a limit, since nested
calls can grow without bound from a small file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import onnx
import onnx.defs
import onnx.inliner
from onnx.version_converter import ConvertError

from ortwin.ref.errors import ModelError

MAX_NODES: Final = 1_000_000
"""The most nodes a model may grow to."""


def inline(proto: onnx.ModelProto) -> onnx.ModelProto:
    """The model without functions, converted to its opset if need be. ModelError if that can't be done."""
    if not proto.functions:
        return proto
    functions = {_key(function.domain, function.name, function.overload): function for function in proto.functions}
    for function in proto.functions:
        if onnx.defs.has(function.name, function.domain):
            raise ModelError(f"function '{function.name}' has the name of an op of its domain")
    _limit(proto, functions)
    for nodes in node_lists(proto):
        for node in nodes:
            called = functions.get(_key(node.domain, node.op_type, node.overload))
            given = {attribute.name for attribute in node.attribute}
            if called is not None:
                node.attribute.extend(default for default in called.attribute_proto if default.name not in given)
    for convert in (False, True):
        if proto.functions:
            try:
                proto = onnx.inliner.inline_local_functions(proto, convert)
            except (RuntimeError, ConvertError) as error:
                raise ModelError(f"the model's functions can't be inlined: {' '.join(str(error).split())}") from error
    if proto.functions:
        raise ModelError(f"function '{proto.functions[0].name}' can't be converted to the model's opset")
    return proto


def node_lists(proto: onnx.ModelProto) -> Iterator[Sequence[onnx.NodeProto]]:
    """The node lists of the model: graph, functions and all subgraphs."""
    yield from _below(proto.graph.node)
    for function in proto.functions:
        yield from _below(function.node)


def _below(first: Sequence[onnx.NodeProto]) -> Iterator[Sequence[onnx.NodeProto]]:
    pending: list[Sequence[onnx.NodeProto]] = [first]
    while pending:
        nodes = pending.pop()
        yield nodes
        for node in nodes:
            for attribute in node.attribute:
                pending.extend(graph.node for graph in (attribute.g, *attribute.graphs))


def _key(domain: str, name: str, overload: str) -> tuple[str, str, str]:
    return domain, name, overload


def _limit(proto: onnx.ModelProto, functions: dict[tuple[str, str, str], onnx.FunctionProto]) -> None:
    """ModelError if inlining would make more than MAX_NODES nodes, or never end."""
    sizes: dict[tuple[str, str, str], int] = {}

    def size(nodes: Sequence[onnx.NodeProto], callers: tuple[tuple[str, str, str], ...]) -> int:
        total = 0
        for part in _below(nodes):
            for node in part:
                key = _key(node.domain, node.op_type, node.overload)
                if key in callers:
                    raise ModelError(f"function '{key[1]}' calls itself")
                if key in functions and key not in sizes:
                    sizes[key] = size(functions[key].node, (*callers, key))
                total += sizes.get(key, 1)
        if total > MAX_NODES:
            raise ModelError(f"the model's functions make more than {MAX_NODES} nodes")
        return total

    size(proto.graph.node, ())
