"""A program of the ranks of a simulated mesh: each rank calls it in a thread of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dlvm.base import environment
from dlvm.base.errors import CompilerError
from dlvm.gen.call.executable import Executable
from dlvm.gen.call.interface import Placed, Placement
from dlvm.gen.loops.status import Unreached
from dlvm.gen.rank_tables import Simulated
from dlvm.ir import Array, Function, TensorType
from dlvm.ir.interpret import bind
from dlvm.ir.sharding import ranks
from dlvm.ir.sharding.mesh import Mesh, Sharding
from dlvm.ir.sharding.sharded import Sharded
from dlvm.ir.sizes.dims import evaluate
from dlvm.ir.types import contents

Run = Callable[[Sequence[Any]], Sequence[Array]]


@dataclass(frozen=True)
class MeshExecutable:
    """What runs on each rank (``runs``), and how arguments and results lie."""

    mesh: Mesh
    whole: Placement
    runs: Sequence[Run]

    def run(self, arrays: Sequence[Any]) -> tuple[Any, ...]:
        """The results for arrays in parameter order; of those that are shared, pieces."""
        params, held = self.whole.params, ranks.held(self.mesh)
        carried = self.whole.sizes
        names = [p.name for p in params]
        sizes = bind([p.type for p in params], arrays, names)
        given = [self._given(x, p.sharding, p.donated) for x, p in zip(arrays, params, strict=True)]
        if carried:
            carrier = np.empty((*(sizes[s] for s in carried), 0), np.uint8)
            given.append([carrier] * len(held))

        def work(rank: int) -> Sequence[Array]:
            at = held.index(rank)
            return self.runs[at]([xs[at] for xs in given])

        found = ranks.world_of(self.mesh).run(work)
        pieces = zip(*found, strict=True)
        return tuple(
            self._result(xs, r.type, r.sharding, sizes)
            for xs, r in zip(pieces, self.whole.results, strict=True)
        )

    def _given(self, x: Any, sharding: Sharding | None, donated: bool) -> Sequence[Array]:
        """What each rank gets; what several ranks would overwrite, each as a copy but the first."""
        if isinstance(x, Sharded):
            pieces: Sequence[Array] = x.pieces
        else:
            held = ranks.held(self.mesh)
            pieces = Sharded.cut(self.mesh, x, sharding).pieces if sharding else [x] * len(held)
        if not donated:
            return pieces
        seen: set[int] = set()
        own: list[Array] = []
        for piece in pieces:
            own.append(np.array(piece) if id(piece) in seen else piece)
            seen.add(id(piece))
        return own

    def _compare(self, pieces: Sequence[Array], sharding: Sharding) -> None:
        """An error where two ranks that have one piece have other bits in it."""
        first: dict[tuple[int, ...], int] = {}
        if self.mesh.processes:
            pieces = ranks.world_of(self.mesh).gathered(np.asarray(pieces[0]))
        for rank, piece in enumerate(pieces):
            at = tuple(self.mesh.index(rank, axes) for axes in sharding)
            other = first.setdefault(at, rank)
            if contents(np.asarray(piece)) != contents(np.asarray(pieces[other])):
                raise CompilerError(
                    f"a result of @{self.whole.name} differs on the ranks {other} and {rank}"
                )

    def _result(
        self, pieces: Sequence[Array], t: TensorType, sharding: Sharding | None, sizes: Any
    ) -> Any:
        if environment.comparing_ranks():
            self._compare(pieces, sharding or ((),) * t.rank)
        if not sharding:
            return pieces[0]
        return Sharded(self.mesh, pieces, [evaluate(d, sizes) for d in t.shape], sharding)


def placement(whole: Function, local: Function) -> Placement:
    """How arguments and results of a function lie, before it was partitioned into ``local``."""
    more = local.params[len(whole.params) :]
    return Placement(
        whole.name,
        tuple(Placed(p.type, p.sharding, p.name, p.donated) for p in whole.params),
        tuple(Placed(r.type, r.sharding) for r in whole.results),
        tuple(str(d) for p in more for d in p.type.shape[:-1]),
    )


def on_ranks(mesh: Mesh, code: Executable) -> list[Run]:
    """The code as each rank that this process holds calls it."""
    if mesh.processes:
        return [code.of_rank(ranks.world_of(mesh).table(code.interface.exchanges)).run]
    simulated = Simulated(mesh, code.interface.exchanges)

    def running(words: Array) -> Run:
        own = code.of_rank(words)

        def run(arrays: Sequence[Any]) -> Sequence[Array]:
            try:
                return own.run(arrays)
            except Unreached as error:
                raise simulated.raised.error or error from None

        return run

    return [running(words) for words in simulated.tables]
