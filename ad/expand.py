"""Expansion of declarations into the adjoint, tangent and batched functions that they name.

A declaration is expanded when it is asked for, directly or by a derivative of a caller, so second
derivatives are adjoints of adjoints. The forward and backward functions of callees become functions
of the module.
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
from .opening import differentiable_form, without_donation
from .reverse import Made, Mark, adjoint, pullbacks_used_once


class Expansion:
    """The state of the expansion of one module: the functions derived so far."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.activity = Activity(self.function)
        self.transposing: set[FunctionRef] = set()
        self.pullbacks_reused = False
        self._new: dict[str, Function] = {}
        self._reserved: set[str] = set()
        self._once: dict[Hashable, Any] = {}
        self._opened: set[str] = set()

    def function(self, name: str) -> Function:
        """The named function in the form that is differentiated (``differentiable_form``)."""
        return self.once(("opened", name), lambda: differentiable_form(self.without_donation(name)))

    def without_donation(self, name: str) -> Function:
        """The named function, expanded, with no parameter donated."""
        return self.once(("lent", name), lambda: without_donation(self.expanded(name)))

    def expanded(self, name: str) -> Function:
        """The named function; a declaration is expanded first."""
        if name in self._new:
            return self._new[name]
        entry = self.module.entry(name)
        if isinstance(entry, Function):
            return entry
        return self.once(("expanded", name), lambda: self._derived(entry))

    def _derived(self, entry: Declaration) -> Function:
        if entry.name in self._opened:
            raise UserError(
                f"@{entry.of} calls a derivative of itself, so expanding it would never end",
                remedy="differentiate a function that does not call its own derivative",
            )
        self._opened.add(entry.name)
        with pullbacks_used_once(self):
            found = _DERIVED[entry.kind](self, entry)
        self._opened.discard(entry.name)
        return found

    def once(self, key: Hashable, make: Callable[[], Made]) -> Made:
        """The result of ``make``, computed once for each key."""
        if key not in self._once:
            made = make()  # make() may call assume() for this key
            self._once[key] = made
        return self._once[key]

    def define(self, name: str, fn: Function) -> FunctionRef:
        """Adds a function to the module under this name, with a suffix if the name is taken."""
        ref = self.reserve(name)
        self.fill(ref, fn)
        return ref

    def reserve(self, name: str) -> FunctionRef:
        """Reserves this name, with a suffix if it is taken, for a function that may call itself."""
        unique, n = name, 2
        while unique in self.module or unique in self._reserved:
            unique, n = f"{name}_{n}", n + 1
        self._reserved.add(unique)
        return FunctionRef(unique)

    def fill(self, ref: FunctionRef, fn: Function) -> None:
        """Adds the function for which a name was reserved."""
        self._new[ref.name] = replace(fn, name=ref.name)

    def recursive(self, name: str) -> bool:
        """Whether the named function calls itself, directly or through other functions."""
        return self.once(("recursive", name), lambda: calls_itself(name, self._entry))

    def _entry(self, name: str) -> Entry:
        return self._new[name] if name in self._new else self.module.entry(name)

    def assume(self, key: Hashable, made: object) -> None:
        """Sets the provisional result that ``once`` returns to recursive requests for a key."""
        self._once[key] = made

    def mark(self) -> Mark:
        """A snapshot of what was derived so far, for ``reset``."""
        return dict(self._once), dict(self._new)

    def reset(self, mark: Mark) -> None:
        """Restores a snapshot: whatever was derived after it is forgotten."""
        self._once, self._new = dict(mark[0]), dict(mark[1])

    def finish(self) -> Module:
        """The module with every declaration expanded."""
        for entry in self.module.entries:
            self.expanded(entry.name)
        return Module(self.entries())

    def entries(self) -> tuple[Entry, ...]:
        """The module's entries, as far as they are expanded, followed by the new functions."""
        known = (self._once.get(("expanded", e.name), e) for e in self.module.entries)
        return (*known, *self._new.values())


_DERIVED: dict[str, Callable[[Expansion, Declaration], Function]] = {
    "adjoint": adjoint,
    "tangent": tangent,
    "batched": batched,
}


def expand(module: Module) -> Module:
    """Replaces every declared adjoint, tangent and batched function by its code."""
    return Expansion(module).finish() if module.declarations else module


def differentiate(module: Module) -> Module:
    """Replaces every declared adjoint, tangent and batched function by its code."""
    return expand(module)


module_pass(differentiate)
