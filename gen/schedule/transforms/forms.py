"""The steps that ask for forms of a kernel's loops, such as ``keep``, before all others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dlvm.gen.loops.statements import Body, Loop
from dlvm.gen.schedule.transform import Transform, register


@dataclass(frozen=True, slots=True)
class Form(Transform):
    """A form that a kernel takes where its loops are written (``lower.forms``)."""

    word: ClassVar[str] = ""

    def rewritten(self, loop: Loop) -> Body:
        """No loops that were written already."""
        raise self.refused("it is said of the whole kernel, before all other steps")


@register
@dataclass(frozen=True, slots=True)
class Unswitch(Form):
    """Rows of open length have one way for short ones and one for long ones."""

    word: ClassVar[str] = "unswitch"


@register
@dataclass(frozen=True, slots=True)
class Keep(Form):
    """What is folded is written where the result will be, and read there by later sweeps."""

    word: ClassVar[str] = "keep"


@register
@dataclass(frozen=True, slots=True)
class Pieces(Form):
    """What lies in no regular way is computed row by row into an array, and folded there."""

    word: ClassVar[str] = "pieces"


@register
@dataclass(frozen=True, slots=True)
class Group(Form):
    """Short rows are folded beside one another, a row in each lane."""

    word: ClassVar[str] = "group"


@register
@dataclass(frozen=True, slots=True)
class Units(Form):
    """An operand of a product is computed in runs of elements that lie on one line."""

    word: ClassVar[str] = "units"


@register
@dataclass(frozen=True, slots=True)
class Panels(Form):
    """A factorisation shares rows of one matrix, and goes by products between its panels."""

    word: ClassVar[str] = "panels"
