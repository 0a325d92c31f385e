"""The operating system, and what it can do: the only file that asks which one it is.

dlvm is developed and tested on Linux. For macOS and Windows the interpreter and compiled calls on
one thread are written, after the manuals of these systems, and were never run there. What is not
written for a system is an ``Ability`` that it lacks, and is refused by name.
"""

from __future__ import annotations

import ctypes
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .errors import UserError

NAMES = {"linux": "Linux", "darwin": "macOS", "win32": "Windows"}
HERE = NAMES.get(sys.platform, sys.platform)
"""The name of this system; tests put another one in its place."""
TESTED = ("Linux",)


@dataclass(frozen=True, slots=True)
class Ability:
    """Something that is written for some systems only.

    ``what`` names it in messages, ``without`` says what a system that lacks it does in its place,
    and ``remedy`` what a user can do who asked for it.
    """

    what: str
    systems: tuple[str, ...]
    without: str
    remedy: str = ""


THREADS = Ability(
    "calls on several threads",
    ("Linux",),
    "every call runs on one thread",
    "leave out threads= and unset DLVM_THREADS, and the call runs on one thread",
)
FORKS = Ability(
    "examining a failure in a process of its own",
    ("Linux", "macOS"),
    "dlvm repro, bisect and reduce are refused",
    "take the file of the failure to Linux, which may be WSL",
)
GPUS = Ability(
    "programs for a GPU",
    ("Linux",),
    "they compile and can be looked at, and do not run",
    "run it on Linux; the stage ptx shows its code on any system",
)
INTERRUPTS = Ability(
    "Ctrl-C in the middle of a call",
    ("Linux", "macOS"),
    "a compiled call ends before Ctrl-C is heard",
)
FLOATING = Ability(
    "constants that are folded in the standard floating-point mode",
    ("Linux", "macOS"),
    "constants are folded in the mode of the thread that compiles",
)
REPLACING = Ability(
    "saving over a file whose arrays are still in use",
    ("Linux", "macOS"),
    "dlvm.save over it is refused",
    "save under another name, or drop the arrays that dlvm.load gave",
)
ABILITIES = (THREADS, FORKS, GPUS, INTERRUPTS, FLOATING, REPLACING)


def has(ability: Ability) -> bool:
    """Whether this system has an ability."""
    return HERE in ability.systems


def require(ability: Ability, asked: str) -> None:
    """Refuse what was asked for where this system lacks the ability for it."""
    if not has(ability):
        raise lacking(ability, asked)


def lacking(ability: Ability, asked: str) -> UserError:
    """The error for what was asked for on a system that lacks the ability for it."""
    known = " and ".join(ability.systems)
    return UserError(
        f"{asked}: {ability.what}: expected {known}, where that is written, found {HERE}",
        remedy=ability.remedy,
    )


def c_library() -> Any:
    """The functions of the C library in this process; Windows has none under one name."""
    return ctypes.CDLL(None)


def stack_size() -> int:
    """The size in bytes of the stack of this thread, or 0 where nothing tells."""
    sizes = {"Linux": _stack_on_linux, "macOS": _stack_on_macos, "Windows": _stack_on_windows}
    return sizes[HERE]() if HERE in sizes else 0


ATTRIBUTES = 256
"""Bytes for the attributes of a thread, more than they take on any machine."""


def _stack_on_linux() -> int:
    c = c_library()
    attributes, size = ctypes.create_string_buffer(ATTRIBUTES), ctypes.c_size_t()
    c.pthread_self.restype = ctypes.c_ulong
    if c.pthread_getattr_np(ctypes.c_ulong(c.pthread_self()), attributes) != 0:
        return 0
    failed = c.pthread_attr_getstacksize(attributes, ctypes.byref(size))
    c.pthread_attr_destroy(attributes)
    return 0 if failed else size.value


def _stack_on_macos() -> int:
    c = c_library()
    c.pthread_self.restype, c.pthread_get_stacksize_np.restype = ctypes.c_void_p, ctypes.c_size_t
    c.pthread_get_stacksize_np.argtypes = [ctypes.c_void_p]
    return int(c.pthread_get_stacksize_np(c.pthread_self()))


def _stack_on_windows() -> int:
    low, high = ctypes.c_size_t(), ctypes.c_size_t()
    kernel: Any = getattr(ctypes, "windll")  # noqa: B009  absent from the types of other systems
    kernel.kernel32.GetCurrentThreadStackLimits(ctypes.byref(low), ctypes.byref(high))
    return high.value - low.value


LINKED = ("ad", "dsl", "gen", "opt")
"""Packages that are symbolic links in a checkout of the repository."""


def check_checkout(file: str) -> None:
    """Refuse a checkout in which git wrote symbolic links as text files, and that nobody installed.

    An installed dlvm, editable or not, knows where these packages are without the links. ``file``
    is the first file of the package.
    """
    package = Path(file).parent
    if not (package / LINKED[0]).is_file() or _is_installed(package.name):
        return
    raise ImportError(
        f"{package} is a checkout without symbolic links: {LINKED[0]} is expected to be a link to "
        f"../{LINKED[0]}, and is a text file\n"
        f"  help: run python -m pip install -e . in {package.parent}",
        name="dlvm",
    )


def _is_installed(package: str) -> bool:
    from importlib.util import find_spec

    return find_spec(f"{package}.{LINKED[0]}") is not None
