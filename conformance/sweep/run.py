"""Running a sweep: the blocks that are still missing, in this process or in several, with the time left on stderr."""

from __future__ import annotations

import multiprocessing
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from types import TracebackType
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from ortwin.conformance.sweep import arms
from ortwin.conformance.sweep.arms import Arm
from ortwin.conformance.sweep.blocks import Record, State, sweep_block
from ortwin.conformance.sweep.cases import Case

LOG_SECONDS: Final = 60.0
"""Between two lines of progress where stderr is no terminal."""

Work = tuple[int, list[str]]
"""A block, and the arms to run on it."""


class Timer:
    """Progress over a number of steps: a bar on a terminal, else a line a minute, with the time left."""

    def __init__(self, what: str, steps: int) -> None:
        self._what, self._steps, self._done = what, steps, 0
        self._start = self._said = time.monotonic()
        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed} of {task.total}"))
        console = Console(file=sys.stderr)
        self._bar = Progress(
            *columns, TimeElapsedColumn(), TimeRemainingColumn(), console=console, disable=not console.is_terminal
        )
        self._lines = not console.is_terminal
        self._task = TaskID(0)

    def __enter__(self) -> Timer:
        self._bar.start()
        self._task = self._bar.add_task(self._what, total=self._steps)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._bar.stop()

    def step(self) -> None:
        """One step is done."""
        self._done += 1
        self._bar.advance(self._task)
        now = time.monotonic()
        if self._lines and now - self._said >= LOG_SECONDS and self._done < self._steps:
            self._said = now
            left = (now - self._start) / self._done * (self._steps - self._done)
            print(f"{self._what}: {self._done} of {self._steps}, {left / 60:.0f} min left", file=sys.stderr, flush=True)


class Worker:
    """The arms of a case, made when they are first needed."""

    def __init__(self, case: Case, measured: bool) -> None:
        self._case = case
        self._function = case.function if measured else None
        self._arms: dict[str, Arm] = {}

    def arm(self, name: str) -> Arm:
        """The arm of a name."""
        if name not in self._arms:
            self._arms[name] = arms.make(name, self._case)
        return self._arms[name]

    def __call__(self, work: Work) -> list[Record]:
        """The records of a block, one per arm."""
        block, names = work
        return sweep_block(block, [self.arm(name) for name in names], self._function)


_worker: Worker | None = None


def _start(case: Case, measured: bool) -> None:
    global _worker
    _worker = Worker(case, measured)


def _work(work: Work) -> list[Record]:
    assert _worker is not None
    return _worker(work)


def results(worker: Worker, case: Case, measured: bool, work: Sequence[Work], jobs: int) -> Iterator[list[Record]]:
    """The records of each piece of work, in order. Several processes are started afresh: ONNX Runtime has threads,
    which a fork would lose."""
    if jobs == 1 or len(work) < 2:
        yield from map(worker, work)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, context, _start, (case, measured)) as pool:
        try:
            yield from pool.map(_work, work)
        finally:
            pool.shutdown(cancel_futures=True)


def sweep(
    case: Case,
    names: Sequence[str],
    state: State,
    blocks: Sequence[int],
    *,
    measured: bool,
    jobs: int = 1,
    part: str = "all",
    make_worker: Callable[[Case, bool], Worker] = Worker,
) -> list[Arm]:
    """Sweeps the blocks that the state lacks on the arms of these names, and returns the arms.

    measured: with errors and violations, else digests alone. part: names the state file written to.
    """
    worker = make_worker(case, measured)
    made = {name: worker.arm(name) for name in names}
    work: list[Work] = []
    for block in blocks:
        missing = [name for name, arm in made.items() if state.missing([arm], block, measured)]
        if missing:
            work.append((block, missing))
    with Timer(case.name, len(work)) as timer:
        found = results(worker, case, measured, work, jobs)
        for (_, missing), records in zip(work, found, strict=True):
            state.append([made[name] for name in missing], records, part)
            timer.step()
    return list(made.values())
