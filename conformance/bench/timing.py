"""Taking the samples: blocks of runs, arms alternating, in one thread of one process."""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from ortwin.conformance.bench import host

Run = Callable[[], None]

BLOCK_NS: Final = 300_000
"""A block lasts about this long: far above the clock's step, far below the time a busy machine stays busy."""
MIN_ROUNDS: Final = 5


@dataclass
class Measurement:
    """samples[arm][round][block]: nanoseconds per run. busy: rounds in which others were ready to run."""

    samples: dict[str, list[list[float]]]
    runs_per_block: dict[str, int]
    busy: list[int] = field(default_factory=list)


def measure(arms: Mapping[str, Run], threads: int, rounds: int = 7, blocks: int = 15) -> Measurement:
    """Times the arms. Each block has an order of its own: an arm that always follows the same other, whose outputs are
    still in the cache, would be measured with a bias."""
    if rounds < MIN_ROUNDS:
        raise ValueError(f"at least {MIN_ROUNDS} rounds are needed, not {rounds}")
    order, shuffle = list(arms), random.Random(0)
    sizes = {name: _warm_up(run) for name, run in arms.items()}
    result = Measurement({name: [] for name in order}, sizes)
    collecting = gc.isenabled()
    gc.disable()
    try:
        for index in range(rounds):
            ready = [host.runnable()]
            for name in order:
                result.samples[name].append([])
            for _ in range(blocks):
                shuffle.shuffle(order)
                for name in order:
                    result.samples[name][index].append(_block(arms[name], sizes[name]))
            ready.append(host.runnable())
            if min(ready) > threads:  # ourselves, with all our threads, are not others
                result.busy.append(index)
    finally:
        if collecting:
            gc.enable()
    return result


def _block(run: Run, count: int) -> float:
    start = time.perf_counter_ns()
    for _ in range(count):
        run()
    return (time.perf_counter_ns() - start) / count


def _warm_up(run: Run) -> int:
    """Runs for a few blocks' time and returns how many runs make a block."""
    spent, count = 0.0, 0
    while spent < 5 * BLOCK_NS or count < 3:
        spent += _block(run, 1)
        count += 1
    return max(1, round(BLOCK_NS * count / spent))
