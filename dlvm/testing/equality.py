"""``assert_compiled_equals_interpreted``: machine code gives what the references give.

At each level of optimisation, on one thread and on two. Whole numbers are equal; floats are
as near as rounding explains (see ``dlvm.accuracy``); threads change no bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dlvm import passes
from dlvm.accuracy import Answers, answers, difference, silent
from dlvm.compile import expand
from dlvm.dsl.function import StagedFunction, is_staged
from dlvm.dsl.scopes import facing_users
from dlvm.errors import UserError
from dlvm.ir import Array, Module

if TYPE_CHECKING:
    from dlvm.gen.executable import Executable


@facing_users
def assert_compiled_equals_interpreted(f: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """Run ``f`` compiled at every level of optimisation and thread count, and by the references.

    Raises an ``AssertionError`` that names the result, the element, both values and what rounding
    explains.
    """
    staged = f if is_staged(f) else StagedFunction(f)
    applied = staged.applied(args, kwargs)
    assert_module_agrees(applied.module, applied.arrays, applied.results)


def assert_module_agrees(
    module: Module, arrays: Sequence[Array], names: Sequence[str] | None = None
) -> None:
    """The same for a module and arguments of its first function."""
    from dlvm.gen.build import build
    from dlvm.opt.pipelines import DEFAULT, MEANING

    full = expand(module)
    try:
        meant: Answers | UserError = answers(full, full.main.name, arrays)
    except UserError as error:
        meant = error
    named = names or [f"result {i}" for i in range(len(full.main.results))]
    levels = {"without laws": DEFAULT[:1], "with laws": MEANING, "with kernels": DEFAULT}
    for level, pipeline in levels.items():
        code = build(passes.run(full, pipeline))
        one, two = (_run(replace(code, threads=n), arrays) for n in (1, 2))
        _compare(one, meant, named, level)
        _same_bits(one, two, named, level)


def _run(code: Executable, arrays: Sequence[Array]) -> tuple[Array, ...] | UserError:
    try:
        return code.run([np.array(a) for a in arrays], silent)
    except UserError as error:
        return error


def _compare(
    found: tuple[Array, ...] | UserError,
    meant: Answers | UserError,
    names: Sequence[str],
    where: str,
) -> None:
    if isinstance(found, UserError) or isinstance(meant, UserError):
        if type(found) is type(meant):
            return
        raise AssertionError(
            f"{where}: machine code gave {_said(found)}, the references {_said(meant)}"
        )
    off = difference(found, meant)
    if off is None:
        return
    at = "".join(f"[{i}]" for i in off.index)
    raise AssertionError(
        f"{where}: {names[off.result]}{at} is {off.found} by machine code, {off.expected} by the "
        f"references; rounding explains {off.allowed:.3g}, and {off.wrong} elements are further off"
    )


def _said(given: Any) -> str:
    return f"the error {given}" if isinstance(given, UserError) else "results"


def _same_bits(
    one: tuple[Array, ...] | UserError,
    other: tuple[Array, ...] | UserError,
    names: Sequence[str],
    level: str,
) -> None:
    if isinstance(one, UserError) or isinstance(other, UserError):
        if type(one) is type(other):
            return
        raise AssertionError(f"{level}: {_said(one)} on one thread, {_said(other)} on two")
    for a, b, name in zip(one, other, names, strict=True):
        if a.tobytes() != b.tobytes() and not _only_nan(a, b):
            raise AssertionError(f"{level}: {name} has other bits on two threads than on one")


def _only_nan(a: Array, b: Array) -> bool:
    """Whether arrays differ in the bits of NaN alone."""
    return bool(np.all((a == b) | ((a != a) & (b != b))))
