"""``aot``: a function as files for another processor, with nothing of dlvm or Python in them.

The function is traced, differentiated, optimised and scheduled as for a call, then written as one
object with a C header, its captured arrays, what its state starts from, and a description in JSON.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dlvm.base.errors import ArgumentError, UserError
from dlvm.base.floating import standard_mode
from dlvm.compile import Road
from dlvm.dsl.call.application import Application
from dlvm.dsl.call.function import StagedFunction, is_staged
from dlvm.dsl.trace.facing import facing_users
from dlvm.dsl.trace.scopes import user_origin
from dlvm.dsl.trace.specs import check_function
from dlvm.ir import Array, Module
from dlvm.ir.core import literal
from dlvm.ir.numerics import numerics
from dlvm.ir.rewrite import prefixed
from dlvm.ops import Constant
from dlvm.ops.flow.calls import called
from dlvm.target import Target
from dlvm.targets import is_gpu, named, text_of

if TYPE_CHECKING:
    from dlvm.gen.aot.bundle import Bundle, Wishes
    from dlvm.gen.gpu.executable import DeviceExecutable

__all__ = ["aot"]
PAGES = "webgpu"
"""The target whose files run by WebGPU, and by WebAssembly where there is none."""


@facing_users
def aot(
    f: Callable[..., Any],
    *args: Any,
    target: str = "host",
    out: str | os.PathLike[str] | None = None,
    name: str | None = None,
    state: Sequence[str] = (),
    size: bool = False,
    growing: int | None = None,
    weights: str = "bin",
    shared: bool = False,
    page: bool = False,
) -> Bundle:
    """Write a function, a gradient or a training step as files that any language can link.

    ``args`` are arrays or ``dlvm.spec(...)``, as for ``f.compile``; ``target`` is a name of the
    table in docs/ahead-of-time.md, ``out`` the folder (without it the files stay in memory, in
    ``.files``) and ``name`` what the C function is called. Donated arguments are state, overwritten
    in place; captured arrays are weights, or state where ``state`` names them. ``size=True`` asks
    for the smallest code, ``growing`` is how many bytes a call may take for the tape of a
    ``while_loop`` or for functions that call themselves, and ``weights="c"`` writes the weights as
    a C array. ``shared=True`` adds a shared library where a linker is found, and ``page=True`` with
    ``target="wasm32"`` or ``"webgpu"`` one web page that runs the function.
    """
    from dlvm.gen.aot.bundle import Wishes

    given = Wishes(name or "", target, tuple(state), size, growing, weights, shared, page)
    check_function(f, "aot")
    bundle = written(f if is_staged(f) else StagedFunction(f), args, {}, given)
    if out is not None:
        bundle.write(Path(out))
    return bundle


def written(
    staged: StagedFunction[..., Any], args: Sequence[Any], named_: Mapping[str, Any], wishes: Wishes
) -> Bundle:
    """The files of a staged function for such arguments."""
    from dlvm.gen.aot.bundle import export
    from dlvm.gen.schedule.text import Schedule

    _check_options(wishes)
    own_name = _c_name(wishes.name or staged.label, bool(wishes.name))
    found = staged.applied(args, named_, specs=True)
    module, known = _with_weights(found, wishes.state)
    road = Road(module, staged.source.options)
    plans = Schedule.plain() if wishes.small else None
    device = _for_pages(road) if wishes.target == PAGES else None
    code = road.made(alone("wasm32" if device else wishes.target), plans)
    kept = [i for i in range(len(found.arrays)) if i not in known]
    arrays = [None if i in found.blank else found.arrays[i] for i in kept]
    labels = [found.labels[i] for i in kept]
    captured = len(found.program.trace.arrays) - len(known)
    own = replace(wishes, name=own_name)
    names = _weight_names(found, road, known)
    return export(
        code, module, labels, arrays, captured, found.results, own, version(), names, device
    )


def _for_pages(road: Road) -> DeviceExecutable:
    """The code for WebGPU; what comes before kernels is that of the road."""
    from dlvm.gen.gpu.executable import built

    other = Road(road.traced, replace(road.options, target=PAGES, schedule=None))
    vars(other).update(differentiated=road.differentiated, optimized=road.optimized)
    with numerics(road.options.numerics), standard_mode():
        return built(other.kernels, named(PAGES), join=True)


def _with_weights(found: Application, state: Sequence[str]) -> tuple[Module, dict[int, Array]]:
    """The module with captured arrays as known constants, and these by their parameters.

    Those that are state stay parameters, and all do where another function calls the first one.
    """
    main, rest = found.module.main, found.module.entries[1:]
    first = len(main.params) - len(found.program.trace.arrays)
    labels = found.labels[first:]
    derived = {d.of for d in found.module.declarations}
    again = any(main.name in called(fn) for fn in found.module.functions)
    if again or main.name in derived or not set(state) <= set(labels):
        return found.module, {}
    known = {
        first + i: literal(found.arrays[first + i], main.params[first + i].dtype)
        for i, label in enumerate(labels)
        if label not in state
    }
    fn = prefixed(main, lambda: {main.params[i]: Constant(x, known=True) for i, x in known.items()})
    params = tuple(p for i, p in enumerate(main.params) if i not in known)
    return Module((replace(fn, params=params), *rest)), known


def _weight_names(found: Application, road: Road, known: Mapping[int, Array]) -> dict[int, str]:
    """What weights are called, by their identities: as they are captured, or prepared of these."""
    from dlvm.opt.regions.preparing import recipes

    names = {id(x): found.labels[i] for i, x in known.items()}
    for array, recipe in recipes(road.optimized):
        sources = [names[id(a)] for a in recipe.arrays if id(a) in names]
        if sources:
            names[id(array)] = f"{' and '.join(sources)}, prepared"
    return names


def alone(name: str) -> Target:
    """A processor by its name, for code that runs without a process around it."""
    return replace(named(name), os="none", threads=1, adaptive=False)


def version() -> str:
    """That of dlvm, which files name."""
    return getattr(sys.modules["dlvm"], "__version__", "")


def _check_options(wishes: Wishes) -> None:
    growing: Any = wishes.growing
    if growing is not None and not (isinstance(growing, int) and growing >= 0):
        raise ArgumentError(
            f"aot: growing={growing!r}: expected a number of bytes",
            origin=user_origin(),
            remedy="write growing=1 << 20",
        )
    if wishes.weights not in ("bin", "c"):
        raise ArgumentError(
            f"aot: weights={wishes.weights!r}: expected 'bin' or 'c'",
            origin=user_origin(),
            remedy="leave it out for a file that is read at run time",
        )
    if is_gpu(wishes.target) and wishes.target != PAGES:
        raise UserError(
            f"aot: expected a processor that runs a whole program, found target={wishes.target!r}",
            remedy=f"the stage {text_of(wishes.target)} of a compiled function is its kernels",
        )
    runs = wishes.target == PAGES or named(wishes.target).triple.startswith("wasm")
    if wishes.page and not runs:
        raise ArgumentError(
            f"aot: page=True for the target {wishes.target!r}: a page runs WebAssembly",
            origin=user_origin(),
            remedy='write target="wasm32"',
        )


def _c_name(name: str, given: bool) -> str:
    """A name that C takes: the one that is given, or one made of the name of the function."""
    from dlvm.gen.aot.names import function_name, is_function_name

    if not given:
        return function_name(name)
    if not is_function_name(name):
        raise UserError(
            f"aot: expected a name that a C function may have and that no library of C has, found "
            f"name={name!r}",
            origin=user_origin(),
            remedy='write name="net"',
        )
    return name
