"""Reproducers: a failure in one file that anyone can replay, IR text under a header of comments.

The header says what failed and how, with versions, options and arguments. The text is the traced
module, so every command of ``dlvm`` reads the file as a program. ``kept`` writes the file so that
only the user can read it, keeps a limited number of files, and never raises, since the failure
itself matters more.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import platform
import re
import stat
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from dlvm import passes
from dlvm.base import environment
from dlvm.base.errors import IRError
from dlvm.gen.llvm import binding as llvm
from dlvm.gen.llvm.cache import folder_of_user
from dlvm.gen.llvm.disk import digest
from dlvm.ir import DTYPES, Array, Module, dtype_of, parse
from dlvm.ir.numerics import Mode, current_mode, mode_named
from dlvm.opt.pipelines import default
from dlvm.target import Target

from .failure import Failure

FIRST = "// dlvm reproducer 1"
LINE = re.compile(r"// (\w+): (.*)")
INPUT = re.compile(r"(\w+)\[([\d,]*)\] = (\S*)")
STORED_BYTES = 1 << 16
"""Limit in bytes for stored arguments; larger ones are drawn again from the seed."""
KEPT_FILES = 32
"""Number of files that are kept."""
LARGEST = 1 << 24
"""Size limit of a file, in bytes."""


@dataclass(frozen=True)
class Reproducer:
    """A program, how it was compiled, and how that failed.

    If ``arrays`` is None, arguments are drawn from the ``seed``. ``threads`` is None if the failure
    was before the loops. ``pipeline`` are the names of passes, None for the default. ``attempt``
    describes what was attempted when the failure happened in Python; then the module is what was
    traced before. ``numerics`` is the mode of the compilation.
    """

    module: Module
    failure: Failure | None = None
    arrays: tuple[Array, ...] | None = None
    seed: int = 0
    threads: int | None = None
    pipeline: tuple[str, ...] | None = None
    versions: dict[str, str] = field(default_factory=dict[str, str])
    attempt: dict[str, Any] | None = None
    numerics: Mode = field(default_factory=current_mode)

    def how(self) -> dict[str, Any]:
        """The arguments of ``examine`` besides module and arrays."""
        target = None if self.threads is None else replace(Target.host(), threads=self.threads)
        chosen = default() if self.pipeline is None else passes.named(self.pipeline)
        how = {"target": target, "seed": self.seed, "pipeline": chosen}
        return {**how, "numerics": self.numerics, "special": self.arrays is None}

    def __str__(self) -> str:
        facts: dict[str, Any] = {"threads": self.threads, "seed": self.seed}
        if self.pipeline is not None:
            facts["passes"] = list(self.pipeline)
        if self.numerics != "default":
            facts["numerics"] = self.numerics
        if self.attempt is not None:
            facts["attempt"] = self.attempt
        lines = [FIRST]
        if self.failure is not None:
            lines += [f"//   {line}" for line in str(self.failure).splitlines()]
            facts["failure"] = self.failure.to_dict()
        facts["versions"] = self.versions or versions()
        lines += [f"// {name}: {json.dumps(fact)}" for name, fact in facts.items()]
        small = self.arrays is not None and sum(a.nbytes for a in self.arrays) <= STORED_BYTES
        lines += [f"// input: {array_written(a)}" for a in self.arrays or ()] if small else []
        return "\n".join([*lines, str(self.module)])


def written(module: Module, arrays: Sequence[Array]) -> str:
    """The text of a program with its arguments, whatever their size, for ``read``."""
    lines = [FIRST, *(f"// input: {array_written(np.asarray(a))}" for a in arrays)]
    return "\n".join([*lines, str(module)])


def versions() -> dict[str, str]:
    """The versions and the target on which the failure may depend."""
    host = Target.host()
    return {
        "dlvm": getattr(sys.modules["dlvm"], "__version__", ""),
        "llvmlite": llvm.version(),
        "numpy": np.__version__,
        "python": platform.python_version(),
        "target": str(host),
    }


def read(text: str) -> Reproducer:
    """The reproducer in a text; for IR text without a header, just the program."""
    module = parse(text).verify()
    if not text.startswith(FIRST):
        return Reproducer(module)
    facts: dict[str, Any] = {}
    arrays: list[Array] = []
    for line in text.splitlines():
        if not line.startswith("//"):
            break
        if (found := LINE.fullmatch(line)) is None:
            continue
        name, value = found.groups()
        if name == "input":
            arrays.append(array_read(value))
        else:
            facts[name] = _json(name, value)
    try:
        failure = Failure.from_dict(facts["failure"]) if "failure" in facts else None
        names = facts.get("passes")
        params = module.functions[0].params if module.functions else ()
        given = tuple(arrays) if len(arrays) == len(params) else None
        return Reproducer(
            module,
            failure,
            given,
            int(facts.get("seed", 0)),
            None if facts.get("threads") is None else int(facts["threads"]),
            None if names is None else tuple(map(str, names)),
            dict(facts.get("versions", {})),
            dict(facts["attempt"]) if "attempt" in facts else None,
            mode_named(facts.get("numerics", "default")),
        )
    except (TypeError, ValueError, KeyError) as error:
        raise IRError(f"the header of the reproducer can't be read: {error}") from None


def _json(name: str, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise IRError(f"the header of the reproducer can't be read: {name}: {text[:80]}") from None


def array_written(array: Array) -> str:
    """The text of an array, on one line."""
    dtype = dtype_of(array)
    assert dtype is not None
    raw = base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()
    return f"{dtype}[{','.join(map(str, array.shape))}] = {raw}"


def array_read(text: str) -> Array:
    """The array of a text by ``array_written``."""
    found = INPUT.fullmatch(text)
    if found is None or found[1] not in DTYPES:
        raise IRError(f"the header of the reproducer can't be read: input: {text[:80]}")
    shape = tuple(int(n) for n in found[2].split(",") if n)
    try:
        flat = np.frombuffer(base64.b64decode(found[3], validate=True), DTYPES[found[1]].numpy)
        return flat.reshape(shape).copy()
    except ValueError as error:
        raise IRError(f"the header of the reproducer can't be read: {error}") from None


# -- files -----------------------------------------------------------------------------------------


def folder() -> Path | None:
    """The folder for reproducers, or None if they are switched off."""
    said = environment.value("DLVM_REPRO")
    if said == "0":
        return None
    return Path(said) if said else folder_of_user() / "failures"


def kept(
    module: Module, failure: Failure, arrays: Sequence[Array] | None = None, **facts: Any
) -> Path | None:
    """Writes the file of a failure; returns its path, or None if it cannot be written.

    It never raises an exception.
    """
    try:
        where = folder()
        if where is None:
            return None
        given = None if arrays is None else tuple(np.asarray(a) for a in arrays)
        text = str(Reproducer(module, failure, given, **facts)).encode("utf8", "replace")
        return _saved(where, f"{failure.stage}-{digest(text)[:12]}.dlvm", text)
    except Exception:
        return None


def _saved(where: Path, name: str, text: bytes) -> Path | None:
    if len(text) > LARGEST or not where.is_absolute():
        return None
    where.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = os.lstat(where)
    foreign = hasattr(os, "geteuid") and found.st_uid != os.geteuid()
    if not stat.S_ISDIR(found.st_mode) or foreign or found.st_mode & 0o022:
        return None
    unfinished = where / f".{os.urandom(8).hex()}.unfinished"
    try:
        opener = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(opener, "wb") as file:
            file.write(text)
        os.replace(unfinished, where / name)
    finally:
        with contextlib.suppress(OSError):
            os.unlink(unfinished)
    _bounded(where)
    return where / name


def _bounded(where: Path) -> None:
    """Removes the oldest files beyond the limit."""
    files = sorted(where.glob("*.dlvm"), key=lambda f: f.stat().st_mtime)
    for old in files[:-KEPT_FILES]:
        with contextlib.suppress(OSError):
            os.unlink(old)
