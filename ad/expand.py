"""Filling declarations in: adjoint, tangent and batched forms of the functions of a module.

A declaration is expanded when it, or a derivative of something that calls it, is asked for, so
that second derivatives are adjoints of adjoints. Pairs of callees become functions of the module.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import Any

from dlvm.base.errors import UserError
from dlvm.ir import Declaration, Function, FunctionRef, Module
from dlvm.ir.core import Entry
from dlvm.ops.flow.calls import calls_itself
from dlvm.passes import module_pass

from . import batch_control as batch_control
from . import checkpoints as checkpoints
from . import control as control
from . import custom as custom
from . import lanes as lanes
from . import loops as loops
from . import recursion as recursion
from . import tangents as tangents
from .activity import Activity
from .batch import batched
from .forward import tangent
from .opening import lent, opened
from .reverse import Made, Mark, adjoint, once_only


class Expansion:
    """One module being expanded."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.activity = Activity(self.function)
        self.transposing: set[FunctionRef] = set()
        self.often = False
        self._new: dict[str, Function] = {}
        self._reserved: set[str] = set()
        self._once: dict[Hashable, Any] = {}
        self._opened: set[str] = set()

    def function(self, name: str) -> Function:
        """A function of the module as derivatives see it: expanded and opened."""
        return self.once(("opened", name), lambda: opened(self.lent(name)))

    def lent(self, name: str) -> Function:
        """A function of the module, expanded, that does not own its arguments."""
        return self.once(("lent", name), lambda: lent(self.expanded(name)))

    def expanded(self, name: str) -> Function:
        """A function of the module, a declared one filled in."""
        if name in self._new:
            return self._new[name]
        entry = self.module.entry(name)
        if isinstance(entry, Function):
            return entry
        return self.once(("expanded", name), lambda: self._derived(entry))

    def _derived(self, entry: Declaration) -> Function:
        if entry.name in self._opened:
            raise UserError(
                f"@{entry.of} calls a derivative of itself: there is no end to its derivatives",
                remedy="differentiate a function that does not",
            )
        self._opened.add(entry.name)
        with once_only(self):
            found = _DERIVED[entry.kind](self, entry)
        self._opened.discard(entry.name)
        return found

    def once(self, key: Hashable, make: Callable[[], Made]) -> Made:
        """What ``make`` gives, made once for each key."""
        if key not in self._once:
            made = make()  # which may assume what it is to be
            self._once[key] = made
        return self._once[key]

    def define(self, name: str, fn: Function) -> FunctionRef:
        """Add a function to the module, under this name or one like it."""
        ref = self.reserve(name)
        self.fill(ref, fn)
        return ref

    def reserve(self, name: str) -> FunctionRef:
        """This name or one like it, for a function that may call itself."""
        unique, n = name, 2
        while unique in self.module or unique in self._reserved:
            unique, n = f"{name}_{n}", n + 1
        self._reserved.add(unique)
        return FunctionRef(unique)

    def fill(self, ref: FunctionRef, fn: Function) -> None:
        """Add the function that a name was reserved for."""
        self._new[ref.name] = replace(fn, name=ref.name)

    def recursive(self, name: str) -> bool:
        """Whether a function of the module calls itself, directly or through others."""
        return self.once(("recursive", name), lambda: calls_itself(name, self._entry))

    def _entry(self, name: str) -> Entry:
        return self._new[name] if name in self._new else self.module.entry(name)

    def assume(self, key: Hashable, made: object) -> None:
        """What ``once`` gives for a key while it is being made."""
        self._once[key] = made

    def mark(self) -> Mark:
        """All that was made so far, to come back to."""
        return dict(self._once), dict(self._new)

    def reset(self, mark: Mark) -> None:
        """Forget what was made since."""
        self._once, self._new = dict(mark[0]), dict(mark[1])

    def finish(self) -> Module:
        """The module without declarations."""
        for entry in self.module.entries:
            self.expanded(entry.name)
        return Module(self.entries())

    def entries(self) -> tuple[Entry, ...]:
        """All functions as they are now, expanded where that was asked for, and new ones."""
        known = (self._once.get(("expanded", e.name), e) for e in self.module.entries)
        return (*known, *self._new.values())


_DERIVED: dict[str, Callable[[Expansion, Declaration], Function]] = {
    "adjoint": adjoint,
    "tangent": tangent,
    "batched": batched,
}


def expand(module: Module) -> Module:
    """Fill in every declared adjoint, tangent and batched function."""
    return Expansion(module).finish() if module.declarations else module


def differentiate(module: Module) -> Module:
    """Fill in every declared adjoint, tangent and batched function, in the order of their need."""
    return expand(module)


module_pass(differentiate)
