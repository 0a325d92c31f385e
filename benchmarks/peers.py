"""Who takes part in a race: dlvm, NumPy, and JAX and PyTorch where they are installed.

Each gives, for a case, something to call that leaves nothing to be computed later. Arguments
are put into the library's own arrays before the clock starts; results stay in them.
"""

from __future__ import annotations

import contextlib
import importlib
import os
from collections.abc import Callable
from typing import Any

import numpy as np

import dlvm

from .cases import Case

Runner = Callable[[Case], "Callable[[], Any] | None"]


def with_dlvm(case: Case) -> Callable[[], Any]:
    """A compiled program."""

    def program(*arguments: Any) -> Any:
        return case.run(dlvm, *arguments)

    f = dlvm.value_and_grad(program, wrt=case.wrt) if case.wrt else dlvm.function(program)
    compiled = f.compile(*case.arguments)
    return lambda: compiled(*case.arguments)


def with_numpy(case: Case) -> Callable[[], Any] | None:
    """The program as it is written; NumPy has no gradients."""
    return None if case.wrt else lambda: case.run(np, *case.arguments)


def with_jax(case: Case) -> Callable[[], Any]:
    """Under ``jax.jit``."""
    jax = importlib.import_module("jax")
    jax.config.update("jax_enable_x64", True)

    def program(*arguments: Any) -> Any:
        return case.run(jax.numpy, *arguments)

    f = jax.jit(jax.value_and_grad(program, argnums=case.wrt) if case.wrt else program)
    arguments = [jax.device_put(a) for a in case.arguments]
    return lambda: jax.block_until_ready(f(*arguments))


def with_torch(case: Case) -> Callable[[], Any]:
    """As PyTorch runs it without a compiler, which needs a toolchain."""
    torch = importlib.import_module("torch")
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    arguments = [torch.from_numpy(np.array(a)) for a in case.arguments]
    xp = _Torch(torch)
    if not case.wrt:
        return lambda: case.run(xp, *arguments)
    leaves = [a.requires_grad_() for i, a in enumerate(arguments) if i in case.wrt]

    def step() -> Any:
        value = case.run(xp, *arguments)
        return value.detach(), torch.autograd.grad(value, leaves)

    return step


class _Torch:
    """NumPy's words, where PyTorch has others."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch

    def __getattr__(self, name: str) -> Any:
        return getattr(self._torch, name)

    def max(self, x: Any, axis: int, keepdims: bool) -> Any:
        return self._torch.amax(x, axis, keepdim=keepdims)

    def maximum(self, x: Any, y: Any) -> Any:
        return self._torch.clamp(x, min=y)

    def squeeze(self, x: Any, axis: int) -> Any:
        return x.squeeze(axis)


RUNNERS: dict[str, Runner] = {
    "dlvm": with_dlvm,
    "numpy": with_numpy,
    "jax": with_jax,
    "torch": with_torch,
}


def present() -> dict[str, str]:
    """The libraries that are there, with their versions."""
    found = {"dlvm": dlvm.__version__, "numpy": np.__version__}
    for name in ("jax", "torch"):
        with contextlib.suppress(ImportError):
            found[name] = importlib.import_module(name).__version__
    return found
