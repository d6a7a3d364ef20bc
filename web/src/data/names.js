// The name of a program and its kind of work, for the worker and the page.

import { kindOf } from "../base/kinds.js";
import { Texts } from "./texts.js";

/** @typedef {{id: Float64Array, line: Float64Array, texts: Record<string, Texts>}} SourceTable */

/** Columns of texts of the table 'sources'. */
export const SOURCE_TEXTS = ["hlo_name", "opcode", "op_name", "op_type", "layer", "file", "plan", "note", "role"];

/** Where an id is among ids that rise; -1: nowhere. @param {Float64Array} ids @param {number} id */
export function placeOf(ids, id) {
  if (ids[id] === id) return id;
  let low = 0,
    high = ids.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (ids[middle] < id) low = middle + 1;
    else high = middle;
  }
  return ids[low] === id ? low : -1;
}

/** An instruction that programs come from; its texts are read when they are asked for. */
export class Source {
  /** @param {SourceTable} table @param {number} row */
  constructor(table, row) {
    this.table = table;
    this.row = row;
  }

  get id() {
    return this.table.id[this.row];
  }

  /** @param {string} name of a column */
  text(name) {
    return this.table.texts[name]?.at(this.row) ?? "";
  }

  /** The name in the HLO. */
  get hlo() {
    return this.text("hlo_name");
  }

  /** The operation's name. */
  get op() {
    return this.text("op_name");
  }

  /** file:line, "" where it is not known. */
  get where() {
    const file = this.text("file");
    return file === "" ? "" : `${file}:${this.table.line[this.row]}`;
  }
}

export class Sources {
  /** @param {SourceTable} table */
  constructor(table) {
    this.table = table;
    this.length = table.id.length;
  }

  /** @param {number} row */
  at(row) {
    return new Source(this.table, row);
  }

  /** @param {number} id @returns {Source|undefined} */
  byId(id) {
    const row = placeOf(this.table.id, id);
    return row < 0 ? undefined : this.at(row);
  }

  /** The first that a test holds for. @param {(one: Source) => boolean} holds */
  find(holds) {
    for (let row = 0; row < this.length; ++row) if (holds(this.at(row))) return this.at(row);
    return undefined;
  }
}

/** What the worker handed over, to read. @param {{id: Float64Array, line: Float64Array,
 *   texts: Record<string, import("./texts.js").Packed>}} packed */
export function unpackSources({ id, line, texts }) {
  return new Sources({
    id,
    line,
    texts: Object.fromEntries(Object.entries(texts).map(([name, one]) => [name, new Texts(one)])),
  });
}

/** @param {any} programs whose name and type are Texts @param {Sources} sources */
export function namesOf(programs, sources) {
  const letters = [false, true].map((copies) =>
    Array.from({ length: programs.type.count }, (_, id) => kindOf(programs.type.text(id), copies)),
  );
  const name = (/** @type {number} */ p) =>
    p === -1 ? "waiting for the host" : p === -2 ? "loading the program" : programs.name.at(p);
  const source = (/** @type {number} */ p) => sources.byId(programs.source[p]);
  return {
    programs,
    sources,
    name,
    /** @param {number} p @returns {string} */
    type: (p) => programs.type.at(p),
    /** @param {number} p @returns {string} */
    letter: (p) =>
      p === -1
        ? "W"
        : p === -2
          ? "L"
          : (letters[programs.copies[programs.compute_set[p]] === 1 ? 1 : 0][programs.type.ids[p]] ?? "T"),
    /** @param {number} p */
    source,
    /** The operation as `tremula report` names it. @param {number} p @returns {string} */
    op: (p) => {
      const from = source(p);
      return from?.op || from?.hlo || name(p);
    },
  };
}

/** Whether a row of a loop or a call takes more than the loop itself: it stands for the steps inside.
 * @param {Columns} c @param {ArrayLike<number>} ends of programs */
export function standsFor(c, ends) {
  return (/** @type {number} */ row) =>
    c.iterations[row] > 1 || (ends[c.program[row]] > c.program[row] + 1 && c.cycles[row] > 100);
}
