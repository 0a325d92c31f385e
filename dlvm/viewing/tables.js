// The tabs beside the code: laws, refused fusions, the profile and the memory plan.
const SVG = "http://www.w3.org/2000/svg";

function open(name) {
  for (const tab of document.querySelectorAll("[role=tab]")) {
    tab.setAttribute("aria-selected", tab.dataset.tab === name);
    $(`#${tab.dataset.tab}`).hidden = tab.dataset.tab !== name;
  }
  if (name === "code") light();
}

function element(tag, text, children = []) {
  const made = document.createElement(tag);
  made.textContent = text;
  made.append(...children);
  return made;
}

// A table whose rows lead to the code: each is { cells, group, stage }.
function table(heads, rows) {
  const made = element("table", "", [element("tr", "", heads.map((h) => element("th", h)))]);
  for (const { cells, group, stage } of rows) {
    const row = element("tr", "", cells.map((c) => (c instanceof Node ? element("td", "", [c]) : element("td", c))));
    if (group && data.groups[group][0].length) lead(row, group, stage);
    made.append(row);
  }
  return made;
}

function lead(row, group, stage) {
  row.className = "leads";
  row.tabIndex = 0;
  const go = () => {
    const at = stages.findIndex((s) => s.name === stage);
    if (at > 0) [before, after] = [at - 1, at];
    pinned = { places: whole(group), row: { group: 0 } };
    open("code");
    show();
    for (const pane of panes) pane.reveal(pane.lit);
  };
  row.addEventListener("click", go);
  row.addEventListener("keydown", (e) => { if (e.key === "Enter") go(); });
}

function seconds(s) {
  for (const [unit, size] of [["s", 1], ["ms", 1e-3], ["µs", 1e-6]]) if (s >= size) return `${(s / size).toPrecision(3)} ${unit}`;
  return `${(s / 1e-9).toFixed(0)} ns`;
}

function bytes(n) {
  if (n === null) return "?";
  for (const [unit, size] of [["GB", 1e9], ["MB", 1e6], ["kB", 1e3]]) if (n >= size) return `${(n / size).toPrecision(3)} ${unit}`;
  return `${n} B`;
}

function laws() {
  const rows = data.laws.map((l) => ({
    cells: [l.stage, l.name, l.law, l.line, l.saved.replace(/^saves /, ""), l.count > 1 ? `${l.count} times` : ""],
    group: l.group, stage: l.stage, weighed: l.saved !== "",
  }));
  rows.sort((a, b) => b.weighed - a.weighed);
  return [table(["pass", "law", "equation", "line", "saved", ""], rows)];
}

// By reason, what moves most bytes first.
function refused() {
  const reasons = new Map();
  for (const r of data.refused) reasons.set(r.why, [...(reasons.get(r.why) ?? []), r]);
  const moved = (all) => all.reduce((sum, r) => sum + r.bytes, 0);
  const ranked = [...reasons].sort(([, a], [, b]) => moved(b) - moved(a));
  return ranked.flatMap(([why, all]) => [
    element("h2", `${why} (${all.length})`),
    table(["bytes moved", "value", "written at", "read at"], all.map((r) => (
      { cells: [r.moved, r.type, r.source, r.reader], group: r.group, stage: kernelStage() }))),
  ]);
}

const kernelStage = () => stages.find((s) => s.known_as === "kernels")?.name;

function profile() {
  const { profile: p } = data;
  const bar = (share) => {
    const meter = element("span", "");
    meter.className = "bar";
    meter.style.width = `${8 * share}rem`;
    return element("span", "", [meter, `${(100 * share).toFixed(1)} %`]);
  };
  const rows = p.parts.map((x) => ({
    group: x.group, stage: kernelStage(),
    cells: [x.name, seconds(x.seconds), bar(x.seconds / p.seconds), String(x.runs), x.flops === null ? "?" : String(x.flops),
      bytes(x.bytes), x.roofline === null ? "" : `${(100 * x.roofline).toFixed(0)} % ${x.bound}`, x.lines.join(", ")],
  }));
  rows.push({ cells: ["between kernels", seconds(p.between), bar(p.between / p.seconds), "", "", "", "", ""] });
  return [
    element("p", `${seconds(p.seconds)} on one core, the fastest of ${p.calls} calls; ${seconds(p.ordinary)} without timers on the usual threads`),
    ...p.hints.map((hint) => element("p", `hint: ${hint}`)),
    table(["step", "time", "share", "runs", "flops", "bytes", "roofline", "lines"], rows),
  ];
}

function memory() {
  return data.memory.flatMap((f) => [
    element("h2", `@${f.name}: arena of ${f.arena === null ? `${f.arena_text} bytes` : bytes(f.arena)}, ${f.steps} steps`),
    ...(f.buffers.some((b) => b.bytes) ? [drawing(f)] : []),
    table(["buffer", "bytes", "at", "in use", "at the peak", "made at"], f.buffers.map((b) => ({
      group: b.group, stage: kernelStage(),
      cells: [b.name, bytes(b.bytes), b.at === null ? "" : String(b.at), `steps ${b.first} to ${b.last}`, b.peak ? "peak" : "", b.lines.join(", ")],
    }))),
  ]);
}

// Buffers over the steps in which they are in use and the addresses they take; results lie above.
function drawing(f) {
  const known = f.buffers.filter((b) => b.bytes !== null);
  const placed = known.every((b) => b.at !== null || b.first === 0) && f.arena !== null;
  let top = placed ? f.arena : 0;
  const boxes = known.map((b) => {
    const at = placed && b.at !== null ? b.at : top;
    if (at === top && !(placed && b.at !== null)) top += b.bytes;
    return { b, at };
  });
  const [width, height] = [960, 260], svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", `0 0 ${width} ${height + 24}`);
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", `the lives of the buffers of ${f.name}`);
  const add = (tag, values, text = "", to = svg) => {
    const made = to.appendChild(document.createElementNS(SVG, tag));
    for (const [name, value] of Object.entries(values)) made.setAttribute(name, value);
    if (text) made.textContent = text;
    return made;
  };
  const step = width / Math.max(1, f.steps), scale = height / Math.max(1, top);
  for (const { b, at } of boxes) {
    const box = { x: b.first * step + 1, width: Math.max(1, (b.last - b.first + 1) * step - 2) };
    const tall = Math.max(1.5, b.bytes * scale - 1.5), y = height - at * scale - b.bytes * scale;
    const kind = `${b.peak ? "peak" : "life"}${b.at === null ? " given" : ""}`;
    const rect = add("rect", { ...box, y, height: tall, rx: 2, class: kind });
    add("title", {}, `${b.name}: ${bytes(b.bytes)}, steps ${b.first} to ${b.last}, ${b.lines.join(", ")}`, rect);
    if (tall > 14 && box.width > 60) add("text", { x: box.x + 6, y: y + Math.min(tall / 2 + 4, 15) }, `${b.name}  ${bytes(b.bytes)}`);
  }
  add("text", { x: 0, y: height + 18, class: "axis" }, "steps of the program →, addresses ↑; results lie above the arena; orange buffers are in use at the peak");
  return svg;
}

function tables() {
  const made = { laws, refused, profile, memory };
  const count = { laws: data.laws.length, refused: data.refused.length };
  for (const [name, make] of Object.entries(made)) {
    const tab = $(`[data-tab=${name}]`), some = data[name] && data[name].length !== 0;
    if (count[name] !== undefined) tab.textContent += ` (${count[name]})`;
    tab.disabled = !some;
    if (some) $(`#${name}`).append(...make());
  }
  for (const tab of document.querySelectorAll("[role=tab]")) tab.addEventListener("click", () => open(tab.dataset.tab));
}
