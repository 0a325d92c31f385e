"""One child process: a batch of cases, the one at work always on disk.

Half of them begin like a case that reached something new: its choices up to somewhere, one or
two of them changed, then others. A case that takes too long ends the process by a signal that
nothing can hold up; the parent then finds the case in ``current.dlvm``.
"""

from __future__ import annotations

import contextlib
import json
import random
import re
import signal
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dlvm.testing.drawing.dice import Taped

from . import hostile, names, slopes
from .case import Case
from .judge import features, judge
from .subjects import KINDS, SLOPES

BATCH = 20
SECONDS = 300
"""After so long a case counts as hanging."""
CURRENT = "current.dlvm"
MOST_TAPES = 3000


@dataclass
class Reached:
    """What cases have reached so far, and the choices of those that were first."""

    features: set[str] = field(default_factory=set[str])
    tapes: dict[str, list[list[int]]] = field(default_factory=dict[str, list[list[int]]])

    @staticmethod
    def load(file: Path) -> Reached:
        """What the children before have written."""
        with contextlib.suppress(OSError, ValueError):
            found = json.loads(file.read_text("utf8"))
            return Reached(set(found["features"]), found["tapes"])
        return Reached()

    def save(self, file: Path) -> None:
        """For the next child."""
        kept = {kind: tapes[-MOST_TAPES // 10 :] for kind, tapes in self.tapes.items()}
        file.write_text(json.dumps({"features": sorted(self.features), "tapes": kept}), "utf8")

    def start(self, kind: str, rng: random.Random) -> list[int]:
        """How a case begins: as another one did, or in no given way."""
        tapes = self.tapes.get(kind)
        if not tapes or rng.random() < 0.5:
            return []
        tape = list(rng.choice(tapes))
        tape = tape[: rng.randint(1, len(tape))]
        for _ in range(rng.randint(0, 2)):
            tape[rng.randrange(len(tape))] = rng.randint(0, 1 << 16)
        return tape

    def note(self, kind: str, found: set[str], drawn: list[int]) -> None:
        """Remember choices that reached something new."""
        new = {f"{kind} {feature}" for feature in found} - self.features
        if new:
            self.features |= new
            self.tapes.setdefault(kind, []).append(drawn)


def child(first: int, kinds: Sequence[str], keep: Path, only: bool = False) -> None:
    """A batch of seeds of each kind; what fails is kept and told, and the rest goes on.

    With ``only`` the first that fails is all that is wanted.
    """
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    reached = Reached.load(keep / "reached.json")
    for seed in range(first, first + BATCH):
        for kind in kinds:
            print(f"try {kind} {seed}", flush=True)
            with limited(SECONDS):
                right = _try(kind, seed, reached, keep)
            if only and not right:
                return
    reached.save(keep / "reached.json")


@contextlib.contextmanager
def limited(seconds: float):
    """The process ends where this takes longer."""
    signal.setitimer(signal.ITIMER_REAL, seconds)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)


def _try(kind: str, seed: int, reached: Reached, keep: Path) -> bool:
    current = keep / CURRENT
    current.unlink(missing_ok=True)
    try:
        if kind in OWN:
            OWN[kind](seed, current)
            return True
        rng = random.Random(seed)
        dice = Taped(seed, reached.start(kind, rng))
        case = ALL[kind](dice)
        current.write_text(str(case), "utf8")
        if kind == "slopes":
            slopes.judge(case)
            reached.note(kind, features([case.module]), dice.drawn)
        else:
            reached.note(kind, features([*judge(case)]), dice.drawn)
    except Exception as error:
        said = str(error).strip().splitlines() or [""]
        print(f"FAIL {kind} {seed} {type(error).__name__}: {said[0]}", flush=True)
        keep_case(current, keep, kind, seed)
        return False
    return True


def keep_case(current: Path, keep: Path, kind: str, seed: int) -> None:
    """The case at work, under a name of its own."""
    if current.exists():
        current.rename(kept(keep, kind, seed))


def kept(keep: Path, kind: str, seed: int) -> Path:
    """Where a case is kept that failed."""
    return keep / f"{re.sub('[^a-z]', '-', kind)}-{seed}.dlvm"


OWN: dict[str, Callable[[int, Path], None]] = {**hostile.KINDS, "names": names.judge}
"""Kinds that draw and judge by themselves, and have no module to keep."""
ALL: dict[str, Callable[..., Case]] = {**KINDS, "slopes": SLOPES}
