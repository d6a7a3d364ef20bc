// Programs, for several views: names, kinds, the row of a source, stages.

import { namesOf } from "../data/names.js";

/** @type {WeakMap<object, ReturnType<typeof namesOf>>} by the worker's answer */
const made = new WeakMap();

/** @param {import("../base/app.js").App} app */
export async function programNames(app) {
  const programs = await app.ask("programs");
  const sources = await app.ask("sources");
  const names = made.get(programs) ?? namesOf(programs, sources);
  made.set(programs, names);
  return names;
}

/** The stage of a pipeline that an instruction is in. @param {import("../base/app.js").App} app
 * @param {any[][]} sources @returns {Promise<Map<string, number>>} */
export async function stagesOf(app, sources) {
  const { source, stage } = await app.ask("programs");
  const names = new Map(sources.map((row) => [row[0], row[1]]));
  const found = new Map();
  for (let i = 0; i < source.length; ++i) if (stage[i] >= 0) found.set(names.get(source[i]), stage[i]);
  return found;
}

/** @typedef {Awaited<ReturnType<typeof programNames>>} Programs */
