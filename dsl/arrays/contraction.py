"""Sums of products over labelled axes: ``einsum`` and what is written with it.

Two operands become one batched matrix product. Labels of both that are kept are batch axes,
labels of both that are not are summed over; axes that lie beside one another in memory are taken
as one, and the rest is a permutation, which products read as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dlvm.base.errors import ShapeError
from dlvm.dsl.elements.eager import public
from dlvm.dsl.elements.elementwise import apply, note_widening, refuse_out
from dlvm.dsl.trace.operands import common, element, fresh, kind_of, known_dtype, plain
from dlvm.dsl.trace.tensor import Tensor
from dlvm.dsl.words.pairing import pairs
from dlvm.dsl.words.subscripts import Labels, Subscripts, parsed, written
from dlvm.dsl.words.views import permuted, reshaped
from dlvm.ir import BOOL, I64, Dim, DType, Value
from dlvm.ir.sizes.dims import evaluate, product, symbols
from dlvm.ops import Broadcast, Cast, Diagonal, Less, Matmul, Mul, Sum

NOMINAL = 64
"""What an unknown size is taken for when orders are compared."""


@dataclass(frozen=True, slots=True)
class Labelled:
    """A value whose axes have labels."""

    value: Value
    labels: Labels

    def ordered(self, labels: Labels) -> Labelled:
        """The axes in another order."""
        perm = tuple(self.labels.index(label) for label in labels)
        return Labelled(permuted(self.value, perm), labels)

    def size(self, labels: Labels) -> Dim:
        """How many elements some axes have together."""
        return product(tuple(self.value.shape[self.labels.index(label)] for label in labels))


@public("einsum")
def einsum(*operands: Any, out: None = None, dtype: Any = None, optimize: Any = True) -> Any:
    """The sum over labelled axes of a product: ``einsum("ij,jk->ik", x, y)``.

    Labels that the result does not have are summed over; without ``->`` it has those that occur
    once, in alphabetical order. A label that an operand has twice is its diagonal. Several
    operands are contracted two at a time in the cheapest order, whatever ``optimize`` says.
    """
    refuse_out(out)
    text, arrays = written(operands)
    xs = alike(arrays, dtype, "einsum")
    return contracted(xs, parsed(text, [x.ndim for x in xs]))


def alike(arrays: Sequence[Any], dtype: Any, name: str) -> list[Tensor]:
    """Operands promoted to one element type."""
    xs = [plain(a) for a in arrays]
    kind = common(tuple(map(kind_of, xs))) if dtype is None else known_dtype(dtype)
    note_widening(name, xs, [kind] * len(xs), silent=dtype is not None)
    return [fresh(element(x, kind)) for x in xs]


def contracted(xs: Sequence[Tensor], labels: Subscripts) -> Tensor:
    """The contraction of operands of one type; of bools, whether some product holds."""
    dtype: DType = xs[0].element
    if dtype is BOOL:
        counted = [fresh(element(x, I64)) for x in xs]
        return apply(Less, 0, contracted(counted, labels))
    rows = zip(xs, labels.terms, strict=True)
    terms = [_diagonals(Labelled(x.read(), term)) for x, term in rows]
    sizes = _sizes(terms)
    pool = dict(enumerate(_stretched(term, sizes) for term in terms))
    for i, term in pool.items():
        pool[i] = _summed(term, _kept(pool, labels.output, i))
    numbers = {label: _nominal(size) for label, size in sizes.items()}
    order = [frozenset(term.labels) for term in pool.values()]
    for step, (i, j) in enumerate(pairs(order, frozenset(labels.output), numbers)):
        kept = _kept(pool, labels.output, i, j)
        x, y = pool.pop(i), pool.pop(j)
        pool[len(terms) + step] = pair(x, y, kept if pool else labels.output)
    (found,) = pool.values()
    return fresh(found.ordered(labels.output).value)


def _diagonals(term: Labelled) -> Labelled:
    """Labels that stand twice are made one axis each."""
    for label in dict.fromkeys(term.labels):
        while term.labels.count(label) > 1:
            first = term.labels.index(label)
            second = term.labels.index(label, first + 1)
            others = [i for i in range(len(term.labels)) if i not in (first, second)]
            turned = permuted(term.value, (*others, first, second))
            term = Labelled(Diagonal(turned), (*(term.labels[i] for i in others), label))
    return term


def _sizes(terms: Sequence[Labelled]) -> dict[str, Dim]:
    """The size of each label; a literal 1 stretches."""
    sizes: dict[str, Dim] = {}
    for term in terms:
        for label, size in zip(term.labels, term.value.shape, strict=True):
            known = sizes.setdefault(label, size)
            if known != size and known != 1 and size != 1:
                raise ShapeError(
                    f"einsum: the axes of label {label!r} have sizes {known}, {size}",
                    sides=(known, size),
                    remedy="write another letter for one of the two axes, or cut them to one size",
                )
            sizes[label] = size if known == 1 else known
    return sizes


def _stretched(term: Labelled, sizes: Mapping[str, Dim]) -> Labelled:
    """Without axes of size 1 that others stretch: one element for all is no axis."""
    kept = [i for i, label in enumerate(term.labels) if term.value.shape[i] == sizes[label]]
    value = reshaped(term.value, tuple(term.value.shape[i] for i in kept))
    return Labelled(value, tuple(term.labels[i] for i in kept))


def _nominal(size: Dim) -> int:
    return evaluate(size, dict.fromkeys(symbols(size), NOMINAL))


def _kept(pool: Mapping[int, Labelled], output: Labels, *but: int) -> Labels:
    """The labels that the result has, or an operand other than these."""
    others = (label for i, term in pool.items() if i not in but for label in term.labels)
    return tuple(dict.fromkeys((*output, *others)))


def _summed(term: Labelled, kept: Labels) -> Labelled:
    axes = tuple(i for i, label in enumerate(term.labels) if label not in kept)
    if not axes:
        return term
    return Labelled(Sum(term.value, axes), tuple(label for label in term.labels if label in kept))


# -- two operands ----------------------------------------------------------------------------------


def pair(x: Labelled, y: Labelled, kept: Labels) -> Labelled:
    """Two operands contracted over the labels that both have and that are not kept."""
    both = [label for label in x.labels if label in y.labels]
    batch = tuple(label for label in kept if label in both)
    inner = tuple(label for label in both if label not in kept)
    if kept and kept[-1] in x.labels and kept[-1] not in y.labels:
        x, y = y, x  # so that the last axis of the result is that of the product
    m, n = (tuple(label for label in t.labels if label not in both) for t in (x, y))
    if not inner:
        return _multiplied(x, y, tuple(label for label in kept if label in (*x.labels, *y.labels)))
    if not m and not n:
        return _dots(x, y, (*batch, *inner), kept)
    left, right = grouped(x, batch, (m, inner)), grouped(y, batch, (inner, n))
    shape = [t.size((label,)) for t, labels in ((x, (*batch, *m)), (y, n)) for label in labels]
    return Labelled(reshaped(Matmul(left, right), tuple(shape)), (*batch, *m, *n))


def _dots(x: Labelled, y: Labelled, labels: Labels, kept: Labels) -> Labelled:
    """Sums of products that are rounded once, to the type of the operands, as those of matrices."""
    dtype = x.value.type.dtype
    if dtype.compute == dtype:
        return _summed(_multiplied(x, y, labels), kept)
    x, y = (Labelled(Cast(t.value, dtype.compute), t.labels) for t in (x, y))
    found = _summed(_multiplied(x, y, labels), kept)
    return Labelled(Cast(found.value, dtype), found.labels)


def grouped(term: Labelled, batch: Labels, groups: Sequence[Labels]) -> Value:
    """The batch axes, then one axis for each group; without moving elements where possible."""
    every = [*((label,) for label in batch), *groups]
    places = [[term.labels.index(label) for label in group] for group in every]
    if any(at != list(range(at[0], at[0] + len(at))) for at in places if at):
        flat = tuple(label for group in every for label in group)
        return reshaped(term.ordered(flat).value, tuple(term.size(group) for group in every))
    order = sorted(range(len(every)), key=lambda g: places[g] or [len(term.labels)])
    laid = reshaped(term.value, tuple(term.size(every[g]) for g in order))
    return permuted(laid, tuple(order.index(g) for g in range(len(every))))


def _multiplied(x: Labelled, y: Labelled, labels: Labels) -> Labelled:
    """The products of elements, for each choice of these labels."""
    known = {label: t.size((label,)) for t in (x, y) for label in t.labels}
    shape = tuple(known[label] for label in labels)
    return Labelled(Mul(*(_spread(t, labels, shape) for t in (x, y))), labels)


def _spread(term: Labelled, labels: Labels, shape: tuple[Dim, ...]) -> Value:
    ordered = term.ordered(tuple(label for label in labels if label in term.labels))
    if ordered.labels == labels:
        return ordered.value
    return Broadcast(ordered.value, shape, tuple(labels.index(label) for label in ordered.labels))
