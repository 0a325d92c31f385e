"""python -m benchmarks.sharding [--json PATH]: bytes that each rank sends, and compile times.

The table of docs/sharding.md. XLA is asked where JAX is installed; its programs are read as text.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

import dlvm
from dlvm.opt.sharding.told import exchanges

from .block import WAYS, arrays, step

BYTES = {"f32": 4, "s32": 4, "pred": 1, "f64": 8, "u32": 4, "bf16": 2}
CALLED = re.compile(
    r"= (.*?) (all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute)(?:-start)?\((.*)"
)
GROUPS = re.compile(r"replica_groups=(?:\[\d+,(\d+)\]|\{\{([\d,]*)\}|mesh\[(.*?)\] \{(.*?)\})")
SHAPE = re.compile(r"(\w+)\[([\d,]*)\]")


def ours(name: str) -> dict[str, Any]:
    """Bytes and kinds of the exchanges of our program, its error beside one device, and times."""
    axes, weights, batch = WAYS[name]
    ranks = int(np.prod(list(axes.values())))
    mesh = dlvm.mesh(axes, simulate=ranks)
    p, x, y = arrays()
    rate = 0.1 + 0.01 * list(WAYS).index(name)  # so that each program is compiled anew
    staged = dlvm.function(step(dlvm, dlvm.value_and_grad, rate), mesh=mesh)
    shared = {n: dlvm.shard(v, *weights[n], mesh=mesh) for n, v in p.items()}
    x_, y_ = (dlvm.shard(v, *batch, None, None, mesh=mesh) for v in (x, y))
    first = dlvm.function(step(dlvm, dlvm.value_and_grad, rate / 2))
    _ = first.compile(p, x, y).report  # so that neither is the first to be compiled
    one = dlvm.function(step(dlvm, dlvm.value_and_grad, rate))
    start = time.perf_counter()
    program = staged.compile(shared, x_, y_)
    _ = program.report
    taken = time.perf_counter() - start
    start = time.perf_counter()
    _ = one.compile(p, x, y).report
    alone = time.perf_counter() - start
    (found, value), (wanted, right) = staged(shared, x_, y_), one(p, x, y)
    error = max(float(np.abs(np.asarray(found[n]) - wanted[n]).max()) for n in p)
    told = list(exchanges(program.road.partitioned))
    return {
        "bytes": sum(e.sent for e in told),
        "exchanges": dict(Counter(e.kind for e in told)),
        "error": max(error, abs(float(value - right))),
        "compile_ratio": taken / alone,
    }


def of_xla(name: str) -> dict[str, Any]:
    """The same of the program that XLA makes of the same step."""
    import jax
    import jax.numpy as jnp
    from jax.sharding import NamedSharding, PartitionSpec

    axes, weights, batch = WAYS[name]
    auto = (jax.sharding.AxisType.Auto,) * len(axes)
    mesh = jax.make_mesh(tuple(axes.values()), tuple(axes), axis_types=auto)
    p, x, y = arrays()

    def put(v: Any, names: tuple[Any, ...]) -> Any:
        return jax.device_put(v, NamedSharding(mesh, PartitionSpec(*names)))

    shared = {n: put(v, weights[n]) for n, v in p.items()}
    x_, y_ = (put(v, (*batch, None, None)) for v in (x, y))
    kept = jax.tree.map(lambda a: a.sharding, shared)
    whole = NamedSharding(mesh, PartitionSpec())
    made = jax.jit(step(jnp, jax.value_and_grad), out_shardings=(kept, whole))
    text = made.lower(shared, x_, y_).compile().as_text()
    total, kinds = 0, Counter[str]()
    for line in text.splitlines():
        if (found := CALLED.search(line)) is None:
            continue
        result, kind, rest = found.groups()
        size = sum(
            BYTES[t] * int(np.prod([int(d) for d in s.split(",") if d]))
            for t, s in SHAPE.findall(result)
        )
        count = _ranks(rest)
        kinds[kind] += 1
        total += {
            "all-reduce": 2 * size * (count - 1) // count,
            "all-gather": size * (count - 1) // count,
            "reduce-scatter": size * (count - 1),
            "all-to-all": size * (count - 1) // count,
        }.get(kind, size)
    return {"bytes": total, "exchanges": dict(kinds)}


def _ranks(said: str) -> int:
    """How many ranks take part in a collective, in one of three ways to write it."""
    at = GROUPS.search(said)
    if at is None:
        raise SystemExit(f"no groups of ranks in {said}")
    if at[1] or at[2]:
        return int(at[1]) if at[1] else len(at[2].split(","))
    sizes = dict(part.split("=") for part in at[3].split(","))
    return int(np.prod([int(sizes[name]) for name in at[4].split(",")]))


def main() -> None:
    """Prints the table, and writes it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sharding", description=__doc__)
    parser.add_argument("--json", type=Path, help="where the figures are written")
    asked = parser.parse_args()
    os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    try:
        import jax  # noqa: F401

        peer = True
    except ImportError:
        peer = False
    found: dict[str, Any] = {}
    print(f"{'step':14} {'bytes sent':>12} {'of XLA':>12} {'compile':>8}  exchanges")
    for name in WAYS:
        row = {"dlvm": ours(name), "xla": of_xla(name) if peer else None}
        found[name] = row
        mine, other = row["dlvm"], row["xla"] or {"bytes": "-", "exchanges": {}}
        print(
            f"{name:14} {mine['bytes']:>12} {other['bytes']:>12} {mine['compile_ratio']:>8.2f}",
            end="  ",
        )
        print(mine["exchanges"], other["exchanges"], f"error {mine['error']:.1e}")
    if asked.json:
        asked.json.write_text(json.dumps(found, indent=1) + "\n", "utf8")


if __name__ == "__main__":
    main()
