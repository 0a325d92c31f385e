"""Writes what optax makes of ``problem`` into ``optax.json``; run by hand, as it says there."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from .problem import SHAPES, STEPS, arrays, loss, optimisers, schedules

FILE = Path(__file__).with_name("optax.json")


def write() -> None:
    """In f64 the parameters after all steps, in f32 after one; schedules at the first 45 steps."""
    import jax
    import optax

    jax.config.update("jax_enable_x64", True)
    # The decay of Adafactor is an f32 in optax, whatever the parameters are.
    factorized = optax._src.factorized
    factorized.jnp = SimpleNamespace(**{**vars(jax.numpy), "float32": jax.numpy.float64})

    def mask(params: Any) -> Any:
        return jax.tree.map(lambda p: p.ndim > 1, params)

    def exact(schedule: Any) -> Any:
        """The count of optax is an i32, which jax divides in f32."""
        return lambda count: schedule(count.astype("int64"))

    found: dict[str, Any] = {"optax": optax.__version__, "jax": jax.__version__}
    for kind, dtype, steps in (("f64", "float64", STEPS), ("f32", "float32", 1)):
        data = arrays(dtype)
        slope = jax.grad(partial(loss, x=data["x"], y=data["y"], np=jax.numpy))
        found[kind] = {}
        accumulate = partial(optax.MultiSteps, accumulator_dtype=dtype)
        for name, optimiser in optimisers(optax, mask, accumulate, exact).items():
            params = {k: jax.numpy.asarray(data[k]) for k in SHAPES}
            state = optimiser.init(params)
            for _ in range(steps):
                updates, state = optimiser.update(slope(params), state, params)
                params = optax.apply_updates(params, updates)
            found[kind][name] = {k: v.tolist() for k, v in params.items()}
    found["schedules"] = {
        k: [float(s(jax.numpy.asarray(i))) for i in range(45)] for k, s in schedules(optax).items()
    }
    FILE.write_text(json.dumps(found) + "\n", "utf8")


if __name__ == "__main__":
    write()
