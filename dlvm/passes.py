"""A pass is a pure function on modules with a name and a manual; a pipeline is a tuple of them.

``run`` is the one loop that every pipeline goes through: it verifies between passes when asked
and names the guilty one, prints after those that are watched, and takes the time of each.
"""

from __future__ import annotations

import functools
import gc
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from dlvm.base import environment
from dlvm.base.errors import CompilerError, DlvmError, DTypeError, IRError, ShapeError, UserError
from dlvm.ir import Function, Module
from dlvm.ir.rewrite import everywhere


@dataclass(frozen=True, slots=True)
class Pass:
    """A named change of modules; ``run.__doc__`` is its manual."""

    name: str
    run: Callable[[Module], Module]

    @property
    def manual(self) -> str:
        """What it does, from its docstring."""
        return self.run.__doc__ or ""


PASSES: dict[str, Pass] = {}


def module_pass(run: Callable[[Module], Module]) -> Pass:
    """A pass over whole modules, named after the function."""
    return _registered(run.__name__, run)


def function_pass(run: Callable[[Function], Function]) -> Pass:
    """A pass over each function and each region inside, innermost first."""

    def over_module(module: Module) -> Module:
        return module.map(lambda fn: everywhere(fn, run))

    functools.update_wrapper(over_module, run)
    return _registered(run.__name__, over_module)


def _registered(name: str, run: Callable[[Module], Module]) -> Pass:
    if name in PASSES:
        raise IRError(
            f"two passes are called {name!r}", remedy="rename the function of the new one"
        )
    PASSES[name] = found = Pass(name, run)
    return found


def named(names: Sequence[str] | str) -> tuple[Pass, ...]:
    """The passes of these names (a sequence, or ``"a,b"``), in this order, repeated or not."""
    names = [n.strip() for n in names.split(",")] if isinstance(names, str) else names
    for name in names:
        if name not in PASSES:
            raise IRError(f"no pass {name!r}; there are {', '.join(sorted(PASSES))}")
    return tuple(PASSES[n] for n in names)


Watch = Callable[[str, Module, float], None]


@contextmanager
def unhurried() -> Generator[None]:
    """While programs change, no search for garbage: they are large, and all of them is in use."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@unhurried()
def run(
    module: Module, pipeline: Sequence[Pass], watch: Watch | None = None, verify: bool | None = None
) -> Module:
    """Run the passes in order; a module that a pass breaks is blamed on that pass."""
    check = bool(environment.verifying()) if verify is None else verify
    for step in pipeline:
        start = time.perf_counter()
        before, module = module, _applied(step, module)
        if watch is not None:
            watch(step.name, module, time.perf_counter() - start)
        if check and module is not before:
            _verify_after(step, before, module)
    return module


def _applied(step: Pass, module: Module) -> Module:
    try:
        found = step.run(module)
    except (CompilerError, MemoryError):
        raise
    except Exception as error:
        if may_refuse(step.name, error):
            raise
        said = f"the pass {step.name} failed: {error!r}\non:\n{module}"
        raise CompilerError(said, stage=step.name) from error
    if not isinstance(found, Module):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise CompilerError(f"the pass {step.name} gave {found!r}, not a module", stage=step.name)
    return found


def may_refuse(stage: str, error: Exception) -> bool:
    """Whether an error says something about the program, and is no fault of ours.

    Derivatives may be refused. No later stage refuses a program that was well-typed, and none
    at all may make an operation whose types don't fit.
    """
    ours = not isinstance(error, UserError) or isinstance(error, ShapeError | DTypeError)
    return stage == "differentiate" and not ours


def _verify_after(step: Pass, before: Module, module: Module) -> None:
    try:
        module.verify()
    except DlvmError as error:
        said = f"the pass {step.name} broke the module: {error}\nbefore it:\n{before}"
        raise CompilerError(said, stage=step.name) from error
