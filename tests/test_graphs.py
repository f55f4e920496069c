"""Random graphs: the reference, the C library and ONNX Runtime with the provider give the same bits, whatever is
claimed together, on each instruction set, with one thread and several.

ORTWIN_GRAPHS is how many seeds are tried; `nox -s graphs` tries thousands.
"""

import os
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest

from builds import build_library
from graphs import RandomGraph, other_values, random_graph
from models import AVAILABLE, Array, assert_bits, quiet
from ortwin.conformance import ortvalues
from ortwin.fast import Session, counters, ort_session
from ortwin.fast.library import Library
from ortwin.ref import Session as RefSession

GRAPHS = int(os.environ.get("ORTWIN_GRAPHS", "16"))
WORK = ("nodes_executed", "nodes_folded")


def arms(graph: RandomGraph, seed: int) -> dict[str, Any]:
    """Sessions by name. Each graph meets each instruction set directly, and one of them in ONNX Runtime."""
    made: dict[str, Any] = {isa: Session(graph.model, 1 + seed % 4, isa) for isa in AVAILABLE}
    isa, threads = AVAILABLE[seed % len(AVAILABLE)], 1 + seed // len(AVAILABLE) % 4
    for group in ("graph", "node"):
        session = ort_session(graph.model, isa=isa, threads=threads, group=group, session_options=quiet())
        made[f"{group} {isa} {threads} threads"] = session
    return made


def compare(
    graph: RandomGraph, feeds: dict[str, Array], wants: list[Array], sessions: dict[str, Any], seed: int
) -> None:
    for name, session in sessions.items():
        names = [output.name for output in graph.model.graph.output]
        if isinstance(session, Session):
            found = dict(zip(names, session.run(None, feeds), strict=True))
        else:
            found = ortvalues.run(session, feeds)  # numpy has no bfloat16, so ONNX Runtime's run refuses it
        for output, want in zip(names, wants, strict=True):
            assert_bits(found[output], want, f"seed {seed}, {name}, output {output}")


@pytest.mark.parametrize("part", range(8))
def test_every_arm_has_the_bits_of_the_reference(part: int) -> None:
    for seed in range(part, GRAPHS, 8):
        graph = random_graph(seed)
        reference = RefSession(graph.model)
        before = counters()
        sessions = arms(graph, seed)
        for feeds in (graph.feeds, other_values(graph, seed), graph.feeds):
            compare(graph, feeds, reference.run(None, feeds), sessions, seed)
        after = counters()
        runs = 3 * len(graph.model.graph.node) * len(sessions)
        executed, folded = (after[name] - before[name] for name in WORK)
        assert executed + 3 * folded == runs, "a node was left out, or executed twice"


@pytest.fixture(scope="module")
def minced(tmp_path_factory: pytest.TempPathFactory) -> Library:
    """A build that takes 64 elements for a long tensor and 16 for a piece, 32 bytes for the cache, two rows for a tile
    of a product, and 64 steps for a long one."""
    limits = {"{524288, 16384}": "{64, 16}", "{524288, 8192}": "{64, 16}", "{262144, 4096}": "{48, 16}"}
    changes = {
        "run/split.c": limits | {"{131072, 4096}": "{32, 16}"},
        "run/signature.c": {"PIECE_BYTES = 16384": "PIECE_BYTES = 32"},
        "run/tiles.h": {"OW_TILE_ROWS = 128": "OW_TILE_ROWS = 2"},
        "run/matmul.c": {"fanned_steps = 4194304.0": "fanned_steps = 64.0"},
    }
    return Library(build_library(tmp_path_factory.mktemp("minced"), replace=changes))


def test_graphs_in_small_pieces_on_several_threads(minced: Library) -> None:
    """The cut, the pieces of chains within it and the buffers of each, at sizes that graphs of all shapes have."""
    before = minced.counters()
    for seed in range(GRAPHS):
        graph = random_graph(seed)
        alone = Session(graph.model)
        sessions = {f"{n} threads": Session(graph.model, n, library=minced) for n in (1, 2, 4)}
        for feeds in (graph.feeds, other_values(graph, seed)):
            compare(graph, feeds, alone.run(None, feeds), sessions, seed)
    after = minced.counters()
    assert after["splits"] - before["splits"] > 10 * GRAPHS
    assert after["pieces_elsewhere"] > before["pieces_elsewhere"]


def test_eight_threads_on_one_session() -> None:
    """Of a graph with intermediates of many shapes; each thread with its own values, on a session of each kind."""
    graph = random_graph(3)
    feeds = [other_values(graph, k) for k in range(8)]
    wants = [RefSession(graph.model).run(None, given) for given in feeds]
    for session in (Session(graph.model), ort_session(graph.model), ort_session(graph.model, group="node")):
        barrier = Barrier(8)

        def many(k: int, session: Any = session, barrier: Barrier = barrier) -> None:
            barrier.wait()
            for _ in range(10):
                compare(graph, feeds[k], wants[k], {f"thread {k}": session}, 3)

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(many, range(8)))


def test_the_graphs_are_what_they_should_be() -> None:
    """Of a hundred: all ranks, sizes 0, every type, broadcasting, values read more than once, chains of pieces."""
    ranks: Counter[int] = Counter()
    seen: Counter[str] = Counter()
    for seed in range(100):
        graph = random_graph(seed)
        assert len(graph.model.graph.node) == 100
        ranks.update(array.ndim for array in graph.feeds.values())
        readers = Counter(name for node in graph.model.graph.node for name in node.input if name)
        seen["shared"] += max(readers.values()) > 5
        seen["empty"] += any(array.size == 0 for array in graph.feeds.values())
        seen["pieces"] += any(array.size > 4096 for array in graph.feeds.values())
        seen["broadcasting"] += len({array.shape for array in graph.feeds.values()}) > 2
        seen.update(str(array.dtype) for array in graph.feeds.values())
        seen.update(node.op_type for node in graph.model.graph.node)
        seen["unknown rank"] += any(not i.type.tensor_type.HasField("shape") for i in graph.model.graph.input)
        seen["overridable"] += bool(
            {i.name for i in graph.model.graph.input} & {t.name for t in graph.model.graph.initializer}
        )
    assert set(ranks) >= {0, 1, 2, 3, 4, 5, 6, 8, 9, 11}
    for what in (
        "shared",
        "empty",
        "pieces",
        "broadcasting",
        "float32",
        "int32",
        "int64",
        "unknown rank",
        "overridable",
    ):
        assert seen[what] >= 5, what
    for op in ("Add", "Sub", "Mul", "Div", "Clip", "Identity", "Tanh", "LeakyRelu", "MatMul"):
        assert seen[op] > 50, op
