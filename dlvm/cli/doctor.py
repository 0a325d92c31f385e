"""``dlvm doctor``: reports the installation and the machine, and tries a small gradient."""

from __future__ import annotations

import argparse
import ctypes.util
import importlib.metadata
import platform
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from dlvm.base import environment, system
from dlvm.base.errors import DlvmError
from dlvm.base.units import size

from .describing import subcommand
from .output import coloured, print_facts, print_json

NOWHERE = "nothing is kept, as DLVM_CACHE=0 says, or as there is no place for it"
PACKAGES = ("numpy", "llvmlite", "optree", "ml_dtypes", "sympy", "platformdirs")


def add(commands: Any) -> None:
    """Adds the subcommand to the parser."""
    parser = subcommand(
        commands,
        "doctor",
        "report versions, processor and cache, and try a small gradient",
        "--json",
    )
    parser.add_argument("--json", action="store_true")
    parser.add_argument(
        "--measure", action="store_true", help="measure this machine and keep what is found"
    )
    parser.add_argument(
        "--forget", action="store_true", help="go back to the built-in values of the processor"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Prints the report; returns 1 if there is a problem. Of several ranks the first one prints."""
    problems: list[str] = []
    facts: dict[str, Any] = {}
    speaks = _measure_links(options, problems) if environment.launched() else True
    if not speaks:
        return 0
    if options.measure or options.forget:
        _keep(options.measure, problems)
    for section in (
        _versions,
        _system,
        _processor,
        _machine,
        _graphics,
        _ranks,
        _elsewhere,
        _cache,
        _variables,
        _trial,
    ):
        _collect(section, facts, problems)
    if options.json:
        print_json({**facts, "problems": problems})
        return 1 if problems else 0
    print_facts(facts)
    for problem in problems:
        print(coloured(f"problem: {problem}", "red"))
    if not problems:
        print(coloured("no problems found", "green"))
    return 1 if problems else 0


def _collect(section: Callable[[list[str]], dict[str, Any]], facts: Any, problems: Any) -> None:
    try:
        facts.update(section(problems))
    except (DlvmError, OSError, RuntimeError) as error:
        problems.append(f"{section.__name__.removeprefix('_')}: {error}")


def _versions(problems: list[str]) -> dict[str, Any]:
    import dlvm

    found = {"dlvm": dlvm.__version__, "python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            problems.append(f"the package {name} is not installed")
    return found


def _system(problems: list[str]) -> dict[str, Any]:
    """Which system this is, and what it lacks of what others have."""
    tested = "" if system.HERE in system.TESTED else ", where dlvm was never run by its authors"
    lacks = {
        a.what: f"not on {system.HERE}: {a.without}" for a in system.ABILITIES if not system.has(a)
    }
    return {"system": f"{system.HERE}{tested}", **lacks}


def _processor(problems: list[str]) -> dict[str, Any]:
    from dlvm.compile import Options
    from dlvm.target import Target, cores

    host = Target.host()
    features = [f[1:] for f in host.features.split(",") if f.startswith("+")]
    return {
        "processor": host.cpu,
        "triple": host.triple,
        "vectors": f"{host.registers} registers of {host.vector_bits} bits",
        "features": " ".join(features),
        "cores": cores(),
        "threads": Options().machine().threads,
    }


def _keep(measuring: bool, problems: list[str]) -> None:
    """Measures the machine, or forgets what was measured."""
    from dlvm.gen import links, measured
    from dlvm.target import Target

    host = Target.host()
    kept = measured.keep(host, measured.measure(host) if measuring else None)
    if not kept or not (measuring or links.keep(None)):
        problems.append(NOWHERE)


def _measure_links(options: argparse.Namespace, problems: list[str]) -> bool:
    """All ranks measure how they reach one another; whether this is the one that reports."""
    from dlvm.gen import links, mpi
    from dlvm.ir.sharding.mesh import Mesh

    library = mpi.library()
    if options.measure and library.size > 1:
        world = mpi.Processes(Mesh((("ranks", library.size),), processes=True), library)
        found = links.measure(world)
        if library.rank == 0 and not links.keep(found):
            problems.append(NOWHERE)
    return library.rank == 0


def _machine(problems: list[str]) -> dict[str, Any]:
    """What costs of kernels are computed from."""
    from dlvm.compile import Options

    target = Options().machine()
    machine = target.machine
    *caches, memory = machine.levels
    near = ", ".join(f"{size(c.size)} at {c.rate:.3g}" for c in caches)
    return {
        "speed": "measured" if target.measured else "built-in values (dlvm doctor --measure)",
        "instructions": f"{machine.rate:.3g} in a nanosecond",
        "caches": f"{near} bytes in a nanosecond",
        "memory": f"{memory.rate:.3g} bytes in a nanosecond",
    }


def _graphics(problems: list[str]) -> dict[str, Any]:
    return {
        "ptxas": _version_of("ptxas") or "not found (only needed to check PTX)",
        "CUDA driver": ctypes.util.find_library("cuda") or "not found",
        "graphics": _graphics_processors() or "none",
    }


def _ranks(problems: list[str]) -> dict[str, Any]:
    """The library by which ranks of a mesh would reach one another, and how fast, if measured."""
    from dlvm.gen.links import NEAR, kept
    from dlvm.gen.mpi import found_path

    path = found_path()
    found = path if Path(path).exists() else ctypes.util.find_library("mpi_abi")
    told = {
        f"ranks of {'one machine' if place == NEAR else 'several machines'}": (
            f"{1e6 * link.latency:.3g} us and {link.bandwidth / 1e9:.3g} bytes in a nanosecond"
        )
        for place, link in kept().items()
    }
    return {
        "MPI": found or "not found (pip install mpich; only ranks as processes need it)",
        **told,
    }


def _elsewhere(problems: list[str]) -> dict[str, Any]:
    """What links and runs what ``dlvm aot`` writes."""
    from dlvm.gen.aot.linking import OWN

    linkers = (*OWN, "ld.lld", "aarch64-linux-gnu-gcc", "riscv64-linux-gnu-gcc")
    runners = ("qemu-aarch64", "qemu-riscv64", "qemu-system-arm", "node", "chromium")
    return {
        "linkers": ", ".join(filter(shutil.which, linkers)) or "none (objects need none)",
        "runners": ", ".join(filter(shutil.which, runners)) or "none",
    }


def _version_of(command: str) -> str | None:
    path = shutil.which(command)
    if path is None:
        return None
    done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=20)
    return f"{path} {(done.stdout.strip().splitlines() or ['?'])[-1]}"


def _graphics_processors() -> str:
    path = shutil.which("nvidia-smi")
    if path is None:
        return ""
    question = [path, "--query-gpu=name,driver_version", "--format=csv,noheader"]
    done = subprocess.run(question, capture_output=True, text=True, timeout=20)
    return "; ".join(done.stdout.strip().splitlines()) if done.returncode == 0 else ""


def _cache(problems: list[str]) -> dict[str, Any]:
    from dlvm.gen.llvm.cache import store
    from dlvm.gen.llvm.disk import Refused

    cache = store()
    if cache is None:
        return {"cache": "off"}
    try:
        damaged = cache.damaged()
    except (OSError, Refused) as error:
        problems.append(f"the cache: {error}")
        return {"cache": str(cache.folder)}
    if damaged:
        problems.append(f"damaged files in the cache: {len(damaged)}; see dlvm cache verify")
    held = sum(e.bytes for e in cache.entries())
    return {"cache": f"{cache.folder}, {size(held)} of {size(cache.limit)}"}


def _variables(problems: list[str]) -> dict[str, Any]:
    named = {name: environment.value(name) for name in environment.VARIABLES}
    return {name: value for name, value in named.items() if value}


def _trial(problems: list[str]) -> dict[str, Any]:
    """Compiles a small gradient and compares it with NumPy."""
    import dlvm

    x = np.linspace(-1, 1, 100, dtype=np.float32)

    def f(x: Any) -> Any:
        return (dlvm.tanh(x) * x).sum()

    trial: Any = dlvm.grad(f)
    t = np.tanh(x)
    if not np.allclose(trial(x), t + x * (1 - t * t), atol=1e-6):
        problems.append("a small gradient is wrong")
    return {"trial": "compiled and compared a small gradient"}
