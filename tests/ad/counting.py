"""Work counted by the interpreter: floating-point operations, and elements that are written.

Scatters and updates count only what they write: their target is updated in place once memory
is planned, and tests of cost are about that.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dlvm.ir import Module, Op
from dlvm.ir.interpret import Interpreter, bind
from dlvm.ops import Control, Elementwise, Matmul, Reduction, Scatter, Update


class _Counting(Interpreter):
    def __init__(self, module: Module, total: dict[str, int]) -> None:
        super().__init__(module, {}, lambda _: None)
        self.total = total

    def enter(self, name: str, arrays: Any) -> Any:
        fn = self.module.function(name)
        inner = _Counting(self.module, self.total)
        inner.symbols = bind([p.type for p in fn.params], arrays, [p.name for p in fn.params])
        return inner.call(fn, arrays)

    def step(self, op: Op, operands: list[Any]) -> Any:
        out = super().step(op, operands)
        if isinstance(op, Elementwise):
            self.total["flops"] += sum(o.size for o in out if o.dtype.kind == "f")
        elif isinstance(op, Matmul):
            self.total["flops"] += 2 * operands[0].size * operands[1].shape[-1]
        elif isinstance(op, Reduction):
            self.total["flops"] += operands[0].size
        if isinstance(op, Scatter):
            self.total["writes"] += operands[2].size
        elif isinstance(op, Update):
            self.total["writes"] += operands[1].size
        elif not isinstance(op, Control):
            self.total["writes"] += sum(o.size for o in out)
        return out


def work(module: Module, name: str, *args: Any) -> dict[str, int]:
    """Operations and writes of one run of a function."""
    total = {"flops": 0, "writes": 0}
    with np.errstate(all="ignore"):
        _Counting(module, total).enter(name, [np.asarray(a) for a in args])
    return total
