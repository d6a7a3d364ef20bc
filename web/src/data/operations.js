// Operations by layer, source lines, insights: aggregates of several tables.

import { operationsQuery, operationSizesQuery, QUERIES } from "./queries.js";
import { Texts, textsOf } from "./texts.js";
import { variablesIn } from "./variables.js";

/** @typedef {import("./profile.js").Profile} Profile */
/** @typedef {"op"|"hlo"|"scope"|"source"|"type"|"opcode"} Layer */

/**
 * @typedef {object} Operation
 * @property {string} name @property {string} layer @property {string|null} plan
 * @property {number} cycles @property {number} compute @property {number} flops
 * @property {number} temporary @property {number} wasted @property {number} code
 * @property {number} bytesIn @property {number} bytesOut @property {number} sync
 * @property {number} executions @property {number} programs @property {number} liveWorst
 * @property {number} first @property {string} opType @property {string} file
 * @property {number} line @property {string} hlo @property {string} opcode
 * @property {number} exchange @property {number} vertices @property {number} edges
 * @property {number} alwaysLive @property {number} weights @property {number} variables
 */

/** @param {Profile} profile @param {Layer} layer @returns {Operation[]} */
export function operations(profile, layer) {
  const rows = profile.database.rows(operationsQuery(layer));
  const sizes = operationSizesQuery(layer);
  const vertices = new Map(
    profile.database.has("compute_sets") ? profile.database.rows(sizes.vertices).map((row) => [row[0], row]) : [],
  );
  const variables = new Map(profile.database.rows(sizes.variables).map((row) => [row[0], row]));
  return rows.map((r) => ({
    name: String(r[0] ?? ""),
    layer: String(r[1] ?? ""),
    plan: r[2],
    cycles: r[3],
    compute: r[4],
    flops: r[5],
    temporary: r[6],
    wasted: r[7],
    code: r[8],
    bytesIn: r[9],
    bytesOut: r[10],
    sync: r[11],
    executions: r[12],
    programs: r[13],
    liveWorst: r[14],
    first: r[15],
    opType: r[16] ?? "",
    file: r[17] ?? "",
    line: r[18] ?? 0,
    hlo: r[19] ?? "",
    opcode: r[20] ?? "",
    exchange: r[21],
    vertices: vertices.get(r[0])?.[1] ?? 0,
    edges: vertices.get(r[0])?.[2] ?? 0,
    alwaysLive: variables.get(r[0])?.[1] ?? 0,
    weights: variables.get(r[0])?.[2] ?? 0,
    variables: variables.get(r[0])?.[3] ?? 0,
  }));
}

const TEXTS = ["name", "layer", "plan", "opType", "file", "hlo", "opcode"];

/** @typedef {{count: number, numbers: Record<string, Float64Array>, texts: Record<string, import("./texts.js").Packed>}} PackedOperations */

/** As columns, to hand over. @param {any[]} rows @returns {PackedOperations} */
export function packOperations(rows) {
  /** @type {PackedOperations} */
  const packed = { count: rows.length, numbers: {}, texts: {} };
  for (const key of Object.keys(rows[0] ?? {})) {
    const values = rows.map((row) => row[key]);
    if (TEXTS.includes(key)) packed.texts[key] = textsOf(values).packed();
    else packed.numbers[key] = Float64Array.from(values);
  }
  return packed;
}

/** Rows whose members are read when they are asked for. @param {PackedOperations} packed @returns {any[]} */
export function unpackOperations({ count, numbers, texts }) {
  class Row {
    /** @param {number} row */
    constructor(row) {
      this.row = row;
    }
  }
  const member = (/** @type {string} */ key, /** @type {(row: number) => any} */ read) =>
    Object.defineProperty(Row.prototype, key, {
      enumerable: true,
      get() {
        return read(this.row);
      },
    });
  for (const [key, values] of Object.entries(numbers)) member(key, (row) => values[row]);
  for (const [key, packed] of Object.entries(texts)) {
    const values = new Texts(packed);
    member(key, (row) => values.at(row));
  }
  return Array.from({ length: count }, (_, row) => new Row(row));
}

/** Lines of source: cycles, bytes, what is live where the fullest tile is. @param {Profile} profile */
export function sourceLines(profile) {
  const peak =
    profile.totals.worst_step ??
    profile.database.value(
      "SELECT peak_program FROM memory_by_tile ORDER BY " + "total_including_gaps DESC, tile LIMIT 1",
    ) ??
    0;
  /** @type {Map<string, number>} */
  const live = new Map();
  const { c, count, alive, where } = variablesIn(profile);
  for (let i = 0; i < count; ++i) {
    if (alive(i, peak)) live.set(where(i), (live.get(where(i)) ?? 0) + c.total_bytes[i]);
  }
  const rows = operations(profile, "source").map((one) => ({ ...one, live: live.get(one.name) ?? 0 }));
  return { rows, peak };
}

/** The data of Insights beside the overview. @param {Profile} profile */
export function insights(profile) {
  const { database } = profile;
  const tile = database.rows(
    "SELECT tile, ipu, total_including_gaps, peak_program FROM " +
      "memory_by_tile ORDER BY total_including_gaps DESC, tile LIMIT 1",
  )[0] ?? [0, 0, 0, 0];
  const peak = tile[3];
  const { c, alive, places, row, type } = variablesIn(profile);
  const top = (/** @type {number[]} */ list) =>
    list
      .sort((a, b) => c.total_bytes[b] - c.total_bytes[a])
      .slice(0, 10)
      .map(row);
  const floats = places((i) => alive(i, peak) && type(i) === "f32");
  const { value: all } = profile.variables();
  const fullest = profile.fullestTiles().map((row) => row[0]);
  const halves = floats
    .map((i) => ({ i, bytes: all === undefined ? c.worst_bytes[i] : bytesOn(all, c.id[i], fullest) }))
    .filter((one) => one.bytes > 0)
    .sort((a, b) => b.bytes - a.bytes);
  const byCode = database.has("vertex_types")
    ? database.rows("SELECT name, code_bytes FROM vertex_types ORDER BY code_bytes DESC, name LIMIT 10")
    : [];
  return {
    tile,
    peak,
    peakName: database.value("SELECT name FROM programs WHERE id = ?", [peak]) ?? "",
    always: top(places((i) => c.always_live[i] === 1)),
    atPeak: top(places((i) => c.always_live[i] !== 1 && alive(i, peak))),
    halves: halves.slice(0, 10).map((one) => ({ row: row(one.i), bytes: one.bytes })),
    halfBytes: halves.reduce((sum, one) => sum + one.bytes, 0) / 2,
    vertexStates: database.has("vertices") ? database.rows(QUERIES.vertexTypes).slice(0, 10) : [],
    vertexCodes: byCode,
    exchanges: database.rows(QUERIES.exchanges),
    advice: database.has("advice") ? database.ask(QUERIES.advice, 100) : null,
    histogram: database.columns("memory_by_tile", ["total_including_gaps"]).total_including_gaps,
  };
}

/** @param {import("./capnp.js").Variables} all @param {number} id @param {number[]} tiles */
function bytesOn(all, id, tiles) {
  const d = all.distribution[id];
  let most = 0;
  for (const tile of tiles) {
    let bytes = 0;
    for (let r = all.runStart[d]; r < all.runStart[d + 1]; ++r) {
      if (tile >= all.firstTile[r] && tile < all.firstTile[r] + all.numTiles[r]) bytes += all.bytes[r];
    }
    most = Math.max(most, bytes);
  }
  return most;
}
