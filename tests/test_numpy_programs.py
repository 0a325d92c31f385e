"""NumPy programs of many kinds, staged: right at once, or right after what the message says.

A program that is refused is changed in the text by what its remedy says, and tried again, until it
gives NumPy's result. So no program is silently wrong, and every remedy works.
"""

from __future__ import annotations

import copy
import importlib.util
import inspect
import itertools
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dlvm
from dlvm.base.errors import UserError
from tests import numpy_programs

RNG = np.random.default_rng(0)
N, U = RNG.normal, RNG.uniform
LINKS = (U(size=(9, 9)) < 0.3) * 1.0
PLANE = U(-2, 1, (10, 11)), U(-1, 1, (10, 11))
PAIRS = N(size=(20, 3)), N(size=20)
IMAGES, FILTERS = N(size=(2, 3, 9, 9)), N(size=(4, 3, 3, 3))


def likely(*shape: int) -> Any:
    return np.log(U(0.1, 1, shape))


ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "moving_average": (N(size=50),),
    "fir": (N(size=50), N(size=7)),
    "exp_smooth": (N(size=20), 0.3),
    "median_filter": (N(size=31),),
    "bootstrap_ci": (N(size=40), RNG.integers(0, 40, (100, 40))),
    "pi": (U(size=(1000, 2)),),
    "black_scholes_mc": (N(size=1000), 100.0, 105.0, 0.02, 0.2, 1.0),
    "nbody_step": (N(size=(6, 3)), N(size=(6, 3)), U(0.1, 1, 6)),
    "life": (RNG.integers(0, 2, (12, 13)),),
    "viterbi": (RNG.integers(0, 4, 12), likely(3, 3), likely(3, 4), likely(3)),
    "sobel": (N(size=(20, 21)),),
    "pagerank": (LINKS,),
    "pagerank_fixed": (LINKS,),
    "kmeans": (N(size=(50, 2)), N(size=(3, 2))),
    "kmeans_onehot": (N(size=(50, 2)), N(size=(3, 2))),
    "mandelbrot": PLANE,
    "mandelbrot_masked": PLANE,
    "train_net": (
        *(N(size=(20, 4)), RNG.integers(0, 3, 20)),
        *(N(size=(4, 8)), N(size=8), N(size=(8, 3)), N(size=3)),
    ),
    "heat": (N(size=(12, 13)),),
    "heat_copy": (N(size=(12, 13)),),
    "lsq_gd": PAIRS,
    "lsq_normal": PAIRS,
    "polyfit_pred": (N(size=20), N(size=20)),
    "conv2d": (IMAGES, FILTERS),
    "cnn": (IMAGES, FILTERS, N(size=(36, 5))),
    "windows_conv": (N(size=(12, 13)), N(size=(3, 3))),
}

FOLLOWED: dict[str, list[tuple[str, str, str]]] = {
    "nbody_step": [
        (
            "write a = dlvm.where(dlvm.eye(a.shape[0], dtype=bool), value, a)",
            "np.fill_diagonal(inv, 0)",
            "inv = dlvm.where(dlvm.eye(inv.shape[0], dtype=bool), 0, inv)",
        )
    ],
    "pagerank": [
        (
            "write the lines of the loop before this one once, then (new, r) = dlvm.while_loop("
            "lambda s: ~(np.abs(s[0] - s[1]).sum() < 1e-10), body, (new, r)), where body(s)",
            "    while True:\n        new = d * M @ r + (1 - d) / n\n"
            "        if np.abs(new - r).sum() < 1e-10:\n            break\n        r = new\n",
            "    new = d * M @ r + (1 - d) / n\n\n"
            "    def body(s):\n        new, r = s\n        r = new\n"
            "        new = d * M @ r + (1 - d) / n\n        return new, r\n\n"
            "    more = lambda s: ~(np.abs(s[0] - s[1]).sum() < 1e-10)\n"
            "    (new, r) = dlvm.while_loop(more, body, (new, r))\n",
        )
    ],
    "kmeans": [
        (
            "write x.mean(axis=0, where=(lab == k)[..., None])",
            "x[lab == k].mean(axis=0)",
            "x.mean(axis=0, where=(lab == k)[..., None])",
        )
    ],
    "kmeans_onehot": [
        ("write dlvm.eye(len(c))[lab]", "np.eye(len(c))[lab]", "dlvm.eye(len(c))[lab]")
    ],
    "mandelbrot_masked": [
        (
            "write dlvm.where(mask, new, old) of whole arrays for what changes where the mask",
            "        t = zr[mask] ** 2 - zi[mask] ** 2 + cr[mask]\n"
            "        zi[mask] = 2 * zr[mask] * zi[mask] + ci[mask]\n"
            "        zr[mask] = t\n        count[mask] += 1\n",
            "        t = zr ** 2 - zi ** 2 + cr\n"
            "        zi = dlvm.where(mask, 2 * zr * zi + ci, zi)\n"
            "        zr = dlvm.where(mask, t, zr)\n"
            "        count = dlvm.where(mask, count + 1, count)\n",
        )
    ],
    "heat": [
        (
            "change a copy and return it: u = u.copy()",
            '"""Heat in a plate, over the argument."""\n',
            '"""Heat in a plate, over the argument."""\n    u = u.copy()\n',
        )
    ],
}
"""What a remedy says that is not the text of the new line itself: what goes, and what comes."""
MADE = re.compile(r"help: write (?P<made>.*) at line (?P<line>\d+), in place of (?P<old>.*)$")
STATEMENT = re.compile(r"help: write (?P<new>\w+ = .*)$")


def leaves(found: Any) -> list[Any]:
    return [y for x in found for y in leaves(x)] if isinstance(found, tuple) else [found]


@pytest.mark.parametrize("name", ARGUMENTS)
def test_a_program_is_right_at_once_or_after_what_the_messages_say(name: str, tmp_path: Path):
    args = ARGUMENTS[name]
    expected = leaves(getattr(numpy_programs, name)(*copy.deepcopy(args)))
    text = inspect.getsource(numpy_programs)
    for turn in itertools.count():
        file = tmp_path / f"program{turn}.py"
        file.write_text(text.replace("import numpy as np", "import dlvm\nimport numpy as np", 1))
        try:
            found = dlvm.function(getattr(loaded(file), name))(*copy.deepcopy(args))
            break
        except UserError as error:
            assert turn < 20, f"no end of remedies: {error}"
            text = followed(name, text, str(error))
    for e, x in zip(expected, leaves(found), strict=True):
        assert np.asarray(e).dtype == np.asarray(x).dtype
        np.testing.assert_allclose(x, e, rtol=1e-9, atol=1e-12)


def loaded(file: Path) -> Any:
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def followed(name: str, text: str, message: str) -> str:
    """The program after what a message says: a line that it writes, or one of ``FOLLOWED``."""
    told = message.splitlines()[-1]
    lines = text.split("\n")
    for said, old, new in FOLLOWED.get(name, ()):
        if said in told:
            assert old in text, f"{told}: {old!r} is not in the program"
            return text.replace(old, new)
    if made := MADE.search(told):
        at = int(made["line"]) - 2  # one line was added in front
        new = made["made"].partition(" = ")[2]
        assert made["old"] in lines[at], told
        lines[at] = lines[at].replace(made["old"], new)
        return "\n".join(lines)
    if statement := STATEMENT.search(told):
        at = int(re.findall(r"--> program\d+\.py:(\d+)", message)[0]) - 2
        indent = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
        lines[at] = indent + statement["new"]
        return "\n".join(lines)
    raise AssertionError(f"nothing is known to do about: {message}")


def lacking() -> list[str]:
    """The functions of NumPy that ask our arrays, and that dlvm has no function for."""
    from dlvm.dsl.words.names import lookup
    from dlvm.dsl.words.remedies import OURS

    found: list[str] = []
    for prefix, module in (("", np), ("linalg.", np.linalg), ("fft.", np.fft)):
        for name in sorted(set(dir(module))):
            f = getattr(module, name)
            asks = isinstance(f, np.ufunc) or hasattr(f, "_implementation")
            plain = not name.startswith("_") and not isinstance(f, type) and callable(f)
            key = f"{prefix}{name}"
            spelled = (name, f.__name__, key) if plain and asks else ()
            known = {said for n in spelled for said in (n, OURS.get(n, n))}
            if known and all(lookup(said) is None for said in known):
                found.append(key)
    return found


@pytest.mark.parametrize("name", lacking())
def test_a_function_that_is_not_there_is_named_with_a_remedy(name: str):
    """Whatever it is called with: one staged array, two or three."""
    f: Any = np
    for part in name.split("."):
        f = getattr(f, part)
    x = np.arange(4.0).reshape(2, 2)
    first = [os.devnull] if name.startswith("save") else []
    told: list[str] = []
    for count in (1, 2, 3):
        try:
            dlvm.function(lambda *xs: f(*first, *xs))(*[x] * count)
        except UserError as error:
            told.append(str(error))
        except TypeError as error:  # NumPy itself refuses so many arguments
            assert re.search(r"argument|positional|unhashable", str(error)), error
    assert any("np." in text and "help: " in text for text in told), (name, told)
