// Memory by tile: arrays for charts, details of chosen tiles, variables on tiles.

import { bytesOnTile } from "./capnp.js";
import { Grown, inOrder } from "./grown.js";
import { QUERIES } from "./queries.js";
import { numbersAt } from "./records.js";
import { numberOf, textsOf } from "./texts.js";
import { variablesIn } from "./variables.js";

/** Columns of bytes of a tile. */
export const TILE_BYTES = "total total_including_gaps gaps always_live not_always_live interleaved overflowed".split(
  " ",
);

/** @param {Profile} profile */
export function memoryByTile(profile) {
  const { database } = profile;
  /** @type {Record<string, any>} */
  const tiles = database.columns("memory_by_tile", ["tile", "ipu", "peak_program", ...TILE_BYTES]);
  const count = tiles.tile.length;
  const place = new Map(Array.from(tiles.tile, (tile, i) => [tile, i]));
  const names = profile.rowsIf("var_categories", QUERIES.varCategories);
  /** @type {Map<number, Float64Array>} */
  const arrays = new Map();
  const info = database.has("vars_info")
    ? database.columns("vars_info", ["tile", "category", "size_bytes", "always_live"])
    : { tile: [], category: [], size_bytes: [] };
  for (let i = 0; i < info.tile.length; ++i) {
    const at = place.get(info.tile[i]);
    if (at === undefined) continue;
    let array = arrays.get(info.category[i]);
    if (array === undefined) arrays.set(info.category[i], (array = new Float64Array(count)));
    array[at] += info.size_bytes[i];
  }
  const categories = names
    .filter(([id]) => arrays.has(id))
    .map(([id, name, always]) => ({ id, name, always, bytes: /** @type {Float64Array} */ (arrays.get(id)), sum: 0 }));
  for (const one of categories) one.sum = one.bytes.reduce((sum, bytes) => sum + bytes, 0);
  categories.sort((a, b) => b.sum - a.sum);
  return { ...tiles, categories };
}

/**
 * The bytes of each variable on chosen tiles, and whether it is alive when each tile is fullest.
 * @param {Profile} profile @param {number[]} tiles
 */
export function variablesOnTiles(profile, tiles) {
  const { value: all, problem } = profile.variables();
  if (all === undefined) return { problem, rows: [] };
  const peaks = tiles.map(
    (tile) => profile.database.value("SELECT peak_program FROM memory_by_tile WHERE tile = ?", [tile]) ?? -1,
  );
  const { alive, places, packed } = variablesIn(profile);
  const on = (/** @type {number} */ v, /** @type {number} */ t) => bytesOnTile(all, v, tiles[t]);
  const { rows, more } = largestFirst(
    places((v) => tiles.some((_, t) => on(v, t) > 0)),
    "t",
    tiles.length,
    on,
  );
  more.alive = Int8Array.from(rows, (v, k) =>
    peaks.some((peak, t) => more[`t${t}`][k] > 0 && alive(v, peak)) ? 1 : 0,
  );
  return { rows: packed(rows, more) };
}

/** Places by their largest value, and a column of each of the values. @param {number[]} places
 * @param {string} name of the columns, with a number behind it @param {number} count of values
 * @param {(place: number, number: number) => number} valueOf */
function largestFirst(places, name, count, valueOf) {
  const columns = Array.from({ length: count }, (_, n) => Float64Array.from(places, (place) => valueOf(place, n)));
  const most = Float64Array.from(places, (_, k) => columns.reduce((most, values) => Math.max(most, values[k]), 0));
  const order = inOrder(Int32Array.from(places.keys()), (a, b) => most[b] - most[a] || a - b);
  /** @type {Record<string, any>} */
  const more = Object.fromEntries(columns.map((values, n) => [`${name}${n}`, numbersAt(values, order)]));
  return { rows: Array.from(order, (k) => places[k]), more };
}

/** Bytes by tile of up to 8 variables. @param {Profile} profile @param {number[]} ids */
export function variableLines(profile, ids) {
  const { value: all, problem } = profile.variables();
  if (all === undefined) return { problem, lines: [] };
  const count = profile.database.value("SELECT count(*) FROM memory_by_tile");
  const lines = ids
    .slice(0, 8)
    .filter((id) => id >= 0 && id < all.names.length)
    .map((id) => {
      const bytes = new Float64Array(count);
      const d = all.distribution[id];
      for (let r = all.runStart[d]; r < all.runStart[d + 1]; ++r) {
        const end = Math.min(count, all.firstTile[r] + all.numTiles[r]);
        for (let t = all.firstTile[r]; t < end; ++t) bytes[t] += all.bytes[r];
      }
      return { id, name: all.names[id], bytes };
    });
  return { lines };
}

/** Bytes by name scope, each variable with all of its tiles: leaves of a treemap.
 * @param {Profile} profile */
export function bytesByScope(profile) {
  /** @type {Map<string, {scope: string, always: number, temporary: number, count: number}>} */
  const scopes = new Map();
  const { c, count, op, layer } = variablesIn(profile);
  for (let i = 0; i < count; ++i) {
    const scope = layer(i) || op(i).replace(/\/[^/]*$/, "") || "(no layer)";
    const one = scopes.get(scope) ?? { scope, always: 0, temporary: 0, count: 0 };
    if (c.always_live[i] === 1) one.always += c.total_bytes[i];
    else one.temporary += c.total_bytes[i];
    one.count += 1;
    scopes.set(scope, one);
  }
  return [...scopes.values()].sort((a, b) => b.always - a.always);
}

/**
 * The bytes that are live after each change, on all tiles of an IPU (-1: of all) or on chosen tiles.
 * @param {Profile} profile @param {number} ipu @param {number[]} tiles
 */
export function livenessSeries(profile, ipu, tiles) {
  if (tiles.length > 0) return livenessOfTiles(profile, tiles);
  const {
    program,
    ipu: of,
    not_always_live: bytes,
  } = profile.database.columns("liveness", ["program", "ipu", "not_always_live"]);
  const order = inOrder(Int32Array.from(program.keys()), (a, b) => program[a] - program[b] || of[a] - of[b]);
  const steps = new Grown(true),
    values = new Grown();
  /** @type {Map<number, number>} */
  const now = new Map();
  let sum = 0;
  for (const i of order) {
    if (ipu >= 0 && of[i] !== ipu) continue;
    sum += bytes[i] - (now.get(of[i]) ?? 0);
    now.set(of[i], bytes[i]);
    if (steps.length > 0 && steps.data[steps.length - 1] === program[i]) values.data[values.length - 1] = sum;
    else {
      steps.push(program[i]);
      values.push(sum);
    }
  }
  const floors = profile.rowsIf("memory_by_tile", QUERIES.alwaysLiveByIpu);
  const floor = floors.reduce((all, [one, live]) => all + (ipu < 0 || one === ipu ? live : 0), 0);
  const perTile = profile.target.bytes_per_tile * profile.target.tiles_per_ipu;
  return {
    ...series(steps, values),
    floor,
    capacity: perTile * (ipu >= 0 ? 1 : Math.max(1, floors.length)),
    numSteps: numSteps(profile),
  };
}

/** @param {Profile} profile */
function numSteps(profile) {
  return profile.programColumns().id.length;
}

/** Steps, the values from each on, and the first with the most. @param {Grown} steps @param {Grown} values */
function series(steps, values) {
  let at = 0;
  for (let i = 1; i < values.length; ++i) if (values.data[i] > values.data[at]) at = i;
  const most = values.length > 0 ? values.data[at] : 0;
  return { highest: steps.data[at], most, steps: steps.whole(), values: values.whole() };
}

/** @param {Profile} profile @param {number[]} tiles */
function livenessOfTiles(profile, tiles) {
  const { value: all, problem } = profile.variables();
  if (all === undefined) return { problem };
  const count = numSteps(profile);
  const change = new Float64Array(count + 1);
  let floor = 0;
  for (let v = 0; v < all.names.length; ++v) {
    const bytes = tiles.reduce((sum, tile) => sum + bytesOnTile(all, v, tile), 0);
    if (bytes === 0) continue;
    if (all.alwaysLive[v]) {
      floor += bytes;
    } else {
      change[Math.min(count, all.firstStep[v])] += bytes;
      change[Math.min(count, all.endStep[v])] -= bytes;
    }
  }
  const steps = new Grown(true),
    values = new Grown();
  let sum = 0;
  for (let s = 0; s < count; ++s) {
    sum += change[s];
    if (s === 0 || change[s] !== 0) {
      steps.push(s);
      values.push(sum);
    }
  }
  return { ...series(steps, values), floor, capacity: profile.target.bytes_per_tile * tiles.length, numSteps: count };
}

/**
 * The bytes that are alive at each of some steps, on an IPU (-1: all) or on chosen tiles.
 * @param {Profile} profile @param {number[]} steps @param {number} ipu @param {number[]} tiles
 * @param {string} by "variable", "operation", "layer", "line"
 */
export function aliveAt(profile, steps, ipu, tiles, by) {
  const { value: all, problem } = tiles.length > 0 ? profile.variables() : {};
  if (problem !== undefined) return { problem };
  const { c, alive, places, packed, op, layer, where } = variablesIn(profile);
  const bytesOf = (/** @type {number} */ i) =>
    all === undefined ? c.total_bytes[i] : tiles.reduce((sum, tile) => sum + bytesOnTile(all, i, tile), 0);
  const isThere = (/** @type {number} */ i) => all !== undefined || ipu < 0 || c.ipu[i] < 0 || c.ipu[i] === ipu;
  const at = (/** @type {number} */ i, /** @type {number} */ s) => (alive(i, steps[s]) ? bytesOf(i) : 0);
  const some = places((i) => isThere(i) && steps.some((step) => alive(i, step)) && bytesOf(i) > 0);
  const nameOf = { operation: op, layer, line: where }[by];
  if (nameOf === undefined) {
    const { rows, more } = largestFirst(some, "s", steps.length, at);
    return { rows: packed(rows, more) };
  }
  /** @type {Map<string, number>} */
  const groups = new Map(),
    sums = steps.map(() => new Grown());
  for (const i of some) {
    const g = numberOf(groups, nameOf(i) || "(none)");
    sums.forEach((sum, s) => {
      if (g === sum.length) sum.push(0);
      sum.data[g] += at(i, s);
    });
  }
  const numbers = Object.fromEntries(sums.map((sum, s) => [`s${s}`, sum.whole()]));
  return { rows: { count: groups.size, numbers, texts: { name: textsOf(groups.keys()).packed() } } };
}
