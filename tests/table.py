"""What works of each operation, found out by trying: ``python -m tests.table`` prints it.

Each operation is placed in a few small programs, as the random programs place it, and each
column is a claim that is tried on them. A cell is ``yes``, a dash where the claim means nothing
(for a reason that is said), or what went wrong.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from dlvm.ad import expand
from dlvm.gen.build import build
from dlvm.ir import BOOL, F64, I64, OPS, Declaration, Module, Op, parse
from dlvm.ir.sharding.mesh import Mesh
from dlvm.ir.sharding.ranks import World
from dlvm.ir.sizes import dims
from dlvm.ops import Add, Creation, Mul, Neg, Tanh
from dlvm.ops.flow.ranked import Ranked
from dlvm.opt.pipelines import DEFAULT
from dlvm.passes import run
from dlvm.testing.drawing.dice import Seeded
from dlvm.testing.drawing.drafts import Draft
from dlvm.testing.drawing.random_programs import Program, of_one
from dlvm.testing.drawing.ranked_families import MESH
from tests.ad.building import assert_adjoint, derivatives, draw, floats

ENOUGH = 4


def samples(cls: type[Op], symbolic: bool) -> Iterator[Program]:
    """Small programs whose results are those of one operation of this class."""
    found = 0
    for seed in range(200):
        program = sample(cls, seed, {"A": 3, "B": 2} if symbolic else {})
        if program is not None:
            found += 1
            yield program
        if found == ENOUGH:
            return


def sample(cls: type[Op], seed: int, values: dict[str, int]) -> Program | None:
    """One small program, where this seed gives one."""
    sizes = [dims.symbol(s) for s in values] if values else [3, 2, 1]
    d = Draft(Seeded(seed), (F64, I64, BOOL), sizes, (Add, Mul, Neg, Tanh))
    return of_one(d, cls, (F64, I64, BOOL, F64), values)


# -- the columns: each raises where its claim does not hold -------------------------------------


def reference(program: Program) -> None:
    """The interpreter runs it."""
    program.module.verify()
    program.run()


def text(program: Program) -> None:
    """Its text reads back."""
    if parse(str(program.module)) != program.module:
        raise ValueError("the text does not read back as the module")


def arguments(module: Module, name: str, seed: int = 0) -> list[np.ndarray]:
    """Arguments away from kinks and poles."""
    rng = np.random.default_rng(seed)
    return [draw(p.type, rng, A=3, B=2) for p in module.function(name).params]


def assert_same(found: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> None:
    """Integers equal, floats to within a few units in the last place of sums of their size."""
    for a, b in zip(found, expected, strict=True):
        if b.dtype.kind in "iub":
            np.testing.assert_array_equal(a, b)
        else:
            np.testing.assert_allclose(a, b, rtol=1e-13, atol=1e-14)


def compiled(program: Program) -> None:
    """Machine code gives what the interpreter gives."""
    module = program.module
    code = build(run(expand(module), DEFAULT, verify=True))
    for seed in range(3):
        args = arguments(module, "main", seed)
        assert_same(code.run(args), module.run("main", *args))


def adjoint(program: Program) -> None:
    """The adjoint is what finite differences say."""
    module = derivatives(program.module.main, *program.module.entries[1:])
    assert_adjoint(module, "main", "d", arguments(module, "main"), np.random.default_rng(1))


def second(program: Program) -> None:
    """The adjoint of the adjoint too."""
    module = derivatives(program.module.main, *program.module.entries[1:])
    assert_adjoint(module, "d", "dd", arguments(module, "d"), np.random.default_rng(1))


def tangent(program: Program) -> None:
    """``<w, J v> = <J' w, v>``: forward and reverse mode agree."""
    module = derivatives(program.module.main, *program.module.entries[1:])
    main, rng = module.function("main"), np.random.default_rng(2)
    args = arguments(module, "main")
    v = [rng.normal(size=args[i].shape) for i in floats(main)]
    out = module.run("v", *args, *v)[len(main.results) :]
    w = [rng.normal(size=o.shape) for o in out]
    gradients = module.run("d", *args, *w)
    left = sum(float((a * b).sum()) for a, b in zip(w, out, strict=True))
    right = sum(float((a * b).sum()) for a, b in zip(v, gradients, strict=False))
    np.testing.assert_allclose(left, right, rtol=1e-10, atol=1e-12)


def batched(program: Program) -> None:
    """A batch of three gives what three runs give."""
    main = program.module.main
    declared = Declaration("batched", "b", "main", axes=(0,) * len(main.params), size=3)
    module = expand(Module((*program.module.entries, declared)).verify()).verify()
    runs = [arguments(module, "main", seed) for seed in range(3)]
    together = module.run("b", *(np.stack(a) for a in zip(*runs, strict=True)))
    apart = zip(*(module.run("main", *args) for args in runs), strict=True)
    for found, expected in zip(together, apart, strict=True):
        np.testing.assert_allclose(found, np.stack(expected), rtol=1e-12)


def symbolic(program: Program) -> None:
    """One module, and one piece of machine code, serves every size."""
    main = program.module.verify().main
    code = build(run(expand(program.module), DEFAULT))
    for a, b in ((0, 1), (1, 0), (3, 2), (17, 5)):
        rng = np.random.default_rng(3)
        args = [draw(p.type, rng, A=a, B=b) for p in main.params]
        assert_same(code.run(args), program.module.run("main", *args))


Claim = Callable[[Program], None]
CLAIMS: tuple[Claim, ...] = (
    reference,
    text,
    compiled,
    adjoint,
    tangent,
    second,
    batched,
    symbolic,
)
COLUMNS = {claim.__name__: claim for claim in CLAIMS}
DERIVATIVES = ("adjoint", "tangent", "second")


@dataclass(frozen=True)
class Cell:
    """Whether a claim holds of an operation; a reason where it means nothing or fails."""

    state: str
    reason: str = ""


def reason_for_none(cls: type[Op], column: str) -> str:
    """Why a column means nothing for an operation."""
    if column == "batched" and issubclass(cls, Ranked):
        return cls.nondifferentiable
    if column in DERIVATIVES and issubclass(cls, Creation):
        return "it has no operands"
    return cls.nondifferentiable if column in DERIVATIVES else ""


def cell(cls: type[Op], column: str) -> Cell:
    """One claim about one operation."""
    if reason := reason_for_none(cls, column):
        return Cell("-", reason)
    tried = 0
    for program in samples(cls, symbolic=column == "symbolic"):
        tried += 1
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                on_a_rank(cls, partial(COLUMNS[column], program))
        except Exception as error:
            return Cell("NO", f"{type(error).__name__}: {str(error).strip().splitlines()[0]}")
    return Cell("yes") if tried else Cell("NO", "no random program holds it")


def on_a_rank(cls: type[Op], claim: Callable[[], None]) -> None:
    """Try a claim; what depends on ranks is run by the only rank of a mesh."""
    if issubclass(cls, Ranked):
        World(Mesh.named(MESH)).run(lambda _: claim())
    else:
        claim()


def table() -> dict[str, dict[str, Cell]]:
    """Every operation, every column."""
    return {name: {column: cell(cls, column) for column in COLUMNS} for name, cls in OPS.items()}


def main() -> None:
    """Print the table, then what is behind each cell that is not ``yes``."""
    found = table()
    print(f"{'':14}" + "".join(f"{column:>11}" for column in COLUMNS))
    for name, row in found.items():
        print(f"{name:14}" + "".join(f"{c.state:>11}" for c in row.values()))
    reasons = [(n, c.state, c.reason) for n, row in found.items() for c in row.values() if c.reason]
    for name, state, reason in dict.fromkeys(reasons):
        print(f"{state:3} {name}: {reason}")


if __name__ == "__main__":
    main()
