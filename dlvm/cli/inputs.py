"""Arrays for parameters of which the command line gives only the types: random, from a seed."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dlvm.base.errors import UserError
from dlvm.compile import Options, Road
from dlvm.dsl.trace.specs import Spec
from dlvm.dsl.trace.trees import flatten, map_leaves
from dlvm.ir import Array, TensorType
from dlvm.ir.sizes.dims import evaluate, symbols

from .naming import (
    add_named,
    add_schedule,
    add_size,
    array_file,
    call_written,
    module_named,
    schedule_named,
    sizes_of,
)

USUAL_SIZE = 4


@dataclass(frozen=True)
class Call:
    """A program ready to run: its road, its arrays, and a function that calls it."""

    road: Road
    arrays: list[Array]
    run: Callable[[], Any]


def add_inputs(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of every command that runs a program."""
    add_named(parser)
    add_schedule(parser)
    parser.add_argument("--seed", type=int, default=0, help="seed of the random arrays")
    add_size(parser, f"draw arrays of this value of an open size; default {USUAL_SIZE}")


def call_named(options: argparse.Namespace) -> Call:
    """The named program, compiled, with arrays for its parameters."""
    draw = Random(options.seed, sizes_of(options.size))
    found, schedule = (
        call_written(options.program, options.arguments),
        schedule_named(options.schedule),
    )
    if found is None:
        road = Road(module_named(options.program).verify(), Options(schedule=schedule))
        arrays = _for_parameters(road, options.arguments, draw)
        return Call(road, arrays, lambda: road.executable.run([np.array(a) for a in arrays]))
    function, written = found
    given = [map_leaves(draw.filled, a) for a in written.given]
    named = {name: map_leaves(draw.filled, a) for name, a in written.named.items()}
    made = function.compile(*written.given, **written.named)
    made = made if schedule is None else made.scheduled(schedule)
    bound = function.parameters.bind(tuple(given), named).values
    leaves = [np.asarray(x) for x in flatten(bound)[0]]
    captured = [np.asarray(c.array) for c in made.program.trace.arrays.values()]
    return Call(made.road, [*leaves, *captured], lambda: made(*given, **named))


def _for_parameters(road: Road, texts: Sequence[str], draw: Random) -> list[Array]:
    params = road.traced.main.params
    if len(texts) > len(params):
        raise UserError(
            f"@{road.traced.main.name}: expected up to {len(params)} arguments, found {len(texts)}"
        )
    given = [np.asarray(array_file(text)) for text in texts]
    return given + [draw.array(p.type) for p in params[len(given) :]]


@dataclass
class Random:
    """Draws random arrays: floats from a normal distribution, integers and bools from 0 and 1."""

    seed: int
    sizes: dict[str, int]

    def __post_init__(self) -> None:
        self.dice = np.random.default_rng(self.seed)

    def filled(self, leaf: Any) -> Any:
        """A random array if the leaf is a type, else the leaf."""
        return self.array(leaf.type) if isinstance(leaf, Spec) else leaf

    def array(self, t: TensorType) -> Array:
        """A random array of this type."""
        sizes = {s: self.sizes.get(s, USUAL_SIZE) for d in t.shape for s in symbols(d)}
        shape = tuple(evaluate(d, sizes) for d in t.shape)
        drawn = self.dice.standard_normal if t.dtype.is_float else self._bits
        return np.asarray(drawn(shape)).astype(t.dtype.numpy)

    def _bits(self, shape: tuple[int, ...]) -> Any:
        return self.dice.integers(0, 2, shape)
