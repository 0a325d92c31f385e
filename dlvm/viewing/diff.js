// Compares two texts of the compiler. Results of operations are numbered in order, so one that goes
// renumbers all after it: lines are aligned without their numbers, then the numbers are compared
// under the renaming that the alignment implies.

// The pairs of a longest common subsequence, by Hunt and Szymanski (1977): quick where keys are rare.
function aligned(a, b) {
  let start = 0, end = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start++;
  const left = Math.min(a.length, b.length) - start;
  while (end < left && a[a.length - 1 - end] === b[b.length - 1 - end]) end++;
  const places = new Map();
  for (let j = b.length - end - 1; j >= start; j--) {
    if (!places.has(b[j])) places.set(b[j], []);
    places.get(b[j]).push(j);
  }
  const ends = [], chains = [];
  for (let i = start; i < a.length - end; i++) {
    for (const j of places.get(a[i]) ?? []) {
      let low = 0, high = ends.length;
      while (low < high) {
        const middle = (low + high) >> 1;
        if (ends[middle] < j) low = middle + 1; else high = middle;
      }
      if (ends[low] === j) continue;
      ends[low] = j;
      chains[low] = { i, j, before: chains[low - 1] };
    }
  }
  const middle = [];
  for (let at = chains.at(-1); at; at = at.before) middle.push([at.i, at.j]);
  const first = Array.from({ length: start }, (_, i) => [i, i]);
  const last = Array.from({ length: end }, (_, i) => [a.length - end + i, b.length - end + i]);
  return [...first, ...middle.reverse(), ...last];
}

const NUMBER = /%\d+/g, DEFINED = /^\s*(%\d+(?:, %\d+)*) = /;

// For each line, the number of the line that opened the numbering it belongs to.
function scopes(stage) {
  const open = [-1];
  return stage.lines.map(([text], i) => {
    const inner = stage.kind === "ir" || !text.startsWith(" ");
    if (/^\s*}/.test(text)) { if (open.length > 1) open.pop(); return open.at(-1); }
    const now = open.at(-1);
    if (text.endsWith("{")) open.push(inner ? i : now);
    return now;
  });
}

// Rows of two columns: [line of a or null, line of b or null, "same", "gone", "new" or "changed"].
function compared(a, b) {
  const key = ([text, group]) => `${text.replace(NUMBER, "%")}\0${group}`;
  const pairs = aligned(a.lines.map(key), b.lines.map(key));
  const [inA, inB] = [scopes(a), scopes(b)], renamed = new Map(), rows = [];
  let i = 0, j = 0;
  for (const [m, n] of [...pairs, [a.lines.length, b.lines.length]]) {
    for (; i < m && j < n; i++, j++) rows.push([i, j, "replaced"]);
    for (; i < m; i++) rows.push([i, null, "gone"]);
    for (; j < n; j++) rows.push([null, j, "new"]);
    if (m < a.lines.length) rows.push([i++, j++, "same"]);
  }
  for (const row of rows) if (row[2] === "same" && !agree(row)) row[2] = "changed";
  return rows;

  function agree([i, j]) {
    const [x, y] = [a.lines[i][0], b.lines[j][0]];
    const own = DEFINED.exec(x)?.[1].match(NUMBER).length ?? 0;
    const [names, others] = [x.match(NUMBER) ?? [], y.match(NUMBER) ?? []];
    let same = true;
    names.forEach((name, k) => {
      const [from, to] = [`${inA[i]}${name}`, `${inB[j]}${others[k]}`];
      if (k < own) renamed.set(from, to); else same &&= renamed.get(from) === to;
    });
    return same;
  }
}

// The rows with long runs of unchanged ones in folds: { fold: [rows] } where a run is not open.
function folded(rows, isDull, open, context = 3, least = 4) {
  const out = [];
  for (let at = 0; at < rows.length;) {
    let end = at;
    while (end < rows.length && isDull(rows[end])) end++;
    const from = at ? at + context : at, to = end < rows.length ? end - context : end;
    if (to - from >= least && !open.has(from)) {
      out.push(...rows.slice(at, from), { fold: rows.slice(from, to), from }, ...rows.slice(to, end));
    } else out.push(...rows.slice(at, end));
    if (end < rows.length) out.push(rows[end]);
    at = end + 1;
  }
  return out;
}
