// A column of texts as bytes, each text once: handed over between the worker and the page as a few
// arrays, whatever their number, and decoded one by one where a text is asked for.

/** @typedef {{ids: Int32Array, bytes: Uint8Array, ends: Int32Array}} Packed the text of each row; all texts
 *   behind one another; where each ends */

const decoder = new TextDecoder();
const KNOWN = 1 << 17; // texts that are kept decoded

export class Texts {
  /** @param {Packed} packed */
  constructor(packed) {
    this.ids = packed.ids;
    this.bytes = packed.bytes;
    this.ends = packed.ends;
    /** @type {Map<number, string>} */
    this.known = new Map();
  }

  /** The number of different texts. */
  get count() {
    return this.ends.length;
  }

  /** A text; "" where there is none. @param {number} id */
  text(id) {
    if (!(id >= 0 && id < this.ends.length)) return "";
    let text = this.known.get(id);
    if (text === undefined) {
      text = decoder.decode(this.bytes.subarray(id === 0 ? 0 : this.ends[id - 1], this.ends[id]));
      if (this.known.size >= KNOWN) this.known.clear();
      this.known.set(id, text);
    }
    return text;
  }

  /** The text of a row. @param {number} row */
  at(row) {
    return this.text(this.ids[row]);
  }

  /** A copy to hand over. @returns {Packed} */
  packed() {
    return { ids: this.ids.slice(), bytes: this.bytes.slice(), ends: this.ends.slice() };
  }
}

/** Texts that are added one by one, each kept once: found again by a sum over its bytes. */
export class TextsMaker {
  constructor() {
    this.ids = new Int32Array(1024);
    this.rows = 0;
    this.bytes = new Uint8Array(1 << 14);
    this.ends = new Int32Array(256);
    this.count = 0;
    /** @type {Map<number, number>} from a sum to the text */
    this.places = new Map();
  }

  /** @param {Uint8Array} from @param {number} at @param {number} length */
  push(from, at, length) {
    const id = this.find(from, at, length);
    if (this.rows === this.ids.length) this.ids = wider(this.ids, Int32Array);
    this.ids[this.rows++] = id;
  }

  /** @param {Uint8Array} from @param {number} at @param {number} length */
  find(from, at, length) {
    const { places } = this;
    let sum = length;
    for (let i = at; i < at + length; ++i) sum = Math.imul(sum ^ from[i], 16777619);
    for (; ; ++sum) {
      const id = places.get(sum);
      if (id === undefined) {
        places.set(sum, this.count);
        return this.add(from, at, length);
      }
      const begin = id === 0 ? 0 : this.ends[id - 1];
      if (this.ends[id] - begin !== length) continue;
      let same = 0;
      while (same < length && this.bytes[begin + same] === from[at + same]) ++same;
      if (same === length) return id;
    }
  }

  /** @param {Uint8Array} from @param {number} at @param {number} length */
  add(from, at, length) {
    const begin = this.count === 0 ? 0 : this.ends[this.count - 1];
    while (begin + length > this.bytes.length) this.bytes = wider(this.bytes, Uint8Array);
    if (this.count === this.ends.length) this.ends = wider(this.ends, Int32Array);
    for (let i = 0; i < length; ++i) this.bytes[begin + i] = from[at + i];
    this.ends[this.count] = begin + length;
    return this.count++;
  }

  texts() {
    const { rows, count } = this;
    return new Texts({
      ids: this.ids.slice(0, rows),
      bytes: this.bytes.slice(0, count === 0 ? 0 : this.ends[count - 1]),
      ends: this.ends.slice(0, count),
    });
  }
}

/** Texts of which some may be missing. @param {Iterable<any>} values */
export function textsOf(values) {
  const made = new TextsMaker(),
    encoder = new TextEncoder();
  for (const value of values) {
    const bytes = encoder.encode(value === null ? "" : String(value));
    made.push(bytes, 0, bytes.length);
  }
  return made.texts();
}

/** @template {Int32Array|Uint8Array} T @param {T} array @param {new (length: number) => T} Kind */
function wider(array, Kind) {
  const more = new Kind(2 * array.length);
  more.set(array);
  return more;
}
