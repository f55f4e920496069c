"""A failing case made small by hypothesis: fewer elements, offset 0, rank 1, plain attributes, while it still fails.

hypothesis is an extra (`pip install ortwin[conform]`), imported when something has failed.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from ortwin.conformance.conform.case import Case, operand

ATTEMPTS: Final = 600
"""Cases tried per step."""


def available() -> bool:
    """Whether hypothesis is installed."""
    try:
        import hypothesis  # noqa: F401
    except ImportError:
        return False
    return True


def shrink(case: Case, at: Callable[[Case], int | None]) -> Case:
    """The smallest case found that fails as well; the case itself if none does.

    at: the index of the first wrong element, -1 for a failure of the case as a whole, None where it does not fail.
    """
    for step in (_plainer, _fewer, _zeros, _plainer):
        if at(case) is None:  # an arm that changes its mind: nothing smaller would mean more
            return case
        case = step(case, at)
    return case


def _find(strategy: Any, fails: Callable[[Case], bool]) -> Case | None:
    """The simplest case of a strategy that fails."""
    from hypothesis import HealthCheck, Phase, find, settings
    from hypothesis.errors import NoSuchExample

    chosen = settings(
        max_examples=ATTEMPTS,
        database=None,
        deadline=None,
        derandomize=True,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # advice for writers of tests, such as that a case is large
        try:
            found: Case = find(strategy, fails, settings=chosen)
        except NoSuchExample:
            return None
    return found


def _plainer(case: Case, at: Callable[[Case], int | None]) -> Case:
    """Each thing that a case says, said in the plainest way or as it is."""
    from hypothesis import strategies as st

    def either(plain: Any, now: Any) -> Any:
        return st.sampled_from([plain] if repr(plain) == repr(now) else [plain, now])

    x = case.x
    attributes = [either(None, pair) for pair in case.attributes]
    further = [either(None, item) if item is not None else st.none() for item in case.inputs[1:]]

    def build(shape: tuple[int, ...], others: Sequence[Any], pairs: Sequence[Any], **more: Any) -> Case:
        while others and others[-1] is None:
            others = others[:-1]
        inputs = (operand(x.array.reshape(shape), x.dtype), *others)
        return replace(case, inputs=inputs, attributes=tuple(pair for pair in pairs if pair is not None), **more)

    strategy = st.builds(
        build,
        shape=either((x.size,), x.shape),
        others=st.tuples(*further),
        pairs=st.tuples(*attributes),
        offset=either(0, case.offset),
        in_place=either(False, case.in_place),
        constant=either(False, case.constant),
        threads=either(1, case.threads),
    )
    return _find(strategy, lambda smaller: at(smaller) is not None) or case


def _fewer(case: Case, at: Callable[[Case], int | None]) -> Case:
    """A stretch of the elements around the first wrong one, if the shape can be given up."""
    from hypothesis import strategies as st

    wrong, x = at(case), case.x
    if len(x.shape) != 1 and x.size > 1:
        return _narrower(case, at)
    if x.size < 2:
        return case
    centre = wrong if wrong is not None and wrong >= 0 else None

    def build(before: int, after: int) -> Case:
        part = x.array[centre - before : centre + after + 1] if centre is not None else x.array[: before + after]
        return replace(case, inputs=(operand(part, x.dtype), *case.inputs[1:]))

    most = (centre, x.size - 1 - centre) if centre is not None else (0, x.size)
    strategy = st.builds(build, before=st.integers(0, most[0]), after=st.integers(0, most[1]))
    return _find(strategy, lambda smaller: at(smaller) is not None) or case


def _narrower(case: Case, at: Callable[[Case], int | None]) -> Case:
    """Every dimension whole, or only the place of the first wrong element in it."""
    from hypothesis import strategies as st

    x, wrong = case.x, at(case)
    position = np.unravel_index(min(max(0, wrong or 0), x.size - 1), x.shape)

    def build(whole: Sequence[bool]) -> Case:
        part = x.array[tuple(slice(None) if w else slice(k, k + 1) for w, k in zip(whole, position, strict=True))]
        return replace(case, inputs=(operand(part, x.dtype), *case.inputs[1:]))

    strategy = st.builds(build, whole=st.tuples(*[st.booleans()] * len(x.shape)))
    return _find(strategy, lambda smaller: at(smaller) is not None) or case


def _zeros(case: Case, at: Callable[[Case], int | None]) -> Case:
    """As many elements as possible 0."""
    from hypothesis import strategies as st

    x = case.x
    if x.size > 256:  # hypothesis would not get through
        return case

    def build(kept: Sequence[bool]) -> Case:
        size = len(x.data) // x.size
        data = b"".join(x.data[k * size :][:size] if keep else bytes(size) for k, keep in enumerate(kept))
        return replace(case, inputs=(replace(x, data=data), *case.inputs[1:]))

    if not x.size:
        return case
    strategy = st.builds(build, kept=st.tuples(*[st.booleans()] * x.size))
    return _find(strategy, lambda smaller: at(smaller) is not None) or case
