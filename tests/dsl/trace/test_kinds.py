"""Every right call fits the kinds of its parameters; a kind that is too narrow blames it."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import dlvm
from dlvm.dsl.trace.kinds import TREES, kind_of, unlike
from dlvm.dsl.trace.operands import staged
from dlvm.dsl.trace.scopes import Scope, Trace
from tests.names.forms import Form, forms_of, public_names
from tests.names.table import SILENT

OF_NO_KIND = {
    "out": "refused whatever it is",
    **dict.fromkeys(
        ("kind", "order", "optimize", "sorter"), "NumPy's; anything but None is refused"
    ),
    **dict.fromkeys(("init", "init_val", "xs", "tree", "rest", "primals"), "any tree"),
    **dict.fromkeys(("other", "replace", "filter"), "any tree"),
    **dict.fromkeys(("elems", "like", "trees"), "any tree, or a list of such"),
    "initializer": "whatever a function of the user's takes",
    "expr": "an expression of SymPy or a list of such, which is asked what it is",
    **dict.fromkeys(
        ("path", "folder"), "text, bytes or an object with a path, which is asked for it"
    ),
    **dict.fromkeys(("in_axes", "out_axes"), "a tree of axes, which is compared with a tree"),
    "args": "whatever a function of the user's takes",
    **dict.fromkeys(("mesh", "names", "pieces"), "of a mesh, which is asked what it knows"),
    "dynamic": "a tree of truths",
    "fn": "a function, a method or a callable, which is asked what it is",
}
"""Parameters that take more than one kind of argument, each checked where it is read."""
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


@pytest.mark.parametrize("module", ["", "nn", "random", "linalg", "tree"])
def test_every_parameter_declares_its_kind(module: str):
    """Where one does not, what Python says of a silly argument counts as a fault of dlvm."""
    owner = getattr(dlvm, module) if module else dlvm
    prefix = f"{module}." if module else ""
    rows = [(f"{prefix}{name}", p) for name, p in _parameters(owner)]
    found = [f"{name}: {p.name}" for name, p in rows if kind_of(name, p) is None]
    assert not found, f"declare in dlvm.dsl.trace.kinds: {', '.join(found)}"


def _parameters(owner: object):
    for name in owner.__all__:
        fn = getattr(owner, name)
        if name.startswith("_") or not inspect.isfunction(fn) or name in TREES:
            continue
        for p in inspect.signature(fn).parameters.values():
            if p.kind is not p.VAR_KEYWORD and p.name not in OF_NO_KIND:
                yield name, p


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("can_cast", (np.int8, np.float32, "wrong")),
        ("bincount", (np.ones(3, int), None, 10**30)),
        ("scan", (abs, 1.0, None, -(10**30))),
        ("diff", (np.ones(3), 1, -1, object())),
    ],
)
def test_silly_options_are_the_callers(name, args):
    assert unlike(name, inspect.unwrap(getattr(dlvm, name)), args, {}) is not None


SPOTS = np.ones((1, 4, 2))
TWO = (np.ones(2), np.ones(2))
WRONG_KINDS = [
    ("nn.Sequential", lambda: dlvm.nn.Sequential(print)),
    ("nn.Sequential", lambda: dlvm.nn.Sequential(np.array(1))),
    ("vstack: arrays", lambda: dlvm.vstack(np.array(True))),
    ("nn.max_pool: layout", lambda: dlvm.nn.max_pool(SPOTS, 2, layout=np.ones(3))),
    ("nn.max_pool: stride", lambda: dlvm.nn.max_pool(SPOTS, 2, stride=np.ones((3, 3)))),
    ("nn.max_pool: padding", lambda: dlvm.nn.max_pool(SPOTS, 2, padding=np.ones((3, 3)))),
    ("aot: state", lambda: dlvm.aot(abs, state=np.array(1))),
    ("batches: last", lambda: dlvm.batches(np.ones(3), 1, last=np.ones(3))),
    ("unflatten: leaves", lambda: dlvm.tree.unflatten(dlvm.tree.structure([1]), abs)),
    ("tree.reduce: fn", lambda: dlvm.tree.reduce(np.array(1), [1, 2])),
    ("the trees differ", lambda: dlvm.tree.map(abs, TWO, np.float64)),
    ("concat along 1", lambda: dlvm.concat([np.ones((3, 4)), np.ones(3)], axis=1)),
    ("linalg.cho_solve: factor", lambda: dlvm.linalg.cho_solve((np.eye(2), np.eye(2)), TWO[0])),
    ("a kernel at 'query'", lambda: dlvm.nn.multi_head_attention({"a": SPOTS}, SPOTS)),
    ("a kernel at 'query'", lambda: dlvm.nn.multi_head_attention({"query": SPOTS}, SPOTS)),
    ("does not stretch", lambda: dlvm.average(1, weights=[1])),
    ("does not stretch", lambda: dlvm.full_like(1, [1])),
    ("sliding_window_view", lambda: dlvm.sliding_window_view(np.ones(4), 2, stride=SPOTS)),
]
"""What a message begins with, and the call that it is about."""


@pytest.mark.parametrize(("said", "call"), WRONG_KINDS, ids=[said for said, _ in WRONG_KINDS])
def test_an_argument_of_the_wrong_kind_is_the_callers_mistake(said, call):
    with pytest.raises(dlvm.UserError, match=said) as error:
        call()
    assert str(error.value).count("help: ") == 1


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
