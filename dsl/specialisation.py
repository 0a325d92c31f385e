"""What a cached program holds for: a signature of the arguments, and captured state."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from dlvm.errors import DlvmError
from dlvm.ir import Expr, TensorType
from dlvm.ir.interpret import bind

from .compiled import Compiled
from .guards import ELEMENTS, Elements, Found, Guard, present
from .scopes import is_array, type_of
from .trees import Spec as Tree


@dataclasses.dataclass(frozen=True, slots=True)
class Signature:
    """What a program was compiled for."""

    tree: Tree
    static: tuple[Any, ...]
    leaves: tuple[tuple[TensorType, bool], ...]


@dataclasses.dataclass(eq=False, slots=True)
class Specialisation:
    """A compiled program, the state outside its arguments that it holds for, and its last use."""

    signature: Signature
    guards: tuple[Guard, ...]
    captured: tuple[tuple[Found, TensorType], ...]
    compiled: Compiled
    unwatched: dict[str, str]
    used: int = 0

    def changed(self) -> str | None:
        """What is no longer as it was while tracing, if anything."""
        for guard in self.guards:
            if not guard.holds():
                return f"{guard.path} was {_brief(guard.expected)}, is {_brief(guard.now())}"
        for found, t in self.captured:
            array = present(found.read)
            if not is_array(array) or type_of(array) != t:
                return f"the captured {found.path} was {t}, is {_brief(array)}"
        return None

    def other_elements(self) -> set[str]:
        """The arrays whose elements are no longer those that Python may have read."""
        elements = (g for g in self.guards if isinstance(g.expected, Elements))
        return {g.path.removeprefix(ELEMENTS) for g in elements if not g.holds()}


def _brief(value: Any) -> str:
    if is_array(value):
        return str(type_of(value))
    return f"{value!r:.60}"


def leaf_key(leaf: Any) -> Any:
    """What of an argument the choice of a program depends on."""
    return (leaf.dtype, leaf.shape) if is_array(leaf) else leaf.__class__


def shown_type(leaf: tuple[TensorType, bool]) -> str:
    """A leaf of a signature, in messages."""
    return f"a Python {'float' if leaf[0].dtype.is_float else 'int'}" if leaf[1] else str(leaf[0])


def serves(made: Signature, wanted: Signature) -> bool:
    """Whether unknown sizes of a program can be those of other arguments."""
    if made.tree != wanted.tree or made.static != wanted.static:
        return False
    pairs = list(zip(made.leaves, wanted.leaves, strict=True))
    if any(a[1] != b[1] or a[0].dtype != b[0].dtype for a, b in pairs):
        return False
    if any(isinstance(d, Expr) for t, _ in wanted.leaves for d in t.shape):
        return False
    like = [np.broadcast_to(np.zeros((), t.dtype.numpy), concrete(t)) for t, _ in wanted.leaves]
    try:
        bind([t for t, _ in made.leaves], like, [""] * len(like))
    except DlvmError:
        return False
    return True


def concrete(t: TensorType) -> tuple[int, ...]:
    """The shape of a type without symbols."""
    return tuple(int(d) for d in t.shape)
