// A timeline of the host (.pvti): marks by thread as boxes, moments, lines of numbers, heat maps.

import { numberOf } from "./texts.js";
import { message } from "../base/format.js";
import { Complaint, rowsOf } from "./database.js";

const FORMAT = 1;
const DEEPEST = 24; // levels of a lane; deeper marks are in the table only
const CLOSE = 1; // µs: marks that overlap by less count as one after the other

const TABLES = {
  processes: "id:i name:t",
  threads: "id:i process:i name:t",
  channels: "id:i name:t",
  events: "id:i thread:i channel:i parent:i ts_us:r dur_us:n label:t",
  series: "id:i graph:t name:t unit:t",
  points: "series:i ts_us:r value:r",
  heatmaps: "id:i name:t unit:t edges:t",
  counts: "heatmap:i ts_us:r counts:t",
};
/** @type {Record<string, string>} */
const KINDS = { i: "'integer'", t: "'text'", r: "'real', 'integer'", n: "'real', 'null'" };

/** @typedef {{begin: number, end: number, label: number, row: number}} Box */

/** Rows of a table, checked as in pva.openTrace.
 * @param {any} database @param {keyof typeof TABLES} table */
function checked(database, table) {
  const columns = TABLES[table].split(" ").map((one) => one.split(":"));
  const wrong = columns.map(
    ([name, kind]) =>
      `typeof(${name}) NOT IN (${KINDS[kind]})` + (kind === "r" || kind === "n" ? ` OR abs(${name}) > 1e300` : ""),
  );
  if (columns.some(([name]) => name === "ts_us")) wrong.push("ts_us NOT BETWEEN 0 AND 1e16");
  if (table === "events") wrong.push("dur_us NOT BETWEEN 0 AND 1e16");
  if (rowsOf(database, `SELECT 1 FROM ${table} WHERE ${wrong.join(" OR ")} LIMIT 1`).length > 0)
    throw new Error(`a value of its table ${table} is of a wrong kind`);
  const order = table === "events" ? "ts_us, dur_us DESC, id" : columns[0][0] === "id" ? "id" : "ts_us";
  const names = columns.map(([name]) => name).join(", ");
  return rowsOf(database, `SELECT ${names} FROM ${table} ORDER BY ${order}`);
}

/** @param {Box[]} boxes @param {Record<string, any>} [more] */
function level(boxes, more) {
  return {
    begin: Float64Array.from(boxes, (box) => box.begin),
    end: Float64Array.from(boxes, (box) => box.end),
    label: Int32Array.from(boxes, (box) => box.label),
    row: Int32Array.from(boxes, (box) => box.row),
    ...more,
  };
}

/** Levels of the marks of a thread. A mark is below its parent; marks of a level do not overlap.
 * @param {any[][]} events @param {number[]} mine @param {(text: string) => number} label */
function threadLevels(events, mine, label) {
  /** @type {Box[][]} */
  const levels = [];
  /** @type {Box[]} */
  const moments = [];
  const depths = new Map();
  for (const row of mine) {
    const [id, , , parent, at, long, text] = events[row];
    if (long === null) {
      moments.push({ begin: at, end: at, label: label(text), row });
      continue;
    }
    let depth = depths.has(parent) ? depths.get(parent) + 1 : 0;
    while (depth < DEEPEST && (levels[depth]?.at(-1)?.end ?? 0) > at + CLOSE) ++depth;
    depths.set(id, depth);
    if (depth >= DEEPEST) continue;
    for (let i = levels.length; i <= depth; ++i) levels.push([]);
    const begin = Math.max(at, levels[depth].at(-1)?.end ?? 0);
    levels[depth].push({ begin, end: Math.max(begin, at + long), label: label(text), row });
  }
  const found = levels.map((boxes) => level(boxes));
  if (moments.length > 0) found.push(level(moments, { kind: "moments" }));
  return found;
}

/** The numbers of a JSON array. @param {string} text @returns {number[]} */
function numbersOf(text) {
  const found = JSON.parse(text);
  if (!Array.isArray(found) || !found.every(Number.isFinite)) throw new Error("a list of numbers is damaged");
  return found;
}

/** Histograms over time, each with its counts: times and, for each, as many numbers as bins.
 * @param {any} database */
function readHeatmaps(database) {
  const counts = checked(database, "counts");
  return checked(database, "heatmaps")
    .map(([id, name, unit, text]) => {
      const edges = numbersOf(text),
        mine = counts.filter((row) => row[0] === id),
        bins = edges.length - 1;
      if (bins < 1 || edges.some((edge, i) => i > 0 && edge <= edges[i - 1]))
        throw new Error(`the edges of the heatmap ${name} do not rise`);
      const values = mine.map((row) => numbersOf(row[2]));
      if (values.some((row) => row.length !== bins))
        throw new Error(`the heatmap ${name} has not a count between each two edges`);
      return { name, unit, edges, ts: mine.map((row) => /** @type {number} */ (row[1])), values };
    })
    .filter((one) => one.ts.length > 0);
}

/** @typedef {ReturnType<typeof readHeatmaps>[0]} Heatmap */

/** @param {any} database @param {string} name */
function read(database, name) {
  const meta = Object.fromEntries(rowsOf(database, "SELECT key, value FROM meta"));
  if (meta.format === undefined) throw new Error("it does not say its format");
  if (meta.format !== FORMAT)
    throw new Complaint(`${name} has the format ${meta.format}; this page reads format ${FORMAT}.`);
  const processes = new Map(checked(database, "processes").map((row) => [row[0], row[1]]));
  const threads = checked(database, "threads");
  const channels = checked(database, "channels");
  const channelAt = new Map(channels.map((row, i) => [row[0], i]));
  const events = checked(database, "events");
  const series = checked(database, "series");
  const points = checked(database, "points");
  const heatmaps = readHeatmaps(database);
  /** @type {Map<string, number>} */
  const labels = new Map();
  const label = (/** @type {string} */ text) => numberOf(labels, text);
  /** @type {Map<number, number[]>} */
  const byThread = new Map(threads.map((row) => [row[0], []]));
  events.forEach((row, i) => byThread.get(row[1])?.push(i));
  /** @type {{title: string, levels: any[]}[]} */
  const lanes = [];
  const laneOf = new Int32Array(events.length + points.length).fill(-1);
  for (const [id, process, thread] of threads) {
    const mine = byThread.get(id) ?? [];
    if (mine.length === 0) continue;
    for (const row of mine) laneOf[row] = lanes.length;
    const title = `host, thread ${id} ${thread} · process ${process} ${processes.get(process) ?? ""}`;
    lanes.push({ title, levels: threadLevels(events, mine, label) });
  }
  const end = events.reduce(
    (most, row) => Math.max(most, row[4] + (row[5] ?? 0)),
    Math.max(0, points.at(-1)?.[1] ?? 0, ...heatmaps.map((one) => one.ts.at(-1) ?? 0)),
  );
  const begin = Math.min(
    ...[events[0]?.[4], points[0]?.[1], ...heatmaps.map((one) => one.ts[0])].filter((one) => one !== undefined),
  );
  for (const [id, graph, title, unit] of series) {
    /** @type {Box[]} */
    const boxes = [];
    const values = [];
    points.forEach((row, i) => {
      if (row[0] !== id) return;
      const last = boxes.at(-1);
      if (last) last.end = row[1];
      laneOf[events.length + i] = lanes.length;
      boxes.push({ begin: row[1], end, label: label(`${title} ${unit}`.trim()), row: events.length + i });
      values.push(row[2]);
    });
    if (boxes.length === 0) continue;
    const more = { kind: "line", values: Float64Array.from(values) };
    lanes.push({ title: `host, ${graph}: ${title}${unit ? ` in ${unit}` : ""}`, levels: [level(boxes, more)] });
  }
  return {
    name,
    begin,
    end,
    lanes,
    channels: channels.map((row) => row[1]),
    /** By row: marks in time order, then numbers. */
    ts: Float64Array.from([...events.map((row) => row[4]), ...points.map((row) => row[1])]),
    dur: Float64Array.from([...events.map((row) => row[5] ?? NaN), ...points.map(() => NaN)]),
    value: Float64Array.from([...events.map(() => NaN), ...points.map((row) => row[2])]),
    channel: Int32Array.from([...events.map((row) => channelAt.get(row[2]) ?? -1), ...points.map(() => -1)]),
    label: Int32Array.from([
      ...events.map((row) => label(row[6])),
      ...points.map((row) => label(series.find((one) => one[0] === row[0])?.[2] ?? "")),
    ]),
    lane: laneOf,
    labels: [...labels.keys()],
    heatmaps,
  };
}

/** @typedef {ReturnType<typeof read>} Timeline */

/** @param {any} SQL @param {Uint8Array} bytes @param {string} name @returns {Timeline} */
export function readTimeline(SQL, bytes, name) {
  let database;
  try {
    database = new SQL.Database(bytes);
    const found = read(database, name);
    if (found.ts.length === 0 && found.heatmaps.length === 0) throw new Complaint(`${name} has no marks.`);
    return found;
  } catch (error) {
    if (error instanceof Complaint) throw error;
    throw new Complaint(`${name} is no timeline that Tremula wrote, or is damaged: ${message(error)}.`);
  } finally {
    database?.close();
  }
}
