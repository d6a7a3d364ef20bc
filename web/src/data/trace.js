// The execution trace: rows as columns, and boxes of a flame chart by lane.

import { copyOf } from "./buffers.js";
import { KINDS } from "../base/kinds.js";
import { namesOf, Sources, standsFor } from "./names.js";
import { Boxes, Grown } from "./grown.js";
import { partsOf } from "./sums.js";
import { numberOf, textsOf } from "./texts.js";

/** @typedef {Record<string, Float64Array>} Columns */

const PIECE = 1024; // events of a piece of text
const ENCODER = new TextEncoder();
const MOST_KNOWN = 1 << 16; // names whose parts are kept
const COLUMNS = [
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
];

/** What programs are called. @param {Profile} profile @returns {ReturnType<typeof namesOf>} */
export function namesIn(profile) {
  return profile.once("names", () => namesOf(profile.programNames(), new Sources(profile.sourceTable())));
}

/** All rows: those of runs that count their loops alike stand there once. @param {Profile} profile */
function allRows(profile) {
  return profile.once("rows", () => {
    const { database } = profile;
    return {
      columns: database.columns("trace", COLUMNS, COLUMNS.length - 1),
      phases: database.has("trace", "phase") ? database.texts("trace", ["phase"])[0] : null,
      begins: database.records("runs", ["first_row"]).map((run) => run[0]),
    };
  });
}

/** The rows of a run and what they are. @param {Profile} profile @param {number} first of the rows */
export function rowsOf(profile, first) {
  return profile.once(`rows from ${first}`, () => {
    const { columns: all, phases, begins } = allRows(profile);
    const end = Math.min(all.program.length, ...begins.filter((row) => row > first));
    const columns = Object.fromEntries(Object.entries(all).map(([key, one]) => [key, one.subarray(first, end)]));
    const names = namesIn(profile);
    const kinds = new Set();
    for (const program of columns.program) kinds.add(names.letter(program));
    const phaseOf = (/** @type {number} */ row) => phases?.at(first + row) ?? "";
    return { columns, phaseOf, names, kinds, stands: standsFor(columns, names.programs.end) };
  });
}

/** The columns for the page. @param {Profile} profile @param {number} first */
export function trace(profile, first) {
  return copyOf(rowsOf(profile, first).columns);
}

/** The lanes of rows: IPU (-1: all), and 1 for a row that runs beside another one of its IPU.
 * @param {Columns} c @param {number} ipus */
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
 * Lanes with boxes: one for each row or, nested, one for each part of the rows' names, by depth.
 * @param {Profile} profile @param {number} first @param {boolean} nested @param {number} offset of the first row
 */
export function flame(profile, first, nested, offset) {
  const { columns: c, names: programs, kinds } = rowsOf(profile, first);
  const names = programs.programs.name;
  const ipus = profile.database.value("SELECT count(*) FROM ipus") || 1;
  const lane = lanesOf(c, ipus);
  /** @type {Map<number, Grown>} */
  const rows = new Map();
  for (let i = 2; i < lane.length; ++i) {
    let list = rows.get(lane[i]);
    if (list === undefined) rows.set(lane[i], (list = new Grown(true)));
    list.push(i);
  }
  /** @type {Map<string, number>} */
  const labels = new Map();
  const label = (/** @type {string} */ text) => numberOf(labels, text);
  const none = [label("")];
  /** @type {Map<number, number[]>} */
  const known = new Map();
  const labelsOf = (/** @type {number} */ program) => {
    const id = names.ids[program];
    let parts = known.get(id);
    if (parts === undefined) {
      parts = partsOf(names.text(id)).map(label);
      if (parts.length === 0) parts = none;
      if (known.size >= MOST_KNOWN) known.clear();
      known.set(id, parts);
    }
    return parts;
  };
  const lanes = [...rows]
    .sort(([a], [b]) => a - b)
    .map(([key, list]) => {
      const mine = list.whole();
      const levels = nested ? laneLevels(mine, c, labelsOf, offset) : [flat(mine, c, offset)];
      return { ipu: key >> 1, beside: (key & 1) === 1, levels };
    });
  return { lanes, labels: textsOf(labels.keys()).packed(), kinds };
}

/** One level of all rows of a lane; a box has the name of its row's program.
 * @param {import("./grown.js").Numbers} rows @param {Columns} c @param {number} offset */
function flat(rows, c, offset) {
  const boxes = new Boxes();
  for (const row of rows) {
    const begin = c.cycles_base[row] + offset;
    boxes.push(begin, begin + c.cycles[row], -1, row);
  }
  return boxes.level();
}

/**
 * @param {import("./grown.js").Numbers} rows of a lane in time order
 * @param {Columns} c
 * @param {(program: number) => number[]} labelsOf labels of the parts of a name @param {number} offset
 */
function laneLevels(rows, c, labelsOf, offset) {
  /** @type {Boxes[]} */
  const levels = [];
  let open = 0; // levels whose last box the next row may be in
  /** @type {number[]} */
  const labels = [];
  for (const row of rows) {
    const parts = labelsOf(c.program[row]);
    const begin = c.cycles_base[row] + offset,
      end = begin + c.cycles[row];
    let same = 0;
    while (same < open && same < parts.length - 1 && labels[same] === parts[same]) ++same;
    for (let depth = 0; depth < same; ++depth) {
      levels[depth].end.raise(end);
    }
    for (let depth = same; depth < parts.length; ++depth) {
      levels[depth] ??= new Boxes();
      levels[depth].push(begin, end, parts[depth], depth === parts.length - 1 ? row : -1);
      labels[depth] = parts[depth];
    }
    open = parts.length - 1;
  }
  return levels.map((boxes) => boxes.level());
}

/** Rows of a profile for Perfetto: a process.
 * @typedef {{profile: Profile, first: number, name: string, offset: number}} Process `first` of its rows; `name`: "" if
 *   it is the only one; `offset` of the first row */

/** Chrome's trace events, which Perfetto opens; times in microseconds. They are packed as they are written, because
 * the text of a long trace takes half as much as the profile. @param {Process[]} processes @param {any[]} more events */
export async function perfetto(processes, more) {
  const packing = new CompressionStream("gzip"),
    packed = new Response(packing.readable).blob(),
    writer = packing.writable.getWriter();
  let pieces = 0;
  for (const text of perfettoTexts(processes, more)) {
    await writer.write(ENCODER.encode(text));
    // an iteration of the worker's loop, in which the browser takes what is packed
    if (++pieces % 16 === 0) await new Promise((done) => setTimeout(done));
  }
  await writer.close();
  return packed;
}

/** @param {Process} process @param {number} pid */
function* perfettoEvents({ profile, first, name: process, offset }, pid) {
  const { columns: c, names } = rowsOf(profile, first),
    scale = 1e6 / profile.target.clock_frequency;
  const { lanes } = flame(profile, first, false, offset);
  if (process !== "") yield { ph: "M", pid, tid: 0, name: "process_name", args: { name: process } };
  for (const [tid, { ipu, beside, levels }] of lanes.entries()) {
    const name = ipu < 0 ? "all IPUs" : `IPU ${ipu}${beside ? " beside" : ""}`;
    yield { ph: "M", pid, tid, name: "thread_name", args: { name } };
    for (const i of levels[0].row) {
      yield {
        ph: "X",
        pid,
        tid,
        name: names.name(c.program[i]),
        cat: KINDS[names.letter(c.program[i])],
        ts: (offset + c.cycles_base[i]) * scale,
        dur: c.cycles[i] * scale,
        args: { cycles: c.cycles[i], turns: c.iterations[i] },
      };
    }
  }
}

/** The text in pieces. @param {Process[]} processes @param {any[]} more */
function* perfettoTexts(processes, more) {
  const events = function* () {
    for (const [i, process] of processes.entries()) yield* perfettoEvents(process, i + 1);
    yield* more;
  };
  /** @type {string[]} */
  let piece = [];
  let before = '{"traceEvents":[';
  for (const event of events()) {
    piece.push(before + JSON.stringify(event));
    before = ",";
    if (piece.length < PIECE) continue;
    yield piece.join("");
    piece = [];
  }
  yield `${piece.join("")}${before === "," ? "" : before}]}`;
}
