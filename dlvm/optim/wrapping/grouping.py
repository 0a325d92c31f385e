"""Optimisers of some of the parameters: masks, and one optimiser for each group.

An optimiser of a group sees None in the place of every other leaf, for which it remembers nothing.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

from dlvm.base.errors import ArgumentError
from dlvm.dsl.call.undecorated import computing
from dlvm.dsl.trace.configuration import static
from dlvm.dsl.trace.facing import facing_users
from dlvm.dsl.trace.scopes import user_origin
from dlvm.dsl.trace.trees import flatten_with_none, labels, spread, unflatten
from dlvm.optim.combining import Stateless, Transformation, check_transformation
from dlvm.optim.leaves import aligned, zeros
from dlvm.optim.places import Marks, chosen_places


class MaskedState(NamedTuple):
    """The state of the inner optimiser, for the leaves where the mask holds."""

    inner_state: Any


class PartitionState(NamedTuple):
    """The state of the optimiser of each group, by its label."""

    inner_states: Any


@dataclass(frozen=True)
class SetToZero(Stateless):
    """Sets all updates to zero."""

    @computing
    def update(self, updates: Any, state: Any, params: Any = None, **extra: Any) -> tuple[Any, Any]:
        """Zeros."""
        return zeros(updates), state


@dataclass(frozen=True)
class Masked:
    """Applies the inner optimiser where a mask holds; other updates are passed on unchanged."""

    inner: Transformation
    mask: Annotated[Marks, static]

    @computing
    def init(self, params: Any) -> Any:
        """The state for the leaves where the mask holds."""
        places = chosen_places(self.mask.tree, params)
        return MaskedState(self.inner.init(_only(places, params)))

    @computing
    def update(self, updates: Any, state: Any, params: Any = None, **extra: Any) -> tuple[Any, Any]:
        """A step of the inner optimiser for the leaves where the mask holds."""
        places = chosen_places(self.mask.tree, updates if params is None else params)
        return _step(self.inner, places, updates, state, params, extra)


@dataclass(frozen=True)
class Partition:
    """One optimiser for each label."""

    transforms: Mapping[Any, Transformation]
    labels: Annotated[Marks, static]

    @computing
    def init(self, params: Any) -> Any:
        """The state of each optimiser, for the leaves with its label."""
        found = self._labels(params)
        return PartitionState(
            {
                label: MaskedState(made.init(_only([x == label for x in found], params)))
                for label, made in self.transforms.items()
            }
        )

    @computing
    def update(self, updates: Any, state: Any, params: Any = None, **extra: Any) -> tuple[Any, Any]:
        """A step of each optimiser."""
        found, states = self._labels(updates if params is None else params), dict[Any, Any]()
        for label, made in self.transforms.items():
            places, before = [x == label for x in found], state.inner_states[label]
            updates, states[label] = _step(made, places, updates, before, params, extra)
        return updates, PartitionState(states)

    def _labels(self, params: Any) -> list[Any]:
        leaves, spec = flatten_with_none(params)
        try:
            found = list(spread(self.labels.of(params), spec))
        except ValueError as error:
            raise _wrong_labels("the labels have another structure than the parameters") from error
        for i, (label, leaf) in enumerate(zip(found, leaves, strict=True)):
            if leaf is not None and not (isinstance(label, Hashable) and label in self.transforms):
                known = ", ".join(map(repr, self.transforms))
                raise _wrong_labels(
                    f"expected one of the labels {known} for {labels(spec, 'params')[i]}, found "
                    f"{label!r}"
                )
        return found


def _only(places: list[bool], tree: Any) -> Any:
    """A tree with None in all other places."""
    leaves, spec = flatten_with_none(tree)
    return unflatten(spec, [x if there else None for x, there in zip(leaves, places, strict=True)])


def _step(
    inner: Transformation, places: list[bool], updates: Any, state: Any, params: Any, extra: Any
) -> tuple[Any, MaskedState]:
    """A step of an optimiser of some places; elsewhere the updates are those that are given."""
    given, spec = flatten_with_none(updates)
    if len(given) != len(places):  # the error says where
        aligned("update", gradients=updates, parameters=params)
    some = None if params is None else _only(places, params)
    if some is None and params is not None:  # one array, which is of another group
        return updates, state
    moved, after = inner.update(_only(places, updates), state.inner_state, some, **extra)
    rows = zip(places, flatten_with_none(moved)[0], given, strict=True)
    kept = unflatten(spec, [new if there else old for there, new, old in rows])
    return kept, MaskedState(after)


def _wrong_labels(said: str) -> ArgumentError:
    return ArgumentError(
        f"partition: {said}",
        origin=user_origin(),
        remedy="give a tree of labels like the parameters, in which one label may stand for a "
        "whole subtree, or a function of the parameters that returns such a tree; each label is a "
        "key of transforms",
    )


@facing_users
def set_to_zero() -> SetToZero:
    """Sets all updates to zero, which freezes the parameters of a group."""
    return SetToZero()


@facing_users
def masked(inner: Transformation, mask: Any) -> Masked:
    """Applies ``inner`` to the leaves where ``mask`` holds; other updates are passed on unchanged.

    ``mask`` is a tree of True and False, or a function that gives one for the parameters.
    """
    check_transformation("masked", inner)
    return Masked(inner, Marks(mask))


@facing_users
def freeze(mask: Any) -> Masked:
    """Sets updates to zero where ``mask`` holds; it stands last in a ``chain``."""
    return Masked(SetToZero(), Marks(mask))


@facing_users
def partition(transforms: Mapping[Any, Transformation], param_labels: Any) -> Partition:
    """Applies to each group of parameters the optimiser that ``transforms`` has for its label.

    ``param_labels`` is a tree of labels, or a function of the parameters that returns one::

        optim.partition(
            {"body": optim.adam(1e-3), "head": optim.set_to_zero()},
            {"layers": "body", "out": "head"},
        )
    """
    for made in transforms.values():
        check_transformation("partition", made)
    return Partition(dict(transforms), Marks(param_labels))
