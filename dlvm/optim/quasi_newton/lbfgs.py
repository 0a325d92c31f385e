"""L-BFGS (Nocedal, 1980): steps of Newton's method by what the last gradients say of curvature.

All float leaves are one vector. With the pairs ``s = x' - x`` and ``y = g' - g`` of the last steps
the product of the inverse Hessian with a gradient takes two loops over the pairs. A pair counts
where ``s . y > 0``, which the line search sees to; one that does not is never stored.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

from dlvm.base.errors import ArgumentError, CallError
from dlvm.dsl.call.undecorated import computing
from dlvm.dsl.derive.derivatives import value_and_grad
from dlvm.dsl.trace.configuration import static
from dlvm.dsl.trace.facing import facing_users
from dlvm.dsl.trace.scopes import user_origin
from dlvm.dsl.words.namespace import xp
from dlvm.optim.leaves import aligned, cast, chosen, count, element_type, increased, quiet, same

from .flat import Layout, dot, layout, rows
from .line_search import Point, search

POSITIVE = 1e-10
"""The least ``s . y`` of a pair that counts, in units of ``y . y``."""


class LbfgsState(NamedTuple):
    """Steps taken, the last pairs with ``1 / (s . y)``, and value and gradient after the step."""

    count: Any
    s: Any
    y: Any
    weights: Any
    value: Any
    grad: Any


@dataclass(frozen=True)
class Lbfgs:
    """A quasi-Newton direction and a line search along it."""

    memory_size: Annotated[int, static]
    scale_init_precond: bool
    max_linesearch_steps: Any

    @computing
    def init(self, params: Any) -> Any:
        """No pairs; value and gradient are not known yet."""
        where = layout("lbfgs", params)
        x = where.vector(params)
        pairs = xp.zeros((self.memory_size, *x.shape), element_type(x))
        weights = xp.zeros(self.memory_size, element_type(x))
        value = xp.full((), float("inf"), dtype=element_type(x))
        return LbfgsState(count(), pairs, xp.copy(pairs), weights, value, where.zeros())

    @computing
    def update(
        self,
        updates: Any,
        state: Any,
        params: Any = None,
        *,
        value: Any = None,
        grad: Any = None,
        value_fn: Callable[[Any], Any] | None = None,
        **extra: Any,
    ) -> tuple[Any, Any]:
        """What a line search finds along the direction that the pairs give.

        ``value`` is the loss, whose gradient the updates are; ``value_fn`` is the function from
        parameters to it. ``state.value`` and ``state.grad`` are those after the step.
        """
        if params is None or value is None or value_fn is None:
            raise CallError(
                "update: the line search of lbfgs needs the parameters, the value and its function",
                origin=user_origin(),
                remedy="call update(grads, state, params, value=loss, value_fn=loss_of)",
            )
        aligned("update", gradients=updates, state=state.grad, parameters=params)
        with quiet():
            return self._step(params, updates if grad is None else grad, state, value, value_fn)

    def _step(
        self, params: Any, grads: Any, state: Any, value: Any, value_fn: Callable[[Any], Any]
    ) -> tuple[Any, Any]:
        where = layout("lbfgs", params)
        x, g = where.vector(params), where.vector(grads)
        d = direction(state, g, self.scale_init_precond)
        slope, dtype = dot(g, d), element_type(x)
        start = Point(xp.zeros_like(slope), same(cast(xp.asarray(value), dtype)), slope, g)
        searched = search(
            _evaluation(value_fn, where),
            x,
            d,
            start,
            xp.ones_like(slope),
            self.max_linesearch_steps,
        )
        s = searched.t * d
        after = remembered(state, s, searched.grad - g, searched.t)
        grads = where.tree(searched.grad)
        return where.tree(s), after._replace(value=same(searched.value), grad=grads)


def _evaluation(value_fn: Callable[[Any], Any], where: Layout) -> Callable[[Any], tuple[Any, Any]]:
    both = value_and_grad(value_fn)

    def evaluate(x: Any) -> tuple[Any, Any]:
        value, grads = both(where.tree(x, fill=True))
        return same(cast(xp.asarray(value), element_type(x))), where.vector(grads)

    return evaluate


def direction(state: LbfgsState, g: Any, scaled: bool) -> Any:
    """Minus the inverse Hessian times a gradient, by the two loops; downhill in any case."""
    q, shares = g, list[Any]()
    pairs = range(state.s.shape[0])
    for i in pairs:
        shares.append(state.weights[i] * dot(state.s[i], q))
        q = q - shares[i] * state.y[i]
    q = _first_scale(state, g, scaled) * q
    for i in reversed(pairs):
        q = q + (shares[i] - state.weights[i] * dot(state.y[i], q)) * state.s[i]
    return xp.where(dot(q, g) > 0, -q, -g)


def _first_scale(state: LbfgsState, g: Any, scaled: bool) -> Any:
    """The inverse Hessian before any pair: ``s . y / y . y`` of the last, at first ``1 / |g|``."""
    if not scaled:
        return xp.ones_like(state.weights[0])
    norm, square = xp.sqrt(dot(g, g)), dot(state.y[0], state.y[0])
    known = state.weights[0] > 0
    inverse = 1 / xp.where(known, state.weights[0] * square, 1)
    return xp.where(known, inverse, 1 / xp.maximum(norm, 1))


def remembered(state: LbfgsState, s: Any, y: Any, t: Any) -> LbfgsState:
    """The state with the pair of a step, if it counts; a search that failed forgets all pairs."""
    product = dot(s, y)
    counts = product > POSITIVE * dot(y, y)
    weight = 1 / xp.where(counts, product, 1)
    stored = (rows(s, state.s), rows(y, state.y), xp.concat([weight[None], state.weights[:-1]]))
    new = chosen(counts, stored, (state.s, state.y, state.weights))
    weights = same(xp.where(t > 0, new[2], 0))
    return state._replace(count=increased(state.count), s=new[0], y=new[1], weights=weights)


@facing_users
def lbfgs(
    memory_size: int = 10, scale_init_precond: bool = True, max_linesearch_steps: Any = 20
) -> Lbfgs:
    """L-BFGS with a line search of its own; ``dlvm.optim.minimize`` runs it to the end.

    ``update`` takes ``value=`` and ``value_fn=`` as that of optax does::

        value, grads = dlvm.value_and_grad(loss)(params)
        updates, state = optimizer.update(grads, state, params, value=value, value_fn=loss)
    """
    if memory_size < 1:
        raise ArgumentError(
            f"lbfgs: memory_size is a number of steps from 1 on, found {memory_size}",
            origin=user_origin(),
            remedy="leave memory_size out: it is 10",
        )
    return Lbfgs(memory_size, scale_init_precond, max_linesearch_steps)
