"""The generator of `ortwin conform`: deterministic, and covering its axes, which is counted; and the text of a case."""

import itertools
from collections import defaultdict

import numpy as np
import onnx.defs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ortwin.conformance.conform import values, whole
from ortwin.conformance.conform.case import Case, CaseError, Operand, op_text, parse
from ortwin.conformance.conform.cover import covering, each
from ortwin.conformance.conform.generate import CONTRIBUTED, LEVELS, Generator, Recipe, rules
from ortwin.conformance.conform.generate import settings as of_rules
from ortwin.ref import InputError, Session, UnsupportedError
from ortwin.ref.ops import OPS, Op
from ortwin.ref.tensor import BYTE_SIZED, FLOAT, dtype_name, item_size

QUICK = Generator(0, "quick")
LEVEL = pytest.mark.parametrize("level", list(LEVELS))
EVERY_OP = pytest.mark.parametrize("op", [op for op in OPS.values() if op.elementwise], ids=lambda op: op.name)


def name(op: Op) -> str:
    return op_text(op.domain, op.name)


def by_type(op: Op, level: str) -> dict[int, list[Recipe]]:
    """The recipes of an op on each element type that is computed."""
    found: dict[int, list[Recipe]] = defaultdict(list)
    if level == "full":  # one type of each kind is enough of so many
        chosen = {FLOAT, 3, 10, 14}
        op = Op(op.name, {version: dtypes & chosen for version, dtypes in op.dtypes.items()}, op.make, op.domain)
    for recipe in Generator(0, level, {("", ""): op}).recipes(name(op)):
        if isinstance(recipe, Recipe) and recipe.dtype in op.dtypes[recipe.version]:
            found[recipe.dtype].append(recipe)
    return found


# the same cases again


def test_the_same_seed_makes_the_same_cases() -> None:
    again = Generator(0, "quick")
    for op in QUICK.ops:
        for index in [*QUICK.indices(op, 40), 10**6]:
            assert QUICK.case(op, index).text == again.case(op, index).text


def test_another_seed_makes_others() -> None:
    other = Generator(1, "quick")
    cases = [(QUICK.case("Exp", k).x.data, other.case("Exp", k).x.data) for k in QUICK.indices("Exp", None)]
    drawn = [a != b for a, b in cases if len(a) > 64]
    assert sum(drawn) > len(drawn) // 2  # the others are laid out whole


def test_a_case_depends_on_nothing_but_its_name() -> None:
    """Not on what was made before, nor on how many are."""
    in_turn = dict(QUICK.cases("Selu"))
    for index in (len(in_turn) - 1, 7, 0):
        assert Generator(0, "quick").case("Selu", index).text == in_turn[index].text
    few = dict(QUICK.cases("Selu", 10))
    assert len(few) == 10
    assert all(in_turn[index].text == case.text for index, case in few.items())


def test_a_count_beyond_the_level_draws_more() -> None:
    total = len(QUICK.recipes("Relu"))
    indices = QUICK.indices("Relu", total + 50)
    assert indices == list(range(total + 50))
    more = {QUICK.case("Relu", index).text for index in indices[total:]}
    assert len(more) > 45
    with pytest.raises(CaseError, match="there is no case"):
        QUICK.case("Relu", 1 << 40)


# coverage


@given(st.lists(st.integers(1, 6), min_size=3, max_size=6), st.integers(0, 3), st.booleans())
@settings(max_examples=50, deadline=None)
def test_covering_has_every_pair(sizes: list[int], seed: int, apart: bool) -> None:
    rows = covering(tuple(sizes), seed, ((0, 1),) if apart else ())
    for a, b in itertools.combinations(range(len(sizes)), 2):
        found = {(row[a], row[b]) for row in rows}
        assert found == set(itertools.product(range(sizes[a]), range(sizes[b]))) or (apart and (a, b) == (0, 1))
    most = sorted(sizes)[-2:]
    assert len(rows) <= most[0] * most[1] + sum(a * b for a, b in itertools.combinations(sizes, 2))


@given(st.lists(st.integers(1, 9), min_size=2, max_size=8), st.integers(0, 3), st.integers(0, 12))
@settings(max_examples=50, deadline=None)
def test_each_has_every_value(sizes: list[int], seed: int, least: int) -> None:
    rows = each(tuple(sizes), seed, least)
    assert len(rows) == max(*sizes, least)
    for axis, size in enumerate(sizes):
        assert {row[axis] for row in rows} == set(range(size))


@LEVEL
@EVERY_OP
def test_every_version_and_type_on_every_axis(op: Op, level: str) -> None:
    axes = LEVELS[level]
    table = {(version, dtype) for version, dtypes in op.dtypes.items() for dtype in dtypes}
    seen: set[tuple[int, int]] = set()
    for dtype, recipes in by_type(op, level).items():
        versions = [version for version in op.versions if dtype in op.dtypes[version]]
        seen |= {(recipe.version, dtype) for recipe in recipes}
        for version in versions:
            own = [recipe for recipe in recipes if recipe.version == version]
            if level == "full":
                assert {recipe.shape for recipe in own} >= set(axes.shapes)
            assert {recipe.offset for recipe in own} >= set(axes.offsets)
            assert {recipe.kind for recipe in own} >= set(values.KINDS)
            assert {recipe.in_place for recipe in own} == {False, True}
            wanted = {setting.text for setting in of_rules(rules(op, version), dtype, axes.few)}
            assert {recipe.setting.text for recipe in own} == wanted
        pairs = {(recipe.shape, recipe.offset) for recipe in recipes}
        assert pairs >= set(itertools.product(axes.shapes, axes.offsets))
        newest = {setting.text for setting in of_rules(rules(op, versions[-1]), dtype, axes.few)}
        kinds = {(recipe.setting.text, recipe.kind) for recipe in recipes}
        assert kinds >= set(itertools.product(newest, values.KINDS))
        for length in axes.large:
            large = [r for r in recipes if int(np.prod(r.shape)) >= length - 8]
            assert {recipe.threads for recipe in large} >= set(axes.threads[-1:] if axes.few else axes.threads)
    assert seen == (table if level == "quick" else {row for row in table if row[1] in (FLOAT, 3, 10, 14)})


WHOLE = [op for op in OPS.values() if not op.elementwise]


def sizes_of(cases: list[Case]) -> set[tuple[tuple[int, ...] | None, ...]]:
    """The shapes of the operands of each."""
    return {tuple(None if item is None else item.shape for item in case.inputs) for case in cases}


@pytest.mark.parametrize("op", WHOLE, ids=lambda op: op.name)
def test_every_version_and_type_of_the_others(op: Op) -> None:
    """Each way to call them, and most of the cases are computed."""
    cases = [case for _, case in QUICK.cases(name(op))]
    table = {(v, dtype) for v, dtypes in op.dtypes.items() for dtype in dtypes if dtype in BYTE_SIZED}
    assert {(case.version, case.x.dtype) for case in cases} >= table
    for dtype in {dtype for _, dtype in table}:
        own = [case for case in cases if case.x.dtype == dtype]
        assert len(own) >= whole.LEAST
        for seen in (
            {case.offset for case in own if case.inputs[0]},
            {case.threads for case in own},
            {case.shaped for case in own},
            {case.constant for case in own} if len(own[0].inputs) > 1 else {0, 1},
        ):
            assert len(seen) > 1
    recipes = [recipe for recipe in QUICK.recipes(name(op)) if isinstance(recipe, whole.Recipe) and recipe.choice]
    assert {recipe.chosen["mix"] for recipe in recipes} == set(whole.MIXES)
    more = QUICK.case(name(op), len(recipes) + 1000)
    assert more.text == QUICK.case(name(op), len(recipes) + 1000).text


@pytest.mark.parametrize("op", sorted(whole.PRODUCTS))
def test_products_of_all_shapes(op: str) -> None:
    (row,) = (row for row in WHOLE if row.name == op)
    for level in ("quick", "full"):
        sizes = whole.shapes(level == "quick")
        assert {at.m for at in sizes if not at.vectors} >= set(range(18))
        assert {at.k for at in sizes} >= {0, 1, 15, 16, 17, 31, 33, 255, 256, 257, 513}
        assert {at.n for at in sizes} >= {0, 1, 7, 8, 9, 15, 16, 17, 31, 32, 33}
        assert {at.vectors for at in sizes} == {"", "a", "b", "ab"}
        assert {(bool(at.a_batch), bool(at.b_batch)) for at in sizes} == set(itertools.product((False, True), repeat=2))
    assert {at.k for at in whole.shapes(False)} >= {512, 4096}
    shapes = {case.inputs[0].shape for _, case in QUICK.cases(name(row)) if case.inputs[0]}
    assert len(shapes) > 20


def test_forms_of_zero_points_scales_and_biases() -> None:
    gemm = [case for _, case in QUICK.cases("Gemm")]
    turns = {(dict(case.attributes).get("transA"), dict(case.attributes).get("transB")) for case in gemm}
    assert turns >= set(itertools.product((0, 1), (0, 1)))
    assert {len(case.inputs) for case in gemm if case.version >= 11} == {2, 3}
    biases = {case.inputs[2].shape for case in gemm if len(case.inputs) > 2 and case.inputs[2]}
    assert biases >= {(), (1,)}
    assert {len(shape) for shape in biases} == {0, 1, 2}
    assert any(shape[0] > 1 and shape[1] == 1 for shape in biases if len(shape) == 2)
    assert any(shape[0] == 1 and shape[1] > 1 for shape in biases if len(shape) == 2)
    betas = [value for case in gemm for key, value in case.attributes if key == "beta" and isinstance(value, float)]
    assert {bool(np.signbit(beta)) for beta in betas if beta == 0} == {False, True}
    ranks: dict[tuple[str, int], set[int]] = defaultdict(set)
    for op, a, b in (("MatMulInteger", 2, 3), ("QLinearMatMul", 2, 5)):
        for shapes, position in itertools.product(sizes_of([case for _, case in QUICK.cases(op)]), (a, b)):
            shape = shapes[position] if position < len(shapes) else None
            if shape is not None:
                ranks[op, position].add(len(shape))
    assert all(found >= {0, 1, 2} for found in ranks.values())
    assert max(max(found) for found in ranks.values()) > 2, "no zero point is of a batch"
    both = {(case.x.dtype, item.dtype) for _, case in QUICK.cases("MatMulInteger") if (item := case.inputs[1])}
    assert both == set(itertools.product((2, 3), (2, 3)))


def test_operands_and_mistakes_of_weights_of_a_few_bits() -> None:
    """Every form of every operand at every level is computed in some case; every rule is broken in some."""
    computed, refused = [], []
    for _, case in QUICK.cases("com.microsoft.MatMulNBits"):
        try:
            Session(case.model()).run(None, case.feeds)
            computed.append(case)
        except (UnsupportedError, InputError) as error:
            refused.append(str(error))
    present = {tuple(item is not None for item in (*case.inputs, None, None, None)[3:6]) for case in computed}
    assert present == set(itertools.product((False, True), repeat=3))
    attributes = [dict(case.attributes) for case in computed]
    assert {(a["bits"], a["accuracy_level"] == 4) for a in attributes} == set(
        itertools.product((2, 4, 8), (False, True))
    )
    assert {a["block_size"] for a in attributes} == {16, 32, 64, 128}
    zeros = {(item.dtype == case.x.dtype, len(item.shape)) for case in computed if (item := (*case.inputs, None)[3])}
    assert zeros == {(False, 1), (False, 2), (True, 2)}
    assert {0 in case.inputs[1].shape for case in computed if case.inputs[1]} == {False, True}
    rules = ("A has shape", "input B", "input scales", "input zero_points", "input g_idx", "input bias", "g_idx is",
             "is float16, not", "accuracy_level is", "bits is", "block_size is")  # fmt: skip
    for rule in rules:
        assert any(rule in text for text in refused), rule


def test_lengths_ranks_and_offsets_of_the_levels() -> None:
    for level in LEVELS.values():
        assert {len(shape) for shape in level.shapes} == set(range(9))
        lengths = {int(np.prod(shape)) for shape in level.shapes}
        assert lengths >= {0, 1, 7, 8, 9, 15, 16, 17, 31, 61}
        assert {len(shape) for shape in level.shapes if 0 in shape} >= {1, 3, 8}
        assert {offset % 2 for offset in level.offsets} == {0, 1}
    assert LEVELS["quick"].large == (4099,)
    assert LEVELS["full"].large[-1] == (1 << 20) + 3
    assert LEVELS["full"].offsets == tuple(range(64))
    assert {shape[0] for shape in LEVELS["full"].shapes if len(shape) == 1} >= set(range(68))


@pytest.mark.parametrize("few", [True, False])
def test_attributes_take_every_kind_of_number(few: bool) -> None:
    for op in (op for op in OPS.values() if op.elementwise):
        rule = rules(op, op.versions[-1])
        for attribute, kind in rule.attributes.items():
            if kind != onnx.defs.OpSchema.AttrType.FLOAT:
                continue
            made = of_rules(rule, FLOAT, few)
            numbers = np.array([v for s in made for n, v in s.attributes if n == attribute], np.float64)
            assert any(attribute not in dict(setting.attributes) for setting in made)
            assert np.isnan(numbers).any()
            assert np.isinf(numbers).any()
            assert (numbers < -1).any()
            assert {bool(sign) for sign in np.signbit(numbers[numbers == 0])} == {False, True}
            assert (np.abs(numbers) > 1e38).any()
            assert ((np.abs(numbers) > 0) & (np.abs(numbers) < 2.0**-126)).any()


def test_operands_after_the_first_are_given_and_left_out() -> None:
    clip = [case for _, case in QUICK.cases("Clip") if case.version == 13 and case.x.dtype == FLOAT]
    given = {tuple(item is not None for item in case.inputs[1:]) for case in clip}
    assert given >= {(), (False,), (True,), (False, True), (True, False), (True, True), (False, False)}
    assert {case.constant for case in clip if len(case.inputs) > 1} == {False, True}
    bounds = [[float(i.array) for i in case.inputs[1:] if i] for case in clip if len(case.inputs) == 3]
    both = [pair for pair in bounds if len(pair) == 2]
    assert any(low > high for low, high in both)
    assert any(np.isnan(pair).any() for pair in both)
    assert any(low == high == 0 and np.signbit(low) != np.signbit(high) for low, high in both)
    fast_gelu = [case for _, case in QUICK.cases("com.microsoft.FastGelu") if len(case.inputs) > 1]
    assert fast_gelu
    assert all(case.inputs[1].shape == (case.x.shape[-1:] or (1,)) for case in fast_gelu if case.inputs[1])


@pytest.mark.parametrize("dtype", sorted(BYTE_SIZED), ids=dtype_name)
def test_every_special_value_in_every_lane(dtype: int) -> None:
    recipes = [
        (k, r)
        for k, r in enumerate(QUICK.recipes("Identity"))
        if isinstance(r, Recipe) and r.kind == "lanes" and r.dtype == dtype
    ]
    lanes = max(16, 64 // item_size(dtype)) if item_size(dtype) < 16 else 4
    for index, _ in recipes:
        x = QUICK.case("Identity", index).x
        rows = np.frombuffer(x.data, np.uint8).reshape(x.size, -1)
        patterns = {row.tobytes() for row in rows}
        seen = {(k % lanes, row.tobytes()) for k, row in enumerate(rows)}
        assert len(seen) == lanes * len(patterns)
        assert patterns == {row.tobytes() for row in np.frombuffer(values.special(dtype).tobytes(), rows.dtype).reshape(
            -1, rows.shape[1])}  # fmt: skip


@pytest.mark.parametrize("dtype", sorted(values.FRACTION_BITS), ids=dtype_name)
def test_special_values_have_every_class(dtype: int) -> None:
    size, fraction = item_size(dtype), values.FRACTION_BITS[dtype]
    patterns = {int(p) for p in values.special(dtype).view(f"u{size}")}
    top = 1 << 8 * size - 1
    inf = top - (1 << fraction)
    quiet = 1 << fraction - 1
    for sign in (0, top):
        finite = (0, 1, (1 << fraction) - 1, 1 << fraction, inf - 1)  # zero, the ends of subnormals and of normals
        assert {sign | p for p in (*finite, inf, inf + 1, inf | quiet, top - 1)} <= patterns
        payloads = [p - sign - inf for p in patterns if inf < p - sign < top]
        assert any(0 < p < quiet and p != 1 for p in payloads), "no signalling NaN with a payload"
        assert any(p > quiet for p in payloads), "no quiet NaN with a payload"


def test_tempting_values_tempt() -> None:
    """Each careless way to compute is seen by some of the values."""
    alpha, beta = np.float32(0.2), np.float32(0.5)
    x = values.tempting(FLOAT, (float(alpha), float(beta)))
    with np.errstate(all="ignore"):
        rounded_twice, once = alpha * x + beta, (np.float64(alpha) * x + np.float64(beta)).astype(np.float32)
        three = np.float32(3)
        assert (rounded_twice != once).sum() >= 8
        assert ((x + three) - three != x).any()
        assert (np.abs(x * x) < 2.0**-126).any()
        assert np.isinf(x * x).any()
        assert np.isinf(np.abs(x) + np.abs(x)).any()


def test_thresholds_follow_the_node() -> None:
    near = values.threshold(FLOAT, (0.7,))
    for number in (0.7, -0.7, 3.0 / float(np.float32(0.7))):
        assert (np.abs(near - np.float32(number)) <= np.spacing(np.float32(abs(number)))).sum() >= 3


def test_types_outside_the_table_are_in() -> None:
    """Whatever the schema allows and the op declines."""
    for op in (op for op in OPS.values() if op.elementwise):
        for version in op.versions:
            made = {recipe.dtype for recipe in QUICK.recipes(name(op)) if recipe.version == version}
            assert made >= op.dtypes[version]
            if op.name == "Relu" and version == 14:
                assert made - op.dtypes[version] >= {3, 5, 6, 7, 11} - op.dtypes[version]


def test_new_ops_come_in_by_themselves() -> None:
    """An op that is only in the table: its cases follow from its schema."""
    add = Op("Shrink", {9: frozenset({FLOAT, 7})}, OPS["", "Relu"].make)
    made = Generator(0, "quick", {("", "Shrink"): add})
    assert made.ops == ["Shrink"]
    attributes = {key for _, case in made.cases("Shrink") for key, _ in case.attributes}
    assert attributes == {"bias", "lambd"}
    assert {case.x.dtype for _, case in made.cases("Shrink")} >= {FLOAT, 7}
    two = Generator(0, "quick", {("", "Add"): Op("Add", {14: frozenset({FLOAT})}, OPS["", "Relu"].make)})
    assert all(case.inputs[1] is not None and case.inputs[1].shape == case.x.shape for _, case in two.cases("Add"))


def test_contributed_ops_are_known() -> None:
    """What the onnx package can't tell of an op in the table, this project has to."""
    assert set(CONTRIBUTED) >= {("com.microsoft", name) for name in ("QuickGelu", "FastGelu", "BiasGelu")}


# texts


def operands(dtype: int) -> st.SearchStrategy[Operand]:
    shapes = st.lists(st.integers(0, 3), max_size=3).map(tuple)
    return shapes.flatmap(
        lambda shape: st.binary(
            min_size=int(np.prod(shape)) * item_size(dtype), max_size=int(np.prod(shape)) * item_size(dtype)
        ).map(lambda data: Operand(dtype, shape, data))
    )


ATTRIBUTES = st.tuples(
    st.sampled_from(["alpha", "beta", "approximate"]),
    st.one_of(st.floats(width=32), st.integers(), st.text(), st.lists(st.integers()).map(tuple)),
)


@given(
    st.builds(
        Case,
        domain=st.sampled_from(["", "com.microsoft"]),
        op=st.sampled_from(["Clip", "QuickGelu"]),
        version=st.integers(1, 99),
        attributes=st.lists(ATTRIBUTES, max_size=3).map(tuple),
        inputs=st.tuples(operands(FLOAT), st.one_of(st.none(), operands(16))),
        constant=st.booleans(),
        offset=st.integers(0, 63),
        in_place=st.booleans(),
        threads=st.integers(1, 1024),
        shaped=st.booleans(),
    )
)
@settings(max_examples=200, deadline=None)
def test_a_case_can_be_written_and_read(case: Case) -> None:
    assert "\n" not in case.text
    assert parse(case.text).text == case.text
    assert parse(case.text).inputs == case.inputs
    assert repr(parse(case.text)) == repr(case)  # as text, since a NaN is not equal to itself


def test_a_case_reads_well() -> None:
    x = Operand(FLOAT, (2,), np.array([1.0, -0.0], np.float32).tobytes())
    case = Case("", "LeakyRelu", 16, (("alpha", -0.375),), (x,), offset=3, in_place=True)
    assert case.text == "LeakyRelu-16 @alpha=-0x1.8p-2 x=float32[2]:0000803f00000080 offset=3 in_place"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Relu",
        "Relu-14",
        "Relu-14 x=-",
        "Relu-14 x=float32[2]:00",
        "Relu-14 x=float99[]:00",
        "Relu-14 x=float32[,]:00",
        "Relu-14 x=float32[]:0000000",
        "Relu-14 y=float32[]:00000000",
        "Relu-14 x=float32[]:00000000 offset=64",
        "Relu-14 x=float32[]:00000000 threads=0",
        "Relu-14 x=float32[]:00000000 sideways",
        "Relu-14 @alpha=one x=float32[]:00000000",
        "Relu-14 i1=float32[]:00000000 x=float32[]:00000000",
    ],
)
def test_what_is_no_case_is_told(text: str) -> None:
    with pytest.raises(CaseError) as caught:
        parse(text)
    assert "\n" not in str(caught.value)
