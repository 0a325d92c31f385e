"""Every operation alone: ranks that share its operands have together what one device has."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any

import numpy as np
import pytest

from dlvm.base.errors import UserError
from dlvm.compile import expand
from dlvm.ir import (
    BOOL,
    F16,
    F32,
    F64,
    I32,
    I64,
    U8,
    Array,
    Builder,
    Dim,
    Function,
    Module,
    Op,
    Param,
    TensorType,
    Value,
    literal,
)
from dlvm.ir.interpret import Interpreter
from dlvm.ir.sharding.mesh import Mesh
from dlvm.ir.sharding.pieces import part
from dlvm.ir.sharding.ranks import World
from dlvm.ir.sizes.dims import symbol
from dlvm.ops import Add, Constant, Mul, Neg, Tanh
from dlvm.ops.flow.collectives import (
    AddRanks,
    AllGather,
    AllReduce,
    AllToAll,
    GatherRows,
    PermuteRanks,
    ReduceScatter,
    SwapRows,
)
from dlvm.ops.flow.ranked import MaskShard, Ranked, RankIndex, ShardOf
from dlvm.opt.regions.lowering import lower
from dlvm.passes import run
from dlvm.testing.drawing.dice import Seeded
from dlvm.testing.drawing.drafts import Draft
from dlvm.testing.drawing.random_programs import TRACED, Program, of_one

from .simulated import (
    MESHES,
    Ranks,
    annotated,
    assert_as_on_one_device,
    params_lie,
    random_spec,
    sites,
)

DTYPES = (F64, F64, F32, F16)
SIZES = (8, 6, 5, 4, 9, 3, 1)
OPEN = {"A": 7, "B": 4}


def programs(cls: type[Op], seeds: Sequence[int]) -> Iterator[tuple[Random, Program]]:
    """Small programs of one operation, one in three with open sizes."""
    for seed in seeds:
        rng = Random(f"{cls.name} {seed}")
        dtype = rng.choice(DTYPES)
        values = OPEN if seed % 3 == 2 else {}
        sizes: list[Dim] = [*SIZES, *map(symbol, values), *map(symbol, values)]
        dice = Seeded(rng.randrange(1 << 20))
        d = Draft(dice, (dtype, I64, BOOL), sizes, (Add, Mul, Neg, Tanh), largest=8, most=2000)
        try:
            found = of_one(d, cls, (dtype, I64, BOOL, dtype, rng.choice((I32, U8))), values)
        except UserError:
            continue  # drawn for smaller sizes than these
        if found is not None:
            yield rng, found


def compared(rng: Random, program: Program) -> Ranks | None:
    """A program under random annotations; None where it has no result on one device either."""
    module, mesh = expand(program.module), Mesh.named(rng.choice(MESHES))
    try:
        want = module.run(module.main.name, *program.arrays)
    except UserError:
        return None
    known = sites(module)
    chosen = rng.sample(known, min(len(known), rng.randrange(0, 3)))
    marks = {v: random_spec(v.type.rank, mesh, rng) for v in chosen}
    ranks = Ranks.of(annotated(module, params_lie(module, mesh, rng, 0.8), marks), mesh)
    assert_as_on_one_device(ranks.checked(), program.arrays, want)
    return ranks


@pytest.mark.parametrize("cls", TRACED, ids=lambda cls: cls.name)
def test_ranks_have_what_one_device_has(cls: type[Op], capsys: pytest.CaptureFixture[str]):
    found = [compared(rng, program) for rng, program in programs(cls, range(4))]
    assert any(found), "no program of it was compared"


# -- what depends on ranks ---------------------------------------------------------------------

SPLIT = ("data=2,b=2", "data=3", "data=2/8", "data=3/4,b=2", "data=5", "data=1/3")
AXES = ("data",)


def pieces_of(mesh: Mesh, x: Array, axis: int) -> list[Array]:
    """Pieces of an array by what NumPy says: padded with zeros, then split."""
    count, each = mesh.count(AXES), -(-x.shape[axis] // mesh.parts(AXES))
    local = each * -(-mesh.parts(AXES) // count)
    width = [(0, 0)] * x.ndim
    width[axis] = (0, count * local - x.shape[axis])
    return np.split(np.pad(x, width), count, axis) if local else [x] * count


def ranked(named: str, n: int, rng: Random) -> Iterator[tuple[Ranked, list[Any], list[Any]]]:
    """Each operation of ranks: what they give, and what NumPy says that they get."""
    mesh = Mesh.named(named)
    count, one = mesh.count(AXES), (AXES, named)
    numbers = np.random.default_rng(rng.randrange(1 << 20))
    dtype = rng.choice((np.float64, np.int32, np.float16))
    x, y = ((numbers.normal(size=(3, n)) * 9).astype(dtype) for _ in range(2))
    cut, cut_y = pieces_of(mesh, x, 1), pieces_of(mesh, y.T, 0)
    local = Param(typed(cut[0]), "x"), Param(typed(cut_y[0]), "y")
    whole = Param(typed(x), "x")
    yield RankIndex(*one), [()] * count, [(i,) for i in range(count)]
    yield ShardOf(*one, 1, whole), [(x,)] * count, [(c,) for c in cut]
    fill = dtype(5)
    kept = pieces_of(mesh, np.ones((3, n), bool), 1)
    masked = [np.where(k, c, fill) for k, c in zip(kept, cut, strict=True)]
    scalar = Param(TensorType(typed(x).dtype), "f")
    given = [(c + (k == 0).astype(dtype), fill) for k, c in zip(kept, cut, strict=True)]
    yield MaskShard(*one, 1, local[0], scalar, n), given, [(m,) for m in masked]
    own = [(x + dtype(i), y.T * dtype(i)) for i in range(count)]
    joins = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}
    for word, join in joins.items():
        wide = [[a.astype(np.float32) if dtype == np.float16 else a for a in o] for o in own]
        total = [functools.reduce(join, each).astype(dtype) for each in zip(*wide, strict=True)]
        xs = (whole, Param(typed(y.T), "y"))
        yield AllReduce(*one, xs, word), own, [tuple(total)] * count
        split = zip(pieces_of(mesh, total[0], 1), pieces_of(mesh, total[1], 0), strict=True)
        yield ReduceScatter(*one, xs, (1, 0), word), own, list(split)
    both = list(zip(cut, cut_y, strict=True))
    yield AllGather(*one, local, (1, 0), (n, n)), both, [(x, y.T)] * count
    turned = zip(pieces_of(mesh, x, 0), pieces_of(mesh, y.T, 1), strict=True)
    yield AllToAll(*one, local, (1, 0), (0, 1), (n, n)), both, list(turned)
    rows = [np.stack([x + dtype(i) * dtype(k) for k in range(count)]) for i in range(count)]
    each = Param(typed(rows[0]), "x")
    swapped = [(np.stack([r[k] for r in rows]),) for k in range(count)]
    yield SwapRows(*one, (each,)), [(r,) for r in rows], swapped
    yield (
        GatherRows(*one, (whole,)),
        [o[:1] for o in own],
        [(np.stack([o[0] for o in own]),)] * count,
    )
    added = [(x + i).astype("f4") for i in range(count)]
    total = functools.reduce(np.add, added)
    yield AddRanks(*one, (Param(typed(total), "x"),)), [(a,) for a in added], [(total,)] * count
    order = list(range(count))
    rng.shuffle(order)
    yield PermuteRanks(*one, local, tuple(order)), both, [both[i] for i in order]


def typed(x: Array) -> TensorType:
    names = {"float64": F64, "float32": F32, "float16": F16, "int32": I32}
    return TensorType(names[x.dtype.name], x.shape)


@pytest.mark.parametrize("named", SPLIT)
@np.errstate(all="ignore")
def test_ranks_get_what_numpy_says(named: str):
    seen: Counter[type[Op]] = Counter()
    for n in (0, 1, 2, 5, 8, 9):
        for op, given, want in ranked(named, n, Random(f"{named} {n}")):
            seen[type(op)] += 1
            found = op.reference_of_ranks(given)
            assert len(found) == len(want)
            for mine, right in zip(found, want, strict=True):
                for a, b, t in zip(mine, right, op.result_types, strict=True):
                    np.testing.assert_array_equal(a, b, str(op))
                    assert a.shape == t.shape
                    assert a.dtype == t.dtype.numpy
    leaves = {cls for cls in _below(Ranked) if "name" in cls.__dict__}
    assert seen.keys() == leaves


def _below(cls: type[Any]) -> Iterator[type[Any]]:
    for below in cls.__subclasses__():
        yield below
        yield from _below(below)


def cut(named: str, n: Dim, x: Value) -> Op:
    return ShardOf(AXES, named, 1, x)


def masked(named: str, n: Dim, x: Value) -> Op:
    return MaskShard(AXES, named, 1, x, Constant(literal(5.0, F64)), n)


@pytest.mark.parametrize("make", [cut, masked])
@pytest.mark.parametrize("named", SPLIT)
def test_what_they_are_lowered_to_gives_the_same(named: str, make: Callable[..., Op]):
    mesh, open_size = Mesh.named(named), symbol("N")
    for n in (0, 1, 2, 5, 8, 9):
        x = np.random.default_rng(n).normal(size=(2, n))
        each = [x] * mesh.size if make is cut else cut_by_ranks(mesh, x)
        for size in (n, open_size):
            lowered, direct = programs_of(mesh, make, size)
            binds = np.zeros((n, 0))
            found, want = (run_by_ranks(mesh, m, each, binds) for m in (lowered, direct))
            for a, b in zip(found, want, strict=True):
                np.testing.assert_array_equal(a, b)


def cut_by_ranks(mesh: Mesh, x: Array) -> list[Array]:
    """The piece of each rank, with NaN beyond the end."""
    local = int(mesh.local(x.shape[1], AXES))
    return [part(x, 1, mesh.index(r, AXES), local, np.nan) for r in range(mesh.size)]


def programs_of(mesh: Mesh, make: Callable[..., Op], n: Dim) -> tuple[Module, Module]:
    """The operation after it was lowered, and as it is."""
    local = n if make is cut else mesh.local(n, AXES)
    x = Param(TensorType(F64, (2, local)), "x")
    binds = Param(TensorType(F64, (n, 0)), "binds")
    with (builder := Builder()):
        op = make(str(mesh), n, x)
    module = Module((Function("main", (x, binds), tuple(builder.ops), (op,)),)).verify()
    lowered = run(module, (lower,), verify=True)
    assert not any(isinstance(op, ShardOf | MaskShard) for op in lowered.main.walk())
    return lowered, module


def run_by_ranks(mesh: Mesh, module: Module, each: Sequence[Array], binds: Array) -> list[Array]:
    def work(rank: int) -> Array:
        return Interpreter(module).enter("main", [each[rank], binds])[0]

    return World(mesh).run(work)
