"""Damaged models: ``python -m tests.onnx.hostile`` reads 100,000 of them and imports some.

Bytes are damaged as they lie, and fields of messages are replaced, which leaves a file that can be
read and means something else. Whatever comes of it, the only error is a ``UserError``. Each case
has a limit of time, and all of them one of memory.
"""

from __future__ import annotations

import argparse
import random
import resource
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import dlvm
from dlvm.onnx import wire
from dlvm.onnx.messages import TABLE, Model
from dlvm.onnx.tensors import array, tensor
from dlvm.onnx.values import Value

from .cases import Case

SECONDS = 20
GIBIBYTES = 6
NUMBERS = (0, 1, -1, 2, 3, 7, 8, 64, 255, 2**31 - 1, -(2**31), 2**40, 2**62, -(2**63), 2**63 - 1)
FLOATS = (0.0, -1.0, 1e30, float("nan"), float("inf"))


class TookLong(Exception):
    """A case that did not end in its time."""


@cache
def sound() -> tuple[bytes, ...]:
    """Models that are right."""
    from .test_backend import sample
    from .test_gradients import EXAMPLE, NETS
    from .test_load import network
    from .test_operations import attention

    return (
        *(_baked(case) for case in sample()),
        *(net.data() for net in NETS.values()),
        attention(),
        network(),
        (EXAMPLE / "digits.onnx").read_bytes(),
    )


def _baked(case: Case) -> bytes:
    """A model of the package onnx whose integers are part of it, so that they are damaged too."""
    model = wire.read(case.model.SerializeToString())
    arrays = case.sets[0][0]
    for x, given in zip([*model.graph.input], arrays, strict=False):
        if given is not None and given.dtype.kind in "iub" and given.size < 1000:
            model.graph.initializer.append(tensor(x.name, np.asarray(given)))
    return wire.write(model)


# -- damage ---------------------------------------------------------------------------------------


def damaged(dice: random.Random) -> bytes:
    """A sound model in which bytes or fields are others."""
    data = dice.choice(sound())
    if dice.random() < 0.5:
        return _bytes_of(dice, bytearray(data))
    model = wire.read(data)
    for _ in range(dice.randint(1, 3)):
        _change_a_field(dice, model)
    return wire.write(model)


def _bytes_of(dice: random.Random, data: bytearray) -> bytes:
    for _ in range(dice.randint(1, 4)):
        at = dice.randrange(len(data) + 1)
        match dice.randrange(5):
            case 0 if data:
                data[at % len(data)] = dice.randrange(256)
            case 1:
                del data[at : at + dice.randint(1, 9)]
            case 2:
                data[at:at] = dice.randbytes(dice.randint(1, 9))
            case 3:
                data[at:at] = data[at : at + dice.randint(1, 200)]
            case _:
                data[at : at + 1] = dice.choice((b"\xff" * 9 + b"\x01", b"\x80", b"\x00"))
    return bytes(data)


def _change_a_field(dice: random.Random, model: Model) -> None:
    """Another value in one field of one message."""
    message = dice.choice([*_messages(model)])
    entry = dice.choice([*TABLE[type(message).__name__].values()])
    old = getattr(message, entry.name)
    if not entry.repeated:
        setattr(message, entry.name, _other(dice, entry.kind, old))
        return
    values = list(old)
    at = dice.randrange(len(values) + 1)
    match dice.randrange(4):
        case 0 if values:
            del values[at % len(values)]
        case 1 if values:
            values[at % len(values)] = _other(dice, entry.kind, values[at % len(values)])
        case 2:
            dice.shuffle(values)
        case _:
            more = dice.choice(values) if values else _other(dice, entry.kind, None)
            values[at:at] = [more]
    setattr(message, entry.name, [v for v in values if v is not None])


def _messages(message: Any) -> Iterator[Any]:
    yield message
    for entry in TABLE[type(message).__name__].values():
        held = getattr(message, entry.name)
        for inner in held if entry.repeated else [held]:
            if entry.kind in TABLE and inner is not None:
                yield from _messages(inner)


def _other(dice: random.Random, kind: str, old: Any) -> Any:
    """A value of a field: none, an end of its range, or one near the old value."""
    if kind in TABLE:
        return None if dice.random() < 0.3 else old
    if isinstance(old, int) and dice.random() < 0.5:
        return max(-(2**63), min(old + dice.choice((-1, 1, 2)), 2**63 - 1))
    if kind in ("float", "double"):
        return dice.choice(FLOATS)
    if kind in ("text", "string"):
        return dice.choice(("", "x", "y", "w", "Add", "Shape", "Reshape", "é\n", "a" * 99))
    if kind in ("bytes", "view"):
        return dice.randbytes(dice.choice((0, 3, 8, 64)))
    return dice.choice(NUMBERS)


# -- cases ----------------------------------------------------------------------------------------


def read(data: bytes) -> None:
    """Reads the messages, and every weight."""
    model: Model = wire.read(data)
    for t in model.graph.initializer if model.graph else []:
        array(t)


def imported(data: bytes) -> None:
    """Loads the model and traces it for small inputs."""
    m = dlvm.onnx.load(data)
    str(m)
    given = {v.name: drawn(v) for v in m.inputs}
    m.trace(**given)


def drawn(value: Value) -> Any:
    """An input of ones, small where a size is open; a large one is refused as a user would be."""
    shape = [2 if isinstance(n, str) else n for n in value.shape or ()]
    if min(shape, default=0) < 0 or np.prod(np.maximum(shape, 1.0)) > 1e6:
        raise dlvm.UserError("a large input")
    return np.ones(shape, value.dtype or np.float32)


@dataclass
class Run:
    """What came of cases, by how they ended."""

    case: Callable[[bytes], None]
    fine: int = 0
    refused: int = 0
    wrong: list[str] = field(default_factory=list[str])

    def one(self, seed: int) -> None:
        """One damaged model."""
        data = damaged(random.Random(seed))
        signal.setitimer(signal.ITIMER_REAL, SECONDS)
        try:
            with np.errstate(all="ignore"):
                self.case(data)
            self.fine += 1
        except dlvm.UserError:
            self.refused += 1
        except BaseException as error:
            signal.setitimer(signal.ITIMER_REAL, 0)
            if isinstance(error, KeyboardInterrupt):
                raise
            frames = traceback.extract_tb(error.__traceback__)
            own = [f"{Path(f.filename).name}:{f.lineno}" for f in frames if "dlvm" in f.filename]
            said = f"{type(error).__name__}: {str(error)[:160]}"
            self.wrong.append(f"{seed}: {said} ({' '.join(own[-4:])})")
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)


def _stop(number: int, frame: FrameType | None) -> None:
    raise TookLong(f"more than {SECONDS} s")


def run(case: Callable[[bytes], None], seeds: range) -> Run:
    """All cases of a range of seeds."""
    before = signal.signal(signal.SIGALRM, _stop)
    found = Run(case)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for seed in seeds:
                found.one(seed)
    finally:
        signal.signal(signal.SIGALRM, before)
    return found


def main() -> int:
    """Reads and imports, and prints what failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--cases", type=int, default=100_000, help="models that are read")
    parser.add_argument("--imports", type=int, default=5_000, help="models that are imported")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    most = GIBIBYTES << 30
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    failed = 0
    for case, count in ((read, options.cases), (imported, options.imports)):
        start = time.perf_counter()
        found = run(case, range(options.seed, options.seed + count))
        seconds = time.perf_counter() - start
        print(f"{case.__name__}: {found.fine} fine, {found.refused} refused, ", end="")
        print(f"{len(found.wrong)} wrong, {seconds:.0f} s")
        print("\n".join(found.wrong[:40]))
        failed += len(found.wrong)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
