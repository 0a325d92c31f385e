"""Whatever way captured state comes by, a staged function follows it, refuses it, or says so."""

from __future__ import annotations

import copy
import ctypes
import sys
import types
from collections import Counter
from typing import Any

import numpy as np
import pytest

import dlvm
from tests.running import seed

from .programs_of_paths import drawn, installed, outcome

PIECES, CASES = 20, 50
"""A thousand programs; ``SUITE_SEED=7 python -m tests.dsl.state.test_paths 10000`` draws others."""
X = np.linspace(0.5, 1.5, 6).reshape(2, 3)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("piece", range(PIECES))
def test_no_program_of_the_grammar_is_silently_old(piece: int):
    found = {
        case.name: outcome(case) for case in map(drawn, range(piece * CASES, (piece + 1) * CASES))
    }
    assert {n: o for n, o in found.items() if o not in KNOWN} == {}
    assert Counter(found.values())["right"] > CASES / 2


KNOWN = ("right", "refused", "told", "void")


MODEL = '''
"""A network as a class of an installed package."""
import numpy as np


class Network:
    def __init__(self, sizes, **options):
        self.layers = [(np.full((a, b), 0.1), np.zeros(b)) for a, b in zip(sizes, sizes[1:])]
        self.options = options

    def __call__(self, x):
        for w, b in self.layers[:-1]:
            x = np.tanh(x @ w + b)
        w, b = self.layers[-1]
        return self.scaled(x @ w + b, **self.options)

    def scaled(self, x, scale=1.0, shift=0.0):
        return x * scale + shift
'''


@pytest.fixture(scope="module")
def network() -> Any:
    """The class; its module counts as a part of an installed package."""
    module = types.ModuleType("foreign_networks")
    module.__file__ = "/usr/lib/python3/site-packages/foreign_networks.py"
    sys.modules[module.__name__] = module
    exec(compile(MODEL, module.__file__, "exec"), module.__dict__)
    yield module.__dict__["Network"]
    del sys.modules[module.__name__]


def _in_place(model: Any) -> None:
    model.layers[0][0][...] = 0.3


def _rebound(model: Any) -> None:
    model.layers[1] = (np.full((4, 4), -0.2), np.ones(4))


def _appended(model: Any) -> None:
    model.layers.append((np.full((2, 2), 0.5), np.ones(2)))


def _option(model: Any) -> None:
    model.options["scale"] = 3.0


def _more(model: Any) -> None:
    model.options["shift"] = -1.0


@pytest.mark.parametrize("change", [_in_place, _rebound, _appended, _option, _more])
def test_a_network_of_an_installed_package_follows_what_changes_in_it(network: Any, change: Any):
    model = network([3, 4, 4, 2], scale=2.0)
    f = dlvm.function(lambda x: model(x).sum())
    slopes = dlvm.grad(f)
    np.testing.assert_allclose(f(X), model(X).sum(), rtol=1e-12)
    slopes(X)
    change(model)
    np.testing.assert_allclose(f(X), model(X).sum(), rtol=1e-12)
    fresh = dlvm.grad(lambda x: model(x).sum())(X)
    np.testing.assert_allclose(slopes(X), fresh, rtol=1e-12)


def test_weights_of_an_installed_class_that_change_in_place_compile_nothing_again(network: Any):
    model = network([3, 4, 2])
    f = dlvm.function(lambda x: model(x).sum())
    for k in range(5):
        model.layers[0][0][...] = k
        np.testing.assert_allclose(f(X), model(X).sum(), rtol=1e-12)
    assert len(f.explain().compiles) == 1


def test_another_model_in_the_place_of_one_is_another_model(network: Any):
    space = types.SimpleNamespace(model=network([3, 2]))
    f = dlvm.function(lambda x: space.model(x))
    f(X)
    space.model = network([3, 4, 2], scale=5.0)
    np.testing.assert_allclose(f(X), space.model(X), rtol=1e-12)


def test_what_a_package_counts_for_itself_is_neither_refused_nor_traced_again():
    counting = installed().Box(0)
    exec(
        compile(
            "def count(box):\n    box.c += 1\n    return 2.0\n",
            str(installed().__file__),
            "exec",
        ),
        installed().__dict__,
    )
    count = installed().__dict__["count"]
    f = dlvm.function(lambda x: x * count(counting))
    for _ in range(3):
        np.testing.assert_allclose(f(X), X * 2)
    assert len(f.explain().compiles) == 1


def test_code_that_is_replaced_in_place_is_noticed():
    def helper(x: Any) -> Any:
        return x * 2

    def other(x: Any) -> Any:
        return x * 3

    f = dlvm.function(lambda x: helper(x))
    np.testing.assert_array_equal(f(X), X * 2)
    helper.__code__ = other.__code__
    np.testing.assert_array_equal(f(X), X * 3)


def test_an_array_to_which_no_path_leads_is_read_at_each_call_and_told():
    held = np.ones(3)
    address = id(held)

    f = dlvm.function(lambda x: x * ctypes.cast(address, ctypes.py_object).value)
    with pytest.warns(dlvm.TraceWarning, match=r"an array of type f64\[3\] by a way that only C"):
        np.testing.assert_array_equal(f(X), X)
    held[:] = 5.0
    np.testing.assert_array_equal(f(X), X * 5)


def test_an_array_that_nobody_holds_after_the_trace_is_a_constant():
    f = dlvm.function(lambda x: x * np.arange(3.0))
    np.testing.assert_array_equal(f(X), X * np.arange(3.0))
    assert f.explain().captures == () and len(f.explain().compiles) == 1


def test_what_is_too_large_to_be_compared_is_told():
    space = types.SimpleNamespace(table=np.ones(1 << 18))
    f = dlvm.function(lambda x: x * next(iter(vars(copy.deepcopy(space)).values()))[0])
    with pytest.warns(dlvm.TraceWarning, match=r"space\.table, which is too large"):
        f(X)


def test_more_functions_of_a_package_than_are_followed_are_told_and_the_users_are_followed():
    names = [f"g{i}" for i in range(300)]
    text = "".join(f"def {n}(x):\n    return x\n" for n in names)
    exec(compile(text, str(installed().__file__), "exec"), installed().__dict__)
    calls = [installed().__dict__[n] for n in names]
    scale = 2.0

    def last(x: Any) -> Any:
        return x * scale

    def f(x: Any) -> Any:
        for call in calls:
            x = call(x)
        return last(x)

    staged = dlvm.function(f)
    with pytest.warns(dlvm.TraceWarning, match="more functions than are followed"):
        np.testing.assert_array_equal(staged(X), X * 2)
    scale = 3.0
    np.testing.assert_array_equal(staged(X), X * 3)


def main() -> None:
    """Draw as many programs as the command line says from a seed; print what is silently old."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    first = seed() * 1_000
    found: Counter[str] = Counter()
    for case in map(drawn, range(first, first + count)):
        said = outcome(case)
        found[said.partition(":")[0]] += 1
        if said not in KNOWN:
            print(case.name, said, flush=True)
    print(f"first seed {first}: {dict(found)}")


if __name__ == "__main__":
    main()
