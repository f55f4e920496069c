"""Threads: where tensors are cut, and that no bit depends on how many threads there are (C1)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import models
from models import (
    AVAILABLE,
    FLOAT,
    HALF_KERNELS,
    KERNELS,
    Arguments,
    Array,
    Buffer,
    Row,
    assert_bits,
    expected,
    sample,
    with_arguments,
)
from ort_sessions import bind
from ortwin import fast
from ortwin.fast.library import Library
from ortwin.ref import Session as RefSession
from threads import BIG, LIBRARY, SHORTEST, THREADS, WIDEST, moved, run_split, shortest, typical

ALL_LENGTHS = sorted({n + d for n in (16, 4096, *SHORTEST.values(), BIG) for d in (-1, 0, 1)})


# where a tensor is cut


def test_the_cut_is_whole_rows_of_multiples_of_16_in_at_most_64_pieces() -> None:
    """Swept as a function alone, to lengths of 2^62 and widths of 2^31."""
    random = np.random.default_rng(6)
    near = [2**k for k in (0, 4, 12, 16, 17, 18, 19, 20, 22, 24, 31, 32, 33, 47, 62)]
    lengths = {n + d for n in near for d in (-17, -16, -1, 0, 1, 15, 16) if n + d >= 0}
    lengths |= {int(2 ** random.uniform(15, 62)) for _ in range(60)}
    widths = {1, 2, 3, 7, 11, 15, 16, 17, 48, 64, 4096, 4099, 2**20, 2**31 - 1, 2**31}
    widths |= {int(2 ** random.uniform(0, 31)) for _ in range(40)}
    cut = 0
    for cost, limit in SHORTEST.items():
        for width in widths:
            for length in lengths:
                piece = LIBRARY.piece_length(cost, length, width)
                if piece == length:
                    continue
                cut += 1
                assert 0 < piece < length
                assert length >= limit
                assert piece % 16 == 0, "a piece starts off the grid of 16 elements"
                assert piece % width == 0, "a row is cut"
                assert 2 <= -(-length // piece) <= 64, "too many pieces, or one that is empty"
    assert cut > 5000


@pytest.mark.parametrize("cost", SHORTEST)
def test_what_is_cut(cost: str) -> None:
    for length in (0, 1, 15, 16, 17, 4096, SHORTEST[cost] - 1):
        assert LIBRARY.piece_length(cost, length) == length
    for length in (SHORTEST[cost], SHORTEST[cost] + 1, BIG - 1, BIG, BIG + 1, 2**62, 2**64 - 1):
        assert LIBRARY.piece_length(cost, length) < length
    assert 2**62 // LIBRARY.piece_length(cost, 2**62) == 64
    for width in (0, 2**60 + 1, 2**61 + 2, 2**63 - 1, 2**64 - 1):  # no row, and rows of which 16 overflow
        assert LIBRARY.piece_length(cost, 2**64 - 1, width) == 2**64 - 1, width
    assert LIBRARY.piece_length(cost, BIG, BIG) == BIG  # a single row
    assert LIBRARY.piece_length(cost, 2 * BIG + 2, BIG + 1) == 2 * BIG + 2  # 16 rows of an odd width are too many
    with pytest.raises(fast.LibraryError, match="there is no cost class 'heavy'"):
        LIBRARY.piece_length("heavy", 5)


# C1: the bits


def compare(session: Any, row: Row, count: int, offset: int, what: str) -> None:
    """Runs on `count` elements at a byte offset; the reference's results repeat, as the values do."""
    values, want = sample(row.dtype), expected(row, typical(row))
    x, y = Buffer(offset, np.resize(values, count)), Buffer((offset * 7 + 3) % 64, np.zeros(count, values.dtype))
    session.run_into({"y": y.array}, {"x": x.array})
    y.assert_holds(np.resize(want, count), (offset * 7 + 3) % 64, what)


@pytest.mark.parametrize("row", KERNELS, ids=str)
def test_bits_are_those_of_one_thread(row: Row) -> None:
    """Own pool; lengths around each boundary. Longer tensors with another number of threads each."""
    around = [n + d for n in (16, 4096, 65536, shortest(row), BIG) for d in (-1, 0, 1)]
    sessions = {threads: fast.Session(with_arguments(row, typical(row)), threads) for threads in THREADS}
    before, cut = fast.counters(), 0
    for k, count in enumerate(around):
        threads = THREADS[k % len(THREADS)]
        compare(sessions[threads], row, count, k % 5 * 13, f"{count} elements, {threads} threads")
        cut += count >= shortest(row)
    for threads in THREADS:
        compare(sessions[threads], row, shortest(row) + 17 * threads, threads, f"{threads} threads")
    assert fast.counters()["splits"] - before["splits"] == cut + len(THREADS)


@pytest.mark.parametrize("row", HALF_KERNELS, ids=str)
def test_bits_of_the_half_types_are_those_of_one_thread(row: Row) -> None:
    threads = THREADS[HALF_KERNELS.index(row) % len(THREADS)]
    session, before = fast.Session(with_arguments(row, typical(row)), threads), fast.counters()
    for k, extra in enumerate((-1, 0, 1, 4099)):
        compare(session, row, shortest(row) + extra, 7 * k, f"{extra} elements more, {threads} threads")
    assert fast.counters()["splits"] - before["splits"] == 3


@pytest.mark.long("every length with every number of threads on every instruction set")
@pytest.mark.parametrize("row", [*KERNELS, *HALF_KERNELS], ids=str)
def test_bits_are_those_of_one_thread_in_full(row: Row) -> None:
    for isa in AVAILABLE:
        for threads in (1, *THREADS):
            session = fast.Session(with_arguments(row, typical(row)), threads, isa)
            for count in ALL_LENGTHS:
                compare(session, row, count, count * threads % 64, f"{count} elements, {threads} threads, {isa}")


@pytest.mark.parametrize("row", [row for row in KERNELS if row.dtype not in (14, 15)], ids=str)
def test_bits_are_those_of_one_thread_in_onnx_runtime(row: Row) -> None:
    check_onnx_runtime(row, THREADS[KERNELS.index(row) % len(THREADS)], [shortest(row) + 5], None)


@pytest.mark.long("every length with every number of threads on every instruction set, in ONNX Runtime")
@pytest.mark.parametrize("row", [row for row in KERNELS if row.dtype not in (14, 15)], ids=str)
def test_bits_are_those_of_one_thread_in_onnx_runtime_in_full(row: Row) -> None:
    for isa in AVAILABLE:
        for threads in (1, *THREADS):
            counts = [15, 16, 17, 4096, *(shortest(row) + d for d in (-1, 0, 1)), BIG + 1]
            check_onnx_runtime(row, threads, counts, isa)


def check_onnx_runtime(row: Row, threads: int, counts: Sequence[int], isa: str | None) -> None:
    model = with_arguments(row, typical(row))

    def make() -> Any:
        return fast.ort_session(model, threads=threads, isa=isa, session_options=models.quiet())

    for count in counts:
        x, want = np.resize(sample(row.dtype), count), np.resize(expected(row, typical(row)), count)
        y = np.zeros_like(x)
        if count >= shortest(row) and threads > 1:
            y = run_split(make, row, x)
        else:
            bind(make(), {"x": (row.dtype, x)}, row.dtype, y)
        assert_bits(y, want, f"{count} elements, {threads} threads")


@pytest.mark.stress
def test_chains_constants_and_copied_outputs_are_computed_in_pieces_too() -> None:
    """The three nodes are one chain, which is cut as a whole; an output that is an input is bytes to move, cut too."""
    nodes = [models.node("Tanh", ["x"], "t"), models.node("Identity", ["t"], "u"), models.node("Neg", ["u"], "y")]
    model = models.of_nodes(nodes, [models.value("x")], [models.value(name) for name in "yux"])
    x = np.resize(sample(FLOAT), BIG + 3)
    wants = fast.Session(model).run(None, {"x": x})
    session, got = fast.Session(model, 3), []
    counted = moved(lambda: got.extend(session.run(None, {"x": x})))
    assert counted["splits"] == 2
    for array, want in zip(got, wants, strict=True):
        assert_bits(array, want)


@pytest.mark.stress
@pytest.mark.parametrize("threads", [2, 4, 16])
def test_pieces_of_a_chain_that_run_at_once_have_buffers_of_their_own(threads: int) -> None:
    """What only the chain itself reads is never whole: each piece that may run beside others needs its own place."""
    nodes = [
        models.node("Tanh", ["x"], "a"),
        models.node("Neg", ["x"], "b"),
        models.node("Add", ["a", "b"], "c"),
        models.node("Mul", ["a", "c"], "d"),
        models.node("Sub", ["b", "d"], "e"),
        models.node("Sigmoid", ["e"], "y"),
        models.node("Sqrt", ["c"], "unread"),
    ]
    model = models.of_nodes(nodes, [models.value("x")], [models.value("y")])
    x = np.resize(sample(FLOAT, 100_003), BIG + 21)
    (want,) = fast.Session(model).run(None, {"x": x})
    assert_bits(want[:3000], RefSession(model).run(None, {"x": x[:3000]})[0])
    session = fast.Session(model, threads)
    for _ in range(10):
        got: list[Array] = []
        counted = moved(lambda: got.extend(session.run(None, {"x": x})))  # noqa: B023
        assert counted["splits"] == 1
        assert_bits(got[0], want)
    with fast.serial():
        assert_bits(session.run(None, {"x": x})[0], want, "serial")


@pytest.mark.stress
@pytest.mark.parametrize("dtype", [FLOAT, 10, 16, 6, 7])
def test_broadcasting_operands_are_walked_from_where_a_piece_begins(dtype: int) -> None:
    """Rows, columns and both, within a chain: a piece begins anywhere in them."""
    nodes = [
        models.node("Add", ["x", "row"], "a"),
        models.node("Mul", ["column", "a"], "b"),
        models.node("Sub", ["b", "cube"], "y"),
    ]
    height, width = 1031, 509
    shapes = {"x": (2, height, width), "row": (width,), "column": (height, 1), "cube": (2, 1, 1)}
    inputs = [models.value(name, dtype, shape) for name, shape in shapes.items()]
    model = models.of_nodes(nodes, inputs, [models.value("y", dtype, shapes["x"])], opset=14)
    feeds = {name: np.resize(sample(dtype, 4001, k), shape) for k, (name, shape) in enumerate(shapes.items())}
    (want,) = fast.Session(model).run(None, feeds)
    for threads in THREADS:
        session, got = fast.Session(model, threads), []
        counted = moved(lambda: got.extend(session.run(None, feeds)))  # noqa: B023
        assert counted["splits"] == 1
        assert_bits(got[0], want, threads)


@pytest.mark.stress
def test_in_place() -> None:
    row = Row("Neg", 13)
    x = np.resize(sample(FLOAT), BIG + 1)
    want = fast.Session(with_arguments(row, Arguments())).run(None, {"x": x})[0]
    session = fast.Session(with_arguments(row, Arguments()), 4)
    for _ in range(5):
        y = x.copy()
        session.run_into({"y": y}, {"x": y})
        assert_bits(y, want)


@pytest.mark.skipif(len(AVAILABLE) < 2, reason="this machine has one kernel set only")
def test_the_kernel_is_the_plans_for_every_piece(altered: Path) -> None:
    """However short the last piece is, no other set than the plan's is used."""
    library = Library(altered)
    model = with_arguments(Row("Abs", 13), Arguments())
    x = np.linspace(-3, 5, BIG, dtype=np.float32)
    assert (fast.Session(model, isa=AVAILABLE[-1], library=library).run(None, {"x": x})[0] <= 0).all()
    session = fast.Session(model, 4, isa=WIDEST, library=library)
    for count in (*range(1, 70), 1000, 4097, SHORTEST["memory"], SHORTEST["memory"] + 1, BIG - 1, BIG):
        assert_bits(session.run(None, {"x": x[:count]})[0], np.abs(x[:count]), f"{count} elements")
