// V2 Insights: whether it fits, what fills the fullest tile, what would help, where the time goes.

import { empty, h, pairs, panel } from "../base/dom.js";
import { bytesText, bytesWords, cyclesText, cyclesWords, grouped, share } from "../base/format.js";
import { column, table } from "../base/table.js";
import { areaPainter } from "../charts/area.js";
import { Plot } from "../charts/plot.js";
import { unpack } from "../data/records.js";
import { tileName, variableTable } from "./memory_parts.js";

const BINS = 48;

/** Tiles by bytes, to the tile's end and beyond. @param {Float64Array} totals @param {number} end */
export function histogram(totals, end) {
  const most = totals.reduce((a, b) => Math.max(a, b), end);
  const width = most / BINS;
  const counts = new Float64Array(BINS);
  for (const bytes of totals) counts[Math.min(BINS - 1, Math.floor(bytes / width))] += 1;
  return { counts, edges: Float64Array.from({ length: BINS + 1 }, (_, i) => i * width), most };
}

/** @param {any} o overview */
function verdict(o) {
  const { totals, target } = o;
  const over = totals.worst_tile_bytes - target.bytes_per_tile;
  if (!totals.fits) {
    return h(
      "p",
      h("strong.bad", "It does not fit. "),
      `${grouped(totals.tiles_over)} tiles hold more than they have; the fullest lacks ${bytesWords(totals.bytes_over)} of ${bytesText(target.bytes_per_tile)}.`,
    );
  }
  if (totals.is_close) {
    return h(
      "p",
      h("strong.warn", "It barely fits. "),
      `${bytesWords(-over)} are left on the fullest tile, which is less than this estimate is exact to: on an IPU it may not fit.`,
    );
  }
  return h(
    "p",
    h("strong.good", "It fits. "),
    `The fullest tile holds ${share(totals.worst_tile_bytes, target.bytes_per_tile)} of what it has; ${bytesWords(-over)} are left on it.`,
  );
}

/** @param {App} app @param {any} advice */
function actions(app, advice) {
  if (advice === null)
    return empty(
      "This profile has no computed advice (table 'advice'). Tremula writes it for a program that does not fit, and with autoReport.advice for any other.",
    );
  const o = app.overview;
  const asked = o.options.some((row) => row[0] === "autoReport.advice" && row[1] === "true");
  if (advice.rows.length === 0 && o.totals.fits && !asked)
    return empty("The program fits, so no change was planned. With autoReport.advice Tremula plans some anyway.");
  if (advice.rows.length === 0) return empty("No change that was planned saves memory.");
  const at = (/** @type {string} */ name) => advice.columns.indexOf(name);
  const value = (row, /** @type {string} */ name) => (at(name) < 0 ? null : row[at(name)]);
  return h(
    "div",
    table({
      name: "What would help",
      id: "advice",
      rows: advice.rows,
      fixed: true,
      tools: false,
      columns: [
        column("text", "Change", "text", (row) => value(row, "text")),
        column("saved", "Saves on the fullest tile", "bytes", (row) => value(row, "saved")),
        column("worst_tile_bytes", "Fullest tile then", "bytes", (row) => value(row, "worst_tile_bytes")),
        column("fits", "Then it", "text", (row) => (value(row, "fits") ? "fits" : "does not fit")),
        column("num_ipus", "IPUs", "number", (row) => value(row, "num_ipus")),
        column("cycles", "Cycles of a run", "cycles", (row) => value(row, "cycles") || null),
        column("change", "Cycles, change", "percent", (row) =>
          value(row, "cycles") > 0 ? 100 * (value(row, "cycles") / app.overview.totals.cycles - 1) : NaN,
        ),
      ],
    }),
    h(
      "p.dim.wide",
      "The compiler planned the program with each change when it wrote this profile, except where a line says otherwise.",
    ),
  );
}

/** @param {App} app @param {string} name @param {any[]} rows */
function largestVariables(app, name, rows) {
  if (rows.length === 0) return empty("None.");
  // A weight has its operation's name.
  const op = rows.some((row) => row.op !== row.name && row.op !== "") ? " op" : "";
  const id = `insights-${name.replace(/\W+/g, "-").toLowerCase()}`;
  return variableTable(app, { name, id, rows, tools: false, fixed: true }, `name total worst dtype${op}`);
}

/** @param {App} app */
async function render(app) {
  const { overview: o, state } = app;
  const found = await app.ask("insights");
  const { byCycles, byWaste } = found;
  const scopes = new Map();
  const always = unpack(found.always),
    atPeak = unpack(found.atPeak);
  for (const { layer, op, total_bytes } of [...always, ...atPeak]) {
    const scope = layer || op || "(none)";
    scopes.set(scope, (scopes.get(scope) ?? 0) + total_bytes);
  }
  const bins = histogram(found.histogram, o.target.bytes_per_tile);
  const area = areaPainter({
    series: [{ name: "tiles", colour: "P", values: bins.counts }],
    edges: bins.edges,
    kind: "number",
    across: "bytes",
    upwards: "tiles",
  });
  const end = o.target.bytes_per_tile;
  const chart = new Plot({
    id: "histogram",
    name: "Tiles by bytes",
    height: 190,
    domain: [0, bins.most],
    strip: false,
    least: bins.most / BINS,
    summary: `${grouped(found.histogram.length)} tiles; a tile has ${grouped(end)} bytes.`,
    speak: (text) => app.speak(text),
    legend: [
      ["P", "number of tiles"],
      ["bad", "a tile's end"],
    ],
    paint: (view) => {
      area.paint(view);
      view.g.fillStyle = view.colours.bad;
      view.g.fillRect(view.x(end) - 1, 0, 2, view.height - 20);
    },
    tip: (x) =>
      `${grouped(bins.counts[area.placeAt(x)])} tiles hold ${bytesText(bins.edges[area.placeAt(x)])} to ${bytesWords(bins.edges[area.placeAt(x) + 1])}`,
    step: (x, direction) =>
      bins.edges[Math.max(0, Math.min(BINS - 1, area.placeAt(x) + direction))] + bins.edges[1] / 2,
    twin: () =>
      table({
        name: "Tiles by bytes",
        id: "histogram-table",
        rows: Array.from(bins.counts.keys()),
        tools: false,
        fixed: true,
        columns: [
          column("from", "From", "bytes", (i) => bins.edges[i]),
          column("to", "To", "bytes", (i) => bins.edges[i + 1]),
          column("tiles", "Tiles", "number", (i) => bins.counts[i], { sum: true }),
        ],
      }),
  });
  const waits = o.runs.reduce((sum, run) => sum + run[3], 0),
    all = o.runs.reduce((sum, run) => sum + run[5], 0);
  const operationTable = (/** @type {string} */ id, rows, /** @type {string} */ key, /** @type {string} */ title) =>
    table({
      name: title,
      id,
      rows,
      tools: false,
      fixed: true,
      keyOf: (row) => row.name,
      onpick: (row) => state.set({ v: "operations", layer: "op", op: row.name }),
      columns: [
        column("name", "Operation", "text", "name"),
        column(key, title, "cycles", key),
        column("share", "Of the run", "percent", (row) => (100 * row[key]) / (o.totals.cycles || 1)),
      ],
    });
  const vertexTable = (/** @type {string} */ id, rows, columns) =>
    rows.length === 0
      ? empty("None.")
      : table({ name: id, id: `insights-${id}`, rows, tools: false, fixed: true, columns });
  return {
    element: h(
      "div.view",
      panel(
        "Verdict",
        verdict(o),
        app.showIn([
          ["Memory", "memory", { tiles: o.totals.worst_tile }],
          ["Liveness of the fullest tile", "liveness", { of: "fullest" }],
          ["What is alive then", "liveness", { step: found.peak }],
        ]),
      ),
      panel("What would help", actions(app, found.advice)),
      h(
        "div.columns",
        panel(
          "Five fullest tiles",
          h(
            "div.bars",
            o.fullestTiles.map((row) => [
              h("a", { href: state.link({ v: "memory", tiles: row[0] }) }, tileName(o, row[0])),
              h(
                row[1] > end ? "div.meter.over" : "div.meter",
                null,
                h("div", {
                  style: { width: `${Math.min(100, (100 * row[1]) / Math.max(end, o.fullestTiles[0][1]))}%` },
                }),
              ),
              h(
                "span",
                { "data-key": `fullest.${row[0]}`, "data-value": row[1] },
                `${bytesText(row[1])} (${share(row[1], end)})`,
              ),
            ]),
          ),
        ),
        panel(
          "Outside of computing",
          pairs([
            [
              "Waiting for the host",
              all > 0 ? `${cyclesWords(waits)}, ${share(waits, all)} of the recorded runs` : "no run was recorded",
            ],
            [
              "Transfers with the host",
              `${cyclesText(o.cycles["transfers with the host"])}, ${share(o.cycles["transfers with the host"], o.totals.cycles)} of a run`,
            ],
            ["Exchange", `${cyclesText(o.cycles.exchange)}, ${share(o.cycles.exchange, o.totals.cycles)} of a run`],
            ["Sync", `${cyclesText(o.cycles.sync)}, ${share(o.cycles.sync, o.totals.cycles)} of a run`],
          ]),
        ),
        panel("Tiles by bytes", chart.element),
        panel(
          "Layers by live bytes when the fullest tile is fullest",
          table({
            name: "Layers",
            id: "insights-layers",
            rows: [...scopes].sort((a, b) => b[1] - a[1]).slice(0, 10),
            tools: false,
            fixed: true,
            columns: [
              column("name", "Layer", "text", 0),
              column("bytes", "Bytes of its largest variables", "bytes", 1),
            ],
          }),
        ),
        panel("Always live", largestVariables(app, "Always live", always)),
        panel(
          `Alive when the fullest tile is fullest`,
          h("p.dim.wide", `step ${found.peak}: ${found.peakName}`),
          largestVariables(app, "Alive at the peak", atPeak),
        ),
        panel(
          "Vertices by state",
          vertexTable("vertex-state", found.vertexStates, [
            column("name", "Codelet", "text", 0),
            column("state", "State, all tiles", "bytes", 2),
            column("count", "Vertices", "number", 1),
          ]),
        ),
        panel(
          "Vertices by code",
          vertexTable("vertex-code", found.vertexCodes, [
            column("name", "Codelet", "text", 0),
            column("code", "Code of the codelet", "bytes", 1),
          ]),
        ),
        panel(
          "Largest exchanges",
          vertexTable("exchanges", found.exchanges, [
            column("name", "Exchange", "text", 1),
            column("code", "Code", "bytes", 2),
            column("in", "Bytes in", "bytes", 3),
            column("cycles", "Cycles", "cycles", 4),
          ]),
        ),
        panel("Operations by cycles", operationTable("insights-cycles", byCycles, "cycles", "Cycles")),
        panel(
          "Operations by wasted cycles",
          byWaste.length === 0 ? empty("None.") : operationTable("insights-wasted", byWaste, "wasted", "Wasted cycles"),
          h("p.dim", "Wasted: worst tile − mean of the tiles, times executions."),
        ),
        panel(
          "Half precision",
          pairs([
            [
              "float32 alive on the five fullest tiles at their peak",
              h(
                "span",
                { "data-key": "half_bytes", "data-value": found.halfBytes },
                `half of it is ${bytesWords(found.halfBytes)}`,
              ),
            ],
          ]),
          h("p.dim", "An upper bound: the sum over variables of half the most bytes that any of these tiles holds."),
          found.halves.length > 0 &&
            table({
              name: "float32 variables",
              id: "halves",
              rows: found.halves,
              tools: false,
              fixed: true,
              columns: [
                column("name", "Variable", "text", "name"),
                column("bytes", "On a full tile", "bytes", "bytes"),
              ],
            }),
        ),
      ),
    ),
  };
}

/** @type {ViewModule} */
export const insightsView = {
  id: "insights",
  title: "Insights",
  hint: "Does it fit, who fills it, what would help, where the time goes.",
  render,
};
