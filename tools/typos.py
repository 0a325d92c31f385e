"""Compare the mistakes that pyright finds with those that are marked in ``tests/typed``.

python -m tools.typos

A line that ends with ``# typo`` must be found, and no other line may be. Without pyright this fails
and says how to install it.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
TYPED = ROOT / "tests" / "typed"
MARK = "# typo"
Lines = set[tuple[str, int]]


def marked(folder: Path) -> Lines:
    """The lines that hold a mistake on purpose."""
    return {
        (file.name, number)
        for file in folder.glob("*.py")
        for number, line in enumerate(file.read_text("utf8").splitlines(), 1)
        if line.endswith(MARK)
    }


def found(folder: Path) -> dict[tuple[str, int], str]:
    """The lines in which pyright finds a mistake, as users run it, and its words."""
    with tempfile.TemporaryDirectory() as place:
        shutil.copytree(folder, place, dirs_exist_ok=True)
        return {
            (Path(each["file"]).name, each["range"]["start"]["line"] + 1): each["message"]
            for each in diagnostics(Path(place), {"typeCheckingMode": "standard"})
        }


def diagnostics(folder: Path, settings: dict[str, Any]) -> list[dict[str, Any]]:
    """The errors that pyright finds in the files of a folder, which may be written to."""
    told = {**settings, "extraPaths": [str(ROOT)]}
    (folder / "pyrightconfig.json").write_text(json.dumps(told), "utf8")
    command = [sys.executable, "-m", "pyright", "--outputjson", "-p", str(folder)]
    command += ["--pythonpath", sys.executable]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not done.stdout.startswith("{"):
        raise SystemExit(
            f"expected pyright's findings, found {done.stderr.strip()!r}: pip install pyright"
        )
    found = json.loads(done.stdout)["generalDiagnostics"]
    return [each for each in found if each["severity"] == "error"]


def main() -> int:
    """Print what is not found and what is found by mistake."""
    wanted, told = marked(TYPED), found(TYPED)
    for name, line in sorted(wanted - set(told)):
        print(f"tests/typed/{name}:{line}: pyright does not find this mistake")
    for name, line in sorted(set(told) - wanted):
        print(f"tests/typed/{name}:{line}: {told[name, line]}")
    print(f"{len(wanted & set(told))} of {len(wanted)} mistakes found")
    return int(wanted != set(told))


if __name__ == "__main__":
    sys.exit(main())
