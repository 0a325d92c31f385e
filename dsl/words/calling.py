"""Calls that Python refuses: of public functions by users, and of users' functions by us.

Python raises such an error in the frame of whoever calls, which is ours where we call what a user
gave, or stand between the user and a function of ours. Here it is said in the user's words.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from dlvm.base.errors import CallError, Origin, closest

from .names import lookup
from .origins import origin_in, user_origin
from .remedies import KEYWORDS

# -- calls of ours ---------------------------------------------------------------------------------


def of_numpy(error: Exception) -> CallError | None:
    """The error for an option that a function of NumPy has not, raised before it could ask us."""
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


def known_as(fn: Callable[..., Any]) -> str:
    """The name by which users reach a function of ours, without ``dlvm.``."""
    module, name = fn.__module__, fn.__qualname__
    for part in ("linalg", "nn", "random", "testing", "tree"):
        if module.startswith(f"dlvm.{part}"):
            return f"{part}.{name}"
    return name.rpartition(".")[2]


def misfit(fn: Callable[..., Any], args: Any, kwargs: Any) -> str | None:
    """In which way arguments are not those of a function; None where they are."""
    return unfit(inspect.signature(fn), args, kwargs)


def unfit(signature: inspect.Signature, args: Any, kwargs: Any) -> str | None:
    """In which way arguments do not fit a signature; None where they do."""
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        said = str(error)
        others = [repr(k) for k in unexpected(signature, kwargs) if repr(k) not in said]
        return f"{said}; there is no parameter {', '.join(others)}" if others else said
    return None


def unexpected(signature: inspect.Signature, kwargs: Mapping[str, Any]) -> Iterator[str]:
    """Options that a signature has not."""
    known = signature.parameters.values()
    if not any(p.kind is inspect.Parameter.VAR_KEYWORD for p in known):
        yield from (k for k in kwargs if k not in signature.parameters)


def remedy(text: str | None, fn: Callable[..., Any], kwargs: Mapping[str, Any]) -> str | None:
    """How a function is called, with the right name of an option that it has under another."""
    signature = inspect.signature(fn)
    for word in unexpected(signature, kwargs):
        free = [n for n in signature.parameters if n not in kwargs]
        meant = KEYWORDS.get(word)
        meant = meant if meant in free else closest(word, free)
        change = f"write {meant}= instead of {word}=" if meant else f"leave out {word}="
        return f"{change}: {text}" if text else change
    return text


def usage(name: str, fn: Callable[..., Any]) -> str | None:
    """How a public function is called and what it means; operators have no name to call."""
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
    """Call a function that a user gave; one that takes other arguments is the user's mistake.

    ``what`` it is in messages, and ``takes`` is what it should take, as it would be written.
    """
    try:
        return fn(*args, **kwargs)
    except TypeError as error:
        entered = error.__traceback__ is not None and error.__traceback__.tb_next is not None
        if entered or (said := _reason(fn, args, kwargs)) is None:
            raise
        raise _misfitting(what, takes, fn, said) from None


BOUNDARIES = {called.__code__}
"""Code that calls functions of users: what is raised there is theirs, also where they are in C."""


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
    """How a call does not fit; of what is written in C and has no signature nothing is known."""
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
    """Where a function is written."""
    code = getattr(inspect.unwrap(fn), "__code__", None)
    return None if code is None else Origin(code.co_filename, code.co_firstlineno)
