"""No fault of ours reaches a user bare: it comes with a file that replays it."""

from __future__ import annotations

import re
import stat
from pathlib import Path

import numpy as np
import pytest

import dlvm
from dlvm.base.errors import CompilerError, IRError, UserError
from dlvm.cli import main
from dlvm.gen import build as build_room
from dlvm.ir import parse
from dlvm.ops import Mul, Sin, Sub
from dlvm.trust import reproducer
from dlvm.trust.failure import Failure, Law
from dlvm.trust.reproducer import Reproducer, read

X = np.array([0.5, 1.0, 1.5])


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DLVM_REPRO", str(tmp_path / "failures"))
    monkeypatch.setenv("DLVM_CACHE", "0")
    return tmp_path / "failures"


def broken(op: Sub):
    """Fails."""
    raise KeyError("gone")


broken.__module__ = "dlvm.opt"  # as if it were dlvm's own; one from outside is told at its line


def swapped(op: Sub):
    """x y - z = z - x y, which is wrong."""
    return Sub(op.y, op.x) if isinstance(op.x, Mul) and not isinstance(op.y, Mul) else None


def program():
    @dlvm.function
    def f(x):
        return x * x - x

    return f


def file_in(said: str) -> str:
    found = re.search(r"dlvm repro (\S+)$", said, re.M)
    assert found, said
    return found[1]


def test_a_law_that_fails_is_told_with_a_file_that_replays_it(planted_law, folder, capsys):
    with planted_law(Sub, broken), pytest.raises(CompilerError) as caught:
        program()(X)
    file = file_in(str(caught.value))
    assert caught.value.stage == "simplify"
    assert list(folder.iterdir()) == [Path(file)]
    with planted_law(Sub, broken):
        assert main(["repro", file]) == 3
        assert main(["repro", file, "--json"]) == 3
        assert main(["bisect", file]) == 3
    out = capsys.readouterr().out
    assert out.startswith("fails in the same way\n")
    assert '"same": true' in out
    assert re.search(r"broken, \S*trust/test_reproducer.py", out)
    with planted_law(Sub, swapped):
        assert main(["repro", file]) == 1
    assert capsys.readouterr().out.startswith("fails in another way\na wrong answer")
    assert main(["repro", file]) == 0
    assert capsys.readouterr().out == "does not fail\n"


def test_the_file_is_a_program_like_any_other(planted_law, capsys):
    with planted_law(Sub, broken), pytest.raises(CompilerError) as caught:
        program()(X)
    assert main(["show", file_in(str(caught.value))]) == 0
    assert capsys.readouterr().out == str(program().trace(X))


def refusing(error):
    def fail(*args, **kwargs):
        raise error

    return fail


@pytest.mark.parametrize("error", [KeyError("x"), CompilerError("LLVM refuses"), ValueError("y")])
def test_so_it_is_below_the_kernels(error, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(build_room, "emit", refusing(error))
        with pytest.raises(CompilerError) as caught:
            program()(X)
    assert caught.value.stage == "emit"
    kept = read(Path(file_in(str(caught.value))).read_text())
    assert kept.failure is not None and kept.failure.stage == "emit"
    assert kept.threads and kept.versions["numpy"] == np.__version__


def test_and_in_a_derivative(monkeypatch):
    monkeypatch.setattr(Sin, "adjoint", lambda self, dy: 1 / 0)
    f = dlvm.grad(lambda x: dlvm.sin(x).sum())
    with pytest.raises(CompilerError, match="ZeroDivisionError") as caught:
        dlvm.function(f)(X)
    assert caught.value.stage == "differentiate"
    assert read(Path(file_in(str(caught.value))).read_text()).module.declarations


@pytest.mark.parametrize("staged", [True, False], ids=["staged", "plain"])
@pytest.mark.parametrize("rule", ["infer", "reference"])
def test_and_while_python_runs(rule, staged, monkeypatch):
    failing = {"infer": set().pop, "reference": {}.__getitem__}  # so that no line of ours raises
    monkeypatch.setattr(Sin, rule, failing[rule])
    monkeypatch.setenv("DLVM_INTERPRET", "1")
    f = dlvm.function(lambda x: dlvm.sin(x)) if staged else dlvm.sin
    with pytest.raises(CompilerError, match="Error"):
        f(X if staged else np.ones((1, 7, 1, 3)))  # of a type that no other call was recorded for


def test_what_users_raise_stays_as_it_is():
    def f(x):
        return {}["mine"]

    with pytest.raises(KeyError, match="mine"):
        dlvm.function(f)(X)


def test_an_error_of_the_users_stays_one():
    with pytest.raises(UserError):
        dlvm.function(lambda x: x @ x[:2])(X)


def test_files_are_private_and_few(folder, monkeypatch):
    monkeypatch.setattr(reproducer, "KEPT_FILES", 3)
    module = parse("dlvm 1\nfunc @f(%x: f32) -> f32 {\n  return %x\n}\n")
    for i in range(5):
        assert reproducer.kept(module, Failure("crash", f"s{i}", "x")) is not None
    files = list(folder.iterdir())
    assert len(files) == 3
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(f.stat().st_mode) for f in files} == {0o600}


@pytest.mark.parametrize("wrong", ["0", "relative", "/dev/null/x", "/proc/nothing"])
def test_where_nothing_can_be_written_the_error_is_still_told(wrong, monkeypatch, planted_law):
    monkeypatch.setenv("DLVM_REPRO", wrong)
    with planted_law(Sub, broken), pytest.raises(CompilerError, match="KeyError") as caught:
        program()(X)
    assert caught.value.reproducer == ""


def test_a_folder_that_others_may_write_to_is_not_used(folder, monkeypatch):
    folder.mkdir()
    folder.chmod(0o777)
    module = parse("dlvm 1\nfunc @f(%x: f32) -> f32 {\n  return %x\n}\n")
    assert reproducer.kept(module, Failure("crash", "s", "x")) is None


def test_what_is_written_is_read_back():
    module = parse("dlvm 1\nfunc @f(%x: f32[2], %y: bool) -> f32[2] {\n  return %x\n}\n")
    failure = Failure("answer", "simplify", 'a "message"\nof two lines', Law("x", "y.py", 3))
    arrays = np.array([1, np.nan], np.float32), np.array(True)
    kept = Reproducer(module, failure, arrays, 3, 2, ("share", "drop"))
    back = read(str(kept))
    assert (back.failure, back.seed, back.threads, back.pipeline) == (
        failure,
        3,
        2,
        ("share", "drop"),
    )
    assert back.arrays is not None
    assert all(
        np.array_equal(a, b, equal_nan=True) for a, b in zip(back.arrays, arrays, strict=True)
    )
    assert str(back) == str(kept)


@pytest.mark.parametrize(
    "line",
    ["// failure: {", '// failure: {"kind": 3}', "// input: f32[2] = AAAA", "// threads: []"],
)
def test_a_damaged_header_is_an_error_of_the_file(line):
    module = "dlvm 1\nfunc @f(%x: f32[2]) -> f32[2] {\n  return %x\n}\n"
    with pytest.raises(IRError, match="header"):
        read(f"{reproducer.FIRST}\n{line}\n{module}")


def test_verifying_passes_finds_a_wrong_law(planted_law, monkeypatch):
    monkeypatch.setenv("DLVM_VERIFY", "passes")
    np.testing.assert_array_equal(program()(X), X * X - X)
    with planted_law(Sub, swapped), pytest.raises(CompilerError) as caught:
        program()(X)
    said = str(caught.value)
    assert said.startswith("a wrong answer: result 0")
    assert re.search(r"swapped, \S*trust/test_reproducer.py", said)
    assert "return x * x - x" in said
    assert read(Path(file_in(said)).read_text()).failure is not None


def test_verifying_passes_by_name(planted_law, monkeypatch):
    monkeypatch.setenv("DLVM_VERIFY", "passes")
    module = program().trace(X)
    assert module.optimize(["simplify"]) == module
    with planted_law(Sub, swapped), pytest.raises(CompilerError, match="stage  simplify"):
        module.optimize(["simplify"])


def test_a_level_that_there_is_none_of_is_told(monkeypatch):
    monkeypatch.setenv("DLVM_VERIFY", "everything")
    with pytest.raises(UserError, match="expected ir, passes, ranks or state"):
        program()(X)
