// Runs a function that dlvm compiled to WebAssembly, in a page or in Node:
//
//   const f = await load(wasm, description, weights);
//   f.call({ x: [1, 2, 3] }).result0
//
// f.arguments, f.state and f.results are typed arrays by name, which the next call overwrites.
// bf16, and f16 in engines without Float16Array, are the bits in a Uint16Array.
const VIEWS = {
  f64: Float64Array, f32: Float32Array, f16: globalThis.Float16Array ?? Uint16Array,
  bf16: Uint16Array, i64: BigInt64Array, i32: Int32Array, i16: Int16Array, i8: Int8Array,
  u64: BigUint64Array, u32: Uint32Array, u16: Uint16Array, u8: Uint8Array, bool: Uint8Array,
};
const LINE = 64, PAGE = 65536;

// The only reader of a description.
export function read({ name, arguments: all, results, weights = 0, scratch = 0, errors = {} }) {
  if (scratch === null) throw TypeError(`${name} has open sizes`);
  const array = (a) => {
    if (!VIEWS[a.dtype]) throw TypeError(`${a.name}: unknown element type ${a.dtype}`);
    return { ...a, count: a.shape.reduce((m, n) => m * n, 1), View: VIEWS[a.dtype] };
  };
  const own = all.filter((a) => a.role !== "weight").map(array);
  return { name, own, results: results.map(array), weights, scratch, errors };
}

// Writes values into an array, if they are of its number and type.
export function put({ name, dtype, count, View, view }, given) {
  const values = typeof given === "object" ? given : [given], plain = Array.isArray(values);
  const float = /^b?f/.test(dtype), kind = float && View === Uint16Array ? "" : typeof view[0];
  const check = (good, found) => {
    const form = plain && kind ? `${kind}s` : View.name;
    if (!good) throw TypeError(`${name}: expected ${count} of ${dtype} as ${form}, found ${found}`);
  };
  check(plain || values?.constructor === View, values?.constructor.name);
  check(values.length === count, `${values.length} elements`);
  for (const v of plain ? values : []) {
    check(typeof v === kind, typeof v);
    check(float || View.of(v)[0] === v, v);
  }
  check(dtype !== "bool" || values.every((v) => v < 2), "a number above 1");
  view.set(values);
}

export async function load(wasm, description, weights = new Uint8Array()) {
  const { name, own, results, weights: size, scratch, errors } = read(description);
  if (!(weights instanceof Uint8Array && weights.length === size)) {
    throw TypeError(`expected weights as Uint8Array of ${size}, found ${weights?.length}`);
  }
  const { exports } = (await WebAssembly.instantiate(wasm)).instance;
  const { memory, __stack_pointer: stack, __heap_base: heap } = exports;
  let top = heap.value;
  const take = (bytes) => (top = Math.ceil(top / LINE) * LINE + bytes) - bytes;
  const placed = [...own, ...results.filter((r) => r.into === undefined)];
  for (const a of placed) a.at = take(a.count * a.View.BYTES_PER_ELEMENT);
  const constants = take(size), regions = [constants, take(scratch)];
  memory.grow(Math.max(0, Math.ceil((top - memory.buffer.byteLength) / PAGE)));
  new Uint8Array(memory.buffer).set(weights, constants);
  for (const a of results) a.at ??= own.find((o) => o.name === a.into).at;
  for (const a of [...own, ...results]) a.view = new a.View(memory.buffer, a.at, a.count);
  const named = (arrays) => Object.fromEntries(arrays.map((a) => [a.name, a.view]));
  const state = own.filter((a) => a.role === "state"), base = stack.value, views = named(results);
  return {
    arguments: named(own.filter((a) => !state.includes(a))),
    state: named(state),
    results: views,
    call(inputs = {}) {
      for (const key in inputs) {
        const found = own.find((a) => a.name === key);
        if (!found) throw TypeError(`${name} takes ${own.map((a) => a.name)}, found ${key}`);
        put(found, inputs[key]);
      }
      stack.value = base; // a call that trapped has kept its part of the stack
      const given = placed.map((a) => (a.by === "value" ? a.view[0] : a.at));
      const status = exports[name](...given, ...regions);
      if (status) throw Error(errors[status] ?? `${name} failed with status ${status}`);
      return views;
    },
  };
}
