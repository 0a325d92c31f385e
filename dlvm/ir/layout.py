"""The fields of an operation, read from the annotations of its class, and its constructor."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass
from typing import Any

from .types import Array


@dataclass(frozen=True, slots=True)
class Spec:
    """One field of an operation; its kind follows from its annotation (see ``_KINDS``)."""

    name: str
    kind: str
    annotation: str
    default: Any = MISSING

    @property
    def required(self) -> bool:
        """Whether the field has no default."""
        return self.default is MISSING

    @property
    def label(self) -> str:
        """The field's name in IR text, such as ``shape`` for ``shape_to``.

        Values have a ``shape`` too, so the field of an operation has a suffix.
        """
        return self.name.removesuffix("_to").removesuffix("_region")


_KINDS = {
    "Value": "operand",
    "tuple[Value, ...]": "operands",
    "Function": "region",
    "tuple[TensorType, ...]": "types",
    "Array": "array",
}


def layout_of(cls: type, inherited: Sequence[Spec]) -> tuple[Spec, ...]:
    """The fields of an operation, inherited ones first."""
    found = {spec.name: spec for spec in inherited}
    for name, annotation in inspect.get_annotations(cls).items():
        written = _written(annotation)
        if not written.startswith("ClassVar"):
            default = cls.__dict__.get(name, MISSING)
            found[name] = Spec(name, _KINDS.get(written, "attribute"), written, default)
    return tuple(found.values())


def constructor_of(owner: str, layout: Sequence[Spec]) -> Callable[..., None]:
    """A constructor that sets every field, as a dataclass's does, and collects the operands."""
    names = tuple(s.name for s in layout)
    operands_of = _gatherer(layout)

    def constructor(self: Any, *given: Any, **named: Any) -> None:
        if named or len(given) != len(names):
            given = _completed(owner, layout, given, named)
        for name, value in zip(names, given, strict=True):
            setattr(self, name, value)
        self.operands = operands_of(given)
        self.__post_init__()

    constructor.__qualname__, constructor.__name__ = f"{owner}.__init__", "__init__"
    return constructor


def _gatherer(layout: Sequence[Spec]) -> Callable[[tuple[Any, ...]], tuple[Any, ...]]:
    """A function from the values of all fields, in order, to the operands."""
    places = [
        (i, s.kind == "operand") for i, s in enumerate(layout) if s.kind.startswith("operand")
    ]
    k = len(places)
    if places == [(i, True) for i in range(k)]:
        return lambda given: given[:k]
    return lambda given: tuple(x for i, one in places for x in ((given[i],) if one else given[i]))


def _completed(
    owner: str, layout: Sequence[Spec], given: tuple[Any, ...], named: dict[str, Any]
) -> tuple[Any, ...]:
    """The values of all fields in order, from positional arguments, keywords and defaults."""
    values = list(given)
    for spec in layout[len(given) :]:
        if spec.required and spec.name not in named:
            raise TypeError(f"{owner} needs {spec.name!r}")
        values.append(named.pop(spec.name, spec.default))
    for name in named:
        known = any(s.name == name for s in layout)
        raise TypeError(f"{owner} {'got two values for' if known else 'has no field'} {name!r}")
    if len(values) > len(layout):
        raise TypeError(f"{owner}: expected {len(layout)} fields, found {len(values)}")
    return tuple(values)


class Shown:
    """The signature of an operation's class, for ``help`` and ``inspect.signature``."""

    def __get__(self, op: Any, cls: Any) -> inspect.Signature:
        by = inspect.Parameter.POSITIONAL_OR_KEYWORD
        return inspect.Signature(
            [
                inspect.Parameter(
                    s.name, by, default=inspect.Parameter.empty if s.required else s.default
                )
                for s in cls.layout
            ]
        )


def _written(annotation: Any) -> str:
    """The text of an annotation, whether it is a string or was evaluated."""
    if isinstance(annotation, str):
        return annotation
    if annotation is Array:
        return "Array"
    text = str(annotation) if "[" in str(annotation) else annotation.__name__
    return re.sub(r"(\w+\.)+(?=\w)", "", text)
