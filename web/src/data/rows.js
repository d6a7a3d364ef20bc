// Answers to views about all rows of a run, made by the worker: a million rows take time. `first` is the run's first
// row in the trace.

import { Grown, inOrder } from "./grown.js";
import { byName, frames, leftHeavy, pipelineGrid, rangeSums } from "./sums.js";
import { textsOf } from "./texts.js";
import { rowsOf } from "./trace.js";

/** @typedef {import("./sums.js").Group} Group */

const TOP = 20;

/** Sums of a range of cycles: kinds and the top operations, the largest first.
 * @param {Profile} profile @param {number} first @param {number|null} lo @param {number|null} hi null: no bound */
export function sums(profile, first, lo, hi) {
  const { columns: c, names, stands } = rowsOf(profile, first);
  const kindOf = (/** @type {number} */ row) => (stands(row) ? "…" : names.letter(c.program[row]));
  const count = names.programs.name.ids.length;
  const found = rangeSums(c, lo ?? -Infinity, hi ?? Infinity, kindOf, names.op, count);
  const sorted = (/** @type {Map<string, number>} */ map) => [...map].sort((a, b) => b[1] - a[1]);
  return { ...found, kinds: sorted(found.kinds), names: sorted(found.names).slice(0, TOP) };
}

/** @param {Profile} profile @param {number} first @param {string} ipu "": all */
function groupsOf(profile, first, ipu) {
  const { columns, names } = rowsOf(profile, first);
  return byName(columns, names.programs.name, ipu);
}

/** The rows with equal names merged. @param {Profile} profile @param {number} first @param {string} ipu */
export function heavy(profile, first, ipu) {
  const labels = new Map();
  const { levels, total } = leftHeavy(groupsOf(profile, first, ipu), labels);
  return {
    lanes: [{ title: "all rows, equal names merged, heaviest first", levels }],
    labels: textsOf(labels.keys()).packed(),
    offset: 0,
    total,
    kinds: rowsOf(profile, first).kinds,
  };
}

/** Lanes around the name `asked`; if it is "", around the name with the most cycles of its own.
 * @param {Profile} profile @param {number} first @param {string} ipu @param {string} asked */
export function sandwich(profile, first, ipu, asked) {
  const groups = groupsOf(profile, first, ipu);
  const all = frames(groups);
  const whole = all.reduce((sum, one) => sum + one.self, 0);
  const heaviest = all.reduce((a, b) => (b.self > a.self ? b : a), { name: "", self: -1 });
  const chosen = asked === "" ? heaviest.name : asked;
  /** @type {Map<string, number>} */
  const labels = new Map();
  const around = (/** @type {(parts: string[], at: number) => string[]} */ take) =>
    leftHeavy(groups, labels, (parts) => (parts.includes(chosen) ? take(parts, parts.indexOf(chosen)) : []));
  const callers = around((parts, at) => parts.slice(0, at + 1).reverse());
  const callees = around((parts, at) => parts.slice(at));
  // Scopes around the name have no rows of their own.
  const above = callers.levels.slice(1).map((level) => ({ ...level, row: level.row.map(() => -1) }));
  return {
    lanes: [
      { title: `what '${chosen}' is in, the nearest below`, levels: above.reverse() },
      { title: `'${chosen}' and what is in it`, levels: callees.levels },
    ],
    labels: textsOf(labels.keys()).packed(),
    offset: 0,
    kinds: rowsOf(profile, first).kinds,
    total: all.find((one) => one.name === chosen)?.total ?? 0,
    all,
    whole,
    chosen,
  };
}

/** @param {Profile} profile @param {number} first */
export function pipeline(profile, first) {
  const { columns, phaseOf } = rowsOf(profile, first);
  return pipelineGrid(columns, phaseOf);
}

/** Rows in which tiles work, in time order, and where each begins; of each IPU, too.
 * @param {Profile} profile @param {number} first @param {number} offset */
export function working(profile, first, offset) {
  const { columns: c } = rowsOf(profile, first);
  const base = c.cycles_base;
  /** @type {Map<number, Grown>} */
  const byIpu = new Map();
  const every = new Grown();
  for (let i = 2; i < c.program.length; ++i) {
    if (c.cycles[i] <= 0 || c.active_tiles[i] <= 0) continue;
    every.push(i);
    let list = byIpu.get(c.ipu[i]);
    if (list === undefined) byIpu.set(c.ipu[i], (list = new Grown()));
    list.push(i);
  }
  const over = (/** @type {Grown} */ rows) => {
    const order = inOrder(Int32Array.from(rows.whole()), (a, b) => base[a] - base[b] || a - b);
    return { order, begins: Float64Array.from(order, (i) => base[i] + offset) };
  };
  const lanes = [...byIpu].map(([ipu, rows]) => ({ ipu, ...over(rows) }));
  return { all: lanes.length === 1 ? lanes[0] : over(every), lanes };
}

/** The rows of a program. @param {Profile} profile @param {number} first @param {number} program */
export function rowsOfProgram(profile, first, program) {
  const { columns: c } = rowsOf(profile, first);
  const found = [];
  for (let i = c.program.indexOf(program); i >= 0; i = c.program.indexOf(program, i + 1)) found.push(i);
  return found;
}

/** The cycle at which each step begins first. @param {Profile} profile @param {number} first @param {number} count of
 *   steps */
export function beginnings(profile, first, count) {
  const { columns: c } = rowsOf(profile, first);
  const begins = new Float64Array(count).fill(NaN);
  for (let i = 2; i < c.program.length; ++i) {
    const program = c.program[i];
    if (program >= 0 && program < count && Number.isNaN(begins[program])) begins[program] = c.cycles_base[i];
  }
  for (let p = 0, last = 0; p < count; ++p) {
    if (Number.isNaN(begins[p]) || begins[p] < last) begins[p] = last;
    last = begins[p];
  }
  return begins;
}
