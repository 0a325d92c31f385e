"""``digits``: how many digits a function keeps: compiled, as written, and without laws that round.

Digits are counted beside the same program in more of them: in f64 for f32 and halves, in NumPy's
long double for f64.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dlvm.compile import expand
from dlvm.dsl.call.function import StagedFunction, is_staged
from dlvm.trust.digits import SAMPLES, Judged, compiled, costliest, name_of


@dataclass(frozen=True)
class Digits:
    """The decimal digits of each result of floats, in three ways, at the worst of some inputs."""

    names: tuple[str, ...]
    compiled: tuple[float, ...]
    literal: tuple[float, ...]
    strict: tuple[float, ...]
    times: float
    """The largest error of the compiled form over what is allowed: four times the literal one."""
    law: str = ""
    """The law without which most digits are kept, with its line; empty where none costs one."""

    @property
    def kept(self) -> bool:
        """Whether the compiled form has the digits of the literal one, as is promised."""
        return self.times <= 1

    def __str__(self) -> str:
        rows = zip(self.names, self.compiled, self.literal, self.strict, strict=True)
        lines = ["digits        compiled  literal  strict"]
        lines += [f"{n:12}  {c:8.1f}  {w:7.1f}  {s:6.1f}" for n, c, w, s in rows]
        lines += [f"most digits are lost by {self.law}"] * bool(self.law)
        return "\n".join(lines)


def digits(f: Callable[..., Any], *args: Any, samples: int = SAMPLES, **kwargs: Any) -> Digits:
    """How many decimal digits the results of ``f`` have at these arguments and near to them.

    ``compiled`` is as the function is compiled, in its own ``numerics=``; ``literal`` as it is
    written, by the references of its operations; ``strict`` compiled without laws that round. Each
    runs on ``samples`` copies of the arguments, whose elements are moved in their fifth digit.
    """
    staged = f if is_staged(f) else StagedFunction(f)
    applied = staged.applied(args, kwargs)
    module = expand(applied.module)
    mode = staged.source.options.numerics
    judged = Judged.of(module, applied.arrays, samples)
    literal = judged.literal()
    ours, strict = (judged.errors(compiled(module, m)) for m in (mode, "strict"))
    law = costliest(judged, mode)
    at = "" if law is None else f"{name_of(law)} at {law.ops[0].origin}"
    given = applied.results or [f"result {i}" for i in range(len(module.main.results))]
    floats = [n for n, r in zip(given, module.main.results, strict=True) if r.type.dtype.is_float]
    one, two, three = (e.digits() for e in (ours, literal, strict))
    return Digits(tuple(floats), one, two, three, judged.worse(ours, literal), at)
