"""What was probably meant by a name that there is not, or what to do instead.

The same name in another module of ours comes first, then what other libraries call by it, then why
there is no such function; letters are compared last, and only names that differ in few are near.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from dlvm.base.errors import UnknownName, closest
from dlvm.dsl.words.names import lookup

from .scopes import user_origin

ROOMS = ("nn", "linalg", "random", "tree")
"""Modules of ours whose names users look for in others."""

RENAMED = {
    "concatenate": "concat",
    "amax": "max",
    "amin": "min",
    "invert": "bitwise_invert",
    "left_shift": "bitwise_left_shift",
    "right_shift": "bitwise_right_shift",
    "absolute": "abs",
    "fabs": "abs",
    "conjugate": "conj",
    "around": "round",
    "deg2rad": "radians",
    "rad2deg": "degrees",
    "fix": "trunc",
    "trapz": "trapezoid",
    "fft.fftshift": "fftshift",
    "fft.ifftshift": "ifftshift",
    "lib.stride_tricks.sliding_window_view": "sliding_window_view",
    **{f"arc{f}": f"a{f}" for f in ("sin", "cos", "tan", "tan2", "sinh", "cosh", "tanh")},
}
"""Functions of NumPy that the array API standard calls by other names."""

CALLED = {
    **dict.fromkeys(("array", "asanyarray", "ascontiguousarray", "tensor"), "asarray"),
    **dict.fromkeys(("jit", "njit", "compile"), "function"),
    **dict.fromkeys(("jacfwd", "jacrev"), "jacobian"),
    **dict.fromkeys(("remat", "rematerialize"), "checkpoint"),
    **dict.fromkeys(("detach", "no_grad"), "stop_gradient"),
    **dict.fromkeys(("PRNGKey", "seed", "default_rng"), "random.key"),
    **dict.fromkeys(("randn", "standard_normal"), "random.normal"),
    **dict.fromkeys(("rand", "random_sample"), "random.uniform"),
    **dict.fromkeys(("choice", "multinomial"), "random.categorical"),
    **dict.fromkeys(("shuffle", "randperm"), "random.permutation"),
    "integers": "random.randint",
    "tree_map": "tree.map",
    "tree_leaves": "tree.leaves",
    "tree_flatten": "tree.flatten",
    "tree_unflatten": "tree.unflatten",
    "cat": "concat",
    "unsqueeze": "expand_dims",
    "permute": "permute_dims",
    "view": "reshape",
    "clone": "copy",
    "topk": "top_k",
    "gather": "take_along_axis",
    "mul": "multiply",
    "div": "divide",
    "sub": "subtract",
    "neg": "negative",
    "mm": "matmul",
    "bmm": "matmul",
    "custom_gradient": "custom_vjp",
}
"""What other libraries call what we have."""

MASKED = "how many there are is not known while tracing: keep the mask, dlvm.where(mask, x, 0)"
UNSIZED = {
    **dict.fromkeys(("where", "nonzero", "argwhere", "flatnonzero", "extract"), MASKED),
    **dict.fromkeys(("intersect1d", "setdiff1d"), "keep the mask: dlvm.isin(x, y)"),
}
"""What to write for functions whose results have sizes that depend on elements."""

WITH_NUMPY = (
    "there is no {0} yet: call np.linalg.{0} outside of staged functions and pass what it gives"
)
ABSENT = {
    **{name: f"it needs shapes that depend on data; {why}" for name, why in UNSIZED.items()},
    **{
        name: WITH_NUMPY.format(name)
        for name in (
            *("cholesky", "cond", "det", "eig", "eigh", "eigvals", "eigvalsh", "inv", "lstsq"),
            *("matrix_rank", "pinv", "qr", "slogdet", "solve", "svd", "svdvals"),
        )
    },
    **dict.fromkeys(("apply_along_axis", "vectorize"), "write dlvm.vmap(f), with in_axes="),
    **dict.fromkeys(("argnums", "static_argnums"), "options of ours are wrt= and static="),
    **dict.fromkeys(("device_put", "device", "cuda"), "arrays are NumPy's, so leave it out"),
    "pmap": "dlvm.vmap(f) runs side by side; threads= of dlvm.function says on how many threads",
    "lax": "loops and branches are dlvm.scan, dlvm.fori_loop, dlvm.while_loop and dlvm.cond",
    "numpy": "call NumPy's functions, or those of dlvm: dlvm.sum(x)",
    "backward": "dlvm.grad(f)(x) gives the gradient of a function",
}
"""What to do about functions that there are not."""

ATTRIBUTES = {
    "grad": ABSENT["backward"],
    "backward": ABSENT["backward"],
    "requires_grad": ABSENT["backward"],
    "numpy": "return it: the results of a call are NumPy arrays",
    "cpu": "leave it out: arrays are NumPy's",
    "device": "leave it out: arrays are NumPy's",
    "to": "write x.astype(dtype)",
    "float": "write x.astype(dlvm.float32)",
    "view": "write x.reshape(shape), or x.astype(dtype) for other elements",
    "nonzero": ABSENT["nonzero"],
}
"""What to write for what arrays of other libraries have."""


def reader(module: str, has: Sequence[str]) -> Callable[[str], Any]:
    """What a module of ours does with a name that it has not."""

    def __getattr__(name: str) -> Any:
        if name.startswith("_"):  # Python and its tools ask what protocols there are
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        raise unknown(module, name, has)

    return __getattr__


def unknown(module: str, name: str, has: Iterable[str] = ()) -> UnknownName:
    """The error for a name that a module of ours has not."""
    there = f"write dlvm.{name}" if module != "dlvm" and _is_there(name) else None
    remedy = there or instead(name) or near(name, {f"{module}.{n}": n for n in has})
    return UnknownName(
        f"module {module!r} has no attribute {name!r}",
        origin=user_origin(),
        remedy=remedy or f"dir({module}) lists the names there are",
    )


def instead(name: str) -> str | None:
    """What stands for a name elsewhere, or what to do about it."""
    where = _elsewhere(name)
    return f"write {where}" if where else ABSENT.get(name)


def _elsewhere(name: str) -> str | None:
    """Where a function is that goes by a name in another module, or another library."""
    room = next((r for r in ROOMS if name in _names_of(f"dlvm.{r}")), None)
    other = f"{room}.{name}" if room else RENAMED.get(name) or CALLED.get(name)
    return f"dlvm.{other}" if other and _is_there(other) else None


def _is_there(name: str) -> bool:
    room, _, inside = f"dlvm.{name}".rpartition(".")
    return inside in _names_of(room) or (room == "dlvm" and lookup(name) is not None)


def _names_of(module: str) -> Sequence[str]:
    """What a module lists; those that import this one are entered by name, with the first error."""
    return importlib.import_module(module).__all__


def near(name: str, known: dict[str, str]) -> str | None:
    """The name that was probably misspelt, among ways to write names."""
    meant = closest(name, known.values())
    return next((f"did you mean {way}?" for way, n in known.items() if n == meant), None)
