"""Fields of dataclasses as configuration, through every transformation; trees told by path."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable
from typing import Annotated, Any, Generic, TypeVar

import numpy as np
import pytest

import dlvm

T = TypeVar("T")


class Kind(enum.Enum):
    PLAIN = 1
    SHIFTED = 2


def double(x: Any) -> Any:
    return x * 2


@dataclasses.dataclass
class Plain:
    w: Any
    act: Callable[[Any], Any] = double
    kind: Kind = Kind.PLAIN
    name: str = "plain"
    on: bool = True
    size: dlvm.static[int] = 2
    depth: Annotated[int, dlvm.static] = 3
    width: int = dlvm.static(default=1)
    missing: Any = None


@dataclasses.dataclass(slots=True)
class Slots(Plain):
    pass


@dataclasses.dataclass
class Of(Plain, Generic[T]):
    extra: list[str] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Checked(Plain):
    def __post_init__(self) -> None:
        if np.asarray(self.w).dtype != np.float64:
            raise TypeError("w must be an array of f64")


def copied(f: dataclasses.Field[Any]) -> tuple[str, Any, Any]:
    return f.name, f.type, dataclasses.field(default=f.default, metadata=f.metadata)


FIELDS = [*map(copied, dataclasses.fields(Plain))]
Frozen = dataclasses.make_dataclass("Frozen", FIELDS, frozen=True)
KINDS: list[Any] = [Plain, Frozen, Slots, Of, Checked]
X = np.array([1.0, -2.0, 0.5])


def value(p: Any, x: Any = X) -> Any:
    """Uses every field: ``sum(2 w x) * 2 * 3`` with what stands above."""
    y = p.act(p.w * x)
    y = y + 1 if p.kind is Kind.SHIFTED else y
    if p.on:
        y = y * p.size * p.depth
    return (y + dlvm.zeros(p.width)).sum()


def same(p: Any, cls: Any) -> None:
    """A tree of a gradient or tangent keeps its configuration."""
    assert type(p) is cls
    assert (p.act, p.kind, p.name, p.on) == (double, Kind.PLAIN, "plain", True)
    assert (p.size, p.depth, p.width, p.missing) == (2, 3, 1, None)


def twice(p: Any) -> Any:
    return dlvm.tree.map(double, p)


WAYS: dict[str, Callable[[Any], Any]] = {
    "function": lambda p: dlvm.function(lambda q: dataclasses.replace(q, w=12 * X))(p),
    "grad": lambda p: dlvm.grad(value)(p),
    "value_and_grad": lambda p: dlvm.value_and_grad(value)(p)[1],
    "vjp": lambda p: dlvm.vjp(value, p)[1](1.0)[0],
    "jvp": lambda p: dlvm.jvp(lambda q: dlvm.tree.map(lambda w: w * 1, q), (p,), (p,))[1],
    "linearize": lambda p: dlvm.linearize(lambda q: dlvm.tree.map(lambda w: w, q), p)[1](p),
    "vmap": lambda p: dlvm.vmap(lambda q: dlvm.tree.map(lambda w: w * 2, q))(p),
    "scan": lambda p: dlvm.scan(lambda c, _: (twice(c), None), p, None, length=2)[0],
    "fori_loop": lambda p: dlvm.fori_loop(0, 2, lambda _, c: dlvm.tree.map(double, c), p),
    "while_loop": lambda p: dlvm.while_loop(
        lambda c: c.w.sum() < 10, lambda c: dlvm.tree.map(lambda w: w + 1, c), p
    ),
    "cond": lambda p: dlvm.cond(True, lambda c: c, lambda c: dlvm.tree.map(double, c), p),
    "map": lambda p: dlvm.tree.map(lambda w, g: w - g, p, dlvm.grad(value)(p)),
    "flatten": lambda p: dlvm.tree.unflatten(dlvm.tree.structure(p), dlvm.tree.leaves(p)),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("staged", [False, True])
def test_configuration_passes_through(way: str, staged: bool) -> None:
    run = dlvm.function(WAYS[way]) if staged else WAYS[way]
    for cls in [Plain] if staged else KINDS:
        if cls is Checked and way in ("function", "jvp"):
            continue  # the user's own check, which dataclasses.replace runs, refuses staged values
        found = run(cls(np.arange(1.0, 4.0)))
        same(found, cls)
        if way in ("grad", "value_and_grad", "vjp"):
            np.testing.assert_allclose(found.w, 12 * X)


@pytest.mark.parametrize(
    "change",
    [
        {"kind": Kind.SHIFTED},
        {"act": np.negative},
        {"on": False},
        {"size": 5},
        {"depth": 1},
        {"width": 3},
        {"size": 2.0},
    ],
)
def test_other_configuration_is_another_program(change: dict[str, Any]) -> None:
    f = dlvm.function(value)
    p = Frozen(np.arange(1.0, 4.0))
    for q in (p, dataclasses.replace(p, **change), p, dataclasses.replace(p, **change)):
        np.testing.assert_allclose(f(q, X), value(q, X))
    assert len(f.explain().compiles) == 2


def test_configuration_without_a_hash_is_an_error_with_its_remedy() -> None:
    with pytest.raises(dlvm.UserError, match=r"field size of Plain.*no hash[\s\S]*size=tuple"):
        dlvm.function(value)(Plain(X, size=[1]))  # pyright: ignore[reportArgumentType]


def test_a_number_that_is_no_configuration_is_told_how_it_becomes_one() -> None:
    @dataclasses.dataclass
    class Rows:
        n: int

    with pytest.raises(dlvm.TraceError, match=r"help: declare the field as n: dlvm.static\[int\]"):
        dlvm.function(lambda p, x: x.reshape(p.n, -1))(Rows(1), X)

    @dataclasses.dataclass
    class Static:
        n: dlvm.static[int]  # type: ignore[valid-type]

    assert dlvm.function(lambda p, x: x.reshape(p.n, -1))(Static(1), X).shape == (1, 3)
    with pytest.raises(dlvm.TraceError, match=r'help: write dlvm.function\(f, static=\("n",\)\)'):
        dlvm.function(lambda n, x: x.reshape(n, -1))(1, X)
    by_argument = dlvm.function(lambda n, x: x.reshape(n, -1), static=("n",))
    assert by_argument(1, X).shape == (1, 3)


def test_an_attribute_that_is_no_field_is_told() -> None:
    @dataclasses.dataclass
    class Model:
        w: Any

        def __post_init__(self) -> None:
            self.total = self.w.sum()

    @dataclasses.dataclass
    class Declared(Model):
        total: Any = dataclasses.field(init=False)

    with pytest.raises(
        dlvm.TraceError, match=r"total is no field of the dataclass Model.*(?s:.*)help: "
    ):
        dlvm.function(lambda m, x: m.total * x)(Model(X), X)
    assert np.allclose(dlvm.function(lambda m, x: m.total * x)(Declared(X), X), X.sum() * X)
    with pytest.raises(AttributeError, match="missing"):  # the user's own mistake
        dlvm.function(lambda x: X.missing * x)(X)  # pyright: ignore


def test_what_a_function_in_a_field_captures_is_read_at_each_call() -> None:
    state = {"scale": 1.0}
    p = Plain(X, act=lambda x: x * state["scale"])
    f = dlvm.function(value)
    before = f(p, X)
    state["scale"] = 2.0
    np.testing.assert_allclose(f(p, X), 2 * before)


def test_map_keeps_what_has_no_gradient() -> None:
    p = {"w": np.ones(2), "steps": np.array(3)}
    found = dlvm.tree.map(lambda a, b: a - b, p, {"w": np.ones(2), "steps": None})
    np.testing.assert_array_equal(found["w"], 0)
    assert found["steps"] == 3


@pytest.mark.parametrize(
    ("a", "b", "said"),
    [
        ({"l": [1.0, X]}, {"l": [1.0]}, r"tree_2\['l'\]\[1\]: expected f64\[3\], found nothing"),
        ([X], (X,), "tree_2: expected a list of 1, found a tuple of 1"),
        ([X], [[X, X]], r"tree_2\[0\]: expected f64\[3\], found a list of 2"),
        ([Plain(X)], [Plain(X, name="b")], r"tree_2\[0\].name: expected 'plain', found 'b'"),
        (Plain({"a": X}), Plain({}), r"tree_2.w\['a'\]: expected f64\[3\], found nothing"),
    ],
)
def test_trees_that_differ_are_told_by_path(a: Any, b: Any, said: str) -> None:
    with pytest.raises(dlvm.UserError, match=said) as told:
        dlvm.tree.map(lambda x, y: x, a, b)
    assert "PyTree" not in str(told.value)
    with pytest.raises(dlvm.UserError, match="carry") as told:
        dlvm.scan(lambda c, _: (b, None), a, None, length=2)
    assert "PyTree" not in str(told.value)


def test_linear_maps_enter_and_leave_staged_functions_and_loops() -> None:
    @dlvm.function
    def made(x: Any) -> Any:
        return dlvm.vjp(lambda a: a * a, x)[1], dlvm.linearize(lambda a: a * a, x)[1]

    @dlvm.function
    def used(pull: Any, push: Any, d: Any) -> Any:
        return pull(d)[0] + push(d)

    for scale in (1.0, 3.0):
        pull, push = made(scale * X)
        np.testing.assert_allclose(used(pull, push, X), 4 * scale * X * X)
        np.testing.assert_allclose(pull(X)[0], push(X))
    assert len(used.explain().compiles) == 1
    _, pull = dlvm.vjp(lambda a: a * a, X)

    def body(c: Any, _: Any) -> Any:
        return (dlvm.tree.map(double, c[0]), c[1] + c[0](X)[0]), None

    (twice, total), _ = dlvm.scan(body, (pull, np.zeros(3)), None, length=2)
    np.testing.assert_allclose(total, 3 * 2 * X * X)
    np.testing.assert_allclose(twice(X)[0], 4 * 2 * X * X)
