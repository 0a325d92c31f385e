"""Staged functions in other processes: by name, or by value where the name leads nowhere."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import dlvm

X = np.arange(1.0, 4.0)


def plain(x):
    return (x * x).sum()


def nested():
    """A staged function of no name, with a captured array and options."""
    w = np.array([2.0, -1.0, 0.5])

    @dlvm.function(static="power", dynamic={"x": "N"}, numerics="strict", threads=1)
    def weighted(x, power=2):
        return dlvm.sum(w[:1] * x**power) + w.sum()

    return weighted


class Model:
    def __init__(self, w):
        self.w = w

    @dlvm.function
    def step(self, x):
        return self.w * x


def elsewhere(data: bytes, program: str, folder: Path) -> str:
    """What another process prints, which has what was pickled as ``loaded``."""
    (folder / "data").write_bytes(data)
    start = f"""
        import pickle, numpy as np, dlvm
        loaded = pickle.load(open({str(folder / "data")!r}, "rb"))
        X = np.arange(1.0, 4.0)
    """
    code = textwrap.dedent(start) + textwrap.dedent(program)
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_a_nested_function_goes_to_another_process_with_its_array_and_options(tmp_path: Path):
    cloudpickle = pytest.importorskip("cloudpickle")
    f = nested()
    expected, slope = f(X, power=3), dlvm.grad(f)(X, power=3)
    show = """
        f, df = loaded
        print(f(X, power=3), *dlvm.grad(f)(X, power=3), *df(X, power=3))
        print(f.source.options.numerics, f.source.options.threads, f.source.dynamic)
        f(np.ones(5)), f(np.ones(7))
        print(len(f.explain().compiles), sorted(f.parameters.static))
    """
    found = elsewhere(cloudpickle.dumps((f, dlvm.grad(f))), show, tmp_path).splitlines()
    assert found[0].split() == [str(v) for v in (expected, *slope, *slope)]
    assert found[1] == "strict 1 {'x': 'N'}"
    assert found[2] == "2 ['power']"  # one for each power


def test_a_function_that_calls_itself_and_a_lambda_go_as_well():
    cloudpickle = pytest.importorskip("cloudpickle")

    @dlvm.function(static="n")
    def power(x, n=3):
        return x * power(x, n=n - 1) if n else 1.0

    again = pickle.loads(cloudpickle.dumps(power))
    assert again is not power and again(2.0) == 8.0
    assert again.python.__closure__[0].cell_contents is again
    twice = pickle.loads(cloudpickle.dumps(dlvm.function(lambda x: x * 2)))
    assert twice(2.0) == 4.0
    bound = pickle.loads(cloudpickle.dumps(nested().bind(power=3)))
    assert bound(X) == nested()(X, power=3)


def test_what_an_interactive_session_defines_goes_by_value_where_code_is_carried(tmp_path: Path):
    pytest.importorskip("cloudpickle")
    session = """
        import sys, pickle, cloudpickle, numpy as np, dlvm
        W = np.arange(3.0)
        @dlvm.function
        def f(x):
            return W * x
        assert pickle.loads(pickle.dumps(f)) is f
        sys.stdout.buffer.write(cloudpickle.dumps(f))
    """
    command = [sys.executable, "-c", textwrap.dedent(session)]
    data = subprocess.run(command, capture_output=True, check=True).stdout
    assert elsewhere(data, "print(*loaded(X))", tmp_path).split() == ["0.0", "2.0", "6.0"]


def test_plain_pickle_takes_a_function_that_can_be_imported():
    f = dlvm.function(plain, dynamic={"x": "N"}, numerics="fast")
    again = pickle.loads(pickle.dumps(f))
    assert again is not f and again.python is plain
    assert again.source.dynamic == {"x": "N"} and again.source.options == f.source.options
    assert again(X) == f(X)
    assert copy.copy(f) is f


def test_a_method_goes_with_its_object():
    a = Model(X)
    again = pickle.loads(pickle.dumps(a.step))
    np.testing.assert_array_equal(again(X), X * X)
    assert again != a.step


def test_what_plain_pickle_cannot_carry_is_told_with_what_can():
    for f in (nested(), dlvm.function(lambda x: x), dlvm.grad(plain)):
        with pytest.raises(dlvm.PicklingError, match=r"can't be pickled by its name") as caught:
            pickle.dumps(f)
        assert isinstance(caught.value, TypeError)
        assert "cloudpickle.dumps" in str(caught.value)
        assert copy.copy(f) is f and copy.deepcopy(f) is f
