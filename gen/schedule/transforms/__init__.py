"""The transforms, each in a file of its own, and a step of a schedule read from text.

Every file of this folder and of ``gpu`` is imported, so a new transform is a new file.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import MISSING, fields

from dlvm.gen.schedule.transform import TRANSFORMS, Transform
from dlvm.ir import Dim
from dlvm.ir.text.line import Line, parse_dim

for _found in pkgutil.walk_packages(__path__, f"{__name__}."):
    importlib.import_module(_found.name)


def parse_step(text: str, number: int) -> Transform:
    """A step as ``str`` writes it, in a line of this number."""
    word, _, rest = text.strip().partition(" ")
    kind = TRANSFORMS.get(word)
    line = Line(rest, number)
    if kind is None:
        raise Line(text, number).error(
            f"there is no transform {word!r}; there are {', '.join(sorted(TRANSFORMS))}"
        )
    loop = f"%{line.name('%')}"
    numbers: dict[str, Dim | str] = {}
    known = {f.name: f.type for f in fields(kind)[1:]}
    while line.peek():
        name = line.take()
        if name not in known:
            raise line.error(f"{word} takes {', '.join(sorted(known)) or 'no number'}, not {name}")
        line.take("=")
        numbers[name] = line.take() if known[name] == "str" else parse_dim(line)
    for field in fields(kind)[1:]:
        if field.name not in numbers and field.default is MISSING:
            raise line.error(f"{word} needs {field.name}")
        if field.type == "int" and not isinstance(numbers.get(field.name, 0), int):
            raise line.error(f"{field.name}: expected a whole number, found {numbers[field.name]}")
    made: Callable[..., Transform] = kind
    return made(loop, **numbers)
