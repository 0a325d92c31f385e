"""The pytest plugin: a private cache, both ways to run staged code, gradients as tests.

- ``dlvm_private_cache``: for the whole session, compiled code is kept in a folder of its own;
- ``dlvm_interpret``: the test runs staged code by the references, without compiling;
- ``dlvm_ways``: the test runs twice, compiled and by the references;
- ``@pytest.mark.gradcheck(order=2, ...)``: the test returns a function and arguments, whose
  derivatives are checked (``return f, x, y``);
- ``@pytest.mark.dlvm_debug(nans=True)``: the test runs under ``dlvm.debug``.

Nothing happens to a test that asks for none of these.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

INTERPRETED = "interpreted"
MARKERS = (
    "gradcheck(order=2, wrt=None, ...): the test returns (f, *args); their derivatives are checked",
    "dlvm_debug(nans=False, infs=False, bounds=False): run the test under dlvm.debug",
)


def pytest_configure(config: pytest.Config) -> None:
    """Registers the markers."""
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)


@pytest.fixture(scope="session")
def dlvm_private_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder for the code that is compiled in this session, and nothing older."""
    folder = tmp_path_factory.mktemp("dlvm_cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DLVM_CACHE_DIR", str(folder))
        yield folder


@pytest.fixture
def dlvm_interpret(monkeypatch: pytest.MonkeyPatch) -> None:
    """Staged code runs by the references."""
    monkeypatch.setenv("DLVM_INTERPRET", "1")


@pytest.fixture(params=["compiled", INTERPRETED])
def dlvm_ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Runs the test twice, compiled and by the references; gives the name of the way."""
    monkeypatch.setenv("DLVM_INTERPRET", str(int(request.param == INTERPRETED)))
    return request.param


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Runs a marked test under ``dlvm.debug``."""
    marker = item.get_closest_marker("dlvm_debug")
    if marker is None:
        return (yield)
    from dlvm.base.debugging import debug

    with debug(**marker.kwargs):
        return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Checks the derivatives of the function that a marked test returns."""
    marker = pyfuncitem.get_closest_marker("gradcheck")
    if marker is None:
        return None
    from dlvm.testing import gradcheck

    info: Any = getattr(pyfuncitem, "_fixtureinfo")  # noqa: B009  # what pytest's own caller reads
    found: Any = pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in info.argnames})
    if not isinstance(found, tuple):
        said = f"a test marked gradcheck returns (f, *args), found {found!r:.60}"
        pytest.fail(said, pytrace=False)
    call: tuple[Any, ...] = found  # pyright: ignore[reportUnknownVariableType]
    gradcheck(*call, **marker.kwargs)
    return True
