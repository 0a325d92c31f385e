"""Every right call fits the kinds of its parameters; a kind that is too narrow blames it."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

from dlvm.dsl.trace.kinds import unlike
from dlvm.dsl.trace.operands import staged
from dlvm.dsl.trace.scopes import Scope, Trace
from tests.names.forms import Form, forms_of, public_names
from tests.names.table import SILENT

FORMS = [form for name in public_names() if name not in SILENT for form in forms_of(name)]


def test_every_right_call_fits_the_kinds_of_its_parameters():
    assert len({form.name for form in FORMS}) > 250
    blamed = [f"{form}: {wrong}" for form in FORMS if (wrong := _blamed(form, form.args))]
    assert not blamed, "\n".join(blamed)


def test_every_right_call_of_staged_values_fits_the_kinds_of_its_parameters():
    with Scope(Trace("test", find=lambda array: "x"), None, "test"):
        blamed = [
            f"{form}: {wrong}"
            for form in FORMS
            if (wrong := _blamed(form, tuple(map(_staged, form.args))))
        ]
    assert not blamed, "\n".join(blamed)


def _staged(x: object) -> object:
    return staged(x) if isinstance(x, np.ndarray) else x


def _blamed(form: Form, args: tuple[object, ...]) -> str | None:
    wrong = unlike(form.name, inspect.unwrap(form.call), args, form.options)
    return None if wrong is None else str(wrong)


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("zeros", ((2, 3),)),
        ("zeros", (4,)),
        ("pad", (np.ones(3), ((1, 2),))),
        ("arange", (0.0, 1, 0.25)),
        ("tensordot", (np.ones((2, 3)), np.ones((3, 2)), ((0, 1), (1, 0)))),
        ("split", (np.ones(4), [1, 3])),
        ("clip", (np.ones(4), None, 1.0)),
    ],
)
def test_usual_calls_fit(name, args):
    assert _blamed(Form(name, args), args) is None
