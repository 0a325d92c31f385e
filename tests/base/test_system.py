"""Other systems than Linux: what is written for them runs, and the rest is refused by name.

No test runs on macOS or Windows here. A stand-in takes away from Python what they lack, and code
is compiled for them into objects, of which the names that they leave open are looked at.
"""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dlvm
from dlvm.base import floating, system
from dlvm.base.errors import UserError
from dlvm.compile import Options
from dlvm.files import writing
from dlvm.gen.build import made
from dlvm.gen.call.entry_code import emit_enter
from dlvm.gen.gpu.devices import driver
from dlvm.gen.llvm.binding import object_code
from dlvm.gen.llvm.disk import Store, digest
from dlvm.gen.llvm.undefined import undefined
from dlvm.gen.runtime import interrupts, pool
from dlvm.gen.text.module import Text
from dlvm.target import Target, _host
from dlvm.trust.reducing.apart import text_apart

ROOT = Path(__file__).parents[2]
OTHERS = ("macOS", "Windows")


@pytest.fixture(params=OTHERS)
def other(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A system in the place of this one."""
    monkeypatch.setattr(system, "HERE", request.param)
    return str(request.param)


def refused(asked: str, ability: system.Ability) -> Any:
    """What is raised where an ability is missing: its name, its systems, ours, and a remedy."""
    known = " and ".join(ability.systems)
    said = f"{asked}: {ability.what}: expected {known}, where that is written, found {system.HERE}"
    return pytest.raises(UserError, match=rf"(?s)^{said}\n.*  help: {ability.remedy}$")


def test_several_threads_are_refused_where_there_is_no_pool(
    other: str, monkeypatch: pytest.MonkeyPatch
):
    with refused("threads=3", system.THREADS):
        dlvm.function(lambda x: x + 1, threads=3)(np.ones(3))
    assert Options(threads=1).machine().threads == 1
    monkeypatch.setenv("DLVM_THREADS", "2")
    with refused("threads=2", system.THREADS):
        dlvm.function(lambda x: x + 2)(np.ones(3))
    monkeypatch.setenv("DLVM_THREADS", "many")
    with pytest.raises(UserError, match=r"^DLVM_THREADS='many': expected a whole number"):
        dlvm.function(lambda x: x + 3)(np.ones(3))
    assert pool.address(2) == 0 and pool.choice(2) is None


def test_a_machine_has_one_thread_where_there_is_no_pool(other: str):
    _host.cache_clear()
    try:
        assert Options().machine().threads == 1
    finally:
        _host.cache_clear()


def test_graphics_processors_are_refused(other: str):
    driver.library.cache_clear()
    with refused("a program for a GPU", system.GPUS):
        driver.library()


def test_failures_are_examined_where_processes_fork(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(system, "HERE", "Windows")
    from dlvm.trust.reducing.apart import failure_apart

    with refused("a failure of dlvm", system.FORKS):
        failure_apart(lambda watch: None, 1.0)
    monkeypatch.setattr(system, "HERE", "macOS")
    assert text_apart(lambda: "found") == "found"


def test_nobody_asks_for_the_c_library_where_there_is_none(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(system, "HERE", "Windows")
    monkeypatch.setattr(system, "c_library", pytest.fail)
    assert interrupts._table.__wrapped__() is None
    assert floating._library.__wrapped__() is None


def _in_use(*names: Any) -> None:
    raise PermissionError(13, "Access is denied")


def test_saving_over_a_file_in_use_names_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = tmp_path / "a.safetensors"
    dlvm.save(path, {"x": np.ones(2)})
    monkeypatch.setattr(system, "HERE", "Windows")
    monkeypatch.setattr(writing.os, "replace", _in_use)
    with refused(f"save: {path}", system.REPLACING):
        dlvm.save(path, {"x": np.zeros(2)})
    assert dlvm.load(path)["x"].tolist() == [1, 1] and len(list(tmp_path.iterdir())) == 1
    with pytest.raises(PermissionError):  # of a name that is new, the file is not what is in use
        dlvm.save(tmp_path / "b.safetensors", {"x": np.zeros(2)})


def test_the_cache_keeps_a_file_that_another_process_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    store, key = Store(tmp_path / "cache", 1 << 20), digest("a")
    store.put(key, b"code")
    monkeypatch.setattr(system, "HERE", "Windows")
    monkeypatch.setattr(os, "replace", _in_use)
    store.put(key, b"code")
    assert store.get(key) == b"code" and not caplog.records
    assert [f.name for f in store.folder.iterdir()] == [key]


def test_the_processor_of_macos_has_one_name(monkeypatch: pytest.MonkeyPatch):
    from llvmlite import binding

    def unknown() -> Any:
        raise RuntimeError("failed to get host cpu features.")

    monkeypatch.setattr(binding, "get_process_triple", lambda: "arm64-apple-darwin24.0.0")
    monkeypatch.setattr(binding, "get_host_cpu_features", unknown)
    found = _host.__wrapped__()
    assert (found.triple, found.features) == ("aarch64-apple-darwin24.0.0", "")
    assert (found.vector_bits, found.registers, found.fma) == (128, 32, True)


MACHINES = {
    "macOS on arm64": ("aarch64-apple-darwin24.0.0", "apple-m1", "+neon", 128, 32),
    "macOS on x86-64": ("x86_64-apple-darwin24.0.0", "haswell", "+avx2,+fma,+f16c", 256, 16),
    "Windows on x86-64": ("x86_64-pc-windows-msvc", "haswell", "+avx2,+fma,+f16c", 256, 16),
}
GIVEN = {"malloc", "free", "memcpy", "memmove", "memset", "bzero", "__bzero", "__chkstk"}
"""Functions of the C libraries: the fourth last and third last of macOS's, the last of Windows's,
where ``ntdll`` has it. llvmlite asks for ELF objects on Windows."""


@cache
def program() -> Any:
    def f(x: Any, w: Any) -> Any:
        y = dlvm.sort(dlvm.tanh(x @ w), axis=1)
        z = dlvm.while_loop(lambda c: c.sum() > 1.0, lambda c: c * 0.5, y)
        _, t = dlvm.scan(lambda c, v: (c + v, c * v), z[0] * 0, z)
        return dlvm.linalg.solve(w, t.T).sum()

    x, w = np.ones((8, 4), np.float32), np.eye(4, dtype=np.float32)
    return dlvm.function(dlvm.grad(f)).compile(x, w).road.kernels


@pytest.mark.parametrize("name", MACHINES)
def test_code_for_another_system_asks_for_nothing_that_it_lacks(name: str):
    triple, *how = MACHINES[name]
    target: Any = Target(f"{triple}-elf", *how, threads=1)
    built, entry = made(program(), target), Text.of(target)
    emit_enter(entry)
    own = object_code(built.llvm, target, kept=False)
    objects = (own, *built.text.others(), object_code(str(entry), target, kept=False))
    open_names = {n for code in objects for n in undefined(code)}
    assert {"malloc", "free"} <= {n for n in open_names if not n.startswith("dlvm.")} <= GIVEN


STAND_IN = """
import ctypes, os, signal, sys
import llvmlite.binding, numpy as np, optree, platformdirs.unix, safetensors.numpy, subprocess
for name in ("resource", "fcntl"):
    sys.modules[name] = None
for name in ("fork", "register_at_fork", "sched_getaffinity", "geteuid", "O_NOFOLLOW"):
    delattr(os, name)
for name in ("SIGALRM", "SIGKILL", "setitimer"):
    delattr(signal, name)

class CDLL(ctypes.CDLL):
    def __init__(self, name=None, *rest, **more):
        if name is None:
            raise TypeError("LoadLibrary() argument 1 must be str, not None")
        super().__init__(name, *rest, **more)

ctypes.CDLL = CDLL
sys.platform = "win32"
from dlvm.base import system
assert system.HERE == "Windows"
sys.platform = "linux"

class Kernel:
    def GetCurrentThreadStackLimits(self, low, high):
        low._obj.value, high._obj.value = 1 << 20, 3 << 20

ctypes.windll = type("Windows", (), {"kernel32": Kernel()})
import dlvm
from dlvm.gen.runtime.activations import stack_budget
assert stack_budget(0) == 1 << 20

@dlvm.function
def depth(n):
    return dlvm.cond(n > 0, lambda: depth(n - 1) + 1, lambda: n)

def f(x):
    return (dlvm.sort(dlvm.tanh(x @ x.T), axis=0) ** 2).sum()

x = np.linspace(-1, 1, 12).reshape(4, 3)
compiled = dlvm.function(dlvm.grad(f))(x)
os.environ["DLVM_INTERPRET"] = "1"
interpreted = dlvm.function(dlvm.grad(f))(x)
del os.environ["DLVM_INTERPRET"]
np.testing.assert_allclose(compiled, interpreted, rtol=1e-12)
assert int(depth(np.int64(50))) == 50
dlvm.save("x.safetensors", {"x": x})
dlvm.save("x.safetensors", {"x": x + 1})
assert (dlvm.load("x.safetensors")["x"] == x + 1).all()
from dlvm.cli import main
assert main(["doctor"]) == 0
"""


def test_python_without_what_windows_lacks_runs_both_ways_of_computing(tmp_path: Path):
    own = {**os.environ, "DLVM_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-W", "error", "-c", STAND_IN]
    done = subprocess.run(command, cwd=tmp_path, env=own, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert any(s.split()[0] == "system" and "never run" in s for s in lines)
    for ability in system.ABILITIES:
        assert any(s.startswith(ability.what) and s.endswith(ability.without) for s in lines)
    assert len(list((tmp_path / "cache").rglob("*"))) > 2


def test_a_checkout_without_links_says_how_to_install_it(tmp_path: Path):
    package = tmp_path / "dlvm"
    (package / "base").mkdir(parents=True)
    for name in ("__init__.py", "base/__init__.py", "base/system.py", "base/errors.py"):
        (package / name).write_bytes((ROOT / "dlvm" / name).read_bytes())
    (package / "ad").write_text("../ad", "utf8")  # as git writes a link where there are none
    command = [sys.executable, "-S", "-c", "import dlvm"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.stderr.splitlines()[-2:] == [
        f"ImportError: {package} is a checkout without symbolic links: ad is expected to be a link "
        "to ../ad, and is a text file",
        f"  help: run python -m pip install -e . in {tmp_path}",
    ]
    system.check_checkout(str(package / "__init__.py"))  # dlvm is installed here
