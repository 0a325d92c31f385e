"""Every page is in one of four groups, and the site is read and searched from files."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.gen.aot.browser import opened
from tools import pages

HEADING = re.compile(r"^```.*?^```$|^#+ (?P<text>[^\n]+)$", re.M | re.S)


def anchors(page: Path) -> set[str]:
    """The names of a page's headings, as GitHub and the site make them."""
    found = [h["text"] for h in HEADING.finditer(page.read_text("utf8")) if h["text"]]
    plain = [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text).lower() for text in found]
    return {re.sub(r"[^\w\- ]", "", text).replace(" ", "-") for text in plain}


def test_there_are_four_groups_and_every_page_is_in_one():
    groups = pages.groups()
    assert [*groups] == ["Tutorial", "How-to", "Reference", "Explanation"]
    listed = [name for names in groups.values() for name in names]
    assert sorted(listed) == sorted({*pages.pages().values()} - {"README.md"})


@pytest.mark.parametrize("page", [pages.ROOT / "README.md", *pages.pages()], ids=lambda p: p.name)
def test_every_link_leads_to_a_file_and_a_heading_that_exist(page: Path):
    for link in pages.links(page.read_text("utf8")):
        to, _, anchor = link.partition("#")
        target = page.parent / to if to else page
        if ":" not in link:
            assert target.exists(), link
            assert not anchor or anchor in anchors(target), link


def test_every_picture_is_shown_on_a_page():
    everything = "".join(p.read_text("utf8") for p in [pages.ROOT / "README.md", *pages.pages()])
    pictures = (pages.DOCS / "pictures").iterdir()
    assert [p.name for p in pictures if f"pictures/{p.name})" not in everything] == []


def test_the_readme_has_eight_links():
    text = (pages.ROOT / "README.md").read_text("utf8")
    assert len([*pages.links(text)]) == 8


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, with every warning an error: a link that leads nowhere, a page in no group."""
    if importlib.util.find_spec("material") is None:
        pytest.skip("mkdocs-material is not installed: `make site` builds and opens the site")
    made = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", str(made)]
    env = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(
        build, cwd=pages.ROOT, env=env, capture_output=True, text=True, check=False
    )
    assert not done.returncode, done.stdout + done.stderr
    return made


ADDRESSES = {"script": "src", "img": "src", "iframe": "src", "link": "href", "a": "href"}


def test_pages_fetch_nothing_from_a_network_and_links_lead_to_files(site: Path):
    wrong: list[tuple[str, str]] = []
    made = [*site.glob("**/*.html")]
    assert len(made) >= len(pages.pages())
    for page in made:

        class Page(HTMLParser):
            here = page

            def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
                address = dict(attrs).get(ADDRESSES.get(tag, "")) or ""
                remote = address.startswith(("http:", "https:", "//"))
                file = address.partition("#")[0].partition("?")[0]
                lost = file and not (self.here.parent / unquote(file)).exists()
                if (remote and tag != "a") or (":" not in file and lost):
                    wrong.append((self.here.name, address))

        if page.name != "404.html":  # a server shows it at any depth
            Page().feed(page.read_text("utf8"))
    assert wrong == []


def test_the_site_is_searched_from_files_without_a_network(site: Path, tmp_path: Path):
    page = (site / "index.html").as_uri()
    flag = "--host-resolver-rules=MAP * ~NOTFOUND"
    text = opened(f"{page}?q=cholesky", tmp_path, flag)
    found = re.findall(r'href="([^"]*)" class="md-search-result__link"', text)
    assert any("linear-algebra.html" in to for to in found), found
    assert "No matching documents" in opened(f"{page}?q=qwxzv", tmp_path, flag)
