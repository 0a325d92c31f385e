"""Short cuts: a call of a known form goes straight to a program, which checks its own arguments.

The form of a call is the number of arguments by position and the names of the others. For each form
and program a short cut is made once. It compares static values, reads captured state, takes the
leaves out of the arguments and enters the machine code, which checks types and shapes. If anything
differs it returns ``NotImplemented``, and the slow path decides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from dlvm.base.elsewhere import Elsewhere
from dlvm.base.errors import UserError
from dlvm.dsl.trace.configuration import exact_type
from dlvm.dsl.trace.defaults import DEFAULT, changes
from dlvm.dsl.trace.leaves import Take, Unlike, joined, picker, putter, taker, template
from dlvm.dsl.trace.scopes import user_origin
from dlvm.dsl.trace.specs import Arguments, Parameters
from dlvm.dsl.trace.trees import Spec as Tree
from dlvm.executables import Foreign, Interpreted, OnDevice

if TYPE_CHECKING:
    from dlvm.gen.call.executable import Executable

    from .compiled import Compiled

Form: TypeAlias = "int | tuple[int | str, ...]"
"""The number of arguments by position, followed by the names of the others if there are any."""
Given: TypeAlias = "Sequence[Any]"
"""The arguments of a call, in the order in which they are written."""
Call: TypeAlias = "Callable[[Given], Any]"
Shortened: TypeAlias = "dict[Form, tuple[tuple[Compiled, Call], ...]]"
"""For each form of call the programs that served it, latest first, each with its short cut."""
PLAIN = {np.ndarray, float, int, bool}


def entered(executable: Executable | Interpreted | Foreign) -> Call | None:
    """A function that calls a program on arrays through its C entry; None if it has none."""
    if isinstance(executable, Interpreted | Foreign) or (enter := executable.entry()) is None:
        return None
    from dlvm.gen.loops.status import CallFailed

    def call(arrays: Given) -> Any:
        try:
            return enter(*arrays)
        except CallFailed as failed:
            raise _located(executable.failure(failed.args)) from None

    return call


class _Mark:
    """A placeholder for one of the arguments of a call."""

    def __init__(self, index: int) -> None:
        self.index = index


def short_cut(compiled: Compiled, form: Form, leaves: Given) -> Call | None:
    """The short cut to a program from calls of a form, for leaves of these types; None if
    impossible.
    """
    tree, enter = compiled.program.tree, _entry(compiled, leaves)
    captured = None if compiled.state.is_empty else compiled.state.watch
    marked = _marked(compiled.parameters, form)
    where = [x.index for x in marked.values if isinstance(x, _Mark)]
    static = [x.index for _, x in marked.static if isinstance(x, _Mark)]
    if enter is None or len(where) + len(static) != len(marked.values) + len(marked.static):
        return None
    take = _taker(compiled.signature.tree, where, len(where) + len(static))
    is_apart = _apart(compiled, where)
    copies = compiled.copies if compiled.copies.donated else None
    matches = _matcher(static, compiled.signature.static)
    own, default = compiled.signature.default, DEFAULT.get
    put = None if tree.is_leaf() else putter(template(tree))

    from dlvm.gen.loops.status import CallFailed

    from .shortage import short_of_memory

    def call(given: Given) -> Any:
        if changes and default() is not own:
            return NotImplemented
        if matches is not None and not matches(given):
            return NotImplemented
        hidden: Sequence[Any] | None = ()
        try:
            if is_apart is not None and not is_apart(given):
                return NotImplemented
            if copies is not None:
                copies.in_a_row = 0
            if captured is None:
                found = enter(*take(given))
            else:
                hidden = captured()
                if hidden is None:
                    return NotImplemented
                found = enter(*take(given), *hidden)
        except (Unlike, LookupError, AttributeError):
            return NotImplemented
        except MemoryError as error:
            raise short_of_memory(error, compiled.road, (*take(given), *(hidden or ()))) from None
        except CallFailed as failed:
            executable: Any = compiled.road.executable
            raise _located(executable.failure(failed.args)) from None
        except UserError as error:
            raise _located(error) from None
        return found if put is None or found is NotImplemented else put(found)

    return call


def _entry(compiled: Compiled, leaves: Given) -> Any:
    """The fast way in for leaves of these types; None if there is none."""
    executable, bare = compiled.road.executable, compiled.program.tree.is_leaf()
    if compiled.road.options.mesh is not None:
        return None
    if isinstance(executable, OnDevice):
        there = all(isinstance(x, Elsewhere) for x in leaves) and not compiled.state.captured
        return executable.entry(bare=bare) if there and not compiled.doubts else None
    kinds: list[Any] = [*map(type, leaves)]
    foreign = isinstance(executable, Interpreted | Foreign)
    if foreign or not PLAIN.issuperset(kinds) or compiled.doubts:
        return None
    kinds += [np.ndarray] * len(compiled.state.captured)
    return executable.entry(kinds, bare=bare)


def _located(error: BaseException) -> BaseException:
    return error.located(user_origin()) if isinstance(error, UserError) else error


def _marked(parameters: Parameters, form: Form) -> Arguments:
    """The parameter of each argument of a call, as placeholders."""
    count, *names = (form,) if isinstance(form, int) else form
    marks = [_Mark(i) for i in range(int(count) + len(names))]
    by_name = dict(zip(map(str, names), marks[int(count) :], strict=True))
    return parameters.bind(tuple(marks[: int(count)]), by_name)


def _taker(tree: Tree, where: list[int], count: int) -> Take:
    """A function that takes the leaves out of the arguments."""
    join = joined([taker(child) for child in template(tree)])
    in_order = where == list(range(count))
    if join is None:
        return (lambda given: given) if in_order else picker(where)
    if in_order:
        return join
    pick, inner = picker(where), join
    return lambda given: inner(pick(given))


def _apart(compiled: Compiled, where: list[int]) -> Callable[[Given], bool] | None:
    """A function that says whether no donated leaf is reached past the trees of a call.

    The trees themselves are not asked about; None if no tree has donated leaves below it.
    """
    from dlvm.dsl.owned.below import apart

    donated = set(compiled.module.main.donations().values())
    trees = zip(where, template(compiled.signature.tree), strict=True)
    asked = [(i, ask) for i, x in trees if (ask := apart(x, donated)) is not None]
    if len(asked) == 1:
        [(only, alone)] = asked
        return lambda given: alone(given[only])
    return (lambda given: all(ask(given[i]) for i, ask in asked)) if asked else None


def _matcher(static: list[int], expected: Sequence[Any]) -> Callable[[Given], bool] | None:
    """A function that says whether the static values of a call are those of a program."""
    if not static:
        return None
    rows = [
        (i, type if isinstance(kind, type) else exact_type, kind, value)
        for i, (_, kind, value) in zip(static, expected, strict=True)
    ]

    def matches(given: Given) -> bool:
        for i, kind_of, kind, value in rows:
            x = given[i]
            if x is not value and (kind_of(x) != kind or not bool(x == value)):
                return False
        return True

    return matches
