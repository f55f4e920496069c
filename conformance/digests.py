"""Digests of what the reference computes, to compare two builds of it: the compiled and the interpreted one.

`python -m ortwin.conformance.digests` prints a line "name sha256" per case: every op in every version, with its element
types and several attributes, and the arithmetic underneath on operands made to be hard to round. Only ortwin.ref is
used, and numbers come from a hash, so the cases are the same everywhere.
"""

from __future__ import annotations

import hashlib
import struct
import sys
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnx
import onnx.helper

from ortwin import ref
from ortwin.ref import binary32
from ortwin.ref.half import BFLOAT16, BINARY16
from ortwin.ref.ops import OPS
from ortwin.ref.tensor import FLOAT, FLOATS, INT8, INT32, NIBBLES, UINT8, dtype_name, dtype_number

Array = npt.NDArray[Any]

FRACTIONS: Final = (0x000000, 0x000001, 0x2AAAAA, 0x3FFFFF, 0x400000, 0x400001, 0x7FFFFE, 0x7FFFFF)
RANDOM: Final = 4096
STEP: Final = 61
"""Between patterns of a half type; prime to 2, so that exponents and fractions go together in many ways."""

SPECIAL: Final = (0.0, 0.2, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 6.0, 2.0**23 - 0.5, 2.0**23, 2.0**24 + 2.0, 2.0**31)

ATTRIBUTES: Final[dict[str, tuple[dict[str, Any], ...]]] = {
    "LeakyRelu": ({"alpha": 0.0}, {"alpha": -1.5}, {"alpha": 1e-40}, {"alpha": float("nan")}),
    "ThresholdedRelu": ({"alpha": -1.0}, {"alpha": 0.0}, {"alpha": float("inf")}),
    "HardSigmoid": ({"alpha": 1.0 / 6.0, "beta": 0.5}, {"alpha": -3.0, "beta": 1e-40}, {"alpha": float("inf")}),
    "Elu": ({"alpha": -1.5}, {"alpha": 1e-40}, {"alpha": 50.0}, {"alpha": float("inf")}),
    "Selu": ({"alpha": 0.3, "gamma": -0.7}, {"alpha": 1e-40, "gamma": 2.0}, {"alpha": 3e38, "gamma": 3e38}),
    "Celu": ({"alpha": 0.3}, {"alpha": 1e-40}, {"alpha": 1e30}),
    "Swish": ({"alpha": -1.5}, {"alpha": 0.0}, {"alpha": 1e-37}, {"alpha": 50.0}, {"alpha": float("nan")}),
    "com.microsoft.QuickGelu": ({"alpha": -1.5}, {"alpha": 50.0}),
    "Gelu": ({"approximate": "tanh"},),
    "Clip": ({"min": -1.0, "max": 1.0}, {"min": 2.0, "max": -2.0}, {"min": 0.0}, {"max": float("nan")}),
}
"""Attributes beside the defaults; for a Clip with bounds as inputs, the bounds. By the op's name, which comes after its
domain if that is not ai.onnx."""


WHOLE_ATTRIBUTES: Final[dict[str, tuple[dict[str, Any], ...]]] = {
    "Gemm": ({"transB": 1, "alpha": -3.0, "beta": 5.0},),
    "MatMulNBits": tuple({"K": 40, "N": 20, "block_size": 16, "accuracy_level": level} for level in (0, 4)),
}
"""Attributes of ops that are not elementwise, the first being those of the case without any in its name."""


def random_bytes(name: str, size: int) -> bytes:
    """Bytes that depend on the name only."""
    return hashlib.shake_256(name.encode()).digest(size)


def patterns() -> Array:
    """Binary32 patterns: every exponent, special values and their neighbours, random ones."""
    exponents = [s << 31 | e << 23 | f for s in (0, 1) for e in range(256) for f in FRACTIONS]
    special = np.array(SPECIAL, np.float32).view(np.uint32)
    near = [int(bits) + step & 0xFFFFFFFF | sign for bits in special for step in (-1, 0, 1) for sign in (0, 1 << 31)]
    random = np.frombuffer(random_bytes("patterns", 4 * RANDOM), "<u4")
    return np.concatenate([np.array(exponents, np.uint32), np.array(near, np.uint32), random.astype(np.uint32)])


def operand(dtype: int) -> Array:
    """Elements of any type of whole bytes: the patterns for float32, even steps through the half types, else random."""
    if dtype == FLOAT:
        return patterns().view(np.float32)
    native = onnx.helper.tensor_dtype_to_np_dtype(dtype)
    if dtype in FLOATS:
        return np.arange(0, 1 << 16, STEP).astype(np.uint16).view(native)
    data = random_bytes(dtype_name(dtype), RANDOM * native.itemsize)
    if dtype in NIBBLES:
        return (np.frombuffer(data, np.int8) & 7).astype(native)
    if native.kind == "b":
        data = bytes(byte & 1 for byte in data)
    return np.frombuffer(data, native.newbyteorder("<")).astype(native)


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _factor(dtype: int, *shape: int) -> Array:
    """A matrix: of floats of like size, whose sums are finite and are rounded; of integers of any size."""
    native = onnx.helper.tensor_dtype_to_np_dtype(dtype)
    count = int(np.prod(shape))
    if dtype in FLOATS:
        whole = np.frombuffer(random_bytes(f"factor {shape}", 2 * count), "<i2")
        return (whole.astype(np.float32) * np.float32(2.0**-9)).astype(native).reshape(shape)
    data = random_bytes(f"factor {shape} {dtype_name(dtype)}", count * native.itemsize)
    return np.frombuffer(data, native.newbyteorder("<")).astype(native).reshape(shape)


def _operands(domain: str, name: str, version: int, dtype: int) -> dict[str, Array]:
    """Operands of the ops that are not elementwise, by name and in order: matrices of 24 x 300 and 300 x 20; of those
    that quantise, of 24 x 40 and 40 x 20, with scales per column."""
    if name == "MatMul":
        return {"a": _factor(dtype, 24, 300), "b": _factor(dtype, 300, 20)}
    if name == "Gemm":
        shape = (20,) if version >= 7 else (24, 20)
        return {"a": _factor(dtype, 24, 300), "b": _factor(dtype, 20, 300), "c": _factor(dtype, *shape)}
    x = operand(dtype)
    scale = np.array(0.37, np.float32)
    if name == "QuantizeLinear":
        typed = scale.astype(x.dtype) if version >= 19 and dtype in FLOATS else scale
        return {"x": x, "scale": typed, "zero": np.array(100, np.uint8)}
    if name == "DequantizeLinear":
        return {"x": x, "scale": scale}
    if name == "DynamicQuantizeLinear":
        return {"x": np.nan_to_num(x, nan=1.0, posinf=1e30, neginf=-1e30).clip(-1e30, 1e30)}
    if name == "MatMulNBits":
        finite, weights = np.linspace(-3.0, 5.0, 920).astype(x.dtype).reshape(23, 40), operand(UINT8)
        return {
            "a": np.concatenate([finite, np.resize(x, (1, 40))]),
            "b": np.resize(weights, (20, 3, 8)),
            "s": np.linspace(0.001, 0.03, 60).astype(x.dtype),
            "z": np.resize(weights[::-1], (20, 2)),
        }
    a, b = np.resize(x, (24, 40)), np.resize(operand(INT8), (40, 20))
    scales, zeros = np.linspace(0.001, 0.03, 20, dtype=np.float32), np.resize(operand(INT8), 20)
    zero = a[0, :1].reshape(())
    if name == "MatMulInteger":
        return {"a": a, "b": b, "a_zero": np.resize(a, 24), "b_zero": zeros}
    if name == "QLinearMatMul":
        return {"a": a, "as": scale, "az": zero, "b": b, "bs": scales, "bz": zeros, "ys": scale, "yz": zero}
    if name == "MatMulIntegerToFloat":
        return {"a": a, "b": b, "as": scale, "bs": scales, "az": zero, "bz": zeros, "bias": scales}
    finite = np.linspace(-3.0, 5.0, a.size, dtype=np.float32).reshape(a.shape)
    return {"a": finite, "b": b, "bs": scales, "bz": zeros, "bias": scales}


def _whole_case(
    domain: str, name: str, version: int, dtype: int, attributes: dict[str, Any], usual: bool
) -> Iterator[tuple[str, str]]:
    """usual: the attributes are not named."""
    feeds = _operands(domain, name, version, dtype)
    infos = [onnx.helper.make_tensor_value_info(key, dtype_number(v.dtype), v.shape) for key, v in feeds.items()]
    results = {"QuantizeLinear": [UINT8], "DequantizeLinear": [FLOAT], "DynamicQuantizeLinear": [UINT8, FLOAT, UINT8],
               "MatMulInteger": [INT32], "QLinearMatMul": [dtype],
               "MatMulNBits": [dtype], "MatMul": [dtype], "Gemm": [dtype]}.get(name, [FLOAT])  # fmt: skip
    outs = [onnx.helper.make_tensor_value_info(f"y{k}", result, None) for k, result in enumerate(results)]
    node = onnx.helper.make_node(name, list(feeds), [out.name for out in outs], domain=domain, **attributes)
    graph = onnx.helper.make_graph([node], "g", infos, outs)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid(domain, version)], ir_version=10)
    made = ref.Session(model).run(None, feeds)
    given = "" if usual else "".join(f",{key}={value}" for key, value in attributes.items())
    yield (
        f"{domain or 'ai.onnx'}.{name}-{version},{dtype_name(dtype)}{given}",
        digest(b"".join(y.tobytes() for y in made)),
    )


def op_cases() -> Iterator[tuple[str, str]]:
    """Every op of the reference's table."""
    for (domain, name), op in sorted(OPS.items()):
        for version, dtypes in sorted(op.dtypes.items()):
            for dtype in sorted(dtypes) if not op.elementwise else ():
                for k, whole in enumerate(WHOLE_ATTRIBUTES.get(name, ({},))):
                    yield from _whole_case(domain, name, version, dtype, whole, k == 0)
            for attributes in ({}, *ATTRIBUTES.get(f"{domain}.{name}" if domain else name, ())):
                for dtype in sorted(dtypes) if op.elementwise else ():
                    yield from _op_case(domain, name, version, dtype, attributes)


def _op_case(domain: str, name: str, version: int, dtype: int, attributes: dict[str, Any]) -> Iterator[tuple[str, str]]:
    x = operand(dtype)
    feeds, names, own = {"x": x}, ["x"], attributes
    if name in (
        "Add",
        "Sub",
        "Mul",
        "Div",
        "BiasGelu",
    ):  # with its own elements in another order: zeros meet infinities and NaNs
        feeds, names = {"x": x, "b": np.roll(x[::-1], 17)}, ["x", "b"]
    if name == "Clip" and version >= 11 and attributes:  # bounds are inputs
        if dtype in FLOATS:
            bounds = {key: np.array(value, x.dtype) for key, value in attributes.items()}
        else:
            bounds = {key: x[k : k + 1].reshape(()) for k, key in enumerate(attributes)}
        feeds, names, own = {"x": x, **bounds}, ["x", *(key if key in bounds else "" for key in ("min", "max"))], {}
    infos = [onnx.helper.make_tensor_value_info(key, dtype, array.shape) for key, array in feeds.items()]
    out = onnx.helper.make_tensor_value_info("y", dtype, None)
    node = onnx.helper.make_node(name, names, ["y"], domain=domain)
    node.attribute.extend(onnx.helper.make_attribute(key, value) for key, value in own.items())
    opset = onnx.helper.make_opsetid(domain, version)
    graph = onnx.helper.make_graph([node], "g", infos, [out])
    model = onnx.helper.make_model(graph, opset_imports=[opset], ir_version=10)
    (y,) = ref.Session(model).run(None, feeds)
    given = "".join(f",{key}={value!r}" for key, value in attributes.items())
    yield f"{domain or 'ai.onnx'}.{name}-{version},{dtype_name(dtype)}{given}", digest(y.tobytes())


def triples() -> list[tuple[float, float, float]]:
    """Operands of arithmetic: products that end midway between two results and are then pushed off it, subnormal and
    overflowing results, and random patterns."""
    found: list[tuple[float, float, float]] = []
    ulp = 2.0**-23
    for k in range(64):
        a, b = 1.0 + (2 * k + 1) * ulp, 1.5 + k * ulp
        for scale in (1.0, 2.0**-126, 2.0**-140, 2.0**126):
            p = a * b * scale  # exact: 48 bits, and room in the exponent
            c = binary32.round(p)
            near = [c, -c, binary32.round(p * 2.0**-24), -binary32.round(p * 2.0**-24), binary32.round(p * 2.0**-60)]
            found += [(binary32.round(a * scale), b, addend) for addend in (*near, 0.0, -0.0)]
    for k in range(256):
        odd = 5592407.0 + 2 * k  # times 3: an odd number of 25 bits, exactly midway; the addend is far below or beside
        tiny = (0.0, 2.0**-100, 2.0**-149, 1.0, 2.0**24)
        found += [(sign * odd, 3.0, c) for c in (*tiny, *(-t for t in tiny)) for sign in (1.0, -1.0)]
        found += [((2 * k + 1) * 2.0**-75, 2.0**-75, c) for c in (0.0, 2.0**-149, -(2.0**-149))]  # midway in subnormals
    numbers = struct.unpack(f"<{3 * RANDOM}f", random_bytes("triples", 4 * 3 * RANDOM))
    found += list(zip(numbers[0::3], numbers[1::3], numbers[2::3], strict=True))
    inf, most = binary32.INF, binary32.MAX
    special = [0.0, -0.0, 1.0, most, -most, 2.0**-149, 2.0**-126, inf, -inf, binary32.NAN]
    found += [(a, b, c) for a in special for b in special for c in special]
    return [(binary32.round(a), binary32.round(b), binary32.round(c)) for a, b, c in found]


def arithmetic_cases() -> Iterator[tuple[str, str]]:
    """The operations of binary32 on the triples; their results as binary64, which shows any that was not rounded."""
    operands = triples()
    functions: dict[str, Callable[[float, float, float], float]] = {
        "add": lambda a, b, c: binary32.add(a, c),
        "sub": lambda a, b, c: binary32.sub(a, c),
        "mul": lambda a, b, c: binary32.mul(a, b),
        "div": lambda a, b, c: binary32.div(a, b),
        "sqrt": lambda a, b, c: binary32.sqrt(a),
        "fma": binary32.fma,
        "rint": lambda a, b, c: binary32.rint(a),
        "round": lambda a, b, c: binary32.round(a * b + c * 2.0**-24),
    }
    for name, function in functions.items():
        results = [function(a, b, c) for a, b, c in operands]
        yield f"binary32.{name}", digest(struct.pack(f"<{len(results)}d", *results))


def half_cases() -> Iterator[tuple[str, str]]:
    """Narrowing of the patterns and of midpoints of the narrow formats, widening of everything."""
    everything = np.arange(65536, dtype="<u2").tobytes()
    for name, half in (("binary16", BINARY16), ("bfloat16", BFLOAT16)):
        wide = half.widen_buffer(everything)
        yield f"half.{name}.widen", digest(wide)
        at = np.frombuffer(wide, "<u4")[::7]
        step = np.uint32(1 << (int(half.drop) - 1))  # half a last place where the narrow number is normal
        centres = np.concatenate([at, at + step])
        near = np.concatenate([patterns(), *(centres + np.uint32(k) for k in (0, 1, 0xFFFFFFFF))])
        yield f"half.{name}.narrow", digest(half.narrow_buffer(near.astype("<u4").tobytes()))


def main() -> int:
    """Prints all cases."""
    for cases in (arithmetic_cases(), half_cases(), op_cases()):
        for name, value in cases:
            print(name, value, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
