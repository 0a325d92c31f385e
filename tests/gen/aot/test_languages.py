"""The examples in C, C++, Python and JavaScript print the numbers that are stored here."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dlvm.gen.aot.linking import OWN, linkers
from dlvm.targets import named

EXAMPLES = Path(__file__).parents[3] / "examples" / "ahead"
STORED = "0.020682 0.086318 0.003203 0.011317 0.172873 0.064528 0.040721 0.537113 0.054425 0.008821"
STRICT = ("-Wall", "-Wextra", "-Werror", "-pedantic")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The files that the example writes."""
    spec = importlib.util.spec_from_file_location("make", EXAMPLES / "make.py")
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    out = tmp_path_factory.mktemp("ahead")
    made.main(out, shared=any(map(shutil.which, linkers(named("host")))))
    return out


def printed(command, folder):
    done = subprocess.run(
        list(map(str, command)), cwd=folder, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def tool(*names):
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None:
        pytest.skip(f"none of {', '.join(names)} is on PATH: the example was not run")
    return found


def test_python_says_what_is_stored(folder, capsys):
    assert near(printed([sys.executable, EXAMPLES / "make.py", folder / "again"], folder))


def near(said):
    """Whether the numbers are those that are stored, but for the last digit."""
    found, stored = (list(map(float, t.split())) for t in (said, STORED))
    return len(found) == 10 and all(abs(a - b) < 2e-6 for a, b in zip(found, stored, strict=True))


def test_c(folder):
    built = [tool(*OWN), "-std=c11", *STRICT, "-I.", EXAMPLES / "main.c", "classify.o", "-o", "c"]
    printed(built, folder)
    assert near(printed(["./c"], folder))
    library = [*built[:-3], "classify.a", "-o", "with_library"]
    printed(library, folder)
    assert near(printed(["./with_library"], folder))


def test_cpp(folder):
    source = EXAMPLES / "main.cpp"
    compiler = tool("c++", "g++", "clang++")
    printed([compiler, "-std=c++20", *STRICT, "-I.", source, "classify.o", "-o", "cpp"], folder)
    assert near(printed(["./cpp"], folder))


def test_python_without_dlvm(folder):
    if not (folder / "classify.so").exists():
        pytest.skip("no linker is on PATH: there is no shared library")
    assert near(printed([sys.executable, "-I", "-S", EXAMPLES / "call.py", "."], folder))


def test_javascript(folder):
    assert near(printed([tool("node"), EXAMPLES / "call.mjs", "."], folder))


def test_sanitizers_find_nothing(folder):
    flags = ["-fsanitize=address,undefined", "-fno-sanitize-recover", "-g"]
    built = [tool(*OWN), *flags, "-I.", EXAMPLES / "main.c", "classify.o", "-o", "checked"]
    printed(built, folder)
    assert near(printed(["./checked"], folder))
