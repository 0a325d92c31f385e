"""What newcomers write: names of other libraries, and functions of other arguments than are given.

All of it is theirs and not ours: a file that replays a fault would help nobody.
"""

from __future__ import annotations

import builtins
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dlvm
from dlvm.base.errors import CallError, CompilerError, DTypeError, TraceError, UserError, closest
from dlvm.dsl.derive import mapping
from dlvm.dsl.flow import loops
from dlvm.dsl.trace.facing import facing_users
from tests.mistaken import judge, programs, wrong

VECTOR = np.ones(3)


# -- names -----------------------------------------------------------------------------------------


@wrong(AttributeError, "no attribute 'relu'", r"help: write dlvm\.nn\.relu$")
def a_name_of_another_module(x):
    return dlvm.relu(x)  # here


@wrong(AttributeError, "'dlvm.nn' has no attribute 'exp'", r"help: write dlvm\.exp$")
def a_name_of_the_module_above(x):
    return dlvm.nn.exp(x)  # here


@wrong(AttributeError, "no attribute 'concatenate'", r"help: write dlvm\.concat$")
def a_name_of_numpy(x):
    return dlvm.concatenate([x, x])  # here


@wrong(AttributeError, "no attribute 'nonzero'", "shapes that depend on data", r"sum\(where=mask")
def a_result_of_unknown_size(x):
    return dlvm.nonzero(x)  # here


@wrong(
    AttributeError, "'dlvm.linalg' has no attribute 'eig'", r"write dlvm\.linalg\.eig_pairs\(x\)"
)
def eigenvalues(x):
    return dlvm.linalg.eig(x)  # here


@wrong(UserError, r"np\.linalg\.eigvals can't be staged", r"write dlvm\.linalg\.eigvals_pairs")
def eigenvalues_by_numpy(x):
    return np.linalg.eigvals(x)  # here


@wrong(AttributeError, "has no 'grad'", r"dlvm\.grad\(f\)\(x\)")
def a_gradient_in_an_array(x):
    return x.grad  # here


@wrong(AttributeError, "has no 'relu'", r"help: write dlvm\.nn\.relu$")
def a_method_of_another_module(x):
    return x.relu()  # here


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("softmax", "write dlvm.nn.softmax"),
        ("norm", "write dlvm.linalg.norm"),
        ("PRNGKey", "write dlvm.random.key"),
        ("array", "write dlvm.asarray"),
        ("jit", "write dlvm.function"),
        ("argnums", "wrt="),
        ("arcsin", "write dlvm.asin"),
        ("ravle", "did you mean dlvm.ravel?"),
        ("zyx", "dir(dlvm) lists"),
    ],
)
def test_names_of_others_lead_to_ours(name: str, said: str):
    with pytest.raises(AttributeError) as caught:
        getattr(dlvm, name)
    assert said in str(caught.value) and "--> test_suggestions.py" in str(caught.value)
    assert not hasattr(dlvm, name)


def test_what_python_asks_of_modules_is_answered_as_python_expects():
    for module in (dlvm, dlvm.nn, dlvm.linalg, dlvm.random, dlvm.tree):
        assert getattr(module, "__wrapped__", None) is None
    with pytest.raises(ImportError, match="relu"):
        exec("from dlvm import relu")


@pytest.mark.parametrize(
    ("name", "known", "meant"),
    [
        ("relu", "real", None),
        ("softmax", "fmax", None),
        ("grad", "read", None),
        ("on", "off", None),
        ("sun", "sum", "sum"),
        ("axsi", "axis", "axis"),
        ("resape", "reshape", "reshape"),
        ("apply_along_axis", "put_along_axis", None),
    ],
)
def test_only_near_names_are_suggested(name: str, known: str, meant: str | None):
    assert closest(name, [known]) == meant


# -- calls of ours ---------------------------------------------------------------------------------


def test_calls_that_do_not_fit_say_how_the_function_is_called():
    calls: list[tuple[Callable[[], Any], str, str]] = [
        (lambda: dlvm.function(abs, jit=True), "function: .*'jit'", r"leave out jit=: dlvm\.func"),
        (lambda: dlvm.function(abs, static_argnums=0), "static_argnums", "write static= instead"),
        (lambda: dlvm.grad(abs, argnums=0), "grad: .*'argnums'", "write wrt= instead"),
        (lambda: dlvm.spec("f32", (3, 4)), "spec: too many", r"dlvm\.spec\(text\).*f32\[B,784\]"),
        (lambda: dlvm.scan(abs, inits=0.0), "scan: missing.*'init'; .*'inits'", "write init= "),
        (lambda: dlvm.jvp(abs, VECTOR), "jvp: missing.*'tangents'", r"dlvm\.jvp\(f, primals"),
        (lambda: dlvm.linalg.norm(VECTOR, dim=0), r"linalg\.norm: .*'dim'", "write axis= instead"),
        (lambda: dlvm.nn.relu(VECTOR, 1), r"nn\.relu: too many", r"dlvm\.nn\.relu\(x\)"),
        (lambda: dlvm.sum(VECTOR, dim=0), "sum: .*'dim'", "write axis= instead of dim="),
        (lambda: dlvm.function(lambda x: x)(y=1), "missing.*'x'; .*'y'", r"lambda>\(x\)"),
    ]
    for call, said, remedy in calls:
        with pytest.raises(CallError, match=said) as caught:
            call()
        with pytest.raises(CallError, match=rf"(?s)--> test_suggestions.py.*help: .*{remedy}"):
            raise caught.value
        assert isinstance(caught.value, TypeError)


@wrong(CallError, "scan: missing a required argument: 'init'", "write init= instead of inits=")
def an_option_of_scan(x):
    return dlvm.scan(lambda c, r: (c, c), inits=0.0, xs=x)  # here


# -- calls of theirs -------------------------------------------------------------------------------


def takes_one(c):
    """A body of one argument."""
    return c, c


@wrong(
    CallError,
    r"scan: the body is called with \(carry, x\): too many",
    r"it is takes_one\(c\), written at test_suggestions\.py:\d+",
    r"def takes_one\(carry, x\)",
)
def a_scan_of_one(x):
    return dlvm.scan(takes_one, 0.0, x)  # here


@wrong(CallError, r"fori_loop: the body is called with \(i, val\)", r"lambda i, val:")
def a_loop_without_a_counter(x):
    return dlvm.fori_loop(0, 3, lambda val: val, x)  # here


@wrong(CallError, r"fori_loop: the body is called with \(i, val\)")
def a_loop_of_unknown_length_without_a_counter(x):
    return dlvm.fori_loop(0, x.astype(int)[0, 0], lambda val: val, x)  # here


@wrong(CallError, r"while_loop: the condition is called with \(val\)", "missing .* 'b'")
def a_condition_of_two(x):
    return dlvm.while_loop(lambda a, b: a < 3, lambda a: a, x)  # here


@wrong(CallError, r"while_loop: the body is called with \(val\)", "missing .* 'b'")
def a_body_of_two(x):
    return dlvm.while_loop(lambda a: a.sum() < 3, lambda a, b: a, x)  # here


@wrong(CallError, r"cond: a branch is called with \(x\): too many", "lambda x:")
def a_branch_of_none(x):
    return dlvm.cond(x.sum() > 0, lambda: x, lambda x: x, x)  # here


@wrong(CallError, r"cond: a branch is called with \(\): missing", "lambda:")
def a_branch_of_one(x):
    return dlvm.cond(x.sum() > 0, lambda y: y, lambda: x)  # here


@wrong(CallError, r"switch: a branch is called with \(x0, x1\)")
def a_choice_of_none(x):
    return dlvm.switch(x[0, 0].astype(int), [lambda: x, lambda a, b: a], x, x)  # here


@wrong(CallError, r"map: the function is called with \(x\)")
def a_map_of_two(x):
    return dlvm.map(lambda x, y: x, x)  # here


@wrong(CallError, r"tree\.map: the function is called with \(leaf\)")
def a_map_of_leaves_of_two(x):
    return dlvm.tree.map(lambda x, y: x, {"a": x})  # here


@wrong(CallError, r"the forward rule of f is called with \(x\): too many")
def a_forward_rule_of_none(x):
    @dlvm.custom_vjp
    def f(x):
        return x

    f.defvjp(lambda: (x, None), lambda kept, ct: (ct,))
    return dlvm.grad(lambda x: f(x).sum())(x)  # here


@wrong(CallError, r"the backward rule of g is called with \(kept, ct\): too many")
def a_backward_rule_of_one(x):
    @dlvm.custom_vjp
    def g(x):
        return x

    g.defvjp(lambda x: (x, None), lambda ct: (ct,))
    return dlvm.grad(lambda x: g(x).sum())(x)  # here


@wrong(CallError, r"the rule of g is called with \(primals, tangents\)")
def a_rule_of_one(x):
    @dlvm.custom_jvp
    def g(x):
        return x

    g.defjvp(lambda primals: primals)
    return dlvm.grad(lambda x: g(x).sum())(x)  # here


@pytest.mark.parametrize(
    "call",
    [
        lambda: dlvm.scan(takes_one, 0.0, VECTOR),
        lambda: dlvm.fori_loop(0, 3, lambda x: x, VECTOR),
        lambda: dlvm.while_loop(lambda: True, lambda x: x, VECTOR),
        lambda: dlvm.cond(True, lambda: VECTOR, lambda: VECTOR, VECTOR),
        lambda: dlvm.switch(1, [lambda: VECTOR], VECTOR),
        lambda: dlvm.map(lambda x, y: x, VECTOR),
        lambda: dlvm.tree.map(lambda x, y: x, VECTOR),
    ],
)
def test_outside_a_trace_it_is_the_same(call: Callable[[], Any]):
    with pytest.raises(CallError, match="is called with") as caught:
        call()
    assert "--> test_suggestions.py" in str(caught.value)


def test_what_a_body_itself_calls_wrongly_stays_pythons_error():
    def body(c: Any, x: Any) -> Any:
        return takes_one(c, x)  # type: ignore[call-arg]  # on purpose

    with pytest.raises(TypeError, match=r"takes_one\(\) takes 1") as caught:
        dlvm.function(lambda x: dlvm.scan(body, 0.0, x))(VECTOR)
    assert not isinstance(caught.value, CallError)


# -- what is written otherwise ------------------------------------------------------------------


@wrong(
    TraceError,
    "can't go into the NumPy array a",
    r"write a = dlvm\.zeros\(3\) at line \d+, in place of np\.zeros\(3\)",
)
def filled_by_adding_in_a_loop(x):
    a = np.zeros(3)
    for i in range(3):
        a[i] += x[i, 0]  # here
    return a


@wrong(TraceError, "can't become an index", r"x = dlvm\.fori_loop\(0, n, body, x\), where body")
def a_count_of_calls(x):
    n = x[0, 0].astype(int)
    for i in range(n):  # here
        x = x * i
    return x


@wrong(TraceError, "can't become an index", r"dlvm\.fori_loop\(1, n, lambda i, carry")
def a_count_from_one(x):
    n = x[0, 0].astype(int)
    return [x * i for i in range(1, n)]  # here


@wrong(TraceError, "found None of type NoneType", "write x is None to ask")
def compared_to_none(x):
    return x == None  # noqa: E711  # here


@wrong(TraceError, "found 1j of type complex", "complex numbers are not supported")
def times_an_imaginary_number(x):
    return x * 1j  # here


@wrong(UserError, r"dlvm\.trace takes a function, found <staged x", r"dlvm\.linalg\.trace\(x\)")
def the_trace_of_a_matrix(x):
    return dlvm.trace(x)  # here


@wrong(CallError, "concat: expected a list of arrays", r"write dlvm\.concat\(\[x, y\]\)")
def joined_without_a_list(x):
    return dlvm.concat(x, x)  # here


@wrong(CallError, "stack: expected a list of arrays", r"write dlvm\.stack\(\[x, y\]\)")
def stacked_without_a_list(x):
    return dlvm.stack(x, x)  # here


@wrong(UserError, r"stack: .* found f32\[3,5\] and f32\[2,5\]")
def stacked_of_two_shapes(x):
    return dlvm.stack([x, x[:2]])  # here


@wrong(UserError, r"vstack along 0: f32\[3,5\] and f32\[3,4\]")
def below_one_another_of_two_widths(x):
    return dlvm.vstack([x, x[:, 1:]])  # here


@wrong(UserError, r"fori_loop: the body must give carry the type it has, f32\[3,5\], found")
def a_loop_that_grows(x):
    return dlvm.fori_loop(0, 3, lambda i, c: dlvm.concat([c, c]), x)  # here


@wrong(UserError, r"fori_loop: the body must give carry\['a'\] the type it has, f32\[3,5\], found")
def a_loop_of_unknown_length_that_grows(x):
    n = x[0, 0].astype(int)
    return dlvm.fori_loop(0, n, lambda i, c: {"a": c["a"][1:]}, {"a": x})  # here


@wrong(UserError, "fori_loop: .* takes: carry: expected an array, found a tuple of 2")
def a_loop_of_unknown_length_that_gives_more(x):
    n = x[0, 0].astype(int)
    return dlvm.fori_loop(0, n, lambda i, c: (c, c), x)  # here


@wrong(UserError, "map: xs has no axis")
def a_map_over_a_number(x):
    return dlvm.map(lambda r: r, x[0, 0])  # here


@wrong(TraceError, r"np\.apply_along_axis can't be staged", r"dlvm\.vmap")
def along_an_axis(x):
    return np.apply_along_axis(lambda r: r.sum(), 0, x)  # here


@wrong(TypeError, "can't be rounded by Python", r"write dlvm\.round\(x, 2\)")
def rounded_by_python(x):
    return round(x, 2)  # here


@wrong(CallError, r"np\.sum\(\) got an unexpected .* 'dim'", "write axis= instead of dim=")
def a_sum_along_a_dimension(x):
    return np.sum(x, dim=1)  # here


@wrong(CallError, "get: got an unexpected keyword argument 'fill_value'", "leave out fill_value=")
def a_value_for_what_is_outside(x):
    return x.at[0].get(fill_value=1)  # here


@wrong(
    UserError,
    r"the trees differ: tree_2\['a'\]: expected f32\[3, 5\], found nothing",
    "same dicts, tuples",
)
def trees_of_two_shapes(x):
    return dlvm.tree.map(lambda a, b: a, {"a": x}, {"b": x})  # here


@wrong(UserError, "the backward rule of g must give a tuple", r"return \(ct,\)")
def a_bare_cotangent(x):
    @dlvm.custom_vjp
    def g(x):
        return x

    def backward(kept, ct):  # here
        return ct

    g.defvjp(lambda x: (x, None), backward)
    return dlvm.grad(lambda x: g(x).sum())(x)


def test_a_loop_on_one_line_gets_the_same_help(tmp_path: Path):
    file = tmp_path / "short.py"
    file.write_text("def fill(x, a):\n    for i in range(3): a[i] += x[i]\n")
    short: dict[str, Any] = {"__name__": "short"}
    exec(compile(file.read_text(), str(file), "exec"), short)
    with pytest.raises(TraceError, match=r"can't go into the NumPy array a[^ ]* "):
        dlvm.function(lambda x: short["fill"](x, np.zeros(3)))(VECTOR)


def test_a_line_of_a_library_comes_with_the_line_that_called_it(tmp_path: Path):
    file = tmp_path / "site-packages" / "library.py"
    file.parent.mkdir()
    file.write_text("def check(x):\n    return float(x[0])\n")
    library: dict[str, Any] = {"__name__": "library"}
    exec(compile(file.read_text(), str(file), "exec"), library)

    def program(x: Any) -> Any:
        return library["check"](x)

    with pytest.raises(
        TraceError, match=r"(?s)--> library.py:2.*\n  called at test_suggestions"
    ) as e:
        dlvm.function(program)(VECTOR)
    assert 'library["check"](x)' in str(e.value) and str(e.value).count("called at") == 1


# -- what is ours all the same ---------------------------------------------------------------------


def _of_none() -> None: ...


ours: Callable[..., Any] = types.FunctionType(
    _of_none.__code__, {"__name__": "dlvm.planted", "__builtins__": builtins}, "ours"
)


@pytest.mark.parametrize(
    ("room", "name", "planted"),
    [
        (loops, "common_length", ours),
        (mapping, "check_callable", ours),
        (mapping, "check_callable", facing_users(ours)),
    ],
)
@pytest.mark.parametrize("staged", [True, False])
def test_calls_of_ours_that_do_not_fit_are_faults(
    room: Any, name: str, planted: Any, staged: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
):
    monkeypatch.setenv("DLVM_REPRO", str(tmp_path))
    monkeypatch.setattr(room, name, planted)
    program = lambda x: dlvm.map(lambda r: r, x)  # noqa: E731
    with pytest.raises(CompilerError, match="this is a bug in dlvm"):
        (dlvm.function(program) if staged else program)(VECTOR)


# -- seeds -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0.5, np.float32(1), np.array(2.0)])
def test_a_seed_is_a_whole_number(seed: Any):
    with pytest.raises(
        DTypeError, match=r"(?s)expected a whole number as seed.*--> test_suggestions"
    ):
        dlvm.random.key(seed)
    with pytest.raises(DTypeError, match="whole number as data"):
        dlvm.random.fold_in(dlvm.random.key(0), seed)
    with pytest.raises(DTypeError, match="whole number as seed"):
        dlvm.function(dlvm.random.key)(seed)


@pytest.mark.parametrize("program", programs(__name__))
def test_the_message_names_the_line_and_one_remedy(program: Any):
    judge(program)
