// The memory of an answer: what is moved from the worker, and what the page keeps.

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
