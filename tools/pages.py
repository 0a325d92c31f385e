"""The site of docs: which pages it has and in what order, and links that lead out of docs.

``docs/README.md`` lists the pages, in groups. ``make site`` builds the site from ``mkdocs.yml``,
whose hook this file is; it does not import mkdocs, so that tests check the pages without it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
BESIDE = {ROOT / "CONTRIBUTING.md": "contributing.md", ROOT / "CHANGELOG.md": "changelog.md"}
"""Files outside of docs that are pages of the site, under the names that they have there."""
NESTED = {"reference": "Modules", "decisions": "Decisions"}
"""What the site calls the folders of docs."""
ENTRY = re.compile(r"^## (?P<group>.+)$|^- \[[^\]]*\]\((?P<to>.+?)\)", re.M)
MARKED = re.compile(
    r"^```.*?^```$"  # a block of code
    r"|(?<!!)\[(?P<text>(?:[^\[\]`]|`[^`]*`)*)\]\((?P<to>[^)\s]+)\)"  # a link
    r"|`[^`]*`",  # code, in which f[i](x) is no link
    re.M | re.S,
)


def pages() -> dict[Path, str]:
    """Every file that is a page of the site, and its name there."""
    inside = {p: p.relative_to(DOCS).as_posix() for p in sorted(DOCS.glob("**/*.md"))}
    return inside | BESIDE


def groups() -> dict[str, list[str]]:
    """The pages of each group of ``docs/README.md``.

    A folder stands for its pages, and a page for those of the folder of its name as well.
    """
    found: dict[str, list[str]] = {}
    names = pages()
    for entry in ENTRY.finditer((DOCS / "README.md").read_text("utf8")):
        if entry["group"]:
            found[entry["group"]] = []
            continue
        path = Path(os.path.normpath(DOCS / entry["to"]))
        inside = sorted(path.with_suffix("").glob("*.md"))
        own = [] if path.is_dir() else [path]
        found[[*found][-1]] += [names[p] for p in own + inside]
    return found


def links(text: str) -> Iterator[str]:
    """Where the links of a page lead."""
    return (found["to"] for found in MARKED.finditer(text) if found["to"])


def linked(text: str, file: Path, site: Path) -> str:
    """The text of a page with links that hold in the site.

    A link to a file that is no page leads to that file in the clone. It is written as HTML, which
    mkdocs does not look up among its pages.
    """
    names = pages()
    folder = Path(names[file]).parent

    def replaced(found: re.Match[str]) -> str:
        to, _, anchor = (found["to"] or "").partition("#")
        if not to or ":" in to:
            return found[0]
        target = Path(os.path.normpath(file.parent / to))
        if target.is_dir():
            target = next((p for p in names if p.parent == target), target)
        if target in names:
            to = os.path.relpath(names[target], folder) + (anchor and f"#{anchor}")
            return f"[{found['text']}]({to})"
        return f'<a href="{os.path.relpath(target, site / folder)}">{found["text"]}</a>'

    return MARKED.sub(replaced, text)


def on_config(config: Any) -> Any:
    """Give mkdocs the order of the pages."""
    order: list[Any] = ["README.md"]
    for group, names in groups().items():
        plain = [n for n in names if "/" not in n]
        below = {n.partition("/")[0] for n in names} - {*plain}
        deep = {b: [n for n in names if n.startswith(f"{b}/")] for b in sorted(below)}
        order.append({group: [*plain, *({NESTED[b]: ns} for b, ns in deep.items())]})
    config.nav = order
    return config


def on_files(files: Any, *, config: Any) -> Any:
    """Add the pages that are made of files outside of docs."""
    kind: Any = type(next(iter(files)))
    for path, name in BESIDE.items():
        files.append(kind.generated(config, name, abs_src_path=str(path)))
    return files


def on_page_markdown(text: str, *, page: Any, config: Any, files: Any) -> str:
    """Make the links of a page hold in the site."""
    made = {name: path for path, name in pages().items()}
    return linked(text, made[page.file.src_uri], Path(config.site_dir))
