"""A self-contained HTML page that steps through what each pass changed."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from html import escape
from typing import Protocol

STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 0; display: flex; height: 100vh;
       color: #1c2733; background: #fff; }
nav { flex: 0 0 15em; overflow: auto; background: #f3f5f8; padding: 1em; }
nav button { display: block; width: 100%; text-align: left; border: 0; background: none;
             padding: .3em .5em; font: inherit; cursor: pointer; border-radius: 4px;
             color: inherit; }
nav button.same { color: #8a94a0; }
nav button[aria-current="true"] { background: #1c5d99; color: #fff; }
main { flex: 1; overflow: auto; padding: 1em 1.5em; }
section { display: none; } section.now { display: block; }
.sides { display: flex; gap: 1.5em; } .sides > div { flex: 1 1 0; min-width: 0; }
pre { font: 12.5px/1.4 ui-monospace, monospace; overflow-x: auto; margin: 0; }
pre span { display: block; min-height: 1.4em; white-space: pre; }
.gone { background: #fbe3e1; } .new { background: #dff3e3; }
@media (prefers-color-scheme: dark) {
  body { color: #dce3ea; background: #14191f; } nav { background: #1b222a; }
  .gone { background: #4a2522; } .new { background: #1f4028; }
}
"""
SCRIPT = """
const all = [...document.querySelectorAll('section')];
const buttons = [...document.querySelectorAll('nav button')];
let at = 0;
function show(i) {
  at = Math.max(0, Math.min(all.length - 1, i));
  all.forEach((s, j) => s.classList.toggle('now', j === at));
  buttons.forEach((b, j) => b.setAttribute('aria-current', j === at));
  buttons[at].scrollIntoView({block: 'nearest'});
}
buttons.forEach((b, j) => b.addEventListener('click', () => show(j)));
addEventListener('keydown', e => {
  if (e.key === 'ArrowRight' || e.key === 'j') show(at + 1);
  if (e.key === 'ArrowLeft' || e.key === 'k') show(at - 1);
});
show(0);
"""


class Step(Protocol):
    """A program before and after a pass."""

    @property
    def name(self) -> str:
        """The name of the pass."""
        ...

    @property
    def before(self) -> str:
        """The text of the program before the pass."""
        ...

    @property
    def after(self) -> str:
        """The text of the program after the pass."""
        ...


def page(title: str, steps: Sequence[Step]) -> str:
    """The HTML text of the page; the arrow keys move between passes."""
    buttons = "".join(_button(step) for step in steps)
    sections = "".join(_section(step) for step in steps)
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{STYLE}</style><body><nav><b>{escape(title)}</b>{buttons}</nav>"
        f"<main>{sections}</main><script>{SCRIPT}</script></body></html>\n"
    )


def _button(step: Step) -> str:
    same = ' class="same"' if step.before == step.after else ""
    return f"<button{same}>{escape(step.name)}</button>"


def _section(step: Step) -> str:
    gone, new = _marked(step.before.splitlines(), step.after.splitlines())
    return (
        f'<section><h2>{escape(step.name)}</h2><div class="sides">'
        f"<div><h3>before</h3><pre>{gone}</pre></div>"
        f"<div><h3>after</h3><pre>{new}</pre></div></div></section>"
    )


def _marked(before: Sequence[str], after: Sequence[str]) -> tuple[str, str]:
    """Both texts as HTML, a span for each line; lines that the other text lacks are marked."""
    left, right = "", ""
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    for kind, a, b, c, d in matcher.get_opcodes():
        changed = kind != "equal"
        left += "".join(_line(x, "gone" if changed else "") for x in before[a:b])
        right += "".join(_line(x, "new" if changed else "") for x in after[c:d])
    return left, right


def _line(text: str, kind: str) -> str:
    mark = f' class="{kind}"' if kind else ""
    return f"<span{mark}>{escape(text)}</span>"
