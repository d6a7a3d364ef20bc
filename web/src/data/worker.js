// The worker: opens profiles and answers the page's calls. All reading is done here.

import { buffersIn } from "./buffers.js";
import { comparePairs } from "./compare.js";
import { message } from "../base/format.js";
import { Complaint, Unbegun } from "./database.js";
import { graph } from "./graph.js";
import { aliveAt, bytesByScope, livenessSeries, memoryByTile, variableLines, variablesOnTiles } from "./memory.js";
import { insights, operations, scopes, sourceLines } from "./operations.js";
import { pick, unpack } from "./records.js";
import { piecesOf, WHOLE } from "./pieces.js";
import { FILES, Profile } from "./profile.js";
import { QUERIES } from "./queries.js";
import { bands, stepsOf } from "./steps.js";
import { readTimeline } from "./timeline.js";
import { beginnings, heavy, pipeline, rowsOfProgram, sandwich, sums, working } from "./rows.js";
import { flame, perfetto, trace } from "./trace.js";
import { turnover, variablesById, variablesOf, variablesOfSource } from "./variables.js";

/** @type {any} */
const scope = self;
/** @type {Promise<any>|undefined} */
let started;
/** SQLite; most profiles open without it, so that it starts after the first of them is shown. */
const engine = () => (started ??= scope.initSqlJs());
/** @type {Map<number, Profile>} */
const profiles = new Map();

/** The graph, and what the instructions that it shows take. @param {Profile} profile @param {...any} given */
function graphWithCosts(profile, ...given) {
  const found = /** @type {any} */ (graph)(profile, ...given);
  if (found.problem !== undefined) return found;
  const shown = new Set(found.boxes.flatMap((box) => box.hlo));
  const all = operations(profile, "hlo"),
    rows = unpack(all);
  return {
    ...found,
    operations: pick(
      all,
      [...rows.keys()].filter((row) => shown.has(rows[row].name)),
    ),
  };
}

/** Calls of the page: (profile, ...arguments). */
const CALLS = {
  overview: (/** @type {Profile} */ p) => p.overview(),
  frameworkOptions: (/** @type {Profile} */ p) => p.frameworkOptions(),
  memory: memoryByTile,
  variablesOnTiles,
  variableLines,
  variablesById,
  variablesOf,
  variablesOfSource,
  turnover,
  stepsOf,
  bands,
  bytesByScope,
  liveness: livenessSeries,
  alive: aliveAt,
  programs: (/** @type {Profile} */ p) => p.programs(),
  programNumbers: (/** @type {Profile} */ p) => p.programNumbers(),
  sources: (/** @type {Profile} */ p) => p.sources(),
  computeSet: (/** @type {Profile} */ p, /** @type {number} */ set) => p.computeSet(set),
  trace,
  flame,
  sums,
  heavy,
  sandwich,
  pipeline,
  working,
  rowsOfProgram,
  beginnings,
  operations,
  scopes,
  sourceLines,
  insights,
  graph: graphWithCosts,
  streams: (/** @type {Profile} */ p) => p.streams(),
  regions: (/** @type {Profile} */ p, /** @type {number[]} */ tiles) => p.regions(tiles),
  tileCycles: (/** @type {Profile} */ p) =>
    p.database.has("tile_cycles")
      ? p.database.columns("tile_cycles", ["distribution", "first_tile", "num_tiles", "cycles"])
      : null,
  ask: (/** @type {Profile} */ p, /** @type {string} */ sql) => {
    const other = [...profiles.values()].find((one) => one !== p);
    p.database.attach(other?.database ?? null);
    return p.ask(sql);
  },
  schema: (/** @type {Profile} */ p) => p.schema(),
  raw: (/** @type {Profile} */ p, /** @type {string} */ file, /** @type {string} */ part) => p.raw(file, part),
  queries: () => QUERIES,
};

/** The file that a call reads beside profile.pop. @type {Record<string, string>} */
const FILE_OF = {
  variablesOnTiles: "vars.capnp",
  variableLines: "vars.capnp",
  liveness: "vars.capnp",
  alive: "vars.capnp",
  insights: "vars.capnp",
  frameworkOptions: "framework.json",
  graph: "framework.json",
};

/** A file's size; gzip has it at the end. @param {Blob|ArrayBuffer} data @param {boolean} packed */
function sizeOf(data, packed) {
  if (data instanceof Blob) return data.size;
  return packed && data.byteLength >= 4 ? new DataView(data).getUint32(data.byteLength - 4, true) : data.byteLength;
}

/** @param {Blob|ArrayBuffer} data @param {boolean} packed */
async function bytesOf(data, packed) {
  if (packed) {
    const plain = new Blob([data]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Uint8Array(await new Response(plain).arrayBuffer());
  }
  return new Uint8Array(data instanceof Blob ? await data.arrayBuffer() : data);
}

/**
 * @param {number} report
 * @param {{name: string, files: {name: string, data: Blob|ArrayBuffer, packed: boolean}[]}} given
 * @param {(text: string) => void} progress
 */
async function open(report, given, progress) {
  const files = new Map(),
    later = new Map();
  for (const { name, data, packed } of given.files) {
    if (name !== "profile.pop") {
      if (name in FILES) later.set(name, { size: sizeOf(data, packed), read: () => bytesOf(data, packed) });
      continue;
    }
    progress(`Reading ${name}`);
    try {
      const isLarge = data instanceof Blob && !packed && data.size > WHOLE;
      files.set(name, isLarge ? piecesOf(data) : await bytesOf(data, packed));
    } catch (error) {
      throw new Complaint(`${name} cannot be read: ${message(error)}.`);
    }
  }
  progress("Opening profile.pop");
  const profile = new Profile(files, given.name, later);
  let overview;
  try {
    overview = profile.open();
  } catch (error) {
    if (!(error instanceof Unbegun)) throw error;
    profile.database.begin(await engine());
    overview = profile.open();
  }
  for (const one of profiles.values()) one.database.attach(null);
  profiles.get(report)?.database.close();
  profiles.set(report, profile);
  return overview;
}

/** The message of a failure. @param {unknown} error */
function sentence(error) {
  if (error instanceof Complaint) return error.message;
  return `This part of the profile cannot be read: ${message(error)}.`;
}

/** @param {any} asked @param {(text: string) => void} progress */
async function answer(asked, progress) {
  if (asked.method === "open") return open(asked.report, asked.arguments[0], progress);
  if (asked.method === "timeline") {
    const { name, data, packed } = asked.arguments[0];
    progress(`Reading ${name}`);
    return readTimeline(await engine(), await bytesOf(data, packed), name);
  }
  for (const one of profiles.values()) one.database.begin(await engine());
  if (asked.method === "compare") {
    const [a, b] = asked.arguments.map((id) => profiles.get(id));
    if (a === undefined || b === undefined) throw new Complaint("Two reports are needed.");
    return comparePairs(a, b);
  }
  if (asked.method === "perfetto") {
    const [processes, more] = asked.arguments;
    return perfetto(
      processes.map((/** @type {any} */ one) => ({ ...one, profile: profiles.get(one.report) })),
      more,
    );
  }
  const profile = profiles.get(asked.report);
  if (profile === undefined) throw new Complaint("No report is open.");
  const call = /** @type {Record<string, Function>} */ (CALLS)[asked.method];
  await profile.need(asked.method === "raw" ? asked.arguments[0] : (FILE_OF[asked.method] ?? ""));
  return call(profile, ...asked.arguments);
}

scope.onmessage = async (/** @type {MessageEvent} */ event) => {
  const { id } = event.data;
  const progress = (/** @type {string} */ text) => scope.postMessage({ id, progress: text });
  try {
    const value = await answer(event.data, progress);
    const handed = event.data.method === "open" ? [] : [...buffersIn(value, new Set())];
    scope.postMessage({ id, value }, handed);
    engine();
  } catch (error) {
    scope.postMessage({ id, problem: sentence(error) });
  }
};
