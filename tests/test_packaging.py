"""The package as users get it: complete, alone at the top of site-packages, light to import."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import dlvm

ROOT = Path(__file__).parents[1]
LINKED = ("ad", "dsl", "gen", "opt")
HEAVY = ("sympy", "hypothesis", "llvmlite", "networkx", "sklearn", "pycuda")


def declared() -> set[str]:
    return set(
        tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    )


def folders() -> set[str]:
    """Every folder under dlvm that is a package, symbolic links followed."""
    found = (
        Path(top)
        for top, _, files in os.walk(ROOT / "dlvm", followlinks=True)
        if "__init__.py" in files
    )
    return {".".join(folder.relative_to(ROOT).parts) for folder in found}


def modules() -> set[str]:
    """Every module of the language, as a path inside the wheel."""
    found = (
        Path(top) / f for top, _, files in os.walk(ROOT / "dlvm", followlinks=True) for f in files
    )
    return {str(f.relative_to(ROOT)) for f in found if f.suffix == ".py"}


def python(*arguments: str, cwd: Path, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel from a clean export: stale build folders would hide what is missing."""
    clean, out = tmp_path_factory.mktemp("export") / "dlvm", tmp_path_factory.mktemp("wheel")
    unwanted = shutil.ignore_patterns(".*", "build", "dist", "*.egg-info", "__pycache__", "out")
    shutil.copytree(ROOT, clean, symlinks=True, ignore=unwanted)
    flags = ("--no-build-isolation", "--no-deps", "--no-index", "--quiet")
    python("-m", "pip", "wheel", *flags, "-w", str(out), str(clean), cwd=out)
    (found,) = out.glob("*.whl")
    return found


def test_every_folder_is_declared_as_a_package():
    assert declared() == folders()


def test_the_workflow_runs_every_python_that_is_declared():
    known = re.findall(r"Python :: (3\.\d+)", (ROOT / "pyproject.toml").read_text("utf8"))
    workflow = (ROOT / ".github/workflows/test.yml").read_text("utf8")
    (row,) = re.findall(r"^ +python: \[(.*)\]$", workflow, re.M)
    assert row == ", ".join(f'"{version}"' for version in known)


def test_the_linked_folders_are_relative_links():
    assert {name: os.readlink(ROOT / "dlvm" / name) for name in LINKED} == {
        name: f"../{name}" for name in LINKED
    }


def test_the_wheel_holds_every_module_and_nothing_else_at_the_top(wheel: Path):
    names = zipfile.ZipFile(wheel).namelist()
    assert {n.partition("/")[0] for n in names} == {
        "dlvm",
        f"dlvm_compiler-{dlvm.__version__}.dist-info",
    }
    assert {n for n in names if n.endswith(".py")} == modules()
    assert "dlvm/py.typed" in names
    assert {n for n in names if n.endswith(".pyi")} == {
        str(path.relative_to(ROOT)) for path in ROOT.glob("dlvm/**/*.pyi")
    }
    packaged = {f"dlvm/gen/aot/{name}" for name in ("loader.js", "page.js", "page.html")}
    assert packaged <= set(names)


def test_the_wheel_works_outside_the_tree(wheel: Path, tmp_path: Path):
    site = tmp_path / "site"
    python(
        "-m",
        "pip",
        "install",
        "--no-deps",
        "--no-index",
        "-q",
        "--target",
        str(site),
        str(wheel),
        cwd=tmp_path,
    )
    code = (
        "import dlvm, dlvm.ad, dlvm.dsl, dlvm.gen, dlvm.opt\n"
        "m = dlvm.parse('dlvm 1\\nfunc @f(%x: f32[2]) -> f32[2] {\\n  %0 = add %x, %x : f32[2]\\n"
        "  return %0\\n}\\n')\n"
        "import numpy as np\n"
        "print(dlvm.__file__, dlvm.gen.__file__, m.run('f', np.ones(2, np.float32))[0].tolist())"
    )
    package, gen, *result = python("-c", code, cwd=tmp_path, PYTHONPATH=str(site)).split()
    assert Path(package) == site / "dlvm" / "__init__.py"
    assert Path(gen).is_relative_to(site)
    assert "".join(result) == "[2.0,2.0]"


def test_importing_dlvm_brings_in_nothing_heavy(tmp_path: Path):
    code = f"import sys, dlvm; print(*(m for m in {HEAVY} if m in sys.modules))"
    assert python("-c", code, cwd=tmp_path, PYTHONPATH=str(ROOT)).split() == []
