"""How the suite runs: its seed and order, what it cost, and machine code that outlives a run.

The first line of a run names the seed, the number of cores and their load; the last one says how
much processor time all its processes took, beside the time of a fixed loop, which tells how fast
this machine was meanwhile. ``--costs FILE`` writes the processor time of each test. The seed is 0
unless ``SUITE_SEED`` names another, so that every run draws the same; Hypothesis draws its
examples with it and ``--shuffle`` puts all tests into another order with it. Of a test that is
marked ``@pytest.mark.drawn(3)``, a sweep over what is independent of one another, the seed draws
one case in three; ``SUITE_WHOLE=1`` runs all, as ``make sweep`` and ``make quick`` do, and so does
a test that is named with ``::``. A test whose cheap part runs on every case asks the fixture
``in_depth`` whether the seed draws its case for the dear part, and one that goes through a list
takes ``drawn_third`` of it. The caller's own ``DLVM_*`` do not reach a test.

Machine code that a run has made is there for the next one, under the digest of its LLVM text and
of what makes code of it: nothing that a test may plant or patch stands between these two. Compiled
programs do not outlive a run, as their key is that of the trace, and a test may plant a fault in
any pass behind it.
"""

from __future__ import annotations

import contextlib
import gc
import os
import random
import shutil
import time
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import core

from dlvm.gen.llvm.disk import DIGEST, KEY, MAGIC

SEED, WHOLE = "SUITE_SEED", "SUITE_WHOLE"
OBJECTS = (b"\x7fELF", b"\xcf\xfa\xed\xfe", b"\0asm", b"//\n// Ge")
"""How machine code begins, for Linux, macOS and WebAssembly, and PTX."""
HEADER = len(MAGIC) + DIGEST + 64
"""Bytes of an entry of the cache before its content begins."""
PROGRAM = b'{"call"'
"""How a compiled program begins. The rest are tuned schedules and what was measured of a machine,
which change what the compiler makes of every program."""
UNUSED = 7 * 24 * 3600.0
"""Seconds after which machine code that no run has asked for goes."""
PROCESSOR = pytest.StashKey[float]()
"""Seconds of processor time that the workers of a run took."""
LOOPS = pytest.StashKey[list[float]]()
"""Seconds of processor time of each run of the calibration loop."""
CALIBRATED = pytest.StashKey[float]()
"""When the calibration loop last ran in this process."""
PAUSE = 10.0
"""Seconds between two runs of the calibration loop."""
OBJECTS_BETWEEN_COLLECTIONS = 20_000
"""With Python's own 700, a tenth of the time goes into looking for garbage among the tests."""
COSTS = pytest.StashKey[list[tuple[str, float]]]()
"""Processor time of each test, children that have ended included."""
USUAL_LOOP = 0.0170
"""Seconds that the calibration loop takes on the machine whose figures the documentation gives."""
LEFT = pytest.StashKey[Counter[str]]()
"""Tests of each file that were not started, as the time of ``--seconds`` was over."""
EXPECTED = pytest.StashKey[dict[str, float]]()
"""Seconds that each test takes, where that is known: none starts that would be late."""
SHORT = 2.0
"""Seconds that a test may last beyond the end."""
FIRST = pytest.StashKey[float]()
"""When the first test could start; a third of ``--seconds`` is kept for tests."""
START = "SUITE_START"
"""When the run began, in seconds since 1970, for its workers."""


def seed() -> int:
    """The number that everything a run draws at random starts from."""
    return int(os.environ.get(SEED) or 0)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--shuffle", action="store_true", help="run the tests in another order")
    parser.addoption("--costs", help="write the processor time of each test into this file")
    parser.addoption("--seconds", type=float, help="start no test when so many seconds are over")


def pytest_configure(config: pytest.Config) -> None:
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS, 20, 20)
    worker = hasattr(config, "workerinput")
    config.addinivalue_line("markers", "drawn(of): the seed draws one in ``of`` of its cases")
    for name in [n for n in os.environ if n.startswith("DLVM_")]:
        del os.environ[name]
    os.environ[SEED] = str(seed())  # for the processes that tests start
    os.environ[START] = os.environ[START] if worker else str(time.time())
    core.global_force_seed = seed()
    config.stash[PROCESSOR] = 0.0
    config.stash[LOOPS] = []
    config.stash[COSTS] = []
    config.stash[LEFT] = Counter()
    if config.getoption("--seconds") is not None:
        config.pluginmanager.register(InTime(), "in time")


def pytest_report_header() -> str:
    with contextlib.suppress(OSError):
        return f"dlvm: seed {seed()}, {cores()} cores, load {os.getloadavg()[0]:.2f}"
    return f"dlvm: seed {seed()}, {cores()} cores"


def cores() -> int:
    """The number of cores that this process may use."""
    asked = getattr(os, "sched_getaffinity", None)
    return len(asked(0)) if asked else os.cpu_count() or 1


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not runs_all(config):
        left = [item for item in items if not is_drawn(item)]
        if left:
            config.hook.pytest_deselected(items=left)
            items[:] = [item for item in items if is_drawn(item)]
    if config.getoption("--shuffle"):
        random.Random(seed()).shuffle(items)


def pytest_collection_finish() -> None:
    put_aside()


def put_aside() -> None:
    """What is left of earlier tests is not looked at again when Python looks for garbage.

    After some thousand tests that took two seconds each time, and many tests ask for it.
    """
    gc.collect()
    gc.freeze()


def runs_all(config: pytest.Config) -> bool:
    """Whether this run leaves out nothing of a sweep."""
    return WHOLE in os.environ or any("::" in str(named) for named in config.args)


def is_drawn(item: pytest.Item) -> bool:
    """Whether the seed draws this case of a sweep; of what is no sweep all is drawn."""
    marker = item.get_closest_marker("drawn")
    return marker is None or draws(item.nodeid, marker.args[0])


def draws(name: str, of: int) -> bool:
    """Whether the seed draws this name, one in ``of``; where the whole is asked for, it is."""
    return WHOLE in os.environ or zlib.crc32(f"{seed()} {name}".encode()) % of == 0


@pytest.fixture
def in_depth(request: pytest.FixtureRequest) -> bool:
    """Whether a case is checked in the dear way as well: one in three, which the seed draws."""
    return runs_all(request.config) or draws(request.node.nodeid, 3)


@pytest.fixture
def drawn_third(request: pytest.FixtureRequest) -> slice:
    """The part of a list of independent things to look at: a third, or all in a whole run."""
    return slice(None) if runs_all(request.config) else slice(seed() % 3, None, 3)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Run the calibration loop now and then, put aside what is left, and note each test's cost."""
    stash = item.config.stash
    if time.monotonic() > stash.get(CALIBRATED, 0.0) + PAUSE:
        stash[LOOPS].append(calibration_loop())
        stash[CALIBRATED] = time.monotonic()
        put_aside()
    before = sum(os.times()[:4])
    result = yield
    stash[COSTS].append((item.nodeid, sum(os.times()[:4]) - before))
    return result


class InTime:
    """Starts no test when the time is over."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> bool | None:
        limit = item.config.getoption("--seconds")
        first = item.config.stash.setdefault(FIRST, time.time())
        end = max(float(os.environ[START]) + limit, first + limit / 3)
        expected = item.config.stash.get(EXPECTED, {}).get(item.nodeid, 0.0)
        if time.time() + max(expected - SHORT, 0.0) < end:
            return None
        item.config.stash[LEFT][item.nodeid.partition("::")[0]] += 1
        return True


# -- what a run cost -----------------------------------------------------------------------------


def calibration_loop() -> float:
    """The processor time of a fixed piece of work in Python, of the kind that compiling is."""
    start = time.process_time()
    table: dict[str, int] = {}
    for i in range(100_000):
        key = f"%{i % 997}"
        table[key] = table.get(key, 0) + i
    return time.process_time() - start


def pytest_sessionfinish(session: pytest.Session) -> None:
    stash, worker = session.config.stash, getattr(session.config, "workeroutput", None)
    if worker is not None:
        worker["processor"] = sum(os.times()[:4])
        worker["left"] = dict(stash[LEFT])
        worker["loops"] = stash[LOOPS]
        worker["costs"] = stash[COSTS]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    told, stash = getattr(node, "workeroutput", {}), node.config.stash
    stash[PROCESSOR] += told.get("processor", 0.0)
    stash[LEFT].update(told.get("left", {}))
    stash[LOOPS] += told.get("loops", [])
    stash[COSTS] += told.get("costs", [])


def pytest_terminal_summary(terminalreporter: Any, exitstatus: int, config: pytest.Config) -> None:
    user, system, of_children, in_their_system, _ = os.times()
    # the children are the workers where these were waited for, and tell nothing where they were not
    used = user + system + max(of_children + in_their_system, config.stash[PROCESSOR])
    line = f"{used:.0f} s of processor time{_calibrated(used, config.stash[LOOPS])}"
    if exitstatus:
        line += f"; {SEED}={seed()} draws the same again"
    terminalreporter.write_line(line)
    left = config.stash[LEFT]
    if left:
        most = ", ".join(f"{n} of {file}" for file, n in left.most_common(6))
        terminalreporter.write_line(f"{left.total()} tests were not started in time: {most}")
    if file := config.getoption("--costs"):
        costs = sorted(config.stash[COSTS], key=lambda cost: -cost[1])
        lines = [f"{seconds:.3f}\t{test}\n" for test, seconds in costs]
        Path(file).write_text("".join(lines), "utf8")


def _calibrated(used: float, loops: list[float]) -> str:
    """How fast the machine was, and what the run would have taken at the usual speed."""
    if not loops:
        return ""
    loop = sum(loops) / len(loops)
    usual = used * USUAL_LOOP / loop
    return (
        f" (calibration loop {1000 * loop:.1f} ms; {usual:.0f} s if it took {1000 * USUAL_LOOP} ms)"
    )


# -- machine code of earlier runs ----------------------------------------------------------------


@pytest.fixture(autouse=True, scope="session")
def private_cache(dlvm_private_cache: Path, request: pytest.FixtureRequest) -> Iterator[None]:
    """No test reads or writes what the user's own programs have cached."""
    found = getattr(request.config, "cache", None)  # none under -p no:cacheprovider
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
