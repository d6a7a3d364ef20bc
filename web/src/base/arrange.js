// The rows of a table in their order and those in sight, for tables of millions of rows.

export const ROW = 24; // pixels
export const EXTRA = 20; // rows above and below those in sight
export const PAUSE = 2048; // rows between two pauses
const MOST = 16e6; // pixels; Firefox draws 17.8 million, chromium 33.5

const collator = new Intl.Collator();

/** Rows by a column; equal ones keep their order: parts are sorted, and merged two by two.
 * @param {ArrayLike<any>} rows @param {Column} column @param {1|-1} sign @returns {Generator<undefined, ArrayLike<any>>} */
export function* sorted(rows, column, sign) {
  const values = new Array(rows.length);
  const compare = (/** @type {number} */ a, /** @type {number} */ b) => {
    const x = values[a],
      y = values[b];
    if (typeof x === "number" && typeof y === "number") return sign * (x - y);
    return sign * collator.compare(String(x ?? ""), String(y ?? ""));
  };
  let inOrder = true;
  for (let i = 0; i < rows.length; ++i) {
    values[i] = column.value(rows[i]);
    inOrder &&= i === 0 || compare(i - 1, i) <= 0;
    if (i % PAUSE === 0) yield;
  }
  if (inOrder) return rows;
  let order = new Int32Array(rows.length).map((_, i) => i),
    other = order.slice();
  for (let at = 0; at < order.length; at += PAUSE) {
    order.subarray(at, at + PAUSE).sort(compare);
    yield;
  }
  for (let size = PAUSE; size < order.length; size *= 2) {
    for (let at = 0; at < order.length; at += 2 * size) {
      const middle = Math.min(order.length, at + size),
        end = Math.min(order.length, at + 2 * size);
      for (let to = at, i = at, k = middle; to < end; ++to) {
        other[to] = k >= end || (i < middle && compare(order[i], order[k]) <= 0) ? order[i++] : order[k++];
        if (to % PAUSE === 0) yield;
      }
    }
    [order, other] = [other, order];
  }
  return Array.from(order, (i) => rows[i]);
}

/** Adds rows to lines of text, the columns' titles first. @param {ArrayLike<any>} rows
 * @param {Column[]} columns @param {string} separator a comma: CSV @param {string[]} lines */
export function* writeLines(rows, columns, separator, lines) {
  const quote = (value) => {
    const text = String(value ?? "");
    if (separator === "\t") return text.replace(/[\t\n\r]+/g, " ");
    return /[",\n\r]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
  };
  lines.push(columns.map((c) => quote(c.title)).join(separator));
  for (let i = 0; i < rows.length; ++i) {
    lines.push(columns.map((c) => quote(c.value(rows[i]))).join(separator));
    if (i % PAUSE === 0) yield;
  }
}

/**
 * The rows to draw, and the heights above and below them. A browser draws no element that is higher than some
 * millions of pixels: a pixel of the scroll bar of more rows stands for `scale` pixels.
 * @param {number} count of rows @param {number} height of the box @param {number} scrolled
 */
export function windowOf(count, height, scrolled) {
  const tall = Math.min(MOST, count * ROW);
  const scale = tall < MOST ? 1 : Math.max(1, (count * ROW - height) / (tall - height));
  const top = scrolled * scale;
  const first = Math.max(0, Math.min(count, Math.floor(top / ROW)) - EXTRA),
    last = Math.min(count, first + Math.ceil(height / ROW) + 2 * EXTRA);
  const above = Math.max(0, scrolled - (top - first * ROW));
  return { first, last, scale, above, below: Math.max(0, tall - above - (last - first) * ROW) };
}
