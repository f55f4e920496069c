"""Where Tanh and Sigmoid come to rest: at every clamp and seam of theirs, two numbers to each side, at the ends of
binary32 and on NaNs of every kind, a result is in range, within 1 ulp, monotone, and one everywhere. Clamped rational
approximations leave the range just there.
"""

import math

import numpy as np
import pytest

from models import CANONICAL_NAN, VERSIONS, Arguments, Array, Row, with_arguments
from test_accuracy import TRUE, error_in_ulp
from test_cases import ARMS, arm, check_everywhere

POINTS = {
    # the last below 1 by half an ulp; the clamps of others; ours
    "Tanh": [0.0, 2.0**-126, 2.0**-12, 0.067, 0.625, 8.9988, 9.0, 9.01, 9.010913, 9.03125, 10.0, 20.0, 88.7, 104.0],
    # 1 to half an ulp; e^x subnormal; e^x 0
    "Sigmoid": [0.0, 2.0**-126, 2.0**-24, 13.5, 15.9, 16.635532, 17.0, 18.0, 87.3, 88.7, 103.27893, 103.97208, 104.0],
}
LIMITS = {"Tanh": (-1.0, 1.0), "Sigmoid": (0.0, 1.0)}
NANS = [0x7F800001, 0x7FA5A5A5, 0x7FBFFFFF, 0x7FC00000, 0x7FC12345, 0x7FFFFFFF]


def ordered(points: list[float]) -> Array:
    """The points of both signs, two numbers to each side of each, infinities and the largest numbers; ascending."""
    steps = np.arange(-2, 3, dtype=np.int32)
    patterns = np.array([p for p in points if p], np.float32).view(np.int32)
    around = (patterns[:, None] + steps).ravel().view(np.float32)
    ends = np.array([0, 1, 2, 0x7F7FFFFD, 0x7F7FFFFE, 0x7F7FFFFF, 0x7F800000], np.int32).view(np.float32)
    up = np.concatenate([around, ends])
    return np.unique(np.concatenate([up, -up]))


@pytest.mark.parametrize("name", ARMS)
@pytest.mark.parametrize("op", POINTS)
def test_at_the_clamps_and_seams(op: str, name: str) -> None:
    x = ordered(POINTS[op])
    run = arm(name, with_arguments(Row(op, VERSIONS[op][-1]), Arguments()))
    y = np.empty_like(x)
    run(x, y)
    low, high = LIMITS[op]
    assert ((y >= low) & (y <= high)).all()
    assert (np.diff(y) >= 0).all()
    with np.errstate(over="ignore"):
        true = TRUE[op](x.astype(np.float64))
    assert (error_in_ulp(y, true) <= 1).all()
    if op == "Tanh":
        assert (y[::-1] == -y).all()
        assert (np.abs(y) < 1)[np.abs(x) < 8.9].all()
    else:
        assert (y > 0)[x > -103.9].all()
        assert y[0] == 0.0
        assert not math.copysign(1.0, y[0]) < 0
    assert y[-1] == 1.0
    check_everywhere(run, x, y)


@pytest.mark.parametrize("name", ARMS)
@pytest.mark.parametrize("op", POINTS)
def test_nans_of_every_kind(op: str, name: str) -> None:
    patterns = np.array([bits | sign for bits in NANS for sign in (0, 1 << 31)], np.uint32)
    run = arm(name, with_arguments(Row(op, VERSIONS[op][-1]), Arguments()))
    answer = np.full(patterns.shape, CANONICAL_NAN, np.uint32).view(np.float32)
    check_everywhere(run, patterns.view(np.float32), answer)
