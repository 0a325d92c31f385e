// Runs a function by WebGPU, or by WebAssembly where that is not there, in a page or in Node:
//
//   const f = await loadEither(wasm, description, weights, gpu);
//   console.log((await f.call({ x: [1, 2, 3] })).result0, f.device);
//
// f.device is "webgpu" or "wasm", and f.why says why it is not WebGPU. f.arguments, f.state and
// f.results are as those of load. State stays on the device: the first call takes it from f.state,
// later ones where they are given it, and f.read() copies it back.
import { load, put, read } from "./loader.js";

const LIMITS = ["maxBufferSize", "maxStorageBufferBindingSize", "maxStorageBuffersPerShaderStage",
  "maxComputeWorkgroupStorageSize", "maxComputeInvocationsPerWorkgroup",
  "maxComputeWorkgroupSizeX"];
const APART = 256, COMPUTE = 4, STATUS = 32, OTHER = 0x7fffffff;
const up = (size, step) => Math.ceil(size / step) * step;

// The device of the page, with all that its adapter offers.
async function opened() {
  const adapter = await globalThis.navigator?.gpu?.requestAdapter();
  if (!adapter) throw Error("there is no device of WebGPU");
  const requiredLimits = Object.fromEntries(LIMITS.map((key) => [key, adapter.limits[key]]));
  return adapter.requestDevice({ requiredLimits });
}

// What `work` gives; throws what the device finds wrong meanwhile.
async function checked(device, work) {
  const kinds = ["internal", "out-of-memory", "validation"];
  let found, error;
  for (const kind of kinds) device.pushErrorScope(kind);
  try {
    found = await work();
  } catch (thrown) {
    error = thrown;
  }
  const wrong = await Promise.all(kinds.map(() => device.popErrorScope()));
  error = wrong.find(Boolean) ?? error;
  if (error) throw Error(error.message);
  return found;
}

// Every kernel, compiled.
async function compiled(device, { text, kernels }) {
  const module = device.createShaderModule({ code: text });
  const one = async ([entryPoint, parts]) => {
    const entries = Array.from({ length: parts + 1 }, (_, binding) => ({
      binding, visibility: COMPUTE, buffer: { type: binding === 1 ? "uniform" : "storage" },
    }));
    const bound = device.createBindGroupLayout({ entries });
    const layout = device.createPipelineLayout({ bindGroupLayouts: [bound] });
    const compute = { module, entryPoint };
    return [entryPoint, await device.createComputePipelineAsync({ layout, compute })];
  };
  return Object.fromEntries(await Promise.all(Object.entries(kernels).map(one)));
}

// The steps of a call with their pipelines and bindings, made once.
function prepared(device, gpu, buffers, kernels) {
  const usage = GPUBufferUsage.UNIFORM | GPUBufferUsage.COPY_DST;
  const most = device.limits.maxComputeWorkgroupsPerDimension;
  const starts = [];
  let top = 0;
  for (const { words = [] } of gpu.steps) {
    starts.push(top);
    top = up(top + 4 * words.length, APART);
  }
  const told = device.createBuffer({ size: Math.max(top, APART), usage });
  const launch = ({ kernel, blocks, words, parts }, start) => {
    device.queue.writeBuffer(told, start, Uint32Array.from(words));
    const [status, ...others] = parts.map(([n, offset, size]) => ({ buffer: buffers[n], offset, size }));
    const own = { buffer: told, offset: start, size: 4 * words.length };
    const entries = [status, own, ...others].map((resource, binding) => ({ binding, resource }));
    const pipeline = kernels[kernel], layout = pipeline.getBindGroupLayout(0);
    const group = device.createBindGroup({ layout, entries });
    return { pipeline, group, blocks: Math.min(blocks, most) }; // blocks stride over the rest
  };
  const copy = ([from, start, bytes], [to, end]) => [buffers[from], start, buffers[to], end, bytes];
  return gpu.steps.map((step, i) =>
    step.kernel ? launch(step, starts[i]) : { copy: copy(step.source, step.target) });
}

// Records all steps: launches that follow one another are one pass.
function record(encoder, steps) {
  let pass = null;
  for (const { copy, pipeline, group, blocks } of steps) {
    if (copy) {
      pass?.end();
      pass = null;
      encoder.copyBufferToBuffer(...copy);
      continue;
    }
    pass ??= encoder.beginComputePass();
    pass.setPipeline(pipeline);
    pass.setBindGroup(0, group);
    pass.dispatchWorkgroups(blocks);
  }
  pass?.end();
}

// What takes arrays from the memory of the device into their views, by one buffer that is mapped.
function reader(device, memory, arrays) {
  let top = 0;
  const parts = arrays.map(({ at, view }) => {
    const start = top, bytes = up(view.byteLength, 4);
    top += bytes;
    return { at, view, start, bytes };
  });
  const usage = GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST;
  const held = device.createBuffer({ size: Math.max(top, 4), usage });
  return {
    record(encoder) {
      for (const { at, start, bytes } of parts) {
        if (bytes) encoder.copyBufferToBuffer(memory, at, held, start, bytes);
      }
    },
    async read() {
      await held.mapAsync(GPUMapMode.READ);
      const all = new Uint8Array(held.getMappedRange());
      for (const { view, start } of parts) {
        const to = new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
        to.set(all.subarray(start, start + view.byteLength));
      }
      held.unmap();
    },
  };
}

async function onDevice(description, weights, gpu) {
  const device = await opened(), { name, own, results, errors } = read(description);
  const usage = GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST;
  const write = (buffer, at, bytes) => {
    const whole = bytes.length % 4 ? new Uint8Array(up(bytes.length, 4)) : bytes;
    if (whole !== bytes) whole.set(bytes);
    device.queue.writeBuffer(buffer, at, whole);
  };
  const { buffers, steps } = await checked(device, async () => {
    const buffers = gpu.buffers.map((size) => device.createBuffer({ size: Math.max(size, 4), usage }));
    for (const [at, start, bytes] of gpu.weights) {
      write(buffers[0], at, weights.subarray(start, start + bytes));
    }
    return { buffers, steps: prepared(device, gpu, buffers, await compiled(device, gpu)) };
  });
  for (const [i, a] of own.entries()) {
    a.at = gpu.arguments[i];
    a.view = new a.View(a.count);
  }
  for (const [i, a] of results.entries()) {
    a.at = gpu.results[i];
    a.view = own.find((o) => o.name === a.into)?.view ?? new a.View(a.count);
  }
  const status = new BigInt64Array(STATUS / 8), [memory] = buffers;
  const fresh = results.filter((a) => a.into === undefined), stay = own.filter((a) => a.role === "state");
  const failed = { at: gpu.status, view: status };
  const back = reader(device, memory, [failed, ...fresh]);
  const kept = reader(device, memory, stay), changed = new Set(stay);
  const named = (arrays) => Object.fromEntries(arrays.map((a) => [a.name, a.view]));
  const views = named(results), state = named(stay);

  async function submit(to, work) {
    await checked(device, () => {
      const encoder = device.createCommandEncoder();
      work(encoder);
      to.record(encoder);
      device.queue.submit([encoder.finish()]);
    });
    await to.read();
  }
  async function call(inputs = {}) {
    for (const key in inputs) {
      const found = own.find((a) => a.name === key);
      if (!found) throw TypeError(`${name} takes ${own.map((a) => a.name)}, found ${key}`);
      put(found, inputs[key]);
      if (found.role === "state") changed.add(found);
    }
    for (const a of own) {
      const { buffer, byteOffset, byteLength } = a.view;
      if (a.role !== "state" || changed.delete(a)) {
        write(memory, a.at, new Uint8Array(buffer, byteOffset, byteLength));
      }
    }
    await submit(back, (encoder) => {
      encoder.clearBuffer(memory, gpu.status, STATUS);
      record(encoder, steps);
    });
    if (status[0]) {
      const code = Math.min(Number(status[0]), OTHER);
      throw Error(errors[code] ?? `${name} failed with status ${code}`);
    }
    return views;
  }
  let last = Promise.resolve(); // calls follow one another, as they share buffers
  const after = (work) => (last = last.catch(() => {}).then(work));
  return {
    device: "webgpu",
    arguments: named(own.filter((a) => a.role !== "state")),
    state,
    results: views,
    call: (inputs) => after(() => call(inputs)),
    read: () => after(() => stay.length && submit(kept, () => {})).then(() => state),
  };
}

export async function loadEither(wasm, description, weights, gpu) {
  try {
    return await onDevice(description, weights ?? new Uint8Array(), gpu);
  } catch (error) {
    const f = await load(wasm, description, weights), call = async (inputs) => f.call(inputs);
    return { ...f, device: "wasm", why: error.message, call, read: async () => f.state };
  }
}
