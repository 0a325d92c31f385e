// The page of one program: which stages are shown, what is selected, and the keys.
const data = JSON.parse(document.querySelector("#data").textContent);
const $ = (css) => document.querySelector(css);
const stages = data.stages, opened = new Map();
let before = 0, after = Math.min(1, stages.length - 1), pinned = null, pointed = null, sought = "";

// -- what is selected: a set of places, and so of groups and lines ---------------------------------

const lineOf = (place) => `${data.places[place][0]}:${data.places[place][1]}`;
const onLine = Map.groupBy?.(data.places.keys(), lineOf) ?? grouped();
function grouped() {
  const found = new Map();
  data.places.forEach((_, p) => found.set(lineOf(p), [...(found.get(lineOf(p)) ?? []), p]));
  return found;
}
const whole = (group) => new Set(data.groups[group][0].flatMap((p) => onLine.get(lineOf(p))));
const groupsOf = (places) => data.groups.map(([own]) => own.some((p) => places.has(p)));

function selection(row) {
  const places = row?.places ?? (row?.group ? data.groups[row.group][0] : []);
  return places.length ? { places: new Set(places), row } : null;
}

function lighting(chosen) {
  if (!chosen) return () => false;
  const groups = groupsOf(chosen.places);
  const line = (row) => (row.places ? row.places.some((p) => chosen.places.has(p)) : groups[row.group]);
  return (row) => (row.fold ? row.fold.some(line) : !row.blank && !!line(row));
}

// -- the three columns -----------------------------------------------------------------------------

const panes = ["#source", "#before", "#after"].map((css) => new Pane($(css), pick, hover));
const [source, left, right] = panes;

function sourceRows() {
  const many = data.sources.length > 1, all = [];
  data.sources.forEach((file, f) => {
    const last = Math.max(0, ...data.places.filter((p) => p[0] === f).map((p) => p[1]));
    if (many) all.push({ text: file.name, kind: "head" });
    for (let n = 1; n <= Math.max(file.lines.length, last); n++) {
      const places = onLine.get(`${f}:${n}`);
      const text = file.lines[n - 1] ?? "(this file cannot be read)";
      const row = { text, number: n, places, group: places ? -1 : 0, found: matches(text) };
      if (file.lines.length || places) all.push(row);
    }
  });
  const quiet = (r) => !r.places && !r.found && r.kind !== "head";
  return folds(folded(all, quiet, openOf("source"), 4, 8), "source");
}

const matches = (text) => sought !== "" && text.toLowerCase().includes(sought);

function openOf(name) {
  if (!opened.has(name)) opened.set(name, new Set());
  return opened.get(name);
}

function folds(rows, name) {
  return rows.map((r) => (r.fold ? { ...r, name, text: `⋯ ${r.fold.length} lines` } : r));
}

function line(stage, i, kind) {
  if (i === null) return { blank: true };
  const [text, group] = stage.lines[i];
  return { text, group, kind, number: i + 1, found: matches(text) };
}

function plain(stage) {
  return stage.lines.map((_, i) => line(stage, i, ""));
}

function columns() {
  const [a, b] = [stages[before], stages[after]];
  if (a === b || a.kind !== b.kind) return [plain(a), plain(b)];
  const name = `${before}-${after}`;
  const rows = compared(a, b);
  const shown = folded(rows, (r) => r[2] === "same", openOf(name), 3, 8);
  const side = (k, stage, mark) => folds(shown.map((r) => (r.fold
    ? { fold: r.fold.map((x) => line(stage, x[k], "")), from: r.from }
    : line(stage, r[k], mark(r[2])))), name);
  const kind = (own) => (k) => ({ same: "", replaced: own, changed: "changed" })[k] ?? own;
  return [side(0, a, kind("gone")), side(1, b, kind("new"))];
}

let aligning = false;
function together(from, to) {
  from.element.addEventListener("scroll", () => {
    if (!aligning || to.element.scrollTop === from.element.scrollTop) return;
    to.element.scrollTop = from.element.scrollTop;
  });
}
together(left, right);
together(right, left);

function show() {
  for (const [css, at] of [["#from", before], ["#to", after]]) $(css).value = at;
  const [a, b] = [stages[before], stages[after]];
  aligning = a !== b && a.kind === b.kind;
  const [one, other] = columns();
  source.show(sourceRows());
  left.show(one);
  right.show(other);
  const changed = other.concat(one).filter((r) => r.kind).length;
  $("#told").textContent = aligning ? `${changed} lines differ` : "";
  light();
}

function light() {
  const [lit, near] = [lighting(pinned), lighting(pointed)];
  for (const pane of panes) Object.assign(pane, { lit, near }), pane.draw();
  status();
}

function status() {
  const chosen = pointed ?? pinned;
  if (!chosen) { $("#status").textContent = ""; return; }
  const lines = [...new Set([...chosen.places].map(lineOf))].sort();
  const named = lines.slice(0, 4).map((at) => {
    const [f, n] = at.split(":").map(Number), file = data.sources[f];
    return `${file.name}:${n}  ${(file.lines[n - 1] ?? "").trim()}`;
  });
  const more = lines.length > 4 ? `   and ${lines.length - 4} more` : "";
  const told = chosen.row.group > 0 ? data.groups[chosen.row.group][1] : "";
  $("#status").textContent = (told ? `${told} at ` : "") + named.join("   ") + more;
}

function pick(row) {
  if (row.fold) { openOf(row.name).add(row.from); show(); return; }
  const chosen = selection(row);
  const again = chosen && pinned && [...chosen.places].join() === [...pinned.places].join();
  pinned = again ? null : chosen;
  light();
  if (pinned) for (const pane of panes) pane.reveal(pane.lit);
}

function hover(row) {
  if (row === pointed?.row) return;
  const was = pointed;
  pointed = row && !row.fold ? selection(row) : null;
  if (was || pointed) light();
}

// -- moving ----------------------------------------------------------------------------------------

function step(by) {
  after = Math.max(1, Math.min(stages.length - 1, after + by));
  before = Math.max(0, after - 1);
  show();
  if (pinned) for (const pane of [left, right]) pane.reveal(pane.lit);
}

function stepLine(by) {
  const rows = source.rows.filter((r) => r.places);
  if (!rows.length) return;
  const at = rows.findIndex((r) => pinned && r.places.some((p) => pinned.places.has(p)));
  const next = at < 0 ? 0 : Math.max(0, Math.min(rows.length - 1, at + by));
  pinned = null;
  pick(rows[next]);
}

function search(text) {
  sought = text.toLowerCase();
  show();
  const count = (lines) => lines.filter(matches).length;
  const counts = [stages[before], stages[after]].map((s) => count(s.lines.map(([t]) => t)));
  const own = count(data.sources.flatMap((file) => file.lines));
  $("#told").textContent = sought ? `found in ${counts[0]} and ${counts[1]} lines, ${own} of the source` : "";
  for (const pane of panes) pane.reveal((r) => r.found);
}

function nextFound() {
  for (const pane of panes) {
    const middle = (pane.element.scrollTop + pane.element.clientHeight / 2) / HEIGHT;
    const all = pane.rows.flatMap((r, i) => (r.found ? [i] : []));
    if (all.length) pane.center(all.find((i) => i > middle) ?? all[0]);
  }
}

function select(css, set) {
  stages.forEach((s, i) => {
    const known = s.known_as && s.known_as !== s.name ? `  (${s.known_as})` : "";
    $(css).add(new Option(`${i + 1}  ${s.name}${known}`, i));
  });
  $(css).addEventListener("change", () => { set(Number($(css).value)); show(); $(css).blur(); });
}
select("#from", (i) => { before = i; });
select("#to", (i) => { after = i; });
$("#previous").addEventListener("click", () => step(-1));
$("#next").addEventListener("click", () => step(1));
$("#search").addEventListener("input", () => search($("#search").value));
$("#search").addEventListener("keydown", (e) => { if (e.key === "Enter") nextFound(); });

const KEYS = {
  ArrowRight: () => step(1), j: () => step(1), ArrowLeft: () => step(-1), k: () => step(-1),
  ArrowDown: () => stepLine(1), ArrowUp: () => stepLine(-1), n: nextFound,
  "/": () => { open("code"); $("#search").focus(); },
};
addEventListener("keydown", (e) => {
  if (e.key === "Escape") {
    $("#search").value = "";
    $("#search").blur();
    pinned = pointed = null;
    search("");
  } else if (KEYS[e.key] && !e.ctrlKey && !e.metaKey && !e.altKey && !e.target.closest("input, select")) {
    e.preventDefault();
    KEYS[e.key]();
  }
});
addEventListener("resize", light);
$("details")?.addEventListener("toggle", light);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", light);
tables();
show();
document.documentElement.dataset.ready = "yes";
