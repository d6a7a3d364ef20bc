// V6 Program tree: programs nested as they run, with numbers in columns, and the details of one.

import { kindTag } from "../base/cells.js";
import { empty, h, pairs, panel } from "../base/dom.js";
import { matcher } from "../base/filter.js";
import { bytesText, bytesWords, cyclesText, cyclesWords, decimal, grouped, share } from "../base/format.js";
import { KINDS } from "../base/kinds.js";
import { column, Table, table } from "../base/table.js";
import { Grown } from "../data/grown.js";
import { placeOf } from "../data/names.js";
import { unpack } from "../data/records.js";
import { firstRow, runOf } from "./instances.js";
import { variableTable } from "./memory_parts.js";
import { programNames, programNumbers } from "./programs.js";

/** The rows in sight: children of open programs. @param {any} programs @param {Uint8Array} open 1: it is */
function visible(programs, open) {
  const rows = new Grown(true);
  for (let i = 0; i < open.length;) {
    rows.push(i);
    i = open[i] || programs.end[i] <= i + 1 ? i + 1 : programs.end[i];
  }
  return rows.whole();
}

/** @param {App} app */
async function render(app) {
  const { state, overview: o } = app;
  const names = await programNames(app);
  const programs = await programNumbers(app, names);
  const count = programs.id.length;
  const depth = new Int16Array(count);
  for (let i = 0; i < count; ++i) depth[i] = programs.parent[i] < 0 ? 0 : depth[programs.parent[i]] + 1;
  const deepest = depth.reduce((a, b) => Math.max(a, b), 0);
  const level = state.number("depth", 2);
  const step = state.get("step") === "" ? -1 : state.number("step", -1);
  const open = new Uint8Array(count);
  for (let i = 0; i < count; ++i) if (programs.end[i] > i + 1 && depth[i] < level) open[i] = 1;
  for (let i = step; i >= 0; i = programs.parent[i]) open[i] = 1;
  const kind = state.get("kind");
  const number = (/** @type {string} */ key, /** @type {string} */ title, type, hidden = false) =>
    column(key, title, type, (i) => programs[key][i], { hidden });
  const opsOf = (/** @type {number} */ i) => names.op(i);
  /** @type {Column[]} */
  const columns = [
    column("name", "Program", "text", (i) => names.name(i), {
      cell: (i) =>
        h(
          "span.cut",
          { style: { "padding-left": `${depth[i] * 14}px` }, title: names.name(i) },
          programs.end[i] > i + 1
            ? h(
                "button.fold",
                {
                  tabindex: -1,
                  "aria-label": `${open[i] === 1 ? "Fold" : "Open"} ${names.name(i)}`,
                  "aria-expanded": String(open[i] === 1),
                  onclick: () => fold(i),
                },
                open[i] === 1 ? "▾" : "▸",
              )
            : h("span.fold"),
          kindTag(names.letter(i)),
          h("span.front", names.name(i).replace(/[^/]*$/, "")),
          h("span", names.name(i).replace(/^.*\//, "")),
        ),
    }),
    column("type", "Type", "text", (i) => names.type(i)),
    number("cycles", "Cycles", "cycles"),
    number("executions", "Executions", "real"),
    column(
      "share",
      "Share",
      "percent",
      (i) => (o.totals.cycles > 0 ? (100 * programs.cycles[i] * programs.executions[i]) / o.totals.cycles : NaN),
      { help: "cycles x executions, of the run" },
    ),
    number("active_tiles", "Tiles", "number"),
    column(
      "balance",
      "Balance",
      "percent",
      (i) =>
        names.type(i) === "OnTileExecute" && programs.cycles[i] > 0
          ? (100 * programs.cycles_mean[i]) / (programs.cycles[i] - programs.sync_cycles[i])
          : NaN,
      { help: "mean of the tiles' cycles, of the worst" },
    ),
    number("bytes_in", "Bytes in", "bytes"),
    number("bytes_out", "Bytes out", "bytes", true),
    number("live_bytes", "Live bytes", "bytes"),
    number("live_worst", "Fullest tile", "bytes", true),
    number("sync_cycles", "Sync", "cycles", true),
    number("repeat_count", "Turns", "number", true),
    number("ipu", "IPU", "number", true),
    number("stage", "Stage", "number", true),
    number("flops", "FLOPs", "number", true),
    number("code_bytes", "Code", "bytes", true),
    column("op", "Operation", "text", opsOf, { hidden: true }),
    column("line", "Source", "text", (i) => names.source(i)?.where ?? "", { hidden: true }),
  ];
  const q = state.get("q"),
    isSearch = q !== "" || kind !== "";
  const wanted = matcher(q, columns);
  const rowsNow = () => (isSearch ? new Int32Array(count).map((_, i) => i) : visible(programs, open));
  const grid = new Table({
    name: "Programs",
    id: "programs",
    rows: rowsNow(),
    only: isSearch ? (i) => (kind === "" || names.letter(i) === kind) && wanted(i) : null,
    fixed: true,
    tools: true,
    keyOf: String,
    selected: step >= 0 ? [String(step)] : [],
    columns,
    onpick: (i) => state.set({ step: i, steps: null }),
    onkey: (i, event) => {
      if (event.key === "ArrowRight" && open[i] !== 1 && programs.end[i] > i + 1) fold(i);
      else if (event.key === "ArrowLeft" && open[i] === 1) fold(i);
      else if (event.key === "ArrowLeft" && programs.parent[i] >= 0) grid.focus(placeIn(programs.parent[i]));
      else return false;
      return true;
    },
  });
  const placeIn = (/** @type {number} */ i) => placeOf(/** @type {any} */ (grid.rows), i);
  /** @param {number} i */
  function fold(i) {
    open[i] = open[i] === 1 ? 0 : 1;
    grid.options.rows = rowsNow();
    grid.arrange();
    grid.focus(placeIn(i));
  }
  const search = h("input.find", {
    type: "search",
    value: q,
    placeholder: "all programs: name, cycles>1000",
    size: 34,
    "aria-label": "Find programs",
    "data-focus": "program-find",
    onchange: () => state.set({ q: search.value }),
  });
  const element = h(
    "div.view",
    h(
      "div.bar",
      search,
      app.menu("Kind", "kind", [["", "all"], ...Object.entries(KINDS).slice(0, 8)]),
      app.menu(
        "Open to depth",
        "depth",
        Array.from({ length: deepest + 1 }, (_, i) => [String(i), String(i)]),
        String(Math.min(level, deepest)),
      ),
      app.sqlLink("SELECT * FROM programs ORDER BY id"),
    ),
    panel("Programs", grid.element, h("p.dim", "→ opens, ← folds, Enter shows a program's details.")),
    step >= 0 && step < count
      ? await app.part(() => details(app, names, programs, step))
      : empty("Choose a program for its details."),
  );
  const deeper = (/** @type {number} */ by) => state.set({ depth: Math.max(0, Math.min(deepest, level + by)) });
  const after = () => {
    const here = step >= 0 ? placeIn(step) : -1;
    if (here <= 8) return;
    grid.active = here;
    grid.bring(here, 6);
  };
  return { element, after, keys: { "[": () => deeper(-1), "]": () => deeper(1) } };
}

/** @param {App} app @param {Programs} names @param {any} programs @param {number} i */
async function details(app, names, programs, i) {
  const source = names.source(i);
  const set = programs.compute_set[i] >= 0 ? await app.ask("computeSet", programs.compute_set[i]) : null;
  const op = names.op(i);
  const touched = unpack(await app.ask("variablesOfSource", programs.source[i], i));
  const run = runOf(app.overview, app.state.number("run", 0));
  /** @type {number[]} */
  const seen = app.overview.tables.includes("trace") ? await app.ask("rowsOfProgram", firstRow(run), i) : [];
  const streams = programs.stream?.[i] >= 0 ? await app.ask("streams") : null;
  const stream = streams?.find((row) => row[0] === programs.stream[i]);
  return h(
    "div.view",
    panel(
      `Program ${i}`,
      h("p", kindTag(names.letter(i)), names.name(i)),
      app.showIn([
        ["Trace", "trace", { step: i, row: null }],
        ["Liveness", "liveness", { step: i }],
        ["Operation", "operations", { layer: "op", op }],
        ["Source", "source", {}],
      ]),
      h(
        "div.columns",
        pairs([
          ["Type", names.type(i)],
          ["Cycles", cyclesText(programs.cycles[i])],
          ["of these, sync", cyclesText(programs.sync_cycles[i])],
          ["Mean of the tiles", decimal(programs.cycles_mean[i], 1)],
          ["Executions in a run", decimal(programs.executions[i], 0)],
          ["Turns", grouped(programs.repeat_count[i])],
          ["Active tiles", grouped(programs.active_tiles[i])],
          ["Bytes in, all tiles", bytesText(programs.bytes_in[i])],
          ["Bytes in, worst tile", bytesText(programs.bytes_in_worst[i])],
          ["Bytes out, all tiles", bytesText(programs.bytes_out[i])],
          ["Bytes out, worst tile", bytesText(programs.bytes_out_worst[i])],
          ["Live bytes, all tiles", bytesText(programs.live_bytes[i])],
          ["Fullest tile then", `${bytesText(programs.live_worst[i])} on tile ${grouped(programs.live_worst_tile[i])}`],
          ["Code", bytesText(programs.code_bytes[i])],
        ]),
        pairs([
          ["Operation", op],
          ["HLO", source ? `${source.hlo} (${source.text("opcode")})` : ""],
          ["Op type", source?.text("op_type") ?? ""],
          ["Layer", source?.text("layer") ?? ""],
          ["Source", source?.where || "not known"],
          ["Plan", source?.text("plan") || "none"],
          ["Note", source?.text("note") || "none"],
          [
            "Rows of the trace",
            seen.length === 0
              ? "none"
              : seen
                  .slice(0, 12)
                  .map((row) => h("a", { href: app.state.link({ v: "trace", row, step: i }) }, `${row} `)),
          ],
          ...(stream
            ? [
                /** @type {[string, string]} */ ([
                  "Stream",
                  `${stream[2]} ${stream[1]}, ${stream[3]}, ${bytesWords(stream[4])} in a run`,
                ]),
              ]
            : []),
        ]),
      ),
    ),
    set?.set &&
      panel(
        "Compute set",
        h(
          "p",
          `${set.set[0]}: ${grouped(set.set[1])} vertices, ${grouped(set.set[2])} edges, ${cyclesWords(set.set[4])} of the worst tile, ${share(set.set[5], set.set[4])} of them on the mean tile.`,
        ),
        table({
          name: "Vertices",
          id: "vertices",
          rows: set.vertices,
          tools: false,
          keyOf: (row) => row[0],
          columns: [
            column("name", "Codelet", "text", 0),
            column("count", "Vertices", "number", 1, { sum: true }),
            column("cycles", "Cycles", "cycles", 2),
            column("state", "State of one", "bytes", 3),
            column("states", "State of all", "bytes", 4, { sum: true }),
            column("code", "Code of the codelet", "bytes", 5),
          ],
        }),
      ),
    touched.length > 0 &&
      panel(
        "Variables of this instruction that are alive here",
        variableTable(app, { id: "touched", rows: touched, sort: "-total" }, "name total worst life category"),
      ),
  );
}

/** @type {ViewModule} */
export const programView = {
  id: "program",
  title: "Program",
  hint: "Programs as they are nested, with what each one takes.",
  render,
};
