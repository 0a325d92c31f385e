"""What is written beside what an expert would write, in dlvm and in its peers.

    python -m benchmarks.pairs [--size 1024] [--only TEXT] [--rounds 9] [--out benchmarks/out]

The pairs are those of ``tests/opt/algebra/pairs.py``. Prints how many times as long the naive form
takes in the fastest of NumPy and, where they are installed, JAX and PyTorch (as it runs without a
compiler) as in dlvm, and writes ``pairs.json``, a picture and a table. All run on one thread;
results are compared before anything is timed.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from .__main__ import OUT, use_threads

PEERS = ("numpy", "jax", "torch")


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pairs", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--only", default="")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    use_threads(1)
    found = run(options.size, options.only, options.rounds)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "pairs.json").write_text(json.dumps(found, indent=1) + "\n")
    from .picture import ratios

    (options.out / "pairs.svg").write_text(ratios(drawn(found)))
    (options.out / "pairs.md").write_text(table(found))
    print(f"written: pairs.json, pairs.svg and pairs.md in {options.out}")


def drawn(found: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The races of those pairs that some peer could run, for a picture."""
    races: list[dict[str, Any]] = []
    for race in found:
        peers = [s for name, s in race["seconds"].items() if not name.startswith("dlvm")]
        if peers:
            ratio = min(peers) / race["seconds"]["dlvm"]
            races.append({"name": race["pair"], "size": "", "peer": ratio})
    return races


def table(found: Sequence[dict[str, Any]]) -> str:
    """The figures as a table in Markdown: times of dlvm, and how many times as long others take."""
    lines = ["| pair | dlvm, µs | NumPy | JAX | PyTorch |", "|---|---|---|---|---|"]
    for race in found:
        ours, seconds = race["seconds"]["dlvm"], race["seconds"]
        others = (f"{seconds[n] / ours:.1f}" if n in seconds else "" for n in PEERS)
        lines.append(f"| {race['pair']} | {ours * 1e6:,.0f} | {' | '.join(others)} |")
    return "\n".join([*lines, ""])


def run(size: int, only: str, rounds: int) -> list[dict[str, Any]]:
    """Race every pair, and say how it went as it goes."""
    from tests.opt.algebra.pairs import PAIRS

    from .race import Effort, race

    found: list[dict[str, Any]] = []
    others = words()
    for i, pair in enumerate(PAIRS):
        if only not in pair.name:
            continue
        runs = contenders(pair, {name: (of[i], run) for name, (of, run) in others.items()}, size)
        seconds = race(runs, Effort(rounds, 0.03))
        found.append({"pair": pair.name, "size": size, "seconds": seconds})
        peers = [s for name, s in seconds.items() if not name.startswith("dlvm")]
        best = f"{min(peers) / seconds['dlvm']:8.1f} x" if peers else ""
        said = "  ".join(f"{name} {s * 1e6:.1f}" for name, s in seconds.items())
        print(f"{pair.name:28} {best}   us: {said}", flush=True)
    return found


Library = tuple[Sequence[Any], Callable[[Callable[..., Any], list[Any]], Callable[[], Any]]]
"""The pairs in a library's words, and how a function of it is made something to call."""


def words() -> dict[str, Library]:
    """NumPy, and of JAX and PyTorch what is installed."""
    from tests.opt.algebra.pairs import pairs

    found: dict[str, Library] = {"numpy": (pairs(_numpy()), _as_it_is)}
    with contextlib.suppress(ImportError):
        found["jax"] = (pairs(_jax()), _jitted)
    with contextlib.suppress(ImportError):
        found["torch"] = (pairs(_torch()), _on_tensors)
    return found


def contenders(pair: Any, others: dict[str, Any], size: int) -> dict[str, Callable[[], Any]]:
    """Both forms in dlvm, and the naive one in every library that can run it."""
    import dlvm
    from tests.opt.algebra.pairs import arrays

    from .race import check

    given = arrays(pair, size)
    naive, expert = (dlvm.function(f, threads=1).compile(*given) for f in (pair.naive, pair.expert))
    runs: dict[str, Callable[[], Any]] = {
        "dlvm": lambda: naive(*given),
        "dlvm, expert": lambda: expert(*given),
    }
    expected = naive(*given)
    for name, (other, made) in others.items():
        try:
            run = made(other.naive, given)
            check(pair.name, run(), expected, 1e-9)
        except (AttributeError, TypeError, NotImplementedError):
            continue  # it has no such word
        runs[name] = run
    return runs


def _numpy() -> Any:
    import numpy as np

    return SimpleNamespace(
        assume=lambda x, *words: x,
        diag=np.diag,
        diagonal=np.diagonal,
        eye=np.eye,
        grad=lambda f, wrt=0: None,
        kron=np.kron,
        matrix_power=np.linalg.matrix_power,
        one_hot=lambda i, n: np.eye(n)[i],
        outer=np.outer,
        tanh=np.tanh,
        trace=np.trace,
        tril=np.tril,
    )


def _as_it_is(f: Callable[..., Any], given: list[Any]) -> Callable[[], Any]:
    return lambda: f(*given)


def _jax() -> Any:
    jax = importlib.import_module("jax")
    jax.config.update("jax_enable_x64", True)
    jnp = jax.numpy
    return SimpleNamespace(
        assume=lambda x, *words: x,
        diag=jnp.diag,
        diagonal=jnp.diagonal,
        eye=jnp.eye,
        grad=lambda f, wrt=0: jax.grad(f, argnums=wrt),
        kron=jnp.kron,
        matrix_power=jnp.linalg.matrix_power,
        one_hot=lambda i, n: jax.nn.one_hot(i, n, dtype="float64"),
        outer=jnp.outer,
        tanh=jnp.tanh,
        trace=jnp.trace,
        tril=jnp.tril,
    )


def _jitted(f: Callable[..., Any], given: list[Any]) -> Callable[[], Any]:
    jax = importlib.import_module("jax")
    run, arguments = jax.jit(f), [jax.device_put(a) for a in given]
    return lambda: jax.block_until_ready(run(*arguments))


def _torch() -> Any:
    torch = importlib.import_module("torch")
    torch.set_num_threads(1)

    def grad(f: Callable[..., Any], wrt: Any = 0) -> Callable[..., Any]:
        return torch.func.grad(f, argnums=wrt)

    return SimpleNamespace(
        assume=lambda x, *words: x,
        diag=torch.diag,
        diagonal=torch.diagonal,
        eye=lambda n: torch.eye(n, dtype=torch.float64),
        grad=grad,
        kron=torch.kron,
        matrix_power=torch.linalg.matrix_power,
        one_hot=lambda i, n: torch.nn.functional.one_hot(i, n).double(),
        outer=torch.outer,
        tanh=torch.tanh,
        trace=torch.trace,
        tril=torch.tril,
    )


def _on_tensors(f: Callable[..., Any], given: list[Any]) -> Callable[[], Any]:
    torch = importlib.import_module("torch")
    tensors = [torch.from_numpy(a) for a in given]
    return lambda: f(*tensors)


if __name__ == "__main__":
    main()
