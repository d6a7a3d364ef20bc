// A column of texts as bytes, each text once: handed over between the worker and the page as a few
// arrays, whatever their number, and decoded one by one where a text is asked for.

import { resized } from "./buffers.js";
import { Grown } from "./grown.js";

/** @typedef {{ids: import("./grown.js").Numbers, bytes: Uint8Array, ends: Int32Array}} Packed the text of each row; all texts
 *   behind one another, each as how many bytes it has in common with the one before it, and the others; where each
 *   ends. A million names of one program differ in their last part. */

const decoder = new TextDecoder(),
  encoder = new TextEncoder();
const KNOWN = 1 << 11; // texts that are kept decoded
const BLOCK = 16; // the first text of so many has nothing in common

let room = new Uint8Array(1 << 12),
  scratch = new Uint8Array(1 << 12); // what is encoded

/** The bytes of a text, until the next call. @param {Uint8Array} bytes @param {Int32Array} ends @param {number} id */
function unpacked(bytes, ends, id) {
  let length = 0;
  for (let k = id - (id % BLOCK); k <= id; ++k) {
    const end = ends[k];
    let at = k === 0 ? 0 : ends[k - 1];
    length = bytes[at++];
    while (length + end - at > room.length) room = resized(room, 2 * room.length);
    while (at < end) room[length++] = bytes[at++];
  }
  return room.subarray(0, length);
}

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
      text = decoder.decode(unpacked(this.bytes, this.ends, id));
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
    this.ids = new Grown(true);
    this.bytes = new Uint8Array(1 << 14);
    this.ends = new Int32Array(256);
    this.sums = new Int32Array(256);
    this.count = 0;
    this.before = new Uint8Array(255); // the beginning of the text that was added last
    this.known = 0; // bytes of it
    this.places = new Int32Array(512); // by sum, or behind it: the text's number and 1; 0 is free
  }

  /** @param {Uint8Array} from @param {number} at @param {number} length */
  push(from, at, length) {
    this.ids.push(this.find(from, at, length));
  }

  /** The number of a text. @param {string} text */
  number(text) {
    if (3 * text.length > scratch.length) scratch = new Uint8Array(6 * text.length);
    return this.find(scratch, 0, encoder.encodeInto(text, scratch).written);
  }

  /** @param {Uint8Array} from @param {number} at @param {number} length */
  find(from, at, length) {
    let sum = length;
    for (let i = at; i < at + length; ++i) sum = Math.imul(sum ^ from[i], 16777619);
    sum ^= sum >>> 15; // the last bytes change the lowest bits too
    const { places } = this;
    for (let place = sum; ; ++place) {
      const id = places[place & (places.length - 1)] - 1;
      if (id < 0) return this.add(from, at, length, sum);
      if (this.sums[id] !== sum) continue;
      const text = unpacked(this.bytes, this.ends, id);
      if (text.length === length && alike(text, from, at, length) === length) return id;
    }
  }

  /** @param {Uint8Array} from @param {number} at @param {number} length @param {number} sum */
  add(from, at, length, sum) {
    const id = this.count++,
      begin = id === 0 ? 0 : this.ends[id - 1];
    const same = id % BLOCK === 0 ? 0 : alike(this.before, from, at, Math.min(this.known, length));
    const end = begin + 1 + length - same;
    while (end > this.bytes.length) this.bytes = resized(this.bytes, 2 * this.bytes.length);
    if (id === this.ends.length) {
      this.ends = resized(this.ends, 2 * id);
      this.sums = resized(this.sums, 2 * id);
      this.places = new Int32Array(4 * id);
      for (let i = 0; i < id; ++i) this.place(i);
    }
    this.known = Math.min(this.before.length, length);
    for (let i = 0; i < this.known; ++i) this.before[i] = from[at + i];
    this.bytes[begin] = same;
    for (let i = same; i < length; ++i) this.bytes[begin + 1 + i - same] = from[at + i];
    this.ends[id] = end;
    this.sums[id] = sum;
    this.place(id);
    return id;
  }

  /** @param {number} id */
  place(id) {
    const { places } = this,
      most = places.length - 1;
    let at = this.sums[id] & most;
    while (places[at] !== 0) at = (at + 1) & most;
    places[at] = id + 1;
  }

  /** All of them; none is added after it. */
  texts() {
    const { count } = this;
    return new Texts({
      ids: this.ids.whole(),
      bytes: resized(this.bytes, count === 0 ? 0 : this.ends[count - 1]),
      ends: resized(this.ends, count),
    });
  }
}

/** How many bytes a text begins with that others begin with too.
 * @param {Uint8Array} text @param {Uint8Array} from @param {number} at of the others @param {number} most */
function alike(text, from, at, most) {
  let same = 0;
  while (same < most && text[same] === from[at + same]) ++same;
  return same;
}

/** The number of a text that is counted by a map, which gets it if it is new.
 * @param {Map<string, number>} map @param {string} text */
export function numberOf(map, text) {
  let number = map.get(text);
  if (number === undefined) map.set(text, (number = map.size));
  return number;
}

/** Texts of which some may be missing. @param {Iterable<any>} values */
export function textsOf(values) {
  const made = new TextsMaker();
  for (const value of values) made.ids.push(made.number(value === null ? "" : String(value)));
  return made.texts();
}
