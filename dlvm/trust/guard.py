"""Guards around compilation, so that no bug in dlvm reaches a user without a reproducer.

``guarded`` turns any exception at a stage into a ``CompilerError`` that names a reproducer;
``demanded`` implements ``DLVM_VERIFY=passes``.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any

from dlvm.base.errors import CompilerError, UserError
from dlvm.base.handlers import raised_by_handler
from dlvm.ir import Array, Module
from dlvm.passes import INSERTED, Pass, author, may_refuse


@contextmanager
def guarded(
    module: Module,
    stage: str,
    threads: Callable[[], int | None] = lambda: None,
    pipeline: Sequence[Pass] | None = None,
) -> Generator[None]:
    """Reports an exception inside as a bug with a reproducer, unless it is the user's error."""
    try:
        yield
    except (MemoryError, RecursionError):
        raise
    except Exception as error:
        if raised_by_handler(error):
            raise
        told = isinstance(error, CompilerError) and error.reproducer is not None
        refused = isinstance(error, UserError) and (error.refused or may_refuse(stage, error))
        if isinstance(error, UserError):  # earlier stages run inside, under their own guards
            error.refused = refused
        if told or refused:
            raise
        raise reported(module, stage, error, threads, pipeline=pipeline) from error


def reported(
    module: Module,
    stage: str,
    error: Exception,
    threads: Callable[[], int | None],
    arrays: Sequence[Array] | None = None,
    pipeline: Sequence[Pass] | None = None,
) -> CompilerError:
    """The error with a reproducer, or without one if none can be written."""
    ours = isinstance(error, CompilerError)
    message = error.message if ours else f"{stage} failed: {error!r}"
    stage = error.stage or stage if ours else stage
    try:
        from .examine import crash
        from .reproducer import kept

        how = {"threads": threads(), "pipeline": _names(pipeline)}
        file = kept(module, crash(stage, error), arrays, **how)
    except Exception:  # a failing reproducer must not hide the error
        file = None
    return CompilerError(message, stage=stage, reproducer=str(file or ""), author=author(stage))


def _names(pipeline: Sequence[Pass] | None) -> tuple[str, ...] | None:
    """The names of the passes; None for the default pipeline, unless passes were inserted."""
    if pipeline is None and not INSERTED:
        return None
    from dlvm.opt.pipelines import default

    return tuple(p.name for p in (default() if pipeline is None else pipeline))


def check_schedule(module: Module, plans: Any) -> None:
    """Raises an error for a schedule that changes what a program of kernels gives."""
    from .schedules import check_schedule as check

    check(module, plans)


def demanded(module: Module, **how: Any) -> None:
    """Raises the failure that ``bisect`` finds for a program on random arguments, if any."""
    from .blame import bisect
    from .reproducer import kept
    from .rounding import QUICK

    failure = bisect(module, patience=QUICK, special=True, **how)
    if failure is None:
        return
    target, pipeline = how.get("target"), how.get("pipeline")
    file = kept(
        module,
        failure,
        threads=None if target is None else target.threads,
        pipeline=_names(pipeline),
    )
    raise CompilerError(
        str(failure), stage=failure.stage, reproducer=str(file or ""), author=author(failure.stage)
    )
