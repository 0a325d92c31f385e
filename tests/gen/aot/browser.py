"""A real browser without a window, and what a page has become after a script ran in it."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage")
STAYS = ("--virtual-time-budget=20000",)
LOOKS = """
const root = document.documentElement, soon = () => new Promise((go) => setTimeout(go, 5));
while (!root.dataset.ready) await soon();
const $ = (css) => document.querySelector(css), all = (css) => [...document.querySelectorAll(css)];
const text = (css) => all(css).map((e) => e.textContent);
const type = (css, value) => { $(css).value = value; $(css).dispatchEvent(new Event("input")); };
const point = (css, kind, x, y) => {
  const r = $(css).getBoundingClientRect();
  const at = { clientX: r.left + x * r.width, clientY: r.top + y * r.height, buttons: 1 };
  $(css).dispatchEvent(new PointerEvent(kind, at));
};
"""
"""What looks at a page that is ready, and types and draws there."""
PROBE = f"""<script type="module">{LOOKS}
let found;
try {{ found = await (async () => {{ CODE }})(); }} catch (x) {{ found = `${{x.stack}}`; }}
root.dataset.found = JSON.stringify(found);
</script>"""


def opened(address: str, folder: Path, *flags: str) -> str:
    """What a page has become after its scripts ran, as text; skipped without a browser.

    ``flags`` are further ones of the browser, such as the size of its window.
    """
    browser = next(filter(None, map(shutil.which, NAMES)), None)
    if browser is None:
        pytest.skip("no chromium is on PATH: pages were made and not opened")
    profile = f"--user-data-dir={folder / 'profile'}"
    done = subprocess.run(
        [browser, *FLAGS, *flags, profile, *STAYS, "--dump-dom", address],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.stdout


def after(page: str, code: str, folder: Path, *flags: str) -> Any:
    """What a script gives that runs in a page once it is ready."""
    made = folder / "page.html"
    made.write_text(page.replace("</html>", PROBE.replace("CODE", code) + "</html>"), "utf8")
    return json.loads(_attribute(opened(made.as_uri(), folder, *flags), "data-found"))


def _attribute(dom: str, name: str) -> str:
    """The value of an attribute of the page's root."""
    from html.parser import HTMLParser

    values: list[str] = []

    class Root(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            if tag == "html":
                values.append(dict(attrs).get(name) or '"the page never became ready"')

    Root().feed(dom)
    return values[0] if values else '"no page"'
