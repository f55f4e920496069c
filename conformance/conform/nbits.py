"""Cases of MatMulNBits: what whole.py takes its axes from, and the operands of what was chosen on them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ortwin.conformance.conform import values
from ortwin.conformance.conform.case import AttributeValue, Operand, operand
from ortwin.ref.tensor import FLOAT, FLOAT16, INT32, UINT8

if TYPE_CHECKING:
    from ortwin.conformance.conform.whole import Maker

PLAIN: Final = (
    *(((1,), 32, 8), ((2,), 1, 1), ((3,), 15, 7), ((4,), 16, 17), ((5,), 17, 31), ((6,), 33, 16), ((7,), 63, 9)),
    *(((8,), 64, 33), ((9,), 5, 65), ((10,), 100, 15), ((11,), 48, 5), ((12,), 31, 12), ((13,), 96, 3), ((14,), 47, 8)),
    *(((15,), 20, 16), ((16,), 65, 2), ((17,), 128, 2), ((1,), 300, 27), ((1,), 257, 47), ((), 45, 6)),
    *(((2, 1, 3), 40, 4), ((0,), 32, 3), ((2,), 0, 3), ((3,), 18, 0)),
)
"""Dimensions of A before K, then K and N: around the widths of vectors, tiles and blocks."""

LARGER: Final = tuple(((m,), k, n) for k, m in zip((129, 255, 512, 513, 1000, 2048), range(1, 18, 3), strict=True)
                      for n in (1, 17, 64, 130))  # fmt: skip

OPTIONAL: Final = (
    *(("none", "none", False), ("packed", "none", False), ("none", "short", False), ("flat", "padded", False)),
    *(("none", "none", True), ("flat", "none", True), ("none", "padded", True), ("packed", "short", True)),
    *(("float", "none", False), ("packed", "none", True), ("float", "short", True)),
)
"""Forms of zero points and g_idx, and whether there is a bias: each is there and not, with and without the others."""

MISTAKES: Final = (
    *("a", "b", "scales", "zero", "groups", "bias", "range", "range"),  # an operand's shape, or g_idx of no block
    *("type", "level", "bits", "block_size"),
)


def axes(few: bool) -> dict[str, tuple[Any, ...]]:
    """The axes. Most cases have no mistake; left_out: B has a 0 among its dimensions."""
    return {
        "sizes": PLAIN if few else (*PLAIN, *LARGER),
        "bits": (4, 8, 2),
        "block_size": (32, 16, 64, 128) if few else (16, 32, 64, 128, 256, 1024),
        "level": (0, 4, 4, 1) if few else (0, 1, 2, 3, 4),
        "optional": OPTIONAL,
        "scales": ("matrix", "flat"),
        "left_out": (*[False] * 7, True),
        "broken": (*[""] * ((3 if few else 2) * len(MISTAKES)), *MISTAKES),
    }


def operands(make: Maker) -> tuple[list[Operand | None], dict[str, AttributeValue]]:
    """Inputs in their order, and attributes. What a mistake is made in is there."""
    dtype, broken = make.dtype, make.broken
    chosen = {**make.chosen, **dict(zip(("zero", "groups", "bias"), make.chosen["optional"], strict=True))}
    (batch, inner, columns), bits, block_size = chosen["sizes"], chosen["bits"], chosen["block_size"]
    blocks = -(-inner // block_size)
    wrong = {name: int(broken == name) for name in MISTAKES}
    scales = (columns, blocks + wrong["scales"])
    inputs = [
        make.drawn(dtype, (*batch, inner + wrong["a"])),
        _weights(make, (columns, blocks, block_size * bits // 8 + wrong["b"])),
        make.scale(
            {0: dtype, 1: FLOAT if dtype == FLOAT16 else FLOAT16}[wrong["type"]],
            scales if chosen["scales"] == "matrix" else (columns * scales[1],),
        ),
        _zero_points(make, chosen["zero"], columns, blocks, bits),
        _groups(make, chosen["groups"], inner, blocks, block_size),
        make.drawn(dtype, (columns + wrong["bias"],)) if chosen["bias"] or wrong["bias"] else None,
    ]
    attributes: dict[str, AttributeValue] = {
        "K": inner,
        "N": columns,
        "bits": bits - wrong["bits"],
        "block_size": block_size + 8 * wrong["block_size"],
        "accuracy_level": chosen["level"] if broken != "level" else 5,
    }
    return inputs, attributes


def _weights(make: Maker, shape: tuple[int, ...]) -> Operand:
    """B, whose padding is random as the rest is, or without elements."""
    if make.chosen["left_out"] and not make.broken:
        at = int(make.stream.integers(3))
        shape = (*shape[:at], 0, *shape[at + 1 :])
    return make.drawn(UINT8, shape, "bits")


def _zero_points(make: Maker, form: str, columns: int, blocks: int, bits: int) -> Operand | None:
    """Float ones are among the numbers of so many bits, or of the special mixes any number now and then."""
    wrong = int(make.broken == "zero")
    if form != "float":
        row = -(-blocks * bits // 8) + wrong
        shape = (columns * row,) if form == "flat" else (columns, row)
        return make.drawn(UINT8, shape, "bits") if form != "none" or wrong else None
    shape = (columns, blocks + wrong)
    found = (make.stream.random(shape) * 2**bits).astype(np.float32).astype(values.numpy_type(make.dtype))
    if make.mix in ("special", "rare"):
        special = values.draw("special", make.dtype, found.size, (), make.stream).reshape(shape)
        found = np.where(make.stream.random(shape) < 0.1, special, found)
    return operand(found, make.dtype)


def _groups(make: Maker, form: str, inner: int, blocks: int, block_size: int) -> Operand | None:
    """Behind K, where nobody looks, some are of no block."""
    wrong = make.broken in ("groups", "range")
    if form == "none" and not wrong:
        return None
    length = (blocks * block_size if form == "padded" else inner) + (make.broken == "groups")
    found = make.stream.integers(0, max(blocks, 1), length)
    found[inner:] = make.stream.choice([-1, 0, 2**31 - 1], max(length - inner, 0))
    if make.broken == "range" and inner:
        found[int(make.stream.integers(inner))] = make.stream.choice([-1, blocks])
    return operand(found.astype(np.int32), INT32)
