// Reports of several instances of one program: which are, their lanes side by side, what each waits.

import { panel } from "../base/dom.js";
import { bytesText, grouped, share } from "../base/format.js";
import { KINDS } from "../base/kinds.js";
import { column, table } from "../base/table.js";
import { standsFor } from "../data/names.js";
import { programNames } from "./programs.js";

/** Whether these are reports of different instances of one program. @param {any[]} overviews */
export function areInstances(overviews) {
  const first = overviews[0].meta;
  return (
    overviews.length > 1 &&
    first.num_instances > 1 &&
    overviews.every(({ meta }) => meta.num_instances === first.num_instances && meta.module === first.module) &&
    new Set(overviews.map(({ meta }) => meta.instance)).size === overviews.length
  );
}

/** What stands before the lanes of a report. @param {App} app @param {any} o overview */
export function instanceName(app, o) {
  return areInstances(app.reports) ? `instance ${o.meta.instance}, ` : "";
}

/** The menu of the instances; null: the reports are others. @param {App} app */
export function instanceMenu(app) {
  const choices = app.reports.map(({ meta }, i) => [app.keyOf(i), String(meta.instance)]);
  return areInstances(app.reports) ? app.menu("Instance", "r", choices, app.keyOf(app.report)) : null;
}

/** The run with this number. @param {any} o overview @param {number} id */
export function runOf(o, id) {
  return o.runs.find((/** @type {any[]} */ row) => row[0] === id) ?? null;
}

/** The first row of a run in the trace; also without a run. @param {any[]|null} run */
export function firstRow(run) {
  return run?.[10] ?? 0;
}

/** The host's lane of a run: waiting and loading, then the run. Its labels are these three.
 * @param {string} title @param {any[]|null} run @param {number} total @param {number} label @param {number} row */
export function runLane(title, run, total, label, row) {
  const wait = run?.[3] ?? 0,
    offset = wait + (run?.[4] ?? 0);
  return {
    title: title + (run === null ? "host: no run was recorded" : `host: Engine::run #${run[0]}`),
    levels: [
      {
        begin: Float64Array.of(0, wait, offset),
        end: Float64Array.of(wait, offset, Math.max(offset, run?.[5] ?? total)),
        label: Int32Array.of(label, label + 1, label + 2),
        row: Int32Array.of(row, row + 1, -1),
      },
    ],
  };
}

/** The titles of a report's lanes. @param {any} lane @param {string} before */
export function laneTitle(lane, before) {
  const beside = lane.beside ? ", beside it (overlapped, not in the total)" : "";
  return before + (lane.ipu < 0 ? "all IPUs" : `IPU ${lane.ipu}`) + beside;
}

/** The lanes of a report's IPUs that are chosen. @param {App} app @param {any[]} lanes */
export function chosenLanes(app, lanes) {
  const only = app.state.get("ipu");
  return lanes.filter((lane) => only === "" || String(lane.ipu) === only || lane.ipu < 0);
}

/** @typedef {{first: number, firstRow: number, offset: number, report: number, c: Columns, names: Programs,
 *   stands: (row: number) => boolean}} Part rows of a report: `first`, the number of its row 0 in the chart;
 *   `firstRow`, in the trace; `offset`, the cycles from the begin of the run to its first row */

/** The lanes of the other instances in this run; x is cycles since each began to wait.
 * @param {App} app @param {number} runId @param {number} first of their rows @param {number} label of the first
 *   of the three of a run */
export async function otherLanes(app, runId, first, label) {
  /** @type {any[]} */
  const lanes = [];
  /** @type {Part[]} */
  const parts = [];
  const kinds = new Set();
  let total = 0,
    next = first;
  for (const [report, o] of app.reports.entries()) {
    if (report === app.report) continue;
    const run = runOf(o, runId),
      before = instanceName(app, o),
      offset = (run?.[3] ?? 0) + (run?.[4] ?? 0);
    const [c, flame, names] = await Promise.all([
      app.client.ask(report, "trace", firstRow(run)),
      app.client.ask(report, "flame", firstRow(run), false, offset),
      programNames(app, report),
    ]);
    const base = next;
    lanes.push(runLane(before, run, o.totals.cycles, label, base));
    for (const lane of chosenLanes(app, flame.lanes)) {
      lanes.push({
        title: laneTitle(lane, before),
        levels: lane.levels.map((/** @type {any} */ level) => ({
          ...level,
          row: level.row.map((/** @type {number} */ row) => row + base),
        })),
      });
    }
    parts.push({ first: base, firstRow: firstRow(run), offset, report, c, names, stands: standsFor(c, names.programs.end) });
    for (const kind of flame.kinds) kinds.add(kind);
    next = base + c.program.length;
    total = Math.max(total, run?.[5] ?? o.totals.cycles);
  }
  /** @param {number} row */
  const partOf = (row) => (row < first ? undefined : parts.find((part) => row < part.first + part.c.program.length));
  return { lanes, kinds, total, parts, partOf };
}

/** What a box says of its row. @param {Columns} c @param {Programs} names @param {number} row
 * @param {boolean} stands for more turns */
export function rowText(c, names, row, stands) {
  const letter = names.letter(c.program[row]),
    turns = c.iterations[row];
  return `${names.name(c.program[row])}\n${letter} ${KINDS[letter]}${stands ? `, stands for ${grouped(turns)} turn${turns === 1 ? "" : "s"}` : ""}\nsync ${grouped(c.sync_cycles[row])}, tiles ${grouped(c.active_tiles[row])}, in ${bytesText(c.data_in[row])}, out ${bytesText(c.data_out[row])}`;
}

/** What each instance waits for in a run. @param {App} app @param {number} runId */
export function instancesPanel(app, runId) {
  if (!areInstances(app.reports)) return null;
  const of = (/** @type {any} */ o, /** @type {number} */ at) => runOf(o, runId)?.[at] ?? NaN;
  const most = Math.max(...app.reports.map((o) => of(o, 5)).filter((cycles) => cycles > 0), 1);
  return panel(
    "Instances in this run",
    table({
      name: "Instances in this run",
      id: "instances-table",
      rows: app.reports,
      keyOf: (o) => String(o.meta.instance),
      onpick: (o) => app.state.set({ r: app.keyOf(app.reports.indexOf(o)) }),
      columns: [
        column("instance", "Instance", "number", (o) => o.meta.instance),
        column("replica_offset", "Replicas from", "number", (o) => o.meta.replica_offset),
        column("host", "Host", "text", (o) => o.meta.hostname ?? ""),
        column("wait", "Waiting for the host", "cycles", (o) => of(o, 3)),
        column("load", "Loading", "cycles", (o) => of(o, 4)),
        column("cycles", "The whole run", "cycles", (o) => of(o, 5)),
        column("share", "Of the longest", "text", (o) => (of(o, 5) > 0 ? share(of(o, 5), most) : "")),
      ],
    }),
  );
}
