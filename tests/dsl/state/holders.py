"""Programs whose state lies in objects of the classes of Python's own library.

    SUITE_SEED=7 python -m tests.dsl.state.holders 1000

A program constructs an object of a class, reads it in a staged function by one of its methods,
attributes or operators, and changes it, in place or by another object in its place, before call 64
of 128. Which classes there are, and how each is constructed, read and changed, is tried out: what
changes what is read is a case. The plain function is the oracle. The counts tell how many were
right, refused, told by an error or a warning, and silently old, without and with
``DLVM_VERIFY=state``.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import itertools
import os
import random
import signal
import sys
import tempfile
import types
import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import dlvm
from dlvm.base.errors import StaleState
from tests.running import seed

CALLS = 128
LONGEST = 20
"""Seconds after which a program is given up."""
LEFT_OUT = {
    *("antigravity", "this", "idlelib", "turtle", "turtledemo", "tkinter", "lib2to3", "ensurepip"),
    *("multiprocessing", "concurrent", "subprocess", "socket", "socketserver", "asyncio", "signal"),
    *("threading", "_thread", "selectors", "ssl", "http", "urllib", "ftplib", "smtplib", "poplib"),
    *("imaplib", "nntplib", "telnetlib", "xmlrpc", "webbrowser", "pty", "tty", "curses", "pdb"),
    *("readline", "rlcompleter", "code", "codeop", "cmd", "crypt", "spwd", "nis", "msilib", "test"),
    *(
        "faulthandler",
        "tracemalloc",
        "resource",
        "syslog",
        "cgi",
        "cgitb",
        "wsgiref",
        "venv",
        "sre_",
    ),
    *(
        "logging",
        "warnings",
        "gc",
        "atexit",
        "site",
        "sched",
        "bdb",
        "trace",
        "profile",
        "cProfile",
    ),
    *(
        "queue",
        "ctypes",
        "io",
        "_io",
        "os",
        "posix",
        "mmap",
        "select",
        "fileinput",
        "tempfile",
        "shutil",
        "shelve",
        "dbm",
    ),
    *("unittest", "doctest", "pydoc", "pydoc_data", "distutils", "zipapp", "nturl2path", "ntpath"),
}
"""Modules of the running process, of networks and of tools."""
ARGUMENTS: list[tuple[Any, Any]] = [
    (([1.5, 2.5],), ([3.5, 2.5],)),
    (({"a": 1.5},), ({"a": 3.5},)),
    ((1.5,), (3.5,)),
    ((2,), (5,)),
    ((2, 3), (5, 3)),
    ((2, 3, 4), (5, 3, 4)),
    (("1.5",), ("3.5",)),
    (("a", "b"), ("c", "b")),
    ((b"ab",), (b"cd",)),
    (("d", [1.5, 2.5]), ("d", [3.5, 2.5])),
    ((float, [1.5]), (float, [3.5])),
    ((len,), (abs,)),
    ((abs, -1.5), (abs, -3.5)),
    (("a", 1.5, 2.5), ("a", 3.5, 2.5)),
    ((2020, 1, 2), (2021, 1, 2)),
    ((), ()),
]
"""How an object is constructed, before and after."""
WORDS: list[tuple[Any, ...]] = [
    (),
    (0,),
    ("a",),
    (2,),
    (1.5,),
    ("a", 9.5),
    (0, 9.5),
    (9.5,),
    ({"a": 9.5},),
    ("a", "b"),
]
"""Arguments that methods are tried with."""
OPERATORS: dict[str, Callable[[Any], Any]] = {
    "float": float,
    "int": int,
    "len": len,
    "str": str,
    "repr": repr,
    "list": lambda h: list(itertools.islice(h, 9)),
    "[0]": lambda h: h[0],
    "['a']": lambda h: h["a"],
    "+ 1": lambda h: h + 1,
    "bool": bool,
    "hash": hash,
    "vars": vars,
    "in": lambda h: not hasattr(h, "__next__") and 1.5 in h,  # or a cycle never ends
    "==": lambda h: h == 1.5,
    "sorted": lambda h: sorted(itertools.islice(h, 9)),
}
DANGEROUS = {
    "wait",
    "join",
    "read",
    "readline",
    "acquire",
    "serve_forever",
    "interact",
    "mainloop",
    "run",
    "main",
    "start",
    "input",
    "exit",
    "kill",
    "terminate",
    "rmdir",
    "unlink",
    "remove_tree",
    "rename",
    "replace",
    "chmod",
    "touch",
    "mkdir",
    "write_text",
    "write_bytes",
    "symlink_to",
    "hardlink_to",
    "lchmod",
    "cleanup",
    "extractall",
    "link_to",
}


def classes() -> list[type]:
    """Every class that Python's library exports, each once."""
    found: dict[type, None] = {}
    for name in sorted(sys.stdlib_module_names):
        if name not in LEFT_OUT and not name.startswith("_"):
            with contextlib.suppress(BaseException), quiet():
                module = importlib.import_module(name)
                found |= dict.fromkeys(x for x in vars(module).values() if _is_wanted(x))
    return sorted(found, key=lambda cls: f"{cls.__module__}.{cls.__qualname__}")


def _is_wanted(cls: Any) -> bool:
    if not isinstance(cls, type) or issubclass(cls, BaseException | type):
        return False
    home = str(cls.__module__).partition(".")[0]
    return home not in LEFT_OUT and home in sys.stdlib_module_names


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    with (
        warnings.catch_warnings(action="ignore"),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        yield


@dataclass(frozen=True)
class Case:
    """How a class is constructed, read and changed."""

    cls: type
    before: Any
    after: Any
    read: str
    change: str

    def __str__(self) -> str:
        home = f"{self.cls.__module__}.{self.cls.__qualname__}"
        return f"{home}{self.before!r}, read by {self.read}, changed by {self.change}"


def number(value: Any) -> float:
    """A number that tells values apart, as a program may compute it of anything."""
    if isinstance(value, int | float):
        return float(value)
    return float(zlib.crc32(repr(value).encode()) % 1000)


def reader(text: str) -> Callable[[Any], Any]:
    """The function that reads an object."""
    if text in OPERATORS:
        return OPERATORS[text]
    name, call, args = text.removeprefix(".").partition("(")
    if not call:
        return lambda h: getattr(h, name)
    given = eval(f"({args[:-1]},)" if args != ")" else "()")
    return lambda h: getattr(h, name)(*given)


def changer(case: Case) -> Callable[[Any], Any]:
    """The function that changes an object, or gives another one."""
    if case.change == "another":
        return lambda _: case.cls(*case.after)
    if case.change == "state":

        def state(h: Any) -> Any:
            vars(h).update(vars(case.cls(*case.after)))
            return h

        return state
    act = reader(case.change)

    def changed(h: Any) -> Any:
        act(h)
        return h

    return changed


def seen(case: Case, h: Any) -> float | None:
    """What a program reads; None if it can't be read twice alike."""
    read = reader(case.read)
    try:
        with quiet():
            one, two = number(read(h)), number(read(h))
    except BaseException:
        return None
    return one if one == two and one == one else None


def cases_of(cls: type, dice: random.Random, tries: int = 60) -> list[Case]:
    """A case of a class, if one is found by trying."""
    found: list[Case] = []
    for before, after in ARGUMENTS:
        with contextlib.suppress(BaseException), quiet():
            cls(*before), cls(*after)
            break
    else:
        return []
    names = [n for n in dir(cls) if not n.startswith("_") and n not in DANGEROUS]
    with contextlib.suppress(BaseException), quiet():
        names = [n for n in dir(cls(*before)) if not n.startswith("_") and n not in DANGEROUS]
    words = [f".{n}" for n in names] + [
        f".{n}{a!r}".replace(",)", ")") for n in names for a in WORDS
    ]
    for _ in range(tries):
        signal.setitimer(signal.ITIMER_REAL, 1, 1)  # again, as what it ends may be tried again
        read = dice.choice([dice.choice([*OPERATORS]), dice.choice(words or ["repr"])])
        change = dice.choice(["another", "state", dice.choice(words or ["another"])])
        case = Case(cls, before, after, read, change)
        with contextlib.suppress(BaseException), quiet():
            h = cls(*before)
            one, same = seen(case, h), seen(case, cls(*before))  # an address is no state
            two = seen(case, changer(case)(h))
            if one is not None and two is not None and one == same and one != two:
                found.append(case)
        if found:
            break
    signal.setitimer(signal.ITIMER_REAL, 0)
    return found


PLACES = ("global", "closure", "attribute", "dict", "list")


def program(case: Case, place: str) -> tuple[Callable[[Any], Any], Callable[[], None]]:
    """The plain function, and what changes its state."""
    read, change = reader(case.read), changer(case)
    with quiet():
        h = case.cls(*case.before)
    if place == "global":
        space: dict[str, Any] = {"__name__": "user", "H": h, "read": read, "number": number}
        exec("def f(x):\n    return x * number(read(H))\n", space)
        return space["f"], lambda: space.__setitem__("H", change(space["H"]))
    box = types.SimpleNamespace(h=h)
    table, row = {"h": h}, [h]

    def by_closure(x: Any) -> Any:
        return x * number(read(h))

    def change_closure() -> None:
        nonlocal h
        h = change(h)

    def by_attribute(x: Any) -> Any:
        return x * number(read(box.h))

    def by_key(x: Any) -> Any:
        return x * number(read(table["h"]))

    def by_index(x: Any) -> Any:
        return x * number(read(row[0]))

    return {
        "closure": (by_closure, change_closure),
        "attribute": (by_attribute, lambda: setattr(box, "h", change(box.h))),
        "dict": (by_key, lambda: table.update(h=change(table["h"]))),
        "list": (by_index, lambda: row.__setitem__(0, change(row[0]))),
    }[place]


def verdict(case: Case, place: str, at: int) -> str:
    """How a program ends whose state changes before call ``at``."""
    try:
        signal.setitimer(signal.ITIMER_REAL, LONGEST, LONGEST)
        return _verdict(*program(case, place), at)
    except TimeoutError:
        return "too long"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _verdict(plain: Callable[[Any], Any], change: Callable[[], None], at: int) -> str:
    f = dlvm.function(plain)
    told, old = False, False
    for call in range(1, CALLS + 1):
        with warnings.catch_warnings(record=True) as noted:
            warnings.simplefilter("always")
            if call == at:
                change()
            try:
                got = float(f(2.0))
            except StaleState:
                return "told by an audit"
            except dlvm.UserError:
                return "refused" if call == 1 else "told"
            except Exception as error:
                return f"wrong: {type(error).__name__}"
        told = told or any(issubclass(w.category, dlvm.TraceWarning) for w in noted)
        if got != float(plain(2.0)):
            if told:
                return "warned"
            old = True
    return "silent" if old else "right"


def _late(*_: object) -> None:
    raise TimeoutError


def drawn(count: int, dice: random.Random) -> Iterator[tuple[Case, str, int]]:
    """Cases of all classes in turn, until there are enough."""
    known = classes()
    while count > 0:
        dice.shuffle(known)
        for cls in known:
            for case in cases_of(cls, dice)[: count or None]:
                yield case, dice.choice(PLACES), dice.randrange(3, 64)
                count -= 1
            if count <= 0:
                return


def counted(count: int, of: int, show: bool = False) -> Counter[str]:
    """The verdicts on some programs, as the environment says."""
    found: Counter[str] = Counter()
    for case, place, at in drawn(count, random.Random(of)):
        with quiet():
            said = verdict(case, place, at)
        found[said] += 1
        if show and said not in ("right", "refused", "told", "told by an audit", "warned"):
            print(f"{said}: {case}, in a {place}, before call {at}", flush=True)
    return found


if __name__ == "__main__":
    signal.signal(signal.SIGALRM, _late)
    asked = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    print(f"seed {seed()}, {len(classes())} classes")
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for mode in ("", "state"):
            os.environ["DLVM_VERIFY"] = mode
            print(f"DLVM_VERIFY={mode}:", dict(counted(asked, seed(), show=True)))
