// Memory by tile: arrays for charts, details of chosen tiles, variables on tiles.

import { QUERIES } from "./queries.js";

/** @typedef {import("./profile.js").Profile} Profile */

/** @param {Profile} profile */
export function memoryByTile(profile) {
  const { database } = profile;
  /** @type {Record<string, any>} */
  const tiles = database.columns("memory_by_tile", [
    "tile",
    "ipu",
    "total",
    "total_including_gaps",
    "gaps",
    "always_live",
    "not_always_live",
    "interleaved",
    "overflowed",
    "peak_program",
  ]);
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

/** The variables table as rows. @param {Profile} profile @returns {any[][]} */
export function variableRows(profile) {
  return profile.once("variables", () => profile.rowsIf("variables", QUERIES.variables));
}

/** @param {Profile} profile @param {number[]} ids in the order of the answer */
export function variablesById(profile, ids) {
  const byId = new Map(variableRows(profile).map((row) => [row[0], row]));
  return ids.map((id) => byId.get(id)).filter((row) => row !== undefined);
}

/** The variables of an operation, a name scope or a source line.
 * @param {Profile} profile @param {string} layer @param {string} name */
export function variablesOf(profile, layer, name) {
  /** @type {Record<string, (row: any[]) => boolean>} */
  const tests = {
    op: (row) => row[18] === name,
    scope: (row) => `${row[19]}/`.startsWith(`${name}/`),
    source: (row) => row[20] === name,
  };
  return layer in tests ? variableRows(profile).filter(tests[layer]) : [];
}

/** The variables of an instruction that are alive at a step.
 * @param {Profile} profile @param {number} source @param {number} step */
export function variablesOfSource(profile, source, step) {
  if (!(source >= 0)) return [];
  return variableRows(profile).filter(
    (row) => row[2] === source && (row[6] || (row[15] <= step && step < row[16])),
  );
}

/** What becomes alive at a step and what died before it: the first few, and how many.
 * @param {Profile} profile @param {number} step */
export function turnover(profile, step) {
  const some = (/** @type {number} */ place) => {
    const rows = variableRows(profile).filter((row) => !row[6] && row[place] === step);
    return { rows: rows.slice(0, 8), count: rows.length };
  };
  return { born: some(15), died: some(16) };
}

/**
 * The bytes of each variable on chosen tiles, and whether it is alive when each tile is fullest.
 * @param {Profile} profile @param {number[]} tiles
 */
export function variablesOnTiles(profile, tiles) {
  const { value: all, problem } = profile.variables();
  if (all === undefined) return { problem, rows: [] };
  const rows = [];
  const variables = variableRows(profile);
  const peaks = new Map(
    /** @type {[number, number][]} */ (
      profile.database.rows(
        `SELECT tile, peak_program FROM memory_by_tile WHERE tile IN (${tiles.map(Number).join(",")})`,
      )
    ),
  );
  for (let v = 0; v < all.names.length; ++v) {
    const bytes = tiles.map(() => 0),
      alive = tiles.map(() => false);
    let any = false;
    const d = all.distribution[v];
    for (let r = all.runStart[d]; r < all.runStart[d + 1]; ++r) {
      for (let t = 0; t < tiles.length; ++t) {
        const tile = tiles[t];
        if (tile < all.firstTile[r] || tile >= all.firstTile[r] + all.numTiles[r]) continue;
        bytes[t] += all.bytes[r];
        const peak = peaks.get(tile) ?? -1;
        alive[t] = all.alwaysLive[v] === 1 || (peak >= all.firstStep[v] && peak < all.endStep[v]);
        any = true;
      }
    }
    if (any) rows.push({ id: v, row: variables[v] ?? null, bytes, alive });
  }
  rows.sort((a, b) => Math.max(...b.bytes) - Math.max(...a.bytes));
  return { rows };
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
  for (const row of variableRows(profile)) {
    const scope = String(row[19] || row[18].replace(/\/[^/]*$/, "") || "(no layer)");
    const one = scopes.get(scope) ?? { scope, always: 0, temporary: 0, count: 0 };
    if (row[6]) one.always += row[10];
    else one.temporary += row[10];
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
  const order = Array.from(program.keys());
  order.sort((a, b) => program[a] - program[b] || of[a] - of[b]);
  const steps = [],
    values = [];
  /** @type {Map<number, number>} */
  const now = new Map();
  let sum = 0;
  for (const i of order) {
    if (ipu >= 0 && of[i] !== ipu) continue;
    sum += bytes[i] - (now.get(of[i]) ?? 0);
    now.set(of[i], bytes[i]);
    if (steps.length > 0 && steps[steps.length - 1] === program[i]) values[values.length - 1] = sum;
    else {
      steps.push(program[i]);
      values.push(sum);
    }
  }
  const floors = profile.rowsIf("memory_by_tile", QUERIES.alwaysLiveByIpu);
  const floor = floors.reduce((all, [one, live]) => all + (ipu < 0 || one === ipu ? live : 0), 0);
  const perTile = profile.target.bytes_per_tile * profile.target.tiles_per_ipu;
  return {
    steps: Int32Array.from(steps),
    values: Float64Array.from(values),
    floor,
    capacity: perTile * (ipu >= 0 ? 1 : Math.max(1, floors.length)),
    numSteps: numSteps(profile),
  };
}

/** @param {Profile} profile */
function numSteps(profile) {
  return profile.once("numSteps", () => profile.database.value("SELECT count(*) FROM programs"));
}

/** @param {Profile} profile @param {number[]} tiles */
function livenessOfTiles(profile, tiles) {
  const { value: all, problem } = profile.variables();
  if (all === undefined) return { problem };
  const count = numSteps(profile);
  const change = new Float64Array(count + 1);
  let floor = 0;
  for (let v = 0; v < all.names.length; ++v) {
    const d = all.distribution[v];
    let bytes = 0;
    for (let r = all.runStart[d]; r < all.runStart[d + 1]; ++r) {
      for (const tile of tiles) {
        if (tile >= all.firstTile[r] && tile < all.firstTile[r] + all.numTiles[r]) bytes += all.bytes[r];
      }
    }
    if (bytes === 0) continue;
    if (all.alwaysLive[v]) {
      floor += bytes;
    } else {
      change[Math.min(count, all.firstStep[v])] += bytes;
      change[Math.min(count, all.endStep[v])] -= bytes;
    }
  }
  const steps = [],
    values = [];
  let sum = 0;
  for (let s = 0; s < count; ++s) {
    sum += change[s];
    if (s === 0 || change[s] !== 0) {
      steps.push(s);
      values.push(sum);
    }
  }
  return {
    steps: Int32Array.from(steps),
    values: Float64Array.from(values),
    floor,
    capacity: profile.target.bytes_per_tile * tiles.length,
    numSteps: count,
  };
}

/**
 * The variables that are alive at each of some steps, on an IPU (-1: all) or on chosen tiles.
 * @param {Profile} profile @param {number[]} steps @param {number} ipu @param {number[]} tiles
 */
export function aliveAt(profile, steps, ipu, tiles) {
  const rows = [];
  /** @type {Map<number, number>} */
  let onTiles = new Map();
  if (tiles.length > 0) {
    const found = variablesOnTiles(profile, tiles);
    if (found.problem !== undefined) return { problem: found.problem, rows: [] };
    onTiles = new Map(
      found.rows.map((one) => /** @type {[number, number]} */ ([one.id, one.bytes.reduce((a, b) => a + b, 0)])),
    );
  }
  for (const row of variableRows(profile)) {
    if (tiles.length === 0 && ipu >= 0 && row[7] >= 0 && row[7] !== ipu) continue;
    const bytes = tiles.length > 0 ? (onTiles.get(row[0]) ?? 0) : row[10];
    if (bytes === 0) continue;
    const at = steps.map((step) => (row[6] || (step >= row[15] && step < row[16]) ? bytes : 0));
    if (at.some((one) => one > 0)) rows.push({ row, at });
  }
  rows.sort((a, b) => Math.max(...b.at) - Math.max(...a.at));
  return { rows };
}
