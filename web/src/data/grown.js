// Numbers that are added one by one, in arrays that are as wide as the numbers.

import { resized } from "./buffers.js";

/** @typedef {Float64Array|Int32Array|Int16Array|Int8Array} Numbers */
const KINDS = [Int8Array, Int16Array, Int32Array, Float64Array];

/** Numbers that are added one by one, as Float64; if narrow, in the narrowest array that has them all. */
export class Grown {
  constructor(narrow = false) {
    this.kind = narrow ? 0 : 3;
    this.data = /** @type {Float64Array} */ (new KINDS[this.kind](1024));
    this.length = 0;
  }

  /** @param {number} value */
  push(value) {
    const at = this.length++;
    if (at === this.data.length) this.data = resized(this.data, 2 * at);
    this.data[at] = value;
    while (this.data[at] !== value && this.kind < 3) {
      const wider = new KINDS[++this.kind](this.data.length);
      wider.set(this.data);
      resized(this.data, 0);
      this.data = /** @type {Float64Array} */ (wider);
      this.data[at] = value;
    }
  }

  /** Makes the last number at least this one. @param {number} value */
  raise(value) {
    const at = this.length - 1;
    if (this.data[at] >= value) return;
    this.length = at;
    this.push(value);
  }

  /** All of them; none is added after it. */
  whole() {
    return resized(this.data, this.length);
  }
}

/** Sorts places, unless they are in order: most are, and a sort takes the memory of all again.
 * @param {Int32Array} places @param {(a: number, b: number) => number} compare */
export function inOrder(places, compare) {
  return places.some((place, i) => i > 0 && compare(places[i - 1], place) > 0) ? places.sort(compare) : places;
}

/** Boxes of a level that are added one by one. */
export class Boxes {
  constructor() {
    this.begin = new Grown(true);
    this.end = new Grown(true);
    this.label = new Grown(true);
    this.row = new Grown(true);
  }

  /** @param {number} begin @param {number} end @param {number} label @param {number} row */
  push(begin, end, label, row) {
    this.begin.push(begin);
    this.end.push(end);
    this.label.push(label);
    this.row.push(row);
  }

  level() {
    const { begin, end, label, row } = this;
    return { begin: begin.whole(), end: end.whole(), label: label.whole(), row: row.whole() };
  }
}
