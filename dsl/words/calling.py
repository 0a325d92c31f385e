"""Calls that do not fit a signature: of public functions by users, and of users' functions by dlvm.

Python raises such an error in the frame of the caller, which may be a frame of dlvm. This module
makes the error that the user sees instead.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from dlvm.base.errors import CallError, Origin, closest

from .lines import advised
from .names import lookup
from .origins import frames, origin_in, user_origin
from .remedies import ATTRIBUTE, KEYWORDS

# -- calls of ours ---------------------------------------------------------------------------------


def of_numpy(error: Exception) -> CallError | None:
    """The error for an option that NumPy's function does not have, which NumPy raises before us."""
    said = re.fullmatch(r"(\w+)\(\) got an unexpected keyword argument '(\w+)'", str(error))
    origin = origin_in(error.__traceback__)
    if type(error) is not TypeError or said is None or origin is None:
        return None
    fn = lookup(said[1])
    if fn is None or not re.search(rf"\b(np|numpy)\.{said[1]}\(", origin.source()):
        return None
    wrong = CallError(
        f"np.{error}", origin=origin, remedy=remedy(usage(said[1], fn), fn, {said[2]: None})
    )
    wrong.__cause__ = None  # it is the same error
    return wrong


def of_attribute(error: Exception) -> CallError | None:
    """The error for a call of what is a method in other libraries: ``x.size(0)``, ``x.ndim()``.

    Python's own error does not say which attribute it is.
    """
    origin = origin_in(error.__traceback__)
    if type(error) is not TypeError or origin is None or not _UNCALLED.fullmatch(str(error)):
        return None
    found = advised(origin, ATTRIBUTE)
    if found is None or not _has_axes(found.target, error):
        return None
    said = f"{ast.unparse(found.node).rpartition('(')[0]} is no method"
    wrong = CallError(said, origin=origin, remedy=f"write {found.remedy()}")
    wrong.__cause__ = None  # it is the same error
    return wrong


_UNCALLED = re.compile(r"'.*' object is not callable")


def _has_axes(name: str, error: Exception) -> bool:
    """Whether a variable is an array, where the error was raised; True for an expression."""
    frame = [*frames(error.__traceback__)][-1].tb_frame
    return name not in frame.f_locals or hasattr(frame.f_locals[name], "shape")


def known_as(fn: Callable[..., Any], args: Sequence[Any] = ()) -> str:
    """The public name of a function, without ``dlvm.``; that of a constructor is its class's."""
    module, name = fn.__module__, fn.__qualname__
    if name.endswith(".__init__"):
        name = _class_made(args) or name.removesuffix(".__init__")
    if name.endswith(".__call__"):
        return name.split(".")[-2].lower()  # an object that users call: a pullback
    for part in ("linalg", "nn", "optim", "random", "testing", "tree"):
        if module.startswith(f"dlvm.{part}"):
            return f"{part}.{name.partition('.<locals>')[0]}"
    return name.rpartition(".")[2]


def _class_made(args: Sequence[Any]) -> str | None:
    """The class of ours whose constructor has these arguments; it may have inherited that."""
    classes = type(args[0]).__mro__ if args else ()
    return next((c.__qualname__ for c in classes if c.__module__.startswith("dlvm.")), None)


def misfit(fn: Callable[..., Any], args: Any, kwargs: Any) -> str | None:
    """How arguments do not fit the signature of a function; None if they do."""
    return unfit(inspect.signature(fn), args, kwargs)


def unfit(signature: inspect.Signature, args: Any, kwargs: Any) -> str | None:
    """How arguments do not fit a signature; None if they do."""
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        said = str(error)
        others = [repr(k) for k in unexpected(signature, kwargs) if repr(k) not in said]
        return f"{said}; there is no parameter {', '.join(others)}" if others else said
    return None


def unexpected(signature: inspect.Signature, kwargs: Mapping[str, Any]) -> Iterator[str]:
    """The options that a signature does not have."""
    known = signature.parameters.values()
    if not any(p.kind is inspect.Parameter.VAR_KEYWORD for p in known):
        yield from (k for k in kwargs if k not in signature.parameters)


def remedy(text: str | None, fn: Callable[..., Any], kwargs: Mapping[str, Any]) -> str | None:
    """The remedy: the signature, or the name that an option has here."""
    signature = inspect.signature(fn)
    for word in unexpected(signature, kwargs):
        free = [n for n in signature.parameters if n not in kwargs]
        meant = KEYWORDS.get(word)
        meant = meant if meant in free else closest(word, free)
        if meant and meant == KEYWORDS.get(word):
            return f"write {meant}= instead of {word}="
        change = f"write {meant}= instead of {word}=" if meant else f"leave out {word}="
        return f"{change}: {text}" if text else change
    return text


def usage(name: str, fn: Callable[..., Any]) -> str | None:
    """The signature and first sentence of a public function; empty for operators."""
    if name.startswith("_"):
        return None
    signature = inspect.signature(fn)
    given = [p for p in signature.parameters.values() if p.name != "self"]
    plain = [p.replace(annotation=p.empty) for p in given]
    written = signature.replace(parameters=plain, return_annotation=signature.empty)
    summary = re.split(r"[.;:]( |$)", (fn.__doc__ or "").partition("\n")[0])[0]
    prefix = "" if "self" in signature.parameters else "dlvm."
    return f"{prefix}{name}{written}: {summary}"


# -- calls of users' functions ---------------------------------------------------------------------


def called(what: str, takes: str, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Calls a user's function; if it takes other arguments, the error is the user's.

    Messages call it ``what``; ``takes`` is the list of arguments that it should take.
    """
    try:
        return fn(*args, **kwargs)
    except TypeError as error:
        entered = error.__traceback__ is not None and error.__traceback__.tb_next is not None
        if entered or (said := _reason(fn, args, kwargs)) is None:
            raise
        raise _misfitting(what, takes, fn, said) from None


BOUNDARIES = {called.__code__}
"""Code that calls users' functions: an exception raised there is the user's, even from C code."""


def _misfitting(what: str, takes: str, fn: Callable[..., Any], said: str) -> CallError:
    name, at = getattr(fn, "__name__", type(fn).__name__), written_at(fn)
    example = f"def {name}({takes})"
    if name == "<lambda>":
        name, example = "lambda", f"lambda {takes}:" if takes else "lambda:"
    return CallError(
        f"{what} is called with ({takes}): {said}",
        origin=user_origin(),
        notes=(f"it is {name}{_written(fn)}{f', written at {at}' if at else ''}",),
        remedy=f"give a function of these arguments: {example}",
    )


def _reason(fn: Callable[..., Any], args: Any, kwargs: Any) -> str | None:
    """How a call does not fit; unknown for C functions without a signature."""
    try:
        return misfit(fn, args, kwargs)
    except (TypeError, ValueError):  # some written in C have no signature
        return None


def _written(fn: Callable[..., Any]) -> str:
    try:
        return str(inspect.signature(fn))
    except (TypeError, ValueError):
        return ""


def written_at(fn: Any) -> Origin | None:
    """The line where a function is written."""
    code = getattr(inspect.unwrap(fn), "__code__", None)
    return None if code is None else Origin(code.co_filename, code.co_firstlineno)
