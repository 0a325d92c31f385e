"""The examples in the docstrings of transformations run, and give what their comments say."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap

import numpy as np
import pytest

import dlvm

NAMES = [
    "grad",
    "value_and_grad",
    "vjp",
    "jvp",
    "linearize",
    "jacobian",
    "hessian",
    "vmap",
    "checkpoint",
    "save_names",
    "checkpoint_scan",
    "stop_gradient",
    "custom_vjp",
    "custom_jvp",
]
X, DX = np.array([0.3, -0.8, 1.2]), np.array([1.0, 2.0, -0.5])
A = np.array([[0.2, -0.1, 0.4], [0.3, 0.5, -0.2], [-0.6, 0.1, 0.3]])


@pytest.mark.parametrize("name", NAMES)
def test_it_runs_and_gives_what_its_comments_say(name: str):
    doc = inspect.getdoc(getattr(dlvm, name)) or ""
    (found,) = re.findall(r"::\n\n((?:    .*(?:\n|$)|\n)+)", doc)
    code = textwrap.dedent(found)
    space = {"dlvm": dlvm, "np": np, "x": X, "dx": DX, "a": A}
    lines, checked = code.splitlines(), 0
    for statement in ast.parse(code).body:
        comment = re.search(r"# (.*)", lines[(statement.end_lineno or 1) - 1])
        if isinstance(statement, ast.Expr) and comment:
            value = eval(ast.unparse(statement), space)
            np.testing.assert_allclose(value, eval(comment[1], space), rtol=1e-6, atol=1e-12)
            checked += 1
        else:
            exec(ast.unparse(statement), space)
    assert checked
