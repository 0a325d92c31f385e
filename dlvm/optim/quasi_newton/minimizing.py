"""Runs L-BFGS until the gradient is small, as one program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from dlvm.dsl.derive.derivatives import derived_once, value_and_grad
from dlvm.dsl.flow.control import in_trace
from dlvm.dsl.flow.loops import while_loop
from dlvm.dsl.trace.facing import facing_users
from dlvm.dsl.trace.trees import flatten
from dlvm.dsl.words.calling import called
from dlvm.dsl.words.namespace import xp
from dlvm.optim.combining import apply

from .flat import largest, layout
from .lbfgs import LbfgsState, lbfgs


class Minimum(NamedTuple):
    """Parameters with the value and the gradient there, steps taken, and whether it is small."""

    params: Any
    value: Any
    grad: Any
    steps: Any
    converged: Any


@facing_users
def minimize(
    fn: Callable[..., Any],
    params: Any,
    *args: Any,
    steps: Any = 500,
    tol: Any = 1e-8,
    memory_size: int = 10,
) -> Minimum:
    """Parameters at which ``fn(params, *args)`` is least, by L-BFGS.

    The whole search is one program::

        found = dlvm.optim.minimize(lambda x, a: ((x - a) ** 2).sum(), np.zeros(2), np.ones(2))
        found.params, found.value, found.converged

    It ends after ``steps``, where no element of the gradient is above ``tol``, or where no step
    along the line makes the value less.
    """

    def program(fn: Callable[..., Any]) -> Callable[..., Any]:
        def of(params: Any, steps: Any, tol: Any, *args: Any) -> Minimum:
            return _run(fn, params, args, steps, tol, memory_size)

        return of

    layout("minimize", params)
    if in_trace():
        return program(fn)(params, steps, tol, *args)
    staged = derived_once("minimize", fn, ("minimize", memory_size), program)
    return Minimum(*staged(params, steps, tol, *args))


def _run(
    fn: Callable[..., Any], params: Any, args: tuple[Any, ...], steps: Any, tol: Any, memory: int
) -> Minimum:
    optimizer = lbfgs(memory)
    takes = ", ".join(("params", *(f"arg{i}" for i in range(len(args)))))

    def loss(params: Any) -> Any:
        return called("minimize: the function", takes, fn, params, *args)

    def size(state: LbfgsState) -> Any:
        return largest(flatten(state.grad)[0])

    def goes_on(carry: tuple[Any, LbfgsState, Any]) -> Any:
        _, state, moved = carry
        return (state.count < steps) & ~(size(state) <= tol) & moved

    def step(carry: tuple[Any, LbfgsState, Any]) -> tuple[Any, LbfgsState, Any]:
        params, state, _ = carry
        updates, new = optimizer.update(state.grad, state, params, value=state.value, value_fn=loss)
        failed = xp.all(state.weights == 0) & xp.all(new.weights == 0) & (new.value >= state.value)
        return apply(params, updates), new, ~failed

    value, grads = value_and_grad(loss)(params)
    state = optimizer.init(params)
    state = state._replace(value=xp.astype(value, state.value.dtype), grad=grads)
    params, state, _ = while_loop(goes_on, step, (params, state, xp.asarray(True)))
    return Minimum(params, state.value, state.grad, state.count, size(state) <= tol)
