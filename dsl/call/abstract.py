"""``eval_shape``: the types of a function's results, without a compile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dlvm.compile import Options
from dlvm.dsl.trace.facing import facing_users
from dlvm.dsl.trace.operands import here, staged
from dlvm.dsl.trace.scopes import current
from dlvm.dsl.trace.specs import Arguments, Spec, check_function, given
from dlvm.dsl.trace.tracing import write_function
from dlvm.dsl.trace.trees import Spec as Tree
from dlvm.dsl.trace.trees import flatten, unflatten
from dlvm.ir import Value

from .function import StagedFunction, is_staged

Staged = StagedFunction[..., Any]


@facing_users
def eval_shape(f: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The results of a function as a tree of specs: it is traced, and nothing is computed.

    Arguments are arrays, numbers and ``dlvm.spec(...)``. A spec has ``shape`` and ``dtype``.
    """
    check_function(f, "eval_shape")
    target: Staged = f if is_staged(f) else StagedFunction(f)
    if target.source.dynamic:
        target = _of_these_sizes(target)
    arguments = target.parameters.bind(args, kwargs)
    leaves, tree = flatten(arguments.values)
    if current() is not None:
        return _within_a_trace(target, arguments, tree, leaves)
    labels = arguments.leaf_labels(tree)
    read = [given(x, label) for x, label in zip(leaves, labels, strict=True)]
    program = target.programs.traced(arguments, tree, read)
    return unflatten(program.tree, [Spec(r.type) for r in program.module.main.results])


def _of_these_sizes(f: Staged) -> Staged:
    """The same function without open sizes: those of the arguments are asked about."""
    source, static = f.source, tuple(f.parameters.static)
    options = Options(mesh=source.options.mesh)
    return StagedFunction(
        source.fn, static=static, options=options, roots=source.roots, known=source.known
    )


def _within_a_trace(f: Staged, arguments: Arguments, tree: Tree, leaves: Sequence[Any]) -> Any:
    """The same where ``f`` may use values that are being traced; what it wrote is dropped."""
    given = [x if isinstance(x, Spec) else staged(x) for x in leaves]
    weak = [not isinstance(x, Spec) and x.weak for x in given]
    values: list[Value | None] = [None if isinstance(x, Spec) else x.contents for x in given]
    inputs = f.source.inputs(arguments, tree, [x.type for x in given], weak, values)
    trace = here().trace
    before = trace.mark()
    try:
        callee = write_function(f.label, inputs, f.body(arguments, tree), ())
    finally:
        trace.reset(before)
    return unflatten(callee.tree, [Spec(t) for t in callee.types])
