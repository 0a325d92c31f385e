"""How ranks reach one another: measured by ``dlvm doctor --measure`` under a launcher, and kept.

Between ranks of one machine, and between machines. What an axis of a mesh costs follows from which
of them it crosses; every rank takes what the first one has kept, so all make the same program.
"""

from __future__ import annotations

import json
import platform
import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, replace

import numpy as np

from dlvm.gen.llvm.cache import store
from dlvm.gen.llvm.disk import digest
from dlvm.ir import Array
from dlvm.ir.sharding.mesh import Link, Mesh

from .mpi import Processes

PLACES = NEAR, FAR = "near", "far"
"""Between ranks of one machine, and between machines."""
SMALL, LARGE, ROUNDS = 8, 4 << 20, 21
"""Bytes of a message, and how often each is sent."""


def measure(world: Processes) -> dict[str, Link]:
    """The links between these ranks, which all measure together."""
    hosts = _hosts(world)
    first = [r for r in range(len(hosts)) if hosts.index(hosts[r]) == r]
    near = world.mpi.group(hosts.index(hosts[world.rank]), world.rank)
    far = world.mpi.group(int(world.rank in first), world.rank)
    counts = (hosts.count(hosts[world.rank]), len(first) if world.rank in first else 1)
    own = [_link(world, g, n) for g, n in zip((near, far), counts, strict=True)]
    every = world.gathered(np.array([[x.latency, x.bandwidth] if x else [0, 0] for x in own]))
    found: dict[str, Link] = {}
    for i, place in enumerate(PLACES):
        seen = [row[i] for row in every if row[i].any()]
        if seen:  # ranks wait for the slowest of them
            found[place] = Link(max(float(x[0]) for x in seen), min(float(x[1]) for x in seen))
    return found


def _link(world: Processes, group: int, count: int) -> Link | None:
    """What a ring of so many ranks says; see ``dlvm.cost.exchange``."""
    if count < 2:
        return None
    small, large = (_seconds(world, group, count, size) for size in (SMALL, LARGE))
    turns = count - 1
    return Link(small / turns, turns * LARGE / large)


def _seconds(world: Processes, group: int, count: int, size: int) -> float:
    """The median time in which all ranks of a group give so many bytes to all."""
    x = np.zeros(size, np.uint8)
    times: list[float] = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        world.mpi.gather(x, group, count)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def _hosts(world: Processes) -> list[bytes]:
    name = bytes.fromhex(digest("host", platform.node()))
    return [row.tobytes() for row in world.gathered(np.frombuffer(name, np.uint8))]


def _key() -> str:
    return digest("links", platform.node())


def keep(links: dict[str, Link] | None) -> bool:
    """Keep what was measured, or (None) forget it; whether there is a place for it."""
    place = store()
    if place is None:
        return False
    if links is None:
        place.remove(_key())
    else:
        place.put(_key(), json.dumps({n: asdict(x) for n, x in links.items()}).encode())
    return True


def kept() -> dict[str, Link]:
    """What was measured from this machine."""
    place = store()
    data = None if place is None else place.get(_key())
    return {n: Link(**x) for n, x in json.loads(data).items()} if data else {}


def linked(mesh: Mesh, world: Processes) -> Mesh:
    """A mesh of processes with the links of its axes that were measured; all ranks call it."""
    own = kept()
    words = np.array([_words(own.get(place)) for place in PLACES])
    first = world.gathered(words)[0]
    hosts = _hosts(world)
    links: list[tuple[str, Link]] = []
    for name, _ in mesh.axes:
        crosses = any(
            len({hosts[r] for r in mesh.group(rank, (name,))}) > 1 for rank in range(mesh.size)
        )
        if (row := first[int(crosses)]).any():
            links.append((name, Link(*map(float, row))))
    return replace(mesh, links=tuple(links))


def _words(link: Link | None) -> Sequence[float] | Array:
    return [link.latency, link.bandwidth] if link else [0.0, 0.0]
