// Records as columns of numbers and texts: a few arrays to hand over, however many records there are. A
// member of a row is read when it is asked for.

import { Texts, TextsMaker } from "./texts.js";

/** @typedef {{count: number, numbers: Record<string, any>, texts: Record<string, import("./texts.js").Packed>}} Records */

/** @type {WeakMap<Records, any[]>} */
const unpacked = new WeakMap();

/** The rows, made once. @param {Records} records @returns {any[]} */
export function unpack(records) {
  let rows = unpacked.get(records);
  if (rows !== undefined) return rows;
  class Row {
    /** @param {number} row */
    constructor(row) {
      this.row = row;
    }
  }
  const member = (/** @type {string} */ key, /** @type {(row: number) => any} */ read) =>
    Object.defineProperty(Row.prototype, key, {
      enumerable: true,
      get() {
        return read(this.row);
      },
    });
  for (const [key, values] of Object.entries(records.numbers)) member(key, (row) => values[row]);
  for (const [key, packed] of Object.entries(records.texts)) {
    const values = new Texts(packed);
    member(key, (row) => values.at(row));
  }
  rows = Array.from({ length: records.count }, (_, row) => new Row(row));
  unpacked.set(records, rows);
  return rows;
}

/** The numbers at some places, as wide as they were. @template {import("./grown.js").Numbers} T
 * @param {T} numbers @param {ArrayLike<number>} places @returns {T} */
export function numbersAt(numbers, places) {
  const found = new /** @type {any} */ (numbers).constructor(places.length);
  for (let i = 0; i < places.length; ++i) found[i] = numbers[places[i]];
  return found;
}

/** A text of each place; places with the same key have the same text. @param {ArrayLike<number>} places
 * @param {(place: number) => number} keyOf @param {(place: number) => string} read */
export function textsAt(places, keyOf, read) {
  const made = new TextsMaker(),
    known = new Map();
  for (let i = 0; i < places.length; ++i) {
    const key = keyOf(places[i]);
    let id = known.get(key);
    if (id === undefined) known.set(key, (id = made.number(read(places[i]))));
    made.ids.push(id);
  }
  return made.texts().packed();
}

/** Some of the records. @param {Records} records @param {number[]} rows @returns {Records} */
export function pick({ numbers, texts }, rows) {
  const mapped = (/** @type {Record<string, any>} */ all, /** @type {(one: any) => any} */ map) =>
    Object.fromEntries(Object.entries(all).map(([key, one]) => [key, map(one)]));
  return {
    count: rows.length,
    numbers: mapped(numbers, (values) => numbersAt(values, rows)),
    texts: mapped(texts, (packed) => {
      const all = new Texts(packed);
      return textsAt(
        rows,
        (row) => packed.ids[row],
        (row) => all.at(row),
      );
    }),
  };
}
