"""Whether recomputation of element-wise chains pays: it does not where all would be one kernel.

A checkpoint of a chain keeps its input, and must then have both that and the cotangent in memory.
Left open, the chain and its way back may be one kernel, which keeps nothing at all.
"""

from __future__ import annotations

from collections.abc import Iterable

from dlvm.ir import Function, Module, Op, Value
from dlvm.ir.rewrite import Env, inline, mapped, transform
from dlvm.ops import Structured
from dlvm.ops.families import Creation, Elementwise, Movement, Reduction
from dlvm.opt.kernels.fusion import fuse
from dlvm.opt.laws.simplification import simplify
from dlvm.opt.regions.dropping import drop
from dlvm.opt.regions.inlining import open_checkpoints, open_recompute
from dlvm.opt.regions.sharing import share
from dlvm.passes import Pass, module_pass

from .ordering import order
from .recomputing import Lives

PLAIN = Elementwise | Movement | Creation | Reduction
AGAIN: tuple[Pass, ...] = (simplify, share, drop)
KERNELS: tuple[Pass, ...] = (open_checkpoints, fuse, open_recompute, order)


@module_pass
def weigh_recomputation(module: Module) -> Module:
    """Open recomputations of nothing but chains where no more memory is needed without them.

    Both ways are fused and ordered, and what is alive at once is compared. What was computed
    again is then shared with its first computation.
    """
    main = module.main
    if not any(_is_triggered_chain(op) for op in main.ops):
        return module
    alone = Module((main,))
    if any(kind.enters for kind in main.kinds):
        return module
    opened = _run(alone.replace(_opened(main)), AGAIN)
    if _most_alive(_run(opened, KERNELS)) > _most_alive(_run(alone, KERNELS)):
        return module
    return module.replace(opened.main)


def _is_triggered_chain(op: Op) -> bool:
    if not (isinstance(op, Structured) and op.dataflow.again and op.dataflow.steers):
        return False
    return _is_chain(op.giving[0])


def _is_chain(body: Function) -> bool:
    return all(isinstance(op, PLAIN) for op in body.ops)


def _opened(fn: Function) -> Function:
    def visit(op: Op, env: Env) -> Iterable[Value] | None:
        assert isinstance(op, Structured)
        plain = op.dataflow.again and _is_chain(op.giving[0])
        return inline(op.giving[0], mapped(op.operands[op.seen], env)) if plain else None

    return transform(fn, visit, on=Structured)


def _run(module: Module, passes: Iterable[Pass]) -> Module:
    for step in passes:
        module = step.run(module)
    return module


def _most_alive(module: Module) -> int:
    main = module.main
    return max(Lives(main, (False,) * len(main.ops)).alive, default=0)
