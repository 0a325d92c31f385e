"""What the class of an operation still lacks: ``assert_complete`` says all of it in one error."""

from __future__ import annotations

from collections.abc import Iterator

from dlvm.ir import Op
from dlvm.ops import (
    Control,
    Creation,
    Effect,
    Elementwise,
    IndexMap,
    Reduction,
    Running,
    Structured,
)
from dlvm.ops.flow.ranked import Ranked

from .drawing import control_families as control_families
from .drawing import ranked_families as ranked_families
from .drawing.families import placing_of

PARTS: dict[type[Op], dict[str, str]] = {
    Elementwise: {"scalar": "scalar(self, s, *x): the formula of one element in scalar words"},
    Reduction: {
        "states": "states(self): the types of the scalars that are folded",
        "identity": "identity(self, s): the state of an empty fold",
        "lift": "lift(self, s, index, *x): the state of one element",
        "combine": "combine(self, s, a, b): the associative operation on two states",
        "project": "project(self, s, state): the results, from the state of all elements",
    },
    IndexMap: {"reads": "reads(self, index): which element of which operand an element is"},
    Running: {
        "states": "states(self): the types of the scalars that are carried along",
        "identity": "identity(self, s): the state before the first element",
        "step": "step(self, s, index, state, *x): the state after one more element",
        "project": "project(self, s, state): the result at a state",
    },
}
"""What the classes of a family state, each with what to write."""


def assert_complete(cls: type[Op]) -> None:
    """Raises one ``AssertionError`` that lists all that an operation's class lacks, if anything.

    Example: ``dlvm.testing.assert_complete(Mish)`` in the tests of who writes the class ``Mish``.
    """
    if missing := lacking(cls):
        listed = "".join(f"\n  - {each}" for each in missing)
        raise AssertionError(f"the class {cls.__name__} of the operation still lacks:{listed}")


def lacking(cls: type[Op]) -> list[str]:
    """What the class of an operation lacks, each with what to write; empty if it is complete."""
    return [*_described(cls), *_differentiated(cls), *_compiled(cls), *_tried(cls)]


def _described(cls: type[Op]) -> Iterator[str]:
    if "name" not in cls.__dict__:
        yield 'name = "...": its name in IR text, under which it is registered'
    if len((cls.__dict__.get("__doc__") or "").strip()) <= 5:
        yield "a docstring: the formula, and what holds at its edges"
    if cls.infer is Op.infer:
        yield "infer(self): the type of the result; a family such as dlvm.ops.Elementwise has one"
    if cls.reference is Op.reference and cls.run in (Op.run, Elementwise.run):
        yield "reference(self, *operands): the meaning, in NumPy"


def _differentiated(cls: type[Op]) -> Iterator[str]:
    derived = cls.adjoint is not Op.adjoint
    if derived and cls.nondifferentiable:
        yield "one of adjoint and nondifferentiable: it has both"
    none = Control | Creation | Effect | IndexMap  # or it follows, as that of an index map does
    elsewhere = cls.holds_regions or issubclass(cls, none)
    if not (derived or cls.nondifferentiable or elsewhere):
        yield (
            "adjoint(self, *dy): the cotangent of each operand, linear in dy; or "
            'nondifferentiable = "...": the mathematical reason why there is none'
        )


def _compiled(cls: type[Op]) -> Iterator[str]:
    if cls.lowering is not Op.lowering:
        return
    for family, parts in PARTS.items():
        if issubclass(cls, family):
            yield from (said for n, said in parts.items() if getattr(cls, n) is getattr(family, n))
            return
    if cls.asks_python and not issubclass(cls, Ranked):
        yield "lowering(self): the result in other operations; without it machine code asks Python"


def _tried(cls: type[Op]) -> Iterator[str]:
    elsewhere = issubclass(cls, Control | Structured | Creation | Effect | IndexMap | Ranked)
    if cls.batched is Op.batched and not elsewhere:
        yield "batched(self, size): the attributes that change if operands get a new first axis"
    if placing_of(cls) is None:
        yield (
            f"a function that places it in random programs, decorated with @places({cls.__name__}) "
            "of dlvm.testing.drawing.families; a class of a family is placed as its family is"
        )
