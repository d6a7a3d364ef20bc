// The variables of a program as columns: there may be a million, and a row is made where it is shown.

import { placeOf, Sources } from "./names.js";
import { numbersAt, textsAt } from "./records.js";

const NUMBERS = (
  "id source elements category always_live ipu tiles worst_bytes total_bytes is_input is_output is_weight " +
  "interleaved first_step end_step distribution"
).split(" ");
const SHOWN = "id always_live worst_bytes total_bytes first_step end_step".split(" ");

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
    const type = (/** @type {number} */ i) => types?.at(i) ?? "";
    const name = (/** @type {number} */ i) => names?.at(i) ?? "";
    const category = (/** @type {number} */ i) => categories.get(c.category[i]) ?? "";
    /** Records of variables. @param {number[]} some their places @param {Record<string, any>} [more] numbers
     * @returns {import("./records.js").Records} */
    const packed = (some, more) => {
      const source = (/** @type {number} */ i) => c.source[i];
      return {
        count: some.length,
        numbers: { ...Object.fromEntries(SHOWN.map((key) => [key, numbersAt(c[key], some)])), ...more },
        texts: {
          name: textsAt(some, (i) => names?.ids[i] ?? 0, name),
          type: textsAt(some, (i) => types?.ids[i] ?? 0, type),
          category: textsAt(some, (i) => c.category[i], category),
          op: textsAt(some, source, op),
          layer: textsAt(some, source, layer),
          where: textsAt(some, source, where),
        },
      };
    };
    return { c, count, op, layer, where, type, name, category, alive, places, packed };
  });
}

/** @param {Profile} profile @param {number[]} ids in the order of the answer */
export function variablesById(profile, ids) {
  const { c, packed } = variablesIn(profile);
  return packed(ids.map((id) => placeOf(c.id, id)).filter((i) => i >= 0));
}

/** The variables of an operation, a name scope or a source line.
 * @param {Profile} profile @param {string} layer @param {string} name */
export function variablesOf(profile, layer, name) {
  const { op, layer: layerOf, where, places, packed } = variablesIn(profile);
  /** @type {Record<string, (i: number) => boolean>} */
  const tests = {
    op: (i) => op(i) === name,
    scope: (i) => `${layerOf(i)}/`.startsWith(`${name}/`),
    source: (i) => where(i) === name,
  };
  return packed(layer in tests ? places(tests[layer]) : []);
}

/** The variables of an instruction that are alive at a step.
 * @param {Profile} profile @param {number} source @param {number} step */
export function variablesOfSource(profile, source, step) {
  const { c, alive, places, packed } = variablesIn(profile);
  return packed(source >= 0 ? places((i) => c.source[i] === source && alive(i, step)) : []);
}

/** What becomes alive at a step and what died before it: the first few, and how many.
 * @param {Profile} profile @param {number} step */
export function turnover(profile, step) {
  const { c, places, packed } = variablesIn(profile);
  const some = (/** @type {Float64Array} */ steps) => {
    const found = places((i) => c.always_live[i] !== 1 && steps[i] === step);
    return { rows: packed(found.slice(0, 8)), count: found.length };
  };
  return { born: some(c.first_step), died: some(c.end_step) };
}
