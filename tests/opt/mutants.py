"""Laws with one mistake each: do their proofs notice?

    python -m tests.opt.mutants [--seconds 600] [--seed 1] [--json FILE] [NAME ...]

Every law, and every function of linear algebra that a law calls, is changed in one place at a time
(``mutations``), for a while and from outside. The proofs of the laws that call it are the suite's
own, with fewer tries: ``prove``, ``means``, and that a law holds wherever it applies among the
operations of ``near``, and on large halves. A change that nothing notices must be harmless: what
it makes of these operations has their forms (``keeps_forms``), or ``harmless`` says why.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import inspect
import json
import resource
import signal
import sys
import time
import types
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import dlvm.dsl  # noqa: F401  registers every rule
from dlvm.ir import Builder, Function, Module, Op, Rule, Value, rules
from dlvm.ir.numerics import EXACT
from dlvm.opt import share
from dlvm.trust.forms.proofs import forms_of

from .harmless import harmless
from .mutations import Mutation, mutations
from .near import Built, holds_nearby, holds_of_halves, keeps_digits, operations, tried
from .test_over_the_reals import means
from .test_rules import Broken, prove

TRIES = 12
"""Random examples of a law for each mutant."""
SECONDS = 5
"""After which a mutant counts as one that does not end."""
BYTES = 6 << 30
"""What a proof may allocate, so that a mutant that does not end does not take all memory."""
ALGEBRA = "dlvm.opt.algebra."
BESIDE = {ALGEBRA + name for name in ("examples", "ledger", "rearranging", "facts_into_regions")}
"""What says which form is cheaper, or builds the examples."""

COSTS = {"Plan.__init__", "Plan._cheapest", "Plan._cut", "Factor.rows", "Factor.columns"}
"""Functions that say what a form costs; ``test_chains`` holds them to the cheapest of all."""


@dataclass(frozen=True)
class Mutant:
    """A function with one mistake, and the laws that call the function."""

    function: types.FunctionType
    mutation: Mutation
    laws: tuple[Rule, ...]

    @property
    def key(self) -> tuple[str, str]:
        """The name of the function and the line that changed."""
        return self.function.__qualname__, self.mutation.after

    @contextmanager
    def planted(self) -> Iterator[None]:
        """The mistake is made for a while; what is registered is the same function."""
        before = self.function.__code__
        self.function.__code__ = _code(self.function, self.mutation.tree)
        try:
            yield
        finally:
            self.function.__code__ = before


def _code(function: types.FunctionType, tree: ast.FunctionDef) -> types.CodeType:
    module = ast.Module([tree], [])
    outer = compile(module, function.__code__.co_filename, "exec", dont_inherit=True)
    return next(c for c in outer.co_consts if isinstance(c, types.CodeType))


@cache
def mutants() -> tuple[Mutant, ...]:
    """Every law and every function of linear algebra that it calls, with one mistake each."""
    return tuple(mutant for function in laws_of() for mutant in mutants_of(function))


@cache
def laws_of() -> dict[types.FunctionType, tuple[Rule, ...]]:
    """The laws that call a function, for every law and every function of linear algebra."""
    laws: dict[types.FunctionType, list[Rule]] = defaultdict(list)
    for rule in rules():
        for function in reached(rule.apply):
            laws[function].append(rule)
    return {function: tuple(of) for function, of in laws.items()}


def mutants_of(function: types.FunctionType) -> tuple[Mutant, ...]:
    """A law, or a function that laws call, with one mistake each."""
    laws = laws_of()[function]
    is_law = any(rule.apply is function for rule in laws)
    return tuple(Mutant(function, m, laws) for m in mutations(_tree(function), is_law))


def _tree(function: types.FunctionType) -> ast.FunctionDef:
    lines, _ = inspect.getsourcelines(function)
    tree = ast.parse(inspect.cleandoc("\n" + "".join(lines))).body[0]
    assert isinstance(tree, ast.FunctionDef)
    return tree


def reached(law: Callable[..., Any]) -> list[types.FunctionType]:
    """A law and the functions that it calls, those of its own file and of linear algebra."""
    found: list[types.FunctionType] = []
    pending: list[Any] = [law]
    while pending:
        function = pending.pop()
        if function not in found:
            found.append(function)
            called = (f for f in _called(function) if _belongs(f, law))
            pending += [f for f in called if f.__qualname__ not in COSTS]
    return found


def _belongs(function: Any, law: Callable[..., Any]) -> bool:
    at = function.__module__
    return at == law.__module__ or (at.startswith(ALGEBRA) and at not in BESIDE)


def _called(function: types.FunctionType) -> Iterator[Any]:
    for name in _names(function.__code__):
        value = function.__globals__.get(name)
        if _is_written(value):
            yield value
        elif isinstance(value, type) and value.__module__.startswith(ALGEBRA):
            parts = (p.fget if isinstance(p, property) else p for p in vars(value).values())
            yield from (p for p in parts if _is_written(p))
        elif isinstance(value, types.ModuleType):
            yield from (
                f
                for n, f in vars(value).items()
                if n in _names(function.__code__) and _is_written(f)
            )


def _is_written(value: Any) -> bool:
    """Whether a value is a function that stands in a file; those of a dataclass do not."""
    if not isinstance(value, types.FunctionType):
        return False
    made = hasattr(value, "__wrapped__") or value.__name__ == "<lambda>"
    return not made and value.__code__.co_filename.endswith(".py")


def _names(code: types.CodeType) -> set[str]:
    inner = (c for c in code.co_consts if isinstance(c, types.CodeType))
    return set(code.co_names).union(*map(_names, inner))


# -- proofs ---------------------------------------------------------------------------------------


class Endless(BaseException):
    """A proof that takes too long, told past what looks for failing examples."""


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """``Endless`` is raised inside after so many seconds; memory is limited as well."""

    def stop(*_: Any) -> None:
        raise Endless

    before = signal.signal(signal.SIGALRM, stop)
    most = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (BYTES, most[1]))
    signal.setitimer(signal.ITIMER_REAL, seconds, 0.5)  # again, as callbacks swallow it
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        resource.setrlimit(resource.RLIMIT_AS, most)
        signal.signal(signal.SIGALRM, before)


def proven(rule: Rule, tries: int = TRIES) -> None:
    """The suite's proof of a law on its own examples, which are the same in every run."""

    @settings(
        max_examples=tries,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(data=st.data())
    def attempt(data: Any) -> None:
        prove(rule, data.draw)

    attempt()


PROOFS: dict[str, Callable[[Rule], Any]] = {
    "prove": proven,
    "means": means,
    "near": holds_nearby,
    "halves": holds_of_halves,
    "digits": keeps_digits,
}


@dataclass(frozen=True)
class Verdict:
    """What became of a mutant: which proof of which law noticed it, and how."""

    mutant: Mutant
    proof: str = ""
    law: str = ""
    how: str = "survived"

    @property
    def noticed(self) -> bool:
        """Whether a proof failed."""
        return bool(self.proof)

    @property
    def harmless(self) -> str:
        """Why it may go unnoticed."""
        return "" if self.noticed else why_harmless(self.mutant)


def why_harmless(mutant: Mutant) -> str:
    """Why a mistake changes no answer; nothing if none is known."""
    return harmless(*mutant.key) or (keeps_forms(mutant) and "every result has one form") or ""


def keeps_forms(mutant: Mutant) -> bool:
    """Whether a mistake changes a result of a law, and every result still has the right form.

    Asked of operations near to the examples. A law that does not apply leaves what is there, but
    it has to apply to its own examples. Where no result changes, forms say nothing.
    """
    changes = False
    for rule in mutant.laws:
        try:
            with limited(SECONDS), mutant.planted():
                mistaken = _results(rule)
        except (Exception, Endless):
            return False
        for one, right, wrong in zip(tried(rule), _results(rule), mistaken, strict=True):
            if not _same(one.before.ops, right, wrong):
                changes = True
                if not _is_right(rule, one, wrong[1]):
                    return False
    return changes


Result: TypeAlias = "tuple[list[Op], Value | None]"
"""What a law builds, and what it proposes."""


def _results(rule: Rule) -> list[Result]:
    """The results of a law on the operations near to its examples."""
    found: list[Result] = []
    for one in tried(rule):
        with Builder() as after:
            value = rule.apply(one.left)
        found.append((after.ops, value))
    return found


def _same(before: Sequence[Op], right: Result, wrong: Result) -> bool:
    """Whether two results are computed in the same way."""
    (first, x), (second, y) = right, wrong
    if x is None or y is None or x is y:
        return x is y
    x, y = share.run(Module((Function("f", (), (*before, *first, *second), (x, y)),))).main.results
    return x is y


def _is_right(rule: Rule, one: Built, value: Value | None) -> bool:
    """Whether a law proposes a value with the form of an operation, or may refuse it."""
    if value is None:
        return one.name != f"as {rule.name}"
    if value.type != one.left.type:
        return False
    forms = forms_of(one.left, value, rule.law_class == EXACT)
    return forms is not None and forms[0] == forms[1]


def judge(mutant: Mutant) -> Verdict:
    """Runs the proofs of the laws that a mistake reaches until one of them fails."""
    for rule in mutant.laws:
        operations(rule)
    with mutant.planted():
        for proof, check in PROOFS.items():
            for rule in mutant.laws:
                if how := _failure(check, rule):
                    return Verdict(mutant, proof, rule.name, how)
    return Verdict(mutant)


def _failure(check: Callable[[Rule], Any], rule: Rule) -> str:
    """How a proof of a law fails: it never applies, is wrong, or ends in an error; or not."""
    try:
        with limited(SECONDS):
            check(rule)
    except (Endless, MemoryError):
        return "endless"
    except Broken as error:
        return "dead" if "does not fire" in str(error) else "wrong"
    except AssertionError:
        return "wrong"
    except Exception:
        return "error"
    return ""


# -- the command ----------------------------------------------------------------------------------


def drawn(found: Sequence[Mutant], seed: int) -> list[Mutant]:
    """The mutants in random order; a change of one law moves only its own."""

    def place(mutant: Mutant) -> bytes:
        return hashlib.sha256(repr((seed, mutant.key, mutant.mutation.before)).encode()).digest()

    return sorted(found, key=place)


def line(v: Verdict) -> str:
    """A row of the table."""
    name = v.mutant.function.__qualname__
    how = "harmless" if v.harmless else v.how
    return f"{how:9} {v.proof:6} {name:32} {v.mutant.mutation.after}"


def main() -> int:
    """The table, and how many of each."""
    parser = argparse.ArgumentParser(description="laws with one mistake each")
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, help="where to write every verdict")
    parser.add_argument("names", nargs="*", help="functions; all without them")
    options = parser.parse_args()
    names, end = set(options.names), time.monotonic() + options.seconds
    chosen = [m for m in mutants() if not names or m.function.__qualname__ in names]
    verdicts: list[Verdict] = []
    for mutant in drawn(chosen, options.seed):
        if time.monotonic() > end:
            break
        verdicts.append(judge(mutant))
        if names or not verdicts[-1].noticed:
            print(line(verdicts[-1]), flush=True)
    bad = [v for v in verdicts if not v.noticed and not v.harmless]
    print(summary(verdicts))
    if options.json:
        options.json.write_text(json.dumps([_row(v) for v in verdicts], indent=1), "utf8")
    return 1 if bad else 0


def summary(verdicts: Sequence[Verdict]) -> str:
    """How many laws were mutated, and what became of the mutants."""
    laws = {r.name for v in verdicts for r in v.mutant.laws if r.apply is v.mutant.function}
    wrong = {v.mutant.function for v in verdicts if v.how == "wrong"}
    meant = sum(r.apply in wrong for r in rules())
    counts = Counter("harmless" if v.harmless else v.how for v in verdicts)
    told = ", ".join(f"{n} {how}" for how, n in counts.most_common())
    return f"{len(verdicts)} mutants of {len(laws)} laws ({meant} gave wrong answers): {told}"


def _row(v: Verdict) -> dict[str, str]:
    return {
        "function": v.mutant.function.__qualname__,
        "before": v.mutant.mutation.before,
        "after": v.mutant.mutation.after,
        "how": v.how,
        "proof": v.proof,
        "law": v.law,
        "harmless": v.harmless,
    }


if __name__ == "__main__":
    sys.exit(main())
