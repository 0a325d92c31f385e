"""How the suite runs: its seed and order, what it cost, and machine code that outlives a run.

The first line of a run names the seed, the number of cores and their load; the last one says what
the run took of the processor, in all its processes. The seed is the day's, 0 where ``CI`` is set,
and ``SUITE_SEED`` repeats another; Hypothesis draws its examples with it and ``--shuffle``
puts all tests into another order with it. The caller's own ``DLVM_*`` do not reach a test.

Machine code that a run has made is there for the next one, under the digest of its LLVM text and
of what makes code of it: nothing that a test may plant or patch stands between these two. Compiled
programs do not outlive a run, as their key is that of the trace, and a test may plant a fault in
any pass behind it.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import random
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import core

from dlvm.gen.llvm.disk import DIGEST, KEY, MAGIC

SEED = "SUITE_SEED"
OBJECTS = (b"\x7fELF", b"\xcf\xfa\xed\xfe", b"\0asm")
"""How machine code begins, for Linux, macOS and WebAssembly."""
HEADER = len(MAGIC) + DIGEST + 64
"""Bytes of an entry of the cache before its content begins."""
PROGRAM = b'{"call"'
"""How a compiled program begins. The rest are tuned schedules and what was measured of a machine,
which change what the compiler makes of every program."""
UNUSED = 7 * 24 * 3600.0
"""Seconds after which machine code that no run has asked for goes."""
PROCESSOR = pytest.StashKey[float]()
"""Seconds of processor time that the workers of a run took."""
LEFT = pytest.StashKey[Counter[str]]()
"""Tests of each file that were not started, as the time of ``--seconds`` was over."""
FIRST = pytest.StashKey[float]()
"""When the first test could start; a third of ``--seconds`` is kept for tests."""
START = "SUITE_START"
"""When the run began, in seconds since 1970, for its workers."""


def seed() -> int:
    """What everything that a run draws at random starts from."""
    said = os.environ.get(SEED)
    return (
        int(said) if said else 0 if "CI" in os.environ else int(f"{datetime.date.today():%Y%m%d}")
    )


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--shuffle", action="store_true", help="run the tests in another order")
    parser.addoption("--seconds", type=float, help="start no test when so many seconds are over")


def pytest_configure(config: pytest.Config) -> None:
    worker = hasattr(config, "workerinput")
    for name in [n for n in os.environ if n.startswith("DLVM_")]:
        del os.environ[name]
    os.environ[SEED] = str(seed())  # the day may end before the run does
    os.environ[START] = os.environ[START] if worker else str(time.time())
    core.global_force_seed = seed()
    config.stash[PROCESSOR] = 0.0
    config.stash[LEFT] = Counter()


def pytest_report_header() -> str:
    with contextlib.suppress(OSError):
        return f"dlvm: seed {seed()}, {cores()} cores, load {os.getloadavg()[0]:.2f}"
    return f"dlvm: seed {seed()}, {cores()} cores"


def cores() -> int:
    """The number of cores that this process may use."""
    asked = getattr(os, "sched_getaffinity", None)
    return len(asked(0)) if asked else os.cpu_count() or 1


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--shuffle"):
        random.Random(seed()).shuffle(items)


def pytest_runtest_protocol(item: pytest.Item) -> bool | None:
    limit = item.config.getoption("--seconds")
    first = item.config.stash.setdefault(FIRST, time.time())
    if limit is None or time.time() < max(float(os.environ[START]) + limit, first + limit / 3):
        return None
    item.config.stash[LEFT][item.nodeid.partition("::")[0]] += 1
    return True


# -- what a run cost -----------------------------------------------------------------------------


def pytest_sessionfinish(session: pytest.Session) -> None:
    worker = getattr(session.config, "workeroutput", None)
    if worker is not None:
        worker["processor"] = sum(os.times()[:4])
        worker["left"] = dict(session.config.stash[LEFT])


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    told = getattr(node, "workeroutput", {})
    node.config.stash[PROCESSOR] += told.get("processor", 0.0)
    node.config.stash[LEFT].update(told.get("left", {}))


def pytest_terminal_summary(terminalreporter: Any, exitstatus: int, config: pytest.Config) -> None:
    user, system, of_children, in_their_system, _ = os.times()
    # the children are the workers where these were waited for, and tell nothing where they were not
    used = user + system + max(of_children + in_their_system, config.stash[PROCESSOR])
    line = f"{used:.0f} s of processor time"
    if exitstatus:
        line += f"; {SEED}={seed()} draws the same again"
    terminalreporter.write_line(line)
    left = config.stash[LEFT]
    if left:
        most = ", ".join(f"{n} of {file}" for file, n in left.most_common(6))
        terminalreporter.write_line(f"{left.total()} tests were not started in time: {most}")


# -- machine code of earlier runs ----------------------------------------------------------------


@pytest.fixture(autouse=True, scope="session")
def private_cache(dlvm_private_cache: Path, request: pytest.FixtureRequest) -> Iterator[None]:
    """No test reads or writes what the user's own programs have cached."""
    found = request.config.cache
    if found is None:
        yield
        return
    kept = found.mkdir("machine-code")
    with machine_code_of_earlier_runs(kept, dlvm_private_cache):
        yield
    forget_unused(kept)


@contextlib.contextmanager
def machine_code_of_earlier_runs(kept: Path, private: Path) -> Iterator[None]:
    """The private cache of a run starts with what is kept, and what it makes is kept after it."""
    entries = private / "v1"
    entries.mkdir(mode=0o700, exist_ok=True)
    for file in _entries(kept):
        _linked(file, entries)
    yield
    for file in _entries(entries):
        if not (kept / file.name).exists() and _begins(file, *OBJECTS):
            _linked(file, kept)
    left = [file.name for file in _entries(entries) if not _begins(file, *OBJECTS, PROGRAM)]
    assert not left, f"a test left schedules or measured rates in the cache of the suite: {left}"


def forget_unused(kept: Path) -> None:
    """Remove the machine code that no run has asked for in a week."""
    for file in _entries(kept):
        with contextlib.suppress(FileNotFoundError):
            if time.time() - file.stat().st_mtime > UNUSED:
                file.unlink()


def _entries(folder: Path) -> list[Path]:
    return [Path(entry) for entry in os.scandir(folder) if KEY.fullmatch(entry.name)]


def _begins(file: Path, *starts: bytes) -> bool:
    """Whether the content of an entry begins with one of these."""
    with open(file, "rb") as opened:
        opened.seek(HEADER)
        return opened.read(8).startswith(starts)


def _linked(file: Path, folder: Path) -> None:
    """The same file in another folder, or a copy where there are no links between the two."""
    with contextlib.suppress(FileExistsError, FileNotFoundError):
        try:
            os.link(file, folder / file.name)
        except FileExistsError:
            raise
        except OSError:
            shutil.copy2(file, folder / file.name)
