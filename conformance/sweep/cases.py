"""A case: an op with its attributes, its name, the model that runs it; and the cases that get a certificate."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import onnx
import onnx.helper

from ortwin.conformance.sweep.functions import FAMILIES, Family, Function
from ortwin.ref.errors import OrtwinError
from ortwin.ref.ops import OPS
from ortwin.ref.tensor import FLOAT

Value = float | str

HALVES: Final = (int(onnx.TensorProto.FLOAT16), int(onnx.TensorProto.BFLOAT16))


LARGEST: Final = float(np.finfo(np.float32).max)


class CaseError(OrtwinError):
    """The op or an attribute is not one that can be swept."""


@dataclass(frozen=True)
class Case:
    """An op with the attributes that differ from its defaults. domain: "" for ai.onnx."""

    domain: str
    op: str
    given: tuple[tuple[str, Value], ...] = ()

    @property
    def name(self) -> str:
        """Unique, and a file name: Elu, Elu-alpha=0.5, com.microsoft.QuickGelu."""
        name = f"{self.domain}.{self.op}" if self.domain else self.op
        return "-".join([name, *(f"{key}={_text(value)}" for key, value in self.given)])

    @property
    def family(self) -> Family:
        return FAMILIES[self.domain, self.op]

    @property
    def attributes(self) -> dict[str, Value]:
        """All attributes; floats are binary32 values."""
        return {key: _stored(value) for key, value in {**self.family.defaults, **dict(self.given)}.items()}

    @property
    def function(self) -> Function:
        return _function(self)

    @property
    def version(self) -> int:
        """The since_version of the op that is run: every version computes the same. The newest up to 22, which any
        ONNX Runtime that can load the provider knows, if there is one."""
        if self.family.version is not None:
            return self.family.version
        versions = OPS[self.domain, self.op].versions
        return max((version for version in versions if version <= 22), default=min(versions))

    def dtypes(self) -> list[int]:
        """The half types that the op table has for the op, in any version with these attributes."""
        table = OPS[self.domain, self.op].dtypes
        fixed = self.family.version
        found = frozenset[int]().union(*(types for version, types in table.items() if fixed in (None, version)))
        return [dtype for dtype in HALVES if dtype in found]

    def model(self, dtype: int = FLOAT) -> onnx.ModelProto:
        """One node, input x and output y of one dimension of any size, of the first version that has the type."""
        table = OPS[self.domain, self.op].dtypes
        version = self.version if dtype in table[self.version] else min(v for v in table if dtype in table[v])
        node = onnx.helper.make_node(self.op, ["x"], ["y"], domain=self.domain)
        node.attribute.extend(onnx.helper.make_attribute(key, value) for key, value in self.attributes.items())
        values = [onnx.helper.make_tensor_value_info(name, dtype, ["n"]) for name in ("x", "y")]
        imports = [onnx.helper.make_opsetid(self.domain, version)]
        if self.domain:
            imports.append(onnx.helper.make_opsetid("", 21))
        graph = onnx.helper.make_graph([node], "sweep", values[:1], values[1:])
        return onnx.helper.make_model(graph, opset_imports=imports, ir_version=10)


@functools.cache
def _function(case: Case) -> Function:
    return case.family.make(**case.attributes)


def find(name: str, attributes: Mapping[str, str] | None = None) -> Case:
    """The case of an op's or a case's name, with further attributes as text. CaseError if there is none."""
    named = {case.name: case for case in CASES}
    if name in named:
        domain, op, given = named[name].domain, named[name].op, dict(named[name].given)
    else:
        domain, _, op = name.rpartition(".")
        given = {}
        if (domain, op) not in FAMILIES:
            raise CaseError(f"'{name}' can't be swept: choose {', '.join(named)}")
    defaults = FAMILIES[domain, op].defaults
    for key, text in (attributes or {}).items():
        if key not in defaults:
            raise CaseError(f"{op} has no attribute '{key}'" + (f", only {', '.join(defaults)}" if defaults else ""))
        given[key] = text if isinstance(defaults[key], str) else _number(key, text)
    return make(domain, op, **given)


def make(domain: str, op: str, **given: Value) -> Case:
    """A case; an attribute that is the default is not named."""
    defaults = FAMILIES[domain, op].defaults
    changed = {key: value for key, value in given.items() if _stored(value) != _stored(defaults[key])}
    return Case(domain, op, tuple((key, _stored(changed[key])) for key in defaults if key in changed))


def _stored(value: Value) -> Value:
    """An attribute as a model holds it."""
    return value if isinstance(value, str) else float(np.float32(value))


def _text(value: Value) -> str:
    """The shortest digits that stand for a binary32 value."""
    return value if isinstance(value, str) else str(np.float32(value))


def _number(key: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError as error:
        raise CaseError(f"{key} must be a number, not '{text:.40}'") from error
    if not abs(value) <= LARGEST:
        raise CaseError(f"{key} must be a binary32 number, not '{text:.40}'")
    return value


_OTHERS: Final = (
    make("", "Clip", min=0.0, max=6.0),
    make("", "HardSigmoid", alpha=1.0 / 6.0),
    make("", "LeakyRelu", alpha=0.1),
    make("", "Gelu", approximate="tanh"),
)
"""Cases beside the defaults."""


def _cases() -> list[Case]:
    """Every op of the reference's table that can be swept, in the order of FAMILIES."""
    found = [make(domain, op) for domain, op in FAMILIES if (domain, op) in OPS]
    return found + [case for case in _OTHERS if (case.domain, case.op) in OPS]


CASES: Final = _cases()
"""The cases that get a certificate."""
