"""``custom_vjp`` and ``custom_jvp``: functions whose derivative the user writes.

Outside a trace such a function is the function itself. In a trace it and its rules become
functions of the module, written once for each signature; a rule may call the function that it
is the rule of, so their names are known before they are written. What they use from outside is
passed to all of them.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, overload

from dlvm.base.errors import UserError
from dlvm.dsl.call.function import cells_of
from dlvm.dsl.flow.control import in_trace
from dlvm.dsl.trace.facing import facing_users
from dlvm.dsl.trace.operands import fresh, here, staged
from dlvm.dsl.trace.scopes import Scope
from dlvm.dsl.trace.specs import Parameters, check_function
from dlvm.dsl.trace.tensor import Tensor
from dlvm.dsl.trace.tracing import Input, Written, carrier, unbound, write
from dlvm.dsl.trace.trees import flatten, flatten_with_none, unflatten
from dlvm.ir import BOOL, Function, FunctionRef, Op, Param, TensorType, Value
from dlvm.ir.sizes.dims import symbol
from dlvm.ops import CustomJvp, CustomVjp

from .custom_checks import Rule, Signed

Fun = Callable[..., Any]
Positions = Sequence[str | int] | str | int
SURPRISES = 2
"""How often a recursive rule may capture arrays that it did not capture before. What others can
reach is captured from the first time on; an array that is new each time was made by the rule.
"""


@dataclass
class Rules:
    """The functions that a module has for one signature, and the captured operands of
    all of them.
    """

    names: dict[str, str]
    held: tuple[Any, ...]
    captured: tuple[tuple[Value, Scope], ...] = ()
    sizes: tuple[str, ...] = ()
    types: tuple[TensorType, ...] = ()
    tree: Any = None
    met: bool = False

    def operands(self) -> tuple[Value, ...]:
        """The captured values, as values of the scope that is being traced."""
        scope = here()
        lifted = (scope.lift(value, owner) for value, owner in self.captured)
        return (*lifted, *map(carrier, self.sizes))

    def ref(self, role: str) -> FunctionRef:
        """The name of one of the functions in the module."""
        return FunctionRef(self.names[role])

    def seen_from(self, scope: Scope, held: tuple[Any, ...]) -> bool:
        """Whether these functions come from the same rules and can be called from a scope."""
        same = len(held) == len(self.held) and all(
            a is b for a, b in zip(held, self.held, strict=True)
        )
        return same and all(scope.within(owner) for _, owner in self.captured)


class Custom(ABC):
    """A function with a derivative written by the user: what ``custom_vjp`` and ``custom_jvp``
    share.
    """

    kind = ""
    setter = ""
    roles: tuple[str, ...] = ()

    def __init__(self, fun: Fun, nondiff_args: Positions = (), surrogate: bool = False) -> None:
        check_function(fun, self.kind)
        self._surrogate = surrogate
        functools.update_wrapper(self, fun)
        self._fun = fun
        self._parameters = Parameters(fun, nondiff_args)
        self._rules: tuple[Fun, ...] = ()

    def __repr__(self) -> str:
        return f"<{self.kind} function {self._parameters.name}>"

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """Binds the function to an object as a method, as Python does."""
        return self if instance is None else functools.partial(self, instance)

    @facing_users
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the function; in a trace, records a call that is differentiated by the user's
        rules.
        """
        name = self._parameters.name
        if not self._rules:
            raise UserError(
                f"{name} is a {self.kind} function without a rule for its derivative",
                origin=Rule(self._fun, "").origin,
                remedy=f"give it one: {name}.{self.setter}",
            )
        if not in_trace():
            self._parameters.bind(args, kwargs)
            return self._fun(*args, **kwargs)
        arguments = self._parameters.bind(args, kwargs, defaults=True)
        leaves, tree = flatten(arguments.values)
        labels = arguments.leaf_labels(tree)
        tensors = [staged(x, label) for x, label in zip(leaves, labels, strict=True)]
        rules = self._written(Signed(self._parameters, arguments, tree, tensors))
        results = self._call(rules, tuple(x.read() for x in tensors)).results
        return unflatten(rules.tree, [fresh(r) for r in results])

    @abstractmethod
    def _rule_bodies(self, made: Signed, primal: Written) -> dict[str, Written]:
        """The functions of the rule, under the roles that they have in the operation."""

    @abstractmethod
    def _call(self, rules: Rules, xs: tuple[Value, ...]) -> Op:
        """Records the operation that calls the function together with its rule."""

    # -- writing ---------------------------------------------------------------------------------

    def _written(self, made: Signed) -> Rules:
        """The functions for arguments of these types, traced on first use."""
        functions = (self._fun, *self._rules)
        held = (self, *made.fixed, *(x for fn in functions for x in cells_of(fn)))
        types = tuple((x.type, x.weak) for x in made.tensors)
        key = (id(self), made.arguments.names, made.tree, types, tuple(map(id, made.fixed)))
        known: Rules | None = here().trace.memo.get(key)
        if known is not None and known.seen_from(here(), held):
            known.met = True
            return known
        return self._write(key, made, held)

    def _write(self, key: Any, made: Signed, held: tuple[Any, ...]) -> Rules:
        """Traces all functions; again if a recursive one turns out to capture more values."""
        trace, find = here().trace, here().trace.find
        try:
            return self._settled(key, made, held)
        finally:
            trace.find = find

    def _settled(self, key: Any, made: Signed, held: tuple[Any, ...]) -> Rules:
        trace, name = here().trace, self._parameters.name
        at, mark = len(trace.entries), trace.mark()
        rules = Rules({}, held)
        tries = 0
        while True:
            tries += 1
            if tries > SURPRISES:
                trace.find = _nowhere
            trace.reset(mark)
            names = {r: trace.unique(f"{name}_{r}" if r else name) for r in ("", *self.roles)}
            known = rules.captured, rules.sizes
            rules = Rules(names, held, *known)
            written = self._bodies(key, rules, made)
            rules.captured, rules.sizes = _captured(written.values())
            if not rules.met or (rules.captured, rules.sizes) == known:
                break
        trace.entries[at:at] = [_closed(body, names[r], rules) for r, body in written.items()]
        arrays = {c.param for c in trace.arrays.values()}
        if any(value not in arrays for value, _ in rules.captured):
            del trace.memo[key]  # a box that is captured may hold something else next time
        return rules

    def _bodies(self, key: Any, rules: Rules, made: Signed) -> dict[str, Written]:
        primal = written(made, made.inputs(), lambda xs: made.run(self._fun, xs))
        rules.types, rules.tree = primal.types, primal.tree
        here().trace.memo[key] = rules
        return {"": primal, **self._rule_bodies(made, primal)}


def _nowhere(array: Any) -> None:
    """Where an array is that was made in the trace: nowhere, so that it is a constant."""


def written(made: Signed, inputs: Sequence[Input], body: Callable[[list[Tensor]], Any]) -> Written:
    """Traces one of the functions into the module."""
    scope = here()
    return write(Scope(scope.trace, scope, made.parameters.name), inputs, body)


def _captured(bodies: Iterable[Written]) -> tuple[tuple[tuple[Value, Scope], ...], tuple[str, ...]]:
    """The values that functions capture, and the symbolic sizes that none of their inputs binds."""
    bodies = list(bodies)
    lifted = (w.scope.trace.sources[p] for w in bodies for p in w.scope.lifted.values())
    sizes = (s for w in bodies for s in unbound(w))
    return tuple(dict.fromkeys(lifted)), tuple(dict.fromkeys(sizes))


def _closed(body: Written, name: str, rules: Rules) -> Function:
    scope = here()
    fn = body.region(name, [scope.lift(value, owner) for value, owner in rules.captured])
    carriers = (Param(TensorType(BOOL, (symbol(s),)), f"size_{s}") for s in rules.sizes)
    return Function(name, (*fn.params, *carriers), fn.ops, fn.results)


# -- the two kinds -------------------------------------------------------------------------------


class VjpFunction(Custom):
    """A function whose reverse-mode derivative is given by two functions; see ``custom_vjp``."""

    kind = "custom_vjp"
    setter = "defvjp(forward, backward)"
    roles = ("forward", "backward")

    def defvjp(self, fwd: Fun, bwd: Fun) -> None:
        """Sets the derivative: ``fwd(*args) -> (results, kept)``, ``bwd(kept, ct) -> cotangents``.

        ``bwd`` gives a tuple with a cotangent for each argument of the function, None for zero;
        it takes the arguments named in ``nondiff_args`` first.
        """
        check_function(fwd, "defvjp")
        check_function(bwd, "defvjp")
        self._rules = (fwd, bwd)

    def _rule_bodies(self, made: Signed, primal: Written) -> dict[str, Written]:
        fwd, bwd = self._rules
        takes, given = ", ".join(made.parameters.names), made.fixed_names
        held: list[tuple[Any, list[Any]]] = []

        def forward(xs: list[Tensor]) -> Any:
            rule = Rule(fwd, f"the forward rule of {made.name}")
            results, kept = rule.pair(
                made.run(rule.of(takes), xs), "the results, what is kept for bwd"
            )
            leaves, tree = flatten(kept)
            held.append((tree, [None if is_traced(x) else x for x in leaves]))
            return [*rule.results(results, primal), *filter(is_traced, leaves)]

        def backward(xs: list[Tensor]) -> Any:
            rule = Rule(bwd, f"the backward rule of {made.name}")
            seeds = made.spread(primal.types, xs[n:])
            (tree, fixed), rest = held[-1], iter(xs[:n])
            kept = unflatten(tree, [next(rest) if x is None else x for x in fixed])
            out = rule.of(*given, "kept", "ct")(*made.fixed, kept, unflatten(primal.tree, seeds))
            return rule.cotangents(out, made)

        ahead = written(made, made.inputs(), forward)
        kept = ahead.results[len(primal.types) :]
        n = len(kept)
        inputs = [Input(f"kept_{i}", f"kept[{i}]", v.type, given=v) for i, v in enumerate(kept)]
        inputs += _seeds(primal.results)
        return {"forward": ahead, "backward": written(made, inputs, backward)}

    def _call(self, rules: Rules, xs: tuple[Value, ...]) -> Op:
        refs = (rules.ref("forward"), rules.ref("backward"))
        return CustomVjp(xs, rules.ref(""), rules.types, rules.operands(), *refs, self._surrogate)


def is_traced(leaf: Any) -> bool:
    """Whether a residual is an array; numbers and sizes stay values of Python."""
    return isinstance(leaf, Tensor) or hasattr(leaf, "__array__")


def _seeds(results: Sequence[Value]) -> list[Input]:
    floats = [(i, r) for i, r in enumerate(results) if r.dtype.is_float]
    return [Input(f"seed_{i}", f"the cotangent of result {i}", r.type, given=r) for i, r in floats]


class JvpFunction(Custom):
    """A function whose directional derivative is given by another one; see ``custom_jvp``."""

    kind = "custom_jvp"
    setter = "defjvp(rule)"
    roles = ("rule",)

    def defjvp(self, jvp: Fun) -> Fun:
        """Sets the derivative: ``jvp(primals, tangents) -> (results, their tangents)``.

        The tangents must be linear in the tangents given; it takes the arguments named in
        ``nondiff_args`` first. Can be used as a decorator.
        """
        check_function(jvp, "defjvp")
        self._rules = (jvp,)
        return jvp

    def defjvps(self, *jvps: Fun | None) -> None:
        """Sets a derivative for each argument: ``jvp(tangent, results, *primals)``; None means
        zero.
        """
        for jvp in jvps:
            if jvp is not None:
                check_function(jvp, "defjvps")

        def each(jvp: Fun) -> Fun:
            what = f"a rule of {self._parameters.name}"
            return Rule(jvp, what).of("tangent", "results", *self._parameters.names)

        def rule(primals: Any, tangents: Any) -> Any:
            out = self(*primals)
            leaves, tree = flatten(out)
            total: list[Any] = [None] * len(leaves)
            for jvp, tangent in zip(jvps, tangents, strict=True):
                if jvp is not None and tangent is not None:
                    found, _ = flatten_with_none(each(jvp)(tangent, out, *primals))
                    total = [_sum(a, b) for a, b in zip(total, found, strict=True)]
            return out, unflatten(tree, total)

        self._rules = (rule,)

    def _rule_bodies(self, made: Signed, primal: Written) -> dict[str, Written]:
        (jvp,), given = self._rules, made.fixed_names

        def body(xs: list[Tensor]) -> Any:
            rule = Rule(jvp, f"the rule of {made.name}")
            tangents = made.spread([x.type for x in made.tensors], xs[n:])
            out = rule.of(*given, "primals", "tangents")(
                *made.fixed, made.values(xs[:n]), made.values(tangents)
            )
            results, moved = rule.pair(out, "the results, their tangents")
            return [*rule.results(results, primal), *rule.tangents(moved, primal)]

        inputs = made.inputs()
        n = len(inputs)
        floats = [i for i in inputs if i.type.dtype.is_float]
        inputs += [
            Input(f"d_{i.name}", f"the tangent of {i.label}", i.type, given=i.given) for i in floats
        ]
        return {"rule": written(made, inputs, body)}

    def _call(self, rules: Rules, xs: tuple[Value, ...]) -> Op:
        given = rules.ref(""), rules.types, rules.operands(), rules.ref("rule")
        return CustomJvp(xs, *given, self._surrogate)


def _sum(a: Any, b: Any) -> Any:
    return b if a is None else a if b is None else a + b


@overload
def custom_vjp(fun: Fun, nondiff_args: Positions = (), surrogate: bool = False) -> VjpFunction: ...
@overload
def custom_vjp(
    fun: None = None, nondiff_args: Positions = (), surrogate: bool = False
) -> Callable[[Fun], VjpFunction]: ...
@facing_users
def custom_vjp(
    fun: Fun | None = None, nondiff_args: Positions = (), surrogate: bool = False
) -> Any:
    """A function whose reverse-mode derivative you write yourself.

    ``f.defvjp(fwd, bwd)``: ``fwd`` takes what ``f`` takes and gives the results and whatever
    ``bwd`` needs; ``bwd(kept, ct)`` gives a tuple with a cotangent for each argument::

        @dlvm.custom_vjp
        def clipped(x):
            return x

        def fwd(x):
            return x, None

        def bwd(_, ct):
            return (dlvm.clip(ct, -1, 1),)

        clipped.defvjp(fwd, bwd)
        dlvm.grad(lambda x: (clipped(x) * 3).sum())(x)      # np.ones(3)

    Arguments in ``nondiff_args`` (names or positions) may be anything; ``bwd`` takes them first.
    A ``surrogate`` derivative is meant to differ from the slope, as that of a straight-through
    estimator is: ``dlvm.testing.gradcheck`` compares everything else.
    """
    if fun is None:
        return functools.partial(custom_vjp, nondiff_args=nondiff_args, surrogate=surrogate)
    return VjpFunction(fun, nondiff_args, surrogate)


@overload
def custom_jvp(fun: Fun, nondiff_args: Positions = (), surrogate: bool = False) -> JvpFunction: ...
@overload
def custom_jvp(
    fun: None = None, nondiff_args: Positions = (), surrogate: bool = False
) -> Callable[[Fun], JvpFunction]: ...
@facing_users
def custom_jvp(
    fun: Fun | None = None, nondiff_args: Positions = (), surrogate: bool = False
) -> Any:
    """A function whose derivative you write yourself, once for both modes.

    ``f.defjvp(rule)``: ``rule(primals, tangents)`` gives the results and their tangents, which
    are linear in the tangents given; reverse mode takes the transpose::

        @dlvm.custom_jvp
        def log1pexp(x):
            return dlvm.log(1 + dlvm.exp(x))

        @log1pexp.defjvp
        def rule(primals, tangents):
            (x,), (dx,) = primals, tangents
            return log1pexp(x), dx * (1 - 1 / (1 + dlvm.exp(x)))

        dlvm.grad(lambda x: log1pexp(x).sum())(x)           # 1 - 1 / (1 + np.exp(x))

    Arguments in ``nondiff_args`` (names or positions) may be anything; the rule takes them first.
    A ``surrogate`` derivative is meant to differ from the slope, as that of a straight-through
    estimator is: ``dlvm.testing.gradcheck`` compares everything else.
    """
    if fun is None:
        return functools.partial(custom_jvp, nondiff_args=nondiff_args, surrogate=surrogate)
    return JvpFunction(fun, nondiff_args, surrogate)
