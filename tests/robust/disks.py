"""The cache under many processes, kills, damage and disks that are full or can't be written.

python -m tests.robust.disks [--short]

Always a miss with one warning, never a wrong answer and never an error.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import dlvm
from dlvm.gen.llvm.disk import Store, digest
from dlvm.testing.drawing.dice import Seeded
from tests.fuzz import hostile

from .script import demand, run

LIMIT = 1 << 22
KEYS = [digest(str(i)) for i in range(64)]
PROCESSES = 32
NOBODY = 65534


def content(key: str) -> bytes:
    """What is kept under a key: some kilobytes that only it has."""
    rng = random.Random(key)
    return rng.randbytes(rng.randint(0, 40_000))


class Warned(logging.Handler):
    """Counts warnings of the cache, and keeps them from the screen."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())

    def __enter__(self) -> Warned:
        log = logging.getLogger("dlvm.cache")
        log.addHandler(self)
        log.propagate = False
        return self

    def __exit__(self, *_: object) -> None:
        logging.getLogger("dlvm.cache").removeHandler(self)


def hits(store: Store, what: str) -> int:
    """Every key gives what was put there, or nothing; how many gave it."""
    found = {key: store.get(key) for key in KEYS}
    wrong = [key for key, data in found.items() if data is not None and data != content(key)]
    demand(not wrong, f"{what}: {len(wrong)} wrong answers")
    return sum(data is not None for data in found.values())


# -- many processes --------------------------------------------------------------------------------


def busy(folder: str, seed: int, times: int) -> bool:
    """One process: puts and gets in any order."""
    store, rng = Store(Path(folder), LIMIT // 8), random.Random(seed)
    for _ in range(times):
        key = rng.choice(KEYS)
        if rng.random() < 0.3:
            store.put(key, content(key))
        elif store.get(key) not in (None, content(key)):
            return False
    return True


def programs(folder: str, seed: int) -> bool:
    """One process: compiles what the others compile too, and calls it."""
    os.environ["DLVM_CACHE_DIR"] = folder
    x = np.random.default_rng(seed).normal(size=(20, 30))
    good = True
    for k in range(3):
        f = dlvm.function(lambda x, k=k: dlvm.tanh(x * (k + 1)).sum(1))
        good &= np.allclose(f(x), np.tanh(x * (k + 1)).sum(1))
    return good


def together(short: bool) -> str:
    """Processes at once on one folder that is too small for all; then compiles."""
    count, times = (8, 40) if short else (PROCESSES, 400)
    context = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory() as folder, context.Pool(count) as pool:
        work = [(f"{folder}/store", i, times) for i in range(count)]
        demand(all(pool.starmap(busy, work, 1)), "a process had a wrong answer")
        compiles = [(f"{folder}/programs", i) for i in range(4 if short else count)]
        demand(all(pool.starmap(programs, compiles, 1)), "a program was wrong")
    return f"{count} processes: {count * times} puts and gets, {len(compiles) * 3} compiles"


# -- kills -----------------------------------------------------------------------------------------


def killed(short: bool) -> str:
    """Processes that are killed while they write leave nothing that is wrong."""
    kills, rng = 40 if short else 1000, random.Random(3)
    with tempfile.TemporaryDirectory() as folder, Warned() as warned:
        store = Store(Path(folder) / "store", LIMIT)
        for k in range(kills):
            child = os.fork()
            if not child:
                while True:
                    for key in rng.sample(KEYS, len(KEYS)):
                        store.put(key, content(key))
            time.sleep(rng.uniform(0.0005, 0.02))
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            if k % 20 == 0:
                hits(store, f"after {k} kills")
        found = hits(store, "after all kills")
        unfinished = len([f for f in os.listdir(store.folder) if f.endswith(".unfinished")])
        demand(found > 0, "nothing was kept")
        demand(not warned.messages, f"warned of {warned.messages[:1]}")
    return f"{kills} kills: {found} of {len(KEYS)} keys there and right, {unfinished} cut off"


# -- damage ----------------------------------------------------------------------------------------


def _swap(dice: Seeded, path: Path) -> None:
    """Under the name of another."""
    other = path.parent / dice.choose(KEYS)
    if other.is_file():
        path.write_bytes(other.read_bytes())


def _write(dice: Seeded, path: Path) -> None:
    path.write_bytes(hostile.corrupted(dice, path.read_bytes()))


def _open(dice: Seeded, path: Path) -> None:
    """Others may write to it."""
    path.chmod(dice.choose((0o666, 0o622, 0o777)))


def _link(dice: Seeded, path: Path) -> None:
    """A link to a file that is right."""
    moved = path.parent / "elsewhere"
    os.replace(path, moved)
    path.symlink_to(moved)


def _folder(dice: Seeded, path: Path) -> None:
    """A folder in its place."""
    path.unlink()
    path.mkdir()


def _pipe(dice: Seeded, path: Path) -> None:
    """A pipe in its place, which nobody writes to."""
    path.unlink()
    os.mkfifo(path)


DAMAGE: tuple[Callable[[Seeded, Path], None], ...] = (_write, _write, _write, _swap, _open, _link)
DAMAGE += (_folder, _pipe)


def damaged(short: bool) -> str:
    """Entries that somebody has changed are misses, with one warning in all."""
    entries, misses = 300 if short else 10_000, 0
    with tempfile.TemporaryDirectory() as folder, Warned() as warned:
        store = Store(Path(folder) / "store", LIMIT)
        for seed in range(entries):
            dice = Seeded(seed)
            key = dice.choose(KEYS)
            path = store.folder / key
            _cleared(path)
            store.put(key, content(key))
            demand(store.get(key) == content(key), "what was just put is not there")
            dice.choose(DAMAGE)(dice, path)
            found = store.get(key)
            demand(found in (None, content(key)), f"entry {seed} gave something else")
            misses += found is None
        demand(len(warned.messages) == 1, f"{len(warned.messages)} warnings: {warned.messages[:3]}")
        hostile_ones = 5 if short else 200
        for seed in range(hostile_ones):
            hostile.entries(seed, path)
    return f"{entries} damaged entries: {misses} misses, one warning; {hostile_ones} of programs"


def _cleared(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        path.rmdir()
    path.unlink(missing_ok=True)


# -- disks -----------------------------------------------------------------------------------------


def alone(body: Callable[[], Any]) -> None:
    """Run in a child, whose rights and limits are its own."""
    child = os.fork()
    if not child:
        try:
            body()
            os._exit(0)
        except BaseException as error:
            print(f"  {error!r}", flush=True)
            os._exit(1)
    demand(os.waitpid(child, 0)[1] == 0, "the child failed")


def right_and_warned(folder: Path) -> None:
    """A program compiles and computes, twice; what can't be kept is said once."""
    os.environ["DLVM_CACHE_DIR"] = str(folder)
    with Warned() as warned:
        for k in (1, 2):
            _compiled(k)
        demand(len(warned.messages) in (1, 2), f"warned: {warned.messages}")
        demand(all("made anew" in m for m in warned.messages), f"warned: {warned.messages}")


def _compiled(k: int) -> None:
    x = np.arange(6.0)
    f = dlvm.function(lambda x: dlvm.exp(x - k).sum())
    np.testing.assert_allclose(f(x), np.exp(x - k).sum())


def read_only(short: bool) -> str:
    """A folder that nobody may write to."""
    _compiled(0)  # what it imports later: nobody may not read the folders of root
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "cache"
        place.mkdir(mode=0o700)

        def body() -> None:
            if os.geteuid() == 0:  # who may write everywhere
                os.setuid(NOBODY)
            right_and_warned(place)

        if os.geteuid() == 0:
            os.chmod(folder, 0o755)
            os.chown(place, NOBODY, NOBODY)
        place.chmod(0o500)
        alone(body)
        place.chmod(0o700)
    return "compiled and computed, warned once"


def full(short: bool) -> str:
    """A disk of a few kilobytes, where one can be mounted; else files may be no larger."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "small"
        place.mkdir(mode=0o700)
        options = "size=8k,mode=0700"
        mount = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)]
        tool = shutil.which("mount")
        mounted = tool and subprocess.run(mount, capture_output=True, check=False).returncode == 0

        def body() -> None:
            if not mounted:
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
                resource.setrlimit(resource.RLIMIT_FSIZE, (2048, 2048))
            right_and_warned(place / "cache")

        try:
            alone(body)
        finally:
            if mounted:
                subprocess.run(["umount", str(place)], check=True)
    how = "on 8 KiB" if mounted else "NO DISK COULD BE MOUNTED HERE: with files of 2 KiB at most"
    return f"compiled and computed {how}, warned once"


if __name__ == "__main__":
    sys.exit(run(__doc__, together, killed, damaged, read_only, full))
