"""The walk over all bit patterns: 256 blocks of 2^24, their digests, and the state files in which finished blocks stay.

A state file holds a JSON line per block and arm. Lines are only appended, so a sweep goes on where it was ended, and
the files of several processes or machines are merged by reading them all.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from ortwin.conformance.sweep import exact, measure
from ortwin.conformance.sweep.arms import Arm, Bits, Floats
from ortwin.conformance.sweep.functions import Function
from ortwin.conformance.sweep.measure import Measures, Truth
from ortwin.ref.errors import OrtwinError
from ortwin.ref.numerics import NUMERICS

BLOCKS: Final = 256
BLOCK: Final = 1 << 24
CHUNK: Final = 1 << 15
"""Elements computed at once: what is made of them in binary64 stays in a core's cache."""

BASE: Final = np.arange(CHUNK, dtype=np.uint32)


class StateError(OrtwinError):
    """State files do not hold what is asked of them."""


@dataclass(frozen=True)
class Record:
    """A finished block of an arm. first, last: the block's first and last result, as bits. seconds: of computing and
    hashing; measuring: of measuring, the yardstick going to the first arm. None without measures."""

    block: int
    digest: str
    first: int
    last: int
    seconds: float
    measures: Measures | None = None
    measuring: float = 0.0

    def as_json(self) -> dict[str, Any]:
        return {**self.__dict__, "measures": self.measures and self.measures.as_json()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Record:
        """The reverse of as_json. KeyError, TypeError or ValueError for other data."""
        found = data["measures"]
        measures = None if found is None else Measures.from_json(found)
        return cls(**{**data, "measures": measures})


def chunks(block: int) -> Iterator[Bits]:
    """The bit patterns of a block."""
    start = block * BLOCK
    for first in range(start, start + BLOCK, CHUNK):
        yield BASE + np.uint32(first)


def little_endian(y: Floats) -> Any:
    return y.astype("<f4", copy=False)


def new_digest() -> Any:
    """The hash of blocks and of digests of blocks."""
    return hashlib.blake2b(digest_size=16)


def overall(digests: Sequence[str]) -> str:
    """The digest of the digests of all blocks, in order."""
    digest = new_digest()
    for block in digests:
        digest.update(bytes.fromhex(block))
    return str(digest.hexdigest())


def same(a: Floats, b: Floats) -> bool:
    """Whether two arrays hold the same bits."""
    return np.array_equal(a.view(np.uint32), b.view(np.uint32))


class Running:
    """What is gathered of an arm over one block. twin: an arm that goes first; as long as both have given the same
    results, its hash is the hash of both."""

    def __init__(self, arm: Arm, twin: Running | None = None) -> None:
        self.arm = arm
        self.twin = twin
        self.y: Floats = np.empty(0, np.float32)
        self.digest = self.before = new_digest()
        self.first: int | None = None
        self.last = 0
        self.seconds = self.measuring = 0.0
        self.measures = Measures()

    def compute(self, bits: Bits) -> Floats:
        """The results on a chunk, taken into the digest."""
        start = time.perf_counter()
        y: Floats = self.arm.compute(bits.view(np.float32))
        self.y = y
        if self.twin is not None and not same(y, self.twin.y):
            self.digest, self.twin = self.twin.before.copy(), None
        if self.twin is None:
            self.before = self.digest.copy()
            self.digest.update(little_endian(y))
        self.seconds += time.perf_counter() - start
        ends = y.view(np.uint32)[:: max(1, y.size - 1)]
        self.first, self.last = int(ends[0]) if self.first is None else self.first, int(ends[-1])
        return y

    def record(self, block: int, measured: bool) -> Record:
        """The finished block."""
        assert self.first is not None
        ends = (self.twin or self).digest.hexdigest(), self.first, self.last
        measures = self.measures if measured else None
        return Record(block, *ends, round(self.seconds, 3), measures, round(self.measuring, 3))


def sweep_block(block: int, arms: Sequence[Arm], function: Function | None) -> list[Record]:
    """One block on every arm; measured if a function is given. Arms with the same results share hash and measures."""
    running = [Running(arm) for arm in arms[:1]]
    running += [Running(arm, running[0]) for arm in arms[1:]]
    for bits in chunks(block):
        truth: Truth | None = None
        done: list[tuple[Floats, Measures]] = []
        for part in running:
            before = part.last
            y = part.compute(bits)
            if function is None:
                continue
            start = time.perf_counter()
            if bits[0] % BLOCK:  # not the first chunk
                part.measures.monotonicity += _border(function, int(bits[0]), before, int(y.view(np.uint32)[0]))
            truth = truth or Truth(function, bits)
            known = next((m for other, m in done if same(other, y)), None)
            if known is None:
                known = truth.measure(y, part.arm)
                done.append((y, known))
            part.measures.add(known)
            part.measuring += time.perf_counter() - start
    return [part.record(block, function is not None) for part in running]


def _border(function: Function, at: int, before: int, after: int) -> int:
    """1 if the results at the inputs at - 1 and at, all as bits, run the wrong way, else 0."""
    return measure.border(function, at - 1, at, exact.number(before), exact.number(after))


def total(function: Function, records: Mapping[int, Record]) -> Measures:
    """The measures of all blocks given, with the neighbours across their borders; the worst error by mpmath."""
    whole = Measures()
    for block, record in sorted(records.items()):
        assert record.measures is not None
        whole.add(record.measures)
        if block + 1 in records and block != BLOCKS // 2 - 1:
            whole.monotonicity += _border(function, (block + 1) * BLOCK, record.last, records[block + 1].first)
    if 0 in records and BLOCKS // 2 in records:
        below, above = records[BLOCKS // 2].first, records[0].first
        whole.monotonicity += measure.zero_border(function, exact.number(below), exact.number(above))
    return whole


class State:
    """The state files of one case in a folder: read all, append to one of this process's own.

    Only lines of this version of the numerics count. ValueError is never raised for a torn line, which a process that
    was ended leaves at its file's end: the block is computed again.
    """

    def __init__(self, folders: Sequence[Path], case: str) -> None:
        self.case = case
        self._folders = folders
        self._records: dict[tuple[str, str], dict[int, Record]] = {}
        for folder in folders:
            for path in sorted(folder.glob(f"{case}.*.jsonl")):
                self._read(path)

    def _read(self, path: Path) -> None:
        for line in path.read_text("utf-8", "replace").splitlines():
            try:
                data = json.loads(line)
                key = str(data["arm"]), str(data["build"])
                if data["case"] == self.case and data["numerics"] == NUMERICS:
                    self._keep(key, Record.from_json(data["record"]))
            except (KeyError, TypeError, ValueError):
                continue

    def _keep(self, key: tuple[str, str], record: Record) -> None:
        known = self._records.setdefault(key, {}).get(record.block)
        if known is not None and known.digest != record.digest:
            raise StateError(f"{self.case}, arm {key[0]}: block {record.block} has two digests from the same build")
        if known is None or known.measures is None:
            self._records[key][record.block] = record

    def records(self, arm: str, build: str) -> dict[int, Record]:
        """The finished blocks of an arm."""
        return dict(self._records.get((arm, build), {}))

    def builds(self, arm: str) -> list[str]:
        """The builds of an arm that there are blocks of."""
        return [build for name, build in self._records if name == arm]

    def arms(self) -> list[str]:
        """The arms that there are blocks of."""
        return list(dict.fromkeys(name for name, _ in self._records))

    def missing(self, arms: Iterable[Arm], block: int, measured: bool) -> list[Arm]:
        """The arms for which a block is still to be done."""
        return [arm for arm in arms if not self._done(arm, block, measured)]

    def _done(self, arm: Arm, block: int, measured: bool) -> bool:
        record = self._records.get((arm.name, arm.build), {}).get(block)
        return record is not None and (record.measures is not None or not measured)

    def append(self, arms: Sequence[Arm], records: Sequence[Record], part: str) -> None:
        """Writes a block's records to the file of a part of the work, whole lines at once."""
        lines = []
        for arm, record in zip(arms, records, strict=True):
            self._keep((arm.name, arm.build), record)
            data = {"case": self.case, "numerics": NUMERICS, "arm": arm.name, "build": arm.build}
            lines.append(json.dumps({**data, "record": record.as_json()}) + "\n")
        path = self._folders[0] / f"{self.case}.{part}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab+") as file:
            torn = b""
            if file.seek(0, os.SEEK_END):
                file.seek(-1, os.SEEK_END)
                torn = b"" if file.read(1) == b"\n" else b"\n"
            file.write(torn + "".join(lines).encode())
