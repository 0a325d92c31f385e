"""Writes a text of IR of the version that is printed now, with arguments and results, for good.

``python -m tests.ir.text.goldens`` adds a file for each operation that has none, and for each
program of ``WHOLE``. It never changes a file: a text of version 1 means for ever what it meant, and
where an operation changes its meaning, the version is raised and gets a folder of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import dlvm
from dlvm.compile import expand
from dlvm.dsl.call.function import StagedFunction
from dlvm.ir import OPS, Array, Module, Op
from dlvm.ir.sharding.mesh import Mesh
from dlvm.ir.sharding.ranks import World
from dlvm.ir.text.printer import VERSION
from dlvm.testing.drawing.ranked_families import MESH
from tests.table import sample

FOLDER = Path(__file__).parent / f"version_{VERSION}"
VALUES = FOLDER / "values.npz"
SEEDS = range(60)
SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, 1 / 3])


def loss(w: Any, x: Any) -> Any:
    """A loop whose steps read a captured array."""
    step = lambda s, row: (dlvm.tanh(s @ w + row), s.sum())  # noqa: E731
    return dlvm.scan(step, dlvm.zeros(3), x)[1].sum()


def constants(x: Any) -> Any:
    """Elements of every kind of float, a bool, and more than a line has room for."""
    many = np.arange(40, dtype=np.int16)
    kinds = [dlvm.sum(x * SPECIAL[6]), SPECIAL.astype("f2") + dlvm.astype(x[0, 0], "f2")]
    return *kinds, dlvm.astype(SPECIAL, "bf16") * 1, SPECIAL.astype("f4") * 1, many * 2, x > 0.25


W, X = np.linspace(-1, 1, 9).reshape(3, 3), np.linspace(0, 1, 12).reshape(4, 3)
Traced = tuple[Callable[..., Any], tuple[Any, ...], tuple[str, ...]]
WHOLE: dict[str, Traced] = {
    "gradient-of-a-scan": (dlvm.value_and_grad(loss), (W, X), ("f64[3,3]", "f64[N,3]")),
    "tangent": (lambda w, x: dlvm.jvp(loss, (w, x), (w, x)), (W, X), ("f64[3,3]", "f64[4,3]")),
    "batched": (dlvm.vmap(lambda x: dlvm.outer(x, x) @ x), (X,), ("f64[N,3]",)),
    "constants": (constants, (X,), ("f64[4,3]",)),
    "sizes": (
        lambda x: (x.reshape(-1), x[::2].sum(0), x.shape[0] // 3 + 1),
        (X,),
        ("f64[N,3]",),
    ),
    "branches": (
        lambda x: dlvm.cond(x.sum() > 0, lambda x: x * 2, lambda x: -x, x),
        (X,),
        ("f64[N,3]",),
    ),
}


def smallest(cls: type[Op]) -> tuple[Module, tuple[Array, ...]]:
    """The shortest of some programs of one operation, and its arguments."""
    found: list[tuple[Module, tuple[Array, ...]]] = []
    for seed in SEEDS:
        try:
            program = sample(cls, seed, {"A": 3, "B": 2} if seed % 2 else {})
        except IndexError:  # of these dice
            continue
        if program is not None:
            found.append((program.module, program.arrays))
    return min(found, key=lambda one: len(str(one[0])))


def missing() -> Iterator[tuple[str, Module, tuple[Array, ...]]]:
    """Programs that have no file yet."""
    for name, cls in OPS.items():
        if cls.__module__.startswith("dlvm.") and not path(name).exists():
            yield name, *smallest(cls)
    for name, (f, args, specs) in WHOLE.items():
        if not path(name).exists():
            applied = StagedFunction(f).applied(args, {})
            module = dlvm.trace(f, *map(dlvm.spec, specs))
            yield name, module, tuple(applied.arrays)


def path(name: str) -> Path:
    """The file of an operation or a program."""
    return FOLDER / f"{name}.dlvm"


def run(module: Module, arrays: tuple[Array, ...] | list[Array]) -> list[Array]:
    """The results of the interpreter, derivatives taken, on a mesh of one rank."""

    def one(_: int) -> list[Array]:
        with np.errstate(all="ignore"):
            found = expand(module).run(module.main.name, *(np.array(a) for a in arrays))
        return [np.asarray(x) for x in found]

    return World(Mesh.named(MESH)).run(one)[0]


def plain(x: Array) -> Array:
    """Halves of ``ml_dtypes`` as their bits, which files of NumPy can hold."""
    return x.view(np.uint16) if x.dtype.name == "bfloat16" else x


def main() -> None:
    """Adds what is missing."""
    FOLDER.mkdir(exist_ok=True)
    values = dict(np.load(VALUES)) if VALUES.exists() else {}
    texts: dict[str, str] = {}
    for name, module, arrays in missing():
        texts[name] = str(module)
        values |= {f"{name}/given/{i}": plain(a) for i, a in enumerate(arrays)}
        results = run(module, arrays)
        values |= {f"{name}/found/{i}": plain(r) for i, r in enumerate(results)}
    for name, text in texts.items():
        path(name).write_text(text, "utf8")
    print(f"{len(texts)} texts are new")
    if texts:
        np.savez_compressed(VALUES, **values)


if __name__ == "__main__":
    main()
