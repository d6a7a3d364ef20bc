// Numbers as text. Texts show exact numbers, with thousands apart; a short form is only added.

/** The user's choice of how bytes and cycles are shown. */
export const units = { bytes: "bytes", cycles: "cycles", clock: 1 };

const SIZES = { bytes: 1, KiB: 1024, kB: 1000 };
const SPACE = "\u202f";

/** "1 234 567". @param {number} value */
export function grouped(value) {
  if (!Number.isFinite(value)) return "–";
  const whole = Math.abs(value) >= 1e15 ? BigInt(Math.round(value)).toString() : String(Math.round(value));
  return whole.replace(/\B(?=(\d{3})+(?!\d))/g, SPACE);
}

/** @param {number} value @param {number} digits */
export function decimal(value, digits = 2) {
  if (!Number.isFinite(value)) return "–";
  const [whole, rest] = Math.abs(value).toFixed(digits).split(".");
  const sign = value < 0 && Number(value.toFixed(digits)) !== 0 ? "-" : "";
  return `${sign}${whole.replace(/\B(?=(\d{3})+(?!\d))/g, SPACE)}${rest === undefined ? "" : `.${rest}`}`;
}

/** @param {number} value */
export function bytesText(value) {
  const size = /** @type {Record<string, number>} */ (SIZES)[units.bytes] ?? 1;
  if (size === 1) return grouped(value);
  return `${decimal(value / size, 1)}${SPACE}${units.bytes}`;
}

/** @param {number} value */
export function cyclesText(value) {
  if (units.cycles === "cycles") return grouped(value);
  return `${decimal((value / units.clock) * 1e6, 3)}${SPACE}µs`;
}

/** With the unit, also where the unit is the plain one. @param {number} value */
export function bytesWords(value) {
  return bytesText(value) + (units.bytes === "bytes" ? " bytes" : "");
}

/** @param {number} value */
export function cyclesWords(value) {
  return cyclesText(value) + (units.cycles === "cycles" ? " cycles" : "");
}

/** Megabytes of an IPU: 1000 KB of 1024 bytes. @param {number} value */
export function megabytes(value) {
  return `${Number((value / 1024000).toPrecision(4))}${SPACE}MB`;
}

/** "12.3 %". @param {number} part @param {number} whole */
export function share(part, whole, digits = 1) {
  return whole > 0 ? `${((100 * part) / whole).toFixed(digits)}${SPACE}%` : "–";
}

/** "1 row", "2 rows". @param {number} n @param {string} word @param {string} [many] */
export function counted(n, word, many = `${word}s`) {
  return `${grouped(n)} ${n === 1 ? word : many}`;
}

/** With its sign, as tools/plan_text.c writes it: what rounds to 0 has a plus. @param {number} value */
export function signed(value, digits = 0) {
  const scale = 10 ** digits,
    rounded = Math.floor(Math.abs(value) * scale + 0.5) / scale;
  return `${value < 0 && rounded > 0 ? "−" : "+"}${rounded.toFixed(digits)}`;
}

/** "−9 to +22 %". @param {number} value @param {number} low @param {number} high */
export function barText(value, low, high) {
  const text = (/** @type {number} */ end) => signed(value > 0 ? 100 * (end / value - 1) : 0);
  return `${text(low)} to ${text(high)} %`;
}

/** As C's %.4g without an exponent. @param {number} value */
export function short(value) {
  if (!Number.isFinite(value)) return "–";
  return Math.abs(value) >= 1e4 ? grouped(value) : String(Number(value.toPrecision(4)));
}

/** @param {string} kind of a column @param {any} value */
export function textOf(kind, value) {
  if (value === null || value === undefined || (typeof value === "number" && Number.isNaN(value))) {
    return kind === "text" ? "" : "–";
  }
  switch (kind) {
    case "bytes":
      return bytesText(value);
    case "cycles":
      return cyclesText(value);
    case "number":
      return grouped(value);
    case "real":
      if (value !== 0 && Math.abs(value) < 0.1) return String(Number(value.toPrecision(2)));
      return Number.isInteger(value) ? grouped(value) : decimal(value, 2);
    case "percent":
      return `${Number(value).toFixed(1)}${SPACE}%`;
    default:
      return String(value);
  }
}

/** What plain numbers of a kind count; other units stand beside each number. @param {string} kind */
export function unitOf(kind) {
  return (kind === "bytes" || kind === "cycles") && units[kind] === kind ? kind : "";
}

/** Axis labels are short; the exact number is in the table and on hover.
 * @param {number} value @param {string} kind */
export function axisText(value, kind) {
  if (kind === "bytes" && units.bytes !== "bytes") return bytesText(value);
  if (kind === "cycles" && units.cycles !== "cycles") return cyclesText(value);
  if (value === 0) return "0";
  for (const [size, letter] of /** @type {[number, string][]} */ ([
    [1e9, "G"],
    [1e6, "M"],
    [1e3, "k"],
  ])) {
    if (Math.abs(value) >= size) return `${Number((value / size).toPrecision(4))}${SPACE}${letter}`;
  }
  return String(Number(value.toPrecision(4)));
}

/** Reads a user's list of tiles: `0, 5, 3000-3010, ipu2:17`. Wrong parts are left out.
 * @param {string} text @param {number} tilesPerIpu @param {number} count */
export function parseTiles(text, tilesPerIpu, count) {
  const found = new Set();
  for (const part of text.split(/[\s,]+/)) {
    const match = /^(?:ipu(\d+):)?(\d+)(?:-(\d+))?$/i.exec(part);
    if (match === null) continue;
    const base = match[1] === undefined ? 0 : Number(match[1]) * tilesPerIpu;
    const first = base + Number(match[2]);
    const last = match[3] === undefined ? first : base + Number(match[3]);
    for (let tile = first; tile <= last && tile < count && found.size < 64; ++tile) found.add(tile);
  }
  return [...found];
}

/** A path without its folders. @param {string} path */
export function fileName(path) {
  return path.slice(path.lastIndexOf("/") + 1);
}

/** @param {unknown} error */
export function message(error) {
  return error instanceof Error ? error.message : String(error);
}
