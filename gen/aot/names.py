"""Chooses the names of a function, its arguments and its macros in C: unique, and never code.

A name that C takes and that is free stays as it is. Any other text becomes letters, digits and
underscores, and a number at its end keeps it apart from names that are taken. The same texts give
the same names in every process.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from hashlib import sha256

from .reserved import (
    DEVICES,
    FUNCTION_FAMILIES,
    FUNCTIONS,
    HEADERS,
    KEYWORDS,
    LIBRARY_TYPES,
    MACRO_FAMILIES,
    MACROS,
    MATHS,
    SCRIPT,
    TYPES,
)

LONGEST = 160
"""Letters of a name: files are called after functions, and file systems allow 255."""
SIZES = ("STACK_BYTES", "WEIGHTS_BYTES", "SCRATCH_BYTES", "STATE_BYTES")
"""The ends of the macros that a header may define."""
OWN = frozenset({"weights", "scratch"})
"""The last two arguments of every function."""


def mangled(names: Sequence[str], reserved: Callable[[str], bool]) -> list[str]:
    """A name in C for each text, in order: all differ, and none is reserved.

    Texts that are free names are served first, so that no other text takes such a name away.
    """
    plain = [_plain(name) for name in names]
    own: dict[str, int] = {}
    for i, name in enumerate(names):
        if name == plain[i] and not reserved(name):
            own.setdefault(name, i)
    found = {i: name for name, i in own.items()}
    used = set(own)
    for i, name in enumerate(plain):
        if i not in found:
            found[i] = _free(name, reserved, used)
            used.add(found[i])
    return [found[i] for i in range(len(names))]


def function_name(label: str) -> str:
    """What the C function of a Python function is called: ``exp`` is ``exp_2``."""
    return mangled([label], is_no_function)[0]


def is_function_name(name: str) -> bool:
    """Whether a C function may be called exactly so."""
    fits = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) and len(name) <= LONGEST
    return bool(fits) and not is_no_function(name)


def argument_names(labels: Sequence[str], function: str) -> list[str]:
    """What arguments, results and sizes are called: ``params['w'][0]`` is ``params_w_0``."""
    macros = macro_prefix(function)
    own = {f"{macros}_H", *(f"{macros}_{end}" for end in SIZES)}
    states = f"{macros}_STATE_"
    return mangled(labels, lambda n: n in own or n.startswith(states) or is_no_argument(n))


def state_macros(arguments: Sequence[str]) -> list[str]:
    """The ends of macros that say where state lies: ``a`` and ``A`` are ``A`` and ``A_2``."""
    return mangled([name.upper() for name in arguments], lambda name: name == "BYTES")


def macro_prefix(function: str) -> str:
    """What the macros of a header begin with; no two functions have the same.

    That of ``net`` is ``NET``, that of ``Net`` is ``Net``, and that of ``NET`` is ``NET_caps``.
    """
    if function == function.lower():
        return function.upper()
    mixed = function != function.upper() and not function.endswith("_caps")
    return function if mixed else f"{function}_caps"


def is_no_argument(name: str) -> bool:
    """Whether a name means something else inside of a declaration."""
    reserved = name in KEYWORDS or name in SCRIPT or name in MACROS or name in TYPES or name in OWN
    return reserved or bool(MACRO_FAMILIES.fullmatch(name))


def is_no_function(name: str) -> bool:
    """Whether a name clashes with one of the C library, of a header, or of a module."""
    base = name[:-1] if name[-1:] in ("f", "l") else name
    library = name in FUNCTIONS or name in MATHS or base in MATHS or name in LIBRARY_TYPES
    file = name.removeprefix("_") in HEADERS or name.lower() in DEVICES
    return is_no_argument(name) or library or file or bool(FUNCTION_FAMILIES.fullmatch(name))


def _plain(label: str) -> str:
    """A text as letters, digits and underscores of ASCII, and of bounded length."""
    plain = re.sub(r"\W+", "_", label.encode("ascii", "ignore").decode()).strip("_") or "x"
    plain = f"_{plain}" if plain[0].isdigit() else plain
    if len(plain) <= LONGEST:
        return plain
    return f"{plain[: LONGEST - 17]}_{sha256(plain.encode()).hexdigest()[:16]}"


def _free(plain: str, reserved: Callable[[str], bool], used: set[str]) -> str:
    """The name, or the first with a number that is free."""
    if reserved(plain) and reserved(f"{plain}_2"):  # a whole family of names is reserved
        plain = f"x_{plain.lstrip('_')}"
    found, count = plain, 2
    while found in used or reserved(found):
        found, count = f"{plain}_{count}", count + 1
    return found
