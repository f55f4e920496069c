"""Choices on many axes at once: rows in which all values occur, or all pairs of values; and random numbers by name."""

from __future__ import annotations

import functools
import hashlib
import itertools

import numpy as np

from ortwin.conformance.conform.case import Array
from ortwin.conformance.conform.values import Stream


def stream_of(*key: object) -> Stream:
    """Random numbers that depend on the key only."""
    digest = hashlib.sha256("\0".join(map(str, key)).encode()).digest()
    return np.random.Generator(np.random.PCG64(int.from_bytes(digest, "little")))


@functools.lru_cache(256)
def covering(sizes: tuple[int, ...], seed: int, apart: tuple[tuple[int, int], ...] = ()) -> list[tuple[int, ...]]:
    """Rows with an index per axis such that any two axes have every pair of their indices in some row.

    apart: pairs of axes of which this is not asked.
    """
    axes = range(len(sizes))
    random = stream_of("covering", seed)
    pairs = [pair for pair in itertools.combinations(axes, 2) if pair not in apart]
    longest = max(pairs, key=lambda pair: sizes[pair[0]] * sizes[pair[1]])
    seen: set[tuple[int, int, int, int]] = set()
    rows: list[tuple[int, ...]] = []

    def add(given: dict[int, int], drawn: Array) -> None:
        row = tuple(given.get(axis, int(drawn[axis] * sizes[axis])) for axis in axes)
        rows.append(row)
        seen.update((a, row[a], b, row[b]) for a, b in itertools.combinations(axes, 2))

    product = list(itertools.product(*(range(sizes[axis]) for axis in longest)))
    for pair, drawn in zip(product, random.random((len(product), len(sizes))), strict=True):
        add(dict(zip(longest, pair, strict=True)), drawn)
    for a, b in pairs:
        for i, j in itertools.product(range(sizes[a]), range(sizes[b])):
            if (a, i, b, j) not in seen:
                add({a: i, b: j}, random.random(len(sizes)))
    return rows


def each(sizes: tuple[int, ...], seed: int, least: int = 0) -> list[tuple[int, ...]]:
    """Rows with an index per axis such that every index of every axis is in some row: as few as there can be, or
    least."""
    random = stream_of("each", seed, sizes)
    count = max(*sizes, least)
    columns = [np.concatenate([random.permutation(size) for _ in range(-(-count // size))])[:count] for size in sizes]
    return [tuple(int(k) for k in row) for row in np.stack(columns, axis=1)]
