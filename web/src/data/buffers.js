// Memory: arrays that grow, what an answer moves from the worker, and what the page keeps of it.

/** The buffers of typed arrays in a value. @param {any} value @param {Set<ArrayBuffer>} found */
export function buffersIn(value, found, depth = 0) {
  if (ArrayBuffer.isView(value)) found.add(/** @type {ArrayBuffer} */ (value.buffer));
  else if (value !== null && typeof value === "object" && depth < 6) {
    const inner = Array.isArray(value) && value.length > 64 ? [] : Object.values(value);
    for (const one of inner) buffersIn(one, found, depth + 1);
  }
  return found;
}

/** About how many bytes an answer takes; a row is an array of some texts. @param {any} value */
export function bytesIn(value) {
  let bytes = 0;
  for (const one of buffersIn(value, new Set())) bytes += one.byteLength;
  for (const one of Object.values(Object(value))) if (Array.isArray(one)) bytes += 400 * one.length;
  return Array.isArray(value) ? 400 * value.length : bytes;
}

/** Copies of columns, to hand over: a move takes them away. structuredClone would copy them twice.
 * @param {Record<string, any>} columns @param {string[]} names of those wanted, if they are there */
export function copyOf(columns, names = Object.keys(columns)) {
  return Object.fromEntries(names.filter((name) => name in columns).map((name) => [name, columns[name].slice()]));
}

/** An array of another length with the numbers of this one, whose memory is free at once where the browser can do
 * that: of a large profile, what waits to be collected would take as much as what is kept.
 * @template T @param {T} array that has its buffer to itself @param {number} length @returns {T} */
export function resized(array, length) {
  const old = /** @type {any} */ (array);
  if (old.length === length) return old;
  if (old.buffer.transfer) return new old.constructor(old.buffer.transfer(length * old.BYTES_PER_ELEMENT));
  const other = new old.constructor(length);
  other.set(old.subarray(0, length));
  return other;
}
