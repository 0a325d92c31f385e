"""Kills processes at random moments while they save states; the last whole state must load.

python -m tests.files.state_kills 100
"""

from __future__ import annotations

import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import dlvm

MESH = dlvm.mesh({"data": 3}, simulate=3)
NUMBER = 8
"""Bytes of the number of a step, as a child tells it."""


def tree(step: int) -> Any:
    """A state that says in each element of which step it is."""
    shared = dlvm.shard(np.full((200, 50), float(step)), "data", None, mesh=MESH)
    return {"shared": shared, "plain": np.full(1000, step), "step": step}


def save_for_ever(folder: Path, first: int, tells: int) -> None:
    """Saves one step after the other, every second one twice, and tells which are done."""
    runs = dlvm.states(folder, max_to_keep=2)
    for step in range(first, first + 10_000):
        for _ in range(1 + step % 2):
            runs.save(step, tree(step))
        os.write(tells, step.to_bytes(NUMBER, "little"))


def killed(folder: Path, first: int, rng: random.Random) -> bool:
    """Kills a child that saves from a step on; whether it left an unfinished state."""
    hears, tells = os.pipe()
    child = os.fork()
    if not child:
        try:
            save_for_ever(folder, first, tells)
        finally:
            os._exit(1)
    os.close(tells)
    told = os.read(hears, NUMBER)
    time.sleep(rng.uniform(0, 0.05))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    while more := os.read(hears, NUMBER):
        told = more
    os.close(hears)
    done = int.from_bytes(told, "little")
    runs = dlvm.states(folder)
    step, found = runs.restore(tree(0))
    assert step in (done, done + 1), (step, done)
    for at in runs.all_steps():
        step, found = runs.restore(tree(0), step=at)
        assert found["step"] == at and (found["plain"] == at).all()
        assert (found["shared"].whole() == at).all()
    return len([*folder.iterdir()]) > len(runs.all_steps())


def main(kills: int) -> int:
    """Kills that many processes; the number of them that left an unfinished state."""
    rng = random.Random(0)
    with tempfile.TemporaryDirectory() as folder:
        unfinished = sum(killed(Path(folder), 10_000 * kill, rng) for kill in range(kills))
        dlvm.states(folder).save(10_000 * kills, tree(0))
        left = len([*Path(folder).iterdir()])
    assert left <= 3, f"{left} folders are left"
    print(f"{kills} killed, of which {unfinished} left an unfinished state; every whole one loads")
    return unfinished


if __name__ == "__main__":
    main(int(sys.argv[1]))
