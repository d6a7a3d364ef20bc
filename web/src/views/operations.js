// V7 Operations: a table by a layer of software; steps, variables, cycles by IPU of the chosen row.

import { empty, h, pairs, panel } from "../base/dom.js";
import { bytesText, cyclesText, decimal, grouped } from "../base/format.js";
import { column, table } from "../base/table.js";
import { unpack } from "../data/records.js";
import { variableTable } from "./memory_parts.js";
import { operationsIn, programNames, programNumbers } from "./programs.js";

const LAYER_NAMES = {
  op: "TensorFlow op",
  hlo: "HLO instruction",
  scope: "name scope",
  source: "source line",
  type: "op type",
  opcode: "HLO opcode",
};

/** Operations a cycle that all tiles could do in half precision: 250 TFLOP/s of a Mk2, 125 of a Mk1.
 * @param {any} o overview */
function peakFlops(o) {
  return o.numTiles * (o.target.architecture === "ipu1" ? 64 : 128);
}

/** @param {any} o overview @returns {Column[]} */
export function operationColumns(o) {
  const plain = (/** @type {string} */ key, /** @type {string} */ title, kind, /** @type {any} */ more = {}) => ({
    key,
    title,
    kind,
    value: (row) => row[key],
    ...more,
  });
  const peak = peakFlops(o);
  return [
    plain("name", "Name", "text"),
    plain("cycles", "Cycles", "cycles", { sum: true, help: "of the worst tile, all executions of a run" }),
    column("share", "Share", "percent", (row) => (o.totals.cycles > 0 ? (100 * row.cycles) / o.totals.cycles : NaN), {
      sum: false,
    }),
    plain("wasted", "Wasted", "cycles", {
      sum: true,
      help: "(cycles - mean of the tiles) x executions of its compute sets",
    }),
    plain("temporary", "Temporary bytes", "bytes", { help: "on the fullest tile, as tremula report prints them" }),
    plain("exchange", "Exchange", "cycles", { sum: true }),
    plain("flops", "FLOPs", "number", { sum: true }),
    column("rate", "FLOP a cycle", "real", (row) => (row.cycles > 0 ? row.flops / row.cycles : NaN)),
    column("peak", "Of the peak", "percent", (row) => (row.cycles > 0 ? (100 * row.flops) / row.cycles / peak : NaN), {
      help: "of half precision's matrix units",
    }),
    plain("alwaysLive", "Always live", "bytes", { sum: true }),
    plain("weights", "Weights", "bytes", { sum: true }),
    plain("plan", "Plan", "long"),
    plain("compute", "Compute", "cycles", { hidden: true, sum: true }),
    plain("vertices", "Vertices", "number", { hidden: true, sum: true }),
    plain("edges", "Edges", "number", { hidden: true, sum: true }),
    plain("code", "Code", "bytes", { hidden: true, sum: true }),
    plain("bytesIn", "Bytes in", "bytes", { hidden: true, sum: true }),
    plain("bytesOut", "Bytes out", "bytes", { hidden: true, sum: true }),
    plain("sync", "Sync", "cycles", { hidden: true, sum: true }),
    plain("executions", "Executions", "real", { hidden: true }),
    plain("programs", "Programs", "number", { hidden: true, sum: true }),
    plain("opType", "Op type", "text", { hidden: true }),
    plain("opcode", "HLO opcode", "text", { hidden: true }),
  ];
}

/** The columns with a way into each scope that has others. @param {App} app
 * @param {any[]} rows */
function scopeColumns(app, rows) {
  const [name, ...others] = operationColumns(app.overview);
  const cell = (row) => [
    row.scopes > 1 &&
      h(
        "a.into",
        {
          href: app.state.link({ under: row.name, op: null }),
          "aria-label": `Into ${row.name}`,
          title: "What is in it",
        },
        "▸",
      ),
    row.name,
  ];
  return rows.some((row) => row.scopes > 1) ? [{ ...name, cell }, ...others] : [name, ...others];
}

/** @param {App} app */
async function render(app) {
  const { state, overview: o } = app;
  const layer = state.get("layer", "op"),
    chosen = state.values.has("op") ? state.get("op") : null;
  const parent = (chosen ?? "").split("/").slice(0, -1).join("/");
  const under = state.get("under", layer === "scope" ? parent : "");
  const queries = await app.ask("queries");
  const rows = layer === "scope" ? unpack(await app.ask("scopes", under)) : await operationsIn(app, layer);
  const up = under.includes("/") ? under.slice(0, under.lastIndexOf("/")) : "";
  const crumbs =
    layer !== "scope"
      ? null
      : h(
          "div.bar",
          h("span.dim", "Scope"),
          h("a", { href: state.link({ under: null }) }, "all"),
          under
            .split("/")
            .filter(Boolean)
            .map((part, i, parts) => h("a", { href: state.link({ under: parts.slice(0, i + 1).join("/") }) }, part)),
          chosen !== null &&
            chosen !== "" &&
            h("a", { href: state.link({ under: chosen, op: null }) }, `open ${chosen}`),
        );
  const element = h(
    "div.view",
    h(
      "div.bar",
      app.menu("Layer", "layer", LAYER_NAMES, layer, { op: null, under: null }),
      app.sqlLink(
        layer === "op" ? queries.operations : "SELECT * FROM programs JOIN sources ON sources.id = programs.source",
      ),
    ),
    crumbs,
    panel(
      "Operations",
      table({
        name: "Operations",
        id: "operations",
        rows,
        tools: true,
        sort: "-cycles",
        keyOf: (row) => row.name,
        selected: chosen === null ? [] : [chosen],
        columns: layer === "scope" ? scopeColumns(app, rows) : operationColumns(o),
        onpick: (row) => state.set({ op: row.name }),
        onkey: (row, event) => {
          if (layer !== "scope" || event.key !== "ArrowRight") return false;
          state.set({ under: row.name, op: null });
          return true;
        },
      }),
    ),
    chosen === null || chosen === ""
      ? empty("Choose an operation for its steps, plan, variables and place in other views.")
      : await app.part(() => details(app, rows, layer, chosen)),
  );
  return {
    element,
    keys: {
      "[": () => state.set({ under: up }),
      "]": () => {
        if (layer === "scope" && chosen) state.set({ under: chosen, op: null });
      },
    },
  };
}

/** @param {App} app @param {any[]} rows @param {string} layer @param {string} chosen */
async function details(app, rows, layer, chosen) {
  const row = rows.find((one) => one.name === chosen);
  if (row === undefined) return empty(`There is no operation '${chosen}' in this layer of this report.`);
  const names = await programNames(app);
  const programs = await programNumbers(app, names);
  /** @type {number[]} */
  const steps = Array.from(await app.ask("stepsOf", layer, chosen));
  const variables = unpack(await app.ask("variablesOf", layer, chosen));
  const byIpu = new Map();
  for (const i of steps)
    byIpu.set(programs.ipu[i], (byIpu.get(programs.ipu[i]) ?? 0) + programs.cycles[i] * programs.executions[i]);
  const first = steps[0];
  const heaviest = [...variables]
    .sort((a, b) => b.total_bytes - a.total_bytes)
    .slice(0, 8)
    .map((one) => one.id)
    .join(",");
  return h(
    "div.view",
    panel(
      chosen,
      app.showIn([
        ["Trace", "trace", { op: chosen, step: null, row: null }],
        ["Program", "program", { step: first }],
        ["Liveness", "liveness", { step: first }],
        ["Memory by tile", "memory", { lines: heaviest }],
        ["Tile map", "tiles", { colour: variables[0] ? `variable:${variables[0].id}` : null }],
        ["Graph", "graph", { hlo: row.hlo }],
        ["Source", "source", { line: row.file ? `${row.file}:${row.line}` : null }],
      ]),
      h(
        "div.columns",
        pairs([
          ["Cycles", cyclesText(row.cycles)],
          ["Wasted", cyclesText(row.wasted)],
          ["FLOPs", grouped(row.flops)],
          ["FLOP a cycle", row.cycles > 0 ? decimal(row.flops / row.cycles, 1) : "–"],
          ["Temporary bytes", bytesText(row.temporary)],
          ["Vertices", grouped(row.vertices)],
          ["Programs", grouped(steps.length)],
        ]),
        pairs([
          ["Plan", row.plan || "none"],
          ["Layer", row.layer || "none"],
          ["Op type", row.opType || "none"],
          ["Source", row.file ? `${row.file}:${row.line}` : "not known"],
          ...[...byIpu].map(
            ([ipu, cycles]) =>
              /** @type {[string, string]} */ ([
                ipu < 0 ? "Cycles on all IPUs" : `Cycles on IPU ${ipu}`,
                cyclesText(cycles),
              ]),
          ),
        ]),
      ),
    ),
    panel(
      "Its steps",
      table({
        name: "Steps",
        id: "steps",
        rows: steps,
        keyOf: String,
        onpick: (i) => app.state.set({ v: "program", step: i }),
        columns: [
          column("id", "Step", "number", (i) => i),
          column("name", "Name", "text", (i) => names.name(i)),
          column("type", "Type", "text", (i) => names.type(i)),
          column("cycles", "Cycles", "cycles", (i) => programs.cycles[i]),
          column("executions", "Executions", "real", (i) => programs.executions[i]),
          column("all", "In a run", "cycles", (i) => programs.cycles[i] * programs.executions[i], { sum: true }),
          column("live", "Live bytes", "bytes", (i) => programs.live_bytes[i]),
        ],
      }),
    ),
    variables.length > 0 &&
      panel("Its variables", variableTable(app, { id: "op-variables", rows: variables, sort: "-total" })),
  );
}

/** @type {ViewModule} */
export const operationsView = {
  id: "operations",
  title: "Operations",
  hint: "What each operation costs, by the layer of software that you choose.",
  render,
};
