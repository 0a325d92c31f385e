"""Who takes part in a race: dlvm, NumPy, and what is installed of ``make peers``.

Each gives, for a case, something to call that leaves nothing to be computed later. Arguments
are put into the library's own arrays before the clock starts; results stay in them.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import shutil
from collections.abc import Callable
from typing import Any

import numpy as np

import dlvm

from . import apart
from .cases import Algebra, Case
from .onnx_words import model
from .training import Training

Runner = Callable[[Case], "Callable[[], Any] | None"]


def with_dlvm(case: Case) -> Callable[[], Any]:
    """A compiled program."""
    xp = case.words(dlvm)

    def program(*arguments: Any) -> Any:
        return case.run(xp, *arguments)

    f = dlvm.value_and_grad(program, wrt=case.wrt) if case.wrt else dlvm.function(program)
    compiled = f.compile(*case.arguments)
    return lambda: compiled(*case.arguments)


def with_numpy(case: Case) -> Callable[[], Any] | None:
    """The program as it is written; NumPy has no gradients."""
    if case.wrt:
        return None
    xp = case.words(np)
    return lambda: case.run(xp, *case.arguments)


def with_jax(case: Case) -> Callable[[], Any]:
    """Under ``jax.jit``."""
    jax = importlib.import_module("jax")
    jax.config.update("jax_enable_x64", True)
    xp = case.words(jax.numpy)

    def program(*arguments: Any) -> Any:
        return case.run(xp, *arguments)

    f = jax.jit(jax.value_and_grad(program, argnums=case.wrt) if case.wrt else program)
    arguments = [jax.device_put(a) for a in case.arguments]
    return lambda: jax.block_until_ready(f(*arguments))


def with_torch(case: Case) -> Callable[[], Any]:
    """As PyTorch runs it without a compiler."""
    return _torch(case, lambda program: program)


def with_torch_compile(case: Case) -> Callable[[], Any] | None:
    """Training steps under ``torch.compile``, which takes up to a minute for each."""
    if not (isinstance(case, Training) and case.wrt):
        return None
    return _torch(case, importlib.import_module("torch").compile)


def _torch(case: Case, prepared: Callable[[Any], Any]) -> Callable[[], Any]:
    torch = importlib.import_module("torch")
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    arguments = [torch.from_numpy(np.array(a)) for a in case.arguments]
    xp = case.words(_Torch(torch))
    program = prepared(lambda *arguments: case.run(xp, *arguments))
    if not case.wrt:
        return lambda: program(*arguments)
    leaves = [a.requires_grad_() for i, a in enumerate(arguments) if i in case.wrt]

    def step() -> Any:
        value = program(*arguments)
        return value.detach(), torch.autograd.grad(value, leaves)

    return step


def with_iree(case: Case) -> Callable[[], Any] | None:
    """The same program as JAX's, compiled by IREE for this processor; no training steps.

    JAX leaves Cholesky factors to a library that IREE does not call.
    """
    if isinstance(case, Training | Algebra):
        return None
    jax = importlib.import_module("jax")
    compiler: Any = importlib.import_module("iree.compiler")
    runtime: Any = importlib.import_module("iree.runtime")
    jax.config.update("jax_enable_x64", True)

    def program(*arguments: Any) -> Any:
        return case.run(jax.numpy, *arguments)

    f = jax.jit(jax.value_and_grad(program, argnums=case.wrt) if case.wrt else program)
    lowered = f.lower(*case.arguments)
    flags = ["--iree-llvmcpu-target-cpu=host", "--iree-opt-level=O3"]
    flags.append("--iree-input-demote-f64-to-f32=false")
    code = compiler.compile_str(
        lowered.as_text("stablehlo"),
        target_backends=["llvm-cpu"],
        input_type="stablehlo",
        extra_args=flags,
    )
    threads = int(os.environ["OMP_NUM_THREADS"])
    runtime.flags.parse_flags(f"--task_topology_group_count={threads}")
    config = runtime.Config("local-task" if threads > 1 else "local-sync")
    module = runtime.load_vm_module(runtime.VmModule.copy_buffer(config.vm_instance, code), config)
    arguments = [runtime.asdevicearray(config.device, a) for a in case.arguments]
    tree = jax.tree_util.tree_structure(lowered.out_info)

    def run() -> Any:
        found = module.main(*arguments)
        return jax.tree_util.tree_unflatten(tree, found if isinstance(found, tuple) else (found,))

    return run


def with_onnxruntime(case: Case) -> Callable[[], Any] | None:
    """The program as an ONNX graph; no gradients."""
    if case.wrt or isinstance(case, Algebra):
        return None
    runtime: Any = importlib.import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = int(os.environ["OMP_NUM_THREADS"])
    session = runtime.InferenceSession(
        model(case.run, case.arguments), options, providers=["CPUExecutionProvider"]
    )
    bound = session.io_binding()
    for i, a in enumerate(case.arguments):
        bound.bind_cpu_input(f"x{i}", a)
    for result in session.get_outputs():
        bound.bind_output(result.name)
    several = len(session.get_outputs()) > 1

    def run() -> Any:
        session.run_with_iobinding(bound)
        found = tuple(map(_OnnxResult, bound.get_outputs()))
        return found if several else found[0]

    return run


class _OnnxResult:
    """A result where ONNX Runtime left it, which NumPy copies when it is asked."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.value.numpy()


def with_numba(case: Case) -> Callable[[], Any] | None:
    """Loops written by hand, in an environment of its own."""
    if case.name not in apart.PROGRAMS:
        return None
    return apart.Apart(case.name, case.arguments, int(os.environ["OMP_NUM_THREADS"]))


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
    "compile": with_torch_compile,
    "iree": with_iree,
    "ort": with_onnxruntime,
    "numba": with_numba,
}
MODULES = {"jax": "jax", "torch": "torch", "iree": "iree.compiler.version", "ort": "onnxruntime"}


def present() -> dict[str, str]:
    """The libraries that are there, with their versions."""
    found = {"dlvm": dlvm.__version__, "numpy": np.__version__}
    for name, module in MODULES.items():
        with contextlib.suppress(ImportError):
            there = importlib.import_module(module)
            found[name] = getattr(there, "__version__", None) or there.VERSION
    if "torch" in found and (compiler := cpp_compiler()):
        found["compile"] = f"torch.compile with {compiler}"
    if apart.PYTHON.exists():
        found["numba"] = "apart"
    return found


def cpp_compiler() -> str | None:
    """The C++ compiler that ``torch.compile`` would call, if there is one."""
    known = (os.environ.get("CXX"), "g++", "clang++", "c++")
    return next((name for name in known if name and shutil.which(name)), None)
