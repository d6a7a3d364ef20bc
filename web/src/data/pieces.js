// The bytes of a file: all of a small one, and of a large one the pieces that were read last, so that
// a profile of a gigabyte takes no more memory than one of a hundred megabytes.

import { resized } from "./buffers.js";

const PIECE = 1 << 20; // a multiple of every size of an SQLite page
const KEPT = 24; // pieces
/** The most bytes of a file that is in memory whole. */
export const WHOLE = PIECE * 64;

/** What a reader needs of bytes: a Uint8Array has it too.
 * @typedef {{length: number, subarray: (from: number, to: number) => Uint8Array}} Bytes */

/** A large file. sql.js keeps what slice() gives, and reads it by subarray(). */
export class Pieces {
  /** @param {number} length @param {(from: number, to: number) => Uint8Array} read
   * @param {number} [size] of a piece */
  constructor(length, read, size = PIECE) {
    this.length = length;
    this.read = read;
    this.size = size;
    /** @type {Map<number, Uint8Array>} in the order of their last use */
    this.kept = new Map();
  }

  /** @param {number} number */
  piece(number) {
    let found = this.kept.get(number);
    if (found === undefined) {
      const from = number * this.size;
      found = this.read(from, Math.min(this.length, from + this.size));
      if (this.kept.size === KEPT) {
        const [[oldest, bytes]] = this.kept;
        this.kept.delete(oldest);
        resized(bytes, 0); // nobody reads a piece after so many others
      }
    } else {
      this.kept.delete(number);
    }
    this.kept.set(number, found);
    return found;
  }

  /** @param {number} from @param {number} to */
  subarray(from, to) {
    const end = Math.min(to, this.length),
      { size } = this,
      first = Math.floor(from / size);
    if (end <= (first + 1) * size) return this.piece(first).subarray(from - first * size, end - first * size);
    const joined = new Uint8Array(end - from);
    for (let at = from; at < end;) {
      const number = Math.floor(at / size),
        stop = Math.min(end, (number + 1) * size);
      joined.set(this.piece(number).subarray(at - number * size, stop - number * size), at - from);
      at = stop;
    }
    return joined;
  }

  slice() {
    return this;
  }
}

/** A file that is read when it is asked for, which only a worker may. @param {Blob} blob */
export function piecesOf(blob) {
  const reader = new FileReaderSync();
  return new Pieces(blob.size, (from, to) => new Uint8Array(reader.readAsArrayBuffer(blob.slice(from, to))));
}
