"""Cases of MatMulNBits: what whole.py takes its axes from, and the operands of what was chosen on them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ortwin.conformance.conform import values
from ortwin.conformance.conform.case import AttributeValue, Operand, operand
from ortwin.ref.tensor import FLOAT, FLOAT16, FLOATS, INT32, UINT8

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

MISTAKES: Final = (
    *("a", "b", "scales", "zero", "groups", "bias", "range"),  # an operand's shape, or g_idx beyond the last block
    *("type", "level", "bits", "block_size"),
)


def axes(few: bool) -> dict[str, tuple[Any, ...]]:
    """The axes. Most cases have no mistake; left_out: B has a 0 among its dimensions."""
    return {
        "sizes": PLAIN if few else (*PLAIN, *LARGER),
        "bits": (4, 8, 2),
        "block_size": (32, 16, 64, 128) if few else (16, 32, 64, 128, 256, 1024),
        "level": (0, 4, 4, 1) if few else (0, 1, 2, 3, 4),
        "zero": ("none", "packed", "flat", "float", "packed"),
        "groups": ("none", "none", "short", "none", "padded"),
        "scales": ("matrix", "flat"),
        "bias": (False, True),
        "left_out": (*[False] * 7, True),
        "broken": (*[""] * (2 * len(MISTAKES) if few else 1), *MISTAKES),
    }


def operands(make: Maker) -> tuple[list[Operand | None], dict[str, AttributeValue]]:
    """Inputs in their order, and attributes. Padding is random as the rest is."""
    chosen, dtype, stream, broken = make.chosen, make.dtype, make.stream, make.broken
    (batch, inner, columns), bits, block_size = chosen["sizes"], chosen["bits"], chosen["block_size"]
    blocks = -(-inner // block_size)
    more = {name: int(broken == name) for name in MISTAKES}
    a = make.drawn(dtype, (*batch, inner + more["a"]))
    weights = (columns, blocks, block_size * bits // 8 + more["b"])
    if chosen["left_out"]:
        at = int(stream.integers(3))
        weights = (*weights[:at], 0, *weights[at + 1 :])
    row = -(-blocks * bits // 8)
    zero_type, zero_shape = (dtype, blocks) if chosen["zero"] == "float" else (UINT8, row)
    lines = (columns, zero_shape + more["zero"])
    zero = make.drawn(zero_type, lines if chosen["zero"] != "flat" else (lines[0] * lines[1],), "bits")
    if chosen["zero"] == "float":
        zero = operand(_zero_points(make, bits, lines), dtype)
    short = chosen["groups"] == "short"
    indices = stream.integers(0, max(blocks, 1), (inner if short else blocks * block_size) + more["groups"])
    if broken == "range" and inner:
        indices[int(stream.integers(inner))] = stream.choice([-1, blocks])
    if not short:
        indices[inner:] = stream.choice([-1, 0, 2**31 - 1], len(indices) - inner)  # nobody looks there
    spread = (columns, blocks + more["scales"])
    other = FLOAT if dtype == FLOAT16 else FLOAT16
    inputs = [
        a,
        make.drawn(UINT8, weights, "bits"),
        make.scale(
            dtype if broken != "type" else other, spread if chosen["scales"] == "matrix" else (spread[0] * spread[1],)
        ),
        zero if chosen["zero"] != "none" else None,
        operand(indices.astype(np.int32), INT32) if chosen["groups"] != "none" else None,
        make.drawn(dtype, (columns + more["bias"],)) if chosen["bias"] else None,
    ]
    attributes: dict[str, AttributeValue] = {
        "K": inner,
        "N": columns,
        "bits": bits - more["bits"],
        "block_size": block_size + 8 * more["block_size"],
        "accuracy_level": chosen["level"] if broken != "level" else 5,
    }
    return inputs, attributes


def _zero_points(make: Maker, bits: int, shape: tuple[int, ...]) -> Any:
    """Float zero points among the numbers of so many bits, or of the special mixes any number now and then."""
    found = (make.stream.random(shape) * 2**bits).astype(np.float32).astype(values.numpy_type(make.dtype))
    if make.mix in ("special", "rare") and make.dtype in FLOATS:
        count = int(np.prod(shape, dtype=np.int64))
        special = values.draw("special", make.dtype, count, (), make.stream).reshape(shape)
        found = np.where(make.stream.random(shape) < 0.1, special, found)
    return found
