"""The op table of the reference: which ops, of which versions and element types, and the class that computes each.

Versions are the ``since_version`` of the ONNX schemas; an entry for version v also serves every opset that resolves
to v. An element type is that of input 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ortwin.ref import (
    binary,
    binary32,
    clip,
    error_function,
    exponential,
    integer_matmul,
    logarithm,
    matmul,
    move,
    nbits,
    quant,
    smooth,
    unary,
)
from ortwin.ref.binary32 import INF
from ortwin.ref.errors import UnsupportedError
from ortwin.ref.graph import Node
from ortwin.ref.kernel import Kernel, real
from ortwin.ref.tensor import (
    BYTE_SIZED,
    FLOAT,
    FLOAT16,
    FLOATS,
    INT4,
    INT8,
    INT16,
    INT32,
    INT64,
    UINT4,
    UINT8,
    UINT16,
    UINT32,
    UINT64,
)

F32: Final = frozenset({FLOAT})
F32_F16: Final = frozenset({FLOAT, FLOAT16})
INTEGERS: Final = frozenset({INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64})
BYTES: Final = frozenset({INT8, UINT8})
WHOLE: Final = frozenset({INT32, INT64, UINT32, UINT64})
STORED: Final = BYTES | {INT32}
STORED_21: Final = STORED | {INT16, UINT16, INT4, UINT4}
ARITHMETIC: Final = {
    1: F32_F16,
    6: F32_F16 | {INT32, INT64},
    7: F32_F16 | {INT32, INT64},
    13: FLOATS | {INT32, INT64},
    14: FLOATS | {INT32, INT64},
}


class Op:
    """One row: dtypes maps each version to the element types computed; make builds the kernel of a node.

    elementwise: the output has the type of input 0, and the shape that the inputs broadcast to.
    """

    def __init__(
        self,
        name: str,
        dtypes: dict[int, frozenset[int]],
        make: Callable[[Node], Kernel],
        domain: str = "",
        elementwise: bool = True,
    ) -> None:
        self.domain = domain
        self.name = name
        self.dtypes = dtypes
        self.versions: tuple[int, ...] = tuple(dtypes)
        self.make = make
        self.elementwise = elementwise


def _floats(*versions: int, bfloat16: int) -> dict[int, frozenset[int]]:
    """float32 and float16 in all versions, bfloat16 where the schema allows it: from the version given on."""
    return {version: FLOATS if version >= bfloat16 else F32_F16 for version in versions}


def _whole(name: str, dtypes: dict[int, frozenset[int]], make: Callable[[Node], Kernel], domain: str = "") -> Op:
    return Op(name, dtypes, make, domain, elementwise=False)


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
    if approximate not in ("none", "tanh"):
        raise UnsupportedError(f"{node.label}: approximate={approximate} is not implemented, only none and tanh")
    return smooth.Gelu() if approximate == "none" else exponential.GeluTanh()


def _contributed_gelu(node: Node) -> unary.Unary:
    _check_contributed(node, 1, 1)
    return smooth.Gelu()


def _quick_gelu(node: Node) -> unary.Unary:
    _check_contributed(node, 1, 1, "alpha")
    return exponential.Swish(real(node, "alpha", binary32.round(1.702)))


def _fast_gelu(node: Node) -> Kernel:
    _check_contributed(node, 1, 2)
    if len(node.inputs) > 1 and node.inputs[1]:
        return unary.Biased(node, exponential.GeluTanh())
    return unary.Elementwise(node, exponential.GeluTanh())


def _bias_gelu(node: Node) -> Kernel:
    _check_contributed(node, 1, 2)
    if len(node.inputs) < 2 or not node.inputs[1]:
        raise UnsupportedError(f"{node.label}: the bias is missing")
    return unary.Biased(node, smooth.Gelu())


def _matmul_integer_to_float(node: Node) -> Kernel:
    _check_contributed(node, 4, 7)
    return integer_matmul.MatMulIntegerToFloat(node)


def _dynamic_quantize_matmul(node: Node) -> Kernel:
    _check_contributed(node, 3, 5)
    return integer_matmul.DynamicQuantizeMatMul(node)


def _matmul_nbits(node: Node) -> Kernel:
    _check_contributed(node, 3, 6, "K", "N", "bits", "block_size", "accuracy_level", "weight_prepacked")
    return nbits.MatMulNBits(node)


def _check_contributed(node: Node, least: int, most: int, *attributes: str) -> None:
    """UnsupportedError if a node of com.microsoft, whose schemas the reader doesn't know, is not as its schema says."""
    for name in node.attributes:
        if name not in attributes:
            raise UnsupportedError(f"{node.label}: the op has no attribute {name}")
    if not least <= len(node.inputs) <= most or len(node.outputs) != 1:
        raise UnsupportedError(
            f"{node.label}: the op takes {least} to {most} inputs and 1 output, "
            f"not {len(node.inputs)} and {len(node.outputs)}"
        )


_TABLE: Final = (
    Op("Identity", dict.fromkeys((1, 13, 14, 16, 19, 21, 23, 24, 25), BYTE_SIZED), lambda n: move.Identity(n)),
    Op("Clip", {1: F32_F16, 6: F32_F16, 11: F32_F16, 12: F32_F16 | INTEGERS, 13: FLOATS | INTEGERS}, _clip),
    Op("Add", ARITHMETIC, lambda n: binary.Binary(n, binary.Add())),
    Op("Sub", ARITHMETIC, lambda n: binary.Binary(n, binary.Sub())),
    Op("Mul", ARITHMETIC, lambda n: binary.Binary(n, binary.Mul())),
    Op("Div", ARITHMETIC, lambda n: binary.Binary(n, binary.Div())),
    _elementwise("Relu", _floats(1, 6, 13, 14, bfloat16=13), lambda n: unary.Relu()),
    _elementwise("LeakyRelu", _floats(1, 6, 16, bfloat16=16), lambda n: unary.LeakyRelu(real(n, "alpha"))),
    _elementwise("ThresholdedRelu", _floats(10, 22, bfloat16=22), lambda n: unary.ThresholdedRelu(real(n, "alpha"))),
    _elementwise(
        "HardSigmoid", _floats(1, 6, 22, bfloat16=22), lambda n: unary.HardSigmoid(real(n, "alpha"), real(n, "beta"))
    ),
    _elementwise("HardSwish", _floats(14, 22, bfloat16=22), lambda n: unary.HardSwish()),
    _elementwise("Abs", _floats(1, 6, 13, bfloat16=13), lambda n: unary.Abs()),
    _elementwise("Neg", _floats(1, 6, 13, bfloat16=13), lambda n: unary.Neg()),
    _elementwise("Reciprocal", _floats(1, 6, 13, bfloat16=13), lambda n: unary.Reciprocal()),
    _elementwise("Sqrt", _floats(1, 6, 13, bfloat16=13), lambda n: unary.Sqrt()),
    _elementwise("Floor", _floats(1, 6, 13, bfloat16=13), lambda n: unary.Floor()),
    _elementwise("Ceil", _floats(1, 6, 13, bfloat16=13), lambda n: unary.Ceil()),
    _elementwise("Round", _floats(11, 22, bfloat16=22), lambda n: unary.Round()),
    _elementwise("Sign", _floats(9, 13, bfloat16=13), lambda n: unary.Sign()),
    _elementwise("Softsign", _floats(1, 22, bfloat16=22), lambda n: unary.Softsign()),
    _elementwise("Exp", _floats(1, 6, 13, bfloat16=13), lambda n: exponential.Exp()),
    _elementwise("Log", _floats(1, 6, 13, bfloat16=13), lambda n: logarithm.Log()),
    _elementwise("Tanh", _floats(1, 6, 13, bfloat16=13), lambda n: exponential.Tanh()),
    _elementwise("Sigmoid", _floats(1, 6, 13, bfloat16=13), lambda n: exponential.Sigmoid()),
    _elementwise("Erf", _floats(9, 13, bfloat16=13), lambda n: error_function.Erf()),
    _elementwise("Elu", _floats(1, 6, 22, bfloat16=22), lambda n: exponential.Elu(real(n, "alpha"))),
    _elementwise(
        "Selu", _floats(1, 6, 22, bfloat16=22), lambda n: exponential.Selu(real(n, "alpha"), real(n, "gamma"))
    ),
    _elementwise("Celu", {12: F32, 28: FLOATS}, _celu),
    _elementwise("Swish", _floats(24, bfloat16=24), lambda n: exponential.Swish(real(n, "alpha"))),
    _elementwise("Gelu", _floats(20, bfloat16=20), _gelu),
    _elementwise("Softplus", _floats(1, 22, bfloat16=22), lambda n: smooth.Softplus()),
    _elementwise("Mish", _floats(18, 22, bfloat16=22), lambda n: smooth.Mish()),
    _elementwise("Gelu", _floats(1, bfloat16=1), _contributed_gelu, "com.microsoft"),
    _elementwise("QuickGelu", _floats(1, bfloat16=1), _quick_gelu, "com.microsoft"),
    Op("FastGelu", _floats(1, bfloat16=1), _fast_gelu, "com.microsoft"),
    Op("BiasGelu", _floats(1, bfloat16=1), _bias_gelu, "com.microsoft"),
    _whole(
        "QuantizeLinear",
        dict.fromkeys((10, 13), F32 | {INT32})
        | dict.fromkeys((19, 21), FLOATS)
        | dict.fromkeys((23, 24, 25, 28), FLOATS | {INT32}),
        lambda n: quant.QuantizeLinear(n),
    ),
    _whole(
        "DequantizeLinear",
        dict.fromkeys((10, 13, 19), STORED) | dict.fromkeys((21, 23, 24, 25, 28), STORED_21),
        lambda n: quant.DequantizeLinear(n),
    ),
    _whole("DynamicQuantizeLinear", {11: F32}, lambda n: quant.DynamicQuantizeLinear(n)),
    _whole("MatMul", {1: F32_F16, 9: F32_F16 | WHOLE, 13: FLOATS | WHOLE}, lambda n: matmul.MatMul(n)),
    _whole(
        "Gemm",
        dict.fromkeys((1, 6, 7), F32_F16) | dict.fromkeys((9, 11), F32_F16 | WHOLE) | {13: FLOATS | WHOLE},
        lambda n: matmul.Gemm(n),
    ),
    _whole("MatMulInteger", {10: BYTES}, lambda n: integer_matmul.MatMulInteger(n)),
    _whole("QLinearMatMul", dict.fromkeys((10, 21), BYTES), lambda n: integer_matmul.QLinearMatMul(n)),
    _whole("MatMulIntegerToFloat", {1: BYTES}, _matmul_integer_to_float, "com.microsoft"),
    _whole("DynamicQuantizeMatMul", {1: F32}, _dynamic_quantize_matmul, "com.microsoft"),
    _whole("MatMulNBits", _floats(1, bfloat16=1), _matmul_nbits, "com.microsoft"),
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
