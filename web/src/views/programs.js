// Programs, for several views: names, kinds, the row of a source, stages.

import { namesOf, unpackSources } from "../data/names.js";
import { unpack } from "../data/records.js";
import { Texts } from "../data/texts.js";

/** @type {WeakMap<object, ReturnType<typeof namesOf>>} by the worker's answer */
const made = new WeakMap();

/** @param {App} app @param {number} [report] */
export async function programNames(app, report = app.report) {
  const programs = await app.client.ask(report, "programs");
  const names =
    made.get(programs) ??
    namesOf(
      { ...programs, name: new Texts(programs.name), type: new Texts(programs.type) },
      unpackSources(await app.client.ask(report, "sources")),
    );
  made.set(programs, names);
  return names;
}

/** All columns of the programs. @param {App} app @param {Programs} names */
export async function programNumbers(app, names) {
  return { ...names.programs, ...(await app.ask("programNumbers")) };
}

/** The operations of a layer, those with most cycles first. @param {App} app
 * @param {string} layer @returns {Promise<any[]>} */
export async function operationsIn(app, layer) {
  return unpack(await app.ask("operations", layer));
}

/** The stage of a pipeline that an instruction is in. @param {Programs} names @returns {Map<string, number>} */
export function stagesOf(names) {
  const { stage } = names.programs;
  const found = new Map();
  for (let i = 0; i < stage.length; ++i) if (stage[i] >= 0) found.set(names.source(i)?.hlo, stage[i]);
  return found;
}

/** @typedef {Awaited<ReturnType<typeof programNames>>} Programs */
