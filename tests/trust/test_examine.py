"""A program that is compiled rightly passes; each kind of fault is found where it is."""

from __future__ import annotations

import numpy as np
import pytest

import dlvm
from dlvm.ad import expand
from dlvm.base.errors import UserError
from dlvm.gen.build import build
from dlvm.ir import F16, Declaration, Module, Param, TensorType, parse
from dlvm.ops import Atan2, Mul, Neg, Sin, Sub
from dlvm.target import Target
from dlvm.testing.drawing.dice import Seeded
from dlvm.testing.drawing.random_programs import arguments, random_program
from dlvm.trust.answers import Answer, Question, answered, differ
from dlvm.trust.blame import bisect
from dlvm.trust.derivatives import STEP, difference
from dlvm.trust.examine import examine
from dlvm.trust.inputs import drawn
from dlvm.trust.rounding import Run, rounds
from tests.fuzz.slopes import declared
from tests.fuzz.subjects import SLOPES, SMOOTH

PROGRAM = parse(
    """dlvm 1
func @f(%x: f64[B], %y: f64[B]) -> f64 {
  %0 = sin %x : f64[B]
  %1 = mul %0, %y : f64[B]
  %2 = sum %1 axes=(0) : f64
  return %2
}
adjoint @df of @f wrt (0, 1) keep (0)
tangent @tf of @f wrt (0) keep (0)
batched @bf of @f axes (0, 1) size 3
"""
)

CHAOTIC = parse("""dlvm 1
func @main(%x0: f64[71]) -> f64[71,71] {
  %0, %1 = scan [%x0], [], [] length=71 reverse=true : f64[71], f64[71,71]
    body(%x0: f64[71]) -> (f64[71], f64[71]) {
      %0 = mul %x0, %x0 : f64[71]
      %1 = constant value=0.5 : f64
      %2 = broadcast %1 shape=(71) axes=() : f64[71]
      %3 = add %0, %2 : f64[71]
      %4 = digamma %3 : f64[71]
      %5 = sign %4 : f64[71]
      return %4, %5
    }
  return %1
}
""")


def test_signs_of_a_chaotic_recurrence_are_no_fault():
    arrays = [np.random.default_rng(1).standard_normal(71)]
    asked = Question(CHAOTIC, arrays)
    assert differ(asked, asked.run(np.random.default_rng(2))) is None
    steady = parse(str(CHAOTIC).replace("value=0.5", "value=9.0"))
    asked = Question(steady, arrays)
    (signs,) = asked.answer.results
    assert differ(asked, Answer((np.where(signs == signs[3, 5], -signs, signs),))) is not None


@pytest.mark.drawn(3)
@pytest.mark.parametrize("seed", range(12))
def test_random_programs_are_compiled_rightly(seed):
    program = random_program(Seeded(seed))
    assert examine(program.module, program.arrays, target=Target.host()) is None


@pytest.mark.parametrize("kind", ["adjoint", "tangent", "batched"])
@pytest.mark.parametrize("seed", range(6))
def test_declarations_of_random_programs_mean_what_they_say(kind, seed):
    program = random_program(Seeded(seed), SMOOTH, max_ops=6, symbolic=kind != "batched")
    main = program.module.main
    wrt = tuple(i for i, p in enumerate(main.params) if p.dtype.is_float)
    if kind == "batched":
        axes = tuple(0 if i % 2 else None for i in range(1, len(main.params) + 1))
        declared = Declaration(kind, "d", main.name, axes=axes, size=2)
    else:
        declared = Declaration(kind, "d", main.name, wrt, (0,), seeded=kind == "adjoint")
    try:
        assert examine(Module((*program.module.entries, declared)), program.arrays) is None
    except UserError:  # a derivative that there is none of
        return


@pytest.mark.parametrize("seed", range(12))
def test_derivatives_of_derivatives_mean_what_they_say(seed):
    case = SLOPES(Seeded(seed))
    arrays = arguments(case.module.main.params, case.sizes, case.seed)
    assert examine(declared(case)[0], arrays) is None


@pytest.mark.parametrize("part", [0.0, 0.003, 0.01, 0.04, 0.2, 0.6])
def test_the_error_of_a_slope_reaches_over_a_kink_within_the_step(part: float):
    """Next to a kink, central differences agree on a slope between those of the two sides."""
    slope, error = difference(lambda t: abs(t - part * STEP))
    assert abs(slope + 1) <= error
    assert difference(np.sin)[1] < 1e-9


def test_a_program_with_derivatives_passes_down_to_machine_code():
    assert examine(PROGRAM, target=Target.host()) is None


def test_a_wrong_adjoint_is_the_rule_of_its_operation(monkeypatch):
    right = Sin.adjoint
    monkeypatch.setattr(Sin, "adjoint", lambda self, dy: (-right(self, dy)[0],))
    found = bisect(PROGRAM)
    assert found is not None
    assert (found.kind, found.stage) == ("answer", "differentiate")
    assert found.law is not None and found.law.file.endswith("test_examine.py")
    assert "sin" in found.before
    assert found.origin is not None and found.origin.line == 3


def test_a_rule_that_is_wrong_in_second_derivatives_only_is_named(monkeypatch):
    """The adjoint of a sine is a product, and only the adjoint of that asks for its rule."""
    second = "dlvm 1\nfunc @f(%x: f64) -> f64 {\n  %0 = sin %x : f64\n  return %0\n}\n"
    second += "adjoint @df of @f wrt (0) keep ()\nadjoint @ddf of @df wrt (0) keep ()\n"
    right = Mul.adjoint
    monkeypatch.setattr(Mul, "adjoint", lambda self, dy: tuple(-d for d in right(self, dy)))
    found = bisect(parse(second))
    assert found is not None
    assert (found.kind, found.stage) == ("answer", "differentiate")
    assert "adjoint @ddf of @df" in found.message and "mul" in found.before


def test_rounding_is_measured_not_set():
    """1 + x - 1 keeps few digits, x keeps all; the same error is wrong of the one only."""
    text = "dlvm 1\nfunc @f(%x: f32[2]) -> f32[2] {{\n{0}  return %{1}\n}}\n"
    lossy = "  %0 = constant value=1000.0 : f32\n  %1 = broadcast %0 shape=(2) axes=() : f32[2]\n"
    lossy += "  %2 = add %x, %1 : f32[2]\n  %3 = sub %2, %1 : f32[2]\n"
    x = np.array([0.1, 0.2], np.float32)
    off = Answer((x * np.float32(1.0001),))
    assert differ(Question(parse(text.format(lossy, 3)), [x]), off) is None
    exact = Question(parse(text.format("", "x")), [x])
    assert differ(exact, Answer((x,))) is None
    said = str(differ(exact, off))
    assert said.startswith("result 0[0]: expected 0.1")


def test_a_comparison_of_what_rounds_alike_is_not_compared():
    text = """dlvm 1
func @f(%x: f64, %y: f64) -> bool {
  %0 = add %x, %y : f64
  %1 = sub %0, %y : f64
  %2 = less %1, %x : bool
  return %2
}
"""
    tie = Question(parse(text), [np.array(0.5), np.array(0.25)])
    clear = Question(parse(text), [np.array(0.5), np.array(0.25)])
    clear.module = parse(text.replace("%0, %y", "%0, %x"))
    assert differ(tie, Answer((np.array(True),))) is None
    assert differ(clear, Answer((~clear.answer.results[0],))) is not None


def test_integers_are_equal_or_wrong():
    text = "dlvm 1\nfunc @f(%x: i8[2]) -> i8[2] {\n  %0 = add %x, %x : i8[2]\n  return %0\n}\n"
    x = np.array([1, 2], np.int8)
    question = Question(parse(text), [x])
    assert differ(question, Answer((x + x,))) is None
    assert str(differ(question, Answer((x * 3,)))) == "result 0[0]: expected 2 exactly, found 3"


def test_which_operations_round_is_read_off_their_formulas():
    module = parse(
        """dlvm 1
func @f(%x: f32[3], %i: i8[3]) -> f32[3] {
  %0 = neg %x : f32[3]
  %1 = floor %0 : f32[3]
  %2 = maximum %1, %x : f32[3]
  %3 = max %2 axes=(0) : f32
  %4 = cast %i dtype=f32 : f32[3]
  %5 = exp %x : f32[3]
  %6 = mul %5, %x : f32[3]
  %7 = sum %x axes=(0) : f32
  %8 = cast %x dtype=f16 : f16[3]
  %9 = cumulative_min %x axis=0 : f32[3]
  %10 = cumulative_sum %x axis=0 : f32[3]
  return %x
}
"""
    )
    found = [op.name for op in module.main.ops if rounds(op)]
    assert found == ["exp", "mul", "sum", "cast", "cumulative_sum"]


def test_random_arguments_are_in_the_domains_of_the_operations():
    text = """dlvm 1
func @f(%x: f64[9], %y: f64[9], %i: i64[2]) -> (f64[9], f64[9], f64[2]) {
  %0 = log %x : f64[9]
  %1 = atanh %y : f64[9]
  %2 = gather %y, %i axis=0 : f64[2]
  return %0, %1, %2
}
"""
    module = parse(text)
    arrays = drawn(module, seed=3)
    machine = Run(module)
    out = machine.enter("f", arrays)
    assert machine.domain == [0] and all(np.isfinite(r).all() for r in out)
    again = drawn(module, seed=3)
    assert all(np.array_equal(a, b) for a, b in zip(arrays, again, strict=True))


def test_a_loop_that_never_ends_is_not_waited_for():
    text = """dlvm 1
func @f(%x: f64) -> f64 {
  %0 = while [%x], [] : f64
    condition(%a: f64) -> bool {
      %0 = equal %a, %a : bool
      return %0
    }
    body(%a: f64) -> f64 {
      return %a
    }
  return %0
}
"""
    question = Question(parse(text).verify(), [np.array(1.0)])
    assert question.answer.error is not None
    assert differ(question, Answer((np.array(2.0),))) is None


def swapped(op: Sub):
    """x y - z = z - x y, which is wrong."""
    return Sub(op.y, op.x) if isinstance(op.x, Mul) and not isinstance(op.y, Mul) else None


def failing(op: Sub):
    """x y - z = x expand, which is nothing."""
    return Mul(op.x, expand) if isinstance(op.x, Mul) else None  # type: ignore[arg-type]


LAWS = """dlvm 1
func @f(%x: f64[3], %y: f64[3]) -> f64[3] {
  %0 = sub %x, %y : f64[3]
  %1 = mul %0, %x : f64[3]
  %2 = sub %1, %y : f64[3]
  %3 = add %2, %x : f64[3]
  return %3
}
"""


@pytest.mark.parametrize("law", [swapped, failing], ids=lambda f: f.__name__)
def test_the_law_that_changes_the_answer_is_named_with_the_operation(law, planted_law):
    with planted_law(Sub, law):
        found = bisect(parse(LAWS))
    assert found is not None and found.law is not None
    assert found.stage == "simplify"
    assert found.law.name == law.__name__
    assert found.law.line == law.__code__.co_firstlineno
    if law is swapped:
        assert found.kind == "answer"
        assert found.origin is not None and found.origin.line == 5
        assert found.before == "%2 = sub %1, %y : f64[3]"
        assert found.after.endswith("sub %y, %1 : f64[3]")
    else:
        assert found.kind == "crash"


def test_a_function_that_calls_itself_passes_down_to_machine_code():
    @dlvm.function
    def power(n, x):
        return dlvm.cond(n <= 0, lambda: x * 0 + 1.0, lambda: x * power(n - 1, x))

    arrays = [np.asarray(3), np.asarray(2.0)]
    assert examine(dlvm.trace(power, *arrays), arrays) is None
    assert examine(dlvm.trace(dlvm.grad(power, wrt=1), *arrays), arrays) is None


FEW = 500
LONG = """dlvm 1
func @f(%x: f64) -> f64 {
  %0 = scan [%x], [], [] length=100000 : f64
    body(%c: f64) -> f64 {
      %0 = sin %c : f64
      %1 = mul %0, %c : f64
      return %1
    }
  return %0
}
adjoint @df of @f wrt (0)
"""


def test_answers_that_take_too_long_are_not_compared(monkeypatch, caplog):
    steps = [0]
    right = Run.step

    def counted(self, op, operands):
        steps[0] += 1
        return right(self, op, operands)

    monkeypatch.setattr(Run, "step", counted)
    assert examine(parse(LONG), patience=FEW) is None
    assert "answers are not compared" in caplog.text and f"{FEW} operations" in caplog.text
    assert steps[0] <= 8 * FEW  # the arguments, the answer
    caplog.clear()
    short = parse(LONG.replace("100000", "30"))
    assert examine(short, patience=FEW) is None and not caplog.text


def test_and_what_stages_make_is_verified_all_the_same(monkeypatch):
    monkeypatch.setattr(Sin, "adjoint", lambda self, dy: 1 / 0)
    found = examine(parse(LONG), patience=FEW)
    assert found is not None and (found.kind, found.stage) == ("crash", "differentiate")


def test_half_precision_rounds_as_what_it_computes_in():
    """The scalar words of an operation on halves are those of f32, with its constants."""
    x = Param(TensorType(F16, (3,)), "x")
    assert rounds(Atan2(x, x)) and not rounds(Neg(x))


def test_what_is_printed_is_compared():
    """In its order, by name, and to the bit where nothing rounds."""
    text = "\n".join(['  print %x label="a"', '  tap %y label="b"'])
    module = parse(f"dlvm 1\nfunc @f(%x: i64, %y: i64) -> i64 {{\n{text}\n  return %x\n}}\n")
    arrays = (np.array(1), np.array(2))
    question = Question(module, arrays)
    code = build(module)
    found = answered(lambda write: code.run(arrays, write))
    assert [name for name, _ in found.told] == ["print a", "tap b"]
    assert differ(question, found) is None
    turned = Answer(found.results, found.told[::-1])
    assert differ(question, turned).value == "what is told"
    wrong = Answer(found.results, (("print a", np.array(3)), found.told[1]))
    assert differ(question, wrong).value == "print a"
