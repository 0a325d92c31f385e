"""Runs the tests of backends of the package onnx on dlvm, and counts what passes.

python -m tests.onnx.backend [--compiled] [--limit SECONDS] [--kinds node ...] [--only TEXT]

Each case runs in a child that a case can't stop the run with: a case that takes longer than the
limit fails, and the next ones get a new child. Without ``--compiled`` programs are traced and
interpreted. ``refused`` are models that ``dlvm.onnx`` says it can't run, ``failed`` all others that
do not give what is expected. ``parameters`` counts cases in which every input of floats is an
argument of the program, so that there are gradients with respect to it.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
import warnings
from collections import Counter
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

import dlvm
from dlvm.onnx import Unsupported

from .cases import Case, cases

BFLOAT = 2.0**-6
"""The relative tolerance for bfloat16, which has eight bits."""


def run(case: Case, compiled: bool) -> bool:
    """Runs a case, and says whether all inputs of floats are arguments of its program."""
    model = dlvm.onnx.load(case.data)
    if not case.sets:
        raise Unsupported("the case has no inputs that can be read")
    for inputs, expected in case.sets:
        found = model(*inputs) if compiled else interpreted(model, inputs)
        compare(case, found, expected)
    floats = [v for v in model.inputs if v.dtype is not None and v.dtype.kind not in "biu"]
    return not any(v.static for v in floats)


def interpreted(model: dlvm.onnx.Model, inputs: Any) -> Any:
    """The results of the traced program by the interpreter."""
    module = model.trace(*inputs)
    names = [v.name for v in model.inputs]
    given = {n: x for n, x, v in zip(names, inputs, model.inputs, strict=True) if not v.static}
    arguments = [tree[name] for tree in (model.weights, given) for name in sorted(tree)]
    return module.run(module.main.name, *arguments)


def compare(case: Case, found: Any, expected: Any) -> None:
    """Raises an AssertionError unless the results are those expected."""
    assert len(found) == len(expected), f"{len(found)} results, expected {len(expected)}"
    for x, y in zip(found, expected, strict=True):
        x, y = np.asarray(x), np.asarray(y)
        assert x.dtype == y.dtype, f"elements of {x.dtype}, expected {y.dtype}"
        assert x.shape == y.shape, f"shape {x.shape}, expected {y.shape}"
        if case.random:
            continue
        rtol = max(case.rtol, BFLOAT) if y.dtype.name == "bfloat16" else case.rtol
        wide = (z.astype(np.float64) if z.dtype.name == "bfloat16" else z for z in (x, y))
        np.testing.assert_allclose(*wide, rtol=rtol, atol=case.atol)


def outcome(case: Case, compiled: bool) -> tuple[str, str, bool]:
    """Passed, refused or failed; why; and whether all inputs of floats are arguments."""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return "passed", "", run(case, compiled)
    except dlvm.UserError as error:
        refused = isinstance(error, Unsupported) or "onnx: dlvm has no" in error.message
        return "refused" if refused else "failed", str(error).splitlines()[0], False
    except Exception as error:
        return "failed", f"{type(error).__name__}: {' '.join(str(error).split())[:150]}", False


# -- children --------------------------------------------------------------------------------------


def serve(pipe: Connection, known: list[Case], compiled: bool) -> None:
    """Runs the cases whose numbers come through a pipe."""
    while (number := pipe.recv()) is not None:
        pipe.send(outcome(known[number], compiled))


def chosen(kinds: list[str], only: str) -> list[Case]:
    """The cases of a run."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [c for c in cases(*kinds) if only in c.name]


class Child:
    """A process that runs cases, and is replaced when it takes too long or dies."""

    def __init__(self, *options: Any) -> None:
        self.options = options
        self.start()

    def start(self) -> None:
        context = multiprocessing.get_context("fork")
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=serve, args=(other, *self.options), daemon=True)
        self.process.start()
        other.close()

    def run(self, number: int, limit: float) -> tuple[str, str, bool]:
        self.pipe.send(number)
        try:
            if self.pipe.poll(limit):
                return self.pipe.recv()
            why = f"more than {limit:g} s"
        except EOFError:
            why = "the process died"
        self.process.kill()
        self.process.join()
        self.start()
        return "failed", why, False


def main() -> int:
    """Prints every case that does not pass, and the counts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--compiled", action="store_true", help="compile, not only interpret")
    parser.add_argument("--limit", type=float, default=30.0, help="seconds for a case")
    parser.add_argument("--kinds", nargs="*", default=[], help="node, simple, real ...")
    parser.add_argument("--only", default="", help="cases with this text in their names")
    options = parser.parse_args()
    began = time.perf_counter()
    known = chosen(options.kinds, options.only)
    child = Child(known, options.compiled)
    counts: dict[str, Counter[str]] = {"core": Counter(), "all": Counter()}
    for number, case in enumerate(known):
        said, why, free = child.run(number, options.limit)
        for name in ("core", "all") if case.is_core() else ("all",):
            counts[name].update([said, "cases", *(["parameters"] if free else [])])
        if said != "passed":
            print(f"{said} {case.name}: {why}", flush=True)
    child.process.kill()
    for name, row in counts.items():
        print(
            f"{name}: {row['passed']} passed, {row['refused']} refused, {row['failed']} failed of "
            f"{row['cases']}; {row['parameters']} with all floats as parameters"
        )
    print(f"{time.perf_counter() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
