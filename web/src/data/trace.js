// The execution trace: rows as columns, and boxes of a flame chart by lane.

/** @typedef {import("./profile.js").Profile} Profile */

/** @param {Profile} profile */
export function traceColumns(profile) {
  const { database } = profile;
  const columns = database.columns("trace", [
    "program",
    "ipu",
    "stage",
    "iterations",
    "cycles_base",
    "cycles",
    "cycles_overlapped",
    "sync_cycles",
    "active_tiles",
    "data_in",
    "data_out",
    "cycles_mean",
    "micro_batch",
  ]);
  const texts = database.has("trace", "phase") ? database.texts("SELECT phase FROM trace ORDER BY id") : null;
  return { columns, phases: texts };
}

/** The lanes of rows: IPU (-1: all), and 1 for rows beside what runs on the same IPU already.
 * @param {Record<string, Float64Array>} c @param {number} ipus */
function lanesOf(c, ipus) {
  const count = c.program.length;
  const lane = new Int16Array(count),
    ends = new Map();
  for (let i = 0; i < count; ++i) {
    const ipu = ipus === 1 ? 0 : c.ipu[i] < 0 ? -1 : c.ipu[i];
    const begin = c.cycles_base[i];
    const beside = begin < (ends.get(2 * ipu) ?? 0) ? 1 : 0;
    const key = 2 * ipu + beside;
    lane[i] = key;
    ends.set(key, Math.max(ends.get(key) ?? 0, begin + c.cycles[i]));
  }
  return lane;
}

/**
 * Rows by lane and, for a flame chart, boxes nested by the parts of their names, by depth and begin.
 * @param {Profile} profile @param {boolean} nested
 */
export function flame(profile, nested) {
  const { columns: c } = traceColumns(profile);
  const names = profile.database.texts("SELECT name FROM programs ORDER BY id");
  const ipus = profile.database.value("SELECT count(*) FROM ipus") || 1;
  const lane = lanesOf(c, ipus);
  const rows = new Map();
  for (let i = 2; i < lane.length; ++i) {
    let list = rows.get(lane[i]);
    if (list === undefined) rows.set(lane[i], (list = []));
    list.push(i);
  }
  /** @type {Map<string, number>} */
  const labels = new Map();
  const label = (/** @type {string} */ text) => {
    let id = labels.get(text);
    if (id === undefined) labels.set(text, (id = labels.size));
    return id;
  };
  const parts = names.table.map((name) => name.split("/").filter(Boolean));
  const lanes = [...rows.keys()]
    .sort((a, b) => a - b)
    .map((key) => {
      const mine = rows.get(key);
      const levels = nested ? laneLevels(mine, c, (program) => parts[names.ids[program]] ?? [], label) : [];
      return { ipu: key >> 1, beside: (key & 1) === 1, levels, rows: Int32Array.from(mine) };
    });
  return { lanes, labels: [...labels.keys()], lane };
}

/**
 * @param {number[]} rows of a lane in time order
 * @param {Record<string, Float64Array>} c
 * @param {(program: number) => string[]} partsOf
 * @param {(text: string) => number} label
 */
function laneLevels(rows, c, partsOf, label) {
  /** @type {{begin: number, end: number, label: number, row: number}[][]} */
  const levels = [];
  /** @type {{text: string, box: any}[]} */
  let open = [];
  for (const row of rows) {
    const parts = partsOf(c.program[row]);
    const begin = c.cycles_base[row],
      end = begin + c.cycles[row];
    let same = 0;
    while (same < open.length && same < parts.length - 1 && open[same].text === parts[same]) ++same;
    open = open.slice(0, same);
    for (const { box } of open) box.end = Math.max(box.end, end);
    for (let depth = same; depth < Math.max(1, parts.length); ++depth) {
      const leaf = depth >= parts.length - 1;
      const text = parts[depth] ?? "";
      const box = { begin, end, label: label(text), row: leaf ? row : -1 };
      (levels[depth] ??= []).push(box);
      if (!leaf) open.push({ text, box });
    }
  }
  return levels.map((boxes) => ({
    begin: Float64Array.from(boxes, (box) => box.begin),
    end: Float64Array.from(boxes, (box) => box.end),
    label: Int32Array.from(boxes, (box) => box.label),
    row: Int32Array.from(boxes, (box) => box.row),
  }));
}
