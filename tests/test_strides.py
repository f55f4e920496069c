"""is_contiguous and is_dense against plain definitions: the addresses of all elements."""

import ctypes
import itertools
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ortwin.fast import library_path
from ortwin.fast.library import Library

DLL = Library(library_path())._dll
LARGEST = 2**63 - 1


def ask(name: str, dims: Sequence[int], strides: Sequence[int]) -> bool:
    array = ctypes.c_int64 * len(dims)
    return bool(DLL[f"ortwin_is_{name}"](array(*dims), array(*strides), ctypes.c_size_t(len(dims))))


def addresses(dims: Sequence[int], strides: Sequence[int]) -> list[int]:
    """Of the elements in C order."""
    return [
        sum(i * s for i, s in zip(index, strides, strict=True))
        for index in itertools.product(*(range(d) for d in dims))
    ]


def contiguous(dims: Sequence[int], strides: Sequence[int]) -> bool:
    found = addresses(dims, strides)
    return found == list(range(len(found)))


def dense(dims: Sequence[int], strides: Sequence[int]) -> bool:
    found = sorted(addresses(dims, strides))
    return not found or found == list(range(found[0], found[0] + len(found)))


def check(dims: Sequence[int], strides: Sequence[int]) -> tuple[bool, bool]:
    want = contiguous(dims, strides), dense(dims, strides)
    assert (ask("contiguous", dims, strides), ask("dense", dims, strides)) == want, (dims, strides)
    return want


def test_all_small_ones() -> None:
    """Every shape of rank 0 to 3 with sizes to 3, and every stride from -4 to 9."""
    found = {
        check(dims, strides)
        for rank in range(3)
        for dims in itertools.product(range(4), repeat=rank)
        for strides in itertools.product(range(-4, 10), repeat=rank)
    }
    assert found == {(True, True), (False, True), (False, False)}


@settings(max_examples=400, deadline=None)
@given(data=st.data())
def test_permutations_and_what_is_nearly_one(data: st.DataObject) -> None:
    """Made dense (axes in any order and direction, any stride where the size is 1), then at times spoilt."""
    rank = data.draw(st.integers(0, 12))
    dims = data.draw(st.lists(st.sampled_from([1, 1, 2, 2, 3]), min_size=rank, max_size=rank))
    if data.draw(st.booleans()) and rank:
        dims[data.draw(st.integers(0, rank - 1))] = 0
    order = data.draw(st.permutations(range(rank)))
    strides, spanned = [0] * rank, 1
    for axis in order:
        strides[axis] = spanned if dims[axis] != 1 else data.draw(st.integers(-9, 9))
        strides[axis] *= data.draw(st.sampled_from([1, 1, -1]))
        spanned *= max(dims[axis], 1)
    if np.prod(dims, dtype=float) > 5000:
        return
    assert check(dims, strides)[1]
    if rank and data.draw(st.booleans()):
        strides[data.draw(st.integers(0, rank - 1))] += data.draw(st.sampled_from([-2, -1, 1, 2, 100]))
        check(dims, strides)


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_views_of_numpy(data: st.DataObject) -> None:
    base = np.zeros(data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=5)), np.int8)
    view = base.transpose(data.draw(st.permutations(range(base.ndim))))
    view = view[tuple(slice(None, None, data.draw(st.sampled_from([1, 1, 1, -1, 2]))) for _ in range(view.ndim))]
    if data.draw(st.booleans()):
        view = np.broadcast_to(view, (data.draw(st.integers(1, 3)), *view.shape))
    check(view.shape, view.strides)


@pytest.mark.parametrize(
    ("dims", "strides", "is_contiguous", "is_dense"),
    [
        ([], [], True, True),
        ([1] * 12, [0] * 12, True, True),
        ([1] * 12, [LARGEST, -LARGEST - 1] * 6, True, True),
        ([2, 1], [1, -LARGEST - 1], True, True),
        ([2], [-LARGEST - 1], False, False),
        ([2], [-1], False, True),
        ([2], [0], False, False),
        ([0, 5], [-3, 0], True, True),
        ([LARGEST], [1], True, True),
        ([2, LARGEST], [LARGEST, 1], True, True),
        ([4, 2, LARGEST], [-2, LARGEST, 1], False, False),  # 2 * LARGEST is -2 to whoever multiplies signed numbers
        ([3, 2**32, 2**32], [0, 2**32, 1], False, False),  # the product of the last two wraps to 0
        ([2, 2**32, 2**32], [0, 2**32, 1], False, False),
        ([2**32, 2**32], [2**32, 1], True, True),
        ([2, 2**31, 2**32], [-LARGEST - 1, 2**32, 1], False, True),  # 2^63 is a distance, not a stride in C order
        ([-1], [1], False, False),
        ([0, -1], [1, 1], False, False),
        ([2, 2], [1, 1], False, False),
        ([2, 2], [2, 1], True, True),
        ([2, 2], [1, 2], False, True),
        ([2, 2], [3, 1], False, False),
    ],
)
def test_single_cases(dims: list[int], strides: list[int], is_contiguous: bool, is_dense: bool) -> None:
    assert (ask("contiguous", dims, strides), ask("dense", dims, strides)) == (is_contiguous, is_dense)


def test_null() -> None:
    for name in ("contiguous", "dense"):
        function, rank = DLL[f"ortwin_is_{name}"], ctypes.c_size_t(1)
        one = (ctypes.c_int64 * 1)(1)
        assert function(None, None, ctypes.c_size_t(0)) == 1
        assert function(None, one, rank) == function(one, None, rank) == 0
