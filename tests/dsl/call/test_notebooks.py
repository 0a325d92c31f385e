"""What notebooks show: HTML of modules, programs, reports, profiles and explanations."""

from __future__ import annotations

from html.parser import HTMLParser

import numpy as np

import dlvm

X = np.ones((2, 3))


class Seen(HTMLParser):
    """The text of a page, and the elements that are open at its end."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.text, self.open = "", list[str]()
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def shown(found) -> str:
    seen = Seen(found._repr_html_())
    assert not seen.open
    return seen.text


@dlvm.function
def f(x):
    return dlvm.where(x < 1, x, dlvm.exp(x)).sum()


def test_a_compiled_function_is_one_line():
    made = f.compile(X)
    assert repr(made) == "<compiled f(x: f64[2,3])>"
    fast = dlvm.function(lambda x: x * 2, numerics="fast").compile(X)
    assert repr(fast).endswith("numerics=fast>")
    assert "<compiled f(x: f64[2,3])>" in shown(made)
    assert "func @f(" in shown(made)


def test_modules_show_their_text_and_lines():
    said = shown(f.trace(X))
    assert "exp %x : f64[2,3]" in said
    assert "test_notebooks.py:" in said
    assert "func @f(%x: f64[2,3]) -> f64 {" in said


def test_reports_profiles_and_explanations_show_their_figures():
    f(X)
    made = f.compile(X)
    assert "peak_bytes" in shown(made.report)
    assert "first call" in shown(f.explain())
    profile = made.profile(X, seconds=0.01)
    assert "roofline" in shown(profile)
    assert profile.parts[0].name in shown(profile)
