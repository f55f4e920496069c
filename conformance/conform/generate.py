"""The generator: (seed, level, op, index) to a case, with every axis covered by construction.

What there is to cover is read from the op table of the reference and from the schemas of ONNX, so ops, versions and
element types that are added come in by themselves. Per op and element type, every pair of values of any two axes
(version, shape, offset, in place, setting, kind of values, constant operands) is in some case: those of the two longest
axes by taking their product, the others by adding cases until none is missing (the quick level leaves out that every
version and every setting meets every shape). Beside these: every special value in every lane of a vector, every pool of
values whole, large tensors on several threads, types the table lacks. That is of elementwise ops; whole.py has others.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import onnx
import onnx.defs

from ortwin.conformance.conform import values, whole
from ortwin.conformance.conform.case import (
    ALIGNMENT,
    Array,
    AttributeValue,
    Case,
    CaseError,
    Operand,
    op_text,
    operand,
)
from ortwin.conformance.conform.cover import covering, stream_of
from ortwin.ref.ops import OPS, Op
from ortwin.ref.tensor import BYTE_SIZED, item_size

AttrType = onnx.defs.OpSchema.AttrType

LANES: Final = 64
"""Bytes of the widest vector."""

RANKS: Final = (
    *((), (61,), (3, 5), (2, 2, 2), (1, 7, 1, 1), (1, 3, 1, 3, 1), (2, 2, 1, 2, 1, 2)),
    *((1, 1, 17, 1, 1, 1, 1), (1, 1, 1, 31, 1, 1, 1, 1)),
)
"""A shape of each rank from 0 to 8, and among them the lengths around the widths of vectors, 8 and 16."""

EMPTY: Final = ((0,), (2, 0, 3), (1,) * 7 + (0,))


@dataclass(frozen=True)
class Level:
    """How much: the values of the axes. few: of attributes and operands, and of combinations beyond the pairs."""

    shapes: tuple[tuple[int, ...], ...]
    offsets: tuple[int, ...]
    large: tuple[int, ...]
    threads: tuple[int, ...]
    few: bool


LEVELS: Final = {
    "quick": Level((*RANKS, *EMPTY, (1,)), (0, 4, 63), (4099,), (1, 2), True),
    "full": Level(
        (*RANKS, *EMPTY, *((n,) for n in (*range(1, 68), 127, 257, 1021))),
        tuple(range(ALIGNMENT)),
        (4099, 65537, (1 << 20) + 3),
        (1, 2, 3, 8),
        False,
    ),
}


@dataclass(frozen=True)
class Rules:
    """What a node of an op may have: attributes with their types, and inputs after the first.

    further: "scalar" (of rank 0), "row" (as long as the last dimension), "same" (the first's shape); "?" behind it if
    it may be left out.
    """

    attributes: Mapping[str, AttrType] = field(default_factory=dict)
    further: tuple[str, ...] = ()


CONTRIBUTED: Final = {
    ("com.microsoft", "QuickGelu"): Rules({"alpha": AttrType.FLOAT}),
    ("com.microsoft", "FastGelu"): Rules(further=("row?",)),
    ("com.microsoft", "BiasGelu"): Rules(further=("row",)),
}
"""Ops of which the onnx package has no schema; any other is taken to have neither attributes nor further inputs."""

LEGACY: Final = "consumed_inputs"
"""An attribute that the first versions have, which carries no meaning."""

TEXTS: Final = {"approximate": ("tanh", "none", "quadratic")}
"""Values of attributes that are text, the last being one that no op knows."""


def rules(op: Op, version: int) -> Rules:
    """The rules of a version of an op."""
    if not onnx.defs.has(op.name, version, op.domain):
        return CONTRIBUTED.get((op.domain, op.name), Rules())
    schema = onnx.defs.get_schema(op.name, version, op.domain)
    further: list[str] = []
    for info in schema.inputs[1:]:
        optional = info.option == onnx.defs.OpSchema.FormalParameterOption.Optional
        further.append("scalar?" if optional else "same")
    return Rules({name: a.type for name, a in schema.attributes.items()}, tuple(further))


@dataclass(frozen=True)
class Setting:
    """Attributes, and operands after x: a scalar, what to draw ("row", "same"), or None for one left out."""

    attributes: tuple[tuple[str, AttributeValue], ...] = ()
    further: tuple[Array | str | None, ...] = ()

    @functools.cached_property
    def text(self) -> str:
        """Different for settings that differ, zeros of either sign among them."""
        return repr((self.attributes, self.further))

    @property
    def parameters(self) -> tuple[float, ...]:
        """The finite numbers in it."""
        numbers = [value for _, value in self.attributes if isinstance(value, float)]
        numbers += [float(a) for a in self.further if isinstance(a, np.ndarray) and a.dtype.kind != "c"]
        return tuple(n for n in numbers if np.isfinite(n))


def settings(rule: Rules, dtype: int, few: bool) -> list[Setting]:
    """The settings of a node: none, then whatever makes a branch matter, what must be declined among it."""
    required = tuple(kind for kind in rule.further if not kind.endswith("?"))
    found: list[tuple[tuple[str, AttributeValue], ...]] = [()]
    floats = [name for name, kind in rule.attributes.items() if kind == AttrType.FLOAT]
    numbers = values.attribute_values(few)
    for k, value in enumerate(numbers if floats else ()):
        found.append(tuple((name, numbers[(k + 3 * j) % len(numbers)]) for j, name in enumerate(floats)))
        found += [((name, value),) for j, name in enumerate(floats) if len(floats) > 1 and (k % 5 == j or not few)]
    if len(floats) > 1 and not few:
        short = values.attribute_values(True)
        found += [tuple(zip(floats, chosen, strict=True)) for chosen in itertools.product(short, repeat=len(floats))]
    for name, kind in rule.attributes.items():
        if kind == AttrType.STRING:
            found += [((name, text),) for text in TEXTS.get(name, ())]
    made = [Setting(attributes, required) for attributes in found]
    if "scalar?" in rule.further:
        count = rule.further.count("scalar?")
        pairs = values.bound_pairs(dtype, few)
        made += [Setting((), (*required, *pair[:count])) for pair in pairs]
        low, high = pairs[0]
        partial: list[tuple[Array | str | None, ...]] = [(None,), (low,), (None, high), (low, None), (None, None)]
        made += [Setting((), (*required, *some)) for some in partial if len(some) <= count]
    if "row?" in rule.further:
        made.append(Setting((), (*required, "row")))
    if LEGACY in rule.attributes:
        made.append(Setting(((LEGACY, (0,)),), required))
    return made


@dataclass(frozen=True)
class Recipe:
    """A case without its values. kind: of values, or those that are laid out whole: "lanes", "pools", "all"."""

    version: int
    dtype: int
    setting: Setting
    shape: tuple[int, ...]
    kind: str
    offset: int = 0
    in_place: bool = False
    constant: bool = False
    threads: int = 1

    @property
    def order(self) -> tuple[Any, ...]:
        """Recipes of one model have the same."""
        return self.dtype, self.version, self.setting.text, self.constant, self.threads


class Generator:
    """Cases of a seed and a level; table: the ops to make them for. Cases of one node follow one another."""

    def __init__(self, seed: int, level: str, table: Mapping[tuple[str, str], Op] = OPS) -> None:
        self.seed = seed
        self.level = level
        self.table = {op_text(op.domain, op.name): op for op in table.values()}
        self._recipes: dict[str, list[Recipe | whole.Recipe]] = {}

    @property
    def ops(self) -> list[str]:
        """The ops there are cases for."""
        return sorted(self.table)

    def recipes(self, op: str) -> list[Recipe | whole.Recipe]:
        """Those of an op that the level constructs."""
        if op not in self._recipes:
            row, level = self.table[op], LEVELS[self.level]
            if row.elementwise:
                made: list[Recipe | whole.Recipe] = list(_recipes(row, level, self.seed))
            else:
                made = list(whole.recipes(row, level.few, level.offsets, level.threads, self.seed))
                made += [whole.Recipe(v, dtype) for v in row.versions for dtype in _declined_types(row, v)]
            self._recipes[op] = sorted(made, key=lambda recipe: recipe.order)
        return self._recipes[op]

    def indices(self, op: str, count: int | None) -> list[int]:
        """Which cases make up a run of `count`: all that are constructed, as many of them evenly, or with more behind
        them that are drawn at random."""
        total = len(self.recipes(op))
        if count is None or count >= total:
            return list(range(total if count is None else count))
        return [k * total // count for k in range(count)]

    def case(self, op: str, index: int) -> Case:
        """One case; the same for the same seed, level, op and index, whatever else is asked for."""
        made = self.recipes(op)
        stream = stream_of(self.seed, self.level, op, index)
        if index < len(made):
            return self._build(op, made[index], stream)
        if index >= 1 << 40:
            raise CaseError(f"there is no case {index}")
        base = made[int(stream.integers(len(made)))]
        if isinstance(base, whole.Recipe):
            base = whole.resized(base, stream)
        elif base.kind in values.KINDS:
            base = replace(
                base,
                shape=(int(stream.integers(200)),),
                offset=int(stream.integers(ALIGNMENT)),
                kind=values.KINDS[int(stream.integers(len(values.KINDS)))],
            )
        return self._build(op, base, stream)

    def _build(self, op: str, recipe: Recipe | whole.Recipe, stream: values.Stream) -> Case:
        row = self.table[op]
        return build(row, recipe, stream) if isinstance(recipe, Recipe) else whole.build(row, recipe, stream)

    def cases(self, op: str, count: int | None = None) -> Iterator[tuple[int, Case]]:
        """Cases of a run with their indices."""
        for index in self.indices(op, count):
            yield index, self.case(op, index)


def _recipes(op: Op, level: Level, seed: int) -> Iterator[Recipe]:
    for dtype in sorted({dtype for dtypes in op.dtypes.values() for dtype in dtypes}):
        versions = [version for version in op.versions if dtype in op.dtypes[version]]
        choices = {version: settings(rules(op, version), dtype, level.few) for version in versions}
        for alike in _alike(op, versions):
            yield from _pairwise(alike, choices, dtype, level, seed)
        yield from _whole(versions, choices, dtype, level)
    for version in op.versions:
        for dtype in _declined_types(op, version):
            yield Recipe(version, dtype, settings(rules(op, version), dtype, True)[0], (3,), "normal")


def _alike(op: Op, versions: Sequence[int]) -> list[list[int]]:
    """The versions in groups that have the same rules, but for the hint of the first ones."""
    groups: dict[str, list[int]] = {}
    for version in versions:
        rule = rules(op, version)
        own = {name: kind for name, kind in rule.attributes.items() if name != LEGACY}
        groups.setdefault(repr((own, rule.further)), []).append(version)
    return list(groups.values())


def _pairwise(
    versions: Sequence[int], choices: Mapping[int, Sequence[Setting]], dtype: int, level: Level, seed: int
) -> Iterator[Recipe]:
    """Every pair of values of any two axes."""
    further = any(setting.further for version in versions for setting in choices[version])
    constants = (False, True) if further else (False,)
    longest = max(len(choices[version]) for version in versions)
    axes = (versions, level.shapes, level.offsets, (False, True), range(longest), values.KINDS, constants)
    apart = ((0, 1), (1, 4)) if level.few else ()  # neither versions with the same rules nor settings have own shapes
    for row in covering(tuple(len(axis) for axis in axes), seed, apart):
        version, setting = versions[row[0]], row[4]
        yield Recipe(
            version,
            dtype,
            choices[version][setting % len(choices[version])],
            level.shapes[row[1]],
            values.KINDS[row[5]],
            level.offsets[row[2]],
            bool(row[3]),
            constants[row[6]],
        )


def _whole(
    versions: Sequence[int], choices: Mapping[int, Sequence[Setting]], dtype: int, level: Level
) -> Iterator[Recipe]:
    """Every special value in every lane, every pool whole for every setting, and large tensors."""
    newest = versions[-1]
    rare = choices[newest][min(1, len(choices[newest]) - 1)]
    special = values.special(dtype).size
    lanes = (LANES // item_size(dtype) if item_size(dtype) < 4 else 16) * special
    for in_place in (False,) if level.few else (False, True):
        yield Recipe(newest, dtype, rare, (lanes,), "lanes", 1 + 62 * in_place, in_place)
    for version in versions if not level.few else versions[-1:]:
        for k, setting in enumerate(choices[version]):
            pools = sum(values.pool(kind, dtype, setting.parameters).size for kind in POOLS)
            yield Recipe(version, dtype, setting, (pools,), "pools", level.offsets[k % len(level.offsets)])
    if not level.few and item_size(dtype) == 2 and values.is_float(dtype):
        for setting in choices[newest]:
            yield Recipe(newest, dtype, setting, (1 << 16,), "all", 2)
    for length in level.large:
        for threads in level.threads[-1:] if level.few else level.threads:
            yield Recipe(newest, dtype, rare, (length,), "bits", 63, threads=threads)
            if not level.few:
                yield Recipe(newest, dtype, rare, (length // 8 | 1, 8), "normal", in_place=True, threads=threads)
    for shape in ((), (0,), (1,), (17,)):
        yield Recipe(newest, dtype, rare, shape, "normal", 5, threads=level.threads[-1])


POOLS: Final = ("special", "threshold", "tempting")


def _declined_types(op: Op, version: int) -> list[int]:
    """Element types that the schema allows (or of contributed ops binary64) and the table lacks."""
    allowed = {values.DOUBLE}
    if onnx.defs.has(op.name, version, op.domain):
        schema = onnx.defs.get_schema(op.name, version, op.domain)
        named = {f"tensor({onnx.TensorProto.DataType.Name(n).lower()})": n for n in BYTE_SIZED}
        types = {constraint.type_param_str: constraint.allowed_type_strs for constraint in schema.type_constraints}
        allowed = {named[text] for text in types.get(schema.inputs[0].type_str, ()) if text in named}
    return sorted(allowed - op.dtypes[version])


def build(op: Op, recipe: Recipe, stream: values.Stream) -> Case:
    """The case of a recipe, its values drawn from the stream."""
    dtype, shape, parameters = recipe.dtype, recipe.shape, recipe.setting.parameters
    count = int(np.prod(shape, dtype=np.int64))
    if recipe.kind == "lanes":
        x = np.resize(values.special(dtype), count)
    elif recipe.kind == "pools":
        x = np.concatenate([values.pool(kind, dtype, parameters) for kind in POOLS])
    elif recipe.kind == "all":
        x = values.pool("all", dtype, ())
    else:
        x = values.draw(recipe.kind, dtype, count, parameters, stream)
    inputs: list[Operand | None] = [operand(x.reshape(shape), dtype)]
    for other in recipe.setting.further:
        if other is None or isinstance(other, np.ndarray):
            inputs.append(None if other is None else operand(other, dtype))
        else:
            row = shape[-1:] or (1,)
            own = shape if other == "same" else row
            size = int(np.prod(own, dtype=np.int64))
            inputs.append(operand(values.draw("special", dtype, size, (), stream).reshape(own), dtype))
    return Case(
        op.domain,
        op.name,
        recipe.version,
        recipe.setting.attributes,
        tuple(inputs),
        recipe.constant and any(i is not None for i in inputs[1:]),
        recipe.offset,
        recipe.in_place,
        recipe.threads,
    )
