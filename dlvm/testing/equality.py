"""``assert_compiled_equals_interpreted``: compares machine code with the references.

The comparison is made at each level of optimisation, on one thread and on two. Integers must be
equal, floats as near as rounding explains (see ``dlvm.trust.answers``), and threads may change no
bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dlvm import passes
from dlvm.compile import expand
from dlvm.dsl.call.function import StagedFunction, is_staged
from dlvm.ir import Array, Module
from dlvm.trust.answers import Answer, Question, answered, differ, distance

if TYPE_CHECKING:
    from dlvm.gen.call.executable import Executable


def assert_compiled_equals_interpreted(f: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """Run ``f`` compiled at every level of optimisation and thread count, and by the references.

    Raises an ``AssertionError`` that names the result, the element, both values and what rounding
    explains.
    """
    staged = f if is_staged(f) else StagedFunction(f)
    applied = staged.applied(args, kwargs)
    assert_module_agrees(applied.module, applied.arrays, applied.results)


def assert_module_agrees(
    module: Module, arrays: Sequence[Array], names: Sequence[str] | None = None
) -> None:
    """The same for a module and arguments of its first function."""
    from dlvm.gen.build import build
    from dlvm.opt.pipelines import DEFAULT, default, meaning

    full = expand(module)
    meant = Question(full, arrays)
    named = names or [f"result {i}" for i in range(len(full.main.results))]
    levels = {"without laws": DEFAULT[:1], "with laws": meaning(), "with kernels": default()}
    for level, pipeline in levels.items():
        changed = passes.run(full, pipeline)
        code = build(changed)
        one, two = (_run(replace(code, threads=n), arrays) for n in (1, 2))
        other = None if level == "without laws" else Question(changed, arrays)
        _compare(meant, one, other, named, level)
        _same_bits(one, two, named, level)


def _run(code: Executable, arrays: Sequence[Array]) -> Answer:
    return answered(lambda write: code.run([np.array(a) for a in arrays], write))


def _compare(
    meant: Question, found: Answer, other: Question | None, names: Sequence[str], level: str
) -> None:
    said = meant.answer.error
    if said is not None and found.error is None and other is None:
        raise AssertionError(f"{level}: machine code gives results, the references {said}")
    off = differ(meant, found, other)
    if off is None:
        return
    value = dict(zip((f"result {i}" for i in range(len(names))), names, strict=True))
    at = "".join(f"[{i}]" for i in off.index)
    raise AssertionError(
        f"{level}: {value.get(off.value, off.value)}{at} is {off.found} by machine code, "
        f"{off.expected} by the references; rounding explains {off.allowed:.3g}"
    )


def _same_bits(one: Answer, two: Answer, names: Sequence[str], level: str) -> None:
    if type(one.error) is not type(two.error):
        raise AssertionError(f"{level}: {one.error or 'results'} on one thread, {two.error} on two")
    for a, b, name in zip(one.results, two.results, names, strict=False):
        if a.tobytes() != b.tobytes() and distance(a, b).any():
            raise AssertionError(f"{level}: {name} has other bits on two threads than on one")
