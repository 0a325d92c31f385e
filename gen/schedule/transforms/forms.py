"""The steps that ask for forms of a kernel's loops, such as ``keep``, before all others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dlvm.gen.loops.statements import Body, Loop
from dlvm.gen.lower.forms import FORMS
from dlvm.gen.schedule.transform import Transform, register


@dataclass(frozen=True, slots=True)
class Form(Transform):
    """A form that a kernel takes where its loops are written; what it means is in ``FORMS``."""

    word: ClassVar[str] = ""

    def rewritten(self, loop: Loop) -> Body:
        """No loops that were written already."""
        raise self.refused("it is said of the whole kernel, before all other steps")


for _word, _meaning in FORMS.items():
    register(type(_word.capitalize(), (Form,), {"word": _word, "__doc__": _meaning}))
