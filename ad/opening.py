"""What is differentiated in other words: kernels are inlined, general folds become scans.

A fold is a scan over the flattened reduced axes with the state carried along: the meaning that
its reference gives it. Reductions with an adjoint of their own stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterable

from dlvm.ir import Builder, Function, Param, TensorType, Value, splat
from dlvm.ir.rewrite import Env, everywhere, inline, mapped, transform
from dlvm.ir.types import literal
from dlvm.ops import Fold, Kernel, Permute, Reshape, Scan


def opened(fn: Function) -> Function:
    """The function without kernels and general folds, at any depth."""
    return everywhere(fn, lambda body: transform(body, _open))


def _open(op: object, env: Env) -> Iterable[Value] | None:
    if isinstance(op, Kernel):
        return inline(op.body, mapped(op.xs, env))
    if isinstance(op, Fold):
        return _scan(op, mapped(op.xs, env))
    return None
