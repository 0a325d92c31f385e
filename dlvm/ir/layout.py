"""The fields of an operation, read from the annotations of its class, and its constructor.

A class of an operation is cheap to make, as there are hundreds that a process never uses: its
constructor is written when it first makes one.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass
from typing import Any

from .types import Array


@dataclass(frozen=True, slots=True)
class Spec:
    """One field of an operation; the kind follows from its annotation (see ``_KINDS``)."""

    name: str
    kind: str
    annotation: str
    default: Any = MISSING

    @property
    def required(self) -> bool:
        """Whether it must be given."""
        return self.default is MISSING

    @property
    def label(self) -> str:
        """Its name in IR text: ``shape_to`` is written ``shape``, as values have a shape too."""
        return self.name.removesuffix("_to").removesuffix("_region")


_KINDS = {
    "Value": "operand",
    "tuple[Value, ...]": "operands",
    "Function": "region",
    "tuple[TensorType, ...]": "types",
    "Array": "array",
}


def layout_of(cls: type, inherited: Sequence[Spec]) -> tuple[Spec, ...]:
    """The fields of an operation, those of one that it extends in front."""
    found = {spec.name: spec for spec in inherited}
    for name, annotation in inspect.get_annotations(cls).items():
        written = _written(annotation)
        if not written.startswith("ClassVar"):
            default = cls.__dict__.get(name, MISSING)
            found[name] = Spec(name, _KINDS.get(written, "attribute"), written, default)
    return tuple(found.values())


def constructor_of(owner: str, layout: Sequence[Spec]) -> Callable[..., None]:
    """Sets every field, as a dataclass's does, and gathers the operands."""
    parameters = (s.name if s.required else f"{s.name}=default_{s.name}" for s in layout)
    fields = "".join(f"    self.{s.name} = {s.name}\n" for s in layout)
    names: dict[str, Any] = {f"default_{s.name}": s.default for s in layout}
    names["__name__"] = __name__  # so that the user's line is not looked for in here
    head = f"def __init__({', '.join(('self', *parameters))}):\n"
    stars = {"operand": "", "operands": "*"}
    operands = "".join(f"{stars[s.kind]}{s.name}, " for s in layout if s.kind in stars)
    tail = f"    self.operands = ({operands})\n    self.__post_init__()\n"
    exec(head + fields + tail, names)
    names["__init__"].__qualname__ = f"{owner}.__init__"
    return names["__init__"]


def _written(annotation: Any) -> str:
    """An annotation as it is written, also where it was evaluated (no ``__future__`` import)."""
    if isinstance(annotation, str):
        return annotation
    if annotation is Array:
        return "Array"
    text = str(annotation) if "[" in str(annotation) else annotation.__name__
    return re.sub(r"(\w+\.)+(?=\w)", "", text)
