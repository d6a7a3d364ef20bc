// vars.capnp (data/schema/vars.capnp): a Cap'n Proto message of one segment.

const MOST_TILES = 1 << 26;

/**
 * @typedef {object} Variables
 * @property {Int32Array} runStart    index of a distribution's first run; one more at the end
 * @property {Int32Array} firstTile   of a run
 * @property {Int32Array} numTiles    of a run
 * @property {Float64Array} bytes     of a run, on each tile
 * @property {Int32Array} distribution  of a variable
 * @property {Int32Array} firstStep
 * @property {Int32Array} endStep
 * @property {Uint16Array} category
 * @property {Uint8Array} alwaysLive
 * @property {string[]} names
 */

class Segment {
  /** @param {Uint8Array} data */
  constructor(data) {
    const all = new DataView(data.buffer, data.byteOffset, data.byteLength);
    if (data.byteLength < 16 || all.getUint32(0, true) !== 0) throw new Error("it is of another kind");
    const words = all.getUint32(4, true);
    if (data.byteLength < 8 * (words + 1)) throw new Error("it is cut short");
    this.view = new DataView(data.buffer, data.byteOffset + 8, 8 * words);
    this.bytes = data.subarray(8, 8 + 8 * words);
    this.words = words;
    this.left = 4 * words + 64; // a bound, because lists that overlap could be read without end
  }

  /** @param {number} word */
  u32(word, half = 0) {
    if (!(word >= 0 && word < this.words)) throw new Error("a pointer leads out of the file");
    return this.view.getUint32(8 * word + 4 * half, true);
  }

  /** The kind, the word that it leads to, and the upper half of a pointer. @param {number} word */
  pointer(word) {
    const low = this.u32(word);
    return { kind: low & 3, target: word + 1 + (low >> 2), upper: this.u32(word, 1) };
  }

  /** First words and size of the structs of a list. @param {number} word */
  structs(word) {
    const { kind, target } = this.pointer(word);
    if (kind !== 1) return { first: 0, count: 0, size: 1, data: 0 };
    const count = this.u32(target) >>> 2,
      sizes = this.u32(target, 1);
    const data = sizes & 0xffff,
      size = data + (sizes >>> 16);
    this.left -= count;
    if (this.left < 0 || target + 1 + count * size > this.words) {
      throw new Error("a list is longer than the file");
    }
    return { first: target + 1, count, size, data };
  }

  /** @param {number} word */
  text(word) {
    const { target, upper } = this.pointer(word);
    const length = Math.max(0, (upper >>> 3) - 1);
    if (target < 0 || 8 * target + length > this.bytes.length) {
      throw new Error("a text is longer than the file");
    }
    return textDecoder.decode(this.bytes.subarray(8 * target, 8 * target + length));
  }
}

const textDecoder = new TextDecoder();

/** @param {Uint8Array} data @returns {Variables} */
export function readVariables(data) {
  const segment = new Segment(data);
  const root = segment.pointer(0);
  const pointers = root.target + (root.upper & 0xffff);
  const list = segment.structs(pointers);
  const runStart = new Int32Array(list.count + 1);
  const lists = [];
  let total = 0;
  for (let i = 0; i < list.count; ++i) {
    const runs = segment.structs(list.first + i * list.size + list.data);
    lists.push(runs);
    total += runs.count;
    runStart[i + 1] = total;
  }
  const firstTile = new Int32Array(total),
    numTiles = new Int32Array(total);
  const bytes = new Float64Array(total);
  let r = 0;
  for (const runs of lists) {
    for (let i = 0; i < runs.count; ++i, ++r) {
      const at = runs.first + i * runs.size;
      firstTile[r] = segment.u32(at);
      numTiles[r] = segment.u32(at, 1);
      bytes[r] = segment.u32(at + 1) + 4294967296 * segment.u32(at + 1, 1);
      if (segment.u32(at) + segment.u32(at, 1) > MOST_TILES) {
        throw new Error("bytes are on tiles that are not there");
      }
    }
  }
  const all = segment.structs(pointers + 1);
  const variables = {
    runStart,
    firstTile,
    numTiles,
    bytes,
    distribution: new Int32Array(all.count),
    firstStep: new Int32Array(all.count),
    endStep: new Int32Array(all.count),
    category: new Uint16Array(all.count),
    alwaysLive: new Uint8Array(all.count),
    names: /** @type {string[]} */ ([]),
  };
  for (let i = 0; i < all.count; ++i) {
    const at = all.first + i * all.size;
    variables.distribution[i] = segment.u32(at + 1);
    variables.firstStep[i] = segment.u32(at + 1, 1);
    variables.endStep[i] = segment.u32(at + 2);
    const upper = segment.u32(at + 2, 1);
    variables.category[i] = upper & 0xffff;
    variables.alwaysLive[i] = (upper >>> 16) & 1;
    variables.names.push(segment.text(at + 3));
    if (segment.u32(at + 1) >= list.count) throw new Error("a variable has no distribution");
  }
  return variables;
}

/** @param {Variables} all @param {number} id of a variable @param {number} tile */
export function bytesOnTile(all, id, tile) {
  const d = all.distribution[id];
  let bytes = 0;
  for (let r = all.runStart[d]; r < all.runStart[d + 1]; ++r)
    if (tile >= all.firstTile[r] && tile < all.firstTile[r] + all.numTiles[r]) bytes += all.bytes[r];
  return bytes;
}
