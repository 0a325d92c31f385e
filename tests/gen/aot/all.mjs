// Runs every function of a folder once, as main.c does: arguments from in.bin, results to out.bin.
import fs from "node:fs";

const input = fs.readFileSync("in.bin"), out = [];
let at = 0;
const take = (n) => input.subarray(at, (at += n));
const bytes = (view) => new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
const { load } = await import(`file://${process.cwd()}/loader.js`);

for (const name of JSON.parse(process.argv[2])) {
  const said = JSON.parse(fs.readFileSync(`${name}.json`, "utf8"));
  const given = said.arguments.map((a) => [a.name, take(a.bytes)]);
  const weights = new Uint8Array(take(said.weights));
  const f = await load(fs.readFileSync(`${name}.wasm`), said, weights);
  for (const [key, data] of given) bytes(f.arguments[key] ?? f.state[key]).set(data);
  f.call();
  out.push(new Uint8Array(4));
  for (const r of said.results) out.push(bytes(r.into ? f.state[r.into] : f.results[r.name]).slice());
}
fs.writeFileSync("out.bin", Buffer.concat(out));
