"""Runs the program of each rank on simulated ranks, and compares it with one device.

What lies beyond the end of an array in the memory of a rank is NaN (or 7 in integers), also where
zeros are promised, so that a result which depends on it shows.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from random import Random
from types import ModuleType
from typing import Any
from unittest import mock

import numpy as np

from dlvm import passes
from dlvm.ir import Array, Builder, Function, Module, Param, Value, parse
from dlvm.ir.interpret import Interpreter, deep_enough
from dlvm.ir.rewrite import Env, mapped
from dlvm.ir.sharding.mesh import Mesh, Sharding, on
from dlvm.ir.sharding.pieces import part, piece_of, whole
from dlvm.ir.sharding.ranks import World
from dlvm.ir.unify import unify
from dlvm.ops import Shard
from dlvm.ops.flow.collectives import Collective
from dlvm.opt.sharding.partition import partition
from dlvm.opt.sharding.propagation import propagate_shardings, sharding_of

MESHES = (
    "data=2,b=2",
    "data=3",
    "data=2,b=4",
    "data=8",
    "data=2/8",
    "data=3/4,b=2",
    "data=2,b=2,c=2",
)
CLOSE = {"f8": 1e-9, "f4": 1e-4}
"""How far a float may be from that of one device, beside the largest of its array."""
HALF = 2e-2


@dataclass(frozen=True)
class Ranks:
    """A program whose values lie somewhere, and the program of each rank."""

    mesh: Mesh
    placed: Module
    local: Module

    @staticmethod
    def of(module: Module, mesh: Mesh) -> Ranks:
        """The program of each rank, as annotations of the module say."""
        with on(mesh):
            placed = passes.run(module, (propagate_shardings,))
            return Ranks(mesh, placed, partition(placed))

    def checked(self) -> Ranks:
        """The same; an error if the program of a rank is not valid, or is not what its text is."""
        self.local.verify()
        text = str(self.local)
        assert str(parse(text)) == text
        return self

    def run(self, arrays: Sequence[Array]) -> list[list[Array]]:
        """The results of each rank: pieces, in the order of the ranks."""
        own = [sharding_of(p) for p in self.placed.main.params]
        sizes = self._sizes(arrays)

        def work(rank: int) -> Any:
            pairs = zip(arrays, own, strict=True)
            given = [piece_of(self.mesh, a, s, rank, tail(a)) for a, s in pairs]
            with np.errstate(all="ignore"), deep_enough():
                return Interpreter(self.local).enter(self.local.main.name, [*given, *sizes])

        with ExitStack() as planted:
            for module in taking_parts():
                planted.enter_context(mock.patch.object(module, "part", spoilt))
            return World(self.mesh).run(work)

    def whole(self, arrays: Sequence[Array], want: Sequence[Array]) -> list[Array]:
        """The results of all ranks together; each rank that holds the same piece must agree."""
        found = self.run(arrays)
        together: list[Array] = []
        for i, (result, expected) in enumerate(zip(self.placed.main.results, want, strict=True)):
            pieces = [rank[i] for rank in found]
            assert {p.dtype for p in pieces} == {expected.dtype}
            sharding = sharding_of(result)
            together.append(whole(self.mesh, pieces, sharding, expected.shape))
            self._agree(pieces, sharding, expected)
        return together

    def _agree(self, pieces: Sequence[Array], sharding: Sharding, expected: Array) -> None:
        """What several ranks hold is the same to the last bit."""
        first: dict[tuple[int, ...], Array] = {}
        for rank, piece in enumerate(pieces):
            at = tuple(self.mesh.index(rank, axes) for axes in sharding)
            pairs = zip(expected.shape, at, piece.shape, strict=True)
            inside = tuple(slice(max(0, min(n - i * k, k))) for n, i, k in pairs)
            found = np.ascontiguousarray(piece[inside])
            assert first.setdefault(at, found).tobytes() == found.tobytes()

    def _sizes(self, arrays: Sequence[Array]) -> list[Array]:
        """The array without elements that binds the open sizes which no piece tells."""
        if len(self.local.main.params) == len(arrays):
            return []
        types = [p.type for p in self.placed.main.params]
        given = [t.with_shape(tuple(map(int, a.shape))) for t, a in zip(types, arrays, strict=True)]
        known = unify(types, given)
        carrier = self.local.main.params[-1]
        names = [str(d) for d in carrier.type.shape[:-1]]
        return [np.zeros([*(int(known[n]) for n in names), 0], np.uint8)]

    def collectives(self) -> Counter[str]:
        """How many of each kind of exchange the program of a rank has."""
        ops = (op for fn in self.local.functions for op in fn.walk())
        return Counter(op.name for op in ops if isinstance(op, Collective))


def tail(x: Array) -> Any:
    """What lies beyond the end of an array."""
    return 7 if x.dtype.kind in "iu" else True if x.dtype.kind == "b" else np.nan


def taking_parts() -> list[ModuleType]:
    """The modules of operations that give a rank a part of an array."""
    ours = [m for name, m in [*sys.modules.items()] if name.startswith("dlvm.ops.")]
    return [m for m in ours if vars(m).get("part") in (part, spoilt)]


def spoilt(x: Array, axis: int, index: int, size: int) -> Array:
    """The part of an array that an exchange gives a rank, with what may lie beyond its end."""
    return part(x, axis, index, size, tail(x))


def assert_as_on_one_device(ranks: Ranks, arrays: Sequence[Array], want: Sequence[Array]) -> None:
    """All ranks together have what one device has: integers exactly, floats closely."""
    found = ranks.whole(arrays, want)
    for a, b in zip(found, want, strict=True):
        assert a.shape == b.shape
        assert_close(a, b)


def assert_close(found: Array, want: Array) -> None:
    """Integers and bools are equal, floats close beside the largest of the array."""
    if want.dtype.kind in "iub":
        np.testing.assert_array_equal(found, want)
        return
    f, w = (x.astype(np.float64) for x in (found, want))
    largest = np.max(np.abs(w), initial=1.0, where=np.isfinite(w))
    within = CLOSE.get(want.dtype.str[1:], HALF) * largest
    np.testing.assert_allclose(f, w, rtol=0, atol=within)


def random_sharding(rank: int, mesh: Mesh, rng: Random) -> Sharding:
    """Axes of the mesh on some axes of an array."""
    found: list[tuple[str, ...]] = [()] * rank
    names = list(mesh.sizes)
    rng.shuffle(names)
    for name in names[: rng.randint(1, 2)]:
        axis = rng.randrange(rank)
        if not found[axis] or not mesh.pieced((*found[axis], name)):
            found[axis] = (*found[axis], name)
    return tuple(found)


def can_be_shared(value: Value) -> bool:
    """Whether ranks may have pieces of a value."""
    return value.type.rank > 0 and value.dtype.kind in "biuf"


def params_lie(module: Module, mesh: Mesh, rng: Random, share: float) -> dict[Value, Sharding]:
    """Where some of the parameters lie."""
    return {
        p: random_sharding(p.type.rank, mesh, rng)
        for p in module.main.params
        if can_be_shared(p) and rng.random() < share
    }


# -- annotations inside a program --------------------------------------------------------------

Spec = tuple[str, ...]


def sites(module: Module) -> list[Value]:
    """The values of the main function and its regions that a ``Shard`` may name, in order."""
    found: list[Value] = []

    def note(fn: Function) -> None:
        found.extend(p for p in fn.params if can_be_shared(p))
        for op in fn.ops:
            for region in op.regions.values():
                note(region)
            found.extend(r for r in op.results if can_be_shared(r))

    note(module.main)
    return found


def random_spec(rank: int, mesh: Mesh, rng: Random) -> Spec:
    """What a ``Shard`` says: names on some axes, others whole or left to the compiler."""
    return tuple(
        "+".join(axes) or rng.choice(("", "...")) for axes in random_sharding(rank, mesh, rng)
    )


def annotated(module: Module, lie: Mapping[Value, Sharding], marks: Mapping[Value, Spec]) -> Module:
    """A copy whose parameters lie somewhere, with a ``Shard`` behind each of the marked values.

    What read such a value reads the ``Shard``.
    """

    def written(fn: Function) -> Function:
        params = tuple(Param(p.type, p.name, p.donated, p.origin) for p in fn.params)
        env: Env = {}
        with (builder := Builder()):
            for old, new in zip(fn.params, params, strict=True):
                new.sharding = lie.get(old)
                env[old] = Shard(new, marks[old]) if old in marks else new
            for op in fn.ops:
                regions = {name: written(region) for name, region in op.regions.items()}
                found = op.rebuild(mapped(op.operands, env), **regions)
                for old, new in zip(op.results, found.results, strict=True):
                    env[old] = Shard(new, marks[old]) if old in marks else new
        return Function(fn.name, params, tuple(builder.ops), tuple(mapped(fn.results, env)))

    main, others = module.main, module.entries[1:]
    return Module((written(main), *others))
