// The same in Node: the module, its loader, and the JSON.
import fs from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";

const folder = path.resolve(process.argv[2], "web");
const { load } = await import(pathToFileURL(path.join(folder, "loader.js")));
const read = (name) => fs.readFileSync(path.join(folder, name));

const description = JSON.parse(read("classify.json"));
const weights = new Uint8Array(read("classify.weights.bin"));
const f = await load(read("classify.wasm"), description, weights);
const { result } = f.call({ x: Array.from({ length: 64 }, (_, i) => i / 64) });
console.log([...result].map((share) => share.toFixed(6)).join(" "));
