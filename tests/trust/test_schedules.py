"""A schedule that changes what a program gives is found, and the step that does it is named."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest

import dlvm
from dlvm.base.errors import CompilerError
from dlvm.gen.loops.statements import Body, Loop
from dlvm.gen.schedule.transform import TRANSFORMS, Transform, register

X = np.arange(1.0, 13.0).reshape(3, 4)


@dataclass(frozen=True, slots=True)
class Shorter(Transform):
    """Leaves out the last trips of a loop."""

    word: ClassVar[str] = "shorter"
    by: int = 1

    def rewritten(self, loop: Loop) -> Body:
        return (replace(loop, extent=loop.extent - self.by),)


@pytest.fixture(autouse=True)
def verified(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("DLVM_VERIFY", "passes")
    register(Shorter)
    yield
    del TRANSFORMS["shorter"]


STAGED = dlvm.function(lambda x: (dlvm.exp(x) * 2, dlvm.sum(x, 0)))


def given(step: str) -> tuple[str, str]:
    """A schedule with one step, of the outermost loop of the first kernel, and that loop."""
    made = STAGED.compile(X)
    loop = re.findall(r"%i\d+", made.text("nests"))[0]
    head, kernel, _ = re.split(r"(kernel @k0\n)", made.text("schedule"), maxsplit=1)
    return f"{head}{kernel}  {step.format(loop)}\n", loop


def test_a_step_that_leaves_something_out_is_named():
    schedule, loop = given("shorter {}")
    with pytest.raises(CompilerError, match=f"step 'shorter {loop}' of @k0 changes a") as told:
        STAGED.compile(X, schedule=schedule)
    assert told.value.stage == "schedule" and told.value.author == __name__
    assert "mend the transform in" in str(told.value)


def test_steps_that_change_nothing_pass():
    for schedule in (given("shorter {} by=0")[0], STAGED.compile(X).text("schedule")):
        made = STAGED.compile(X, schedule=schedule)
        for found, wanted in zip(made(X), (np.exp(X) * 2, X.sum(0)), strict=True):
            np.testing.assert_allclose(found, wanted)
