"""The notation of ``einsum``: the labels of the axes of all operands.

``"...ij,jk->...ik"``, or a list of integers after each operand, as in NumPy. Axes under an
ellipsis are labelled from the right, as broadcasting aligns them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dlvm.base.errors import ShapeError

Labels = tuple[str, ...]
DOTS = "..."
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


@dataclass(frozen=True, slots=True)
class Subscripts:
    """The labels of each operand's axes and of the result's."""

    terms: tuple[Labels, ...]
    output: Labels


def written(operands: Sequence[Any]) -> tuple[str, list[Any]]:
    """The notation as text, and the operands, from either way to call ``einsum``."""
    if operands and isinstance(operands[0], str):
        return operands[0], list(operands[1:])
    arrays, lists = list(operands[0::2]), list(operands[1::2])
    output = f"->{_letters(arrays.pop())}" if len(arrays) > len(lists) else ""
    return ",".join(map(_letters, lists)) + output, arrays


def _letters(sublist: Any) -> str:
    try:
        return "".join(DOTS if i is Ellipsis else LETTERS[i] for i in sublist)
    except (TypeError, IndexError):
        raise ShapeError(
            f"einsum: expected a list of integers below {len(LETTERS)}, found {sublist!r:.40}",
            remedy='write the labels as text: dlvm.einsum("ij,jk->ik", x, y)',
        ) from None


def parsed(text: str, ranks: Sequence[int]) -> Subscripts:
    """The labels that a notation gives to operands of these ranks."""
    inputs, arrow, result = text.replace(" ", "").partition("->")
    parts = inputs.split(",")
    if len(parts) != len(ranks):
        raise ShapeError(
            f"einsum: {text!r} speaks of {len(parts)} operands, found {len(ranks)}",
            remedy="write one term for each operand, with commas between: 'ij,jk->ik' for two",
        )
    terms = tuple(_labels(text, part, rank) for part, rank in zip(parts, ranks, strict=True))
    covered = max((t for term in terms for t in (_under_dots(term),)), key=len)
    output = _labels(text, result, None, covered) if arrow else _implied(terms, covered)
    _check_output(text, terms, output, covered)
    return Subscripts(terms, output)


def _labels(text: str, part: str, rank: int | None, covered: Labels = ()) -> Labels:
    before, dots, after = part.partition(DOTS)
    if wrong := [c for c in before + after if c not in LETTERS]:
        raise ShapeError(
            f"einsum: {wrong[0]!r} in {text!r} is no label",
            remedy="write letters as labels, and ... for axes without one",
        )
    count = 0 if rank is None else rank - len(before + after)
    if rank is not None and (count < 0 or (count and not dots)):
        said = f"{part!r} in {text!r} labels {len(before + after)} axes"
        raise ShapeError(
            f"einsum: {said}, the operand has {rank}",
            remedy=f"write {rank} letters for it, as in {''.join(LETTERS[8 : 8 + rank])!r}",
        )
    under = covered if rank is None else _dotted(count)
    return (*before, *(under if dots else ()), *after)


def _dotted(count: int) -> Labels:
    return tuple(f"{DOTS}{i}" for i in reversed(range(count)))


def _under_dots(labels: Labels) -> Labels:
    return tuple(label for label in labels if label.startswith(DOTS))


def _implied(terms: Sequence[Labels], covered: Labels) -> Labels:
    """The ellipsis, then in alphabetical order the labels that occur once."""
    times = Counter(label for term in terms for label in term if label not in covered)
    return (*covered, *sorted(label for label, n in times.items() if n == 1))


def _check_output(text: str, terms: Sequence[Labels], output: Labels, covered: Labels) -> None:
    known = {label for term in terms for label in term}
    for label in output:
        if label not in known:
            raise ShapeError(
                f"einsum: {label!r} after -> in {text!r} labels no axis of an operand",
                remedy=f"leave {label!r} out after ->",
            )
        if output.count(label) > 1:
            raise ShapeError(
                f"einsum: {label!r} stands twice after -> in {text!r}",
                remedy=f"write {label!r} once after ->",
            )
    if not set(covered) <= set(output):
        raise ShapeError(
            f"einsum: the axes under ... are not in the result of {text!r}",
            remedy="write ... after -> too, and sum over axes with letters",
        )
