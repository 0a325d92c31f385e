"""``@dlvm.function`` and ``dlvm.trace``, with which users stage functions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, overload

from dlvm.base.errors import UserError
from dlvm.budget import budget_of
from dlvm.compile import Options
from dlvm.dsl.trace.facing import facing_users
from dlvm.dsl.trace.specs import check_function
from dlvm.ir import Module
from dlvm.ir.numerics import mode_named
from dlvm.ir.sharding.mesh import Mesh

from .function import Names, StagedFunction, is_staged

if TYPE_CHECKING:
    from dlvm.dsl.arrays.sharding import Ranks

P = ParamSpec("P")
R = TypeVar("R")


@overload
def function(
    fn: Callable[P, R],
    /,
    *,
    static: Names = ...,
    donate: Names = ...,
    dynamic: Mapping[str, str] | bool = ...,
    target: str = ...,
    threads: int | None = ...,
    debug: Sequence[str] | str = ...,
    memory: int | str | None = ...,
    numerics: str = ...,
    mesh: Ranks | None = ...,
) -> StagedFunction[P, R]: ...
@overload
def function(
    *,
    static: Names = ...,
    donate: Names = ...,
    dynamic: Mapping[str, str] | bool = ...,
    target: str = ...,
    threads: int | None = ...,
    debug: Sequence[str] | str = ...,
    memory: int | str | None = ...,
    numerics: str = ...,
    mesh: Ranks | None = ...,
) -> Callable[[Callable[P, R]], StagedFunction[P, R]]: ...
@facing_users
def function(
    fn: Callable[P, R] | None = None,
    /,
    *,
    static: Names = (),
    donate: Names = (),
    dynamic: Mapping[str, str] | bool = False,
    target: str = "host",
    threads: int | None = None,
    debug: Sequence[str] | str = (),
    memory: int | str | None = None,
    numerics: str = "default",
    mesh: Ranks | None = None,
) -> Any:
    """Stage a Python function: traced at its first call, compiled, and fast from then on.

    ``static`` names or positions are part of the code; ``donate`` names arguments whose memory the
    results may take; ``dynamic={"x": "B,784"}`` leaves sizes open, ``dynamic=True`` all leading
    ones. ``threads`` is the number of threads; without it, calls time themselves and use every core
    only while that is faster than one thread; ``target`` is the processor, of which
    there is ``"host"``. ``debug`` names what is looked at in every call, as by ``dlvm.debug``:
    ``"nans"``, ``"infs"``, ``"bounds"``. ``memory="64MB"`` is how much a call may take beside its
    arguments and results: what does not fit is computed again instead of kept. ``numerics`` says
    which laws may rewrite arithmetic: ``"default"``, laws of linear algebra that change rounding;
    ``"strict"``, none but exact ones; ``"fast"``, also those of the real numbers that are wrong
    for some floats (docs/numerics.md). ``mesh`` is one that ``dlvm.mesh`` made, whose ranks run the
    function together, each on its pieces of the arrays that ``dlvm.shard`` annotates.
    """

    if not isinstance(debug, Collection):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UserError(
            f"debug={debug!r:.40}: expected names of what to look for",
            remedy='such as debug="nans"',
        )
    looks = (debug,) if isinstance(debug, str) else tuple(debug)
    options = Options(target, threads, looks, budget_of(memory), mode_named(numerics))
    options = options if mesh is None else replace(options, mesh=_mesh_of(mesh, target))

    @facing_users
    def stage(fn: Callable[P, R]) -> StagedFunction[P, R]:
        return StagedFunction(fn, static=static, donate=donate, dynamic=dynamic, options=options)

    return stage if fn is None else stage(fn)


def _mesh_of(given: Any, target: str) -> Mesh:
    """The mesh of ``mesh=``, whose ranks run on processors."""
    from dlvm.dsl.arrays.sharding import Ranks

    if not isinstance(given, Ranks):
        raise UserError(
            f"mesh={given!r:.40}: expected a mesh", remedy='make one: dlvm.mesh({"data": -1})'
        )
    if target != "host":
        raise UserError(
            f"target={target!r}: expected the host, as ranks of a mesh run there",
            remedy="leave out target= or mesh=",
        )
    return given.mesh


@facing_users
def trace(f: Callable[..., Any], *args: Any, **kwargs: Any) -> Module:
    """The module that a function becomes for such arguments, which may be ``dlvm.spec(...)``."""
    check_function(f, "trace")
    return (f if is_staged(f) else StagedFunction(f)).trace(*args, **kwargs)
