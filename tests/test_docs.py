"""What the pages say is so: the example runs, links lead somewhere, commands exist."""

from __future__ import annotations

import doctest
import inspect
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dlvm
from dlvm.cli import main, parser
from dlvm.gen.schedule.transform import TRANSFORMS
from dlvm.ir import rules
from tests.mpi import HAS_MPI
from tools import examples, laws, reference
from tools.typed_pages import blocks

ROOT = Path(__file__).parents[1]
DLVM = ROOT / "docs/dlvm.md"
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def python_examples(page: Path) -> list[tuple[str, str]]:
    """The blocks of Python of a page, each with what stands below it."""
    pairs: list[tuple[str, str]] = []
    for kind, text in re.findall(r"^```(python)?\n(.*?)^```", page.read_text("utf8"), re.S | re.M):
        pairs.append((text, "")) if kind else pairs.append((pairs.pop()[0], text))
    return pairs


def run_page(page: Path, folder: Path, capsys: pytest.CaptureFixture[str], **given: Any) -> Any:
    """Run the blocks of a page as one file, compare what each prints; what they define."""
    file, examples = folder / "model.py", python_examples(page)
    file.write_text("".join(code for code, _ in examples))
    space: dict[str, Any] = {"__name__": "model", **given}
    line, checker = 0, doctest.OutputChecker()
    with np.printoptions():
        for code, shown in examples:
            exec(compile("\n" * line + code, str(file), "exec", dont_inherit=True), space)
            line += code.count("\n")
            found = capsys.readouterr().out
            assert checker.check_output(shown, found, FLAGS), f"{code}\n{found}"
    return space


@pytest.fixture(autouse=True)
def signals_as_before() -> Iterator[None]:
    """SIGTERM ends the tests, also after a page has asked whether it came."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def test_the_example_of_the_readme_runs_as_it_stands(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    run_page(ROOT / "README.md", tmp_path, capsys)


def test_type_checkers_see_the_python_of_a_page_on_its_own_lines():
    assert blocks("# t\n```python\nx = 1\n```\n```\n1\n```\n```python\ny = 2\n```") == (
        "\n\nx = 1\n\n\n\n\n\ny = 2\n"
    )


def test_the_readme_fits_on_one_screen():
    assert len((ROOT / "README.md").read_text("utf8").splitlines()) <= 80


PAGES_THAT_RUN = {
    "ahead-of-time": 1,
    "gpu": 1,
    "printed-kernels": 1,
    "guide": 3,
    "testing": 3,
    "language": 3,
    "numerics": 1,
    "nn": 5,
    "optim": 4,
    "data": 5,
    "layers": 4,
    "linear-algebra": 4,
    "looking-inside": 2,
    "notebooks": 2,
    "porting": 1,
    "schedules": 12,
    "slow": 5,
    "stablehlo": 1,
    "sympy": 4,
    "tutorial": 11,
}
"""Pages whose blocks are run, with the least number of blocks."""
RUN_ELSEWHERE = {
    *("cli", "deploy", "extending", "first-hour", "launch", "onnx", "reference", "trust"),
}
"""Pages whose blocks tests of their own run."""


def test_every_page_with_a_block_of_python_is_run():
    with_python = {p.stem for p in ROOT.glob("docs/**/*.md") if "```python" in p.read_text("utf8")}
    assert with_python == {*PAGES_THAT_RUN} | RUN_ELSEWHERE


@pytest.mark.parametrize("page", PAGES_THAT_RUN)
def test_the_blocks_of_a_page_run_and_print_what_it_shows(
    page: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)  # some pages write files
    path = ROOT / "docs" / f"{page}.md"
    assert len(python_examples(path)) >= PAGES_THAT_RUN[page]
    run_page(path, tmp_path, capsys)


def test_the_page_on_extending_runs_in_a_process_of_its_own(tmp_path: Path):
    """Its operations and passes stay out of the registries that other tests walk."""
    examples = python_examples(ROOT / "docs" / "extending.md")
    assert len(examples) >= 4
    file, line = tmp_path / "model.py", "=" * 8
    file.write_text("".join(f"{code}print({line!r})\n" for code, _ in examples))
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, file], capture_output=True, text=True, env=env)
    assert not done.returncode, done.stderr
    found, checker = done.stdout.split(f"{line}\n"), doctest.OutputChecker()
    for (code, shown), printed_there in zip(examples, found, strict=False):
        assert checker.check_output(shown, printed_there, FLAGS), f"{code}\n{printed_there}"


OUTPUT = re.compile(r"(```pycon\n)(.*?)(```)", re.S)
SESSION = re.compile(r"^(?:>>>|\.\.\. ).*\n", re.M)


def test_the_reference_is_what_its_tool_writes():
    written = reference.pages(lambda name, of: "")
    assert {*written} == {reference.DOCS / "reference.md", *reference.DOCS.glob("reference/*.md")}
    for path, text in written.items():
        typed = OUTPUT.sub(
            lambda m: m[1] + "".join(SESSION.findall(m[2])) + m[3], path.read_text("utf8")
        )
        assert typed == text, "make reference"


@pytest.mark.drawn(3)
@pytest.mark.parametrize("part", range(24))
def test_examples_of_the_reference_give_what_it_shows(part: int):
    text = "".join(p.read_text("utf8") for p in reference.DOCS.glob("reference/*.md"))
    shown = [(n, x) for n, x in reference.names().items() if examples.session(n, x)]
    for name, of in shown[part::24]:
        if name not in examples.NEEDS:
            assert reference.entry(name, of, examples.result) in text, "make reference"


@pytest.mark.parametrize("name", examples.NEEDS)
def test_an_example_that_needs_another_package_gives_what_the_reference_shows(name: str):
    pytest.importorskip(examples.NEEDS[name])
    text = "".join(p.read_text("utf8") for p in reference.DOCS.glob("reference/*.md"))
    assert reference.entry(name, reference.names()[name], examples.result) in text


def test_names_without_an_example_are_errors_or_are_listed():
    names = reference.names()
    bare = {n for n, x in names.items() if not examples.session(n, x)}
    assert bare == examples.WITHOUT | {n for n, x in names.items() if examples.is_error(x)}
    assert {*examples.TABLE} <= {*names}


def test_the_page_on_schedules_lists_every_step_with_its_numbers():
    text = (ROOT / "docs/schedules.md").read_text("utf8")
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    listed = {word for row in rows for word in re.findall(r"`(\w+) %", row.split("|")[1])}
    assert listed == {*TRANSFORMS}


def test_the_page_on_numerics_lists_every_law_that_is_not_exact():
    text = laws.PAGE.read_text("utf8")
    assert text == laws.written(text), "make reference"
    assert text.count("\n| `") == sum(rule.law_class != "exact" for rule in rules())


def test_the_reference_explains_every_public_name():
    text = "".join(p.read_text("utf8") for p in reference.DOCS.glob("reference/*.md"))
    modules = ("linalg", "nn", "onnx", "ops", "optim", "random", "testing", "tree")
    named = set(re.findall(r"`dlvm\.(\w+)", text))
    assert {n for n in dir(dlvm) if n not in modules} - named == set()
    assert [line for line in text.splitlines() if line.startswith("- ") and line[-2:] == ": "] == []


def test_help_tells_of_every_option_of_a_staged_function():
    doc, options = dlvm.function.__doc__ or "", inspect.signature(dlvm.function).parameters
    assert [n for n in options if n != "fn" and f"``{n}" not in doc] == []


def test_every_command_of_the_pages_is_a_target_of_the_makefile():
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.M))
    named = {c for p in PAGES for c in re.findall(r"(?:`|    )make (\w+)", p.read_text("utf8"))}
    assert named <= targets


def test_every_promise_of_dlvm_names_a_test_that_exists():
    rows = re.findall(r"^\| (\d+) \|.*\| `([\w/.]+)(?:::(\w+))?` \|$", DLVM.read_text(), re.M)
    assert [int(number) for number, _, _ in rows] == list(range(1, 34))
    for _, path, name in rows:
        assert (ROOT / path).exists(), path
        assert not name or f"def {name}(" in (ROOT / path).read_text(), (path, name)


def console_examples(page: Path) -> list[tuple[str, str]]:
    """The commands of a page, each with what it prints."""
    blocks = re.findall(r"```console\n(.*?)```", page.read_text("utf8"), re.S)
    return [tuple(c.split("\n", 1)) for b in blocks for c in re.split(r"^\$ ", b, flags=re.M)[1:]]


def printed(command: str, capsys: pytest.CaptureFixture[str]) -> str:
    """What a command prints, run here, or by a shell where there is a pipe."""
    if "|" not in command:
        main(shlex.split(command)[1:])
        out, err = capsys.readouterr()
        return out + err
    shell = re.sub(r"\bdlvm ", f"{shlex.quote(sys.executable)} -m dlvm ", command)
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(shell, shell=True, capture_output=True, text=True, env=env, check=True)
    return done.stdout


def test_the_commands_of_the_page_on_the_command_line_print_what_it_shows(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    page = ROOT / "docs" / "cli.md"
    (code,) = re.findall(r"```python\n(.*?)```", page.read_text("utf8"), re.S)
    (tmp_path / "model.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DLVM_CACHE_DIR", str(tmp_path / "cache"))  # the page tunes a kernel
    checker = doctest.OutputChecker()
    examples = console_examples(page)
    assert len(examples) > 8
    for command, shown in examples:
        if command.startswith("dlvm launch ") and not HAS_MPI:
            continue
        found = printed(command, capsys)
        assert checker.check_output(shown, found, FLAGS), f"{command}\n{found}"


SHARED = {"--json", "--seed", "--size", "--seconds", "--schedule", "--help"}
"""Options that many commands have, each of which the page shows once at least."""
UNSHOWN = {
    *(("aot", "--shared"), ("aot", "--state")),
    *(("launch", "--ray"), ("launch", "--address")),
}
"""Options of which the page tells in words: they need a linker, a function of another form, Ray."""


def test_the_page_on_the_command_line_shows_every_option():
    commands = [c for c, _ in console_examples(ROOT / "docs" / "cli.md")]
    kinds: Any = parser()._subparsers
    missing: list[tuple[str, str]] = []
    for name, command in kinds._group_actions[0].choices.items():
        lines = [c for c in commands if re.search(rf"\bdlvm {name}\b", c)]
        for action in command._actions:
            option = next(iter(action.option_strings[-1:]), "")
            shown = commands if option in SHARED else lines
            option = option.replace("--no-", "--")
            if option and option != "--help" and not any(f"{option}" in line for line in shown):
                missing.append((name, option))
    assert set(missing) == UNSHOWN


def test_the_page_on_trust_prints_what_it_shows(tmp_path: Path):
    page = ROOT / "docs" / "trust.md"
    (code,) = re.findall(r"```python\n(.*?)```", page.read_text("utf8"), re.S)
    (tmp_path / "wrong.py").write_text(code)
    env = {**os.environ, "PYTHONPATH": str(ROOT), "DLVM_REPRO": str(tmp_path / "failures")}
    checker = doctest.OutputChecker()
    examples = console_examples(page)
    assert len(examples) == 5
    for command, shown in examples:
        shell = re.sub(r"\bdlvm (?=[a-z])", f"{shlex.quote(sys.executable)} -m dlvm ", command)
        done = subprocess.run(
            shell, shell=True, capture_output=True, text=True, env=env, cwd=tmp_path, check=False
        )
        found = done.stdout + done.stderr
        assert checker.check_output(shown, found, FLAGS), f"{command}\n{found}"
