"""``assert_compiled_equals_interpreted``: right programs pass, planted mistakes do not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import Phase, given, settings

import dlvm
from dlvm.ir import BOOL, F32, F64, I64
from dlvm.ops import Bitcast, Cast
from dlvm.ops.elements.logic import Comparison
from dlvm.testing import assert_compiled_equals_interpreted
from dlvm.testing.drawing.random_programs import STRAIGHT, Program
from dlvm.testing.equality import assert_module_agrees
from dlvm.testing.strategies import programs

RNG = np.random.default_rng(0)
SMOOTH = [c for c in STRAIGHT if not issubclass(c, Bitcast | Comparison | Cast)]


def softmax_loss(params, x, *, labels):
    z = dlvm.nn.softmax(x @ params["w"] + params["b"])
    return -dlvm.log(z + 1e-9)[dlvm.arange(len(labels)), labels].mean(), z


PARAMS = {"w": RNG.normal(size=(5, 4)).astype(np.float32), "b": np.zeros(4, np.float32)}
X, LABELS = RNG.normal(size=(6, 5)).astype(np.float32), np.arange(6) % 4


def test_a_real_function_agrees():
    assert_compiled_equals_interpreted(softmax_loss, PARAMS, X, labels=LABELS)
    grad = dlvm.grad(lambda p, x: softmax_loss(p, x, labels=LABELS)[0])
    assert_compiled_equals_interpreted(grad, PARAMS, X)


def test_errors_agree_too():
    assert_compiled_equals_interpreted(lambda x, i: x[i], X, 7)


@settings(max_examples=10, phases=(Phase.explicit, Phase.generate))
@given(programs(SMOOTH, (F32, F64, I64, BOOL), max_ops=6))
def test_random_programs_agree(program: Program):
    with np.errstate(all="ignore"):
        found = [y.astype(np.float64) for y in program.run()]
    if all(np.all(np.abs(y[np.isfinite(y)]) < 1e6) for y in found):
        assert_module_agrees(program.module, program.arrays)


def test_a_mistake_in_code_is_named(monkeypatch):
    from dlvm.ops import Tanh

    right = Tanh.scalar

    def wrong(self, s, *x):
        return s.binary("mul", right(self, s, *x), s.constant(1 + 1e-4, F32))

    monkeypatch.setattr(Tanh, "scalar", wrong)
    with pytest.raises(AssertionError, match=r"result\[\d\] is .* by machine code"):
        assert_compiled_equals_interpreted(lambda x: dlvm.tanh(x), np.float32([0.5, 1.0]))


def test_a_wrong_law_is_seen_at_the_levels_that_use_it(monkeypatch):
    from dlvm.ir.rewrite import RULES, Rule
    from dlvm.ops import Neg, Tanh

    wrong = Rule(
        "tanh_of_nothing", (Tanh,), lambda op: Neg(op.x), (), (), "exact", "a planted mistake"
    )
    monkeypatch.setitem(RULES, Tanh, [wrong])
    with pytest.raises(AssertionError, match="with laws: result"):
        assert_compiled_equals_interpreted(lambda x: dlvm.tanh(x), np.float32([0.5, 1.0]))


def test_results_that_depend_on_threads_are_caught(monkeypatch):
    from dlvm.gen.call.executable import Executable

    run = Executable.run

    def uneven(self, arrays, *more):
        return tuple(
            r * np.float32(1 + 2e-7 * (self.threads - 1)) for r in run(self, arrays, *more)
        )

    monkeypatch.setattr(Executable, "run", uneven)
    with pytest.raises(AssertionError, match="other bits on two threads"):
        assert_compiled_equals_interpreted(lambda x: x * 2.0, np.float32([1.0]))
