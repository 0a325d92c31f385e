"""Translates keyword arguments of NumPy and the array API standard into our names.

A public function takes every keyword of NumPy's function of the same name: ``np.tile(A=x)``,
``np.var(a=x)``. An option that has no meaning here may be given where it changes nothing, which is
its default or None; any other value is an error with a remedy.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from dlvm.base.errors import ArgumentError
from dlvm.dsl.trace.kinds import as_int, counted
from dlvm.dsl.trace.sizes import bare
from dlvm.dsl.words.remedies import ADVICE, OURS

Parameters = Mapping[str, inspect.Parameter]
FREE = ("kind", "assume_unique", "overwrite_input", "optimize", "subok", "like")
"""Options that say how NumPy computes, or what class it gives: they change no value."""
NEUTRAL: dict[str, tuple[Any, ...]] = {"order": ("C", "A", "K"), "device": ("cpu",)}
"""Values that change nothing, besides None and NumPy's default."""


Arguments = tuple[tuple[Any, ...], dict[str, Any]]


def as_ours(
    name: str, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Arguments:
    """Arguments of a call as our function takes them: by our names, with counts of Python's."""
    args, kwargs = bare(args), bare(kwargs)
    kwargs = by_our_names(name, fn, kwargs) if kwargs else kwargs
    if counts := counted(name, fn):
        args = tuple(as_int(x) if i in counts else x for i, x in enumerate(args))
        kwargs = {k: as_int(v) if k in counts else v for k, v in kwargs.items()}
    return args, kwargs


def shown(ours: Callable[..., Arguments], args: Any, kwargs: Any) -> Arguments:
    """The arguments that the error of a call shows: those of ours, if they are understood."""
    try:
        return ours(args, kwargs)
    except Exception:
        return args, kwargs


def by_our_names(name: str, fn: Callable[..., Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Keyword arguments of a call, by the names that our function has for them."""
    ours = parameters(fn)
    if given.keys() <= ours.keys() or _takes_any(ours):
        return dict(given)
    theirs, found = numpys(name), dict[str, Any]()
    for key, value in given.items():
        same = key if key in ours else _counterpart(key, ours, theirs)
        if same is not None and same not in given.keys() - {key}:
            found[same] = value
        elif same is not None or not (key in theirs or key == "device"):
            found[key] = value  # for the error of a call that does not fit
        elif not changes_nothing(key, value, theirs):
            raise ArgumentError(
                f"{name} takes no {key}={' '.join(f'{value!r:.40}'.split())}",
                remedy=ADVICE.get(f"{key}=", "leave it out"),
            )
    return found


@functools.cache
def parameters(fn: Callable[..., Any]) -> Parameters:
    """The parameters of a function, by name."""
    return inspect.signature(fn).parameters


def _takes_any(of: Parameters) -> bool:
    return any(p.kind is p.VAR_KEYWORD for p in of.values())


@functools.cache
def numpys(name: str) -> Parameters:
    """The parameters of NumPy's function of a name, or of one that we call so; none if none is."""
    for spelt in (name, *(k for k, v in OURS.items() if v == name)):
        try:
            return parameters(functools.reduce(getattr, spelt.split("."), np))
        except (AttributeError, ValueError, TypeError):
            continue
    return {}


def _counterpart(key: str, ours: Parameters, theirs: Parameters) -> str | None:
    """Our parameter in the place of NumPy's of another name, if no other has that name."""
    place = [*theirs].index(key) if key in theirs else -1
    same = [*ours][place] if 0 <= place < len(ours) else None
    if same is None or same in theirs or same not in ours:
        return None
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return same if ours[same].kind in positional else None


def changes_nothing(key: str, value: Any, theirs: Parameters) -> bool:
    """Whether an option that we do not have may be left out."""
    default = theirs[key].default if key in theirs else None
    if value is None or value is default or key in FREE:
        return True
    plain = isinstance(value, bool | int | float | str)
    return plain and (
        value in NEUTRAL.get(key, ()) or (type(value) is type(default) and value == default)
    )
