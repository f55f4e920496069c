"""The op tables: the reference's and the C library's say the same, and both say what the ONNX schemas say."""

from typing import Any

import numpy as np
import onnx
import onnx.defs
import pytest

from models import (
    AVAILABLE,
    DOMAINS,
    FLOAT,
    VERSIONS,
    Arguments,
    Row,
    assert_bits,
    dtypes,
    node,
    of_nodes,
    oracle,
    plain,
    sample,
    value,
    with_arguments,
)
from ortwin.fast import Session
from ortwin.fast.library import CAttr, default_library
from ortwin.ref import UnsupportedError
from ortwin.ref.ops import OPS
from test_c_api import OK, UNSUPPORTED, Plan, operand, text

ATTR_TYPES = {
    onnx.defs.OpSchema.AttrType.FLOAT: 3,
    onnx.defs.OpSchema.AttrType.INTS: 2,
    onnx.defs.OpSchema.AttrType.STRING: 5,
}

C_TABLE = {(row.domain, row.name, row.since_version): row for row in default_library().ops()}
SCHEMAS = {
    (schema.domain, schema.name, schema.since_version): schema for schema in onnx.defs.get_all_schemas_with_history()
}
ROWS = [Row(op, version) for op, versions in VERSIONS.items() for version in versions]


ONNX_ROWS = [row for row in ROWS if not row.domain]


def schema(row: Row) -> Any:
    return SCHEMAS["", row.op, row.version]


def test_both_tables_agree_to_the_last_element_type() -> None:
    reference = {(op.domain, op.name, version): types for op in OPS.values() for version, types in op.dtypes.items()}
    assert {key: row.dtypes for key, row in C_TABLE.items()} == reference


def test_the_c_table_is_the_list_of_these_tests() -> None:
    assert len(default_library().ops()) == len(C_TABLE), "a row is there twice"
    listed = {(row.domain, row.op, row.version): frozenset(dtypes(row.op, row.version)) for row in ROWS}
    assert {key: row.dtypes for key, row in C_TABLE.items()} == listed


def test_every_version_in_the_history_of_an_op_is_there_and_no_other() -> None:
    """com.microsoft has one version of each op, and the onnx package does not know them."""
    names = {(domain, name) for domain, name, _ in C_TABLE}
    history = {key for key, entry in SCHEMAS.items() if key[:2] in names and not entry.deprecated}
    assert set(C_TABLE) == history | {(domain, op, 1) for op, domain in DOMAINS.items()}


def test_every_opset_resolves_to_a_row() -> None:
    for op in VERSIONS:
        for opset in range(1, onnx.defs.onnx_opset_version() + 1):
            if op not in DOMAINS and onnx.defs.has(op, opset):
                assert ("", op, onnx.defs.get_schema(op, opset).since_version) in C_TABLE, (op, opset)


def test_cost_classes() -> None:
    classes = dict.fromkeys(VERSIONS, "memory") | dict.fromkeys(
        ("HardSwish", "Reciprocal", "Sqrt", "Softsign"), "light"
    )
    classes |= dict.fromkeys(("Exp", "Log", "Tanh", "Sigmoid", "Erf", "Elu", "Selu"), "transcendental")
    classes |= dict.fromkeys(("Celu", "Swish", "Gelu", "QuickGelu", "FastGelu"), "composite")
    assert {row.name: row.cost_class for row in C_TABLE.values()} == classes


@pytest.mark.parametrize("isa", AVAILABLE)
def test_every_row_of_the_c_table_has_a_kernel(isa: str) -> None:
    """Also at opsets between versions, and by the newest one that resolves to the row."""
    for (domain, op, version), row in C_TABLE.items():
        later = [v for v in VERSIONS[op] if v > version] or [
            version + 1 if domain else onnx.defs.onnx_opset_version() + 1
        ]
        attributes = dict(plain(Row(op, version)).attributes)
        for opset in {version, later[0] - 1}:
            for dtype in row.dtypes:
                model = of_nodes(
                    [node(op, ["x"], "y", domain=domain, **attributes)],
                    [value("x", dtype)],
                    [value("y", dtype)],
                    opset_imports=[onnx.helper.make_opsetid(domain, opset)],
                )
                x = sample(dtype, 21)
                assert_bits(Session(model, isa=isa).run(None, {"x": x})[0], oracle(model, {"x": x}), (row, opset))


def members(row: Row) -> dict[str, Any]:
    """plain, and which op it is, as members of a CNode."""
    attrs = [CAttr(name.encode(), 5, s=text.encode(), length=len(text)) for name, text in plain(row).attributes]
    which = {"domain": row.domain.encode(), "since_version": row.version}
    return {**which, "attrs": (CAttr * 8)(*attrs), "attr_count": len(attrs)}


def alone(row: Row, *attributes: tuple[str, int, float], isa: str = "portable") -> Any:
    """The row's op in a plan of its own on sample(FLOAT), with only these attributes; None if the plan refuses it."""
    plan, more = Plan(isa.encode()), members(row)
    x = plan.input(operand(FLOAT))
    for k, (name, kind, f) in enumerate(attributes):
        more["attrs"][more["attr_count"] + k] = CAttr(name.encode(), kind, f, 0)
    more["attr_count"] += len(attributes)
    status, slot = plan.try_node(row.op, x, **more)
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
    needed = plain(row).attributes
    want = oracle(with_arguments(row, Arguments((*needed, *defaults.items()))), {"x": sample(FLOAT)})
    assert_bits(oracle(with_arguments(row, plain(row)), {"x": sample(FLOAT)}), want, "ref")
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
    """From ONNX Runtime's text: QuickGelu's alpha is 1.702 unless given; FastGelu has none."""
    quick = Row("QuickGelu", 1)
    alpha = float(np.float32(1.702))
    want = oracle(with_arguments(Row("Swish", 24), Arguments((("alpha", alpha),))), {"x": sample(FLOAT)})
    assert_bits(oracle(with_arguments(quick, Arguments()), {"x": sample(FLOAT)}), want, "ref")
    assert_bits(alone(quick, isa=isa), want)
    assert_bits(alone(quick, ("alpha", 3, alpha), isa=isa), want)
    assert_bits(alone(Row("FastGelu", 1), isa=isa), alone(Row("Gelu", 20), isa=isa))
    for kind in (1, 2, 4, 5, 8):
        assert alone(quick, ("alpha", kind, 0.5)) is None
    for name in ("beta", "approximate", "Alpha", "gamma"):
        assert alone(quick, (name, 3, 0.5)) is None
        assert alone(Row("FastGelu", 1), (name, 3, 0.5)) is None


def test_a_string_attribute_is_as_long_as_it_says() -> None:
    """Not as far as a NUL; and the last of a name counts."""

    def gelu(*texts: tuple[bytes | None, int]) -> bool:
        plan = Plan()
        attrs = (CAttr * 2)(*(CAttr(b"approximate", 5, s=text, length=length) for text, length in texts))
        more = {"since_version": 20, "attrs": attrs, "attr_count": len(texts)}
        return plan.try_node("Gelu", plan.input(operand(FLOAT)), **more)[0] == OK

    assert gelu((b"tanhtanh", 4))
    assert gelu((b"none", 4), (b"tanh", 4))
    for refused in ((b"tanhtanh", 8), (b"tanh", 3), (b"tanh", 5), (b"tanh", 0), (None, 4), (b"none", 4), (b"", 0)):
        assert not gelu(refused), refused
        assert not gelu((b"tanh", 4), refused), refused
    assert not gelu()


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
        status, _ = plan.try_node(row.op, *slots, **more)
        assert (status == OK) == (schema(row).min_input <= count <= schema(row).max_input), (count, text())
    for outputs in range(3):
        status, _ = plan.try_node(row.op, x, **more, output_count=outputs)
        assert (status == OK) == (outputs == 1)


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_element_types_beyond_the_table_are_refused(row: Row) -> None:
    """By C, and by both sessions, whatever a schema would allow."""
    supported = C_TABLE[row.domain, row.op, row.version].dtypes
    for dtype in (1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 24):
        plan = Plan()
        status, _ = plan.try_node(row.op, plan.input(operand(dtype)), **members(row))
        assert (status == OK) == (dtype in supported), (dtype, text())
        if dtype not in supported:
            model = with_arguments(Row(row.op, row.version, dtype), plain(row))
            with pytest.raises(UnsupportedError):
                Session(model)
            with pytest.raises(UnsupportedError):
                oracle(model, {"x": np.zeros(1)})
