"""Unary ops on float16 and bfloat16: widened exactly, the float32 op, narrowed once (C5). Every op on all 65,536
inputs, in the reference, in the C library on every instruction set, and in ONNX Runtime."""

import functools

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest

from models import (
    BFLOAT16,
    FLOAT16,
    HALF_KERNELS,
    HALF_NANS,
    HALVES,
    ISAS,
    PAIRED,
    ROWS,
    VERSIONS,
    Arguments,
    Array,
    Buffer,
    Row,
    arguments,
    assert_bits,
    node,
    numpy_dtype,
    of_nodes,
    one_node,
    oracle,
    quiet,
    value,
    with_arguments,
)
from ortwin.conformance import ortvalues
from ortwin.fast import Session, counters, ort_session
from ortwin.ref import Session as RefSession
from ortwin.ref import UnsupportedError

LARGEST = {FLOAT16: 65504.0, BFLOAT16: 255.0 * 2.0**120}
CLIP_VERSIONS = [row for row in ROWS if row.op == "Clip" and row.dtype in HALVES]


@functools.cache
def every(dtype: int) -> Array:
    """All numbers of a half type."""
    return np.arange(1 << 16).astype(np.uint16).view(numpy_dtype(dtype))


def narrowed(wide: Array, dtype: int) -> Array:
    """float32 to a half type by numpy or ml_dtypes, which round once, to nearest even; NaNs made canonical."""
    with np.errstate(over="ignore", under="ignore"):
        bits = wide.astype(numpy_dtype(dtype)).view(np.uint16)
    return np.where(np.isnan(wide), np.uint16(HALF_NANS[dtype]), bits).view(numpy_dtype(dtype))


def as_float32(row: Row, given: Arguments) -> onnx.ModelProto:
    """The node on float32. A bound of Clip that is missing is the half type's lowest or largest finite number."""
    if row.op != "Clip":
        return with_arguments(Row(row.op, row.version), given)
    low, high = (*given.bounds, None, None)[:2]
    most = LARGEST[row.dtype]
    bounds = (-most if low is None else low, most if high is None else high)
    return with_arguments(Row("Clip", 13), Arguments(bounds=bounds))


@functools.cache
def answers(row: Row) -> list[Array]:
    """The reference on every number of the type, for each of arguments(row)."""
    return [oracle(with_arguments(row, given), {"x": every(row.dtype)}) for given in arguments(row)]


@pytest.mark.parametrize("row", HALF_KERNELS, ids=str)
def test_the_reference_is_the_float32_op_rounded_once(row: Row) -> None:
    x = every(row.dtype)
    for given, got in zip(arguments(row), answers(row), strict=True):
        want = narrowed(oracle(as_float32(row, given), {"x": x.astype(np.float32)}), row.dtype)
        assert_bits(got, want, given)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("row", HALF_KERNELS, ids=str)
def test_the_c_library_has_the_bits_of_the_reference_everywhere(row: Row, isa: str) -> None:
    for given, want in zip(arguments(row), answers(row), strict=True):
        (got,) = Session(with_arguments(row, given), isa=isa).run(None, {"x": every(row.dtype)})
        assert_bits(got, want, given)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("row", HALF_KERNELS, ids=str)
def test_onnx_runtime_has_the_bits_of_the_reference_everywhere(row: Row, isa: str) -> None:
    """The whole op is one node of ours, also where its schema has a body that ONNX Runtime would inline."""
    for given, want in zip(arguments(row), answers(row), strict=True):
        made = ort_session(with_arguments(row, given), isa=isa, session_options=quiet())
        before = counters()["nodes_executed"]
        got = ortvalues.run(made, {"x": every(row.dtype)})["y"]
        assert counters()["nodes_executed"] - before == 1
        assert_bits(got, want, given)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("row", HALF_KERNELS, ids=str)
def test_lengths_at_odd_addresses_and_in_place(row: Row, isa: str) -> None:
    """Each length at 8 odd byte offsets; over the lengths, each odd offset of input and output. Nothing around is
    written."""
    given, want = arguments(row)[-1], answers(row)[-1]
    fast = Session(with_arguments(row, given), isa=isa)
    values = every(row.dtype)
    for n in range(41):
        for k in range(8):
            offset, target = 2 * ((8 * n + k) % 32) + 1, 2 * ((3 * n + 5 * k) % 32) + 1
            where = np.arange(n) * 1543 + 257 * n + 8191 * k & 0xFFFF
            x, y = Buffer(offset, values[where]), Buffer(target, np.zeros(n, values.dtype))
            fast.run_into({"y": y.array}, {"x": x.array})
            what = f"length {n}, offsets {offset} and {target}"
            y.assert_holds(want[where], target, what)
            x.assert_holds(values[where], offset, what)
        fast.run_into({"y": x.array}, {"x": x.array})
        x.assert_holds(want[where], offset, f"length {n} in place")


@pytest.mark.parametrize("dtype", HALVES)
def test_rounding_twice_would_show(dtype: int) -> None:
    """The tests above tell C5 from two ways to round twice: HardSwish by the nodes of ONNX's function body, each
    rounded to the type; and the right value rounded to two bits more than the type has, then to the type."""
    x, finite = every(dtype), np.isfinite(every(dtype).astype(np.float32))
    once = answers(Row("HardSwish", 22, dtype))[0]
    sigmoid = one_node(Row("HardSigmoid", 22, dtype), attributes={"alpha": 1.0 / 6.0, "beta": 0.5})
    with np.errstate(all="ignore"):
        by_steps = x * oracle(sigmoid, {"x": x})
    assert (by_steps != once)[finite].sum() > 100

    wide = oracle(one_node(Row("HardSwish", 22)), {"x": x.astype(np.float32)}).view(np.uint32)
    drop = {FLOAT16: 11, BFLOAT16: 14}[dtype]  # of 23 bits of fraction; the type keeps 10 or 7
    last = np.uint32(1 << drop)
    nearly = (wide + last // 2 - 1 + (wide // last & 1)) // last * last
    twice = narrowed(nearly.view(np.float32), dtype)
    assert (twice != once)[finite].sum() > 100


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("row", CLIP_VERSIONS, ids=str)
def test_a_missing_bound_of_clip_is_the_largest_finite_number_of_the_type(row: Row, isa: str) -> None:
    item, most, inf = numpy_dtype(row.dtype), LARGEST[row.dtype], float("inf")
    x = np.array([inf, -inf, most, -most, 0, -0.0], np.float32).astype(item)
    want = np.array([most, -most, most, -most, 0, -0.0], np.float32).astype(item)
    model = with_arguments(row, Arguments())
    assert_bits(oracle(model, {"x": x}), want, "ref")
    assert_bits(Session(model, isa=isa).run(None, {"x": x})[0], want)
    assert_bits(ortvalues.run(ort_session(model, isa=isa, session_options=quiet()), {"x": x})["y"], want)


def test_a_bound_of_clip_6_is_binary32() -> None:
    """It need not be a number of the type: 0.1 and 2^17 are not. float32's own limits count as no bound."""
    cases: list[tuple[dict[str, float], list[float], list[float]]] = [
        ({"min": 0.1}, [0.0, 0.25], [float(np.float16(0.1)), 0.25]),
        ({"max": 2.0**17}, [float("inf"), 65504.0], [float("inf"), 65504.0]),
        ({"max": float("inf"), "min": float("-inf")}, [float("inf"), float("-inf")], [float("inf"), float("-inf")]),
        ({"max": float(np.finfo(np.float32).max)}, [float("inf")], [65504.0]),
    ]
    for attributes, x, want in cases:
        model = one_node(Row("Clip", 6, FLOAT16), attributes=attributes)
        feeds = {"x": np.array(x, np.float16)}
        for (got,) in (
            [oracle(model, feeds)],
            Session(model).run(None, feeds),
            ort_session(model, session_options=quiet()).run(None, feeds),
        ):
            assert_bits(got, np.array(want, np.float16), attributes)


@pytest.mark.parametrize("dtype", HALVES)
def test_bounds_of_clip_are_of_the_type(dtype: int) -> None:
    """As constants and as inputs; subnormal, NaN, and above one another."""
    item = numpy_dtype(dtype)
    x = every(dtype)
    numbers = np.array([1, 0x8001, 0x3C00, 0xBC00, HALF_NANS[dtype] | 1, 0x0200], np.uint16).view(item)
    for low in numbers:
        for high in numbers:
            bounds = [np.array(low), np.array(high)]
            constant = one_node(Row("Clip", 13, dtype), bounds=bounds)
            given = one_node(Row("Clip", 13, dtype), bounds=("low", "high"))
            feeds = {"x": x, "low": bounds[0], "high": bounds[1]}
            wide = [one.astype(np.float32) for one in (x, *bounds)]
            with np.errstate(invalid="ignore"):
                want = narrowed(np.minimum(np.maximum(wide[0], wide[1]), wide[2]), dtype)
            got = oracle(constant, {"x": x})
            same = (got == want) | (np.isnan(got.astype(np.float32)) & np.isnan(want.astype(np.float32)))
            assert same.all(), (low, high)  # numpy does not tell which zero; the others do
            for isa in (param.values[0] for param in ISAS if not param.marks):
                assert_bits(Session(constant, isa=str(isa)).run(None, {"x": x})[0], got, (low, high))
                assert_bits(Session(given, isa=str(isa)).run(None, feeds)[0], got, (low, high))
        in_ort = ortvalues.run(ort_session(given, session_options=quiet()), feeds)["y"]
        assert_bits(in_ort, got, low)


def test_a_bound_of_another_type_is_refused() -> None:
    for bound in HALVES:
        model = of_nodes([node("Clip", ["x", "b"], "y")], [value("x"), value("b", bound, [])], [value("y")])
        for make in (Session, RefSession):
            with pytest.raises(UnsupportedError, match=r"float16.*float32"):
                make(model)


# in ONNX Runtime


FUNCTIONS = ["HardSwish", "Gelu", "com.microsoft.Gelu", "com.microsoft.FastGelu", "com.microsoft.QuickGelu", "Celu"]
FUNCTIONS += ["Swish", "Mish", "Softplus"]


def chain(dtype: int) -> onnx.ModelProto:
    """Ops that ONNX Runtime would take apart or fuse, one after another."""
    nodes = [
        node(row.name, [f"t{k}"], f"t{k + 1}", domain=row.domain)
        for k, op in enumerate(FUNCTIONS)
        for row in [Row(op, VERSIONS[op][-1])]
    ]
    imports = [onnx.helper.make_opsetid("", 28), onnx.helper.make_opsetid("com.microsoft", 1)]
    return of_nodes(nodes, [value("t0", dtype)], [value(f"t{len(FUNCTIONS)}", dtype)], opset_imports=imports)


@pytest.mark.parametrize("level", ["as-written", "basic", "extended", "layout", "all"])
def test_function_ops_stay_whole_at_every_optimisation_level(level: str) -> None:
    model = chain(FLOAT16)
    x = every(FLOAT16)
    made = ort_session(model, graph_optimization=level, session_options=quiet())
    before = counters()["nodes_executed"]
    (got,) = made.run(None, {"t0": x})
    assert counters()["nodes_executed"] - before == len(FUNCTIONS)
    assert_bits(got, oracle(model, {"t0": x}))


def test_bfloat16_in_onnx_runtime_without_numpy_types() -> None:
    """What the README says: InferenceSession.run knows no bfloat16, OrtValues and bindings do."""
    model = one_node(Row("Sigmoid", 13, BFLOAT16), ["n"])
    made = ort_session(model, session_options=quiet())
    x = np.array([0.5, -0.5, 3e38, np.nan], ml_dtypes.bfloat16)
    want = np.array([0x3F1F, 0x3EC1, 0x3F80, 0x7FC0], np.uint16)
    with pytest.raises(RuntimeError):
        made.run(None, {"x": x})

    given = onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(x.view(np.uint16), BFLOAT16)
    (y,) = made.run_with_ort_values(["y"], {"x": given})
    assert (y.element_type(), y.shape()) == (BFLOAT16, [4])
    assert_bits(ortvalues.from_ort(y).view(np.uint16), want)

    target = np.empty(4, np.uint16)
    binding = made.io_binding()
    binding.bind_input("x", "cpu", 0, BFLOAT16, [4], x.ctypes.data)
    binding.bind_output("y", "cpu", 0, BFLOAT16, [4], target.ctypes.data)
    made.run_with_iobinding(binding)
    assert_bits(target, want)


@pytest.mark.parametrize("op", [op for op in VERSIONS if op != "Identity"])
def test_float64_is_refused_with_the_reason(op: str) -> None:
    row = Row(op, VERSIONS[op][-1], 11)
    model = with_arguments(row, Arguments(bounds=("x",) if op in PAIRED else ()))
    with pytest.raises(UnsupportedError, match=rf"{op}-{row.version}\): input 'x' is float64, not float32 or "):
        RefSession(model)
    for make in (Session, lambda model: ort_session(model, session_options=quiet())):
        with pytest.raises(
            UnsupportedError, match=rf"\({row.name}\): {row.name}-{row.version} on float64 is not implemented"
        ):
            make(model)
