"""Checks of users' derivative rules: the trees, shapes and element types that they take and return.

Each mistake is reported at the line where the rule is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from dlvm.base.errors import DTypeError, Origin, ShapeError, UserError
from dlvm.dsl.trace.comparing import mismatch
from dlvm.dsl.trace.operands import element, fresh, staged
from dlvm.dsl.trace.provenance import arisen
from dlvm.dsl.trace.scopes import is_sequence
from dlvm.dsl.trace.specs import Arguments, Parameters
from dlvm.dsl.trace.tensor import Tensor
from dlvm.dsl.trace.tracing import Input, Written
from dlvm.dsl.trace.trees import Spec as Tree
from dlvm.dsl.trace.trees import flatten, flatten_with_none, labels, unflatten
from dlvm.dsl.words.calling import called, written_at
from dlvm.ir import TensorType, zeros
from dlvm.ir.sizes.equations import unequal


@dataclass(frozen=True)
class Signed:
    """A function and the arguments of one call of it."""

    parameters: Parameters
    arguments: Arguments
    tree: Tree
    tensors: Sequence[Tensor]

    @property
    def name(self) -> str:
        """The name under which the user knows the function."""
        return self.parameters.name

    @property
    def fixed(self) -> tuple[Any, ...]:
        """The arguments that are not differentiated, in the order of parameters."""
        return tuple(value for _, value in self.arguments.static)

    @property
    def fixed_names(self) -> tuple[str, ...]:
        """The names of the arguments that are not differentiated."""
        return tuple(name for name, _ in self.arguments.static)

    def values(self, leaves: Sequence[Any]) -> tuple[Any, ...]:
        """The differentiated arguments, rebuilt from these leaves."""
        return unflatten(self.tree, leaves)

    def run(self, fn: Callable[..., Any], leaves: Sequence[Any]) -> Any:
        """Calls a function that has the same parameters."""
        return self.parameters.call(fn, self.arguments, self.values(leaves))

    def inputs(self) -> list[Input]:
        """A staged input for each leaf."""
        names = [path for _, path in self.arguments.leaf_names(self.tree)]
        columns = zip(names, self.arguments.leaf_labels(self.tree), self.tensors, strict=True)
        return [Input(path, label, x.type, x.weak, given=x.contents) for path, label, x in columns]

    def spread(self, types: Sequence[TensorType], found: Sequence[Any]) -> list[Any]:
        """One entry for each argument leaf: the given value for a float, None for any
        other type.
        """
        rest = iter(found)
        return [next(rest) if t.dtype.is_float else None for t in types]


@dataclass(frozen=True)
class Rule:
    """A function of the user's that is a derivative rule or a part of one; messages call it
    ``what``.
    """

    fn: Callable[..., Any]
    what: str

    @property
    def origin(self) -> Origin | None:
        """The line where the rule is written."""
        return written_at(self.fn)

    def of(self, *takes: str) -> Callable[..., Any]:
        """The rule applied to these arguments."""
        return partial(called, self.what, ", ".join(takes), self.fn)

    def pair(self, out: Any, what: str) -> tuple[Any, Any]:
        """The two parts of a value that must be a pair."""
        if is_sequence(out) and len(out) == 2:
            return out[0], out[1]
        raise UserError(
            f"{self.what} must give a pair ({what}), found {_described(out)}",
            origin=self.origin,
            remedy="return both, as a tuple",
        )

    def results(self, out: Any, primal: Written) -> list[Tensor]:
        """The results, which must be those of the function."""
        leaves, tree = flatten(out)
        if tree != primal.tree:
            raise self._structure("results like the function's", primal.tree, tree)
        names = labels(primal.tree, "result")
        return [
            self._leaf(x, t, name) for x, t, name in zip(leaves, primal.types, names, strict=True)
        ]

    def tangents(self, out: Any, primal: Written) -> list[Tensor]:
        """A tangent for each float result, zeros for None."""
        names = labels(primal.tree, "tangent")
        return list(self._like(out, primal.tree, primal.types, names, "tangents like the results"))

    def cotangents(self, out: Any, made: Signed) -> list[Tensor]:
        """A cotangent for each float among the arguments, zeros for None."""
        names = made.arguments.names
        if not is_sequence(out) or len(out) != len(names):
            raise UserError(
                f"{self.what} must give a tuple with a cotangent for each of "
                f"({', '.join(names)}), found {_described(out)}",
                origin=self.origin,
                remedy="return (ct,), a tuple of one"
                if len(names) == 1
                else f"return ({', '.join(f'ct_{n}' for n in names)}), with None for zero",
            )
        types, said = [x.type for x in made.tensors], made.arguments.leaf_labels(made.tree)
        found: list[Tensor] = []
        at = 0
        for name, child, given in zip(names, made.tree.children(), out, strict=True):
            end = at + child.num_leaves
            what = f"for {name} a tree like it"
            found += self._like(given, child, types[at:end], said[at:end], what)
            at = end
        return found

    def _like(
        self, out: Any, tree: Tree, types: Sequence[TensorType], names: Sequence[str], what: str
    ) -> Iterator[Tensor]:
        """One value for each float of a tree, in the tree's structure; None stands for zero."""
        given: list[Any] = [None] * len(types)
        if out is not None:
            leaves, found = flatten_with_none(out)
            places, expected = flatten_with_none(unflatten(tree, range(len(types))))
            if found != expected:
                raise self._structure(what, expected, found)
            pairs = zip(places, leaves, strict=True)
            given = [leaf for place, leaf in pairs if place is not None]
        for x, t, name in zip(given, types, names, strict=True):
            if t.dtype.is_float:
                yield fresh(zeros(t)) if x is None else self._leaf(x, t, name)
            elif x is not None:
                raise DTypeError(
                    f"{self.what} must give None for {name}, which is {t}: no derivative flows "
                    "through it",
                    origin=self.origin,
                    remedy="return None in its place",
                )

    def _leaf(self, x: Any, t: TensorType, name: str) -> Tensor:
        """A leaf of exactly this type; a Python number is converted if the shape fits."""
        leaf = staged(x)
        if leaf.weak and leaf.type.shape == t.shape and t.dtype.is_float:
            leaf = fresh(element(leaf, t.dtype))
        if leaf.type == t:
            return leaf
        kind = ShapeError if leaf.type.shape != t.shape else DTypeError
        raise kind(
            f"{self.what} must give for {name} the type {t}, found {leaf.type}",
            origin=self.origin,
            remedy="sum over what was stretched, or stretch with dlvm.broadcast_to"
            if kind is ShapeError
            else f"convert it with dlvm.astype(..., dlvm.{t.dtype.numpy.name})",
            notes=arisen(unequal(leaf.type.shape, t.shape), [leaf.contents]),
        )

    def _structure(self, what: str, expected: Tree, found: Tree) -> UserError:
        return mismatch(
            f"{self.what} must give {what}",
            "result",
            expected,
            found,
            "return the same dicts and tuples, with an array in the place of each",
            self.origin,
        )


def _described(out: Any) -> str:
    if is_sequence(out):
        return f"a {type(out).__name__} of {len(out)}"
    return f"one {type(out).__name__}" if out is not None else "None"
