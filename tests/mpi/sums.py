"""The bits of a sum over ranks, for three sizes; run by mpiexec."""

from __future__ import annotations

import hashlib

import numpy as np

import dlvm


def main() -> None:
    mesh = dlvm.mesh({"data": -1})
    total = dlvm.function(lambda x: dlvm.shard(x, "data", None).sum(0), mesh=mesh)
    for size in (64, 16 << 10, 4 << 20):
        own = np.random.default_rng(mesh.rank).normal(size=(1, size // 4)).astype("f4")
        found = total(mesh.from_local(own, "data", None))
        if mesh.rank == 0:
            print(size, hashlib.sha256(found.tobytes()).hexdigest()[:16])


def by_library() -> None:
    """Sums of the library lie near ours."""
    mesh = dlvm.mesh({"data": -1}, sums="library")
    total = dlvm.function(lambda x: dlvm.shard(x, "data", None).sum(0), mesh=mesh)
    for dtype in ("f4", "f8"):
        rows = np.random.default_rng(1).normal(size=(mesh.size, 4000)).astype(dtype)
        found = total(mesh.from_local(rows[mesh.rank][None], "data", None))
        np.testing.assert_allclose(found, rows.sum(0), rtol=1e-5, atol=1e-5)


if __name__ == "__main__":
    main()
    by_library()
