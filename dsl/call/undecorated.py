"""Public functions that users call outside of a trace, as small programs that are kept.

A call of ``dlvm.random.split(key)`` without a decorator runs the program that
``dlvm.function(dlvm.random.split)`` would run. Arrays and trees of arrays are its arguments, and so
are numbers in the place of an operand; everything else is configuration, which is part of the code.
A call that can't be staged is computed by the references, which then decide about results and
errors.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar

import numpy as np

from dlvm.base.debugging import NOTHING, by_references, contexts, looks
from dlvm.base.errors import UserError
from dlvm.compile import interpreting
from dlvm.dsl.trace.configuration import exact_type
from dlvm.dsl.trace.facing import entry, faced
from dlvm.dsl.trace.kinds import takes_numbers
from dlvm.dsl.trace.scopes import current
from dlvm.dsl.trace.trees import flatten
from dlvm.dsl.words.calling import known_as

from .function import StagedFunction

P = ParamSpec("P")
R = TypeVar("R")
MISSING: Any = object()
REMEMBERED = 64
"""Number of patterns of arguments, and of calls that can't be staged, that are remembered."""
NUMBERS = frozenset((int, float, bool))
SETTINGS = frozenset((str, type(None), type, np.dtype))
ARRAYS, NUMBER, SETTING, OTHER = "arrays", "number", "setting", "other"
"""The forms of an argument: a tree of arrays, a number, what has a hash and no array, others."""
Args = tuple[Any, ...]
Named = Mapping[str, Any]
Pattern = tuple[tuple[int | str, ...], tuple[str, ...]]
"""The form of a call, and the forms of its arguments."""


def runs_programs() -> bool:
    """Whether calls outside of a trace run programs; else the references compute them."""
    return not (interpreting() or by_references() or (contexts and looks() != NOTHING))


class Undecorated:
    """The programs of one public function, for each pattern of its arguments.

    ``references`` compute a call that can't be staged.
    """

    def __init__(
        self, name: str, call: Callable[..., Any], references: Callable[[Args, Named], Any]
    ) -> None:
        self._call = call
        self._references = references
        self._numbers = takes_numbers(name, call)
        self._staged: dict[Pattern, StagedFunction[..., Any] | None] = {}
        self._refused: set[Any] = set()

    def __call__(self, args: Args, kwargs: Named) -> Any:
        """The results for plain arguments."""
        if not runs_programs():
            return self._references(args, kwargs)
        values = (*args, *kwargs.values()) if kwargs else args
        pattern = (len(args), *kwargs), tuple(map(_form, values))
        staged = self._staged.get(pattern, MISSING)
        if staged is MISSING:
            staged = self._of(pattern)
        if staged is None or (self._refused and _settings(pattern, values) in self._refused):
            return self._references(args, kwargs)
        try:
            return staged(*args, **kwargs)
        except (UserError, TypeError, ValueError):
            pass  # the references have the last word
        found = self._references(args, kwargs)
        if len(self._refused) >= REMEMBERED:
            self._refused.clear()
        self._refused.add(_settings(pattern, values))
        return found

    def _of(self, pattern: Pattern) -> StagedFunction[..., Any] | None:
        """The function staged for arguments of a pattern; None if one of them can't be staged."""
        if len(self._staged) >= REMEMBERED:
            self._staged.clear()
        self._staged[pattern] = made = self._made(pattern)
        return made

    def _made(self, pattern: Pattern) -> StagedFunction[..., Any] | None:
        (count, *names), forms = pattern
        if OTHER in forms:
            return None
        places = (*range(int(count)), *names)
        pairs = zip(places, forms, strict=True)
        static = [at for at, form in pairs if self._is_static(at, form)]
        if len(static) == len(forms):  # there is nothing to compute with
            return None
        try:
            return StagedFunction(self._call, static=static, alone=True)
        except UserError:  # there is no such parameter, as the references say
            return None

    def _is_static(self, at: str | int, form: str) -> bool:
        return form == SETTING or (form == NUMBER and at not in self._numbers)


def _form(x: Any) -> str:
    """The form of an argument."""
    cls = x.__class__
    if cls is np.ndarray:
        return ARRAYS
    if cls in NUMBERS or isinstance(x, np.generic):
        return NUMBER
    if cls in SETTINGS or isinstance(x, type | np.dtype):
        return SETTING
    if not (isinstance(x, tuple | list | dict) or dataclasses.is_dataclass(cls)):
        return OTHER
    return _form_of_tree(x, flatten(x)[0])


def _form_of_tree(x: Any, leaves: Sequence[Any]) -> str:
    """The form of a tree; numbers beside arrays would come back as arrays, so it is another."""
    kinds: set[Any] = {leaf.__class__ for leaf in leaves}
    fields = dataclasses.is_dataclass(x) and kinds <= NUMBERS  # such as the rates of an optimiser
    if kinds == {np.ndarray} or (kinds and fields):
        return ARRAYS
    return SETTING if np.ndarray not in kinds and _has_hash(x) else OTHER


def _has_hash(x: Any) -> bool:
    try:
        hash(x)
    except TypeError:
        return False
    return True


def _settings(pattern: Pattern, values: Args) -> Any:
    """What a program depends on besides its arrays."""
    pairs = zip(values, pattern[1], strict=True)
    return pattern, *((exact_type(x), x) for x, form in pairs if form != ARRAYS)


def computing(fn: Callable[P, R]) -> Callable[P, R]:
    """Makes a public function of trees, which outside of a trace runs as a program of its own."""
    made: list[Undecorated] = []

    def references(args: Args, kwargs: Named) -> Any:
        run: Callable[..., Any] = fn
        return run(*args, **kwargs)

    @entry
    @functools.wraps(fn)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            if current() is not None:
                return fn(*args, **kwargs)
            if not made:
                made.append(Undecorated(known_as(fn), call, references))
            return made[0](args, kwargs)
        except Exception as error:
            raise faced(error, known_as(fn), fn, args, kwargs)  # noqa: B904  # it says from what

    return call
