"""The shapes of matrix products, as numpy.matmul: what operands must be and what comes out.

A dimension is a number, a name, or None; a shape may be None. What is not known breaks no rule.
"""

from __future__ import annotations

import math

import numpy as np
from librt.vecs import append, vec
from mypy_extensions import i64

Dim = int | str | None
Shape = tuple[Dim, ...] | None
Sizes = tuple[int, ...]


def product_rule(a: Shape, b: Shape) -> str:
    """The rule that a product of these shapes breaks, as the end of a sentence; "" if there is none."""
    for name, shape in (("A", a), ("B", b)):
        if shape is not None and len(shape) == 0:
            return f"{name} has rank 0, but a matrix product needs rank 1 or more"
    if a is None or b is None:
        return ""
    inner_a, inner_b = a[-1], b[-2 if len(b) > 1 else 0]
    if isinstance(inner_a, int) and isinstance(inner_b, int) and inner_a != inner_b:
        return f"the inner dimensions differ: A has {inner_a} columns, B {inner_b} rows"
    for p, q in zip(reversed(a[:-2]), reversed(b[:-2]), strict=False):
        if isinstance(p, int) and isinstance(q, int) and p != q and 1 not in (p, q):
            return f"the batch dimensions {p} and {q} of A and B don't broadcast"
    return ""


def product_shape(a: Shape, b: Shape) -> Shape:
    """The shape of the product: batch dimensions broadcast, then rows and columns of operands that are matrices."""
    if a is None or b is None:
        return None
    rank = max(len(a), len(b), 2) - 2
    first: list[Dim] = [1] * (rank - len(a[:-2]))
    second: list[Dim] = [1] * (rank - len(b[:-2]))
    batch = [_broadcast(p, q) for p, q in zip(first + list(a[:-2]), second + list(b[:-2]), strict=True)]
    rows = [a[-2]] if len(a) > 1 else []
    columns = [b[-1]] if len(b) > 1 else []
    return (*batch, *rows, *columns)


def _broadcast(p: Dim, q: Dim) -> Dim:
    if p == q or q == 1:
        return p
    if p == 1 or isinstance(q, int):
        return q
    return p if isinstance(p, int) else None


def swapped(shape: Shape) -> Shape:
    """The shape of the transposed matrices: the last two dimensions exchanged, if there are two."""
    if shape is None or len(shape) < 2:
        return shape
    return (*shape[:-2], shape[-1], shape[-2])


def unidirectional_rule(shape: Shape, target: Shape, spread: bool) -> str:
    """The rule that a tensor of this shape breaks, which has to broadcast to the target without making it larger, or,
    unless it may spread, to have its shape; as the end of a sentence."""
    if shape is None or target is None:
        return ""
    if len(shape) > len(target):
        return f"has rank {len(shape)}, the product {len(target)}"
    if not spread and len(shape) < len(target):
        return f"has rank {len(shape)}, not the product's {len(target)}, and broadcast is not set"
    for have, want in zip(reversed(shape), reversed(target), strict=False):
        if isinstance(have, int) and isinstance(want, int) and have != want and not (spread and have == 1):
            how = "does not broadcast to" if spread else "is not"
            return f"has shape {list(shape)}, which {how} the product's {list(target)}"
    return ""


def per_line_rule(shape: Shape, matrix: Shape, rows: bool) -> str:
    """The rule that a zero point or scale of this shape breaks: it is one number, or one per row (column) of the
    matrices: a vector of as many, or a tensor of [..., M, 1] ([..., 1, N]) that broadcasts to them."""
    if shape is None or matrix is None or all(dim == 1 for dim in shape):
        return ""
    line = "row" if rows else "column"
    count = matrix[-2 if rows else -1] if len(matrix) > 1 else 1
    if len(shape) == 1:
        if isinstance(shape[0], int) and isinstance(count, int) and shape[0] != count:
            return f"has {shape[0]} elements, not 1 or {count}, one per {line}"
        return ""
    if len(shape) > len(matrix):
        return f"has rank {len(shape)}, its matrix {len(matrix)}"
    lines, across = (shape[-2], shape[-1]) if rows else (shape[-1], shape[-2])
    if isinstance(across, int) and across != 1:
        return f"has shape {list(shape)}, whose {'last' if rows else 'last but one'} dimension is not 1"
    if isinstance(lines, int) and lines != 1 and isinstance(count, int) and lines != count:
        return f"has shape {list(shape)}, for {count} {line}s"
    for p, q in zip(reversed(shape[:-2]), reversed(matrix[:-2]), strict=False):
        if isinstance(p, int) and p != 1 and isinstance(q, int) and p != q:
            return f"has shape {list(shape)}, which doesn't broadcast to its matrix's {list(matrix)}"
    return ""


def per_line(shape: Sizes, matrix: Sizes, rows: bool) -> vec[i64]:
    """For each row (column) of each matrix, in order, the element of a tensor of this shape that belongs to it."""
    batch = matrix[:-2]
    count = matrix[-2 if rows else -1] if len(matrix) > 1 else 1
    if math.prod(shape) == 1:
        shape = ()
    elif len(shape) == 1:
        shape = (shape[0], 1) if rows else (1, shape[0])
    return indices(shape, (*batch, count, 1) if rows else (*batch, 1, count))


class Layout:
    """Where the operands of a product of these shapes, which break no rule, and its elements lie, in C order.

    shape: the product's; rows, columns, inner: M, N and K of one matrix of it; a_matrix, b_matrix: for each matrix of
    the product, which of A's and of B's it is made of, and none where it has no elements.
    """

    def __init__(self, a: Sizes, b: Sizes) -> None:
        shape = product_shape(a, b)
        assert shape is not None
        self.shape: Sizes = tuple(dim for dim in shape if isinstance(dim, int))
        batch = self.shape[: max(len(a[:-2]), len(b[:-2]))]
        self.rows: i64 = a[-2] if len(a) > 1 else 1
        self.columns: i64 = b[-1] if len(b) > 1 else 1
        self.inner: i64 = a[-1]
        self.a_matrix = vec[i64]()
        self.b_matrix = vec[i64]()
        if 0 not in self.shape:
            self.a_matrix = indices(a[:-2], batch)
            self.b_matrix = indices(b[:-2], batch)


def indices(shape: Sizes, target: Sizes) -> vec[i64]:
    """For each element of a tensor of the target's shape, in order, the element of one of this shape, which broadcasts
    to it."""
    found = vec[i64]()
    for index in np.broadcast_to(np.arange(math.prod(shape)).reshape(shape), target).reshape(-1).tolist():
        found = append(found, index)
    return found
