"""The examples in C, C++, Python and JavaScript print the numbers that are stored here."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import dlvm
from dlvm.gen.aot.linking import OWN, linkers
from dlvm.targets import named
from tests.test_docs import run_page

from .browser import LOOKS, after
from .test_everywhere import host_runs

EXAMPLES = Path(__file__).parents[3] / "examples" / "ahead"
STORED = "0.020682 0.086318 0.003203 0.011317 0.172873 0.064528 0.040721 0.537113 0.054425 0.008821"
STRICT = ("-Wall", "-Wextra", "-Werror", "-pedantic")


def example(name):
    """A script of the folder, imported."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The files that the example writes."""
    made = example("make")
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


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    """A network that was trained here, as files, and the digits that Python sees."""
    pytest.importorskip("sklearn")
    out = tmp_path_factory.mktemp("digits")
    return out, example("digits").main(out)


def test_digits_trained_in_python_are_recognised_in_c(digits):
    folder, seen = digits
    compiler = tool(*OWN)
    printed([compiler, *STRICT, "-I.", EXAMPLES / "digits.c", "digits.o", "-o", "digits"], folder)
    assert list(map(int, printed(["./digits"], folder).split())) == seen


DRAWN = """
const look = async (known) => {
  while (text('.bar b').join() === known) await soon();
  return [text('.best span'), text('.bar b').map(Number), text('.bar b').join()];
};
const first = await look('');
point('#argument-x canvas', 'pointerdown', .5, .1);
point('#argument-x canvas', 'pointermove', .5, .9);
const [best, shares] = await look(first[2]);
return [first[0], best, shares, $('#status').textContent];
"""


def assert_recognised(found, seen, way):
    first, after_a_stroke, shares, status = found
    assert first == [str(seen[0])]
    assert len(after_a_stroke) == 1 and abs(sum(shares) - 1) < 0.01
    assert re.fullmatch(rf"digits: \d+\.\d\d ms a call by {way}", status)


def test_digits_are_recognised_in_a_page_by_webgpu(digits, webgpu_browser):
    folder, seen = digits
    page = (folder / "web" / "digits.html").as_uri()
    assert_recognised(webgpu_browser.after(page, LOOKS + DRAWN), seen, "WebGPU")


def test_digits_are_recognised_in_a_page_without_a_device(digits, tmp_path):
    folder, seen = digits
    page = (folder / "web" / "digits.html").read_text("utf8")
    way = r"WebAssembly \(there is no device of WebGPU\)"
    assert_recognised(after(page, DRAWN, tmp_path), seen, way)


def test_valgrind_finds_nothing(tmp_path):
    if not host_runs("x86-64-v3"):
        pytest.skip("this processor has no AVX2")
    compiler, checker = tool(*OWN), tool("valgrind")
    made = example("make")
    dlvm.aot(made.classify, dlvm.spec("f32[1,64]"), target="x86-64-v3", out=tmp_path)
    printed([compiler, "-g", "-I.", EXAMPLES / "main.c", "classify.o", "-o", "c"], tmp_path)
    assert near(printed([checker, "-q", "--error-exitcode=9", "./c"], tmp_path))


def test_the_c_program_of_the_page_runs_with_what_the_page_writes(tmp_path, capsys, monkeypatch):
    if not host_runs("x86-64-v3"):
        pytest.skip("this processor does not run the target of the page")
    page = Path(__file__).parents[3] / "docs" / "ahead-of-time.md"
    monkeypatch.chdir(tmp_path)
    run_page(page, tmp_path, capsys)
    (source,) = re.findall(r"(?s)```c\n(.*?)```", page.read_text("utf8"))
    build = tmp_path / "build"
    (build / "main.c").write_text(source)
    printed([tool(*OWN), *STRICT, "main.c", "classify.o", "-lm", "-o", "main"], build)
    assert printed(["./main"], build) == "0.100000"
