"""What notebooks show: HTML of modules, programs, reports, profiles and explanations."""

from __future__ import annotations

import re
import subprocess
import sys
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


def long(x):
    for _ in range(120):
        x = dlvm.sin(x)
    return (x @ np.eye(300)).sum()


def test_nothing_is_megabytes_and_what_is_left_out_is_counted():
    staged = dlvm.function(long)
    rows = np.ones((2, 300))
    staged(rows)
    made, module = staged.compile(rows), staged.trace(rows)
    assert len(str(module)) > 900_000
    found = (module, made, staged.explain(), made.profile(rows, seconds=0.01), made.view())
    for each in found:
        assert len(repr(each)) < 50_000, type(each)
    for each in found[:4]:
        assert len(each._repr_html_()) < 100_000, type(each)
    assert "... and 28 more lines" in repr(module) and "... and 28 more lines" in shown(module)
    short = dlvm.trace(lambda x: x @ np.eye(300), rows)
    assert "more characters" in repr(short) and dlvm.parse(str(short)) == short


def test_a_trace_and_an_explanation_are_their_text_at_a_prompt():
    f(X)
    assert repr(f.trace(X)) == str(f.trace(X)).rstrip()
    assert repr(f.explain()) == f.explain().text()
    profile = f.compile(X).profile(X, seconds=0.01)
    assert repr(profile) == str(profile)


def test_a_page_is_text_and_a_frame_in_a_notebook(tmp_path):
    page = f.compile(X).view(tmp_path / "page.html")
    assert page == (tmp_path / "page.html").read_text("utf8") and page.startswith("<!doctype")
    assert re.fullmatch(
        r'<a page of [\d.]+ KiB: view\("page.html"\) writes it to a file>', repr(page)
    )
    frames = []

    class Frames(Seen):
        def handle_starttag(self, tag, attrs):
            frames.append((tag, dict(attrs)))
            super().handle_starttag(tag, attrs)

    Frames(page._repr_html_())
    ((tag, attributes),) = frames
    assert tag == "iframe" and attributes["srcdoc"] == page


def test_a_bundle_is_its_files_and_their_sizes():
    bundle = dlvm.aot(f, X, target="wasm32", name="score")
    for text in (repr(bundle), shown(bundle)):
        assert all(name in text for name in bundle.files) and "score for wasm32" in text
        assert "at most" in text and len(text) < 1000


def test_a_network_is_a_table_of_its_layers():
    key = dlvm.random.key(0)
    net = dlvm.nn.Sequential([dlvm.nn.Linear(key, 3, 4), dlvm.nn.Linear(key, 4, 2)])
    said = net._repr_html_()
    assert "<td>Sequential</td><td></td><td>26</td>" in said
    assert "<td>layers.0 Linear</td><td>weight: f32[3,4], bias: f32[4]</td><td>16</td>" in said
    shown(net)
    assert "f32[3,4]" in repr(net)
    assert "<td>Sequential</td>" in dlvm.nn.summary(net, dlvm.spec("f32[5,3]"))._repr_html_()
    many = dlvm.nn.Sequential([dlvm.nn.Linear(key, 1, 1)] * 150)
    assert "and 51 more layers" in shown(many)


def test_nothing_imports_a_notebook():
    code = "import sys, dlvm, numpy as np; c = dlvm.function(dlvm.sin).compile(np.ones(3)); "
    code += "c._repr_html_(); print('IPython' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n" and not done.stderr
