"""Calls of public functions on plain arrays: the operations that they write, run by references.

The function writes its operations into a scope of its own, where the arrays are captured ones, and
the interpreter runs them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dlvm.base.debugging import contexts, looks
from dlvm.base.errors import UserError
from dlvm.base.floating import standard_mode
from dlvm.compile import expand
from dlvm.dsl.trace.looking import look
from dlvm.dsl.trace.operands import staged
from dlvm.dsl.trace.scopes import Scope, Trace, user_origin
from dlvm.dsl.trace.tensor import READ_ONLY
from dlvm.dsl.trace.trees import flatten
from dlvm.ir import Array, Function, Module
from dlvm.ir.interpret import Interpreter


@dataclass(frozen=True, slots=True)
class Written:
    """The operations of a call, as the first function of a ``module``: its results form a ``tree``.

    ``given`` are the arrays that its parameters stand for. ``held`` says for each result whose
    memory it may share.
    """

    module: Module
    given: tuple[Array, ...]
    held: tuple[str, ...]
    tree: Any

    @staticmethod
    def of(fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Written:
        """The operations that a function writes for these arguments."""
        trace = Trace(fn.__name__, find=lambda array: "x")
        name = trace.unique("eager")
        with Scope(trace, None, fn.__name__) as scope:
            scope.builder.origin = user_origin()
            leaves, tree = flatten(fn(*args, **kwargs))
            arrays = [staged(leaf) for leaf in leaves]
            results = tuple(a.read() for a in arrays)
        captured = trace.arrays.values()
        params = tuple(c.param for c in captured)
        main = Function(name, params, tuple(scope.builder.ops), results)
        module = Module((main, *trace.entries))
        return Written(
            expand(module) if trace.entries else module,
            tuple(c.array for c in captured),
            tuple(a.held for a in arrays),
            tree,
        )

    def computed(self, views: bool) -> Any:
        """The results: they own their memory unless they may be ``views``."""
        module = self.module
        with np.errstate(all="ignore"), standard_mode():
            found = _interpreted(module, self.given)
            if contexts and (looked := looks()).at_numbers:
                names = [f"argument {i}" for i, _ in enumerate(self.given)]
                look((lambda: module, lambda: module), self.given, names, found, looked)
        pairs = zip(found, self.held, strict=True)
        return self.tree.unflatten(
            [lent(a, self.given, held if views else "") for a, held in pairs]
        )


def _interpreted(module: Module, arrays: Sequence[Array]) -> Sequence[Array]:
    """The results by the references; a reference that fails is a bug, reported with its module."""
    try:
        return Interpreter(module).call(module.main, arrays)
    except (UserError, MemoryError, RecursionError):
        raise
    except Exception as error:
        from dlvm.trust.guard import reported

        raise reported(module, "interpret", error, lambda: None, arrays) from error


def lent(array: Array, operands: Sequence[Array], held: str) -> Array:
    """A result: with memory of its own, unless it is ``held`` by an operand as a view."""
    if not held:
        return _owned(array, operands)
    if held != READ_ONLY:
        return array
    view = array.view()
    view.flags.writeable = False
    return view


def _owned(array: Array, operands: Sequence[Array]) -> Array:
    """The array, or a copy where it is read-only or may share memory with an operand."""
    flags = array.flags
    if not flags.writeable:
        return array.copy()
    for x in operands:
        if array is x or (not flags.owndata and np.may_share_memory(array, x)):
            return array.copy()
    return array
