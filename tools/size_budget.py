"""Hold every Python file to the size that can still be read, and print how large the folders are.

python tools/size_budget.py

A file over 500 lines is warned of, and one over 600 lines fails. For each top-level folder the
lines of code are printed: lines that hold a token, without docstrings, comments and blank lines.
"""

from __future__ import annotations

import ast
import io
import subprocess
import sys
import tokenize
from pathlib import Path

WARN = 500
LIMIT = 600
FOLDERS = ("dlvm", "dsl", "ad", "opt", "gen")
SILENT = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE),
    *(tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER),
}


def files(root: Path) -> list[Path]:
    """Every Python file of the repository that exists, new ones included."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.py"],
        cwd=root,
        check=True,
        capture_output=True,
        text=True,
    )
    return [root / name for name in listed.stdout.splitlines() if (root / name).is_file()]


def longer_than(limit: int, root: Path) -> list[tuple[int, str]]:
    """The files of more lines than that, longest first."""
    sizes = [(len(f.read_text("utf8").splitlines()), str(f.relative_to(root))) for f in files(root)]
    return sorted((s for s in sizes if s[0] > limit), reverse=True)


def code_lines(text: str) -> int:
    """The number of lines of a file that hold code: no docstring, comment or blank line."""
    held: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in SILENT:
            held.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Expr(value=ast.Constant(value=str())):
                held.difference_update(range(node.lineno, (node.end_lineno or 0) + 1))
            case _:
                pass
    return len(held)


def folder_sizes(root: Path) -> dict[str, int]:
    """The lines of code of each top-level folder of the package."""
    sizes = dict.fromkeys(FOLDERS, 0)
    for file in files(root):
        top = file.relative_to(root).parts[0]
        if top in sizes:
            sizes[top] += code_lines(file.read_text("utf8"))
    return sizes


def main() -> int:
    """Print the sizes and the files that are long; the exit status says whether one is too long."""
    root = Path(__file__).parents[1]
    for folder, lines in folder_sizes(root).items():
        print(f"{folder}: {lines} lines of code")
    found = longer_than(WARN, root)
    for lines, name in found:
        word, most = ("error", LIMIT) if lines > LIMIT else ("warning", WARN)
        print(f"{word}: {name} has {lines} lines, more than {most}; split it by meaning")
    return 1 if any(lines > LIMIT for lines, _ in found) else 0


if __name__ == "__main__":
    sys.exit(main())
