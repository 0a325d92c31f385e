"""No text of a user becomes code: names are made fit for C, and all other texts are escaped."""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from ctypes import c_int64, c_void_p
from html.parser import HTMLParser

import numpy as np
import pytest

import dlvm
from dlvm.gen.aot.bundle import Bundle
from dlvm.gen.aot.header import header
from dlvm.gen.aot.layout import Layout, Slot
from dlvm.gen.aot.names import argument_names, function_name, macro_prefix, state_macros
from dlvm.gen.aot.page import page
from dlvm.gen.aot.reserved import FUNCTIONS, KEYWORDS, MACROS, MATHS, SCRIPT
from dlvm.gen.aot.writing import c_comment
from dlvm.ir import DTYPES, TensorType

from .running import Loaded

EVIL = (
    "*/ int evil(void){return 42;} /*",
    "*\\\n/ int evil(void){return 42;} /*",
    "*??/\n/ int evil(void){return 42;} /*",
    "x\n#define evil 1\n",
    '"; int evil; "',
    "</script><script>evil()</script>",
    "<!--<script>",
    "'\"><img src=x onerror=evil()>",
    "{{script}}",
    "../../outside",
    "`${evil()} of a template`",
    "\u202ereversed\u2066",
    "\ud800\0\u2028",
)
ODD = (
    "",
    " ",
    "_",
    "__",
    "1",
    "0x",
    "é",
    "größe",
    "变量",
    "a b",
    "a-b",
    "a.b",
    "__proto__",
    "a" * 400,
)
CASES = (
    "a",
    "A",
    "net",
    "Net",
    "NET",
    "nEt",
    "net_caps",
    "NET_caps",
    "F_H",
    "F_STATE_A",
    "F STATE A",
)
KNOWN = (
    "main",
    "exp",
    "and_eq",
    "linux",
    "stdint",
    "_stdint",
    "sinf",
    "pthread_x",
    "FP_X",
    "__LINE__",
)
HEADERS = ("math", "stdio", "stdlib", "string", "complex", "errno", "time", "signal", "inttypes")
STRICT = ("-pedantic", "-Wall", "-Werror", "-fsyntax-only", "-I.")
F32 = TensorType(DTYPES["f32"], (2,))


def drawn(count):
    """Texts of every kind, the same ones in each run; some occur more than once."""
    draw = random.Random(7)
    tables = (KEYWORDS, SCRIPT, MACROS, FUNCTIONS, MATHS)
    words = [w for table in tables for w in draw.sample(sorted(table), 18)]
    letters = "aAzZ09_ */\\\"'<>&?#\n\t\0é变\u202e"
    noise = ["".join(draw.choices(letters, k=draw.randrange(12))) for _ in range(60)]
    found = [*EVIL, *ODD, *CASES, *KNOWN, *words, *noise]
    return found + draw.choices(found, k=count - len(found))


TEXTS = drawn(200)


def declared(label, arguments, results=("result",), states=()):
    """The header of a function that has a name and arguments of such labels."""
    name = function_name(label)
    labels = [*arguments, *results]
    names = argument_names(labels, name)
    slots = [Slot(n, t, F32, i) for i, (n, t) in enumerate(zip(names, labels, strict=True))]
    start = np.zeros(2, np.float32)
    own = tuple(
        Slot(s.name, s.label, F32, s.index, True, False, start) if s.label in states else s
        for s in slots[: len(arguments)]
    )
    plan = Layout(name, own, tuple(slots[len(arguments) :]), (None,), (), ())
    return name, header(plan, 64, 0, label, "0", f"{label}(...)")


def compiler(name):
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"no {name} is on PATH: the drawn names were not given to it")
    return found


def accepted(*command, folder):
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr[:2000]


@pytest.fixture(scope="module")
def headers(tmp_path_factory):
    """A folder of headers: a function for each text, and one that has all of them as arguments."""
    folder = tmp_path_factory.mktemp("headers")
    made = dict(declared(text, [text, "weights"]) for text in TEXTS)
    name, text = declared("all_of_them", TEXTS, TEXTS[:40], TEXTS)
    made[name] = text
    assert len({name.lower() for name in made}) > 120
    for name, text in made.items():
        (folder / f"{name}.h").write_text(text, "utf8")
    system = "".join(f"#include <{h}.h>\n" for h in HEADERS)
    own = "".join(f'#include "{name}.h"\n' for name in made)
    (folder / "unit.c").write_text(f"{system}{own}{own}int evil;\n", "utf8")
    return folder


@pytest.mark.parametrize("standard", ["c99", "gnu17"])
def test_c_takes_all_headers_together(headers, standard):
    accepted(compiler("gcc"), f"-std={standard}", *STRICT, "unit.c", folder=headers)


@pytest.mark.parametrize("standard", ["c++20"])
def test_cpp_takes_all_headers_together(headers, standard):
    command = [compiler("g++"), f"-std={standard}", "-x", "c++", *STRICT, "unit.c"]
    accepted(*command, folder=headers)


def test_javascript_takes_all_names(tmp_path):
    names = argument_names(TEXTS, "f") + [function_name(text) for text in set(TEXTS)]
    made = page(b"", {"name": EVIL[5], "arguments": [], "results": []}, labels=EVIL)
    script = made.partition('<script type="module">')[2].rpartition("</script>")[0]
    (tmp_path / "page.mjs").write_text(script, "utf8")
    own = f"export function f({', '.join(dict.fromkeys(names))}) {{}}\n"
    (tmp_path / "names.mjs").write_text(own, "utf8")
    for file in ("page.mjs", "names.mjs"):
        accepted(compiler("node"), "--check", file, folder=tmp_path)


def test_names_differ_and_are_the_same_again():
    found = argument_names(TEXTS, "f")
    assert len(set(found)) == len(found) == 200 and found == argument_names(TEXTS, "f")
    assert all(re.fullmatch(r"[A-Za-z_]\w*", n, re.ASCII) and len(n) < 200 for n in found)


def test_names_that_c_takes_stay():
    fine = ["x", "W1", "params", "learning_rate", "N", "result", "index", "exp", "std", "time"]
    assert argument_names(fine, "f") == fine
    assert argument_names(["a b", "for", "a_b", "for_2"], "f") == ["a_b_2", "for_3", "a_b", "for_2"]
    assert argument_names(["params['w'][0]", "x", "x"], "f") == ["params_w_0", "x", "x_2"]
    for name in ("net", "Net", "predict", "train_step", "timer_step", "f", "softmax"):
        assert function_name(name) == name


def test_macros_differ():
    assert state_macros(["a", "A", "bytes"]) == ["A", "A_2", "BYTES_2"]
    prefixes = [macro_prefix(n) for n in ("net", "Net", "NET", "NET_caps", "net_caps", "nEt")]
    assert prefixes[0] == "NET" and len(set(prefixes)) == 6
    _, text = declared("f", ["a", "A"], states=("a", "A"))
    defined = re.findall(r"#define (\w+)", text)
    assert len(defined) == len(set(defined))


def test_no_text_ends_a_comment():
    for text in (*EVIL, "*/*/*", "/*/*/", "*" * 5 + "/", "????/"):
        made = c_comment(text)
        assert made.isprintable() and not re.search(r"\*/|/\*|\?\?", made)


class Tags(HTMLParser):
    """The tags of a page, with their attributes, and the data in it."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.data = [], ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        if self.tags and self.tags[-1][1].get("id") == "data" and not self.data:
            self.data = data


@pytest.fixture(scope="module")
def evil():
    """A function whose arguments and results have keys that try to be code, as a page too."""

    def f(x):
        return {key: x[key] + 1 for key in EVIL}

    f.__name__ = f.__qualname__ = EVIL[0]
    given = {key: dlvm.spec("f32[2]") for key in EVIL}
    return dlvm.aot(f, given, target="wasm32", page=True)


def test_evil_keys_are_inert(evil):
    name = evil.description["name"]
    assert re.fullmatch(r"[a-z]\w*", name, re.ASCII)
    assert all(re.fullmatch(r"[\w.]+", file, re.ASCII) for file in evil.files)
    said = json.loads(evil.files[f"{name}.json"])
    assert {a["label"] for a in said["arguments"]} == {f"x[{key!r}]" for key in EVIL}
    text = re.sub(r"/\*.*?\*/", "", evil.files[f"{name}.h"].decode(), flags=re.DOTALL)
    assert "(void)" not in text and "#define evil" not in text and text.count(";") == 2
    found = Tags(evil.files[f"{name}.html"].decode())
    plain = Tags(page(b"", {"name": "f", "arguments": [], "results": []}))
    assert [t for t, _ in found.tags] == [t for t, _ in plain.tags]
    assert json.loads(found.data)["description"]["arguments"] == said["arguments"]


def test_evil_titles_are_inert():
    plain = page(b"", {"name": "f", "arguments": [], "results": []})
    for text in EVIL:
        made = page(b"", {"name": "f", "arguments": [], "results": []}, title=text, labels=[text])
        found = Tags(made)
        assert [t for t, _ in found.tags] == [t for t, _ in Tags(plain).tags]
        assert json.loads(found.data)["labels"] == [text] and made.encode()


def test_functions_of_the_names_of_our_own_code_and_of_c_run():
    def row(x):
        return (x @ x + x).sum()

    x = np.ones((300, 300), np.float32)
    for name, called in (("row", "row"), ("exp", "exp_2"), ("k0", "k0"), ("main", "main_2")):
        row.__name__ = row.__qualname__ = name
        bundle = dlvm.aot(row, x)
        assert (bundle.description["name"], bundle.description["label"]) == (called, name)
        assert Loaded(bundle, "host")(x)["result"] == np.asarray(dlvm.function(row)(x))
    with pytest.raises(dlvm.UserError, match="no library of C has, found name='exp'"):
        dlvm.aot(row, x, name="exp")


def test_negative_sizes_are_a_status_and_write_nothing():
    def f(x, y):
        return (x[:, None] * y).sum(axis=0), x * 2

    loaded = Loaded(dlvm.aot(f, dlvm.spec("f32[N]"), dlvm.spec("f32[M]")), "host")
    nothing = [c_void_p()] * 4
    for n, m in ((-1, 3), (3, -1), (-1, -1), (-(2**63), 2), (2, -(2**63))):
        status = loaded.function(*nothing, c_int64(n), c_int64(m), c_void_p(), c_void_p())
        assert (
            status == -4 and loaded.told(status) == b"a size is negative, expected 0 or more: N, M"
        )
    x, y = np.ones(3, np.float32), np.ones(2, np.float32)
    assert (loaded(x, y, N=3, M=2)["result_1"] == 2).all()


def test_sizes_that_no_memory_has_room_for_are_a_status_and_write_nothing():
    def f(x, y):
        return dlvm.sort((x[:, None] * y), axis=0), x * 2

    loaded = Loaded(dlvm.aot(f, dlvm.spec("f32[N]"), dlvm.spec("f32[M]")), "host")
    nothing = [c_void_p()] * 4
    for n, m in ((2**62, 1), (2**63 - 1, 2**63 - 1), (2**32, 2**32), (2**31, 2**31), (2**61, 0)):
        status = loaded.function(*nothing, c_int64(n), c_int64(m), c_void_p(), c_void_p())
        assert status == -5 and b"larger than memory can be: N, M" in loaded.told(status)
        assert loaded.scratch({"N": n, "M": m}) == 0
    x, y = np.ones(3, np.float32), np.ones(2, np.float32)
    assert (loaded(x, y, N=3, M=2)["result_1"] == 2).all()
    assert loaded.scratch({"N": 2**20, "M": 2**10}) >= 2**32


def test_scratch_for_negative_sizes_is_none():
    def f(x):
        return dlvm.sort(x @ x, axis=0)

    loaded = Loaded(dlvm.aot(f, dlvm.spec("f32[N,N]")), "host")
    assert loaded.said["scratch"] is None
    assert loaded.scratch({"N": 40}) > 0 and loaded.scratch({"N": -40}) == 0


# -- files ---------------------------------------------------------------------------------------

BUNDLE = Bundle({"f.o": b"one", "f.h": b"two"}, {})


def test_files_are_written_where_a_text_says(tmp_path):
    paths = BUNDLE.write(f"{tmp_path}/new/folder")
    assert [p.read_bytes() for p in paths] == [b"one", b"two"]
    assert sorted(p.name for p in paths[0].parent.iterdir()) == ["f.h", "f.o"]


def test_planted_links_are_replaced(tmp_path):
    theirs, folder = tmp_path / "theirs", tmp_path / "folder"
    theirs.write_bytes(b"theirs")
    folder.mkdir()
    try:
        (folder / "f.o").symlink_to(theirs)
    except OSError as error:
        pytest.skip(f"this system makes no symbolic links: {error}")
    BUNDLE.write(folder)
    assert theirs.read_bytes() == b"theirs"
    assert (folder / "f.o").read_bytes() == b"one" and not (folder / "f.o").is_symlink()


def test_what_is_written_before_it_is_whole_has_a_name_that_nobody_foresees(tmp_path, monkeypatch):
    theirs = tmp_path / "theirs"
    theirs.write_bytes(b"theirs")
    monkeypatch.setattr("secrets.token_hex", lambda _: "known")
    (tmp_path / ".f.o.known").symlink_to(theirs)
    with pytest.raises(FileExistsError):
        BUNDLE.write(tmp_path)
    assert theirs.read_bytes() == b"theirs"


def test_several_threads_write_one_folder(tmp_path):
    bundles = [Bundle({"f.o": bytes([i]) * 100_000}, {}) for i in range(8)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda b: b.write(tmp_path), bundles * 4))
    found = (tmp_path / "f.o").read_bytes()
    assert len(found) == 100_000 and len(set(found)) == 1
    assert [p.name for p in tmp_path.iterdir()] == ["f.o"]


def test_a_file_that_cannot_be_written_leaves_nothing(tmp_path):
    (tmp_path / "f.o").mkdir()
    with pytest.raises(OSError):
        BUNDLE.write(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["f.o"]
