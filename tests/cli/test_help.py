"""The help of every subcommand ends with an example that runs, and shells complete it."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dlvm.cli import main, parser
from dlvm.cli.describing import EXAMPLE
from tests.mpi import HAS_MPI

SCRIPT = "import dlvm\n\n\ndef f(x):\n    return dlvm.tanh(x).sum()\n"
IR = "dlvm 1\nfunc @f(%x: f32[3]) -> f32[3] {\n  %0 = exp %x : f32[3]\n  return %0\n}\n"
KINDS: Any = parser()._subparsers
COMMANDS: dict[str, Any] = KINDS._group_actions[0].choices
NOTHING_FAILS = {"reduce": 1}
"""Exit codes of the examples that are not 0: there is nothing to reduce."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "model.py").write_text(SCRIPT)
    (tmp_path / "failure.dlvm").write_text(IR)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DLVM_CACHE_DIR", str(tmp_path / "cache"))
    yield tmp_path
    sys.modules.pop("model", None)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_subcommand_ends_with_an_example_that_runs(
    name: str, folder: Path, capsys: pytest.CaptureFixture[str]
):
    assert main([name, "--help"]) == 0
    *_, last = capsys.readouterr().out.splitlines()
    assert last.startswith(f"{EXAMPLE} dlvm {name} ") and len(last) <= 80
    if name == "launch" and not HAS_MPI:
        pytest.skip("no MPI here: pip install mpich")
    code = main(shlex.split(last.removeprefix(EXAMPLE))[1:])
    out, err = capsys.readouterr()
    assert code == NOTHING_FAILS.get(name, 0), out + err
    assert out or err or [*folder.glob("*.html")]


def test_the_same_arguments_go_to_run_show_and_aot(
    folder: Path, capsys: pytest.CaptureFixture[str]
):
    """With the size fixed, the program that is shown or written has no open size."""
    given = ["model.py:f", "f32[B,3]", "--size", "B=8"]
    for name in ("run", "show", "opt", "diff", "aot", "check"):
        assert main([name, *given, *["--out", "built"] * (name == "aot")]) == 0
    capsys.readouterr()
    assert main(["show", *given]) == 0
    assert "%x: f32[8,3]" in capsys.readouterr().out
    (folder / "f.dlvm").write_text(IR.replace("f32[3]", "f32[B]"))
    assert main(["show", "f.dlvm", "--size", "B=8"]) == 0
    assert "%0 = exp %x : f32[8]" in capsys.readouterr().out
    for program in (given[:2], ["f.dlvm"]):
        assert main(["show", *program, "--size", "N=8"]) == 1
        assert "no argument has an open size N" in capsys.readouterr().err
    assert main(["show", "model.py:f", "f32[3]", "--size", "N=8"]) == 1
    assert "help: leave --size out" in capsys.readouterr().err


def script(shell: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["completions", shell]) == 0
    return capsys.readouterr().out


def ran(command: list[str]) -> str:
    env = {**os.environ, "HOME": "/nonexistent"}
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=True)
    assert not done.stderr
    return done.stdout


TYPED = {
    "sho": {"show"},
    "show model.py:f --st": {"--stage"},
    "show model.py:f --stage ke": {"kernels"},
    "aot --weights ": {"bin", "c"},
    "cache cl": {"clear"},
    "rules --check --r": {"--rounds"},
}
"""What is typed after the name of the command, and what the shell offers."""


@pytest.mark.skipif(not shutil.which("bash"), reason="needs bash")
def test_bash_completes_commands_options_and_values(capsys: pytest.CaptureFixture[str]):
    text = script("bash", capsys)
    for typed, offered in TYPED.items():
        words = " ".join(map(shlex.quote, ["dlvm", *typed.split(" ")]))
        ask = f"COMP_WORDS=({words}); COMP_CWORD={len(typed.split(' '))}; _dlvm dlvm"
        assert {*ran(["bash", "-c", f"{text}{ask}; echo ${{COMPREPLY[@]}}"]).split()} == offered


@pytest.mark.skipif(not shutil.which("fish"), reason="needs fish")
def test_fish_completes_commands_options_and_values(capsys: pytest.CaptureFixture[str]):
    text = script("fish", capsys)
    for typed, offered in TYPED.items():
        said = ran(["fish", "--no-config", "-c", f'{text}complete -C "dlvm {typed}"'])
        assert offered <= {line.partition("\t")[0] for line in said.splitlines()}, said


@pytest.mark.skipif(not shutil.which("zsh"), reason="needs zsh")
def test_zsh_completes_commands_options_and_values(capsys: pytest.CaptureFixture[str]):
    heard = "compdef() { :; }; _files() { :; }; compadd() { shift; print -l -- $@; }\n"
    text = script("zsh", capsys)
    for typed, offered in TYPED.items():
        words = " ".join(map(shlex.quote, ["dlvm", *typed.split(" ")]))
        ask = f"words=({words}); CURRENT={len(typed.split(' ')) + 1}; _dlvm\n"
        said = ran(["zsh", "-f", "-c", f"{heard}{text}{ask}"]).splitlines()
        assert offered <= {w for w in said if w.startswith(typed.split(" ")[-1])}
