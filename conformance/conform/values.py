"""Values that kernels get wrong, by element type and kind; a kind is drawn from a pool, in order or at random.

special    every class of IEEE 754 with its neighbours, NaNs quiet and signalling with payloads; of integers the limits
threshold  where the branches of the ops lie, where polynomials and tables change, midpoints of rounding, with both
           neighbours; also where a node's own attributes and operands put such points
tempting   what a compiler changes if it contracts, reassociates or folds: a * x + b that fma rounds differently,
           (x + c) - c that is not x, products that are subnormal, infinite or midway between two results
bits       random patterns
normal     what models are fed with
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnx.helper

from ortwin.ref.tensor import FLOAT, item_size

Array = npt.NDArray[Any]
Stream = np.random.Generator

FLOAT16: Final = 10
DOUBLE: Final = 11
BFLOAT16: Final = 16
FRACTION_BITS: Final = {FLOAT: 23, FLOAT16: 10, DOUBLE: 52, BFLOAT16: 7}
"""Of the element types that the generator knows as IEEE 754 formats; the sign is the highest bit."""

KINDS: Final = ("special", "threshold", "tempting", "bits", "normal")

THRESHOLDS: Final = (
    *(0.2, 0.25, 1 / 3, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 6.0, 7.0),  # HardSwish, Relu6, ties of Round
    *(2.0**22 + 0.5, 2.0**23 - 0.5, 2.0**23, 2.0**24, 2.0**25, 2.0**31, 2.0**32, 2.0**63),  # where integers begin
    *(2.0**-12, 2.0**-14, 2.0**-24, 2.0**-64, 2.0**-100, 2.0**-126, 2.0**-133, 2.0**-148),  # x is the answer below
    *(0.34657359, 0.69314718, 1.0397208),  # multiples of ln 2 / 2, where Exp's reduction takes another integer
    *(0.70710678, 1.4142135),  # where Log's does
    *(
        88.722839,
        88.72284,
        89.415985,
        87.336544,
        103.27893,
        103.97208,
        104.0,
        126.0,
        150.0,
    ),  # Exp overflows, underflows
    *(0.5493061, 9.010913, 10.0, 16.635532, 17.328680, 18.0, 20.0, 44.0),  # Tanh, Sigmoid, Softplus saturate
    *(0.921875, 1.0, 2.0, 3.8325067, 3.9192059, 5.5, 8.0, 13.0, 14.5, 60.0),  # Erf, Gelu, Mish
    *(11.089866, 15.942385, 16.635533, 65504.0, 65520.0, 2.0**-25),  # float16's ends
)


def numpy_type(dtype: int) -> np.dtype[Any]:
    """The numpy type of an ONNX element type."""
    return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(dtype))


def is_float(dtype: int) -> bool:
    """Whether the format's classes are known here."""
    return dtype in FRACTION_BITS


def attribute_values(few: bool) -> list[float]:
    """Values for a float attribute, binary32. few: those for the quick level."""
    chosen = [0.3, -1.5, 0.0, -0.0, 2.0**-140, 1e-37, 3e38, float("inf"), float("nan"), 50.0]
    more = [1.0, -1.0, -(2.0**-149), 2.0**-126, -3e38, float("-inf"), 2.0**24, 1.0 / 6.0, 1.702]
    return [float(np.float32(value)) for value in (chosen if few else chosen + more)]


def bound_pairs(dtype: int, few: bool) -> list[tuple[Array, Array]]:
    """Pairs of scalars of an element type: in order, in the wrong order, equal, of either zero, NaN, the limits."""
    native = numpy_type(dtype)
    inf, nan, tiny = float("inf"), float("nan"), 2.0**-130
    pairs: list[tuple[Any, Any]]
    if is_float(dtype):
        pairs = [(-1.0, 1.0), (2.0, 1.0), (0.0, -0.0), (-0.0, 0.0), (nan, 1.0), (1.0, nan)]
        pairs += [] if few else [(-inf, inf), (inf, -inf), (nan, nan), (-tiny, tiny), (0.5, 0.5), (6.0, 0.0)]
    elif native.kind in "iu":
        low, high = int(np.iinfo(native).min), int(np.iinfo(native).max)
        pairs = [(3, 100), (100, 3), (low, high), (low + 1, high - 1)]
        pairs += [] if few else [(high, low), (0, 0), (low, low), (high, high)]
    else:
        pairs = [(0, 1), (1, 0)]
    return [(_scalar(a, native), _scalar(b, native)) for a, b in pairs]


def _scalar(value: Any, native: np.dtype[Any]) -> Array:
    with np.errstate(all="ignore"):
        return np.array(value).astype(native)


def special(dtype: int) -> Array:
    """Every class of the element type, an odd number of values: by turns they come past every lane of a vector."""
    native = numpy_type(dtype)
    if is_float(dtype):
        found = _from_patterns(_classes(dtype), dtype)
    elif native.kind in "iu":
        low, high = int(np.iinfo(native).min), int(np.iinfo(native).max)
        near = [low, low + 1, high, high - 1, 0, 1, 2, 3, 4, 5, 7, 99, 100, 101, *([-1, -2] if low else [])]
        found = np.array(near, native)
    elif native.kind == "b":
        found = np.array([False, True, True])
    elif native.kind == "c":  # both parts are IEEE formats: every class in either
        parts = _classes(FLOAT if native.itemsize == 8 else DOUBLE)
        both = np.stack([parts, parts[::-1]], axis=1).ravel()
        found = np.frombuffer(both.astype(f"u{native.itemsize // 2}").tobytes(), native)
    else:  # small enough for all there are
        found = np.arange(256, dtype=np.uint8).view(native)
    return found if found.size % 2 else np.append(found, found[:1])


def _classes(dtype: int) -> npt.NDArray[np.uint64]:
    """Patterns: zero, subnormals, normals and the limits between them, infinity and NaNs, with either sign."""
    fraction, bits = FRACTION_BITS[dtype], 8 * item_size(dtype)
    top, exponents = 1 << bits - 1, (1 << bits - 1 - fraction) - 1
    unit, inf = 1 << fraction, exponents << fraction
    one, quiet = (exponents >> 1) << fraction, inf | 1 << fraction - 1
    magnitudes = [0, 1, 2, unit // 2, unit - 1, unit, unit + 1, 2 * unit, one - 1, one, one + 1, 2 * one - 1]
    payload = 0x5A5A5A5A5A5A5 % (unit // 2)
    magnitudes += [inf - unit, inf - 1, inf, inf + 1, inf + payload, quiet - 1, quiet, quiet + payload, top - 1]
    return np.array([sign | m for m in magnitudes for sign in (0, top)], np.uint64)


def _from_patterns(patterns: Iterable[int] | npt.NDArray[np.uint64], dtype: int) -> Array:
    plain = np.asarray(list(patterns), np.uint64).astype(f"u{item_size(dtype)}")
    return plain.view(numpy_type(dtype))


def _near(values: Sequence[float], dtype: int) -> Array:
    """The values and the numbers beside them, of either sign, without those that the element type lacks."""
    with np.errstate(all="ignore"):
        magnitudes = np.abs(np.array(values, np.float64)).astype(numpy_type(dtype))
    patterns = np.unique(magnitudes.view(f"u{item_size(dtype)}").astype(np.int64))
    near = (patterns[:, None] + np.array([-1, 0, 1])).clip(0).ravel().astype(np.uint64)
    top = np.uint64(1 << 8 * item_size(dtype) - 1)
    return _from_patterns(np.unique(np.concatenate([near, near | top])), dtype)


def threshold(dtype: int, parameters: Sequence[float]) -> Array:
    """Where branches lie. parameters: the node's own, whose values, quotients and offsets are such points."""
    own = [p for p in parameters if np.isfinite(p)]
    with np.errstate(all="ignore"):
        own += [float(n) for a in own for n in (1.0 / np.float64(a), 3.0 / np.float64(a), 88.72284 / np.float64(a))]
        own += [float((k - np.float64(b)) / np.float64(a)) for a in own[:2] for b in own[:2] for k in (0.0, 1.0)]
    return _near([*THRESHOLDS, *own], dtype)


def tempting(dtype: int, parameters: Sequence[float]) -> Array:
    """Numbers for which a careless order of roundings shows, for these parameters and for common constants."""
    random = np.random.Generator(np.random.PCG64(dtype))
    x = np.concatenate([random.normal(0.0, scale, 1024) for scale in (2.0**-12, 1.0, 8.0)]).astype(np.float32)
    finite = [np.float32(p) for p in parameters if np.isfinite(p)]
    chosen: list[Array] = []
    with np.errstate(all="ignore"):
        for a, b in [*zip(finite, [*finite[1:], np.float32(0.5)], strict=False), *COMMON]:
            twice = np.float32(a) * x + np.float32(b)
            once = (np.float64(a) * x + np.float64(b)).astype(np.float32)
            chosen.append(x[twice != once][:8])
        for c in (1.0, 3.0, 2.0**23, 1.5 * 2.0**23):
            chosen.append(x[(x + np.float32(c)) - np.float32(c) != x][:8])
        square = x * x
        chosen.append(x[square.astype(np.float64) != x.astype(np.float64) ** 2][:8])
        edges = [2.0**-63, 1.5 * 2.0**-75, 3.0 * 2.0**-76, 2.0**63, 1.8446743e19, 2.0**127, 3.4e38]
        midway = [(2 * k + 1) * 2.0**-75 for k in range(4)]  # times 2^-75, midway between two subnormal numbers
        chosen.append(np.array([s * v for v in edges + midway for s in (1.0, -1.0)], np.float32))
        return np.concatenate(chosen).astype(numpy_type(dtype))


COMMON: Final = [
    (np.float32(a), np.float32(b)) for a, b in ((1 / 6, 0.5), (0.2, 0.5), (1.442695, 0.0), (0.044715, 1.0))
]


def bits(dtype: int, count: int, stream: Stream) -> Array:
    """Random patterns."""
    native = numpy_type(dtype)
    data = np.frombuffer(stream.bytes(count * native.itemsize), np.uint8)
    return np.frombuffer((data & 1 if native.kind == "b" else data).tobytes(), native)


def normal(dtype: int, count: int, stream: Stream) -> Array:
    """Normally distributed, of a deviation that is 1, 4 or 30; of integers, small ones of the type."""
    native = numpy_type(dtype)
    if native.kind in "iu":
        return stream.integers(0 if native.kind == "u" else -100, 101, count).astype(native)
    if native.kind == "b":
        return stream.integers(0, 2, count).astype(native)
    values = stream.normal(0.0, stream.choice([1.0, 4.0, 30.0]), count)
    with np.errstate(all="ignore"):
        if native.kind == "c":
            return (values + 1j * values[::-1]).astype(native)
        return values.astype(np.float32).astype(native)


def draw(kind: str, dtype: int, count: int, parameters: tuple[float, ...], stream: Stream) -> Array:
    """count values of a kind. Those with a pool go through it in turn from a place drawn from the stream."""
    if kind in ("threshold", "tempting") and not is_float(dtype):
        kind = "special" if kind == "threshold" else "bits"
    if kind in DRAWN:
        return DRAWN[kind](dtype, count, stream)
    values = pool(kind, dtype, parameters)
    return values[(np.arange(count) + int(stream.integers(values.size))) % values.size]


@functools.lru_cache(512)
def pool(kind: str, dtype: int, parameters: tuple[float, ...]) -> Array:
    """All values of a kind that has a pool; of "all", every pattern of a type of 16 bits."""
    if kind == "special" or not is_float(dtype):
        return special(dtype)
    if kind == "all":
        return np.arange(1 << 16, dtype=np.uint16).view(numpy_type(dtype))
    return threshold(dtype, parameters) if kind == "threshold" else tempting(dtype, parameters)


DRAWN: Final[dict[str, Callable[[int, int, Stream], Array]]] = {"bits": bits, "normal": normal}
