// The columns of the page of plans, and the figures that are its rows.

import { barText, bytesText, counted, decimal, grouped, share } from "../base/format.js";

/** @typedef {{id: number, title: string, plan: any}} PlanColumn */
/**
 * @typedef {object} Measure
 * @property {string} key @property {string} name @property {number} depth
 * @property {(plan: any) => number|string|null} of
 * @property {(value: any, plan: any) => string} text
 * @property {(plan: any) => [number, number, string]} [range] low, high, and of which kind of op
 */

/** What a case is of, by name. @param {any} one @param {string[]} swept the key of a sweep, if any */
function aspects(one, swept) {
  return {
    target: one.target,
    ipus: counted(one.ipus, "IPU"),
    ...(one.instances === undefined ? {} : { instances: counted(one.instances, "instance") }),
    ...(one.batch === undefined ? {} : { batch: `batch ${one.batch}` }),
    ...Object.fromEntries(swept.map((key) => [key, `${key.replace("availableMemoryProportion", "proportion")} ${one[key]}`])),
  };
}

/** A column for each case, and one behind it for what --what-if changes. @param {any} answer
 * @returns {PlanColumn[]} */
export function columnsOf(answer) {
  const swept = Object.keys(answer.cases[0] ?? {}).filter((key) => key.endsWith("availableMemoryProportion"));
  const named = answer.cases.map((/** @type {any} */ one) => aspects(one, swept));
  const differ = Object.keys(named[0] ?? {}).filter((key) => new Set(named.map((one) => one[key])).size > 1);
  const columns = [];
  for (const [i, one] of answer.cases.entries()) {
    const shown = differ.length > 0 ? differ : ["target", "ipus"];
    const title = shown.map((key) => named[i][key]).join(", ");
    columns.push({ id: columns.length, title, plan: one });
    if (one.what_if === undefined) continue;
    const changed = one.what_if.plan ?? { problem: one.what_if.problem };
    columns.push({ id: columns.length, title: `${title}: ${one.what_if.changes.join(", ")}`, plan: changed });
  }
  return columns;
}

/** @param {any} plan */
export function verdict(plan) {
  if (plan.fits) return plan.is_close ? "barely fits" : "fits";
  return plan.is_close ? "just does not fit" : "does not fit";
}

/** @param {Measure} row @param {any} plan */
export function rangeText(row, plan) {
  const [low, high, like] = /** @type {any} */ (row.range)(plan);
  return `${barText(Number(row.of(plan)), low, high)} for ${like}`;
}

const CYCLES = [
  ["compute", "compute"],
  ["copy", "copies on tiles"],
  ["exchange", "exchange"],
  ["global_exchange", "between IPUs"],
  ["host", "host"],
  ["collective", "collectives"],
  ["between_domains", "of them between domains"],
  ["sync", "sync"],
  ["control", "control"],
  ["overlapped", "less what overlaps"],
];

/** The rows; those that are zero in every plan are left out. @param {PlanColumn[]} plans @returns {Measure[]} */
export function measures(plans) {
  const bytes = (/** @type {any} */ value) => bytesText(value);
  const whole = (/** @type {any} */ value) => grouped(value);
  /** @type {(key: string, name: string, depth: number, of: (plan: any) => any, text?: any, range?: any) => Measure} */
  const row = (key, name, depth, of, text = whole, range) => ({ key, name, depth, of, text, range });
  /** @type {Set<string>} */
  const categories = new Set(plans.flatMap(({ plan }) => Object.keys(plan.memory.by_category)));
  const most = (/** @type {string} */ name) => Math.max(...plans.map(({ plan }) => plan.memory.by_category[name] ?? 0));
  const sorted = [...categories].sort((a, b) => most(b) - most(a));
  const memory = (/** @type {string} */ key) => (/** @type {any} */ plan) => plan.memory[key];
  const rows = [
    row("fits", "fits", 0, verdict, (/** @type {string} */ text) => text),
    row("share", "fullest tile", 0, (plan) => plan.memory.worst_tile_bytes / plan.memory.bytes_per_tile,
      (/** @type {number} */ value) => share(value, 1)),
    row("worst_tile_bytes", "fullest tile, bytes", 0, memory("worst_tile_bytes"), bytes, (/** @type {any} */ plan) => [
      plan.memory.worst_tile_bytes_low,
      plan.memory.worst_tile_bytes_high,
      plan.memory.like,
    ]),
    row("bytes_per_tile", "memory of a tile", 0, memory("bytes_per_tile"), bytes),
    row("peak_bytes", "all tiles at the fullest step", 0, memory("peak_bytes"), bytes),
    row("always_live_bytes", "always live", 1, memory("always_live_bytes"), bytes),
    row("temporary_bytes", "temporary", 1, memory("temporary_bytes"), bytes),
    row("each_tile_at_its_peak_bytes", "each tile at its own peak", 0, memory("each_tile_at_its_peak_bytes"), bytes),
    ...sorted.map((name) => row(`category ${name}`, name, 1, (plan) => plan.memory.by_category[name] ?? 0, bytes)),
    row("gap_bytes", "and in gaps", 1, memory("gap_bytes"), bytes),
    row("cycles", "cycles of a run", 0, (plan) => plan.cycles.total, whole, (/** @type {any} */ plan) => [
      plan.cycles.low,
      plan.cycles.high,
      plan.cycles.like,
    ]),
    ...CYCLES.map(([key, name]) => row(`cycles ${key}`, name, 1, (plan) => plan.cycles[key])),
    row("milliseconds", "milliseconds", 0, (plan) => 1e3 * plan.seconds, (/** @type {number} */ value) => decimal(value, 3)),
    row("items", "items of a run", 0, (plan) => plan.items ?? null),
    row("items_per_second", "items a second", 0, (plan) => plan.items_per_second ?? null),
    row("flops", "floating-point operations", 0, (plan) => plan.flops),
    row("tile_balance", "mean over tiles / fullest tile", 0, (plan) => plan.tile_balance,
      (/** @type {number} */ value) => decimal(value, 2)),
    row("replicas", "replicas", 0, (plan) => plan.replicas),
    row("shards", "IPUs of a replica", 0, (plan) => plan.shards),
  ];
  return rows.filter(({ of }) => plans.some(({ plan }) => of(plan) !== null && of(plan) !== 0));
}
