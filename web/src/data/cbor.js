// debug.cbor: a sequence of CBOR maps (RFC 8742): unsigned numbers, text, maps of definite length.

const MOST_DEPTH = 8;

class CborReader {
  /** @param {Uint8Array} data */
  constructor(data) {
    this.data = data;
    this.at = 0;
    this.decoder = new TextDecoder();
  }

  /** @param {number} length */
  take(length) {
    this.at += length;
    if (this.at > this.data.length) throw new Error("it is cut short");
    return this.data.subarray(this.at - length, this.at);
  }

  /** @returns {unknown} */
  item(depth = 0) {
    const first = this.take(1)[0];
    const kind = first >> 5,
      size = first & 31;
    let number = size;
    if (size > 27) throw new Error(`byte ${this.at - 1} is no CBOR that Tremula writes`);
    if (size > 23) {
      number = 0;
      for (const byte of this.take(1 << (size - 24))) number = number * 256 + byte;
    }
    if (kind === 0) return number;
    if (kind === 3) return this.decoder.decode(this.take(number));
    if (kind !== 5 || depth >= MOST_DEPTH) {
      throw new Error(`byte ${this.at - 1} is no CBOR that Tremula writes`);
    }
    /** @type {Map<string, unknown>} */
    const map = new Map();
    for (let i = 0; i < number; ++i) {
      const key = String(this.item(MOST_DEPTH));
      map.set(key, this.item(depth + 1));
    }
    return map;
  }
}

/** The maps of a debug.cbor; the first one names the stream. @param {Uint8Array} data */
export function readDebug(data) {
  const reader = new CborReader(data);
  /** @type {Map<string, unknown>[]} */
  const maps = [];
  while (reader.at < data.length) {
    const map = reader.item();
    if (!(map instanceof Map)) throw new Error("a part of it is no map");
    if (maps.length > 0 && typeof map.get("id") !== "number") throw new Error("a context has no id");
    maps.push(map);
  }
  if (maps.length === 0) throw new Error("it is empty");
  return maps;
}
