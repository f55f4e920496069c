"""The op tables: the reference's and the C library's say the same, and both say what the ONNX schemas say."""

from typing import Any

import numpy as np
import onnx
import onnx.defs
import onnxruntime
import pytest

import quantised
from c_plans import OK, UNSUPPORTED, Plan, operand, text
from models import (
    AVAILABLE,
    BFLOAT16,
    BIASED,
    FLOAT,
    FLOAT16,
    PAIRED,
    VERSIONS,
    Arguments,
    Array,
    Row,
    assert_bits,
    dtypes,
    node,
    of_nodes,
    oracle,
    sample,
    value,
    with_arguments,
)
from ortwin.fast import Session
from ortwin.fast.library import CAttr, default_library
from ortwin.ref import UnsupportedError
from ortwin.ref.ops import OPS

ATTR_TYPES = {
    onnx.defs.OpSchema.AttrType.FLOAT: 3,
    onnx.defs.OpSchema.AttrType.INT: 1,
    onnx.defs.OpSchema.AttrType.INTS: 2,
    onnx.defs.OpSchema.AttrType.STRING: 5,
}

C_TABLE = {(row.domain, row.name, row.since_version): row for row in default_library().ops()}
SCHEMAS = {
    (schema.domain, schema.name, schema.since_version): schema for schema in onnx.defs.get_all_schemas_with_history()
}
ROWS = [Row(op, version) for op, versions in VERSIONS.items() for version in versions]
BIASED_ROWS = [Row(op, version) for op, versions in BIASED.items() for version in versions]


WHOLE = {6, 7, 12, 13}  # integers of 32 and 64 bits
PRODUCTS = {
    ("", "MatMul", 1): frozenset({FLOAT, FLOAT16}),
    ("", "MatMul", 9): frozenset({FLOAT, FLOAT16, *WHOLE}),
    ("", "MatMul", 13): frozenset({FLOAT, FLOAT16, BFLOAT16, *WHOLE}),
    **{("", "Gemm", version): frozenset({FLOAT, FLOAT16}) for version in (1, 6, 7)},
    **{("", "Gemm", version): frozenset({FLOAT, FLOAT16, *WHOLE}) for version in (9, 11)},
    ("", "Gemm", 13): frozenset({FLOAT, FLOAT16, BFLOAT16, *WHOLE}),
}
"""Rows of matrix products, by hand from the ONNX text."""

ONNX_ROWS = [row for row in ROWS if not row.domain]


def schema(row: Row) -> Any:
    return SCHEMAS["", row.name, row.version]


def test_both_tables_agree_to_the_last_element_type() -> None:
    reference = {(op.domain, op.name, version): types for op in OPS.values() for version, types in op.dtypes.items()}
    assert {key: row.dtypes for key, row in C_TABLE.items()} == reference


def test_the_c_table_is_the_list_of_these_tests() -> None:
    assert len(default_library().ops()) == len(C_TABLE), "a row is there twice"
    rows = (*ROWS, *BIASED_ROWS)
    listed = {(row.domain, row.name, row.version): frozenset(dtypes(row.op, row.version)) for row in rows}
    listed |= quantised.ROWS | PRODUCTS
    assert {key: row.dtypes for key, row in C_TABLE.items()} == listed


def test_every_version_in_the_history_of_an_op_is_there_and_no_other() -> None:
    """com.microsoft has one version of each op, and the onnx package does not know them."""
    names = {(domain, name) for domain, name, _ in C_TABLE}
    history = {key for key, entry in SCHEMAS.items() if key[:2] in names and not entry.deprecated}
    contributed = {(row.domain, row.name, 1) for row in (*ROWS, *BIASED_ROWS) if row.domain}
    assert set(C_TABLE) == history | contributed | {key for key in quantised.ROWS if key[0]}


FLOAT_TYPES = {"tensor(float)": FLOAT, "tensor(float16)": FLOAT16, "tensor(bfloat16)": BFLOAT16}


def test_the_float_types_of_a_row_are_those_its_schema_version_allows() -> None:
    """Of ai.onnx by the onnx package, of com.microsoft by ONNX Runtime. float64 is the one that is left out."""
    schemas = [*SCHEMAS.values(), *onnxruntime.capi.onnxruntime_pybind11_state.get_all_operator_schema()]
    allowed = {
        (entry.domain, entry.name, entry.since_version): {FLOAT_TYPES.get(name) for name in entry.inputs[0].types}
        for entry in schemas
        if entry.inputs
    }
    for key, row in C_TABLE.items():
        if row.name != "Identity":  # which copies what no schema of its version knows, too
            assert row.dtypes & set(FLOAT_TYPES.values()) == allowed[key] - {None}, key


def test_every_opset_resolves_to_a_row() -> None:
    for op in VERSIONS:
        for opset in range(1, onnx.defs.onnx_opset_version() + 1):
            if "." not in op and onnx.defs.has(op, opset):
                assert ("", op, onnx.defs.get_schema(op, opset).since_version) in C_TABLE, (op, opset)


def test_cost_classes() -> None:
    classes = dict.fromkeys(VERSIONS, "memory") | dict.fromkeys(
        ("HardSwish", "Reciprocal", "Sqrt", "Softsign", "Div"), "light"
    )
    classes |= dict.fromkeys(("Exp", "Log", "Tanh", "Sigmoid", "Erf", "Elu", "Selu"), "transcendental")
    classes |= dict.fromkeys(("Celu", "Swish", "Gelu", "Softplus", "Mish"), "composite")
    classes |= {op: "composite" for op in (*VERSIONS, *BIASED) if op.startswith("com.microsoft.")}
    rows = (*ROWS, *BIASED_ROWS)
    assert {row.op: C_TABLE[row.domain, row.name, row.version].cost_class for row in rows} == classes


@pytest.mark.parametrize("isa", AVAILABLE)
def test_every_row_of_the_c_table_has_a_kernel(isa: str) -> None:
    """Also at opsets between versions, and by the newest one that resolves to the row."""
    for row in ROWS:
        later = [v for v in VERSIONS[row.op] if v > row.version] or [
            row.version + 1 if row.domain else onnx.defs.onnx_opset_version() + 1
        ]
        for opset in {row.version, later[0] - 1}:
            for dtype in C_TABLE[row.domain, row.name, row.version].dtypes:
                model = of_nodes(
                    [node(row.name, ["x"] * (2 if row.op in PAIRED else 1), "y", domain=row.domain)],
                    [value("x", dtype)],
                    [value("y", dtype)],
                    opset_imports=[onnx.helper.make_opsetid(row.domain, opset)],
                )
                x = sample(dtype, 21)
                assert_bits(Session(model, isa=isa).run(None, {"x": x})[0], oracle(model, {"x": x}), (row, opset))


def needed(row: Row) -> Arguments:
    """x as the second operand too, if there are two: shapes that are equal need no attribute."""
    return Arguments(bounds=("x",)) if row.op in PAIRED else Arguments()


def members(row: Row) -> dict[str, Any]:
    """Which op it is, as members of a CNode."""
    return {"domain": row.domain.encode(), "since_version": row.version}


def alone(row: Row, *attributes: tuple[str, int, float], isa: str = "portable") -> Any:
    """The row's op in a plan of its own on sample(FLOAT), with only these attributes; None if the plan refuses it."""
    plan = Plan(isa.encode())
    attrs = (CAttr * 8)(*(CAttr(name.encode(), kind, f, 0) for name, kind, f in attributes))
    more = {**members(row), "attrs": attrs, "attr_count": len(attributes)}
    x = plan.input(operand(FLOAT))
    status, slot = plan.try_node(row.name, *[x] * (2 if row.op in PAIRED else 1), **more)
    if status != OK:
        assert status == UNSUPPORTED
        return None
    return plan.output(slot).seal().run([sample(FLOAT)])[0]


@pytest.mark.parametrize("row", ONNX_ROWS, ids=str)
def test_attribute_defaults(row: Row) -> None:
    """Omitted or given with the schema's value: one result. The C side is asked alone, since the reader of models,
    like ONNX Runtime, fills defaults in."""
    defaults = {
        name: attribute.default_value.f
        for name, attribute in schema(row).attributes.items()
        if attribute.default_value.type == onnx.AttributeProto.FLOAT
    }
    given = needed(row)
    full = Arguments((*given.attributes, *defaults.items()), given.bounds)
    want = oracle(with_arguments(row, full), {"x": sample(FLOAT)})
    assert_bits(oracle(with_arguments(row, given), {"x": sample(FLOAT)}), want, "ref")
    for isa in AVAILABLE:
        assert_bits(alone(row, isa=isa), want, isa)
        assert_bits(alone(row, *((name, 3, f) for name, f in defaults.items()), isa=isa), want, isa)
        for name in defaults:
            one = [(other, 3, f) for other, f in defaults.items() if other != name]
            assert_bits(alone(row, *one, isa=isa), want, f"{isa} without {name}")


def test_clip_1_has_no_defaults_and_bounds_nothing() -> None:
    attributes = schema(Row("Clip", 1)).attributes.values()
    assert all(attribute.default_value.type == onnx.AttributeProto.UNDEFINED for attribute in attributes)
    assert_bits(alone(Row("Clip", 1)), alone(Row("Clip", 6)))


@pytest.mark.parametrize("isa", AVAILABLE)
def test_attributes_of_com_microsoft(isa: str) -> None:
    """From ONNX Runtime's text: QuickGelu's alpha is 1.702 unless given; FastGelu and Gelu have none."""
    quick = Row("com.microsoft.QuickGelu", 1)
    alpha = float(np.float32(1.702))
    want = oracle(with_arguments(Row("Swish", 24), Arguments((("alpha", alpha),))), {"x": sample(FLOAT)})
    assert_bits(oracle(with_arguments(quick, Arguments()), {"x": sample(FLOAT)}), want, "ref")
    assert_bits(alone(quick, isa=isa), want)
    assert_bits(alone(quick, ("alpha", 3, alpha), isa=isa), want)
    assert_bits(alone(Row("com.microsoft.Gelu", 1), isa=isa), alone(Row("Gelu", 20), isa=isa))
    tanh = with_arguments(Row("Gelu", 20), Arguments((("approximate", "tanh"),)))
    assert_bits(alone(Row("com.microsoft.FastGelu", 1), isa=isa), oracle(tanh, {"x": sample(FLOAT)}))
    for kind in (1, 2, 4, 5, 8):
        assert alone(quick, ("alpha", kind, 0.5)) is None
    for name in ("beta", "approximate", "Alpha", "gamma"):
        assert alone(quick, (name, 3, 0.5)) is None
        for op in ("com.microsoft.Gelu", "com.microsoft.FastGelu"):
            assert alone(Row(op, 1), (name, 3, 0.5)) is None


def test_a_string_attribute_is_as_long_as_it_says() -> None:
    """Not as far as a NUL; and the last of a name counts."""

    def gelu(*texts: tuple[bytes | None, int]) -> Array | None:
        plan = Plan()
        attrs = (CAttr * 2)(*(CAttr(b"approximate", 5, s=text, length=length) for text, length in texts))
        more = {"since_version": 20, "attrs": attrs, "attr_count": len(texts)}
        status, slot = plan.try_node("Gelu", plan.input(operand(FLOAT)), **more)
        return plan.output(slot).seal().run([sample(FLOAT)])[0] if status == OK else None

    none, tanh = (
        oracle(with_arguments(Row("Gelu", 20), Arguments((("approximate", text),))), {"x": sample(FLOAT)})
        for text in ("none", "tanh")
    )
    assert none.tobytes() != tanh.tobytes()
    accepted: list[tuple[Array, list[tuple[bytes | None, int]]]] = [
        (none, []),
        (none, [(b"nonetanh", 4)]),
        (tanh, [(b"tanhnone", 4)]),
        (tanh, [(b"none", 4), (b"tanh", 4)]),
        (none, [(b"tanh", 4), (b"none", 4)]),
    ]
    for want, texts in accepted:
        got = gelu(*texts)
        assert got is not None, texts
        assert_bits(got, want, texts)
    for refused in ((b"tanhtanh", 8), (b"tanh", 3), (b"tanh", 5), (b"tanh", 0), (b"none", 3), (None, 4), (b"", 0)):
        assert gelu(refused) is None, refused
        assert gelu((b"tanh", 4), refused) is None, refused


@pytest.mark.parametrize("row", ONNX_ROWS, ids=str)
def test_the_attributes_accepted_are_those_of_the_schema(row: Row) -> None:
    in_schema = {name: ATTR_TYPES[attribute.type] for name, attribute in schema(row).attributes.items()}
    for name in (
        "alpha",
        "beta",
        "min",
        "max",
        "consumed_inputs",
        "gamma",
        "Alpha",
        "",
    ):  # not approximate: that is below
        for kind in (1, 2, 3, 4, 5, 8):
            result = alone(row, (name, kind, 0.5))
            assert (result is not None) == (in_schema.get(name) == kind), (name, kind, text())
    if "consumed_inputs" in in_schema:  # accepted, and means nothing
        assert_bits(alone(row, ("consumed_inputs", 2, 0.5)), alone(row))


@pytest.mark.parametrize("row", ONNX_ROWS, ids=str)
def test_the_operands_accepted_are_those_of_the_schema(row: Row) -> None:
    plan, more = Plan(), members(row)
    x, scalar = plan.input(operand(FLOAT)), plan.input(operand(FLOAT, []))
    for count in range(6):
        slots = [x, scalar, scalar, scalar, scalar, scalar][:count]
        status, _ = plan.try_node(row.name, *slots, **more)
        assert (status == OK) == (schema(row).min_input <= count <= schema(row).max_input), (count, text())
    for outputs in range(3):
        status, _ = plan.try_node(row.name, *[x] * (2 if row.op in PAIRED else 1), **more, output_count=outputs)
        assert (status == OK) == (outputs == 1)


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_element_types_beyond_the_table_are_refused(row: Row) -> None:
    """By C, and by both sessions, whatever a schema would allow."""
    supported = C_TABLE[row.domain, row.name, row.version].dtypes
    for dtype in (1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 24):
        plan = Plan()
        slots = [plan.input(operand(dtype))] * (2 if row.op in PAIRED else 1)
        status, _ = plan.try_node(row.name, *slots, **members(row))
        assert (status == OK) == (dtype in supported), (dtype, text())
        if dtype not in supported:
            model = with_arguments(Row(row.op, row.version, dtype), needed(row))
            with pytest.raises(UnsupportedError):
                Session(model)
            with pytest.raises(UnsupportedError):
                oracle(model, {"x": np.zeros(1)})
