"""A Python function and the options with which it is staged, shared by all of its programs."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dlvm.base.debugging import looks
from dlvm.compile import Options, interpreting
from dlvm.dsl.trace.defaults import default_float
from dlvm.dsl.trace.openness import generalised
from dlvm.dsl.trace.specs import Arguments, Parameters, known_sharding
from dlvm.dsl.trace.tracing import Input
from dlvm.dsl.trace.trees import Spec as Tree
from dlvm.dsl.trace.trees import unflatten
from dlvm.ir import TensorType, Value

if TYPE_CHECKING:
    from dlvm.dsl.owned.arguments import Donated

    from .short_cuts import Shortened
    from .signature import Signature


@dataclass(frozen=True, eq=False)
class Source:
    """``roots`` are the functions whose captured state is read; ``known`` arrays never change."""

    fn: Callable[..., Any]
    parameters: Parameters
    donate: frozenset[str] = frozenset()
    dynamic: Mapping[str, str] | bool = False
    options: Options = field(default_factory=Options)
    roots: tuple[Any, ...] = ()
    known: tuple[Any, ...] = ()
    alone: bool = False
    """Whether dlvm staged it for calls without a decorator, of which nobody is told."""
    donated: Donated | None = None
    """What tells which donated arguments of a call others can reach; None if none are donated."""
    short: Shortened = field(default_factory=dict[Any, Any])
    """The first tier of its cache of programs: the short cuts for each form of call."""
    programs: list[Any] = field(default_factory=list[Any])
    """The ``Programs`` compiled from it, once there are any."""

    @property
    def label(self) -> str:
        """The name of the function in IR text and messages."""
        return re.sub(r"\W", "_", getattr(self.fn, "__name__", "f")).strip("_") or "f"

    @property
    def checked(self) -> bool:
        """Whether a program compiled now checks every access to memory."""
        return looks(self.options.debug).bounds

    def inputs(
        self,
        arguments: Arguments,
        tree: Tree,
        leaves: Sequence[TensorType],
        weak: Sequence[bool],
        given: Sequence[Value | None],
    ) -> list[Input]:
        """The staged arguments with names and types; ``given`` are their values in an
        outer trace.
        """
        names = [path for _, path in arguments.leaf_names(tree)]
        labels = arguments.leaf_labels(tree)
        held = f"an argument of {self.label}"
        columns = zip(names, labels, leaves, weak, given, strict=True)
        return [Input(name, label, t, w, held, value) for name, label, t, w, value in columns]

    def body(self, arguments: Arguments, tree: Tree) -> Callable[[list[Any]], Any]:
        """The Python function on staged leaves."""
        return lambda tensors: self.parameters.call(self.fn, arguments, unflatten(tree, tensors))

    def signature(self, arguments: Arguments, tree: Tree, leaves: Sequence[Any]) -> Signature:
        """The signature of a call with such arguments; open sizes are symbols."""
        from .signature import Signature

        opened = generalised(leaves, arguments.leaf_names(tree), self.dynamic)
        weak = [type(x) in (bool, int, float) for x in leaves]
        leaf_types = tuple(zip(opened, weak, strict=True))
        labels = arguments.leaf_labels(tree)
        mesh = self.options.mesh
        cut = [known_sharding(x, n, mesh) for x, n in zip(leaves, labels, strict=True)]
        return Signature(
            arguments.names,
            tree,
            arguments.static_key(),
            leaf_types,
            interpreting(),
            self.checked,
            default_float(),
            tuple(cut) if any(cut) else (),
        )
