"""Three programs as scripts, each with six problems that can be planted one at a time.

A problem replaces one line by another, so a line that is marked by a comment keeps its number.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Program:
    """A script; by name, the problems that can be planted as (what is there, what is planted)."""

    name: str
    text: str
    function: str
    arguments: tuple[str, ...]
    problems: dict[str, tuple[str, str]]
    recompiled: tuple[str, str]
    """What the two causes of the planted recompile are called."""
    refused: str
    """Why the planted fusion is refused."""
    blamed: str = "-->"
    """What stands before the line of the planted NaN."""

    def written(self, problem: str = "") -> str:
        """The script with a problem in it, or with none."""
        if not problem:
            return self.text
        before, after = self.text.split(self.problems[problem][0])
        return f"{before}{self.problems[problem][1]}{after}"

    def line(self, mark: str) -> str:
        """The line with this mark, as messages name it; that of a rule is its first one."""
        comments = [line.rpartition("# ")[2] for line in self.text.splitlines()]
        (found,) = [n for n, said in enumerate(comments, 1) if mark in said.split(", ")]
        return f"{self.name}.py:{found}"


NETWORK = Program(
    "network",
    """\
import numpy as np

import dlvm

options = {"decay": 0.01}
optimiser = dlvm.optim.adam(1e-3)


@dlvm.custom_vjp
def gelu(x):
    return x * dlvm.sigmoid(1.702 * x)


def backward(x, dy):
    s = dlvm.sigmoid(1.702 * x)  # gradient
    return (dy * (s + 1.702 * x * s * (1.0 - s)),)


gelu.defvjp(lambda x: (gelu(x), x), backward)


def loss(params, x, y):
    h = gelu(x @ params["w"])
    z = h @ params["v"]  # writer
    z = z - 1.0  # reader
    error = (z - y) ** 2  # nan
    more = h[0, 0]  # slow, peak
    return error.mean() + 0.1 * more


@dlvm.function
def step(params, x, y):
    state = optimiser.init(params)
    value, slope = dlvm.value_and_grad(loss)(params, x, y)
    updates, state = optimiser.update(slope, state, params)
    kept = 1.0 - options["decay"]
    return dlvm.tree.map(lambda p, u: kept * p + u, params, updates), value


if __name__ == "__main__":
    dice = np.random.default_rng(0)
    params = {"w": dice.normal(size=(16, 32)), "v": dice.normal(size=(32, 8))}
    for rows, options["decay"] in ((64, 0.01), (64, 0.01)):
        params, value = step(params, dice.normal(size=(rows, 16)), dice.normal(size=(rows, 8)))
    print(step.explain().text(whole=True))
""",
    "step",
    ("{'w': 'f64[16,32]', 'v': 'f64[32,8]'}", "f64[64,16]", "f64[64,8]"),
    {
        "recompile": ("((64, 0.01), (64, 0.01))", "((64, 0.01), (96, 0.02))"),
        "slow": ("h[0, 0]", "dlvm.tanh(h[:, :, None] * h[:, None, :]).mean()"),
        "nan": ("(z - y) ** 2", "dlvm.sqrt(z - y)"),
        "peak": ("h[0, 0]", "dlvm.cumsum(h[:, :, None] * h[:, None, :], axis=0).mean()"),
        "gradient": ("(dy * (s +", "(1.001 * dy * (s +"),
        "fusion": ("z - 1.0", "z - z.max(axis=0)"),
    },
    ("x was f64[64,16], is f64[96,16]", "options['decay'] was 0.01, is 0.02"),
    "a product takes element-wise operations of its shape only",
)

RECURRENT = Program(
    "recurrent",
    """\
import numpy as np

import dlvm

options = {"damping": 0.9}


@dlvm.custom_vjp
def squashed(x):
    return x / dlvm.sqrt(1.0 + x * x)


def backward(x, dy):
    return (dy * (1.0 + x * x) ** -1.5,)  # gradient


squashed.defvjp(lambda x: (squashed(x), x), backward)


def loss(w, u, x):
    drive = dlvm.tanh(x @ u)

    def trip(h, d):
        mixed = h @ w / 4.0
        h = squashed(options["damping"] * mixed + d)  # nan
        return h, (h * h).mean()

    last, energy = dlvm.scan(trip, drive[0], drive)
    weights = energy * 0.5  # writer
    total = weights.sum()  # reader
    more = drive[0, 0]  # slow, peak
    return total + last.sum() + more


@dlvm.function
def slopes(w, u, x):
    return dlvm.value_and_grad(loss, wrt=(0, 1))(w, u, x)


if __name__ == "__main__":
    dice = np.random.default_rng(0)
    w, u = dice.normal(size=(12, 12)) / 4, dice.normal(size=(5, 12))
    for steps, options["damping"] in ((40, 0.9), (40, 0.9)):
        slopes(w, u, dice.normal(size=(steps, 5)))
    print(slopes.explain().text(whole=True))
""",
    "slopes",
    ("f64[12,12]", "f64[5,12]", "f64[40,5]"),
    {
        "recompile": ("((40, 0.9), (40, 0.9))", "((40, 0.9), (50, 0.8))"),
        "slow": ("drive[0, 0]", "dlvm.sort(dlvm.tile(drive, (100, 1)), axis=0).mean()"),
        "nan": ("* mixed + d)", "* dlvm.log(mixed) + d)"),
        "peak": ("drive[0, 0]", "dlvm.cumsum(drive[:, :, None] * w, axis=0).mean()"),
        "gradient": ("** -1.5", "** -1.5 * 1.001"),
        "fusion": ("weights.sum()", "dlvm.cumsum(weights).sum()"),
    },
    ("x was f64[40,5], is f64[50,5]", "options['damping'] was 0.9, is 0.8"),
    "a scan along the last axis is a kernel of its own",
)

PARTICLES = Program(
    "particles",
    """\
import numpy as np

import dlvm

box = {"size": 10.0}


@dlvm.custom_jvp
def inverse(r2):
    return 1.0 / dlvm.sqrt(r2)


@inverse.defjvp
def rule(primals, tangents):
    (r2,), (dr2,) = primals, tangents
    y = inverse(r2)  # gradient
    return y, -0.5 * y / r2 * dr2


def energy(x, q):
    wrapped = x - box["size"] * dlvm.round(x / box["size"])
    apart = wrapped[:, None, :] - wrapped[None, :, :]
    r2 = (apart * apart).sum(axis=2)
    near = dlvm.where(r2 > 1e-12, r2, 1.0)
    ranked = dlvm.sort(q)
    one = inverse(near)
    pull = dlvm.where(r2 > 1e-12, q[:, None] * q * one, 0.0)
    own = pull.sum(axis=1)
    worth = dlvm.where(own > 0.0, own, -0.1 * own)  # writer
    total = worth.sum()  # reader
    more = ranked[0]  # slow, peak, nan
    return total + more


@dlvm.function
def forces(x, q):
    return dlvm.grad(energy)(x, q)


if __name__ == "__main__":
    dice = np.random.default_rng(0)
    for count, box["size"] in ((50, 10.0), (50, 10.0)):
        forces(dice.uniform(-20, 20, size=(count, 3)), dice.uniform(-1, 1, size=count))
    print(forces.explain().text(whole=True))
""",
    "forces",
    ("f64[50,3]", "f64[50]"),
    {
        "recompile": ("((50, 10.0), (50, 10.0))", "((50, 10.0), (60, 12.0))"),
        "slow": ("ranked[0]", "dlvm.sort(pull[:, :, None] + x[:, 0], axis=1).mean()"),
        "nan": ("ranked[0]", "dlvm.sqrt(r2).mean()"),
        "peak": ("ranked[0]", "dlvm.cumsum(pull[:, :, None] * x[:, 0], axis=0).mean()"),
        "gradient": ("-0.5 * y", "-0.5005 * y"),
        "fusion": ("worth.sum()", "dlvm.sort(worth)[-5:].sum()"),
    },
    ("x was f64[50,3], is f64[60,3]", "box['size'] was 10.0, is 12.0"),
    "a sort or a search is a kernel of its own",
    "the first infinity came from the adjoint of sqrt at",
)
