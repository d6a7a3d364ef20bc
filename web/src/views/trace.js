// V9 Execution trace: lanes by IPU, waiting and loading first; sums of a range; pipelines; BSP.

import { flamePainter, laneMoves, lanesHeight } from "../charts/flame.js";
import { Plot } from "../charts/plot.js";
import { empty, h, panel, save } from "../base/dom.js";
import { cyclesWords, grouped, share } from "../base/format.js";
import { KINDS } from "../base/kinds.js";
import { column, table } from "../base/table.js";
import { standsFor } from "../data/names.js";
import { Texts } from "../data/texts.js";
import { bspPanel } from "./bsp.js";
import { heatmapPanel } from "./heatmap.js";
import { sandwichPanel } from "./sandwich.js";
import {
  align,
  chooseMore,
  hostEvents,
  hostLanes,
  hostPanel,
  hostTable,
  idleToggle,
  isOpen,
  leftNote,
  markPanel,
  pickMark,
} from "./host.js";
import {
  chosenLanes,
  firstRow,
  instanceName,
  instancesPanel,
  laneTitle,
  otherLanes,
  rowText,
  runLane,
  runOf,
} from "./instances.js";
import { pipelinePanel } from "./pipeline.js";
import { programNames } from "./programs.js";
import { rowPanel, streamsPanel, sumsPanel } from "./trace_parts.js";

const MODES = { flame: "flame by name", flat: "flat", heavy: "left heavy", sandwich: "sandwich" };

/** The lanes to draw. @param {App} app
 * @param {any[]|null} run @param {string} mode */
async function lanesOf(app, run, mode) {
  const wait = run?.[3] ?? 0,
    load = run?.[4] ?? 0,
    offset = wait + load;
  const flame = await app.ask("flame", firstRow(run), mode === "flame", offset);
  const before = instanceName(app, app.overview);
  const first = flame.labels.ids.length;
  const lanes = chosenLanes(app, flame.lanes).map((lane) => ({ title: laneTitle(lane, before), levels: lane.levels }));
  const total = run !== null ? run[5] : app.overview.totals.cycles;
  const host = runLane(before, run, total, first, 0);
  const more = ["waiting for the host", "loading the program", run === null ? "a run" : `run #${run[0]}`];
  return { lanes: [host, ...lanes], labels: flame.labels, more, offset, total, kinds: flame.kinds };
}

/** @param {App} app */
async function render(app) {
  const { state, overview: o } = app;
  if (!o.tables.includes("trace"))
    return { element: empty("This profile has no table 'trace': it was written without outputExecutionProfile.") };
  await app.readTimelines();
  const names = await programNames(app);
  const runId = state.number("run", 0),
    run = runOf(o, runId),
    start = firstRow(run);
  /** @type {Columns} */
  const c = await app.ask("trace", start);
  const mode = state.get("mode", o.ipus.length > 2 ? "flat" : "flame");
  const stands = standsFor(c, names.programs.end);
  const sides = mode === "sandwich" ? await app.ask("sandwich", start, state.get("ipu"), state.get("frame")) : null;
  const merged = mode === "heavy" ? await app.ask("heavy", start, state.get("ipu")) : sides;
  const built = merged ?? (await lanesOf(app, run, mode));
  built.more ??= []; // labels behind those of the worker
  const aligned = align(app, run);
  const hosts =
    merged === null && aligned.over.length > 0
      ? hostLanes(
          aligned.over,
          aligned.place,
          c.program.length,
          built.labels.ids.length + built.more.length,
          [0, Math.max(1, built.total)],
          isOpen(app),
        )
      : null;
  if (hosts !== null) {
    built.lanes = [...hosts.lanes, ...built.lanes];
    built.more = [...built.more, ...hosts.labels];
  }
  /** @type {Others|null} */
  let others = null;
  if (merged === null && instanceName(app, o) !== "") {
    const first = hosts === null ? c.program.length : hosts.foldRow + 1;
    others = await otherLanes(app, runId, first, built.labels.ids.length);
    built.lanes = [...built.lanes, ...others.lanes];
    for (const kind of others.kinds) built.kinds.add(kind);
  }
  const own = { first: 0, firstRow: start, offset: built.offset, report: app.report, c, names, stands };
  const plot = tracePlot(app, own, built, merged !== null, hosts, aligned.wall, others);
  const range = state.range("range");
  const ends = range.map((x) => x - built.offset);
  // Threads that are idle during the run's cycles may work before and after them.
  const fitHost = (/** @type {number} */ lo, /** @type {number} */ hi) => {
    plot.show(lo, hi);
    if (hosts !== null && hosts.idle > 0) state.set({ idle: "open" });
  };
  const controls = h(
    "div.bar",
    o.runs.length > 0 &&
      app.menu(
        "Run",
        "run",
        o.runs.map(([id, name]) => [String(id), `#${id} ${name ?? ""}`]),
        String(run?.[0] ?? 0),
        { z: null, range: null, row: null },
      ),
    app.menu("Rows", "mode", MODES, mode, { z: null }),
    app.ipuMenu(),
    merged === null &&
      h("button", { onclick: () => plot.show(built.offset, built.total) }, "Fit the run without waiting"),
    hosts !== null && [
      h("button", { onclick: () => fitHost(0, runSpan(o, run, built)) }, "Fit the run on the host"),
      h("button", { onclick: () => fitHost(hosts.begin, hosts.end) }, "Fit the host's timeline"),
      idleToggle(app, hosts),
    ],
    app.timelines.length === 0 && chooseMore(app, "Add the host's timeline …", "more-timelines", false),
    h(
      "button",
      {
        onclick: async () => {
          const scale = 1e6 / o.target.clock_frequency;
          const more = hosts === null ? [] : hostEvents(hosts, (us) => aligned.place(us) * scale);
          const processes = [own, ...(others?.parts ?? [])].map(({ report, firstRow: first, offset }) => {
            const name = instanceName(app, app.reports[report]).replace(/, $/, "");
            return { report, first, name, offset };
          });
          save("trace.json.gz", await app.client.send(app.report, "perfetto", [processes, more]));
        },
      },
      "Save for Perfetto",
    ),
    app.sqlLink("SELECT * FROM steps_by_ipu JOIN steps ON steps.id = step_id"),
  );
  const row = state.get("row") !== "" ? state.number("row", 0) : c.program.indexOf(state.number("step", NaN));
  const element = h(
    "div.view",
    controls,
    o.runs.length === 0 && h("p.note", "No run was recorded; these are the steps of the estimate."),
    aligned.notes.map((text) => h("p.note", text)),
    panel(
      "Trace",
      plot.element,
      hosts !== null && leftNote(hosts),
      h("p.dim", "Drag for a range, Shift and drag to move; click or Enter chooses a row."),
    ),
    instancesPanel(app, runId),
    hosts !== null && markPanel(app, hosts),
    hosts !== null && hostMarks(hosts),
    aligned.apart.length > 0 && hostPanel(app, aligned.apart),
    heatmapPanel(app, app.timelines),
    row >= 0 && row < c.cycles.length && rowPanel(app, names, c, row),
    sides !== null && sandwichPanel(app, sides),
    await sumsPanel(app, start, ends),
    await pipelinePanel(app, start),
    await app.part(() => streamsPanel(app)),
    merged === null && (await app.part(() => bspPanel(app, names, c, start, built.offset, plot))),
  );
  return {
    element,
    keys: {
      f: () => {
        if (row >= 0)
          plot.show(
            built.offset + c.cycles_base[row] - c.cycles[row] / 2,
            built.offset + c.cycles_base[row] + 1.5 * c.cycles[row],
          );
        else if (range.length === 2) plot.show(range[0], range[1]);
      },
    },
  };
}

/** The marks of the host as a table that is opened. @param {import("./host.js").Hosts} hosts */
function hostMarks(hosts) {
  const box = h("details.panel", { "data-focus": "host-marks" }, h("summary", "Marks of the host as a table"));
  box.addEventListener("toggle", () => {
    if (box.open && box.childNodes.length === 1) box.append(hostTable(hosts));
  });
  return box;
}

/** The cycles in which the host made a run, or the IPU's where these are more.
 * @param {any} o overview @param {any[]|null} run @param {any} built */
function runSpan(o, run, built) {
  return Math.max(built.total, (run?.[3] ?? 0) + (run?.[8] ?? 0) * o.target.clock_frequency);
}

/** @param {App} app @param {Part} own @param {any} built @param {boolean} merged
 * @param {import("./host.js").Hosts|null} hosts @param {(x: number) => number} wall @param {Others|null} others */
function tracePlot(app, own, built, merged, hosts, wall, others) {
  const { state } = app,
    { c, names } = own;
  const partOf = (/** @type {number} */ row) => others?.partOf(row) ?? own;
  /** Asks the part that a row is of. @template T @param {(part: Part, row: number) => T} what */
  const each = (what) => (/** @type {number} */ row) => {
    const part = partOf(row);
    return what(part, row - part.first);
  };
  const letterOf = each((part, row) => part.names.letter(part.c.program[row])),
    nameOf = each((part, row) => part.names.name(part.c.program[row])),
    stands = each((part, row) => part.stands(row));
  const step = state.get("step") === "" ? NaN : state.number("step", NaN);
  const op = state.get("op");
  const chosenRow = state.get("row") === "" ? -1 : state.number("row", -1);
  const { lanes } = built,
    labels = new Texts(built.labels),
    count = labels.ids.length;
  const textOf = (/** @type {number} */ label, /** @type {number} */ row) =>
    label < 0
      ? nameOf(row).split("/").slice(-2).join("/")
      : label < count
        ? labels.at(label)
        : built.more[label - count];
  /** @type {Plot} */
  let plot;
  const { boxAt, step: stepTo, onkey } = laneMoves(lanes, () => plot);
  const range = state.range("z");
  const isHost = (/** @type {number} */ row) => hosts !== null && hosts.has(row);
  const first = Math.min(0, hosts?.begin ?? 0),
    last = Math.max(1, built.total, others?.total ?? 0, hosts?.end ?? 0);
  plot = new Plot({
    id: "trace-chart",
    name: merged ? "Cycles by name" : "Trace",
    height: Math.max(150, lanesHeight(lanes) + (hosts !== null ? 14 : 0)),
    domain: [first, last],
    least: 1,
    range: range.length === 0 && hosts !== null ? [0, Math.max(1, built.total)] : range,
    summary: `${grouped(c.program.length - 2)} rows over ${grouped(built.total)} cycles, of which ${grouped(built.offset)} are waiting for the host and loading.${hosts !== null ? ` Above it ${grouped(hosts.rows.length)} marks of the host.` : ""}`,
    legend: Object.entries(KINDS)
      .filter(([letter]) => built.kinds.has(letter))
      .map(([letter, text]) => /** @type {[string, string]} */ ([letter, `${letter} ${text}`]))
      .concat([["T", "hatched: a row that stands for more turns"]], hosts?.legend ?? []),
    paint: flamePainter({
      lanes,
      textOf,
      kind: "cycles",
      colourOf: (row) => (isHost(row) ? (hosts?.colourOf(row) ?? "T") : letterOf(row)),
      letterOf: (row) => (isHost(row) ? (hosts?.letterOf(row) ?? "") : letterOf(row)),
      hatched: (row) => !isHost(row) && stands(row),
      wall: hosts !== null ? wall : undefined,
      chosen: (row) =>
        row === chosenRow ||
        (isHost(row) && state.get("mark") === String(row - c.program.length)) ||
        (others?.partOf(row) === undefined && c.program[row] === step) ||
        (op !== "" && each((part, at) => part.c.program[at] >= 0 && part.names.op(part.c.program[at]) === op)(row)),
    }),
    tip: (x, y) => {
      const box = boxAt(x, y);
      if (box === null) return "";
      const { level, at } = box,
        row = level.row[at];
      if (hosts !== null && hosts.has(row)) return hosts.tip(row);
      const cycles = level.end[at] - level.begin[at];
      const head = `${textOf(level.label[at], row)}\n${cyclesWords(cycles)}, ${share(cycles, built.total)} of the run${merged ? "" : `\nfrom ${grouped(level.begin[at])}`}`;
      const part = partOf(row),
        place = row - part.first;
      return place < 2 ? head : `${head}\n${rowText(part.c, part.names, place, stands(row))}`;
    },
    step: stepTo,
    onkey,
    speak: (text) => app.speak(text || "nothing here"),
    onzoom: (lo, hi) => state.keepRange("z", lo, hi, hosts === null && others === null ? built.total : Infinity),
    onrange: merged ? undefined : (lo, hi) => state.set({ range: `${Math.floor(lo)}-${Math.ceil(hi)}` }),
    onpick: (x, y) => {
      const box = boxAt(x, y);
      if (box === null) return;
      const row = box.level.row[box.at];
      if (state.get("mode") === "sandwich") state.set({ frame: labels.at(box.level.label[box.at]), z: null });
      else if (isHost(row)) pickMark(app, /** @type {import("./host.js").Hosts} */ (hosts), row);
      else if (row >= 0 && row - partOf(row).first >= 2) {
        const part = partOf(row),
          place = row - part.first;
        state.set({ r: app.keyOf(part.report), row: place, step: part.c.program[place], range: null });
      }
      else if (!merged)
        state.set({ range: `${Math.floor(box.level.begin[box.at])}-${Math.ceil(box.level.end[box.at])}`, row: null });
    },
    twin: () =>
      table({
        name: "Rows of the trace",
        id: "trace-table",
        rows: new Int32Array(c.program.length - 2).map((_, i) => i + 2),
        columns: [
          column("id", "Row", "number", (i) => i),
          column("name", "Name", "text", (i) => names.name(c.program[i])),
          column("kind", "Kind", "text", (i) => KINDS[letterOf(i)]),
          column("ipu", "IPU", "number", (i) => c.ipu[i]),
          column("cycles_base", "From", "cycles", (i) => c.cycles_base[i]),
          ...["cycles", "cycles_overlapped", "sync_cycles"].map((key) =>
            column(key, key.replace(/_/g, " "), "cycles", (i) => c[key][i], { sum: true }),
          ),
          column("iterations", "Turns", "number", (i) => c.iterations[i]),
          column("data_in", "Bytes in", "bytes", (i) => c.data_in[i]),
          column("data_out", "Bytes out", "bytes", (i) => c.data_out[i]),
        ],
      }),
  });
  plot.cursorY = hosts === null && lanes.length > 1 ? 60 : 20;
  return plot;
}

/** @typedef {import("./instances.js").Part} Part */
/** @typedef {Awaited<ReturnType<typeof otherLanes>>} Others */

/** @type {ViewModule} */
export const traceView = {
  id: "trace",
  title: "Trace",
  hint: "What each IPU does, cycle by cycle, in one run.",
  render,
};
