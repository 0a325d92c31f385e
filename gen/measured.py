"""How fast this machine is: measured once, when a user asks for it, and kept on the disk.

What is measured are kernels of ours: exponentials in the nearest cache, and negations of arrays
that fill half of each level of memory, on one core. It takes about a second.
"""

from __future__ import annotations

import json
import re
import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from dlvm.cost import WEIGHTS
from dlvm.gen.build import build
from dlvm.gen.call.executable import Executable
from dlvm.gen.llvm.cache import store
from dlvm.gen.llvm.disk import digest
from dlvm.ir import Array, parse
from dlvm.machine import Level, Machine
from dlvm.target import Target

VERSION = "2"
"""That of what is kept."""
CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
SECONDS, ROUNDS = 0.002, 31
"""How long a round lasts at least, and how many there are."""
APART = 8
"""How far from the built-in values a measurement is believed, up or down."""
FAR = 128 << 20
"""Bytes of an array that no cache holds, and that memory has room for."""
KERNEL = "dlvm 1\nfunc @main(%x: f32[N]) -> f32[N] {{\n  %0 = {op} %x : f32[N]\n  return %0\n}}\n"


def measure(target: Target) -> Machine:
    """What kernels find out about the machine that this process runs on."""
    machine = Machine.of(target.cpu, target.vector_bits)
    one = replace(target, threads=1, adaptive=False, measured=None)
    sizes = cache_sizes() or [level.size for level in machine.levels[:-1]]
    exponentials = build(parse(KERNEL.format(op="exp")), one)
    count = sizes[1] // 16
    each = _seconds(exponentials, count) * 1e9 / count * target.lanes(4)
    moving = build(parse(KERNEL.format(op="neg")), one)
    rates = [_rate(moving, size // 2) for size in (*sizes, FAR)]
    rates = [_near(r, level.rate) for r, level in zip(rates, machine.levels, strict=True)]
    for i in range(len(rates) - 1, 0, -1):  # what is nearer is no slower, whatever was beside it
        rates[i - 1] = max(rates[i - 1], rates[i])
    levels = tuple(map(Level, (*sizes, 0), rates))
    return Machine(_near((WEIGHTS["exp"] + 2) / each, machine.rate), levels)


def _near(found: float, built_in: float) -> float:
    """What was measured, within some distance of what is built in."""
    return min(max(found, built_in / APART), built_in * APART)


def _rate(moving: Executable, size: int) -> float:
    """Bytes for a nanosecond, half of ``size`` read and half written."""
    count = size // 8
    return 8 * count / (_seconds(moving, count) * 1e9)


def _seconds(run: Executable, count: int) -> float:
    """The time of a call on so many numbers, less that of a call on one: the median of rounds.

    The two take turns, so that whatever else runs slows both.
    """
    many, one = ([np.full(n, 0.5, np.float32)] for n in (count, 1))
    begin = time.perf_counter()
    run.run(many)  # once at least, however late a busy machine looks at the clock
    turns = 1
    while time.perf_counter() - begin < SECONDS / 2:
        run.run(many)
        turns += 1
    rounds = (_time(run, many, turns) - _time(run, one, turns) for _ in range(ROUNDS))
    return max(1e-9, statistics.median(rounds))


def _time(run: Executable, arrays: Sequence[Array], turns: int) -> float:
    """The seconds of a call, of so many."""
    begin = time.perf_counter()
    for _ in range(turns):
        run.run(arrays)
    return (time.perf_counter() - begin) / turns


def cache_sizes(folder: Path = CACHES) -> list[int]:
    """The bytes that a core has of each of three caches, by what Linux says; nothing elsewhere."""
    found: dict[int, int] = {}
    try:
        for cache in folder.glob("index*"):
            said = {n: (cache / n).read_text().strip() for n in ("level", "type", "size")}
            if said["type"] != "Instruction" and (size := re.fullmatch(r"(\d+)K", said["size"])):
                users = _cores((cache / "shared_cpu_list").read_text())
                found[int(said["level"])] = (int(size[1]) << 10) // users
    except (OSError, ValueError):
        return []
    sizes = [found.get(level, 0) for level in (1, 2, 3)]
    return sizes if 0 < sizes[0] < sizes[1] < sizes[2] else []


def _cores(text: str) -> int:
    """How many cores a list such as ``0-3,8`` names."""
    ends = [part.split("-") for part in text.strip().split(",")]
    return sum(int(part[-1]) - int(part[0]) + 1 for part in ends)


# -- what is kept ----------------------------------------------------------------------------------


def _key(target: Target) -> str:
    return digest("machine", VERSION, target.cpu, target.features, str(target.vector_bits))


def kept(target: Target) -> Machine | None:
    """What was measured of a processor, if it was."""
    place = store()
    data = None if place is None else place.get(_key(target))
    if not data:
        return None
    found: Any = json.loads(data)
    levels = tuple(Level(level["size"], level["rate"]) for level in found["levels"])
    return Machine(found["rate"], levels)


def keep(target: Target, machine: Machine | None) -> bool:
    """Keep what was measured, or (None) forget it; whether there is a place for it."""
    place = store()
    if place is None:
        return False
    if machine is None:
        place.remove(_key(target))
    else:
        place.put(_key(target), json.dumps(asdict(machine)).encode())
    return True


def known(target: Target) -> Target:
    """A target with what was measured of it."""
    return replace(target, measured=kept(target))
