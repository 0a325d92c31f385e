"""Random programs with gradients and random annotations, on simulated ranks and on one device.

    python -m tests.opt.sharding.programs COUNT [SEED]

Each is a staged function of two arrays of floats and one of integers, differentiated and optimised
as every program is, with ``Shard`` operations behind random values. The command ends with how often
each family and each kind of exchange came up, and fails where one was too rare to say anything.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from random import Random
from typing import Any

import numpy as np

import dlvm
from dlvm import ops, passes
from dlvm.compile import expand
from dlvm.ir import Array, Module, Op, Value
from dlvm.ir.sharding.mesh import Mesh, Sharding
from dlvm.ops import Shard
from dlvm.ops.arrays.indexing import Indexed
from dlvm.opt.pipelines import meaning
from dlvm.opt.regions.inlining import keep_reachable

from .simulated import (
    Ranks,
    Spec,
    annotated,
    assert_as_on_one_device,
    params_lie,
    random_spec,
    sites,
)

SIZES = (4, 8, 6, 5, 7, 3)
"""A third of them divides no mesh evenly."""
FEW = 3
"""What integers are less than."""
MOST = 600
"""Elements of a value at most."""
SHAPES = (
    *("a=2,b=2", "a=2,b=2", "a=2,b=2", "a=2", "a=2", "a=3", "a=4", "a=5", "a=2,b=3", "a=8"),
    *("a=4,b=2", "a=2,b=4", "a=2,b=2,c=2", "a=3/8", "a=2/4", "a=2/4,b=2", "a=1/4,b=2"),
)
FAMILIES: dict[str, Any] = {
    "indexing": Indexed,
    "control": ops.Control,
    "reduction": ops.Reduction,
    "contraction": ops.Contraction,
    "running": ops.Running,
    "ordering": ops.Ordering,
    "factorisation": ops.Factorisation,
    "movement": ops.Movement,
    "creation": ops.Creation,
    "element-wise": ops.Elementwise,
}
EACH = 3
"""How often a program is annotated."""
QUICK = tuple(step for step in meaning() if step.name != "rearrange")
"""What optimises a program: the dearest pass makes nothing that others do not."""
KINDS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "permute_ranks")


@dataclass(frozen=True)
class Drawn:
    """A program, arguments, a mesh, and what is said of where values lie."""

    module: Module
    arrays: tuple[Array, ...]
    want: tuple[Array, ...]
    mesh: Mesh
    lie: Mapping[Value, Sharding]
    marks: Mapping[Value, Spec]

    def annotated(self) -> Module:
        """The module that says where values lie."""
        return annotated(self.module, self.lie, self.marks)

    def ranks(self) -> Ranks:
        """The program of each rank."""
        return Ranks.of(self.annotated(), self.mesh)

    def with_one_less(self) -> Drawn:
        """The same without the last annotation."""
        return replace(self, marks=dict(list(self.marks.items())[:-1]))


class Steps:
    """One function drawn step by step: the same choices whenever it is traced."""

    def __init__(self, rng: Random, control: bool) -> None:
        kinds = [*STEPS, *(CONTROL if control else ())]
        count = rng.randrange(3, 8)
        drawn = [rng.choice(kinds) for _ in range(count)]
        if control:
            drawn[rng.randrange(count)] = rng.choice(CONTROL)
        self.choices = [(step, rng.randrange(1 << 30)) for step in drawn]

    def loss(self, x: Any, w: Any, i: Any) -> Any:
        """A number, and other results."""
        pool, whole = [x, w], [i]
        for step, seed in self.choices:
            step(Draft(pool, whole, Random(seed)))
        y, z = pool[-1], pool[-2]
        loss = dlvm.tanh(y).sum() + (z * z).mean() * 0.1
        ends = [f(v, v.ndim - 1) if v.ndim else v for f, v in ((dlvm.sort, y), (dlvm.cumsum, z))]
        return loss, (
            y,
            whole[-1],
            dlvm.argmax(dlvm.sin(x), 0),
            *ends,
            dlvm.sort(whole[-1] * i.sum()),
        )

    def staged(self, x: Any, w: Any, i: Any) -> Any:
        """The loss, other results, and the gradients."""
        (v, rest), d = dlvm.value_and_grad(self.loss, wrt=(0, 1), has_aux=True)(x, w, i)
        return v, rest, d


@dataclass
class Draft:
    """What a step has to work on."""

    pool: list[Any]
    whole: list[Any]
    dice: Random

    def value(self, rank: int = 0, ok: Callable[[Any], bool] = lambda v: True) -> Any:
        """A recent value of at least this rank."""
        fitting = [v for v in self.pool if v.ndim >= rank and ok(v)]
        return self.dice.choice(fitting[-4:]) if fitting else None

    def like(self, x: Any) -> Any:
        """A recent value of the same shape, which may have open sizes."""
        return self.value(ok=lambda v: str(v.shape) == str(x.shape))

    def axis(self, x: Any) -> int:
        return self.dice.randrange(x.ndim)

    def give(self, y: Any) -> None:
        """One more value, unless it is large."""
        if np.prod([n if isinstance(n, int) else 6 for n in y.shape]) <= MOST:
            self.pool.append(y)

    def index(self, size: Any) -> Any:
        """Integers that point into an axis of this size: by a remainder, or by what they are."""
        if isinstance(size, int) and size >= FEW and self.dice.random() < 0.5:
            return self.whole[0]
        fitting = [i for i in self.whole if i.ndim == 1]
        return self.dice.choice(fitting) % size


STEPS: list[Callable[[Draft], None]] = []
CONTROL: list[Callable[[Draft], None]] = []


def _step(*weights: int, to: list[Callable[[Draft], None]] = STEPS) -> Any:
    def register(step: Callable[[Draft], None]) -> Callable[[Draft], None]:
        to.extend([step] * (weights[0] if weights else 1))
        return step

    return register


@_step(2)
def _of_elements(d: Draft) -> None:
    a = d.value()
    b = d.like(a)
    d.give(d.dice.choice((lambda: dlvm.tanh(a) * b, lambda: dlvm.where(a > b, a, 2 * b - a)))())


@_step(3)
def _product(d: Draft) -> None:
    a = d.value(2)
    b = d.value(2, lambda v: v.ndim == a.ndim == 2 and str(v.shape[0]) == str(a.shape[1]))
    d.give((a @ b if b is not None else a @ dlvm.matrix_transpose(a)) * 0.3)


@_step(3)
def _folded(d: Draft) -> None:
    a = d.value(1)
    fold = d.dice.choice((dlvm.sum, dlvm.max, dlvm.mean, dlvm.logsumexp, dlvm.min))
    sign = {dlvm.max: -1, dlvm.min: 1}.get(fold)  # of one sign, so that a zero would show
    d.give(fold(a if sign is None else sign * (a * a + 0.1), axis=d.axis(a)))


@_step()
def _softmax(d: Draft) -> None:
    a = d.value(1)
    d.give(dlvm.nn.softmax(a, d.axis(a)))


@_step(2)
def _running(d: Draft) -> None:
    a = d.value(1)
    running = d.dice.choice((dlvm.cumsum, dlvm.cumulative_max, dlvm.cumulative_logsumexp))
    d.give(running(a, axis=d.axis(a)))


@_step(2)
def _sorted(d: Draft) -> None:
    a = d.value(1)
    d.give(dlvm.sort(a, axis=d.axis(a)))


@_step()
def _joined(d: Draft) -> None:
    a = d.value(1)
    b = d.like(a)
    d.give(dlvm.concat([a, b * 2], d.axis(a)))


@_step()
def _part(d: Draft) -> None:
    a, dice = d.value(1), d.dice
    cut = [slice(None)] * a.ndim
    cut[d.axis(a)] = dice.choice((slice(1, None), slice(None, -1), slice(None, None, 2)))
    d.give(a[tuple(cut)])


@_step()
def _padded(d: Draft) -> None:
    a = d.value(1)
    at = d.axis(a)
    d.give(dlvm.pad(a, [(1, 2) if k == at else (0, 0) for k in range(a.ndim)]))


@_step(2)
def _reshaped(d: Draft) -> None:
    a = d.value(1)
    n = a.shape[0]
    if a.ndim >= 2 and d.dice.random() < 0.7:
        d.give(a.reshape(n * a.shape[1], *a.shape[2:]))
    elif isinstance(n, int) and n % 2 == 0:
        d.give(a.reshape(*d.dice.choice(((2, n // 2), (n // 2, 2))), *a.shape[1:]))
    else:
        d.give(a.reshape(1, *a.shape) + 0.5)


@_step()
def _turned(d: Draft) -> None:
    a = d.value(2)
    order = list(range(a.ndim))
    d.dice.shuffle(order)
    d.give(dlvm.permute_dims(a, order))


@_step()
def _taken(d: Draft) -> None:
    a = d.value(1)
    at = d.axis(a)
    d.give(dlvm.take(a, d.index(a.shape[at]), axis=at))


@_step()
def _put(d: Draft) -> None:
    a = d.value(1)
    at = d.index(a.shape[0])
    rows = dlvm.take(a, at, axis=0) * 0.5
    d.give(a.at[at].add(rows) if d.dice.random() < 0.7 else a.at[at].max(rows))


@_step(2)
def _centred(d: Draft) -> None:
    a = d.value(1)
    d.give(a - a.mean(d.axis(a), keepdims=True))


@_step()
def _whole_numbers(d: Draft) -> None:
    i = d.dice.choice(d.whole)
    j = d.dice.choice((lambda: i * i - 3, lambda: dlvm.cumsum(i), lambda: dlvm.sort(i)))()
    d.whole.append(j % 17 if d.dice.random() < 0.7 else j + j.sum() - j.max())


@_step(8)
def _solved(d: Draft) -> None:
    a = d.value(2, lambda v: isinstance(v.shape[-1], int) and isinstance(v.shape[-2], int))
    if a is not None:
        square = a @ dlvm.matrix_transpose(a) + 4 * dlvm.eye(a.shape[-2])
        d.give(dlvm.linalg.cholesky(square))
        d.give(dlvm.linalg.solve(square, a))


@_step(to=CONTROL)
def _chosen(d: Draft) -> None:
    a = d.value()
    sides = (lambda v: dlvm.sin(v) * v, lambda v: v - v.sum() * 0.1)
    d.give(dlvm.cond(a.sum() > 0, *d.dice.sample(sides, 2), a))


@_step(to=CONTROL)
def _switched(d: Draft) -> None:
    a, i = d.value(), d.whole[0]
    ways = (lambda v: dlvm.cos(v), lambda v: v * v.mean(), lambda v: 0.5 * v)
    d.give(dlvm.switch(i.sum() % 3, ways, a))


@_step(9)
def _repeated(d: Draft) -> None:
    a = d.value(2)
    n = a.shape[-1]
    turn = d.dice.random() < 0.5 and isinstance(n, int)
    w = dlvm.ones((n, n)) / n if turn else None
    d.give(dlvm.fori_loop(0, 3, lambda k, v: dlvm.tanh(v @ w + v if turn else v * 0.5), a))


@_step(8)
def _scanned(d: Draft) -> None:
    a = d.value(2)
    start = dlvm.zeros(a.shape[1:])

    def body(carry: Any, row: Any) -> Any:
        new = dlvm.tanh(carry * 0.5 + row)
        return new, new * row.sum()

    last, rows = dlvm.scan(body, start, a, reverse=d.dice.random() < 0.3)
    d.give(last)
    d.give(rows)


@cache
def program(
    seed: int, sizes: tuple[int, ...] = SIZES
) -> tuple[Module, tuple[Array, ...], tuple[Array, ...]]:
    """An optimised module, arguments, and what one device makes of them."""
    rng = Random(f"program {seed}")
    steps = Steps(rng, control=rng.random() < 0.2)
    n, m, k = (rng.choice(sizes) for _ in range(3))
    numbers = np.random.default_rng(rng.randrange(1 << 30))
    arrays = (
        numbers.normal(size=(n, m)),
        numbers.normal(size=(m, k)),
        numbers.integers(0, FEW, rng.choice(sizes)),
    )
    given: Sequence[Any] = arrays
    if rng.random() < 0.2:
        given = (dlvm.spec(f"f64[N,{m}]"), dlvm.spec(f"f64[{m},K]"), dlvm.spec("i64[P]"))
    traced = expand(dlvm.function(steps.staged).trace(*given))
    module = passes.run(traced, (keep_reachable, *QUICK))
    return module, arrays, module.run(module.main.name, *arrays)


def drawn(
    seed: int, shapes: Sequence[str] = SHAPES, sizes: tuple[int, ...] = SIZES, most: int = 5
) -> Drawn:
    """What a seed says, with fewer than ``most`` annotations: several annotate one program."""
    module, arrays, want = program(seed // EACH, sizes)
    rng = Random(f"annotations {seed}")
    mesh = Mesh.named(rng.choice(shapes))
    known = sites(module)
    chosen = rng.sample(known, min(len(known), rng.randrange(1, most)))
    marks = {v: random_spec(v.type.rank, mesh, rng) for v in chosen}
    return Drawn(module, arrays, want, mesh, params_lie(module, mesh, rng, 0.3), marks)


@dataclass
class Seen:
    """What programs had."""

    programs: int = 0
    ops: Counter[str] = field(default_factory=Counter[str])
    kinds: Counter[str] = field(default_factory=Counter[str])
    exchanges: int = 0
    fewer: int = 0

    def judge(self, seed: int) -> None:
        """Compare the program of a seed with one device, and note what it had."""
        program = drawn(seed)
        ranks = program.ranks()
        assert_as_on_one_device(ranks, program.arrays, program.want)
        self.programs += 1
        walked = [op for fn in ranks.placed.functions for op in fn.walk()]
        self.ops.update(_family(op) for op in walked if not isinstance(op, Shard))
        found = ranks.collectives()
        self.kinds.update(list(found))
        if seed % EACH == 0:
            ranks.checked()
            self.exchanges += found.total()
            self.fewer += program.with_one_less().ranks().collectives().total()

    def enough(self) -> None:
        """An error if a family or a kind of exchange is rare, or annotations have no effect."""
        for family in FAMILIES:
            assert self.ops[family] >= 0.02 * self.ops.total(), f"{family}: {self.ops}"
        for kind in KINDS:
            assert self.kinds[kind] >= 0.05 * self.programs, f"{kind}: {self.kinds}"
        assert self.fewer < self.exchanges

    def __str__(self) -> str:
        shares = ", ".join(f"{f} {self.ops[f] / self.ops.total():.1%}" for f in FAMILIES)
        kinds = ", ".join(f"{k} {self.kinds[k] / self.programs:.1%}" for k in KINDS)
        return (
            f"{self.programs} programs; operations: {shares}; programs with: {kinds}; "
            f"{self.exchanges} exchanges, {self.fewer} with one annotation less"
        )


def _family(op: Op) -> str:
    return next((name for name, cls in FAMILIES.items() if isinstance(op, cls)), op.name)


def main(count: int, seed: int) -> None:
    """Programs of consecutive seeds, and what they had."""
    seen, start = Seen(), time.process_time()
    for at in range(seed, seed + count):
        try:
            seen.judge(at)
        except BaseException:
            print(f"the program of seed {at}")
            raise
    print(f"{seen}; {time.process_time() - start:.1f} s of processor time")
    seen.enough()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
