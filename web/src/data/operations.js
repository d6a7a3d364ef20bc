// Operations by layer, source lines, insights: aggregates of several tables.

import { Complaint } from "./database.js";
import { placeOf } from "./names.js";
import { resized } from "./buffers.js";
import { bytesOnTile } from "./capnp.js";
import { Grown, inOrder } from "./grown.js";
import { QUERIES } from "./queries.js";
import { pick, unpack } from "./records.js";
import { numberOf, textsOf } from "./texts.js";
import { namesIn } from "./trace.js";
import { variablesIn } from "./variables.js";

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

/**
 * The groups of a layer, found by their names.
 * @param {Profile} profile @param {Layer} layer
 */
function groupsOf(profile, layer) {
  const { sources, op, type, name } = namesIn(profile);
  const ofSource = new Int32Array(sources.length).fill(-2); // -2: not asked for yet, -1: none
  /** @type {Map<string, number>} */
  const places = new Map();
  /** @type {Record<string, (of: import("./names.js").Source) => string>} of an instruction */
  const texts = {
    op: (of) => of.op || of.hlo,
    hlo: (of) => of.hlo,
    scope: (of) => of.text("layer"),
    source: (of) => of.where,
    type: (of) => of.text("op_type") || of.text("opcode"),
    opcode: (of) => of.text("opcode"),
  };
  /** @type {Record<string, (program: number) => string>} of a program without one */
  const others = { op, hlo: name, scope: () => "", source: () => "", type, opcode: type };
  const add = (/** @type {string} */ text) => numberOf(places, text);
  return {
    places,
    /** The group of a program, whose instruction is at a place of the sources. @param {number} p @param {number} s */
    of: (p, s) => {
      if (s < 0) return add(others[layer](p));
      if (ofSource[s] < 0) ofSource[s] = add(texts[layer](sources.at(s)));
      return ofSource[s];
    },
    /** The group of an instruction, if a program is in it; else -1. @param {number} s */
    ofSource: (s) => {
      if (ofSource[s] === -2) ofSource[s] = places.get(texts[layer](sources.at(s))) ?? -1;
      return ofSource[s];
    },
  };
}

/** Members of an operation that are added up. */
const SUMS =
  "cycles compute flops wasted code bytesIn bytesOut sync programs exchange vertices edges alwaysLive weights variables".split(
    " ",
  );
const MOST = "temporary executions liveWorst".split(" ");

/** What operationsQuery() asks, in arrays: SQLite would need seconds and a gigabyte for a million programs.
 * @param {Profile} profile @param {Layer} layer @returns {import("./records.js").Records} */
export function operations(profile, layer) {
  const c = profile.programColumns();
  const { sources, type } = namesIn(profile);
  const { end } = c;
  const missing = NEEDED.find((name) => c[name] === undefined);
  if (missing !== undefined)
    throw new Complaint(`profile.pop is damaged: its table 'programs' has no column '${missing}'.`);
  const groups = groupsOf(profile, layer);
  const leaves = new Grown(true),
    group = new Grown(true),
    source = new Grown(true);
  for (let i = 0; i < end.length; ++i) {
    if (end[i] !== i + 1) continue;
    const s = placeOf(sources.table.id, c.source[i]);
    leaves.push(i);
    source.push(s);
    group.push(groups.of(i, s));
  }
  const names = [...groups.places.keys()],
    count = names.length;
  /** @type {Record<string, Float64Array>} */
  const n = Object.fromEntries([...SUMS, ...MOST, "line", "first"].map((key) => [key, new Float64Array(count)]));
  n.first.fill(Infinity);
  const texts = textsOfGroups(sources, count);
  const alive = aliveOf(profile);
  for (let k = 0; k < leaves.length; ++k) {
    const i = leaves.data[k],
      g = group.data[k],
      s = source.data[k];
    const { cycles, executions } = { cycles: c.cycles[i], executions: c.executions[i] };
    n.cycles[g] += cycles * executions;
    if (type(i) === "OnTileExecute") {
      n.compute[g] += cycles * executions;
      n.wasted[g] += (cycles - c.cycles_mean[i]) * executions;
    }
    if (type(i) === "DoExchange") n.exchange[g] += cycles * executions;
    n.flops[g] += c.flops[i] * executions;
    n.code[g] += c.code_bytes[i];
    n.bytesIn[g] += c.bytes_in[i] * executions;
    n.bytesOut[g] += c.bytes_out[i] * executions;
    n.sync[g] += c.sync_cycles[i] * executions;
    n.programs[g] += 1;
    n.executions[g] = Math.max(n.executions[g], executions);
    n.liveWorst[g] = Math.max(n.liveWorst[g], c.live_worst[i]);
    n.first[g] = Math.min(n.first[g], i);
    if (s < 0) {
      texts.none(g);
      continue;
    }
    n.line[g] = Math.max(n.line[g], sources.table.line[s] || 0);
    n.temporary[g] = Math.max(n.temporary[g], alive(s, i));
    texts.add(g, s);
  }
  addSizes(profile, groups, n);
  for (const key of "cycles compute flops wasted bytesIn bytesOut sync exchange".split(" "))
    n[key].forEach((value, g) => (n[key][g] = Math.trunc(value)));
  const order = inOrder(
    Int32Array.from(names.keys()),
    (a, b) => n.cycles[b] - n.cycles[a] || (names[a] < names[b] ? -1 : 1),
  );
  for (const [key, values] of Object.entries(n)) {
    const narrow = new Grown(true);
    for (const g of order) narrow.push(values[g]);
    n[key] = narrow.whole();
    resized(values, 0);
  }
  return {
    count,
    numbers: n,
    texts: { name: textsOf(madeOf(order, (g) => names[g])).packed(), ...texts.packed(order) },
  };
}

const NEEDED = "source cycles executions sync_cycles cycles_mean bytes_in bytes_out flops code_bytes live_worst".split(
  " ",
);

/** Texts of groups: of several instructions the greatest text, but the least layer.
 * @param {import("./names.js").Sources} sources @param {number} count of groups */
function textsOfGroups({ table }, count) {
  /** @type {Record<string, string>} */
  const columns = { plan: "plan", opType: "op_type", file: "file", hlo: "hlo_name", opcode: "opcode", layer: "layer" };
  const kept = Object.entries(columns).map(([key, column]) => {
    const texts = table.texts[column] ?? textsOf(Array.from({ length: table.id.length }, () => ""));
    return { key, texts, least: key === "layer", ids: new Int32Array(count).fill(-1) };
  });
  const layers = kept[kept.length - 1];
  return {
    /** @param {number} g @param {number} s */
    add: (g, s) => {
      for (const { texts, ids, least } of kept) {
        const id = texts.ids[s],
          old = ids[g];
        if (old === id || old === -2) continue;
        if (old < 0 || texts.text(id) > texts.text(old) !== least) ids[g] = id;
      }
    },
    /** A program without an instruction has no layer. @param {number} g */
    none: (g) => {
      layers.ids[g] = -2;
    },
    /** @param {Int32Array} order */
    packed: (order) =>
      Object.fromEntries(
        kept.map(({ key, texts: { bytes, ends }, ids }) => [
          key,
          { ids: Int32Array.from(order, (g) => ids[g]), bytes: bytes.slice(), ends: ends.slice() },
        ]),
      ),
  };
}

/** Gives the bytes of an instruction's variables that are alive at a step, on the fullest tile of each.
 * @param {Profile} profile @returns {(source: number, step: number) => number} */
function aliveOf(profile) {
  const { sources } = namesIn(profile);
  const { c, count, category, name } = variablesIn(profile);
  const begin = new Int32Array(sources.length + 1),
    places = new Int32Array(count);
  const each = (/** @type {(s: number, v: number) => void} */ act) => {
    for (let v = 0; v < count; ++v) {
      const s = c.always_live[v] === 1 ? -1 : placeOf(sources.table.id, c.source[v]);
      if (s >= 0 && (category(v) !== "variable" || name(v) === "variable")) act(s, v);
    }
  };
  each((s) => void ++begin[s]);
  for (let s = 0; s < sources.length; ++s) begin[s + 1] += begin[s];
  // begin[s] is the end of s now, and its begin after all are placed.
  each((s, v) => void (places[--begin[s]] = v));
  return (s, step) => {
    let bytes = 0;
    for (let k = begin[s]; k < begin[s + 1]; ++k) {
      const v = places[k];
      if (c.first_step[v] <= step && step < c.end_step[v]) bytes += c.worst_bytes[v];
    }
    return bytes;
  };
}

/** Vertices, edges and bytes of variables. @param {Profile} profile
 * @param {ReturnType<typeof groupsOf>} groups @param {Record<string, Float64Array>} n */
function addSizes(profile, groups, n) {
  const { database } = profile,
    { id } = namesIn(profile).sources.table;
  const groupOf = (/** @type {number} */ source) => {
    const s = placeOf(id, source);
    return s < 0 ? -1 : groups.ofSource(s);
  };
  const sets = database.has("compute_sets")
    ? database.columns("compute_sets", ["source", "vertices", "edges"], 3)
    : null;
  for (let k = 0; k < (sets?.source.length ?? 0); ++k) {
    const g = groupOf(sets?.source[k] ?? -1);
    if (g < 0 || sets === null) continue;
    n.vertices[g] += sets.vertices[k];
    n.edges[g] += sets.edges[k];
  }
  const { c, count } = variablesIn(profile);
  for (let v = 0; v < count; ++v) {
    const g = groupOf(c.source[v]);
    if (g < 0) continue;
    n.variables[g] += 1;
    if (c.always_live[v] === 1) n.alwaysLive[g] += c.total_bytes[v];
    if (c.is_weight[v] === 1) n.weights[g] += c.total_bytes[v];
  }
}

/** TensorFlow ops, to look at: what is handed over is gone. @param {Profile} profile */
export function operationsSeen(profile) {
  return profile.lightly("operations", () => operations(profile, "op"));
}

/** Sums of the name scopes right below one. scopes: 2 where a scope has others. @param {Profile} profile
 * @param {string} under "": the outermost @returns {import("./records.js").Records} */
export function scopes(profile, under) {
  const all = operationsSeen(profile),
    prefix = under === "" ? "" : `${under}/`;
  /** @type {Map<string, number>} */
  const groups = new Map();
  const paths = unpack(all).map((row) => row.layer || row.name);
  const rows = [...paths.keys()].filter((r) => `${paths[r]}/`.startsWith(prefix));
  const depth = under === "" ? 1 : under.split("/").length + 1;
  const names = rows.map((r) => paths[r].split("/", depth).join("/"));
  /** @type {number[]} */
  const first = [];
  rows.forEach((r, k) => {
    if (numberOf(groups, names[k]) === first.length) first.push(r);
  });
  const { numbers, texts, count } = pick(all, first);
  for (const key of [...SUMS, ...MOST]) numbers[key] = new Float64Array(count);
  numbers.scopes = new Int8Array(count).fill(1);
  rows.forEach((r, k) => {
    const g = numberOf(groups, names[k]);
    if (names[k] !== paths[r]) numbers.scopes[g] = 2;
    for (const key of SUMS) numbers[key][g] += all.numbers[key][r];
    for (const key of MOST) numbers[key][g] = Math.max(numbers[key][g], all.numbers[key][r]);
  });
  const none = textsOf(Array.from(first, () => "")).packed();
  return { count, numbers, texts: { ...texts, name: textsOf(groups.keys()).packed(), layer: none, plan: none } };
}

/** @template T @param {Iterable<number>} places @param {(place: number) => T} make */
function* madeOf(places, make) {
  for (const place of places) yield make(place);
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
  const rows = operations(profile, "source");
  rows.numbers.live = Float64Array.from(unpack(rows), (row) => live.get(row.name) ?? 0);
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
  const { c, alive, places, packed, type, name } = variablesIn(profile);
  const top = (/** @type {number[]} */ list) => packed(largest(list, (i) => c.total_bytes[i]));
  const floats = places((i) => alive(i, peak) && type(i) === "f32");
  const { value: all } = profile.variables();
  const fullest = profile.fullestTiles().map((row) => row[0]);
  const halves = floats
    .map((i) => ({ i, bytes: all === undefined ? c.worst_bytes[i] : bytesOn(all, c.id[i], fullest) }))
    .filter((one) => one.bytes > 0)
    .sort((a, b) => b.bytes - a.bytes);
  const rows = unpack(operationsSeen(profile));
  const some = (list) => list.map(({ name, cycles, wasted }) => ({ name, cycles, wasted }));
  const byWaste = largest([...rows.keys()], (i) => rows[i].wasted).map((i) => rows[i]);
  const byCode = database.has("vertex_types")
    ? database.rows("SELECT name, code_bytes FROM vertex_types ORDER BY code_bytes DESC, name LIMIT 10")
    : [];
  return {
    tile,
    peak,
    peakName: database.value("SELECT name FROM programs WHERE id = ?", [peak]) ?? "",
    always: top(places((i) => c.always_live[i] === 1)),
    atPeak: top(places((i) => c.always_live[i] !== 1 && alive(i, peak))),
    halves: halves.slice(0, 10).map((one) => ({ name: name(one.i), bytes: one.bytes })),
    halfBytes: halves.reduce((sum, one) => sum + one.bytes, 0) / 2,
    vertexStates: database.has("vertices") ? vertexStates(database) : [],
    vertexCodes: byCode,
    exchanges: largestExchanges(profile),
    byCycles: some(rows.slice(0, 10)),
    byWaste: some(byWaste.filter((one) => one.wasted > 0)),
    advice: database.has("advice") ? database.ask(QUERIES.advice, 100) : null,
    histogram: database.columns("memory_by_tile", ["total_including_gaps"]).total_including_gaps,
  };
}

/** The ten places with the largest values; of equal ones the first. @param {ArrayLike<number>} places
 * @param {(place: number) => number} value */
function largest(places, value) {
  /** @type {number[]} */
  const found = [];
  for (let k = 0; k < places.length; ++k) {
    const place = places[k];
    let at = found.length;
    while (at > 0 && value(found[at - 1]) < value(place)) --at;
    if (at < 10) found.splice(at, 0, place);
    if (found.length > 10) found.pop();
  }
  return found;
}

/** Name, vertices and bytes of state of the codelets with most state. @param {import("./database.js").Database} database */
function vertexStates(database) {
  const { vertex_type, count, state_bytes } = database.columns("vertices", ["vertex_type", "count", "state_bytes"], 3);
  /** @type {Map<number, any[]>} */
  const found = new Map(database.records("vertex_types", ["id", "name"]).map(([id, name]) => [id, [name, 0, 0]]));
  for (let i = 0; i < count.length; ++i) {
    const one = found.get(vertex_type[i]);
    if (one === undefined) continue;
    one[1] += count[i];
    one[2] += count[i] * state_bytes[i];
  }
  const rows = [...found.values()].filter((one) => one[1] > 0);
  return largest([...rows.keys()], (i) => rows[i][2]).map((i) => rows[i]);
}

/** Step, name, bytes of code, bytes in and cycles. @param {Profile} profile */
function largestExchanges(profile) {
  const { name, type } = namesIn(profile),
    c = profile.programColumns();
  const places = new Grown(true);
  for (let i = 0; i < c.id.length; ++i) if (type(i) === "DoExchange" || type(i) === "GlobalExchange") places.push(i);
  const found = largest(places.data.subarray(0, places.length), (i) => c.code_bytes[i] + c.bytes_in[i] / 2 ** 50);
  return found.map((i) => [i, name(i), c.code_bytes[i], c.bytes_in[i], c.cycles[i]]);
}

/** The bytes of a variable on the tile that has most of it. @param {import("./capnp.js").Variables} all
 * @param {number} id @param {number[]} tiles */
function bytesOn(all, id, tiles) {
  return Math.max(0, ...tiles.map((tile) => bytesOnTile(all, id, tile)));
}
