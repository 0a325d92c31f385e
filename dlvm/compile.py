"""The road, on one page: from a traced module to something that runs.

    traced ─differentiate→ differentiated ─optimise→ optimized ─fuse→ kernels ─build→ machine code

Every arrow is a pure function and every stop can be shown as text. ``DLVM_INTERPRET=1`` leaves
the road after the first arrow and runs by the references of the operations.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

import numpy as np

from dlvm import passes
from dlvm.ad.expand import expand
from dlvm.errors import IRError, UserError
from dlvm.ir import Array, Module, hooks
from dlvm.ir.interpret import Interpreter

STAGES = ("traced", "differentiated", "optimized", "kernels", "loops", "llvm", "asm")


@dataclass(frozen=True, slots=True)
class Options:
    """What a user may say about how code is made."""

    target: str = "host"
    threads: int | None = None

    def __post_init__(self) -> None:
        if self.target != "host":
            raise UserError(
                f"target={self.target!r}: there is no such target", remedy='it can be "host"'
            )
        if self.threads is not None and self.threads < 1:
            raise UserError(f"threads={self.threads}: at least one is needed")


class Executable(Protocol):
    """What the last arrow gives."""

    def run(self, arrays: Sequence[Any]) -> tuple[Array, ...]:
        """Results on arrays in parameter order."""
        ...

    @property
    def texts(self) -> Mapping[str, str]:
        """The stages behind the kernels."""
        ...


def interpreting() -> bool:
    """Whether staged code is to run by the interpreter."""
    return os.environ.get("DLVM_INTERPRET", "") not in ("", "0")


@dataclass(frozen=True, slots=True)
class Built:
    """A compiled module: its stages, and how to run it."""

    stages: Mapping[str, Module]
    executable: Executable
    seconds: Mapping[str, float]

    def text(self, stage: str) -> str:
        """A stage of the road as text."""
        if stage in self.stages:
            return str(self.stages[stage])
        if stage in self.executable.texts:
            return self.executable.texts[stage]
        raise IRError(f"no stage {stage!r}; there are {', '.join(STAGES)}")


@dataclass(frozen=True, slots=True)
class Report:
    """What was made and what it costs."""

    seconds: Mapping[str, float] = field(default_factory=dict[str, float])
    target: str = "interpreter"

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)


def build(module: Module, options: Options) -> Built:
    """Take a traced module down the road."""
    seconds: dict[str, float] = {}
    differentiated = _timed(seconds, "differentiate", lambda: expand(module))
    stages = {"traced": module, "differentiated": differentiated, "optimized": differentiated}
    return Built(stages, Interpreted(differentiated), seconds)


def _timed(seconds: dict[str, float], phase: str, run: Callable[[], Module]) -> Module:
    start = time.perf_counter()
    out = run()
    seconds[phase] = time.perf_counter() - start
    return out


@dataclass(frozen=True, slots=True)
class Interpreted:
    """A module that runs by its references; results overwrite the donated arguments they fit."""

    module: Module
    texts: Mapping[str, str] = field(default_factory=dict[str, str])

    def run(self, arrays: Sequence[Any]) -> tuple[Array, ...]:
        """Results on arrays in parameter order, none of which shares memory with an argument."""
        main = self.module.main
        with np.errstate(all="ignore"):
            found = Interpreter(self.module).enter(main.name, arrays)
        results = [np.array(r) for r in found]
        for i, j in donations(self.module).items():
            arrays[i][...] = results[j]
            results[j] = arrays[i]
        return tuple(results)


def donations(module: Module) -> dict[int, int]:
    """Which result overwrites which donated parameter: the first free one of its type."""
    main = module.main
    free = dict(enumerate(r.type for r in main.results))
    out: dict[int, int] = {}
    for i, param in enumerate(main.params):
        found = next((j for j, t in free.items() if param.donated and t == param.type), None)
        if found is not None:
            out[i] = found
            del free[found]
    return out


def optimize(module: Module, names: Sequence[str] | None = None) -> Module:
    """The module after the passes named, or after the default pipeline."""
    return passes.run(expand(module), passes.named(names or ()))


hooks.expand = expand
hooks.optimize = optimize
