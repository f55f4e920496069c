"""The oracle's executor: nodes in the model's order, one at a time, every value kept until the run ends."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ortwin.ref.errors import InputError, SizeError, UnsupportedError
from ortwin.ref.fenv import DefaultEnvironment
from ortwin.ref.graph import Graph, Model, Node, Value, check_feeds, load, resolve_outputs
from ortwin.ref.kernel import Kernel
from ortwin.ref.ops import lookup
from ortwin.ref.tensor import NIBBLES, Tensor, byte_size, dtype_name, from_numpy, item_size, to_numpy


class Session:
    """A model ready to run.

    model: a path, the bytes of a model, or an onnx.ModelProto. ModelError if it can't be read, UnsupportedError if a
    node can't be computed exactly as written, both before any data is seen (C9).
    """

    def __init__(self, model: Model) -> None:
        with DefaultEnvironment():  # reading an attribute converts it from binary32
            self._graph = load(model)
            self._kernels = _build(self._graph)

    @property
    def graph(self) -> Graph:
        """The model as read."""
        return self._graph

    def run(self, output_names: Sequence[str] | None, feeds: Mapping[str, npt.NDArray[Any]]) -> list[npt.NDArray[Any]]:
        """The outputs named, in that order, or all outputs of the graph for None.

        feeds: an array per input; an input with an initializer may be left out. InputError if a name, dtype, rank or
        dimension doesn't fit the model, or an operand breaks a rule of its node that only shows at run time. SizeError
        if there is not enough memory for a value.
        """
        names = resolve_outputs(self._graph, output_names)
        check_feeds(self._graph, feeds)
        values: dict[str, Tensor] = dict(self._graph.initializers)
        for name, array in feeds.items():
            values[name] = from_numpy(array)
        with DefaultEnvironment():
            for kernel in self._kernels:
                _run_node(kernel, values)
        return [to_numpy(values[name]) for name in names]


def _build(graph: Graph) -> list[Kernel]:
    """A kernel per node, after checking what is known of the node's inputs against the kernel's rules."""
    known = dict(graph.values)
    fed = {value.name for value in graph.inputs}
    constants = {name: tensor for name, tensor in graph.initializers.items() if name not in fed}
    kernels: list[Kernel] = []
    for node in graph.nodes:
        kernel = lookup(node)
        inputs = [known.get(name, Value(name, 0, None)) if name else None for name in node.inputs]
        rule = kernel.broken_rule(inputs) or kernel.broken_content([constants.get(name) for name in node.inputs])
        if rule:
            raise UnsupportedError(f"{node.label}: {rule}")
        for name, value in zip(node.outputs, kernel.outputs(inputs), strict=False):
            declared = known.get(name)
            if declared is not None and 0 != declared.dtype != value.dtype != 0:
                raise UnsupportedError(
                    f"{node.label}: its output '{name}' is {dtype_name(value.dtype)}, "
                    f"but the model declares {dtype_name(declared.dtype)}"
                )
            if name:  # what is declared of a shape may be wrong, and is not needed
                known[name] = Value(name, value.dtype or (declared.dtype if declared else 0), value.shape)
        kernels.append(kernel)
    return kernels


def _run_node(kernel: Kernel, values: dict[str, Tensor]) -> None:
    node = kernel.node
    operands = [values[name] if name else None for name in node.inputs]
    inputs = [
        None if t is None else Value(name, t.dtype, t.shape) for name, t in zip(node.inputs, operands, strict=True)
    ]
    rule = kernel.broken_rule(inputs) or kernel.broken_content(operands)
    if rule:
        raise InputError(f"{node.label}: {rule}")
    for value in kernel.outputs(inputs):
        _check_size(node, value)
    try:
        results = kernel.run(operands)
    except MemoryError as error:
        raise SizeError(f"{node.label}: no memory for what it needs on the way to its output") from error
    for name, tensor in zip(node.outputs, results, strict=False):
        if name:
            values[name] = tensor


def _check_size(node: Node, value: Value) -> None:
    """SizeError if there is no memory for an output of a node, or numpy has no array of its shape, which may be one
    without elements: better before than after an hour."""
    sizes = [dim for dim in value.shape or () if isinstance(dim, int)]
    if value.dtype and value.shape is not None and len(sizes) == len(value.shape):
        try:
            np.empty(sizes, np.uint8 if value.dtype in NIBBLES else f"V{item_size(value.dtype)}")
        except (MemoryError, ValueError, OverflowError) as error:
            size = byte_size(value.dtype, math.prod(sizes))
            raise SizeError(f"{node.label}: no memory for its output of {size} bytes, shape {sizes}") from error
