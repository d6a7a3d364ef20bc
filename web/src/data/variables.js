// The variables of a program as columns: there may be a million, and a row is made where it is shown.

import { placeOf, Sources } from "./names.js";

const NUMBERS = (
  "id source elements category always_live ipu tiles worst_bytes total_bytes is_input is_output is_weight " +
  "interleaved first_step end_step distribution"
).split(" ");
const PLAIN = NUMBERS.slice(NUMBERS.indexOf("always_live"));

/** @param {Profile} profile */
export function variablesIn(profile) {
  return profile.once("variables", () => {
    const { database } = profile;
    const c = database.has("variables")
      ? database.columns("variables", NUMBERS, NUMBERS.length)
      : Object.fromEntries(NUMBERS.map((name) => [name, new Float64Array(0)]));
    const [names, types] = database.has("variables") ? database.texts("variables", ["name", "dtype"]) : [];
    const sources = new Sources(profile.sourceTable());
    const categories = new Map(
      database.records("var_categories", ["id", "name"]).map((row) => /** @type {[number, string]} */ (row)),
    );
    const count = c.id.length;
    /** @type {Map<string, Map<number, string>>} */
    const known = new Map();
    /** What the variable's instruction says, "" where it has none; kept, because many have the same.
     * @param {string} what @param {(source: import("./names.js").Source) => string} read */
    const ofSource = (what, read) => {
      const kept = known.get(what) ?? new Map();
      known.set(what, kept);
      return (/** @type {number} */ i) => {
        let text = kept.get(c.source[i]);
        if (text === undefined) {
          const source = sources.byId(c.source[i]);
          kept.set(c.source[i], (text = source === undefined ? "" : read(source)));
        }
        return text;
      };
    };
    const op = ofSource("op", (source) => source.op || source.hlo);
    const layer = ofSource("layer", (source) => source.text("layer"));
    const where = ofSource("where", (source) => source.where);
    const alive = (/** @type {number} */ i, /** @type {number} */ step) =>
      c.always_live[i] === 1 || (c.first_step[i] <= step && step < c.end_step[i]);
    /** The places that a test holds for. @param {(i: number) => boolean} holds */
    const places = (holds) => {
      const found = [];
      for (let i = 0; i < count; ++i) if (holds(i)) found.push(i);
      return found;
    };
    /** id, name, source, type, elements, category, always live, IPU, tiles, bytes on the fullest tile, on all
     * tiles, input, output, weight, interleaved, first step, end, distribution, operation, layer, line.
     * @param {number} i @returns {any[]} */
    const row = (i) => [
      c.id[i],
      names?.at(i) ?? "",
      c.source[i],
      types?.at(i) ?? "",
      c.elements[i],
      categories.get(c.category[i]) ?? null,
      ...PLAIN.map((name) => c[name][i]),
      op(i),
      layer(i),
      where(i),
    ];
    const type = (/** @type {number} */ i) => types?.at(i) ?? "";
    const name = (/** @type {number} */ i) => names?.at(i) ?? "";
    const category = (/** @type {number} */ i) => categories.get(c.category[i]) ?? "";
    return { c, count, op, layer, where, type, name, category, alive, places, row };
  });
}

/** @param {Profile} profile @param {number[]} ids in the order of the answer */
export function variablesById(profile, ids) {
  const { c, row } = variablesIn(profile);
  return ids
    .map((id) => placeOf(c.id, id))
    .filter((i) => i >= 0)
    .map(row);
}

/** The variables of an operation, a name scope or a source line.
 * @param {Profile} profile @param {string} layer @param {string} name */
export function variablesOf(profile, layer, name) {
  const all = variablesIn(profile);
  /** @type {Record<string, (i: number) => boolean>} */
  const tests = {
    op: (i) => all.op(i) === name,
    scope: (i) => `${all.layer(i)}/`.startsWith(`${name}/`),
    source: (i) => all.where(i) === name,
  };
  return layer in tests ? all.places(tests[layer]).map(all.row) : [];
}

/** The variables of an instruction that are alive at a step.
 * @param {Profile} profile @param {number} source @param {number} step */
export function variablesOfSource(profile, source, step) {
  const { c, alive, places, row } = variablesIn(profile);
  return source >= 0 ? places((i) => c.source[i] === source && alive(i, step)).map(row) : [];
}

/** What becomes alive at a step and what died before it: the first few, and how many.
 * @param {Profile} profile @param {number} step */
export function turnover(profile, step) {
  const { c, places, row } = variablesIn(profile);
  const some = (/** @type {Float64Array} */ steps) => {
    const found = places((i) => c.always_live[i] !== 1 && steps[i] === step);
    return { rows: found.slice(0, 8).map(row), count: found.length };
  };
  return { born: some(c.first_step), died: some(c.end_step) };
}
