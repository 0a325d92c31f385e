"""Type-check the Python of the documentation and the examples, as their readers' tools would.

python -m tools.typed_pages

The blocks of each page are one file, whose lines are those of the page. Pyright checks all of them
in its mode ``standard``, the examples of ``STRICT`` in ``strict``, and mypy checks all of them
without settings. Whatever one of them finds is printed, and fails.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tools.typos import diagnostics

ROOT = Path(__file__).parents[1]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
NEEDS_TORCH = ROOT / "examples/onnx/make.py"
EXAMPLES = [e for e in sorted((ROOT / "examples").rglob("*.py")) if e != NEEDS_TORCH]
STRICT = ("ddpm", "gaussian_process", "kalman", "lstm", "regression")
"""Examples whose every function says what it takes and gives."""
LEFT = {"docs/optim.md": 1}
"""Findings that are known, by file: pyright sees a circle in ``moved``, where there is none. The
numbers may only shrink."""
FOUND = re.compile(r"([^:]+):(\d+): error: (.*)")


def blocks(text: str) -> str:
    """The lines of a page that are Python, each in its place; all others are empty."""
    out: list[str] = []
    inside = False
    for line in text.split("\n"):
        inside = line == "```python" or (inside and not line.startswith("```"))
        out.append(line if inside and line != "```python" else "")
    return "\n".join(out)


def write(folder: Path) -> dict[str, Path]:
    """Write what is checked into a folder; the name of each file with where it comes from."""
    written: dict[str, Path] = {}
    for page in PAGES:
        code = blocks(page.read_text("utf8"))
        if code.strip():
            written[f"page_{page.stem.replace('-', '_')}.py"] = page
            (folder / f"page_{page.stem.replace('-', '_')}.py").write_text(code, "utf8")
    for example in EXAMPLES:
        name = "_".join(example.relative_to(ROOT / "examples").parts)
        written[name] = example
        shutil.copy(example, folder / name)
    return written


def by_pyright(folder: Path) -> Iterator[tuple[str, int, str]]:
    """What pyright finds: file, line, words."""
    strict = [f"{name}.py" for name in STRICT]
    for each in diagnostics(folder, {"typeCheckingMode": "standard", "strict": strict}):
        yield Path(each["file"]).name, each["range"]["start"]["line"] + 1, each["message"]


def by_mypy(folder: Path, names: list[str]) -> Iterator[tuple[str, int, str]]:
    """What mypy finds: file, line, words. Packages without types are taken as they are."""
    settings = folder / "mypy.ini"
    settings.write_text(
        "[mypy]\nfollow_imports = silent\nignore_missing_imports = true\n"
        f"mypy_path = {ROOT}\npython_version = 3.11\n",
        "utf8",
    )
    command = [sys.executable, "-m", "mypy", "--config-file", str(settings), *names]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    if done.returncode > 1:
        raise SystemExit(f"expected mypy's findings, found {done.stderr or done.stdout!r}")
    for line in done.stdout.splitlines():
        if found := FOUND.match(line):
            yield found[1], int(found[2]), found[3]


def main() -> int:
    """Print what is found in files with more, or fewer, findings than are known; 1 if any is."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        written = write(folder)
        told = [("pyright", *f) for f in by_pyright(folder)]
        told += [("mypy", *f) for f in by_mypy(folder, sorted(written))]
    places = {name: str(path.relative_to(ROOT)) for name, path in written.items()}
    counts = Counter(places.get(name, name) for _, name, _, _ in told)
    wrong = {f for f in {*counts, *LEFT} if counts[f] != LEFT.get(f, 0)}
    for tool, name, line, words in sorted(told, key=lambda f: f[1:3]):
        if (where := places.get(name, name)) in wrong:
            print(f"{where}:{line}: {tool}: {words.splitlines()[0]}")
    for file in sorted(f for f in wrong if counts[f] < LEFT.get(f, 0)):
        print(f"{file}: {counts[file]} are left: lower its number in LEFT")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
