"""Every parameter of NumPy's functions may be written by NumPy's name, or is refused in words."""

from __future__ import annotations

import functools
import inspect
from typing import Any

import numpy as np
import pytest

import dlvm
from dlvm.base.errors import ArgumentError, UserError
from dlvm.dsl.elements.spelling import by_our_names
from dlvm.dsl.words.names import lookup
from dlvm.dsl.words.remedies import ADVICE, OURS
from tests.names.forms import Form, forms_of, leaves, public_names

OTHERS = {
    "copy": "it has no parameters but how memory is laid out",
    "function": "NumPy has none",
    "trace": "dlvm.trace shows the program of a function; x.trace() is NumPy's",
    "map": "NumPy has none",
}
"""Names that mean something else here, and why."""
UNNAMED = {
    ("einsum", "kwargs"): "any other option is refused by its name",
    ("pad", "kwargs"): "constant_values= is a parameter of ours",
    ("clip", "kwargs"): "options of ufuncs",
    ("gradient", "varargs"): "arguments without names",
    ("unique", "*"): "the shape of its result depends on elements, so every call is refused",
}
"""Parameters that stand for many, and why nothing is asked of them."""


def numpys(name: str) -> dict[str, Any]:
    """NumPy's functions that a public name stands for, by their names in NumPy.

    Functions with other names are those that NumPy hands to us.
    """
    spelt = [name, *(k for k, v in OURS.items() if v == name)]
    found = {s: functools.reduce(_inside, s.split("."), np) for s in spelt}
    found = {s: f for s, f in found.items() if callable(f) and not isinstance(f, type)}
    return {s: f for s, f in found.items() if s == name or dispatched(f)}


def _inside(module: Any, name: str) -> Any:
    return getattr(module, name, None)


def dispatched(function: Any) -> bool:
    """Whether NumPy asks the operands first."""
    return isinstance(function, np.ufunc) or hasattr(function, "_implementation")


NAMES = [n for n in public_names() if n not in OTHERS and "random." not in n and numpys(n)]


def ours(name: str) -> Any:
    """The public function of a name."""
    return functools.reduce(getattr, name.split("."), dlvm)


@pytest.mark.parametrize("name", NAMES)
def test_every_parameter_of_numpys_is_known(name: str):
    """It is one of ours by that name, one of ours by another, or an error that says what to do."""
    call, missing = ours(name), []
    known = inspect.signature(call).parameters
    for spelt, function in numpys(name).items():
        for key, p in inspect.signature(function).parameters.items():
            if {(name, key), (name, "*")} & UNNAMED.keys() or p.kind is p.VAR_POSITIONAL:
                continue
            try:
                found = by_our_names(name, call, {key: object()})
            except ArgumentError as error:
                assert error.remedy and (f"{key}=" in ADVICE or "leave it out" in error.remedy)
                by_our_names(name, call, {key: p.default})
            else:
                if p.kind is not p.POSITIONAL_ONLY and found.keys() - known.keys():
                    missing.append(f"np.{spelt}({key}=)")
    assert not missing


def by_numpys_names(form: Form, function: Any) -> Form | None:
    """The same call with every argument by its name in NumPy, as far as it may be."""
    signature = inspect.signature(function)
    try:
        bound = signature.bind(*form.args, **form.options).arguments
    except TypeError:
        return None
    args: list[Any] = []
    options: dict[str, Any] = {}
    for key, value in bound.items():
        kind = signature.parameters[key].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            args += value
        elif kind is inspect.Parameter.VAR_KEYWORD:
            options |= value
        elif kind is inspect.Parameter.POSITIONAL_ONLY or "varargs" in bound:
            args.append(value)
        else:
            options[key] = value
    return Form(form.name, tuple(args), options)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.filterwarnings("ignore")
def test_calls_by_numpys_names_are_the_calls_by_ours(name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DLVM_INTERPRET", "1")
    for form in forms_of(name)[:2]:
        try:
            wanted = leaves(form.on(form.call, form.arrays))
        except UserError:
            continue
        for function in numpys(name).values():
            spelt = by_numpys_names(form, function)
            if spelt is None:
                continue
            calls = [lambda *arrays: leaves(spelt.on(form.call, arrays))]  # noqa: B023
            if dispatched(function) and form.arrays:
                numpy = lambda *arrays: leaves(spelt.on(function, arrays))  # noqa: B023, E731
                calls.append(dlvm.function(numpy))
            for call in calls:
                found = call(*form.arrays)
                for a, b in zip(found, wanted, strict=True):
                    np.testing.assert_allclose(a, b, rtol=1e-14, err_msg=str(spelt))
                    assert np.asarray(a).dtype == np.asarray(b).dtype, str(spelt)


WRONG = {
    "device": lambda x: dlvm.zeros(3, device="cuda:0"),
    "order": lambda x: dlvm.zeros((2, 3), order="F"),
    "weights": lambda x: np.quantile(x, 0.5, method="inverted_cdf", weights=np.abs(x)),
    "shape": lambda x: np.zeros_like(x, shape=(4,)),
    "mean": lambda x: np.var(a=x, mean=1.0),
    "period": lambda x: np.interp(x, np.arange(3.0), np.arange(3.0), period=2.0),
}


@pytest.mark.parametrize("key", WRONG)
def test_an_option_that_there_is_not_is_refused_with_a_remedy(key: str):
    with pytest.raises(ArgumentError, match=rf"takes no {key}=") as info:
        dlvm.function(WRONG[key])(np.array([1.0, -2.0]))
    assert info.value.remedy == ADVICE[f"{key}="]


def test_a_word_that_nobody_knows_is_an_error_of_the_call():
    for call in (lambda x: dlvm.tile(x, repz=2), lambda x: dlvm.tile(x, A=x, reps=2)):
        with pytest.raises(TypeError, match=r"tile"):
            call(np.ones(2))
    assert lookup("tile") is not None
