"""``load``: a model of ONNX as a compiled function, and as a plain one that can be trained.

A model is read and checked as a whole when it is loaded: operations and element types that dlvm
does not have are refused before anything runs. A call compiles a program for the values of its
static inputs; sizes that the file names, such as ``batch``, stay open.
"""

from __future__ import annotations

import mmap
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dlvm.base.errors import ArgumentError, CallError, did_you_mean
from dlvm.dsl.call.compiled import Compiled
from dlvm.dsl.call.function import StagedFunction
from dlvm.dsl.call.programs import COMPILING
from dlvm.dsl.trace.facing import facing_users
from dlvm.dsl.trace.scopes import user_origin
from dlvm.dsl.trace.specs import Spec
from dlvm.dsl.trace.tensor import Tensor
from dlvm.ir import Module
from dlvm.ir import dtype_of as ours

from . import operations as operations
from .checking import check, versions_of
from .graphs import Place, Run, concrete, results
from .messages import Function, Graph
from .messages import Model as Message
from .programs import Programs
from .programs import key_of as static_key
from .table import Key, key_of, short
from .uses import find_uses
from .values import Results, Symbols, spec_of, typed
from .weights import stored
from .wire import Malformed, read_model

Array = np.ndarray[Any, Any]
SHOWN = 12
"""Weights that the text of a model lists."""


@facing_users
def load(
    model: str | os.PathLike[str] | bytes | bytearray | memoryview,
    *,
    sizes: Mapping[str, int] | None = None,
    training: bool = False,
    folder: str | os.PathLike[str] | None = None,
) -> Model:
    """The model of ONNX in a file or in bytes: called, it runs; ``function`` can be trained.

    ``sizes={"batch": 8}`` fixes open sizes. ``training`` makes batch normalisation use the
    statistics of the batch and dropout drop, for which ``m.function`` takes a ``random_key=``.
    ``folder`` is where weights in other files lie, by default the folder of the file.
    """
    if isinstance(model, bytes | bytearray | memoryview):
        data: Any = model if isinstance(model, bytes) else bytes(model)  # which nobody changes
        place = None
    else:
        path = Path(os.fsdecode(model))
        if "\0" in str(path):
            raise ArgumentError(
                f"onnx: expected the path of a model, found text with a NUL: {str(path)[:60]!r}",
                origin=user_origin(),
                remedy="give the path without it, or the bytes of the model as bytes",
            )
        data, place = _mapped(path), path.parent
    place = place if folder is None else Path(os.fsdecode(folder))
    return Model(read_model(data), sizes or {}, training, place)


def _mapped(path: Path) -> Any:
    """The bytes of a file, mapped into memory; what is written to them stays here."""
    with path.open("rb") as file:
        if not os.fstat(file.fileno()).st_size:
            return b""
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)


@dataclass(frozen=True, slots=True)
class _Prepared:
    """Weights that nobody can change, and the programs that were made for their values."""

    weights: dict[str, Array]
    programs: Programs

    def holds(self, weights: Mapping[str, Array]) -> bool:
        """Whether they are for these arrays."""
        known = self.weights
        return known.keys() == weights.keys() and all(known[n] is w for n, w in weights.items())


class Model:
    """A model of ONNX: ``m(x)`` or ``m(name=x)`` runs it, compiled, and gives a tuple with names.

    ``weights`` are its parameters by name. They are read-only; another array in place of one is
    copied by the next call, for which what is computed of weights alone is prepared anew.
    ``constants`` are the other floats that the file stores: exponents, limits, masks.
    ``function(weights, *inputs)`` is the model as a plain function of both, to be staged and
    differentiated with respect to them.
    """

    def __init__(
        self, message: Message, sizes: Mapping[str, int], training: bool, folder: Path | None
    ) -> None:
        if message.graph is None:
            raise Malformed("onnx: expected a model with a graph, found none")
        self._graph: Graph = message.graph
        self._functions: dict[Key, Function] = {
            key_of(f"{f.domain or ''}::{f.name}"): f for f in message.functions
        }
        self._versions = versions_of(message)
        self._folder, self._training = folder, training
        check(self._graph, self._functions)
        finding, must = find_uses(self._graph, self._functions)
        self._stored = stored(self._graph, self._functions, finding, folder)
        self.weights: dict[str, Array] = dict(self._stored.weights)
        self.constants: dict[str, Array] = dict(self._stored.constants)
        self._name = self._graph.name or "model"
        self._prepared = self._preparing(dict(self.weights))
        arrays = self._stored.names
        self._bytes = self._stored.bytes
        symbols = Symbols(sizes)
        given = [x for x in self._graph.input if x.name not in arrays]
        self.inputs = tuple(symbols.value(x, (x.name or "") in must) for x in given)
        maps = {name for n in self._graph.node if n.op_type == "ZipMap" for name in n.output}
        self.outputs = tuple(symbols.value(x, False, x.name in maps) for x in self._graph.output)

    @property
    def label(self) -> str:
        """The name of the graph as an identifier, which its programs have."""
        return re.sub(r"\W", "_", self._name) or "model"

    @property
    def programs(self) -> tuple[Compiled, ...]:
        """The programs that calls with the present weights have made, the latest used first."""
        return tuple(p.run for p in self._prepared.programs.made)

    @facing_users
    def __call__(self, *inputs: Any, **named: Any) -> Results:
        """The outputs for inputs by position or by name: a tuple with names.

        In a staged function it is ``function`` of the present weights.
        """
        names = [v.name for v in self.outputs]
        if any(isinstance(x, Tensor) for x in (*inputs, *named.values())):
            return Results.of(names, self._run(self.weights, self._named(inputs, named)))
        given = self._bound(inputs, named)
        program = self._program(self._static(given), self._present(), given)
        found = program(given)
        return Results.of(names, [np.asarray(x) for x in found])

    @facing_users
    def function(
        self, weights: Mapping[str, Any], /, *inputs: Any, random_key: Any = None, **named: Any
    ) -> tuple[Any, ...]:
        """The outputs for weights and inputs, as a plain function: stage it, differentiate it.

        ``weights`` is a dict such as ``m.weights``; a name of ``m.constants`` in it replaces that
        constant. ``random_key`` is a key of ``dlvm.random`` for dropout and random operations.
        """
        return self._run(weights, self._named(inputs, named), random_key)

    @facing_users
    def trace(self, *inputs: Any, **named: Any) -> Module:
        """The program for such inputs before compilation, a function of the weights and them."""
        given = self._bound(inputs, named)
        static = self._static(given)

        def model(weights: dict[str, Any], inputs: dict[str, Any]) -> tuple[Any, ...]:
            return self._run(weights, {**static, **inputs})

        model.__name__ = self.label
        return StagedFunction(model).trace(_kinds(self.weights), self._specs(given))

    def _run(
        self, weights: Mapping[str, Any], given: Mapping[str, Any], key: Any = None
    ) -> tuple[Any, ...]:
        run = Run(self._functions, self._versions, self._folder, self._training, key, self._bytes)
        inner = self._stored.inner
        run.arrays = {id(inner[n]): w for n, w in weights.items() if n in inner}
        missing = sorted(self.weights.keys() - weights.keys() - given.keys())
        if missing:
            raise ArgumentError(
                f"onnx: expected weights by the names of m.weights, found none for {missing[0]!r}",
                origin=user_origin(),
                remedy="give m.weights, or a dict with the same names",
            )
        outermost = self._stored.outermost()
        constants = {n: x.copy() for n, x in outermost.items()}  # no argument of a trace
        values = {**constants, **weights, **given}
        nodes = Graph(node=self._graph.node, output=self._graph.output, name=self._graph.name)
        found = results(Place(run, self._versions, {}), nodes, values, ())
        return tuple(map(concrete, found))

    # -- arguments -----------------------------------------------------------------------------

    def _named(self, inputs: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
        """The inputs by name; those that stand for a weight or constant may be left out."""
        names = [v.name for v in self.inputs]
        others = self._stored.names
        given = {**dict(zip(names, inputs, strict=False)), **named}
        wrong = [n for n in named if n not in names and n not in others]
        if len(inputs) > len(names) or wrong or len(given) != len(inputs) + len(named):
            near = f"no input {short(wrong[0])!r}{did_you_mean(wrong[0], names)}" if wrong else ""
            every = (
                f"the inputs {', '.join(map(short, names))}, each once, found {len(inputs)} by "
                f"position and {', '.join(map(short, named)) or 'none'} by name"
            )
            raise self._misfit(f"has {near or every}")
        missing = [n for n in names if n not in given]
        if missing:
            raise self._misfit(f"needs the input {short(missing[0])!r}, which is not given")
        return given

    def _misfit(self, said: str) -> CallError:
        inputs = ", ".join(f"{short(v.name)!r}: {v}" for v in self.inputs)
        return CallError(
            f"onnx: the model {said}",
            origin=user_origin(),
            remedy=f"give all inputs by position, or by name with **{{name: x}}: {inputs}",
        )

    def _bound(self, inputs: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Array]:
        """The inputs of a call as arrays of their types."""
        types = {v.name: v for v in self.inputs}
        return {
            name: typed(name, types[name], x) if name in types else np.asarray(x)
            for name, x in self._named(inputs, named).items()
        }

    # -- programs ------------------------------------------------------------------------------

    def _static(self, given: dict[str, Array]) -> dict[str, Array]:
        """Takes the static inputs out of those that are given."""
        return {v.name: given.pop(v.name) for v in self.inputs if v.static and v.name in given}

    def _specs(self, given: Mapping[str, Array]) -> dict[str, Spec]:
        types = {v.name: v for v in self.inputs}
        return {name: spec_of(types.get(name), x) for name, x in given.items()}

    def _preparing(self, weights: dict[str, Array]) -> _Prepared:
        return _Prepared(weights, Programs(f"the model {short(self._name)!r}"))

    def _present(self) -> _Prepared:
        """The programs for the present weights; takes copies of those that were replaced."""
        if not self._prepared.holds(given := dict(self.weights)):
            with COMPILING:
                known = self._prepared.weights
                taken = {n: w if known.get(n) is w else _fixed(w) for n, w in given.items()}
                for n, w in taken.items():
                    if self.weights.get(n) is given[n]:
                        self.weights[n] = w
                self._prepared = self._preparing(taken)
        return self._prepared

    def _program(
        self, static: Mapping[str, Array], prepared: _Prepared, given: Mapping[str, Array]
    ) -> Any:
        """The program for the values of weights and static inputs and the types of the others."""
        return prepared.programs.find(
            static_key(static),
            {n: x.type for n, x in self._specs(given).items()},
            {n: x.type for n, x in _kinds(given).items()},
            lambda specs: self._staged(static, prepared.weights).compile(specs),
        )

    def _staged(self, static: Mapping[str, Array], weights: Mapping[str, Array]) -> Any:
        def model(inputs: dict[str, Any]) -> tuple[Any, ...]:
            return self._run(weights, {**static, **inputs})

        model.__name__ = self.label
        return StagedFunction(model, known=tuple(weights.values()))

    def __repr__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield f"ONNX model {self._name!r}, opset {self._versions.get('', 1)}"
        width = max([len(n) for n in (*self.weights, *(v.name for v in self.inputs))], default=0)
        for word, rows in (("input", self.inputs), ("output", self.outputs)):
            yield from (f"  {word:6}  {v.name:{width}}  {v}" for v in rows)
        for name, w in list(self.weights.items())[:SHOWN]:
            yield f"  weight  {name:{width}}  {ours(w.dtype)}{list(w.shape)}"
        total = sum(w.size for w in self.weights.values())
        more = len(self.weights) - SHOWN
        yield f"  {f'{more} more weights, ' if more > 0 else ''}{total:,} parameters in all"


def _fixed(x: Any) -> Array:
    """A copy that nobody can change."""
    copy: Array = np.array(x)
    copy.setflags(write=False)
    return copy


def _kinds(arrays: Mapping[str, Array]) -> dict[str, Spec]:
    return {n: spec_of(None, x) for n, x in arrays.items()}
