"""Hold the package to what it promises: no pickle, no eval or exec, no network, no shell.

python tools/forbidden.py

Bytes from a disk or a user never become Python code or objects of any class, and nothing leaves
the machine, but to ranks that a launcher of MPI has started. What is allowed all the same stands in
``ALLOWED``, each with its reason.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROOMS = ("dlvm", "dsl", "ad", "opt", "gen")
MODULES = {
    "objects of any class from bytes": "pickle cPickle dill cloudpickle marshal shelve joblib",
    "the network": "socket ssl urllib http ftplib smtplib poplib imaplib telnetlib xmlrpc requests "
    "aiohttp socketserver webbrowser asyncio",
    "code from text": "code codeop runpy py_compile",
    "another program": "pty commands",
    "other processes": "subprocess multiprocessing",
    "foreign functions": "ctypes",
}
"""What importing a module would mean."""
BUILTINS = {"eval", "exec", "compile", "__import__", "breakpoint"}
METHODS = {
    ("os", "system"),
    ("os", "popen"),
    ("builtins", "eval"),
    ("builtins", "exec"),
    ("np", "load"),
    ("numpy", "load"),
    ("np", "save"),
}
"""Calls on these modules; ``np.load`` reads pickles where it is told to."""

ALLOWED: dict[tuple[str, str], str] = {
    ("dlvm/base/system.py", "ctypes"): "the C library, and how large the stack of a thread is",
    ("dlvm/base/floating.py", "ctypes"): "the floating-point mode of the C library",
    ("dlvm/cli/doctor.py", "subprocess"): "asks tools that it names for their versions",
    (
        "dlvm/launch/on_ray.py",
        "subprocess",
    ): "the launcher of MPI and its proxies, where --ray asks",
    ("dlvm/launch/places.py", "subprocess"): "the launcher of MPI, which the user asks for",
    ("dlvm/launch/starts.py", "subprocess"): "waits for the launcher of MPI",
    ("gen/aot/linking.py", "subprocess"): "a linker that the user asks for",
    ("gen/aot/joined.py", "subprocess"): "LLVM in a process of its own, as it may abort",
    ("dlvm/cli/doctor.py", "ctypes"): "looks whether the driver of a GPU is there",
    ("dlvm/cli/naming.py", "np.load()"): "arguments that the user names; allow_pickle=False",
    ("dlvm/cli/run.py", "np.save()"): "results where the user says; arrays of numbers only",
    ("gen/call/executable.py", "ctypes"): "calls machine code",
    ("gen/runtime/interrupts.py", "ctypes"): "addresses of Python's functions for signals",
    ("gen/runtime/pool.py", "ctypes"): "memory and system functions of the thread pool",
    ("gen/gpu/devices/driver.py", "ctypes"): "calls NVIDIA's driver",
    ("gen/gpu/devices/staging.py", "ctypes"): "copies between NumPy's memory and pinned memory",
    ("gen/mpi.py", "ctypes"): "calls MPI, by which ranks that a launcher started reach one another",
    ("gen/rank_tables.py", "ctypes"): "functions that machine code calls where ranks are threads",
    ("gen/gpu/dlpack.py", "ctypes"): "reads and writes the records of DLPack",
    ("gen/gpu/emulator/device.py", "ctypes"): "memory in place of a GPU's",
    ("gen/gpu/emulator/machine.py", "ctypes"): "calls the machine code of emulated threads",
    ("dsl/owned/frames.py", "ctypes"): "reads variables of a frame without keeping them alive",
    ("gen/call/python_api.py", "ctypes"): "addresses of Python's functions for the entry",
}
"""A file and what it uses, with the reason; a line that nothing needs any more is a mistake."""


def found_in(text: str) -> Iterator[tuple[int, str]]:
    """Lines of a source file and what is forbidden there."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Import(names=names):
                for alias in names:
                    yield from _module(node.lineno, alias.name)
            case ast.ImportFrom(module=str(module), level=0):
                yield from _module(node.lineno, module)
            case ast.Call(func=ast.Name(id=name)) if name in BUILTINS:
                yield node.lineno, f"{name}()"
            case ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr=attr)) if (
                owner,
                attr,
            ) in METHODS:
                yield node.lineno, f"{owner}.{attr}()"
            case ast.keyword(arg="shell" | "allow_pickle" as arg, value=value) if not _is_false(
                value
            ):
                yield value.lineno, f"{arg}="
            case _:
                pass


def _module(line: int, module: str) -> Iterator[tuple[int, str]]:
    name = module.partition(".")[0]
    if any(name in names.split() for names in MODULES.values()):
        yield line, name


def _is_false(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is False


def sources() -> Iterator[Path]:
    """Every file of the package, once."""
    for room in ROOMS:
        for file in sorted((ROOT / room).rglob("*.py")):
            if not any(parent.is_symlink() for parent in file.parents):
                yield file


def violations() -> list[str]:
    """What is forbidden and not allowed, and what is allowed and not there."""
    seen: set[tuple[str, str]] = set()
    out: list[str] = []
    for file in sources():
        name = str(file.relative_to(ROOT))
        for line, what in found_in(file.read_text("utf8")):
            seen.add((name, what))
            if (name, what) not in ALLOWED:
                out.append(f"{name}:{line}: {what}")
    unused = [
        f"{name}: {what} is allowed, and not there"
        for name, what in ALLOWED
        if (name, what) not in seen
    ]
    return out + unused


def main() -> int:
    """Print what is forbidden; the exit status says whether anything is."""
    found = violations()
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
