"""MatMul and Gemm in C: the bits of the reference on every instruction set, by any number of threads, packed or not.

What the interpreted reference would take hours for is computed by the same steps on whole matrices in numpy, by
`model_of`, which a test holds against the reference.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest

from models import AVAILABLE, quiet
from ortwin import fast, ref
from ortwin.ref import InputError, UnsupportedError
from ortwin.ref.tensor import dtype_number
from quantised import Array, model

F32, F64 = np.float32, np.float64
HALVES = [np.float16, ml_dtypes.bfloat16]
FLOATS: list[Any] = [F32, *HALVES]
INTEGERS = [np.int32, np.uint32, np.int64, np.uint64]
INNER = (1, 8, 16, 32, 255, 256, 257, 300, 512, 513)
COLUMNS = (1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 47, 63, 64, 65, 127, 128, 129, 255, 256, 257, 300)
THREADS = (1, 2, 3, 8)


def built(op: str, inputs: Sequence[Array | None], **options: Any) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """A model of the op, and what is fed to it."""
    proto = model(op, inputs, **{"opset": 13, **options})
    first = inputs[0]
    assert first is not None
    proto.graph.output[0].type.tensor_type.elem_type = dtype_number(first.dtype)
    return proto, {value.name: np.asarray(inputs[int(value.name[1:])]) for value in proto.graph.input}


def same(y: Array, expected: Array, *what: object) -> None:
    assert (y.dtype, y.shape) == (expected.dtype, expected.shape), what
    assert y.tobytes() == expected.tobytes(), what


def check(op: str, inputs: Sequence[Array | None], expected: Array | None = None, **options: Any) -> None:
    """On every instruction set, B constant and not; expected: else the reference's."""
    for constants in ((), (1,)):
        proto, feeds = built(op, inputs, constants=constants, **options)
        if expected is None:
            expected = ref.Session(proto).run(None, feeds)[0]
        for isa in AVAILABLE:
            y = fast.Session(proto, isa=isa).run(None, feeds)[0]
            same(y, expected, isa, constants, [None if x is None else x.shape for x in inputs], options)


def numbers(rng: np.random.Generator, dtype: Any, *shape: int) -> Array:
    """Of all sizes that sums survive, with zeros of both signs and, of integers, of the whole range."""
    if np.dtype(dtype).kind in "iu":
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, shape, dtype, endpoint=True)
    x = rng.standard_normal(shape) * 2.0 ** rng.integers(-8, 8, shape)
    return np.where(rng.random(shape) < 0.05, np.copysign(0.0, x), x).astype(dtype)


def fma(a: Array, b: Array, c: Array) -> Array:
    """a * b + c of binary32 numbers, rounded once: the sum in binary64 is made odd where it is inexact (Boldo and
    Melquiond 2008), and then rounding it again does no harm."""
    p, z = a.astype(F64) * b.astype(F64), c.astype(F64)
    s = p + z
    t = s - p
    error = (p - (s - t)) + (z - t)
    word = s.view(np.int64)
    even = (error != 0) & np.isfinite(error) & (word & 1 == 0)
    word += np.where(even, np.where((error > 0) == (s > 0), 1, -1), 0)
    return s.astype(F32)


def model_of(a: Array, b: Array, alpha: float = 1.0, beta: float = 0.0, c: Array | None = None) -> Array:
    """alpha * a @ b + beta * c by the steps of the contract, on matrices."""
    left, right, total = a.astype(F32), b.astype(F32), np.zeros((a.shape[0], b.shape[1]), F32)
    with np.errstate(all="ignore"):
        for first in range(0, a.shape[1], 256):
            block = np.zeros_like(total)
            for k in range(first, min(first + 256, a.shape[1])):
                block = fma(left[:, k : k + 1], right[k : k + 1], block)
            total = block if first == 0 else total + block
        total = F32(alpha) * total
        if c is not None and beta:
            total = total + F32(beta) * c.astype(F32)
        y = np.asarray(total).astype(a.dtype)
    y[np.isnan(y)] = np.nan
    return y


def test_the_model_is_the_reference() -> None:
    rng = np.random.default_rng(0)
    for dtype, (m, k, n) in itertools.product(FLOATS, [(3, 1, 4), (2, 255, 5), (5, 257, 3), (1, 513, 9)]):
        a, b, c = numbers(rng, dtype, m, k), numbers(rng, dtype, k, n), numbers(rng, dtype, n)
        proto, feeds = built("Gemm", [a, b, c], alpha=0.3, beta=-1.7)
        same(model_of(a, b, 0.3, -1.7, c), ref.Session(proto).run(None, feeds)[0], dtype, m, k, n)
    halfway = np.array([[1.0 + 2.0**-23, 1.0]], F32), np.array([[1.0 + 2.0**-1 + 2.0**-23], [2.0**-60]], F32)
    proto, feeds = built("MatMul", [*halfway])
    same(model_of(*halfway), ref.Session(proto).run(None, feeds)[0])


@pytest.mark.parametrize("m", range(1, 18))
def test_every_number_of_rows_with_every_inner_dimension(m: int) -> None:
    """And numbers of columns in turn, on both sides of vectors, panels and blocks."""
    rng = np.random.default_rng(m)
    columns = itertools.cycle(np.roll(COLUMNS, 5 * m).tolist())
    for k in INNER:
        for dtype, n in zip((F32, F32, HALVES[k % 2]), columns, strict=False):
            a, b = numbers(rng, dtype, m, k), numbers(rng, dtype, k, n)
            expected = model_of(a, b)
            check("MatMul", [a, b], expected)
            check("Gemm", [a, np.ascontiguousarray(b.T)], expected, transB=1)


@pytest.mark.parametrize(("m", "n"), [(1, 33), (2, 300), (9, 17)])
def test_a_long_inner_dimension(m: int, n: int) -> None:
    rng = np.random.default_rng(n)
    for k in (4095, 4096, 4097):
        a, b = numbers(rng, F32, m, k), numbers(rng, F32, k, n)
        check("MatMul", [a, b], model_of(a, b))


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS], ids=lambda dtype: np.dtype(dtype).name)
def test_every_form_of_gemm(dtype: Any) -> None:
    rng = np.random.default_rng(3)
    whole = np.dtype(dtype).kind in "iu"
    factors = [(1.0, 1.0), (-3.0, 2.0), (0.0, 1.0), (5.0, 0.0)] if whole else [(1.0, 1.0), (0.3, -1.7), (2.0, 0.0)]
    for (m, k, n), turns in itertools.product(
        [(1, 3, 20), (5, 17, 33), (14, 20, 70)], itertools.product((0, 1), (0, 1))
    ):
        shapes: list[tuple[int, ...] | None] = [None, (), (1,), (n,), (1, 1), (m, 1), (1, n), (m, n)]
        for at, shape in enumerate(shapes):
            a, b = numbers(rng, dtype, m, k), numbers(rng, dtype, k, n)
            c = None if shape is None else np.asarray(numbers(rng, dtype, *shape))
            alpha, beta = factors[(at + m) % len(factors)]
            inputs = [np.ascontiguousarray(x.T) if turn else x for x, turn in zip((a, b), turns, strict=True)]
            check("Gemm", [*inputs, c], transA=turns[0], transB=turns[1], alpha=alpha, beta=beta)


@pytest.mark.parametrize("m", range(1, 7))
def test_few_rows_and_b_transposed(m: int) -> None:
    """Up to 4 meet B as it is, turned in registers; blocks of k and columns end anywhere."""
    rng = np.random.default_rng(18)
    for dtype, k, n in itertools.product(FLOATS, (1, 16, 31, 255, 257, 530), (1, 8, 15, 16, 17, 47)):
        a, b = numbers(rng, dtype, m, k), numbers(rng, dtype, k, n)
        check("Gemm", [a, np.ascontiguousarray(b.T)], model_of(a, b), transB=1)


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda dtype: np.dtype(dtype).name)
def test_a_single_column(dtype: Any) -> None:
    """Rows of A are lanes then, B is not packed, and threads share the rows."""
    rng = np.random.default_rng(19)
    built_before = fast.counters()["packs_built"]
    for m, k, turns in itertools.product((1, 2, 15, 17, 130), (1, 255, 530), itertools.product((0, 1), (0, 1))):
        a, b = numbers(rng, dtype, m, k), numbers(rng, dtype, k, 1)
        inputs = [np.ascontiguousarray(x.T) if turn else x for x, turn in zip((a, b), turns, strict=True)]
        for shape in ((), (1,), (m, 1), (1, 1)):
            c = np.asarray(numbers(rng, dtype, *shape))
            expected = model_of(a, b, 0.5, -2.0, c)
            check("Gemm", [*inputs, c], expected, transA=turns[0], transB=turns[1], alpha=0.5, beta=-2.0)
    assert fast.counters()["packs_built"] == built_before
    a, b = numbers(rng, dtype, 3, 1100, 2100), numbers(rng, dtype, 2100)
    proto, feeds = built("MatMul", [a, b])
    expected = fast.Session(proto).run(None, feeds)[0]
    same(expected[1, :9], model_of(a[1, :9], b[:, None])[:, 0])
    for threads in THREADS:
        same(fast.Session(proto, threads).run(None, feeds)[0], expected, threads)


@pytest.mark.parametrize("opset", [1, 6, 7, 9, 11])
def test_older_versions_of_gemm(opset: int) -> None:
    rng = np.random.default_rng(opset)
    a, b = numbers(rng, F32, 3, 5), numbers(rng, F32, 5, 7)
    check("Gemm", [a, b, numbers(rng, F32, 3, 7)], opset=opset, alpha=0.5)
    spread: dict[str, Any] = {"broadcast": 1} if opset < 7 else {}
    check("Gemm", [a, b, numbers(rng, F32, 7)], opset=opset, beta=0.5, **spread)


DECLINED: list[tuple[str, list[tuple[int, ...]], Any, dict[str, Any], str]] = [
    ("Gemm", [(2, 3), (3, 4), (7,)], F32, {}, "C has 7 columns, the product 4"),
    ("Gemm", [(2, 3), (3, 4), (1, 2, 4)], F32, {}, "C has rank 3, the product 2"),
    ("Gemm", [(2, 3), (4, 3)], F32, {}, "the inner dimensions differ"),
    ("Gemm", [(2, 3), (3, 4)], F32, {"transA": 1}, "the inner dimensions differ"),
    ("Gemm", [(1, 2, 3), (3, 4)], F32, {}, "A has rank 3, but Gemm multiplies matrices"),
    ("Gemm", [(2, 3), (3, 4), (4,)], F32, {"opset": 6}, "and broadcast is not set"),
    ("Gemm", [(2, 3), (3, 4)], np.int32, {"alpha": 0.5}, "alpha is 0.5"),
    ("Gemm", [(2, 3), (3, 4)], np.uint64, {"beta": 2.0**63}, "beta is 9.22337e+18"),
    ("MatMul", [(2, 3), (4, 5)], F32, {}, "the inner dimensions differ"),
    ("MatMul", [(2, 3), (3, 5)], F64, {}, "on float64 is not implemented"),
    ("MatMul", [(2, 2, 3), (3, 3, 5)], F32, {}, "don't broadcast"),
]


@pytest.mark.parametrize(("op", "shapes", "dtype", "options", "why"), DECLINED, ids=[case[4] for case in DECLINED])
def test_what_is_declined_and_why(op: str, shapes: Any, dtype: Any, options: dict[str, Any], why: str) -> None:
    proto, _ = built(op, [np.zeros(shape, dtype) for shape in shapes], **options)
    with pytest.raises(UnsupportedError, match=why.replace("+", r"\+")):
        fast.Session(proto)


BATCHES: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((3,), (3,)), ((3,), (3, 4)), ((2, 3), (3,)), ((3,), (2, 3, 4)), ((2, 2, 3), (3,)),
    ((4, 1, 2, 3), (5, 3, 2)), ((1, 2, 3), (3, 2)), ((2, 1, 2, 3), (1, 3, 3, 1)), ((6, 5, 64), (64, 7)),
    ((9, 5, 64), (9, 64, 37)), ((2, 3), (4, 3, 2)), ((2, 3), (1, 1, 3, 2)),
    ((0, 2, 3), (3, 2)), ((0, 3), (3, 2)), ((2, 3), (3, 0)), ((2, 0), (0, 3)), ((3, 2, 0), (0, 3)), ((0,), (0,)),
]  # fmt: skip


@pytest.mark.parametrize("shapes", BATCHES, ids=str)
def test_batches_vectors_and_empty_matrices(shapes: Any) -> None:
    rng = np.random.default_rng(4)
    for dtype in (F32, np.int64, HALVES[0]):
        check("MatMul", [numbers(rng, dtype, *shape) for shape in shapes])


def test_gemm_without_an_inner_dimension() -> None:
    """C10e: sums are +0.0; the bias and beta * C still apply."""
    a, b, c = np.zeros((2, 0), F32), np.zeros((0, 40), F32), np.full(40, -0.0, F32)
    check("Gemm", [a, b, c], np.zeros((2, 40), F32))
    check("Gemm", [a, b, c], c.reshape(1, 40).repeat(2, axis=0), alpha=-1.0)
    check("Gemm", [a, b], np.full((2, 40), -0.0, F32), alpha=-1.0)


def test_the_first_block_is_assigned() -> None:
    """Its sum may be -0.0, to which +0.0 would be no neutral element."""
    for m in (1, 3, 5, 9, 20):
        a, b = np.full((m, 1), -(2.0**-100), F32), np.full((1, 50), 2.0**-100, F32)
        check("MatMul", [a, b], np.full((m, 50), -0.0, F32))


def test_zeros_are_not_skipped_and_nans_are_canonical() -> None:
    for dtype, m in itertools.product(FLOATS, (1, 4, 9, 30)):
        payload = np.array(np.nan, dtype) * np.array(-1.0, dtype)
        a, b = np.zeros((m, 40), dtype), np.ones((40, 50), dtype)
        b[3, ::2], b[5, 1::4] = payload, np.inf
        y = np.zeros((m, 50), dtype)
        y[:, ::2] = y[:, 1::4] = np.nan
        check("MatMul", [a, b], y)
        check("Gemm", [a, np.ascontiguousarray(b.T)], y, transB=1)


def test_gemm_reads_no_c_that_beta_is_0_for() -> None:
    rng = np.random.default_rng(5)
    for dtype, shape in itertools.product((*FLOATS, np.int32), [(9,), (), (3, 1), (3, 9)]):
        a, b = numbers(rng, dtype, 3, 5), numbers(rng, dtype, 5, 9)
        c = np.full(shape, np.nan, dtype) if dtype is not np.int32 else np.full(shape, 7, dtype)
        plain, feeds = built("MatMul", [a, b])
        check("Gemm", [a, b, c], ref.Session(plain).run(None, feeds)[0], beta=0.0)


@pytest.mark.parametrize("dtype", [F32, np.float16, np.int32], ids=lambda dtype: np.dtype(dtype).name)
def test_a_row_alone_gives_its_row(dtype: Any) -> None:
    rng = np.random.default_rng(6)
    a, b = numbers(rng, dtype, 140, 300), numbers(rng, dtype, 300, 70)
    for isa, constants in itertools.product(AVAILABLE, ((), (1,))):
        proto, feeds = built("MatMul", [a, b], constants=constants)
        whole = fast.Session(proto, isa=isa).run(None, feeds)[0]
        for rows in (1, 2, 5, 8, 9, 13):
            for row in (0, 63, 126, 140 - rows):
                part = np.ascontiguousarray(a[row : row + rows])
                proto, feeds = built("MatMul", [part, b], constants=constants)
                same(fast.Session(proto, isa=isa).run(None, feeds)[0], whole[row : row + rows], isa, rows, row)


LARGE: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((1, 1030), (1030, 2100)), ((7, 700), (700, 1100)), ((200, 300), (300, 331)),
    ((12, 60, 64), (12, 64, 130)), ((3, 40, 300), (3, 300, 400)),
]  # fmt: skip


@pytest.mark.parametrize("shapes", LARGE, ids=str)
def test_threads_take_pieces_and_change_no_bit(shapes: Any) -> None:
    """By 1, 2, 3 and 8 threads, from ctypes and inside ONNX Runtime; B packed, streamed, packed by blocks, turned."""
    rng = np.random.default_rng(7)
    for dtype, constants in itertools.product((F32, np.uint32), ((), (1,))):
        proto, feeds = built("MatMul", [numbers(rng, dtype, *shape) for shape in shapes], constants=constants)
        expected = fast.Session(proto).run(None, feeds)[0]
        splits = 3 if shapes[0][0] == 3 and len(shapes[0]) == 3 else 1  # of a small batch, one for each matrix
        for threads in THREADS:
            before = fast.counters()
            same(fast.Session(proto, threads).run(None, feeds)[0], expected, threads)
            after = fast.counters()
            cut = threads > 1
            assert after["splits"] - before["splits"] == splits * cut, (dtype, constants)
            assert (2 if cut else 0) <= after["pieces"] - before["pieces"] <= 64 * splits
        in_ort: Any = fast.ort_session(proto, threads=2, session_options=quiet())
        for _ in range(3):
            same(in_ort.run(None, feeds)[0], expected, "onnxruntime")


def test_small_products_wake_nobody() -> None:
    rng = np.random.default_rng(8)
    for shapes in [((1, 64), (64, 64)), ((30, 100), (100, 100)), ((16, 4, 8), (16, 8, 4))]:
        proto, feeds = built("MatMul", [numbers(rng, F32, *shape) for shape in shapes])
        before = fast.counters()
        fast.Session(proto, 2).run(None, feeds)
        after = fast.counters()
        for name in ("splits", "own_pool_fanouts", "pieces"):
            assert after[name] == before[name]


CASES: list[tuple[str, list[tuple[int, ...]], Any, dict[str, Any]]] = [
    ("MatMul", [(3, 300), (300, 70)], F32, {}),
    ("MatMul", [(2, 9, 40), (2, 40, 33)], F32, {}),
    ("MatMul", [(9, 40), (40, 33)], np.float16, {}),
    ("MatMul", [(4, 40), (40, 33)], np.int64, {}),
    ("Gemm", [(9, 40), (33, 40), (33,)], F32, {"transB": 1, "alpha": 0.5, "beta": 2.0}),
    ("Gemm", [(40, 9), (40, 33), (9, 1)], F32, {"transA": 1}),
    ("Gemm", [(9, 40), (33, 40), (33,)], np.float16, {"transB": 1}),
]


@pytest.mark.parametrize(("op", "shapes", "dtype", "options"), CASES, ids=str)
@pytest.mark.parametrize("constants", [(), (1,), (1, 2)], ids=["runtime", "constant", "all-constant"])
def test_onnxruntime_gives_them_to_us(op: str, shapes: Any, dtype: Any, options: Any, constants: Any) -> None:
    rng = np.random.default_rng(9)
    inputs = [numbers(rng, dtype, *shape) for shape in shapes]
    given = tuple(k for k in constants if k < len(inputs))
    proto, feeds = built(op, inputs, constants=given, **options)
    expected = ref.Session(proto).run(None, feeds)[0]
    session: Any = fast.ort_session(proto, session_options=quiet())
    before = fast.counters()
    same(session.run(None, feeds)[0], expected, op)
    assert fast.counters()["runs"] == before["runs"] + 1


def test_shapes_that_change_between_runs() -> None:
    """One session, ranks and dimensions unknown before Run; B is packed once."""
    rng = np.random.default_rng(10)
    b = numbers(rng, F32, 40, 33)
    proto, _ = built("MatMul", [numbers(rng, F32, 1, 40), b], constants=(1,), unknown_shapes=True)
    reference, session = ref.Session(proto), fast.Session(proto)
    in_ort: Any = fast.ort_session(proto, session_options=quiet())
    for shape in [(1, 40), (9, 40), (0, 40), (200, 40), (2, 3, 40), (40,)]:
        a = numbers(rng, F32, *shape)
        expected = reference.run(None, {"i0": a})[0] if a.size < 1000 else model_of(a.reshape(-1, 40), b)
        same(session.run(None, {"i0": a})[0], expected, shape)
        same(in_ort.run(None, {"i0": a})[0], expected, shape)


def test_constant_matrices_are_packed_once_and_freed() -> None:
    rng = np.random.default_rng(11)
    b = numbers(rng, F32, 50, 40)
    before = fast.counters()
    sessions = [fast.Session(built("MatMul", [numbers(rng, F32, m, 50), b], constants=(1,))[0]) for m in (1, 30)]
    turned, _ = built("Gemm", [numbers(rng, F32, 2, 40), b], constants=(1,), transB=1)
    sessions.append(fast.Session(turned))
    during = fast.counters()
    assert during["packs_built"] == before["packs_built"] + 2
    assert during["packs_shared"] == before["packs_shared"] + 1
    assert during["pack_bytes"] - before["pack_bytes"] >= 2 * b.nbytes
    sessions.clear()
    del turned
    after = fast.counters()
    assert after["packs_freed"] == before["packs_freed"] + 2
    assert after["pack_bytes"] == before["pack_bytes"]


WITHOUT_A_PACK = """
import json
from test_matmul import packless
print(json.dumps(packless()))
"""


def packless() -> list[str]:
    """Results with a constant B as hexadecimal text, and how many packs were declined."""
    rng = np.random.default_rng(12)
    found: list[str] = []
    for dtype, (m, turned) in itertools.product((F32, np.float16), itertools.product((1, 6, 9, 30), (0, 1))):
        inputs = [numbers(rng, dtype, m, 300), numbers(rng, dtype, *((70, 300) if turned else (300, 70)))]
        proto, feeds = built("Gemm", inputs, constants=(1,), transB=turned)
        found += [fast.Session(proto, isa=isa).run(None, feeds)[0].tobytes().hex() for isa in AVAILABLE]
    return [*found, str(fast.counters()["packs_declined"])]


def in_a_process(code: str, *words: str, **environment: str) -> str:
    path = {"PYTHONPATH": os.pathsep.join([*sys.path, str(Path(__file__).parent)])}
    command = [sys.executable, "-c", code, *words]
    done = subprocess.run(command, env=os.environ | path | environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_declined_pack_leaves_the_bits() -> None:
    found = json.loads(in_a_process(WITHOUT_A_PACK, ORTWIN_PACK_BYTES="0"))
    here = packless()
    assert found[:-1] == here[:-1]
    assert int(found[-1]) == len(here) - 1, "each of them was declined there"


BEFORE_A_WALL = """
import sys
from test_matmul import wall
wall(sys.argv[1])
"""


def wall(isa: str) -> None:
    """Operands that end where the next page can't be read."""
    from test_integer_matmul import before_a_wall

    for dtype, (m, k, n), turned in itertools.product(
        (F32, np.float16, np.int32),
        [(1, 1, 1), (1, 3, 5), (2, 5, 17), (4, 9, 40), (6, 20, 33), (9, 18, 15), (13, 7, 70), (14, 33, 31)],
        itertools.product((0, 1), (0, 1)),
    ):
        shapes = [(k, m) if turned[0] else (m, k), (n, k) if turned[1] else (k, n), (n,)]
        inputs = [before_a_wall(np.ones(shape, dtype)) for shape in shapes]
        proto, feeds = built("Gemm", inputs, transA=turned[0], transB=turned[1])
        y = before_a_wall(np.zeros((m, n), dtype))
        fast.Session(proto, isa=isa).run_into({"o0": y}, feeds)
        assert (y == k + 1).all()


@pytest.mark.parametrize("isa", AVAILABLE)
def test_nothing_is_touched_behind_an_operand(isa: str) -> None:
    """In a process of its own, which a read or write behind the last column would end."""
    in_a_process(BEFORE_A_WALL, isa)


def test_any_address_will_do() -> None:
    rng = np.random.default_rng(13)

    def moved(x: Array) -> Array:
        room = np.empty(x.nbytes + 1, np.uint8)
        copy = room[1:].view(x.dtype).reshape(x.shape)
        copy[...] = x
        return copy

    for dtype, (m, k, n) in itertools.product((F32, np.float16, np.int64), [(1, 40, 33), (9, 20, 40)]):
        inputs = [numbers(rng, dtype, m, k), numbers(rng, dtype, k, n), numbers(rng, dtype, n)]
        proto, feeds = built("Gemm", inputs)
        expected = ref.Session(proto).run(None, feeds)[0]
        for isa in AVAILABLE:
            session = fast.Session(proto, isa=isa)
            same(session.run(None, {name: moved(x) for name, x in feeds.items()})[0], expected, isa)


def test_elementwise_nodes_behind_a_product_give_the_same_bits() -> None:
    """As test_followers.py has many of."""
    rng = np.random.default_rng(14)
    x, w, bias = numbers(rng, F32, 9, 40), numbers(rng, F32, 40, 70), numbers(rng, F32, 70)
    helper: Any = onnx.helper
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["s"]),
        helper.make_node("Add", ["s", "b"], ["t"]),
        helper.make_node("Relu", ["t"], ["y"]),
    ]
    ends = [helper.make_tensor_value_info("x", 1, x.shape)], [helper.make_tensor_value_info("y", 1, [9, 70])]
    constants = [onnx.numpy_helper.from_array(w, "w"), onnx.numpy_helper.from_array(bias, "b")]
    graph = helper.make_graph(nodes, "g", *ends, constants)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=10)
    expected = np.maximum(model_of(x, w) + bias, F32(0.0))
    for isa in AVAILABLE:
        same(fast.Session(proto, isa=isa).run(None, {"x": x})[0], expected, isa)


@pytest.mark.parametrize("op", ["MatMul", "MatMulInteger"])
def test_ranks_that_are_known_at_run_alone(op: str) -> None:
    """A scalar has no place in a product: an error each time, and memory for shapes that there are (ASan sees it)."""
    helper: Any = onnx.helper
    kind, dtype = (1, F32) if op == "MatMul" else (3, np.int8)
    ends = [helper.make_tensor_value_info(name, kind, None) for name in "ab"]
    y = helper.make_tensor_value_info("y", 1 if op == "MatMul" else 6, None)
    nodes = [helper.make_node(op, ["a", "b"], ["t"]), helper.make_node("Identity", ["t"], ["y"])]
    graph = helper.make_graph(nodes, "g", ends, [y])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=10)
    session = fast.Session(proto)
    for k in range(300):
        feeds = {"a": np.array(1, dtype), "b": np.zeros((k, 3), dtype)}
        with pytest.raises(InputError, match="rank 0"):
            session.run(None, feeds)
        with pytest.raises(InputError, match="rank 0"):
            session.run(None, {"a": feeds["b"], "b": feeds["a"]})
    assert session.run(None, {"a": np.ones((2, 3), dtype), "b": np.ones(3, dtype)})[0].tolist() == [3, 3]


def test_a_constant_without_elements_is_not_packed() -> None:
    """However many matrices it has."""
    helper: Any = onnx.helper
    b = onnx.numpy_helper.from_array(np.zeros((2**40, 3, 0), F32), "b")
    ends = [helper.make_tensor_value_info("a", 1, [1, 0, 3])], [helper.make_tensor_value_info("y", 1, None)]
    graph = helper.make_graph([helper.make_node("MatMul", ["a", "b"], ["y"])], "g", *ends, [b])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=10)
    y = fast.Session(proto).run(None, {"a": np.zeros((1, 0, 3), F32)})[0]
    assert y.shape == (2**40, 0, 0)


def declared(rng: np.random.Generator, rank: int, unknown: float) -> list[int | str | None] | None:
    """A shape as a model may declare it: of that rank, mostly; dimensions may be names, or not be known."""
    if rng.random() < unknown:
        return None
    if rng.random() < 0.1:
        rank = int(rng.integers(0, 4))
    dims: list[int | str | None] = [0, 1, 2, 3, "p", "q", None]
    return [dims[k] for k in rng.integers(len(dims), size=rank)]


@pytest.mark.parametrize("op", ["MatMul", "Gemm"])
def test_both_backends_claim_the_same(op: str) -> None:
    """Whatever is known of the shapes: a rule that shows is not left to Run by one of them (C9)."""
    rng = np.random.default_rng(17)
    helper: Any = onnx.helper
    claimed = []
    for _ in range(600):
        shapes = [declared(rng, 2 if op == "Gemm" else 3, 0.3) for _ in "ab"]
        if op == "Gemm":
            shapes.append(declared(rng, int(rng.integers(0, 3)), 0.1))
        ends = [helper.make_tensor_value_info(name, 1, shape) for name, shape in zip("abc", shapes, strict=False)]
        turns = {name: int(rng.integers(2)) for name in ("transA", "transB")} if op == "Gemm" else {}
        node = helper.make_node(op, ["a", "b", "c"][: len(shapes)], ["y"], **turns)
        graph = helper.make_graph([node], "g", ends, [helper.make_tensor_value_info("y", 1, None)])
        proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=10)
        answers = []
        for backend in (ref, fast):
            try:
                backend.Session(proto)
                answers.append(True)
            except UnsupportedError:
                answers.append(False)
        assert answers[0] == answers[1], (shapes, turns, answers)
        claimed.append(answers[0])
    assert 100 < sum(claimed) < 500


def test_products_without_elements_take_no_memory() -> None:
    """However many matrices they are of."""
    a, b = np.zeros((2**33, 0, 3), F32), np.zeros((3, 2), F32)
    for op, kind in (("MatMul", F32), ("MatMulInteger", np.uint8)):
        proto, feeds = built(op, [a.astype(kind), b.astype(kind)])
        if op == "MatMulInteger":
            proto.graph.output[0].type.tensor_type.elem_type = 6
        for backend in (ref, fast):
            assert backend.Session(proto).run(None, feeds)[0].shape == (2**33, 0, 2)
