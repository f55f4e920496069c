"""Reads an ONNX model into plain typed objects: what every backend of this package starts from.

The onnx package decides what a model is: its checker runs first, its schemas give versions and attribute defaults, its
inliner replaces calls of model-local functions. Nothing of protobuf is left afterwards.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import onnx
import onnx.checker
import onnx.defs
import onnx.numpy_helper
from onnx.external_data_helper import uses_external_data

from ortwin.ref.errors import InputError, ModelError, UnsupportedError
from ortwin.ref.functions import inline, node_lists
from ortwin.ref.tensor import DTYPE_NAMES, Tensor, byte_size, dtype_name, dtype_number, from_numpy

Model: TypeAlias = str | os.PathLike[str] | bytes | onnx.ModelProto
Attribute: TypeAlias = "int | float | str | Tensor | Graph | list[int] | list[float] | list[str]"


@dataclass(frozen=True)
class Value:
    """What is known of a tensor: dtype 0, shape None and a dimension None are unknown, a str names a dimension."""

    name: str
    dtype: int
    shape: tuple[int | str | None, ...] | None


@dataclass(frozen=True, eq=False)
class Node:
    """One op call. since_version is that of the schema in the model's opset; attributes include its defaults.

    domain is "" for ai.onnx; the name "" among inputs or outputs stands for one left out. Float attributes are Python
    floats holding binary32 values. A domain that the onnx package has no schemas of leaves attributes as written and
    since_version as the opset version the model imports.
    """

    name: str
    domain: str
    op_type: str
    since_version: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Attribute]

    @property
    def label(self) -> str:
        """The node as messages name it."""
        domain = f"{self.domain}." if self.domain else ""
        return f"node '{self.name}' ({domain}{self.op_type}-{self.since_version})"


@dataclass(frozen=True, eq=False)
class Graph:
    """A graph: inputs may have an initializer, which a feed then overrides; nodes are in topological order.

    values holds whatever the model says of inputs, outputs, initializers and intermediates.
    """

    name: str
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    initializers: dict[str, Tensor]
    nodes: tuple[Node, ...]
    opsets: dict[str, int]
    values: dict[str, Value]

    @property
    def required_inputs(self) -> tuple[str, ...]:
        """Names of the inputs that have no initializer."""
        return tuple(value.name for value in self.inputs if value.name not in self.initializers)


def load(model: Model) -> Graph:
    """Reads a model from a path, its bytes or a ModelProto (which is not changed).

    ModelError: not readable, not a model, refused by onnx.checker, an opset newer than the installed onnx package,
    external data without a path to look beside, sparse initializers. UnsupportedError: values that are no tensors, or
    of strings or of elements that neither fill bytes nor halves of them.
    """
    path = os.fspath(model) if isinstance(model, str | os.PathLike) else None
    proto = _parse(model)
    _check_text(proto)
    _rename_default_domain(proto)
    external = next((t.name for t in _tensors(proto) if uses_external_data(t)), None)
    if external is not None and path is None:
        raise ModelError(f"tensor '{external}' keeps its data in another file: give the model's path, not its contents")
    _check(proto, path if external is not None else None)
    opsets = {entry.domain: entry.version for entry in proto.opset_import}
    newest = onnx.defs.onnx_opset_version()
    if opsets.get("", 0) > newest:
        raise ModelError(f"the model's opset {opsets['']} is newer than {newest}, the newest the onnx package knows")
    folder = os.path.dirname(os.path.abspath(path)) if path is not None else ""
    graph = _Reader(opsets, folder).graph(inline(proto).graph)
    _check_defined(graph)
    return graph


def check_feeds(graph: Graph, feeds: Mapping[str, npt.NDArray[Any]]) -> None:
    """InputError if a feed has no input, an input no feed, or dtype, rank or a dimension don't fit.

    Dimensions of the same name must be equal across all feeds.
    """
    inputs = {value.name: value for value in graph.inputs}
    for name in feeds:
        if name not in inputs:
            raise InputError(f"the model has no input '{name}', only {_listed(list(inputs))}")
    for name in graph.required_inputs:
        if name not in feeds:
            raise InputError(f"input '{name}' is missing")
    dims: dict[str, tuple[int, str]] = {}
    for name, array in feeds.items():
        _check_feed(inputs[name], array, dims)


def resolve_outputs(graph: Graph, names: Sequence[str] | None) -> list[str]:
    """The names as a list, all outputs for None. InputError for a name that is no output of the graph."""
    outputs = [value.name for value in graph.outputs]
    if names is None:
        return outputs
    for name in names:
        if name not in outputs:
            raise InputError(f"the model has no output '{name}', only {_listed(outputs)}")
    return list(names)


def _check_feed(value: Value, array: npt.NDArray[Any], dims: dict[str, tuple[int, str]]) -> None:
    if not isinstance(array, np.ndarray):
        raise InputError(f"input '{value.name}' must be a numpy array, not {type(array).__name__}")
    if value.dtype != 0 and dtype_number(array.dtype) != value.dtype:
        raise InputError(f"input '{value.name}' must be {dtype_name(value.dtype)}, not {array.dtype}")
    if value.shape is None:
        return
    if array.ndim != len(value.shape):
        raise InputError(f"input '{value.name}' must have rank {len(value.shape)}, not {array.ndim}")
    for axis, (dim, size) in enumerate(zip(value.shape, array.shape, strict=True)):
        if isinstance(dim, int) and dim != size:
            raise InputError(f"input '{value.name}' must have size {dim} on axis {axis}, not {size}")
        if isinstance(dim, str):
            seen, where = dims.setdefault(dim, (size, value.name))
            if seen != size:
                raise InputError(
                    f"dimension '{dim}' is {seen} in input '{where}', but {size} in '{value.name}', axis {axis}"
                )


def _listed(names: list[str]) -> str:
    return ", ".join(f"'{name}'" for name in names) or "none"


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".")


def _parse(model: Model) -> onnx.ModelProto:
    if isinstance(model, onnx.ModelProto):
        copy = onnx.ModelProto()
        copy.CopyFrom(model)
        return copy
    where = "the bytes given" if isinstance(model, bytes) else f"'{os.fspath(model)}'"
    try:
        if isinstance(model, bytes):
            return onnx.load_from_string(model)
        return onnx.load(os.fspath(model), load_external_data=False)
    except OSError as error:
        raise ModelError(f"can't read {where}: {error.strerror or error}") from error
    except Exception as problem:  # the parsers of the binary and text formats have no base class in common
        raise ModelError(f"{where} can't be parsed as an ONNX model: {_one_line(problem)}") from problem


def _check(proto: onnx.ModelProto, path: str | None) -> None:
    """onnx.checker on the model in memory, or on the file if tensors' data is to be found beside it.

    The checker wants a shape on every graph input and output, which the ONNX text leaves optional (an unknown rank):
    those without get one while it looks.
    """
    unranked = [
        value.type.tensor_type
        for value in (*proto.graph.input, *proto.graph.output)
        if value.type.HasField("tensor_type") and not value.type.tensor_type.HasField("shape")
    ]
    for tensor_type in unranked:
        tensor_type.shape.SetInParent()
    try:
        onnx.checker.check_model(proto if path is None else path)
    except onnx.checker.ValidationError as error:
        raise ModelError(f"the model is not valid: {_one_line(error)}") from error
    finally:
        for tensor_type in unranked:
            tensor_type.ClearField("shape")


def _check_text(proto: onnx.ModelProto) -> None:
    """ModelError if a name is no UTF-8: protobuf hands such ones over as bytes, against what it says of their type."""
    graph = proto.graph
    names: list[Any] = []  # through getattr: compiled code would refuse bytes where str is declared
    owners: list[Any] = [*proto.opset_import, *proto.functions, *_tensors(proto)]
    owners += [*graph.input, *graph.output, *graph.value_info]
    for nodes in node_lists(proto):
        owners += nodes
        for node in nodes:
            owners += node.attribute
    for owner in owners:
        for field in ("name", "domain", "op_type"):
            names.append(getattr(owner, field, ""))
        if isinstance(owner, onnx.NodeProto | onnx.FunctionProto):
            names += [*getattr(owner, "input", ()), *getattr(owner, "output", ())]
    for name in names:
        if not isinstance(name, str):
            raise ModelError(f"a name in the model is not UTF-8: {name!r}")


def _tensors(proto: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    yield from proto.graph.initializer
    for nodes in node_lists(proto):
        for node in nodes:
            for attribute in node.attribute:
                yield from (attribute.t, *attribute.tensors)
                for graph in (attribute.g, *attribute.graphs):
                    yield from graph.initializer


def _rename_default_domain(proto: onnx.ModelProto) -> None:
    """ "ai.onnx" is another spelling of "", which the checker and the schemas know it by."""
    for owner in (proto, *proto.functions):
        for entry in owner.opset_import:
            if entry.domain == "ai.onnx":
                entry.domain = ""
    for nodes in node_lists(proto):
        for node in nodes:
            if node.domain == "ai.onnx":
                node.domain = ""


class _Reader:
    """Converts checked protobuf messages; folder is where external data lies."""

    def __init__(self, opsets: dict[str, int], folder: str) -> None:
        self.opsets = opsets
        self.folder = folder

    def graph(self, proto: onnx.GraphProto) -> Graph:
        if proto.sparse_initializer:
            raise ModelError(
                f"initializer '{proto.sparse_initializer[0].values.name}' is sparse, which is not supported"
            )
        initializers = {
            tensor.name: self.tensor(tensor, f"initializer '{tensor.name}'") for tensor in proto.initializer
        }
        inputs = tuple(_value(info) for info in proto.input)
        outputs = tuple(_value(info) for info in proto.output)
        for info in (*proto.input, *proto.output):
            kind = info.type.WhichOneof("value")
            if kind is not None and kind != "tensor_type":
                raise UnsupportedError(
                    f"'{info.name}' is a {kind.removesuffix('_type')}; graph inputs and outputs must be tensors"
                )
        values = {value.name: value for value in (*(_value(info) for info in proto.value_info), *outputs, *inputs)}
        for name, tensor in initializers.items():  # what is there counts, not what is said of it
            declared = values.get(name)
            if declared is not None and declared in inputs and not _fits(tensor, declared):
                raise ModelError(f"initializer '{name}' is no {_described(declared)}, as the input of that name is")
            values[name] = Value(name, tensor.dtype, tensor.shape)
        for value in inputs:
            values[value.name] = value  # a feed may take the place of the initializer
            if value.dtype == 0:
                raise ModelError(f"input '{value.name}' has no element type")
            try:
                byte_size(value.dtype, 1)
            except UnsupportedError as error:
                raise UnsupportedError(f"input '{value.name}': {error}") from error
        return Graph(proto.name, inputs, outputs, initializers, self.nodes(proto.node), dict(self.opsets), values)

    def nodes(self, protos: Sequence[onnx.NodeProto]) -> tuple[Node, ...]:
        taken = {proto.name for proto in protos}
        nodes: list[Node] = []
        for index, proto in enumerate(protos):
            name = proto.name or f"{proto.op_type}_{index}"
            while not proto.name and name in taken:
                name += "_"
            taken.add(name)
            nodes.append(self.node(proto, name))
        return tuple(nodes)

    def node(self, proto: onnx.NodeProto, name: str) -> Node:
        version = self.opsets.get(proto.domain, 0)
        if version == 0:
            raise ModelError(
                f"node '{name}' is of domain '{proto.domain or 'ai.onnx'}', which the model does not import"
            )
        attributes: dict[str, Attribute] = {}
        if onnx.defs.has(proto.op_type, version, proto.domain):
            schema = onnx.defs.get_schema(proto.op_type, version, proto.domain)
            version = schema.since_version
            for key, definition in schema.attributes.items():
                if definition.default_value.type != onnx.AttributeProto.UNDEFINED:
                    attributes[key] = self.attribute(definition.default_value, name)
        for attribute in proto.attribute:
            attributes[attribute.name] = self.attribute(attribute, name)
        return Node(name, proto.domain, proto.op_type, version, tuple(proto.input), tuple(proto.output), attributes)

    def attribute(self, proto: onnx.AttributeProto, node: str) -> Attribute:
        where = f"attribute '{proto.name}' of node '{node}'"
        if proto.ref_attr_name:
            raise ModelError(f"{where} refers to an attribute of a function, but stands in none")
        if proto.type == onnx.AttributeProto.FLOAT:
            return proto.f
        if proto.type == onnx.AttributeProto.INT:
            return proto.i
        if proto.type == onnx.AttributeProto.STRING:
            return _text(proto.s)
        if proto.type == onnx.AttributeProto.TENSOR:
            return self.tensor(proto.t, where)
        if proto.type == onnx.AttributeProto.GRAPH:
            return self.graph(proto.g)
        if proto.type == onnx.AttributeProto.FLOATS:
            return list(proto.floats)
        if proto.type == onnx.AttributeProto.INTS:
            return list(proto.ints)
        if proto.type == onnx.AttributeProto.STRINGS:
            return [_text(text) for text in proto.strings]
        raise UnsupportedError(f"{where} has type {onnx.AttributeProto.AttributeType.Name(proto.type)}")

    def tensor(self, proto: onnx.TensorProto, where: str) -> Tensor:
        if proto.data_type not in DTYPE_NAMES:
            raise ModelError(f"{where} has element type {proto.data_type}, which ONNX does not define")
        try:
            byte_size(proto.data_type, 1)
            array = onnx.numpy_helper.to_array(proto, self.folder)
            if array.dtype == np.bool_:  # any byte but 0 is true; the values of int32_data go through a byte as well
                wide = np.array(proto.int32_data) if proto.int32_data else np.frombuffer(array.tobytes(), np.uint8)
                array = (wide != 0).reshape(array.shape)
            return from_numpy(array)
        except UnsupportedError as error:
            raise UnsupportedError(f"{where}: {error}") from error
        except (ValueError, TypeError, OSError, onnx.checker.ValidationError) as problem:
            raise ModelError(f"{where} can't be read: {_one_line(problem)}") from problem


def _fits(tensor: Tensor, value: Value) -> bool:
    if value.dtype != tensor.dtype or (value.shape is not None and len(value.shape) != len(tensor.shape)):
        return False
    dims = zip(value.shape or (), tensor.shape, strict=False)
    return all(not isinstance(dim, int) or dim == size for dim, size in dims)


def _described(value: Value) -> str:
    shape = "" if value.shape is None else str([dim if dim is not None else "?" for dim in value.shape])
    return f"{dtype_name(value.dtype)}{shape}"


def _check_defined(graph: Graph) -> None:
    """ModelError if a node or an output uses a value that nothing before it makes: bad functions leave such behind."""
    defined = {value.name for value in graph.inputs} | graph.initializers.keys()
    for node in graph.nodes:
        for name in node.inputs:
            if name and name not in defined:
                raise ModelError(f"{node.label}: its input '{name}' is made by no node before it")
        defined.update(node.outputs)
    for value in graph.outputs:
        if value.name not in defined:
            raise ModelError(f"output '{value.name}' is made by no node")


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")  # ONNX strings are bytes; those that aren't text survive


def _value(proto: onnx.ValueInfoProto) -> Value:
    if proto.type.WhichOneof("value") != "tensor_type":
        return Value(proto.name, 0, None)
    tensor = proto.type.tensor_type
    shape = tuple(_dim(dim) for dim in tensor.shape.dim) if tensor.HasField("shape") else None
    return Value(proto.name, tensor.elem_type, shape)


def _dim(proto: onnx.TensorShapeProto.Dimension) -> int | str | None:
    if proto.HasField("dim_value"):
        return proto.dim_value if proto.dim_value >= 0 else None  # exporters write -1 for unknown
    return proto.dim_param or None
