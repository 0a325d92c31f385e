"""Operations that are compiled by their own ``lowering()``: results against NumPy's.

The programs run in processes of their own, as an operation that was made stays in the registry.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

RIGHT = """
import numpy as np
from typing import Any
import dlvm
from dlvm.ir import Array, Value
from dlvm.ops import Elementwise, Exp, Log, Sum

class Softplus(Elementwise):
    "log(1 + exp(x))."
    name = "soft_plus"
    accepts = "f"
    x: Value
    def reference(self, *operands: Array) -> Any:
        return np.log(1 + np.exp(operands[0]))
    def adjoint(self, *dy: Value):
        return (dy[0] * (Exp(self.x) / (Exp(self.x) + 1.0)),)
    def lowering(self):
        return Log(Exp(self.x) + 1.0)

class Twice(Elementwise):
    "Two of it."
    name = "twice_soft_plus"
    accepts = "f"
    x: Value
    def reference(self, *operands: Array) -> Any:
        return 2 * np.log(1 + np.exp(operands[0]))
    def adjoint(self, *dy: Value):
        return (dy[0] * 2.0 / (Exp(-self.x) + 1.0),)
    def lowering(self):
        return Softplus(self.x) * 2.0

x = np.array([-1.0, 0.5, 2.0])
want = np.log1p(np.exp(x))
loop = lambda x: dlvm.fori_loop(0, 3, lambda i, c: dlvm.soft_plus(c), x)
loop_want = np.log1p(np.exp(np.log1p(np.exp(want))))
for name, times in (("soft_plus", 1), ("twice_soft_plus", 2)):
    op = getattr(dlvm, name)
    assert np.allclose(dlvm.function(op)(x), times * want)
    assert np.allclose(dlvm.function(dlvm.grad(lambda x: op(x).sum()))(x), times / (1 + np.exp(-x)))
    assert np.allclose(dlvm.function(dlvm.vmap(op))(np.stack([x, x])), times * want)
assert np.allclose(dlvm.function(loop)(x), loop_want)
"""

REFUSED = """
import numpy as np
from typing import Any
import dlvm
from dlvm.ir import Array, Value
from dlvm.ops import Elementwise, Exp, Log, Sum

class Wrong(Elementwise):
    "A lowering of another type."
    name = "wrong_lowering"
    accepts = "f"
    x: Value
    def reference(self, *operands: Array) -> Any:
        return operands[0]
    def lowering(self):
        return Sum(self.x, (0,))
try:
    dlvm.function(dlvm.wrong_lowering)(np.ones(3))
except dlvm.DlvmError as e:
    assert "lowering() of wrong_lowering must return f64[3], found f64" in str(e), e
else:
    raise SystemExit("not refused")
class Endless(Elementwise):
    "A lowering to itself."
    name = "endless_lowering"
    accepts = "f"
    x: Value
    def reference(self, *operands: Array) -> Any:
        return operands[0]
    def lowering(self):
        return Endless(self.x)
try:
    dlvm.function(dlvm.endless_lowering)(np.ones(3))
except dlvm.DlvmError as e:
    assert "did not end after 100 levels" in str(e), e
else:
    raise SystemExit("not refused")
"""


@pytest.mark.parametrize("program", [RIGHT, REFUSED], ids=["right", "refused"])
def test_own_operations_with_a_lowering(program: str):
    environment = {**os.environ, "DLVM_VERIFY": "passes"}
    subprocess.run([sys.executable, "-c", program], check=True, env=environment)
