"""The op tables: the reference's and the C library's say the same, and both say what the ONNX schemas say."""

from typing import Any

import numpy as np
import onnx
import onnx.defs
import pytest

from models import (
    AVAILABLE,
    FLOAT,
    VERSIONS,
    Arguments,
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
from test_c_api import OK, UNSUPPORTED, Plan, operand, text

ATTR_TYPES = {onnx.defs.OpSchema.AttrType.FLOAT: 3, onnx.defs.OpSchema.AttrType.INTS: 2}

C_TABLE = {(row.domain, row.name, row.since_version): row for row in default_library().ops()}
SCHEMAS = {
    (schema.domain, schema.name, schema.since_version): schema for schema in onnx.defs.get_all_schemas_with_history()
}
ROWS = [Row(op, version) for op, versions in VERSIONS.items() for version in versions]


def schema(row: Row) -> Any:
    return SCHEMAS["", row.op, row.version]


def test_both_tables_agree_to_the_last_element_type() -> None:
    reference = {(op.domain, op.name, version): types for op in OPS.values() for version, types in op.dtypes.items()}
    assert {key: row.dtypes for key, row in C_TABLE.items()} == reference


def test_the_c_table_is_the_list_of_these_tests() -> None:
    assert len(default_library().ops()) == len(C_TABLE), "a row is there twice"
    listed = {("", row.op, row.version): frozenset(dtypes(row.op, row.version)) for row in ROWS}
    assert {key: row.dtypes for key, row in C_TABLE.items()} == listed


def test_every_version_in_the_history_of_an_op_is_there_and_no_other() -> None:
    names = {(domain, name) for domain, name, _ in C_TABLE}
    history = {key for key, entry in SCHEMAS.items() if key[:2] in names and not entry.deprecated}
    assert set(C_TABLE) == history


def test_every_opset_resolves_to_a_row() -> None:
    for op in VERSIONS:
        for opset in range(1, onnx.defs.onnx_opset_version() + 1):
            if onnx.defs.has(op, opset):
                assert ("", op, onnx.defs.get_schema(op, opset).since_version) in C_TABLE, (op, opset)


def test_cost_classes() -> None:
    light = {"HardSwish", "Reciprocal", "Sqrt", "Softsign"}
    assert {row.name: row.cost_class for row in C_TABLE.values()} == {
        op: "light" if op in light else "memory" for op in VERSIONS
    }


@pytest.mark.parametrize("isa", AVAILABLE)
def test_every_row_of_the_c_table_has_a_kernel(isa: str) -> None:
    """Also at opsets between versions, and by the newest one that resolves to the row."""
    for (_, op, version), row in C_TABLE.items():
        later = [v for v in VERSIONS[op] if v > version]
        for opset in {version, (later[0] if later else onnx.defs.onnx_opset_version() + 1) - 1}:
            for dtype in row.dtypes:
                model = of_nodes([node(op, ["x"], "y")], [value("x", dtype)], [value("y", dtype)], opset=opset)
                x = sample(dtype, 21)
                assert_bits(Session(model, isa=isa).run(None, {"x": x})[0], oracle(model, {"x": x}), (row, opset))


def alone(row: Row, *attributes: tuple[str, int, float], isa: str = "portable") -> Any:
    """The row's op in a plan of its own on sample(FLOAT), with only these attributes; None if the plan refuses it."""
    plan = Plan(isa.encode())
    attrs = (CAttr * max(1, len(attributes)))(*(CAttr(name.encode(), kind, f, 0) for name, kind, f in attributes))
    x = plan.input(operand(FLOAT))
    more = {"since_version": row.version, "attrs": attrs, "attr_count": len(attributes)}
    status, slot = plan.try_node(row.op, x, **more)
    if status != OK:
        assert status == UNSUPPORTED
        return None
    return plan.output(slot).seal().run([sample(FLOAT)])[0]


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_attribute_defaults(row: Row) -> None:
    """Omitted or given with the schema's value: one result. The C side is asked alone, since the reader of models,
    like ONNX Runtime, fills defaults in."""
    defaults = {
        name: attribute.default_value.f
        for name, attribute in schema(row).attributes.items()
        if attribute.default_value.type == onnx.AttributeProto.FLOAT
    }
    given = Arguments(tuple(defaults.items()))
    want = oracle(with_arguments(row, given), {"x": sample(FLOAT)})
    assert_bits(oracle(with_arguments(row, Arguments()), {"x": sample(FLOAT)}), want, "ref")
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


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_the_attributes_accepted_are_those_of_the_schema(row: Row) -> None:
    in_schema = {name: ATTR_TYPES[attribute.type] for name, attribute in schema(row).attributes.items()}
    for name in ("alpha", "beta", "min", "max", "consumed_inputs", "gamma", "Alpha", ""):
        for kind in (1, 2, 3, 4, 5, 8):
            result = alone(row, (name, kind, 0.5))
            assert (result is not None) == (in_schema.get(name) == kind), (name, kind, text())
    if "consumed_inputs" in in_schema:  # accepted, and means nothing
        assert_bits(alone(row, ("consumed_inputs", 2, 0.5)), alone(row))


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_the_operands_accepted_are_those_of_the_schema(row: Row) -> None:
    plan = Plan()
    x, scalar = plan.input(operand(FLOAT)), plan.input(operand(FLOAT, []))
    for count in range(6):
        slots = [x, scalar, scalar, scalar, scalar, scalar][:count]
        status, _ = plan.try_node(row.op, *slots, since_version=row.version)
        assert (status == OK) == (schema(row).min_input <= count <= schema(row).max_input), (count, text())
    for outputs in range(3):
        status, _ = plan.try_node(row.op, x, since_version=row.version, output_count=outputs)
        assert (status == OK) == (outputs == 1)


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_element_types_beyond_the_table_are_refused(row: Row) -> None:
    """By C, and by both sessions, whatever a schema would allow."""
    supported = C_TABLE["", row.op, row.version].dtypes
    for dtype in (1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 24):
        plan = Plan()
        status, _ = plan.try_node(row.op, plan.input(operand(dtype)), since_version=row.version)
        assert (status == OK) == (dtype in supported), (dtype, text())
        if dtype not in supported:
            model = with_arguments(Row(row.op, row.version, dtype), Arguments())
            with pytest.raises(UnsupportedError):
                Session(model)
            with pytest.raises(UnsupportedError):
                oracle(model, {"x": np.zeros(1)})
