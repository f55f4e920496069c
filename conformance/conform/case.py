"""A case: one node, its operands to the bit, and how an arm is to be called. Plain data with a text form.

    Clip-13 x=float32[3]:0000803f000000bf0000c07f i1=- i2=float32[]:0000003f offset=3
    com.microsoft.QuickGelu-1 @alpha=-0x1.8p+0 x=float32[2,0]: in_place

A token per fact: the op with the version of its schema, attributes behind an @, the operands in their order with type,
shape and bytes as they lie in memory (- for one left out), and whatever differs from an ordinary call. Text in an
attribute is written as in a URL.
"""

from __future__ import annotations

import functools
import math
import re
import urllib.parse
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import onnx
import onnx.helper

from ortwin.ref.errors import InputError
from ortwin.ref.tensor import BYTE_SIZED, DTYPE_NAMES, FLOAT, INT32, UINT8, dtype_name, item_size

Array = npt.NDArray[Any]
AttributeValue: TypeAlias = float | int | str | tuple[int, ...]

ALIGNMENT: Final = 64
"""Offsets count from an address that is a multiple of this."""

_OP: Final = re.compile(r"(?:(?P<domain>[\w.]+)\.)?(?P<op>\w+)-(?P<version>\d+)", re.ASCII)
_OPERAND: Final = re.compile(r"(?P<dtype>\w+)\[(?P<shape>[\d,]*)\]:(?P<data>[0-9a-f]*)", re.ASCII)
_NUMBERS: Final = {name: number for number, name in DTYPE_NAMES.items() if number in BYTE_SIZED}


@dataclass(frozen=True)
class Result:
    """The type of an output that is not x's: that of the input at a position, of these types if there is none. The
    attribute output_dtype goes before."""

    position: int = -1
    dtypes: tuple[int, ...] = (FLOAT,)


RESULTS: Final = {
    "MatMulInteger": Result(dtypes=(INT32,)),
    "QLinearMatMul": Result(7),
    "MatMulIntegerToFloat": Result(2),
    "DynamicQuantizeMatMul": Result(),
    "QuantizeLinear": Result(2, (UINT8,)),
    "DequantizeLinear": Result(1),
    "DynamicQuantizeLinear": Result(dtypes=(UINT8, FLOAT, UINT8)),
}
"""Of the ops whose outputs are not simply of x's type."""


class CaseError(InputError):
    """A text that is no case."""


@dataclass(frozen=True)
class Operand:
    """A tensor: ONNX element type, shape, and the bytes as they lie in memory."""

    dtype: int
    shape: tuple[int, ...]
    data: bytes = field(repr=False)

    @property
    def array(self) -> Array:
        """The elements, read-only."""
        return np.frombuffer(self.data, onnx.helper.tensor_dtype_to_np_dtype(self.dtype)).reshape(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def text(self) -> str:
        """As in the text of a case."""
        return f"{dtype_name(self.dtype)}[{','.join(map(str, self.shape))}]:{self.data.hex()}"


def operand(array: Array, dtype: int) -> Operand:
    """The array's operand; dtype is its ONNX element type."""
    return Operand(dtype, array.shape, array.tobytes())


@dataclass(frozen=True)
class Case:
    """inputs: x and what the op has besides, None for one left out. constant: these others are initializers.

    offset: of x's first byte from an aligned address; the output is put at another, or in_place. threads: the budget.
    shaped: the model says what shapes its inputs have.
    """

    domain: str
    op: str
    version: int
    attributes: tuple[tuple[str, AttributeValue], ...]
    inputs: tuple[Operand | None, ...]
    constant: bool = False
    offset: int = 0
    in_place: bool = False
    threads: int = 1
    shaped: bool = False

    @property
    def x(self) -> Operand:
        """The first input."""
        first = self.inputs[0]
        assert first is not None
        return first

    @property
    def output_offset(self) -> int:
        """Where the output starts: elsewhere than x, so that no arm can rely on their sharing an alignment."""
        return self.offset if self.in_place else ALIGNMENT - 1 - self.offset

    @property
    def feeds(self) -> dict[str, Array]:
        """The inputs of its model, x first."""
        names = input_names(len(self.inputs))
        given = [(n, i) for n, i in zip(names, self.inputs, strict=True) if i is not None]
        return {name: item.array for name, item in given[: 1 if self.constant else None]}

    @property
    def label(self) -> str:
        """Op, version and attributes."""
        attributes = [f"@{name}={_value_text(value)}" for name, value in self.attributes]
        return " ".join([f"{op_text(self.domain, self.op)}-{self.version}", *attributes])

    @property
    def text(self) -> str:
        """The whole case in one line."""
        names = input_names(len(self.inputs))
        inputs = [f"{name}={'-' if i is None else i.text}" for name, i in zip(names, self.inputs, strict=True)]
        numbers = [f"{name}={n}" for name, n, usual in self._settings if n != usual]
        flags = [name for name in ("constant", "in_place", "shaped") if getattr(self, name)]
        return " ".join([self.label, *inputs, *numbers, *flags])

    @property
    def _settings(self) -> tuple[tuple[str, int, int], ...]:
        return ("offset", self.offset, 0), ("threads", self.threads, 1)

    @functools.cached_property
    def signature(self) -> str:
        """Equal for cases that have the same model."""
        shape = str(list(self.x.shape)) if self.shaped else ""
        return " ".join([self.label, dtype_name(self.x.dtype) + shape, *(self._declared(i) for i in self.inputs[1:])])

    def _declared(self, item: Operand | None) -> str:
        """What the model says of an input after the first."""
        if item is None:
            return "-"
        if self.constant:
            return item.text
        return dtype_name(item.dtype) + (str(list(item.shape)) if self.shaped or item.shape == () else "")

    @property
    def result_types(self) -> list[int]:
        """The element types of the outputs: x's, or as RESULTS says."""
        rule = RESULTS.get(self.op)
        if rule is None:
            return [self.x.dtype]
        named = [value for name, value in self.attributes if name == "output_dtype" and isinstance(value, int)]
        position = rule.position
        giver = self.inputs[position] if 0 <= position < len(self.inputs) else None
        return named if named and named[0] else [giver.dtype] if giver is not None else list(rule.dtypes)

    def model(self) -> bytes:
        """The node alone: x of unknown rank, as the others are unless they are of rank 0; outputs y, y1 ..."""
        names = [n if i is not None else "" for n, i in zip(input_names(len(self.inputs)), self.inputs, strict=True)]
        infos = [onnx.helper.make_tensor_value_info("x", self.x.dtype, self.x.shape if self.shaped else None)]
        constants: list[onnx.TensorProto] = []
        for name, item in zip(names[1:], self.inputs[1:], strict=True):
            if item is not None and self.constant:
                constants.append(onnx.helper.make_tensor(name, item.dtype, item.shape, item.data, raw=True))
            elif item is not None:
                told = self.shaped or item.shape == ()  # other ranks are for Run to find out
                infos.append(onnx.helper.make_tensor_value_info(name, item.dtype, item.shape if told else None))
        types = self.result_types
        made_names = output_names(len(types))
        outputs = [onnx.helper.make_tensor_value_info(n, t, None) for n, t in zip(made_names, types, strict=True)]
        node = onnx.helper.make_node(self.op, names, made_names, name="node", domain=self.domain)
        node.attribute.extend(onnx.helper.make_attribute(name, value) for name, value in self.attributes)
        graph = onnx.helper.make_graph([node], "case", infos, outputs, constants)
        opsets = [onnx.helper.make_opsetid(self.domain, self.version)]
        if self.domain:
            opsets.append(onnx.helper.make_opsetid("", 13))  # ONNX Runtime wants it of every model
        made = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10)
        return bytes(made.SerializeToString(deterministic=True))


def input_names(count: int) -> list[str]:
    """What a model calls its inputs."""
    return ["x", *(f"i{k}" for k in range(1, count))]


def output_names(count: int) -> list[str]:
    """What a model calls its outputs."""
    return ["y", *(f"y{k}" for k in range(1, count))]


def op_text(domain: str, op: str) -> str:
    """The op as people name it."""
    return f"{domain}.{op}" if domain else op


def parse(text: str) -> Case:
    """The case of a text. CaseError if it is none."""
    first, *tokens = text.split() or [""]
    named = _OP.fullmatch(first)
    if not named:
        raise CaseError(f"'{first:.40}' does not begin a case: an op with its version does, such as Relu-14")
    attributes: list[tuple[str, AttributeValue]] = []
    inputs: list[Operand | None] = []
    numbers = {"offset": 0, "threads": 1}
    flags = {"constant": False, "in_place": False, "shaped": False}
    for token in tokens:
        name, equals, value = token.partition("=")
        if name.startswith("@") and equals:
            attributes.append((name[1:], _parse_value(value)))
        elif token in flags:
            flags[token] = True
        elif name in numbers and value.isdecimal():
            numbers[name] = int(value)
        elif name == input_names(len(inputs) + 1)[-1] and equals:
            inputs.append(None if value == "-" else _parse_operand(value))
        else:
            raise CaseError(f"'{token:.40}' has no place in a case")
    if not inputs or inputs[0] is None:
        raise CaseError("a case needs its input x")
    if numbers["offset"] >= ALIGNMENT or not 1 <= numbers["threads"] <= 1024:
        raise CaseError(f"offset must be below {ALIGNMENT}, threads 1 to 1024")
    domain = named["domain"] or ""
    return Case(
        domain,
        named["op"],
        int(named["version"]),
        tuple(attributes),
        tuple(inputs),
        flags["constant"],
        numbers["offset"],
        flags["in_place"],
        numbers["threads"],
        flags["shaped"],
    )


def _value_text(value: AttributeValue) -> str:
    if isinstance(value, float):
        return re.sub(r"\.?0*p", "p", value.hex())
    if isinstance(value, tuple):
        return f"[{','.join(map(str, value))}]"
    return f'"{urllib.parse.quote(value)}"' if isinstance(value, str) else str(value)


def _parse_value(text: str) -> AttributeValue:
    if len(text) > 1 and text[0] == text[-1] == '"':
        return urllib.parse.unquote(text[1:-1])
    try:
        if text.startswith("["):
            return tuple(int(part) for part in text.strip("[]").split(",") if part)
        return int(text) if re.fullmatch(r"-?\d+", text) else float.fromhex(text)
    except (ValueError, OverflowError) as error:
        raise CaseError(f"'{text:.40}' is no value of an attribute") from error


def _parse_operand(text: str) -> Operand:
    found = _OPERAND.fullmatch(text)
    if not found or found["dtype"] not in _NUMBERS:
        raise CaseError(f"'{text:.40}' is no operand, such as float32[2]:0000803f00000040")
    dtype = _NUMBERS[found["dtype"]]
    try:
        shape = tuple(int(part) for part in found["shape"].split(",")) if found["shape"] else ()
        data = bytes.fromhex(found["data"])
    except ValueError as error:
        raise CaseError(f"'{text:.40}' is no operand: {error}") from error
    if len(data) != math.prod(shape) * item_size(dtype):
        raise CaseError(f"'{text:.40}' holds {len(data)} bytes, which is not its shape's size")
    return Operand(dtype, shape, data)
