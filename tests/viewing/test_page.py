"""The page in a real browser: what is clicked, pointed at and typed changes what is shown."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from dlvm.viewing.page import page
from tests.gen.aot.browser import after as run

from .programs import ARGUMENTS, step

WINDOW = "--window-size=1600,2400"
"""Large enough for all lines that a test looks for, since others are not in the document."""
DO = """
const choose = (css, name) => {
  $(css).value = [...$(css).options].find((o) => o.text.includes(name)).value;
  $(css).dispatchEvent(new Event("change"));
};
const row = (pane, said) => all(`${pane} .row`).find((r) => r.textContent.includes(said));
const lit = (pane) => text(`${pane} .lit`), shown = (pane) => text(`${pane} .row`);
const point_at = (r) => r.dispatchEvent(new MouseEvent("mousemove", { bubbles: true }));
const press = (key) => document.body.dispatchEvent(
  new KeyboardEvent("keydown", { key, bubbles: true }));
const stage = (css) => $(css).selectedOptions[0].text;
"""


@pytest.fixture(scope="module")
def made() -> str:
    return step.compile(*ARGUMENTS).view(None, *ARGUMENTS, seconds=0.01)


def after(page: str, code: str, folder: Path) -> Any:
    found = run(page, DO + code, folder, WINDOW)
    assert not isinstance(found, str), found
    return found


def test_a_clicked_line_of_the_source_lights_up_what_it_became(made: str, tmp_path: Path):
    source, ir, loops, told = after(
        made,
        "choose('#from', 'kernels'); choose('#to', 'loops'); row('#source', '# first').click();"
        "return [lit('#source'), lit('#before'), lit('#after'), $('#status').textContent]",
        tmp_path,
    )
    assert len(source) == 1 and "tanh(x @ w)" in source[0]
    assert any("= tanh" in line for line in ir) and any("kernel [" in line for line in ir)
    assert not any("cumulative_sum %x0 axis=0 :" in line for line in ir)
    assert any("launch @" in line for line in loops)
    assert any("= tanh" in line for line in loops)
    assert told.startswith("programs.py:") and "tanh(x @ w)" in told


def test_a_clicked_operation_lights_up_its_line_and_adjoint_alone(made: str, tmp_path: Path):
    source, ir, again = after(
        made,
        "choose('#from', 'traced'); choose('#to', 'differentiate');"
        "row('#after', '= tanh').click();"
        "const out = [lit('#source'), lit('#after')];"
        "row('#after', '= tanh').click(); return [...out, all('.lit').length]",
        tmp_path,
    )
    assert len(source) == 1 and "# first" in source[0]
    assert any("= tanh" in line for line in ir) and any("= sub" in line for line in ir)
    assert not any("matmul" in line for line in ir)
    assert again == 0


def test_what_is_pointed_at_lights_up_beside_what_is_chosen(made: str, tmp_path: Path):
    lit, near, told, gone = after(
        made,
        "row('#source', '# first').click(); point_at(row('#source', '# second'));"
        "const out = [text('#source .lit'), text('#source .near'), $('#status').textContent];"
        "$('#source').dispatchEvent(new MouseEvent('mouseleave'));"
        "return [...out, all('.near').length]",
        tmp_path,
    )
    assert "# first" in lit[0] and len(lit) == 1
    assert "# second" in near[0] and "# second" in told
    assert gone == 0


def test_keys_step_through_passes_and_lines(made: str, tmp_path: Path):
    code = """
      const out = [];
      for (const key of ["j", "ArrowRight", "k", "ArrowLeft", "ArrowLeft"]) {
        press(key); out.push([stage("#from"), stage("#to")]);
      }
      press("ArrowDown"); out.push(lit("#source")); press("ArrowDown"); out.push(lit("#source"));
      press("Escape"); return [...out, all(".lit").length];
    """
    *steps, first, second, none = after(made, code, tmp_path)
    numbers = [[int(name.split()[0]) for name in pair] for pair in steps]
    assert numbers == [[2, 3], [3, 4], [2, 3], [1, 2], [1, 2]]
    assert "# first" in first[0] and "# second" in second[0]
    assert none == 0


def test_unchanged_lines_are_folded_and_open_when_clicked(made: str, tmp_path: Path):
    code = """
      choose("#from", "share"); choose("#to", "drop");
      const out = [shown("#after").filter((t) => t.startsWith("⋯")), all("#before .gone").length];
      const before = all("#after .row").length;
      $("#after .fold").click();
      return [...out, all("#after .row").length - before, all(".fold").length];
    """
    folds, gone, more, left = after(made, code, tmp_path)
    assert folds and gone
    hidden = int(re.findall(r"\d+", folds[0])[0])
    assert more == hidden - 1
    assert left == 2 * (len(folds) - 1)


def test_a_renumbered_line_is_the_same_and_a_new_operand_is_a_change(tmp_path: Path):
    before = ["func @f(%x: f64) -> f64 {", "  %0 = exp %x", "  %1 = exp %x", "  %2 = tanh %1"]
    before += ["  %3 = mul %0, %1", "  return %3", "}"]
    now = ["func @f(%x: f64) -> f64 {", "  %0 = exp %x", "  %1 = tanh %0", "  %2 = mul %0, %0"]
    now += ["  return %2", "}"]
    groups = {"exp": 1, "tanh": 2, "mul": 3}
    stages = [
        {
            "name": name,
            "kind": "ir",
            "known_as": "",
            "lines": [(t, next((g for w, g in groups.items() if w in t), 0)) for t in lines],
        }
        for name, lines in (("a", before), ("b", now))
    ]
    data = {
        "name": "f",
        "types": ["x: f64"],
        "stages": stages,
        **{name: [] for name in ("laws", "refused", "memory")},
        "profile": None,
        "sources": [{"file": "f.py", "name": "f.py", "lines": ["f"]}],
        "places": [[0, 1, 0], [0, 1, 1], [0, 1, 2]],
        "groups": [[[], ""], [[0], ""], [[1], ""], [[2], ""]],
    }
    code = "return ['gone', 'new', 'changed'].map((k) => text(`.${k}`))"
    gone, new, changed = after(page(data), code, tmp_path)
    assert [t.lstrip("0123456789 ") for t in gone] == ["%1 = exp %x"]
    assert new == []
    said = {t.lstrip("0123456789 ") for t in changed}
    assert "%3 = mul %0, %1" in said and "%2 = mul %0, %0" in said
    assert "return %3" not in said


def test_search_finds_lines_and_escape_forgets_it(made: str, tmp_path: Path):
    code = """
      choose("#from", "kernels"); choose("#to", "asm"); press("/");
      const focused = document.activeElement.id; type("#search", "TANH");
      const out = [focused, text("#before .found"), $("#told").textContent, text("#source .found")];
      press("Escape"); return [...out, all(".found").length, $("#search").value];
    """
    focused, found, told, source, none, empty = after(made, code, tmp_path)
    assert focused == "search"
    assert found and all("tanh" in line for line in found)
    assert source and all("tanh" in line for line in source)
    assert re.fullmatch(rf"found in {len(found)} and \d+ lines, {len(source)} of the source", told)
    assert (none, empty) == (0, "")


def test_tabs_show_laws_refusals_profile_and_memory_and_lead_to_code(made: str, tmp_path: Path):
    code = """
      const out = [];
      for (const name of ["laws", "refused", "profile", "memory"]) {
        $(`[data-tab=${name}]`).click();
        const open = all("[role=tabpanel]:not([hidden])").map((e) => e.id);
        out.push([open, text(`#${name} tr`).length]);
      }
      const boxes = all("#memory svg rect title").map((t) => t.textContent);
      $("[data-tab=laws]").click(); $("#laws .leads").click();
      return [...out, boxes, $("#code").hidden, lit("#source").length, stage("#to")];
    """
    *tabs, boxes, hidden, lit, where = after(made, code, tmp_path)
    assert [ids for ids, _ in tabs] == [["laws"], ["refused"], ["profile"], ["memory"]]
    assert all(rows > 1 for _, rows in tabs)
    assert any(box.startswith("result0: 4.80 kB, steps 0 to") for box in boxes)
    assert hidden is False and lit >= 1
    assert "rearrange" in where


def test_without_arguments_there_is_no_profile(tmp_path: Path):
    code = "return [$('[data-tab=profile]').disabled, $('[data-tab=memory]').disabled]"
    assert after(step.compile(*ARGUMENTS).view(), code, tmp_path) == [True, False]


def test_of_long_texts_only_what_is_in_sight_is_in_the_document(made: str, tmp_path: Path):
    code = """
      choose("#from", "asm"); choose("#to", "llvm");
      const count = all("#before .row").length, first = shown("#before")[0];
      $("#before").scrollTop = 1e6;
      for (let i = 0; i < 60 && shown("#before")[0] === first; i++) {
        const drawn = new Promise((go) => requestAnimationFrame(() => setTimeout(go, 0)));
        await Promise.race([drawn, new Promise((go) => setTimeout(go, 100))]);
      }
      return [count, all("#before .row").length, first, shown("#before")[0]];
    """
    count, scrolled, first, later = after(made, code, tmp_path)
    assert 10 < count < 300 and 10 < scrolled < 300
    assert first.startswith("1") and first != later


def with_arguments(count: int) -> str:
    types = [f"params_layers_{i}_weight: f32[64,64]" for i in range(count)]
    return page(
        {
            "name": "f",
            "types": types,
            "stages": [{"name": "a", "kind": "ir", "known_as": "", "lines": [("return", 0)]}],
            **{name: [] for name in ("laws", "refused", "memory", "sources", "places")},
            "profile": None,
            "groups": [[[], ""]],
        }
    )


def test_few_arguments_stand_in_the_header_and_many_are_folded():
    few, many = (with_arguments(n).partition('id="data"')[0] for n in (3, 300))
    assert "<details>" not in few and few.count("_weight: f32[64,64]") == 3
    header = many[many.index("<header>") : many.index("</header>")]
    assert "<summary>f <small>300 arguments</small></summary>" in header
    assert header.index("</summary>") < header.index("params_layers_0_weight")
    assert header.count("_weight: f32[64,64]") == 300


def test_the_code_of_a_program_with_many_arguments_is_in_sight(tmp_path: Path):
    code = """
      const closed = $("#code").clientHeight / innerHeight; $("summary").click();
      return [closed, $("#code").clientHeight / innerHeight];
    """
    closed, opened = after(with_arguments(300), code, tmp_path)
    assert closed > 0.85 and opened > 0.5


def test_names_are_text_and_nothing_is_fetched(made: str, tmp_path: Path):
    assert not re.search(r"""\b(src|href)\s*=|\burl\(""", made.partition('id="data"')[0])
    data: dict[str, Any] = {
        "name": "</script><b id=odd>",
        "types": ["<b id=odd>"],
        "stages": [
            {"name": "<b id=odd>", "kind": "ir", "known_as": "", "lines": [("<b id=odd>", 0)]}
        ],
        **{name: [] for name in ("laws", "refused", "memory", "sources", "places")},
        "profile": None,
        "groups": [[[], ""]],
    }
    code = "return [all('#odd').length, shown('#before')]"
    assert after(page(data), code, tmp_path) == [0, ["1<b id=odd>"]]
