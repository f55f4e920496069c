"""Recipes of the ops that are executed as a whole: matrix products, and those that quantise.

An op has axes, such as the shapes of its matrices or the form of a zero point, each with the values it may take, what
must be declined among them. For every element type, the quick level has each value of each axis in some case, the full
level each pair of values of any two axes. Almost every case is a model of its own, which is why quick is not more.
Element types of 4 bits have no cases: an operand here has whole bytes.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from ortwin.conformance.conform import nbits, values
from ortwin.conformance.conform.case import Array, AttributeValue, Case, Operand, operand
from ortwin.conformance.conform.cover import covering, each
from ortwin.ref.ops import BYTES, Op
from ortwin.ref.tensor import BFLOAT16, BYTE_SIZED, FLOAT, FLOAT16, FLOATS, INT8, INT16, INT32, UINT8, UINT16

Axes = dict[str, tuple[Any, ...]]

PRODUCTS: Final = frozenset(
    {"MatMul", "Gemm", "MatMulInteger", "QLinearMatMul", "MatMulIntegerToFloat", "DynamicQuantizeMatMul"}
)

MIXES: Final = ("normal", "rare", "wide", "cancelling", "special", "bits")
"""Kinds of values: rare is normal with a special value now and then, which leaves sums that are none; wide has all
exponents; cancelling few magnitudes, so that sums meet their opposites and ties."""


@dataclass(frozen=True)
class Shapes:
    """Of a product: M, K and N, the batch dimensions before them; vectors: which of A and B is one ("a", "b", "ab").
    gap: what B has more rows than A columns, which is an error."""

    m: int
    k: int
    n: int
    a_batch: tuple[int, ...] = ()
    b_batch: tuple[int, ...] = ()
    vectors: str = ""
    gap: int = 0

    @property
    def a(self) -> tuple[int, ...]:
        """The shape of A."""
        return (self.k,) if "a" in self.vectors else (*self.a_batch, self.m, self.k)

    @property
    def b(self) -> tuple[int, ...]:
        """The shape of B."""
        return (self.k + self.gap,) if "b" in self.vectors else (*self.b_batch, self.k + self.gap, self.n)


PLAIN: Final = (
    *((1, 513, 15), (2, 256, 16), (3, 257, 9), (4, 255, 8), (5, 63, 17), (6, 33, 33), (7, 16, 63), (8, 31, 32)),
    *((9, 7, 65), (10, 17, 47), (11, 64, 7), (12, 5, 127), (13, 128, 2), (14, 15, 31), (15, 2, 129), (16, 3, 64)),
    *((17, 1, 1), (17, 300, 1), (1, 300, 27), (3, 513, 5)),
)
"""M, K and N of the quick level, around the widths of vectors, tiles and blocks of sums; fewer than 2^13 products each,
of which an interpreter makes about one in a microsecond."""

INNER: Final = (1, 2, 3, 4, 7, 8, 15, 16, 17, 31, 33, 63, 64, 128, 255, 256, 257, 300, 512, 513, 1000, 4096)
COLUMNS: Final = (1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 47, 63, 64, 65, 127, 129)

BATCHES: Final = (
    Shapes(2, 5, 17, (2,), (2,)),
    Shapes(3, 17, 5, (3, 1), (2,)),
    Shapes(1, 9, 16, (), (2, 2)),
    Shapes(4, 8, 3, (1,), ()),
    Shapes(1, 257, 1, vectors="ab"),
    Shapes(1, 31, 33, vectors="a"),
    Shapes(5, 33, 1, vectors="b"),
    Shapes(1, 6, 9, (), (3,), "a"),
    Shapes(2, 0, 3),
    Shapes(0, 4, 3),
    Shapes(2, 4, 0),
    Shapes(2, 3, 4, (0,), (1,)),
)
ERRORS: Final = (Shapes(2, 3, 4, gap=1), Shapes(2, 3, 4, (2,), (3,)), Shapes(1, 3, 1, vectors="ab", gap=-1))


def shapes(few: bool, step: int = 1) -> tuple[Shapes, ...]:
    """Those of each M from 1 to 17, batches, errors. step: of the quick level, only every so many of the first."""
    if few:
        return (*(Shapes(*sizes) for sizes in PLAIN[::step]), *BATCHES, *ERRORS)
    every = itertools.product(range(1, 18), INNER, COLUMNS)
    plain = [Shapes(m, k, n) for at, (m, k, n) in enumerate(every) if at % 23 == 0 and m * k * n <= 1 << 21]
    return (*plain, *BATCHES, *ERRORS)


@dataclass(frozen=True)
class Recipe:
    """A case without its values: what was chosen on every axis. Without any choice, a type that is to be declined."""

    version: int
    dtype: int
    choice: tuple[tuple[str, Any], ...] = ()

    @property
    def chosen(self) -> dict[str, Any]:
        """By axis."""
        return dict(self.choice)

    @property
    def order(self) -> tuple[Any, ...]:
        """Recipes of one model stand together."""
        return self.dtype, self.version, repr([item for item in self.choice if item[0] not in ("mix", "offset")])


def recipes(op: Op, few: bool, offsets: Sequence[int], threads: Sequence[int], seed: int) -> Iterator[Recipe]:
    """Per element type, all values of the axes, or all pairs of values of any two."""
    for dtype in sorted({dtype for dtypes in op.dtypes.values() for dtype in dtypes} & BYTE_SIZED):
        versions = tuple(version for version in op.versions if dtype in op.dtypes[version])
        axes: Axes = {
            "version": versions,
            **_axes(op.name, dtype, few),
            "mix": MIXES,
            "offset": tuple(offsets) if not few else (0, offsets[-1]),
            "threads": (1, threads[-1]) if few else tuple(threads),
            "constant": (False, True),
            "shaped": (False, True),
        }
        sizes = tuple(len(axis) for axis in axes.values())
        for row in each(sizes, seed, LEAST) if few else covering(sizes, seed):
            chosen = {name: axis[k] for (name, axis), k in zip(axes.items(), row, strict=True)}
            version = chosen.pop("version")
            yield Recipe(version, dtype, tuple(chosen.items()))


def resized(recipe: Recipe, stream: values.Stream) -> Recipe:
    """The same with other dimensions, where it has matrices that fit."""
    at = recipe.chosen.get("shapes")
    if not isinstance(at, Shapes) or at.gap or at.k == 0:
        return recipe
    m, k, n = (int(stream.integers(1, most)) for most in (18, 600, 70))
    other = replace(at, m=m, k=k, n=1 if "b" in at.vectors else n)
    return replace(recipe, choice=tuple((name, other if name == "shapes" else v) for name, v in recipe.choice))


def build(op: Op, recipe: Recipe, stream: values.Stream) -> Case:
    """The case of a recipe, its values drawn from the stream."""
    chosen = recipe.chosen or {name: axis[0] for name, axis in _axes(op.name, recipe.dtype, True).items()}
    make = Maker(op.name, recipe.version, recipe.dtype, chosen, stream)
    inputs, attributes = make.operands()
    while inputs and inputs[-1] is None:
        inputs.pop()
    return Case(
        op.domain,
        op.name,
        recipe.version,
        tuple(attributes.items()),
        tuple(inputs),
        chosen.get("constant", False) and any(item is not None for item in inputs[1:]),
        chosen.get("offset", 0),
        False,
        chosen.get("threads", 1),
        chosen.get("shaped", False),
    )


LINES: Final = ("none", "scalar", "one", "lines", "matrix", "batched")
"""Forms of a zero point or scale of a matrix: one number, of rank 0 or 1; one per row of A or column of B, as a vector
or a matrix, or for each matrix of a batch."""

BIASES: Final = ("none", "scalar", "one", "row", "column", "whole", "flat")
"""Forms of what is added to a product of M x N: of rank 0, [1], [N], [M, 1], [M, N], [1, N]."""

FACTORS: Final = (
    *((1.0, 1.0), (0.3, 1.0), (1.0, -0.7), (-2.0, 3.0), (0.0, 1.0), (1.0, 0.0), (2.0, -0.0), (-0.0, 5.0)),
    *((float("inf"), 1.0), (1.0, float("nan")), (3e38, 1e-40)),
)
WHOLE_FACTORS: Final = ((1.0, 1.0), (-2.0, 3.0), (0.0, 1.0), (1.0, 0.0), (2.0**62, -0.0), (1.0, -(2.0**31)), (0.5, 1.0))
"""alpha and beta of Gemm, of floats and of integers."""

GRAINS: Final = ("scalar", "one", "axis 0", "axis 1", "axis -1", "block 0", "block -1")
"""Which elements share a scale: all, those of an index of an axis, or blocks along it."""


def _axes(name: str, dtype: int, few: bool) -> Axes:
    """The axes that are an op's own. broken: the operand or attribute that is not as it must be."""
    if name == "MatMulNBits":
        return nbits.axes(few)
    if name == "DynamicQuantizeLinear":
        return {"form": ((17,), (), (1,), (0,), (3, 5), (2, 33), (4099,), (2, 3, 1, 4))}
    if name in ("QuantizeLinear", "DequantizeLinear"):
        found: Axes = {
            "form": ((3, 5), (), (17,), (2, 3, 7), (1,), (0, 4), (5, 67), (2, 2, 3, 9)),
            "grain": GRAINS,
            "scale": (FLOAT, FLOAT16, BFLOAT16) if dtype not in FLOATS else (dtype, dtype, FLOAT),
            "broken": _broken("scale", "zero", "axis", few=few),
        }
        if name == "DequantizeLinear":
            return found | {"zero": (dtype, 0), "output": (0, FLOAT16, FLOAT)}
        return found | {"zero": (UINT8, INT8, 0, UINT16, INT16), "output": (0, INT8), "precision": (0, FLOAT, FLOAT16)}
    found = {"shapes": shapes(few, 4 if dtype not in FLOATS and dtype not in BYTES else 1)}
    if name == "Gemm":
        found["shapes"] = tuple(at for at in found["shapes"] if len(at.a) == len(at.b) == 2)
        found |= {"turn": tuple(itertools.product((0, 1), (0, 1))), "bias": BIASES, "broken": _broken("bias", few=few)}
        return found | {"factors": FACTORS if dtype in FLOATS else WHOLE_FACTORS}
    if name == "MatMul":
        return found
    found |= {"b": (INT8, UINT8), "b_zero": LINES, "a_zero": LINES}
    if name == "MatMulInteger":
        return found | {"broken": _broken("a_zero", "b_zero", few=few)}
    found |= {"b_scale": LINES[1:], "a_scale": LINES[1:], "bias": ("none", "row")}
    if name == "DynamicQuantizeMatMul":
        return found | {"broken": _broken("b_zero", "b_scale", "bias", few=few)}
    broken = _broken("a_zero", "b_zero", "a_scale", "b_scale", "bias", few=few)
    if name == "MatMulIntegerToFloat":
        one = {"a_zero": LINES[:3], "a_scale": LINES[1:3], "scale": (FLOAT, FLOAT16)}
        return found | one | {"broken": broken}
    found |= {"a_zero": LINES[1:], "b_zero": LINES[1:], "scale": (FLOAT, FLOAT16, BFLOAT16), "y": (UINT8, INT8)}
    return found | {"broken": broken}


def _broken(*names: str, few: bool) -> tuple[str, ...]:
    """What may be wrong, which few cases have."""
    return (*[""] * (4 * len(names) + 4 if few else 1), *names)


LEAST: Final = 24
"""Cases of an element type at the quick level, at least."""


class Maker:
    """The operands and attributes of what was chosen."""

    def __init__(self, name: str, version: int, dtype: int, chosen: Mapping[str, Any], stream: values.Stream) -> None:
        self.name = name
        self.version = version
        self.dtype = dtype
        self.chosen = chosen
        self.stream = stream
        self.mix: str = chosen.get("mix", "normal")
        self.broken: str = chosen.get("broken", "")

    def operands(self) -> tuple[list[Operand | None], dict[str, AttributeValue]]:
        """Inputs in their order, and attributes."""
        if self.name == "MatMulNBits":
            return nbits.operands(self)
        if self.name == "DynamicQuantizeLinear":
            return [self.drawn(self.dtype, self.chosen["form"])], {}
        if self.name in PRODUCTS:
            return self._product()
        return self._granular()

    def drawn(self, dtype: int, shape: tuple[int, ...], mix: str = "") -> Operand:
        """An operand of values of the mix."""
        count = int(np.prod(shape, dtype=np.int64))
        return operand(mixed(mix or self.mix, dtype, count, self.stream).reshape(shape), dtype)

    def scale(self, dtype: int, shape: tuple[int, ...]) -> Operand:
        """Scales as models have them, or of the special mixes one in four special."""
        count = int(np.prod(shape, dtype=np.int64))
        chosen = np.ldexp(self.stream.random(count) + 0.5, self.stream.integers(-8, 2, count))
        native = values.numpy_type(dtype)
        found = chosen.astype(np.float32).astype(native)
        if self.mix in ("special", "rare"):
            found = np.where(self.stream.random(count) < 0.25, self._special(dtype, count), found)
        return operand(found.reshape(shape), dtype)

    def _special(self, dtype: int, count: int) -> Array:
        return values.draw("special", dtype, count, (), self.stream)

    def _product(self) -> tuple[list[Operand | None], dict[str, AttributeValue]]:
        at: Shapes = self.chosen["shapes"]
        if self.name == "Gemm":
            return self._gemm(at)
        a, b = self.drawn(self.dtype, at.a), self.drawn(self.chosen.get("b", self.dtype), at.b)
        if self.name == "MatMul":
            return [a, b], {}
        zero_a, zero_b = self._lines("a_zero", at, True), self._lines("b_zero", at, False)
        a_zero = None if zero_a is None else self.drawn(self.dtype, zero_a, "bits")
        b_zero = None if zero_b is None else self.drawn(b.dtype, zero_b, "bits")
        if self.name == "MatMulInteger":
            return [a, b, a_zero, b_zero], {}
        kind: int = self.chosen.get("scale", FLOAT) if self.version != 10 else FLOAT
        scale_a, scale_b = self._lines("a_scale", at, True), self._lines("b_scale", at, False)
        a_scale, b_scale = (None if s is None else self.scale(kind, s) for s in (scale_a, scale_b))
        if self.name == "QLinearMatMul":
            y_zero = self.drawn(self.chosen["y"], (), "bits")
            y_scale = self.scale(kind, (1,) if self.mix == "wide" else ())
            return [a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero], {}
        length = (at.b[-1] if len(at.b) > 1 else 1) + (self.broken == "bias")
        bias = None if self.chosen["bias"] == "none" else self.drawn(kind, (length,))
        if self.name == "MatMulIntegerToFloat":
            return [a, b, a_scale, b_scale, a_zero, b_zero, bias], {}
        return [a, b, b_scale, b_zero, bias], {}

    def _lines(self, axis: str, at: Shapes, rows: bool) -> tuple[int, ...] | None:
        """The shape of a zero point or scale; None if there is none."""
        form = self.chosen.get(axis, "none") if self.broken != axis else "wrong"
        if form in ("none", "scalar", "one"):
            return {"none": None, "scalar": (), "one": (1,)}[form]
        count = at.m if rows else at.n
        if ("a" if rows else "b") in at.vectors:
            count = 1
        if form in ("lines", "wrong"):
            return (count + 2 * (form == "wrong"),)
        batch = (at.a_batch if rows else at.b_batch) if form == "batched" else ()
        return (*batch, count, 1) if rows else (*batch, 1, count)

    def _gemm(self, at: Shapes) -> tuple[list[Operand | None], dict[str, AttributeValue]]:
        (turn_a, turn_b), (alpha, beta) = self.chosen["turn"], self.chosen["factors"]
        a = self.drawn(self.dtype, at.a[::-1] if turn_a else at.a)
        b = self.drawn(self.dtype, at.b[::-1] if turn_b else at.b)
        m, n = at.m, at.n
        bias = {"none": None, "scalar": (), "one": (1,), "row": (n,), "column": (m, 1), "whole": (m, n),
                "flat": (1, n)}[self.chosen["bias"]]  # fmt: skip
        if bias is None and self.version < 11:
            bias = (m, n)
        if self.broken == "bias":
            bias = (n + 2,)
        attributes: dict[str, AttributeValue] = {"alpha": float(np.float32(alpha)), "beta": float(np.float32(beta))}
        attributes |= {"transA": turn_a, "transB": turn_b}
        if self.version < 7 and self.mix != "wide":
            attributes["broadcast"] = 1
        return [a, b, None if bias is None else self.drawn(self.dtype, bias)], attributes

    def _granular(self) -> tuple[list[Operand | None], dict[str, AttributeValue]]:
        """x, scale and zero point. What a version does not have is chosen for it as the nearest that it has."""
        form: tuple[int, ...] = self.chosen["form"]
        kind: int = self.chosen["scale"] if self.version >= 19 else FLOAT
        zero: int = self.chosen["zero"] if self.broken != "zero" else INT32
        output: int = self.chosen["output"]
        attributes: dict[str, AttributeValue] = {}
        quantises = self.name == "QuantizeLinear"
        if quantises and self.version < 21 and zero in (UINT16, INT16):
            zero = UINT8
        if quantises and self.version in (19, 21) and self.broken != "scale":
            kind = self.dtype
        if quantises and output and zero:
            output = zero
        if output and self.version >= (21 if quantises else 23):
            attributes["output_dtype"] = output
        if self.chosen.get("precision", 0) and self.version >= 23:
            attributes["precision"] = self.chosen["precision"]
        shape = self._grain(form, attributes)
        x = self.drawn(self.dtype, form)
        if quantises and self.dtype in FLOATS and self.mix in ("normal", "cancelling"):  # among the results, not beyond
            wide = x.array.astype(np.float32) * np.float32(30 if self.mix == "normal" else 1)
            x = operand(wide.astype(values.numpy_type(self.dtype)), self.dtype)
        return [x, self.scale(kind, shape), self.drawn(zero, shape, "bits") if zero else None], attributes

    def _grain(self, form: tuple[int, ...], attributes: dict[str, AttributeValue]) -> tuple[int, ...]:
        """The shape of the scale."""
        word, _, number = str(self.chosen["grain"]).partition(" ")
        axis = int(number or 0)
        if self.broken == "scale" and form:
            return (form[-1] + 1, *form[1:])
        if word in ("scalar", "one") or self.version < 13 or not form:
            return (1,) if word == "one" else ()
        near = max(-len(form), min(axis, len(form) - 1))
        attributes["axis"] = near if self.broken != "axis" else len(form)
        at = near % len(form)
        if word == "axis" or self.version < 21:
            return (form[at],)
        size = 2 if self.mix != "wide" else 64
        attributes["block_size"] = size
        return tuple(-(-dim // size) if k == at else dim for k, dim in enumerate(form))


def mixed(mix: str, dtype: int, count: int, stream: values.Stream) -> Array:
    """count values of a mix; of integers, wide is as bits, and cancelling and rare are half limits."""
    native = values.numpy_type(dtype)
    if mix in ("special", "bits", "normal"):
        return values.draw(mix, dtype, count, (), stream)
    if not values.is_float(dtype):
        ends = values.draw("special", dtype, count, (), stream)
        random = values.draw("bits", dtype, count, (), stream)
        return random if mix == "wide" else np.where(stream.random(count) < 0.5, ends, random)
    if mix == "rare":
        chosen = values.draw("special", dtype, count, (), stream)
        return np.where(stream.random(count) < 1 / 64, chosen, values.draw("normal", dtype, count, (), stream))
    with np.errstate(all="ignore"):
        if mix == "wide":
            reach = 8 if dtype == FLOAT16 else 70
            found = np.ldexp(stream.normal(size=count), stream.integers(-reach, reach, count))
        else:
            found = stream.choice([1.0, -1.0, 1.0 + 2.0**-7, 1.0 + 2.0**-23, -3.0, 2.0**-11, -(2.0**11), 0.5], count)
        return np.asarray(found.astype(np.float32).astype(native))
