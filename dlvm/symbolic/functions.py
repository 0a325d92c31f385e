"""``from_sympy``: a plain function of arrays that computes an expression of SymPy."""

from __future__ import annotations

import importlib
import inspect
import keyword
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dlvm.base.errors import ArgumentError, UserError
from dlvm.dsl.trace.facing import facing_users
from dlvm.dsl.trace.scopes import user_origin
from dlvm.dsl.trace.trees import Spec, flatten, unflatten

from .translating import Step, Translation

Placed = Callable[[Translation], int]
"""The place of an argument among the values, which may take a step."""


@facing_users
def from_sympy(
    expr: Any, args: Any, *, functions: Mapping[str, Callable[..., Any]] | None = None
) -> Callable[..., Any]:
    """A function of arrays that computes an expression of SymPy, to be staged and differentiated.

    ``args`` are the parameters, in order: symbols, functions and derivatives such as ``q(t)``, a
    MatrixSymbol or an IndexedBase for an array, or a list or Matrix of symbols for an array that
    holds them along its last axes. ``expr`` is an expression, a Matrix, or a list, tuple or dict
    of them. Leading axes of arguments broadcast. Numbers are weak, so that f32 stays f32.
    ``functions`` gives a function of arrays for each name that SymPy does not define.

    >>> import sympy
    >>> x = sympy.Symbol("x")
    >>> f = dlvm.from_sympy(sympy.sin(x) ** 2, [x])
    >>> float(dlvm.grad(f)(0.0))
    0.0
    """
    sympy = _sympy()
    parameters: list[Any] = list(args) if isinstance(args, Sequence | sympy.Tuple) else [args]
    own = dict(functions or {})
    work = Translation(sympy, _arguments(sympy, parameters), own)
    work.values.extend([None] * len(parameters))
    leaves, spec = flatten(expr)
    places = [_placed(sympy, leaf, work) for leaf in leaves]
    return _function(_names(parameters), tuple(work.values), places, spec)


def _sympy() -> Any:
    try:
        return importlib.import_module("sympy")
    except ImportError:
        raise UserError(
            "from_sympy: the package sympy is not installed",
            origin=user_origin(),
            remedy="install SymPy: pip install sympy",
        ) from None


def _arguments(sympy: Any, parameters: Sequence[Any]) -> dict[Any, Placed]:
    """How the value of each symbol is found among the arguments."""
    found = dict[Any, Placed]()
    functions = (sympy.Derivative, sympy.core.function.AppliedUndef)
    kinds = (sympy.Symbol, sympy.MatrixSymbol, sympy.IndexedBase, *functions)

    def add(node: Any, value: Placed) -> None:
        if not isinstance(node, kinds):
            raise ArgumentError(
                f"from_sympy: args has {node!r:.40}, which is no symbol",
                origin=user_origin(),
                remedy="give symbols, such as sympy.symbols('x y'), or functions, such as q(t)",
            )
        if node in found:
            raise ArgumentError(
                f"from_sympy: {node} is twice among args",
                origin=user_origin(),
                remedy="give each symbol once",
            )
        found[node] = value

    for i, parameter in enumerate(parameters):
        if isinstance(parameter, list | tuple | sympy.MatrixBase | sympy.NDimArray):
            for at, node in _elements(sympy, parameter):
                add(node, _taken(i, at))
        else:
            add(parameter, _whole(i))
    return found


def _elements(sympy: Any, parameter: Any) -> list[tuple[tuple[Any, ...], Any]]:
    """Each symbol of an argument that is an array, with its index."""
    if isinstance(parameter, list | tuple):
        nodes: list[Any] = [*parameter]
        return [((..., i), node) for i, node in enumerate(nodes)]
    places = sympy.utilities.iterables.cartes(*map(range, parameter.shape))
    return [((..., *at), parameter[at]) for at in places]


def _whole(place: int) -> Placed:
    return lambda work: place


def _taken(place: int, index: tuple[Any, ...]) -> Placed:
    return lambda work: work.step(operator.itemgetter(index), place)


def _placed(sympy: Any, expr: Any, work: Translation) -> int:
    """The place of the value of an expression."""
    try:
        node = sympy.sympify(expr, strict=True)
    except sympy.SympifyError:
        raise ArgumentError(
            f"from_sympy: {expr!r:.40} is no expression of SymPy",
            origin=user_origin(),
            remedy="give an expression, such as sympy.sin(x), or a list or dict of expressions",
        ) from None
    return work.place(node.as_immutable() if isinstance(node, sympy.MatrixBase) else node)


def _names(parameters: Sequence[Any]) -> list[str]:
    """A name of Python for each parameter: that of its symbol, where it is one."""
    found: list[str] = []
    for i, parameter in enumerate(parameters):
        name = str(getattr(parameter, "name", ""))
        plain = name.isidentifier() and not keyword.iskeyword(name) and name not in found
        found.append(name if plain else f"arg{i}")
    return found


def _function(
    names: Sequence[str], values: Sequence[Step | Any], places: Sequence[int], spec: Spec
) -> Callable[..., Any]:
    def expression(*args: Any, **kwargs: Any) -> Any:
        found = list(signature.bind(*args, **kwargs).args)
        for value in values[len(names) :]:
            if isinstance(value, Step):
                found.append(value.word(*(found[i] for i in value.operands)))
            else:
                found.append(value)
        return unflatten(spec, [found[i] for i in places])

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    signature = inspect.Signature([inspect.Parameter(name, kind) for name in names])
    vars(expression)["__signature__"] = signature
    expression.__doc__ = "An expression of SymPy, of arrays."
    return expression
