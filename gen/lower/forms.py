"""The forms that the loops of a kernel may have where they are not plain.

A plan asks for them before loops are written, as they say where a fold or a factorisation keeps
what it computes. None of them changes a bit, nor the order in which elements are folded.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeAlias

Word: TypeAlias = Literal["unswitch", "keep", "pieces", "group", "units", "panels", "together"]
FORMS: dict[Word, str] = {
    "unswitch": "one way for rows of open length that are short, and one for those that are long",
    "keep": "what is folded is written where the result will be, and read there by later sweeps",
    "pieces": "what lies in no regular way is computed row by row into an array, and folded there",
    "group": "short rows are folded beside one another, a row in each lane",
    "units": "an operand of a product is computed in runs of elements that lie on one line",
    "panels": "rows of one matrix are factorised together, large ones by products between panels",
    "together": "rows of one matrix are factorised together, without products",
}
"""Each by the word of its step, and what it means."""


class Forms:
    """The forms that were asked for, and those that were of use."""

    def __init__(self, asked: Iterable[str]) -> None:
        self.asked = frozenset(asked)
        self.used: set[Word] = set()

    def take(self, form: Word, possible: object = True) -> bool:
        """Whether a form is asked for where it is possible, and so is used."""
        if possible and form in self.asked:
            self.used.add(form)
            return True
        return False

    @property
    def steps(self) -> tuple[str, ...]:
        """The steps of a schedule that ask for what was used."""
        return tuple(f"{form} %kernel" for form in FORMS if form in self.used)
