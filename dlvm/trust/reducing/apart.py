"""Examination in a child process, since the examination may end the process or hang.

LLVM reports some errors by aborting, wrong machine code may write anywhere, and a loop may never
end. The child is a fork, so it starts at once and sees all state of this process; it returns its
findings as text. A system without fork refuses to examine.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import select
import signal
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from dlvm.base import system
from dlvm.base.errors import UserError
from dlvm.ir import Array, Module
from dlvm.trust.blame import bisect
from dlvm.trust.examine import examine
from dlvm.trust.failure import SECONDS, Failure

Watch = Callable[[str], None]


def examine_apart(
    module: Module, arrays: Sequence[Array] | None = None, seconds: float = SECONDS, **how: Any
) -> Failure | None:
    """``examine`` in a child process; the death of that process is a failure of kind ``died``."""
    return failure_apart(lambda watch: examine(module, arrays, watch=watch, **how), seconds)


def bisect_apart(
    module: Module, arrays: Sequence[Array] | None = None, seconds: float = SECONDS, **how: Any
) -> Failure | None:
    """``bisect`` in a child process."""
    return failure_apart(lambda watch: bisect(module, arrays, watch=watch, **how), seconds)


def text_apart(make: Callable[[], str | None], seconds: float = SECONDS) -> str | None:
    """The text that ``make`` returns in a child process, or None if that does not finish."""
    try:
        lines, _, _ = _asked(lambda watch: make(), seconds)
    except UserError:
        return None
    return next((line["found"] for line in lines if "found" in line), None)


def failure_apart(look: Callable[[Watch], Failure | None], seconds: float) -> Failure | None:
    """The failure that ``look`` returns in a child process, whose death is a failure too."""

    def ask(watch: Watch) -> Any:
        found = look(watch)
        return None if found is None else found.to_dict()

    lines, status, said = _asked(ask, seconds)
    for line in lines:
        if "found" in line:
            return None if line["found"] is None else Failure.from_dict(line["found"])
    stage = next((line["stage"] for line in reversed(lines) if "stage" in line), "differentiate")
    return Failure("died", stage, _ending(status, said))


def _asked(
    ask: Callable[[Watch], Any], seconds: float
) -> tuple[Sequence[dict[str, Any]], int, str]:
    """The lines that the child wrote, its exit status, and its other output."""
    system.require(system.FORKS, "a failure of dlvm")
    reading, writing = os.pipe()
    with tempfile.TemporaryFile() as said:
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", DeprecationWarning
            )  # fork with threads: these are dlvm's own
            child = os.fork()
        if child == 0:
            os.close(reading)
            _answer(writing, said.fileno(), ask)
        os.close(writing)
        lines = _heard(reading, child, seconds)
        _, status = os.waitpid(child, 0)
        said.seek(0)
        for line in lines:
            if "user" in line:
                raise UserError(line["user"])
        return lines, status, said.read().decode("utf8", "replace")


def _answer(writing: int, said: int, ask: Callable[[Watch], Any]) -> NoReturn:
    """The body of the child: reports each stage as it is reached, then the findings."""
    code = 1
    try:
        faulthandler.disable()
        os.dup2(said, 1)
        os.dup2(said, 2)

        def tell(**fact: Any) -> None:
            os.write(writing, json.dumps(fact).encode() + b"\n")

        try:
            tell(found=ask(lambda stage: tell(stage=stage)))
        except UserError as error:
            tell(user=str(error))
        code = 0
    except BaseException as error:  # no code of the parent may run in the child
        with contextlib.suppress(OSError):
            os.write(2, f"{type(error).__name__}: {error}".encode())
    finally:
        os._exit(code)


def _heard(reading: int, child: int, seconds: float) -> list[dict[str, Any]]:
    """The lines that the child writes until it ends; it is killed when the time is up."""
    heard = b""
    end = time.monotonic() + seconds
    with open(reading, "rb", buffering=0) as pipe:
        while (left := end - time.monotonic()) > 0:
            if not select.select([pipe], [], [], left)[0]:
                continue
            part = pipe.read(1 << 16)
            if not part:
                break
            heard += part
        else:
            os.kill(child, signal.SIGKILL)
    return [json.loads(line) for line in heard.splitlines() if line.endswith(b"}")]


def _ending(status: int, said: str) -> str:
    """How a process ended, and the first line of its other output."""
    number = os.waitstatus_to_exitcode(status)
    if number == -signal.SIGKILL:
        how = "time limit exceeded"
    elif number < 0:
        how = signal.Signals(-number).name
    else:
        how = f"exit code {number}"
    first = next((line.strip() for line in said.splitlines() if line.strip()), "")
    return f"{how}: {first}" if first else how
