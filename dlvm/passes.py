"""Passes and pipelines: a pass is a named pure function on modules, a pipeline a tuple of passes.

``run`` is the one loop that every pipeline goes through. On request it verifies after each pass and
names the pass that broke the module; it calls ``watch`` with the time of each pass. ``INSERTED``
are the passes that users have put into the pipelines with ``dlvm.opt.pipelines.insert``.
"""

from __future__ import annotations

import functools
import gc
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from dlvm.base import environment
from dlvm.base.errors import (
    CompilerError,
    DlvmError,
    DTypeError,
    ExtensionError,
    IRError,
    ShapeError,
    UserError,
    did_you_mean,
)
from dlvm.base.outside import broken, failed, is_outside, returned
from dlvm.base.progress import doing
from dlvm.ir import Function, Module
from dlvm.ir.core import Signature
from dlvm.ir.rewrite import everywhere


@dataclass(frozen=True, slots=True)
class Pass:
    """A named transformation of modules; its documentation is ``run.__doc__``.

    A pass that ``supposes_finite`` applies laws that suppose finite operands and no overflow: NaN,
    infinities and signs of zeros may change.
    """

    name: str
    run: Callable[[Module], Module]
    supposes_finite: bool = False

    @property
    def manual(self) -> str:
        """The documentation of the pass, from its docstring."""
        return self.run.__doc__ or ""


PASSES: dict[str, Pass] = {}


@dataclass(frozen=True, slots=True)
class Inserted:
    """A pass from outside the pipelines, which runs before or after every run of another one."""

    step: Pass
    before: str = ""
    after: str = ""


INSERTED: dict[str, Inserted] = {}


def extended(pipeline: Sequence[Pass]) -> tuple[Pass, ...]:
    """The pipeline with the inserted passes in their places, in the order of their insertion."""
    if not INSERTED:
        return tuple(pipeline)
    found: list[Pass] = []
    for step in pipeline:
        found += [new.step for new in INSERTED.values() if new.before == step.name]
        found.append(step)
        found += [new.step for new in INSERTED.values() if new.after == step.name]
    return tuple(found)


def author(stage: str) -> str:
    """Whose fault a failure at a stage is: ``"dlvm"``, or an inserted pass and its module."""
    new = INSERTED.get(stage)
    return f"the pass {stage} of {new.step.run.__module__}" if new else "dlvm"


def module_pass(run: Callable[[Module], Module]) -> Pass:
    """Registers a pass over whole modules, named after the function."""
    return _registered(run.__name__, run)


def function_pass(run: Callable[[Function], Function]) -> Pass:
    """Registers a pass over each function and each region inside it, innermost first."""
    return _registered(run.__name__, _over_module(run))


def finite_function_pass(run: Callable[[Function], Function]) -> Pass:
    """Registers the same for a pass that supposes finite operands."""
    return _registered(run.__name__, _over_module(run), supposes_finite=True)


def _over_module(run: Callable[[Function], Function]) -> Callable[[Module], Module]:

    def checked(fn: Function) -> Function:
        found = run(fn)
        if not isinstance(found, Function):  # pyright: ignore[reportUnnecessaryIsInstance]
            name = run.__name__
            expected = f"@{fn.name}, changed or as it was"
            remedy = "return the function: what transform(fn, ...) gives, or fn itself"
            raise returned(f"pass {name}", run, found, expected, remedy)
        return found

    def over_module(module: Module) -> Module:
        return module.map(lambda fn: everywhere(fn, checked))

    functools.update_wrapper(over_module, run)
    return over_module


def _registered(name: str, run: Callable[[Module], Module], supposes_finite: bool = False) -> Pass:
    found = Pass(name, run, supposes_finite)
    register(found)
    return found


def register(step: Pass) -> None:
    """Puts a pass under its name; a second pass of a name is an error."""
    if PASSES.setdefault(step.name, step) is not step:
        remedy = "rename the function of the new pass"
        if step.name in INSERTED:
            remedy = f"dlvm.opt.pipelines.remove({step.name}) takes the first one out"
        raise IRError(f"two passes are called {step.name!r}", remedy=remedy)


def named(names: Sequence[str] | str) -> tuple[Pass, ...]:
    """The passes with these names (a sequence, or ``"a,b"``), in this order; names may repeat."""
    names = [n.strip() for n in names.split(",")] if isinstance(names, str) else names
    for name in names:
        if name not in PASSES:
            known = sorted(PASSES)
            meant = did_you_mean(name, known)
            raise IRError(f"there is no pass {name!r}; expected one of {', '.join(known)}{meant}")
    return tuple(PASSES[n] for n in names)


Watch = Callable[[str, Module, float], None]


@contextmanager
def unhurried() -> Generator[None]:
    """Turns garbage collection off inside: programs are large, and little of them is garbage."""
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
    """Runs the passes in order; an error is reported with the pass that caused it."""
    check = bool(environment.verifying()) if verify is None else verify
    for step in pipeline:
        start = time.perf_counter()
        doing(f"pass {step.name}", module.operations)
        before, module = module, _applied(step, module)
        if watch is not None:
            watch(step.name, module, time.perf_counter() - start)
        if (check or is_outside(step.run)) and module is not before:
            _verify_after(step, before, module)
    return module


def _applied(step: Pass, module: Module) -> Module:
    try:
        after = step.run(module)
    except (CompilerError, MemoryError, RecursionError):
        raise
    except Exception as error:
        if may_refuse(step.name, error) or isinstance(error, ExtensionError):
            raise
        if is_outside(step.run):
            raise failed(f"pass {step.name}", step.run, error, str(module)) from error
        said = f"the pass {step.name} raised {error!r}\non:\n{module}"
        raise CompilerError(said, stage=step.name) from error
    if not isinstance(after, Module):  # pyright: ignore[reportUnnecessaryIsInstance]
        remedy = "return the module: what module.map(...) gives, or the module itself"
        raise returned(f"pass {step.name}", step.run, after, "a module", remedy)
    return after


def may_refuse(stage: str, error: Exception) -> bool:
    """Whether an error is about the program, rather than a bug in dlvm.

    Differentiation may reject a program. A later stage never rejects a well-typed program, and no
    stage may construct an operation whose types do not fit.
    """
    ours = not isinstance(error, UserError) or isinstance(error, ShapeError | DTypeError)
    return stage == "differentiate" and not ours


def _verify_after(step: Pass, before: Module, module: Module) -> None:
    try:
        module.verify()
        if is_outside(step.run):
            _kept_signature(before, module)
    except DlvmError as error:
        if is_outside(step.run):
            raise broken(f"pass {step.name}", step.run, error, str(before)) from error
        said = f"the pass {step.name} broke the module: {error}\nbefore it:\n{before}"
        raise CompilerError(said, stage=step.name) from error


def _kept_signature(before: Module, after: Module) -> None:
    name = before.main.name
    old, new = before.signature(name), after.signature(name)
    if old != new:
        raise IRError(f"expected @{name} to stay {_typed(old)}, found {_typed(new)}")


def _typed(signature: Signature) -> str:
    params, results = (", ".join(map(str, t)) for t in (signature.params, signature.results))
    return f"({params}) -> ({results})"
