"""The op table of the reference: which ops, of which versions and element types, and the class that computes each.

Versions are the ``since_version`` of the ONNX schemas; an entry for version v also serves every opset that resolves
to v. An element type is that of input 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ortwin.ref import binary32, clip, error_function, exponential, logarithm, move, unary
from ortwin.ref.binary32 import INF
from ortwin.ref.errors import UnsupportedError
from ortwin.ref.graph import Node
from ortwin.ref.kernel import Kernel, real
from ortwin.ref.tensor import BYTE_SIZED, FLOAT, INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64

F32: Final = frozenset({FLOAT})
F32_AND_INTEGERS: Final = frozenset({FLOAT, INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64})


class Op:
    """One row: dtypes maps each version to the element types computed; make builds the kernel of a node."""

    def __init__(
        self,
        name: str,
        dtypes: dict[int, frozenset[int]],
        make: Callable[[Node], Kernel],
        domain: str = "",
    ) -> None:
        self.domain = domain
        self.name = name
        self.dtypes = dtypes
        self.versions: tuple[int, ...] = tuple(dtypes)
        self.make = make


def _f32(*versions: int) -> dict[int, frozenset[int]]:
    return dict.fromkeys(versions, F32)


def _clip(node: Node) -> Kernel:
    return clip.ClipByAttributes(node) if node.since_version < 11 else clip.ClipByInputs(node)


def _elementwise(
    name: str, versions: dict[int, frozenset[int]], make: Callable[[Node], unary.Unary], domain: str = ""
) -> Op:
    return Op(name, versions, lambda node: unary.Elementwise(node, make(node)), domain)


def _celu(node: Node) -> unary.Unary:
    alpha = real(node, "alpha")
    if not 0.0 < alpha < INF:
        raise UnsupportedError(f"{node.label}: alpha must be positive and finite")
    return exponential.Celu(alpha)


def _gelu(node: Node) -> unary.Unary:
    approximate = node.attributes.get("approximate")
    if approximate != "tanh":
        raise UnsupportedError(f"{node.label}: approximate={approximate} is not implemented, only tanh")
    return exponential.GeluTanh()


def _quick_gelu(node: Node) -> unary.Unary:
    _check_contributed(node, 1, "alpha")
    return exponential.Swish(real(node, "alpha", binary32.round(1.702)))


def _fast_gelu(node: Node) -> Kernel:
    _check_contributed(node, 2)
    if len(node.inputs) > 1 and node.inputs[1]:
        return unary.Biased(node, exponential.GeluTanh())
    return unary.Elementwise(node, exponential.GeluTanh())


def _check_contributed(node: Node, inputs: int, *attributes: str) -> None:
    """UnsupportedError if a node of com.microsoft, whose schemas the reader doesn't know, is not as its schema says."""
    for name in node.attributes:
        if name not in attributes:
            raise UnsupportedError(f"{node.label}: the op has no attribute {name}")
    if not 1 <= len(node.inputs) <= inputs or len(node.outputs) != 1:
        raise UnsupportedError(
            f"{node.label}: the op takes 1 to {inputs} inputs and 1 output, "
            f"not {len(node.inputs)} and {len(node.outputs)}"
        )


_TABLE: Final = (
    Op("Identity", dict.fromkeys((1, 13, 14, 16, 19, 21, 23, 24, 25), BYTE_SIZED), lambda n: move.Identity(n)),
    Op("Clip", {1: F32, 6: F32, 11: F32, 12: F32_AND_INTEGERS, 13: F32_AND_INTEGERS}, _clip),
    _elementwise("Relu", _f32(1, 6, 13, 14), lambda n: unary.Relu()),
    _elementwise("LeakyRelu", _f32(1, 6, 16), lambda n: unary.LeakyRelu(real(n, "alpha"))),
    _elementwise("ThresholdedRelu", _f32(10, 22), lambda n: unary.ThresholdedRelu(real(n, "alpha"))),
    _elementwise("HardSigmoid", _f32(1, 6, 22), lambda n: unary.HardSigmoid(real(n, "alpha"), real(n, "beta"))),
    _elementwise("HardSwish", _f32(14, 22), lambda n: unary.HardSwish()),
    _elementwise("Abs", _f32(1, 6, 13), lambda n: unary.Abs()),
    _elementwise("Neg", _f32(1, 6, 13), lambda n: unary.Neg()),
    _elementwise("Reciprocal", _f32(1, 6, 13), lambda n: unary.Reciprocal()),
    _elementwise("Sqrt", _f32(1, 6, 13), lambda n: unary.Sqrt()),
    _elementwise("Floor", _f32(1, 6, 13), lambda n: unary.Floor()),
    _elementwise("Ceil", _f32(1, 6, 13), lambda n: unary.Ceil()),
    _elementwise("Round", _f32(11, 22), lambda n: unary.Round()),
    _elementwise("Sign", _f32(9, 13), lambda n: unary.Sign()),
    _elementwise("Softsign", _f32(1, 22), lambda n: unary.Softsign()),
    _elementwise("Exp", _f32(1, 6, 13), lambda n: exponential.Exp()),
    _elementwise("Log", _f32(1, 6, 13), lambda n: logarithm.Log()),
    _elementwise("Tanh", _f32(1, 6, 13), lambda n: exponential.Tanh()),
    _elementwise("Sigmoid", _f32(1, 6, 13), lambda n: exponential.Sigmoid()),
    _elementwise("Erf", _f32(9, 13), lambda n: error_function.Erf()),
    _elementwise("Elu", _f32(1, 6, 22), lambda n: exponential.Elu(real(n, "alpha"))),
    _elementwise("Selu", _f32(1, 6, 22), lambda n: exponential.Selu(real(n, "alpha"), real(n, "gamma"))),
    _elementwise("Celu", _f32(12, 28), _celu),
    _elementwise("Swish", _f32(24), lambda n: exponential.Swish(real(n, "alpha"))),
    _elementwise("Gelu", _f32(20), _gelu),
    _elementwise("QuickGelu", _f32(1), _quick_gelu, "com.microsoft"),
    Op("FastGelu", _f32(1), _fast_gelu, "com.microsoft"),
)

OPS: Final[dict[tuple[str, str], Op]] = {(op.domain, op.name): op for op in _TABLE}
"""Op by (domain, name); the domain of ai.onnx is ""."""


def lookup(node: Node) -> Kernel:
    """The kernel of a node; UnsupportedError, naming node and rule, if the table has no such op or version."""
    op = OPS.get((node.domain, node.op_type))
    if op is None:
        raise UnsupportedError(f"{node.label}: the op is not implemented")
    if node.since_version not in op.dtypes:
        versions = ", ".join(str(version) for version in op.versions)
        raise UnsupportedError(f"{node.label}: version {node.since_version} is not implemented, only {versions}")
    kernel = op.make(node)
    kernel.dtypes = op.dtypes[node.since_version]
    return kernel
