"""What a compiled program runs by, besides machine code of this process: four ways, one form.

Each has ``texts``, a ``report`` and ``run``, which takes arrays in the order of parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from dlvm.base.errors import UserError
from dlvm.ir import Array, Module
from dlvm.ir.interpret import Interpreter, deep_enough

if TYPE_CHECKING:
    from dlvm.gen.gpu.executable import DeviceExecutable
    from dlvm.gen.on_mesh import MeshExecutable
    from dlvm.gen.program.report import Report


@dataclass(frozen=True, slots=True)
class Foreign:
    """Code for another processor: it can be read and not called."""

    texts: Mapping[str, str]
    report: Report
    target: str

    def run(self, arrays: Sequence[Any]) -> tuple[Any, ...]:
        """An error: this process does not run on that processor."""
        raise UserError(
            f"compiled for target={self.target!r}, which this process does not run on",
            remedy=f"write it as files that run there: dlvm.aot(f, x, target={self.target!r})",
        )


@dataclass(frozen=True, slots=True)
class OnDevice(Foreign):
    """Code for a GPU, which runs on the device of this process."""

    code: DeviceExecutable

    def run(self, arrays: Sequence[Any]) -> tuple[Any, ...]:
        """The results, as arrays on the device."""
        return self.code.run(arrays)

    def entry(self, *, bare: bool) -> Callable[..., Any] | None:
        """The fast way in for arrays on the device, where there is one."""
        return self.code.entry(bare=bare)


@dataclass(frozen=True, slots=True)
class OnMesh(Foreign):
    """Code that each rank of a mesh runs."""

    code: MeshExecutable

    def run(self, arrays: Sequence[Any]) -> tuple[Any, ...]:
        """The results; of those that ranks share, pieces."""
        return self.code.run(arrays)


@dataclass(frozen=True, slots=True)
class Interpreted:
    """A module that runs by its references; donated arguments are overwritten by results."""

    module: Module
    texts: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def report(self) -> Report:
        """A report in which all counts are zero, since nothing was compiled."""
        from dlvm.gen.program.report import Report

        return Report({}, kernels=0, flops=0, bytes=0, peak_bytes=0, target="interpreter")

    def run(self, arrays: Sequence[Any]) -> tuple[Array, ...]:
        """The results for arrays in parameter order; none shares memory with an argument.

        The exception is a donated argument, which is overwritten by its result and returned.
        """
        main = self.module.main
        with np.errstate(all="ignore"), deep_enough():
            found = Interpreter(self.module).enter(main.name, arrays)
        results = [np.array(r) for r in found]
        for j, i in self.module.main.donations().items():
            arrays[i][...] = results[j]
            results[j] = arrays[i]
        return tuple(results)
