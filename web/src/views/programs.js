// What several views know of programs: names, kinds, the row of a source, stages.

import { kindOf } from "../base/kinds.js";

/** @type {WeakMap<object, ReturnType<typeof namesOf>>} by what the worker told */
const made = new WeakMap();

/** @param {import("../base/app.js").App} app */
export async function programNames(app) {
  const programs = await app.ask("programs");
  const sources = await app.ask("sources");
  const names = made.get(programs) ?? namesOf(programs, sources);
  made.set(programs, names);
  return names;
}

/** @param {any} programs @param {any[][]} sources */
function namesOf(programs, sources) {
  const byId = new Map(sources.map((row) => [row[0], row]));
  const letters = [false, true].map((copies) =>
    programs.type.table.map((/** @type {string} */ type) => kindOf(type, copies)),
  );
  const name = (/** @type {number} */ p) =>
    p === -1
      ? "waiting for the host"
      : p === -2
        ? "loading the program"
        : (programs.name.table[programs.name.ids[p]] ?? "");
  const op = (/** @type {number} */ p) => {
    const source = byId.get(programs.source[p]);
    return source?.[3] || source?.[1] || name(p);
  };
  return {
    programs,
    name,
    /** @param {number} p */
    type: (p) => programs.type.table[programs.type.ids[p]] ?? "",
    /** @param {number} p */
    letter: (p) =>
      p === -1
        ? "W"
        : p === -2
          ? "L"
          : (letters[programs.copies[programs.compute_set[p]] === 1 ? 1 : 0][programs.type.ids[p]] ?? "T"),
    /** @param {number} p @returns {any[]|undefined} */
    source: (p) => byId.get(programs.source[p]),
    /** The operation as `tremula report` names it. */
    op,
  };
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
