// The controls of a page: a canvas or numbers for each argument, bars or numbers for each result.
// It stands behind loader.js in one script.
const data = JSON.parse(document.getElementById("data").textContent);
const { description, labels, ink, gpu } = data;
const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
const place = (id) => document.getElementById(id);
const MOST = 200; // numbers of a result that are shown
const TYPED = 10000; // numbers of an argument that may be typed
const status = place("status");

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  Object.assign(made, attributes);
  made.append(...children);
  return made;
}

// The side of a square image, or 0: of n x n elements, as n by n or in one row, n at least 8.
function side({ shape, dtype }) {
  const count = shape.reduce((m, n) => m * n, 1), n = Math.round(Math.sqrt(count));
  const [last, before] = shape.toReversed();
  const square = n * n === count && (last === count || (last === n && before === n));
  return square && n >= 8 && ["f32", "f64", "u8"].includes(dtype) ? n : 0;
}

// Draws with a round brush whose edge is soft; `view` has the image.
function canvas(view, n, changed) {
  const paper = element("canvas", { width: n, height: n });
  const pen = paper.getContext("2d"), radius = Math.max(0.4, n / 20);
  let last = null;
  const show = () => {
    const image = pen.createImageData(n, n);
    for (let i = 0; i < n * n; i++) {
      image.data.fill(255 * (1 - Number(view[i]) / ink), 4 * i, 4 * i + 3);
      image.data[4 * i + 3] = 255;
    }
    pen.putImageData(image, 0, 0);
  };
  const dab = (x, y) => {
    for (let i = 0; i < n * n; i++) {
      const away = Math.hypot((i % n) + 0.5 - x, Math.floor(i / n) + 0.5 - y);
      view[i] = Math.max(view[i], ink * Math.min(1, Math.max(0, radius + 1 - away)));
    }
  };
  const draw = (event) => {
    const { left, top, width, height } = paper.getBoundingClientRect();
    const to = [((event.clientX - left) / width) * n, ((event.clientY - top) / height) * n];
    const from = last ?? to;
    const steps = Math.ceil(Math.hypot(to[0] - from[0], to[1] - from[1]) * 2) || 1;
    for (let s = 1; s <= steps; s++) {
      dab(...[0, 1].map((k) => from[k] + ((to[k] - from[k]) * s) / steps));
    }
    last = to;
    show();
    changed();
  };
  paper.onpointerdown = (event) => {
    if (event.isTrusted) paper.setPointerCapture(event.pointerId);
    last = null;
    draw(event);
  };
  paper.onpointermove = (event) => { if (event.buttons) draw(event); };
  const clear = () => { view.fill(0); show(); changed(); };
  show();
  return [paper, element("button", { type: "button", textContent: "Clear", onclick: clear })];
}

// Numbers in a field, separated by spaces or commas.
function numbers(view, name, changed) {
  if (view.length > TYPED) return [`${view.length} numbers, which stay as they are`];
  const big = typeof view[0] === "bigint", value = Array.from(view).join(" ");
  const rows = Math.min(8, Math.ceil(view.length / 6));
  const kind = view.length > 1 ? ["textarea", { rows }] : ["input", { type: "text" }];
  const field = element(kind[0], { ...kind[1], value, ariaLabel: name, spellcheck: false });
  field.oninput = () => changed(() => {
    const words = field.value.split(/[\s,]+/).filter(Boolean);
    return { [name]: words.map((word) => {
      const read = big && /^[+-]?\d+$/.test(word) ? BigInt(word) : Number(word);
      if (Number.isNaN(read) && word !== "NaN") throw TypeError(`${name}: ${word} is not a number`);
      return read;
    }) };
  });
  return [field];
}

function shown(x) {
  if (Number.isInteger(x) || typeof x === "bigint") return `${x}`;
  return Math.abs(x) < 1e-3 || Math.abs(x) >= 1e6 ? x.toExponential(2) : x.toPrecision(4);
}

// Scores of classes as bars from the lowest, or from 0 where none is below it.
function bars(view) {
  const low = Math.min(0, ...view), high = Math.max(...view), best = view.indexOf(high);
  return Array.from(view, (x, i) => {
    const bar = element("i");
    bar.style.width = `${(100 * (x - low)) / (high - low || 1)}%`;
    const name = labels[i] ?? `${i}`;
    return element("div", { className: i === best ? "bar best" : "bar" },
      element("span", { textContent: name, title: name }), bar, element("b", {}, shown(x)));
  });
}

function result({ shape, dtype }, view) {
  const scores = view.length > 1 && view.length <= 100 && shape.at(-1) === view.length;
  if (scores && ["f32", "f64"].includes(dtype)) return bars(view);
  const more = view.length > MOST ? `\n… and ${view.length - MOST} more` : "";
  return [Array.from(view.subarray(0, MOST), shown).join(" ") + more];
}

const box = (name, kind, children) =>
  element("fieldset", { id: `${kind}-${name}` }, element("legend", {}, name), ...children);

// By what a function ran, where there was a choice.
const ways = { webgpu: () => " by WebGPU", wasm: (f) => ` by WebAssembly (${f.why})` };
let busy = false, next = null;

// A call by WebGPU ends later: of the calls that are asked for meanwhile the last one follows it.
function run(f, inputs) {
  if (busy) return void (next = inputs);
  try {
    const given = inputs(), start = performance.now(), made = f.call(given);
    if (!(made instanceof Promise)) return show(f, start);
    busy = true;
    made.then(f.read).then(() => show(f, start)).catch(fail).finally(() => {
      const inputs = next;
      busy = next = null;
      if (inputs) run(f, inputs);
    });
  } catch (error) {
    fail(error);
  }
}

function show(f, start) {
  const taken = (performance.now() - start).toFixed(2), how = ways[f.device]?.(f) ?? "";
  status.textContent = `${description.name}: ${taken} ms a call${how}`;
  status.setAttribute("role", "status");
  const made = ({ name, ...r }) => box(name, "result", result(r, f.results[name]));
  place("results").replaceChildren(...description.results.map(made));
}

function fail(error) {
  status.textContent = error.message;
  status.setAttribute("role", "alert");
}

async function start() {
  const parts = [bytes(data.wasm), description, bytes(data.weights)];
  const f = await (gpu ? loadEither(...parts, gpu) : load(...parts));
  const views = { ...f.arguments, ...f.state };
  for (const [name, text] of Object.entries(data.values)) {
    new Uint8Array(views[name].buffer, views[name].byteOffset).set(bytes(text));
  }
  // With state, a call is a step: it is made when it is asked for, and keeps what fields say.
  const steps = Object.keys(f.state).length > 0, pending = new Map();
  const given = () => Object.assign({}, ...[...pending.values()].map((read) => read()));
  const call = () => run(f, given);
  const own = description.arguments.filter((a) => f.arguments[a.name]);
  for (const a of own) {
    const view = f.arguments[a.name], n = side(a);
    const changed = (read) => { if (read) pending.set(a.name, read); if (!steps) call(); };
    const controls = n ? canvas(view, n, changed) : numbers(view, a.name, changed);
    place("inputs").append(box(a.name, "argument", controls));
  }
  place("inputs").onsubmit = (event) => { event.preventDefault(); call(); };
  if (!steps) return call();
  place("inputs").append(element("button", { textContent: "Step" }));
  status.textContent = "Ready";
}

await start().catch(fail);
document.documentElement.dataset.ready = "yes";
