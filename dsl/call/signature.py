"""Signatures: the properties of a call for which a program is compiled, and how two of
them differ.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from dlvm.base.elsewhere import Elsewhere
from dlvm.base.errors import DlvmError
from dlvm.dsl.trace.comparing import differing, unlike
from dlvm.dsl.trace.scopes import is_array
from dlvm.dsl.trace.sharded import shown_sharded
from dlvm.dsl.trace.tracing import Input
from dlvm.dsl.trace.trees import Spec as Tree
from dlvm.ir import BOOL, F64, I64, DType, Expr, TensorType
from dlvm.ir.interpret import bind
from dlvm.ir.sharding.mesh import Sharding
from dlvm.ir.sharding.sharded import Sharded


@dataclasses.dataclass(frozen=True, slots=True)
class Signature:
    """The properties of a call for which a program was compiled."""

    names: tuple[str, ...]
    tree: Tree
    static: tuple[Any, ...]
    leaves: tuple[tuple[TensorType, bool], ...]
    interpreted: bool
    checked: bool = False
    default: DType = F64
    shardings: tuple[Sharding | None, ...] = ()
    """What shares the axes of each leaf among ranks; empty if all are whole."""

    def placed(self, inputs: Sequence[Input]) -> list[Input]:
        """The staged arguments, each with what shares its axes."""
        if not self.shardings:
            return [*inputs]
        pairs = zip(inputs, self.shardings, strict=True)
        return [dataclasses.replace(x, sharding=cut) for x, cut in pairs]

    def shown(self) -> list[str]:
        """The leaves, in messages."""
        cut = self.shardings or (None,) * len(self.leaves)
        return [shown_type(t, c) for t, c in zip(self.leaves, cut, strict=True)]


def leaf_key(leaf: Any) -> Any:
    """The part of an argument on which the choice of a program depends."""
    if isinstance(leaf, Sharded) and not leaf.is_whole:
        return (leaf.dtype, leaf.shape, leaf.sharding)
    plain = is_array(leaf) or isinstance(leaf, Elsewhere)
    return (leaf.dtype, leaf.shape) if plain else leaf.__class__


def shown_type(leaf: tuple[TensorType, bool], sharding: Sharding | None = None) -> str:
    """A leaf of a signature, in messages."""
    kinds = {F64: "float", I64: "int", BOOL: "bool"}
    return f"a Python {kinds[leaf[0].dtype]}" if leaf[1] else shown_sharded(leaf[0], sharding)


def differences(known: Signature, new: Signature, labels: Sequence[str]) -> list[str]:
    """Says all that differs between a signature and a known one."""
    found: list[str] = []
    if known.names != new.names:
        found.append(f"the arguments were {', '.join(known.names)}, are {', '.join(new.names)}")
    elif known.tree != new.tree:
        name, was, is_ = differing(new.names, known.tree, new.tree)
        found.append(f"the structure of the arguments changed: {unlike(name, was, is_)}")
    found += _other_values(known.static, new.static)
    if (known.names, known.tree) == (new.names, new.tree):
        pairs = zip(labels, known.shown(), new.shown(), strict=True)
        found += [f"{n} was {a}, is {b}" for n, a, b in pairs if a != b]
    if known.default is not new.default:
        found.append(f"dlvm.default_dtype was {known.default}, is {new.default}")
    if known.checked != new.checked:
        found.append("dlvm.debug(bounds=...) changed")
    elif known.interpreted != new.interpreted:
        found.append("DLVM_INTERPRET changed")
    return found


def distance(known: Signature, new: Signature) -> tuple[bool, bool, bool]:
    """How far a signature is from another one, what differs most in front."""
    return known.names != new.names, known.tree != new.tree, known.static != new.static


def _other_values(known: Sequence[Any], new: Sequence[Any]) -> list[str]:
    """Says how static arguments differ; a default that is not passed counts as absent."""
    was, is_ = ({name: (cls, value) for name, cls, value in static} for static in (known, new))

    def said(values: dict[str, Any], name: str) -> str:
        return f"{values[name][1]!r:.60}" if name in values else "not given"

    names = (n for n in was | is_ if was.get(n) != is_.get(n))
    return [f"{n} was {said(was, n)}, is {said(is_, n)}" for n in names]


def serves(made: Signature, wanted: Signature) -> bool:
    """Whether a program with open sizes can serve these arguments."""
    if dataclasses.replace(made, leaves=()) != dataclasses.replace(wanted, leaves=()):
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


def advised(known: Sequence[Signature], new: Signature) -> str:
    """Advice about many compiles, from how the programs differ."""
    like = [s for s in known if (s.names, s.tree) == (new.names, new.tree)]
    if any(s.static != new.static for s in like):
        return "pass what changes as an array or a number, and not as static="
    if any(s.leaves != new.leaves for s in like):
        return "declare sizes that change as open, dlvm.function(dynamic=True), or pad the arrays"
    if like:
        return "pass captured state that changes as an argument"
    return "pass arguments of one structure and configuration"


def advised_alone(known: Sequence[Signature], new: Signature) -> str:
    """Advice about many compiles of calls without a decorator; the known ones capture the same."""
    if any((s.names, s.tree) == (new.names, new.tree) and s.static == new.static for s in known):
        return "call it in a function that leaves sizes open, @dlvm.function(dynamic=True)"
    return "call it in a function of yours under @dlvm.function, or pass what changes as an array"


def came_back_wider(
    old: Signature, new: Signature, own: Sequence[bool], labels: Sequence[str]
) -> str | None:
    """Says which leaf is wider than before, among those that the program itself
    returned (``own``).
    """
    if (old.names, old.tree) != (new.names, new.tree):
        return None
    for mine, label, (was, _), (now, _) in zip(own, labels, old.leaves, new.leaves, strict=True):
        if mine and widened(was, now):
            return f"{label} was {was} and came back as {now}"
    return None


def widened(a: TensorType, b: TensorType) -> bool:
    """Whether an array has become one of the same shape and of a wider type."""
    return a.shape == b.shape and b.dtype.is_float and a.dtype.bytes < b.dtype.bytes
