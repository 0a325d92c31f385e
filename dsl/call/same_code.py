"""Functions that Python makes again and again of one code, such as a lambda or a partial in a loop.

A transformation of a function belongs to the function, and so do the programs compiled of it. Where
a second function of the same code is transformed, a stand-in is made: a function of that code with
variables of its own. A call of the transformation of any such function lends the stand-in what the
function captures, and calls the transformation of the stand-in. So captured state is read at each
call, as everywhere, and programs are kept by code. A partial captures its arguments, and what its
function captures.
"""

from __future__ import annotations

import dataclasses
import dis
import functools
import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from types import CellType, CodeType, FunctionType
from typing import TYPE_CHECKING, Any

from dlvm.dsl.trace.scopes import current

from .function import StagedFunction
from .made import ATTRIBUTE, made_of

if TYPE_CHECKING:
    from .explain import Explanation

KEPT = 256
"""Number of codes that are remembered, and of stand-ins that are kept at most."""
PATIENCE = 0.1
"""Seconds to wait for the call of another thread, about the time that a compile takes."""
STAND_IN = "__dlvm_stand_in__"
"""The attribute that marks a stand-in."""
Key = tuple[Any, ...]
Made = FunctionType | functools.partial[Any]
"""What may be made again and again of one code."""


class SameCode:
    """The functions of one code: what stands in for them, once there has been a second one."""

    def __init__(self, first: Made) -> None:
        self._first = weakref.ref(first)
        inner = _function(first)
        self._held = inner.__code__, inner.__globals__  # their identities are the key
        self._lock = threading.Lock()
        self._holder = 0
        self.stand_in: Made | None = None

    def of(self, f: Made) -> Made | None:
        """The stand-in for a function; None for the first one, which stands for itself."""
        if self.stand_in is None and self._first() is not f:
            self.stand_in = _like(f)
        return self.stand_in

    def lent(self, f: Made, call: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """``call`` with what ``f`` captures in the stand-in; ``NotImplemented`` if ``f`` has other
        code now, or if that is lent already: to a call around this one, or for long to a thread.
        """
        stand_in = self.stand_in
        if stand_in is None or _function(f).__code__ is not _function(stand_in).__code__:
            return NotImplemented  # it was given other code
        if not _captures(f):
            return call(*args, **kwargs)
        me = threading.get_ident()
        if self._holder == me or not self._lock.acquire(timeout=PATIENCE):
            return NotImplemented
        self._holder = me
        try:
            _lend(stand_in, f)
            return call(*args, **kwargs)
        finally:
            _clear(stand_in)
            self._holder = 0
            self._lock.release()

    def renew(self) -> None:
        """Forgets, in a forked process, the calls of threads that are not there."""
        if self._holder != threading.get_ident():
            self._lock, self._holder = threading.Lock(), 0


def _function(f: Made) -> FunctionType:
    """The function itself, or the one that a partial calls."""
    return f if isinstance(f, FunctionType) else f.func  # pyright: ignore[reportReturnType]


def _captures(f: Made) -> bool:
    """Whether there is anything to lend."""
    return not isinstance(f, FunctionType) or bool(
        f.__closure__ or f.__defaults__ or f.__kwdefaults__
    )


def _like(f: Made) -> Made:
    """A function, or a partial, of the same code that captures nothing yet."""
    if isinstance(f, functools.partial):
        made: Any = functools.partial(_like(f.func), *f.args, **f.keywords)
        _clear(made)
    else:
        made = _function_like(f)
    setattr(made, STAND_IN, True)
    return made


def _function_like(f: FunctionType) -> FunctionType:
    cells = tuple(CellType() for _ in f.__closure__ or ())
    made: Any = FunctionType(f.__code__, f.__globals__, f.__name__, None, cells)
    made.__qualname__, made.__module__, made.__doc__ = f.__qualname__, f.__module__, f.__doc__
    made.__defaults__ = _blank(f.__defaults__)
    made.__kwdefaults__ = f.__kwdefaults__ and dict.fromkeys(f.__kwdefaults__)
    return made


def _blank(defaults: tuple[Any, ...] | None) -> tuple[Any, ...] | None:
    return defaults and (None,) * len(defaults)


def _lend(stand_in: Any, f: Any) -> None:
    """Sets the variables and the defaults of the stand-in to those of a function."""
    if isinstance(f, functools.partial):
        _lend(stand_in.func, f.func)
        _give(stand_in, f.args, f.keywords)
        return
    for mine, theirs in zip(stand_in.__closure__ or (), f.__closure__ or (), strict=True):
        mine.cell_contents = theirs.cell_contents
    stand_in.__defaults__, stand_in.__kwdefaults__ = f.__defaults__, f.__kwdefaults__


def _give(stand_in: Any, args: Any, keywords: Any) -> None:
    """Sets the arguments of a partial, which keeps its function and its attributes."""
    stand_in.__setstate__((stand_in.func, args, keywords, stand_in.__dict__))


def _clear(stand_in: Any) -> None:
    """Lets go of what the last function captured."""
    if type(stand_in) is functools.partial:
        _clear(stand_in.func)
        _give(stand_in, _blank(stand_in.args), dict.fromkeys(stand_in.keywords))
        return
    for cell in stand_in.__closure__ or ():
        cell.cell_contents = None
    stand_in.__defaults__ = _blank(stand_in.__defaults__)
    stand_in.__kwdefaults__ = stand_in.__kwdefaults__ and dict.fromkeys(stand_in.__kwdefaults__)


# -- which functions have one --------------------------------------------------------------------

_known: OrderedDict[Key, SameCode] = OrderedDict()


def _renew() -> None:
    for same in _known.values():
        same.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)


@dataclasses.dataclass(frozen=True, slots=True)
class Lent:
    """A function with the stand-in of its code: ``target`` is the stand-in, or made of it."""

    same: SameCode
    of: Any
    target: Any

    def __call__(self, args: Any, kwargs: Any) -> Any:
        """Calls the target; ``NotImplemented`` where it is busy with another function."""
        return self.same.lent(self.of, self.target, args, kwargs)


def lent(f: Any) -> Lent | None:
    """The stand-in for a function, or for what was made of one, outside of a trace.

    None for functions that were transformed before, those of whose code no other one was, and those
    whose variables would not stay the same.
    """
    if isinstance(f, Again):
        return f.lent
    if not _may_be_made_again(f) or current() is not None or made_of(f):
        return None
    key = _key(f)
    same = _known.get(key)
    if same is None:
        same = _known[key] = SameCode(f)
        if len(_known) > KEPT:
            _known.popitem(last=False)
    else:
        _known.move_to_end(key)
    stand_in = same.of(f)
    return None if stand_in is None else Lent(same, f, stand_in)


def _may_be_made_again(f: Any) -> bool:
    """Whether it is a function, or a partial of one, without attributes, whose variables stay."""
    inner = f.func if type(f) is functools.partial else f
    plain = type(inner) is FunctionType and _is_plain(inner)
    return plain and f.__dict__.keys() | inner.__dict__.keys() <= {ATTRIBUTE}


def _key(f: Made) -> Key:
    """What functions of one code have in common: as many defaults and arguments, names too."""
    if isinstance(f, functools.partial):
        return ("partial", len(f.args), *f.keywords, *_key(_function(f)))
    named = *(f.__kwdefaults__ or ()), f.__name__
    return (id(f.__code__), id(f.__globals__), len(f.__defaults__ or ()), *named)


def is_alone(f: Any) -> bool:
    """Whether a function stands in for others of its code, or was made of one that does."""
    return f.source.alone if isinstance(f, StagedFunction) else hasattr(f, STAND_IN)


def _is_plain(f: FunctionType) -> bool:
    """Whether all captured variables have values, other than the function itself, and stay so."""
    try:
        values = [cell.cell_contents for cell in f.__closure__ or ()]
    except ValueError:
        return False
    return not values or (all(x is not f for x in values) and not _assigns(f.__code__))


_assigning: OrderedDict[int, tuple[CodeType, bool]] = OrderedDict()


def _assigns(code: CodeType) -> bool:
    """Whether a code, or one inside of it, assigns a variable that it captures."""
    found = _assigning.get(id(code))
    if found is None:
        found = _assigning[id(code)] = code, any(_stored(code, code.co_freevars))
        if len(_assigning) > KEPT:
            _assigning.popitem(last=False)
    return found[1]


def _stored(code: CodeType, names: Sequence[str]) -> Iterator[bool]:
    for step in dis.get_instructions(code):
        yield step.opname in ("STORE_DEREF", "DELETE_DEREF") and step.argval in names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _stored(inner, [n for n in inner.co_freevars if n in names])


class Again(StagedFunction[..., Any]):
    """A transformation of a function for whose code there is a stand-in.

    Calls outside of a trace are those of ``staged``, the transformation of the stand-in. For
    everything else the transformation of the function itself is made.
    """

    transparent = True

    def __init__(
        self,
        lent: Lent,
        staged: StagedFunction[..., Any],
        make: Callable[[], StagedFunction[..., Any]],
    ) -> None:
        self.lent = dataclasses.replace(lent, target=staged)
        self._make = make
        self._short = {}
        self._donated = None

    def __getattr__(self, name: str) -> Any:
        if name in ("_make", "lent") or (name.startswith("__") and "source" in self.__dict__):
            raise AttributeError(name)
        made = self._make()
        self.__dict__.update(vars(made))
        return getattr(made, name)

    def explain(self, laws: bool = False) -> Explanation:
        """Explains what was compiled for all functions of the code."""
        return self.lent.target.explain(laws)

    def _slowly(self, args: tuple[Any, ...], kwargs: dict[str, Any], kept: Sequence[str]) -> Any:
        if current() is None:
            out = self.lent(args, kwargs)
            if out is not NotImplemented:
                return out
        return super()._slowly(args, kwargs, kept)
