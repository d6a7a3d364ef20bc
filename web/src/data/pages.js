// Columns and rows from the b-tree pages of an SQLite file: six times faster than stepping through rows,
// and before SQLite is there. Records that overflow their page are left to SQLite (PagesError).

import { Grown } from "./grown.js";
import { TextsMaker } from "./texts.js";

/** @typedef {import("./pieces.js").Bytes} Bytes */

export class PagesError extends Error {}

/** Goes through the records of a tree of pages, in their order. */
class Walker {
  /** @param {Bytes} file @param {(walker: Walker, id: number, begin: number, size: number) => void} record */
  constructor(file, record) {
    const head = file.length < 100 ? new Uint8Array(100) : file.subarray(0, 100);
    const size = (head[16] << 8) | head[17];
    this.file = file;
    this.take = record;
    this.pageSize = size === 1 ? 65536 : size;
    this.usable = this.pageSize - head[20];
    this.numPages = Math.floor(file.length / this.pageSize);
    if (head[56 + 3] !== 1) throw new PagesError("its texts are not UTF-8");
    this.visited = 0;
    this.at = 0;
    this.bytes = head; // of the page, and places in it
    this.view = new DataView(head.buffer, head.byteOffset, head.byteLength);
  }

  varint() {
    let value = 0;
    for (let i = 0; i < 8; ++i) {
      const byte = this.bytes[this.at++];
      value = value * 128 + (byte & 127);
      if (byte < 128) return value;
    }
    return value * 256 + this.bytes[this.at++];
  }

  /** @param {number} number @param {number} depth */
  page(number, depth) {
    if (!(number >= 1 && number <= this.numPages) || depth > 20 || ++this.visited > this.numPages) {
      throw new PagesError("the tree of pages is damaged");
    }
    const start = (number - 1) * this.pageSize;
    let bytes = this.file.subarray(start, start + this.pageSize);
    const head = number === 1 ? 100 : 0;
    const kind = bytes[head];
    const interior = kind === 5 || kind === 2,
      isIndex = kind === 10 || kind === 2; // a table WITHOUT ROWID is an index
    if (interior) bytes = bytes.slice(); // because the pages below take the place of its piece
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength),
      cells = view.getUint16(head + 3);
    if (!interior && !isIndex && kind !== 13) throw new PagesError("a page is of another kind");
    const pointers = head + (interior ? 12 : 8);
    if (pointers + 2 * cells > this.pageSize) throw new PagesError("a page is damaged");
    for (let c = 0; c < cells; ++c) {
      const cell = view.getUint16(pointers + 2 * c);
      if (cell + 4 > this.pageSize) throw new PagesError("a cell is damaged");
      if (interior) this.page(view.getUint32(cell), depth + 1);
      if (kind === 5) continue;
      this.bytes = bytes;
      this.view = view;
      this.at = cell + (interior ? 4 : 0);
      this.record(isIndex);
    }
    if (interior) this.page(view.getUint32(head + 8), depth + 1);
  }

  /** @param {boolean} isIndex */
  record(isIndex) {
    const payload = this.bytes[this.at] < 128 ? this.bytes[this.at++] : this.varint(),
      id = isIndex ? 0 : this.varint();
    const most = isIndex ? Math.floor(((this.usable - 12) * 64) / 255) - 23 : this.usable - 35;
    if (payload > most || this.at + payload > this.pageSize) throw new PagesError("a row overflows");
    this.take(this, id, this.at, payload);
  }

  /** @param {number} kind @param {number} at */
  number(kind, at) {
    const view = this.view;
    switch (kind) {
      case 0:
        return NaN;
      case 1:
        return view.getInt8(at);
      case 2:
        return view.getInt16(at);
      case 3:
        return view.getInt8(at) * 65536 + view.getUint16(at + 1);
      case 4:
        return view.getInt32(at);
      case 5:
        return view.getInt16(at) * 4294967296 + view.getUint32(at + 2);
      case 6:
        return view.getInt32(at) * 4294967296 + view.getUint32(at + 4);
      case 7:
        return view.getFloat64(at);
      case 8:
        return 0;
      case 9:
        return 1;
      default:
        throw new PagesError("a value is no number");
    }
  }
}

const SIZES = [0, 1, 2, 3, 4, 6, 8, 8, 0, 0, 0, 0];

/**
 * What calls `value` for each of the wanted columns of a record.
 * @param {number[]} wanted places of columns
 * @param {(walker: Walker, slot: number, kind: number, at: number, size: number, id: number) => void} value
 */
function valuesOf(wanted, value) {
  const last = Math.max(...wanted),
    slots = new Int32Array(last + 1).fill(-1);
  wanted.forEach((column, slot) => {
    slots[column] = slot;
  });
  return (
    /** @type {Walker} */ walker,
    /** @type {number} */ id,
    /** @type {number} */ begin,
    /** @type {number} */ payload,
  ) => {
    const { bytes } = walker;
    const headEnd = begin + walker.varint();
    let from = headEnd,
      at = walker.at;
    for (let column = 0; column <= last; ++column) {
      let kind = at < headEnd ? bytes[at++] : 0;
      if (kind > 127) {
        walker.at = at - 1;
        kind = walker.varint();
        at = walker.at;
      }
      const size = kind < 12 ? SIZES[kind] : (kind - 12) >> 1;
      if (from + size > begin + payload) throw new PagesError("a row is damaged");
      if (slots[column] >= 0) value(walker, slots[column], kind, from, size, id);
      from += size;
    }
  };
}

/** @param {Bytes} file @param {number} root @param {ReturnType<typeof valuesOf>} record */
function walk(file, root, record) {
  try {
    new Walker(file, record).page(root, 0);
  } catch (error) {
    if (error instanceof RangeError) throw new PagesError("the file is cut short");
    throw error;
  }
}

/**
 * The columns of a table with root page `root`, in the order of its rows. Each is as narrow as its numbers:
 * what is computed of them needs an array of its own.
 * @param {Bytes} file
 * @param {number} root
 * @param {number[]} wanted  places of columns in a record
 * @param {number} rowid     the place of the column that is the row's id; -1: none
 * @returns {Float64Array[]}
 */
export function readColumns(file, root, wanted, rowid) {
  const columns = wanted.map(() => new Grown(true));
  const ids = wanted.indexOf(rowid);
  walk(
    file,
    root,
    valuesOf(wanted, (walker, slot, kind, at, _, id) => {
      columns[slot].push(slot === ids ? id : walker.number(kind, at));
    }),
  );
  return columns.map((column) => column.whole());
}

/** @param {number} kind of a value */
function isText(kind) {
  return kind >= 13 && kind % 2 === 1;
}

/**
 * Columns of texts, each text of a column once; a missing one is "".
 * @param {Bytes} file @param {number} root @param {number[]} columns
 */
export function readTexts(file, root, columns) {
  const made = columns.map(() => new TextsMaker());
  walk(
    file,
    root,
    valuesOf(columns, (walker, slot, kind, at, size) => {
      if (kind !== 0 && !isText(kind)) throw new PagesError("a value is no text");
      made[slot].push(walker.bytes, at, size);
    }),
  );
  return made.map((one) => one.texts());
}

/**
 * The rows of a short table as SQLite gives them: numbers, texts and null.
 * @param {Bytes} file @param {number} root @param {number[]} wanted @param {number} rowid
 * @returns {any[][]}
 */
export function readRows(file, root, wanted, rowid) {
  /** @type {any[][]} */
  const rows = [];
  const decoder = new TextDecoder(),
    ids = wanted.indexOf(rowid),
    first = wanted.indexOf(Math.min(...wanted));
  walk(
    file,
    root,
    valuesOf(wanted, (walker, slot, kind, at, size, id) => {
      if (slot === first) rows.push(new Array(wanted.length));
      const row = rows[rows.length - 1];
      if (slot === ids) row[slot] = id;
      else if (isText(kind)) row[slot] = decoder.decode(walker.bytes.subarray(at, at + size));
      else row[slot] = kind === 0 ? null : walker.number(kind, at);
    }),
  );
  return rows;
}
