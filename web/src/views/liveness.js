// V5 Liveness: bytes over the program, variables alive at chosen steps, lives of variables.

import { areaPainter, axis, firstAfter } from "../charts/area.js";
import { Plot } from "../charts/plot.js";
import { empty, h, panel } from "../base/dom.js";
import { bytesText, bytesWords, fileName, grouped } from "../base/format.js";
import { column, table } from "../base/table.js";
import { bandOf, lives, paintBands } from "./liveness_bands.js";
import { unpack } from "../data/records.js";
import { tileField } from "./memory.js";
import { lifeOf, tileName, toggled } from "./memory_parts.js";
import { programNames } from "./programs.js";

/** @param {App} app */
async function render(app) {
  const { state, overview: o } = app;
  const names = await programNames(app),
    nameOf = names.name;
  const ipu = state.number("ipu", -1),
    byTiles = state.get("of") === "tiles" || state.get("of") === "fullest";
  const tiles = state.get("of") === "fullest" ? [o.totals.worst_tile] : byTiles ? app.tiles : [];
  const steps = state.get("steps", state.get("step")).split(",").filter(Boolean).map(Number);
  const hasFloor = state.get("floor", "1") === "1";
  const controls = h(
    "div.bar",
    app.menu("Of", "of", { "": "IPUs", fullest: "the fullest tile", tiles: "chosen tiles" }),
    !byTiles && app.ipuMenu(),
    byTiles && tileField(app),
    app.toggle("Always-live floor", "floor", hasFloor, hasFloor ? "0" : null),
    app.menu("Across", "x", { "": "programs in order", cycles: "cycles" }, state.get("x"), { z: null }),
    app.sqlLink("SELECT program, ipu, not_always_live FROM liveness ORDER BY program, ipu"),
  );
  if (byTiles && tiles.length === 0)
    return { element: h("div.view", controls, empty("Choose tiles in the field or in the Memory view.")) };
  const series = await app.ask("liveness", ipu, tiles);
  if (series.problem) return { element: h("div.view", controls, empty(series.problem)) };
  const plot = await chart(app, names, series, steps);
  controls.insertBefore(
    h(
      "button",
      { "data-focus": "highest", onclick: () => state.set({ step: series.highest, steps: null }) },
      "Highest step",
    ),
    controls.lastChild,
  );
  const element = h(
    "div.view",
    controls,
    panel(
      tiles.length > 0
        ? `Live bytes of ${tiles.map((tile) => tileName(o, tile)).join(", ")}`
        : ipu >= 0
          ? `Live bytes of IPU ${ipu}`
          : "Live bytes of all tiles",
      plot.element,
      h("p.dim", "Enter or a click chooses a step; with Shift more, as columns beside each other."),
    ),
    steps.length > 0
      ? await app.part(() => aliveTables(app, steps, ipu, tiles, nameOf))
      : empty("Choose a step in the chart, or the highest one, to see which variables are alive."),
  );
  return {
    element,
    keys: {
      f: () => {
        if (steps.length > 0 && state.get("x") !== "cycles")
          plot.show(Math.min(...steps) - 10, Math.max(...steps) + 11);
      },
    },
  };
}

/** @param {App} app @param {Programs} names
 * @param {any} series @param {number[]} steps */
async function chart(app, names, series, steps) {
  const { state } = app;
  const count = names.programs.id.length,
    nameOf = names.name;
  const cycles = state.get("x") === "cycles" ? await app.ask("beginnings", 0, count) : null;
  const end = cycles === null ? count : Math.max(1, app.overview.totals.cycles);
  const place = (/** @type {number} */ step) => (cycles === null ? step : step >= count ? end : cycles[step]);
  const edges = new Float64Array(series.steps.length + 1).fill(end);
  for (let i = 0; i < series.steps.length; ++i) edges[i] = place(series.steps[i]);
  const floor = new Float64Array(series.values.length).fill(series.floor);
  const hasFloor = state.get("floor", "1") === "1",
    peak = series.most + (hasFloor ? series.floor : 0);
  const shown = [
    ...(hasFloor ? [{ name: "always live", colour: "P", values: floor }] : []),
    { name: "at times", colour: "H", values: series.values },
  ];
  const area = areaPainter({
    series: shown,
    edges,
    kind: "bytes",
    limit: peak > series.capacity / 4 ? series.capacity : undefined,
    limitName: "capacity",
  });
  /** @type {import("./liveness_bands.js").Band[]} */
  const rows = (await app.ask("bands")).map(bandOf);
  const under = 17 * rows.length;
  const stepAt = (/** @type {number} */ x) =>
    Math.max(0, Math.min(count, cycles === null ? Math.floor(x) + 1 : firstAfter(cycles, x)) - 1);
  // If a pixel has many steps, the pointer chooses the fullest within two pixels, which is drawn.
  const meant = (/** @type {number} */ x) => {
    if (plot.byKey) return stepAt(x);
    const near = (2 * (plot.hi - plot.lo)) / Math.max(1, plot.canvas.clientWidth);
    const from = area.placeAt(x - near),
      to = area.placeAt(x + near);
    return to - from < 4 ? stepAt(x) : series.steps[area.peaks.find(from, to + 1)];
  };
  /** @type {Plot} */
  const plot = new Plot({
    id: "liveness-chart",
    name: "Bytes that are live",
    height: 266 + under,
    domain: [0, end],
    least: 4,
    range: state.range("z"),
    summary: `${grouped(count)} programs; at most ${grouped(peak)} bytes, of which ${grouped(series.floor)} always.`,
    legend: shown.map((one) => [one.colour, one.name]),
    paint: (view) => {
      if (view.whole) {
        area.paint(view);
        return;
      }
      const low = { ...view, height: view.height - under };
      area.paint(low);
      view.g.clearRect(0, view.height - 20 - under, view.width, 20 + under);
      paintBands(view, rows, place, stepAt);
      axis(view, view.height - 6, ...(cycles === null ? ["number", "steps"] : ["cycles"]));
      for (const step of steps) {
        view.g.fillStyle = view.colours.accent;
        view.g.fillRect(
          view.x(place(step)),
          0,
          Math.max(2, view.x(place(step + 1)) - view.x(place(step))),
          view.height - 20 - under,
        );
      }
    },
    tip: (x) => {
      const step = meant(x),
        at = area.placeAt(place(step));
      return `step ${grouped(step)}: ${nameOf(step)}\nlive: ${bytesWords(area.sums[at])}\nat times: ${bytesText(series.values[at])}\nalways: ${bytesText(series.floor)}`;
    },
    step: (x, direction) =>
      place(Math.max(0, Math.min(count - 1, stepAt(x) + direction))) + (cycles === null ? 0.5 : 0),
    speak: (text) => app.speak(text),
    onzoom: (lo, hi) => state.keepRange("z", lo, hi, end),
    onpick: (x, _, more) => {
      const step = meant(x);
      const next = more ? [...new Set([...steps, step])].slice(-6) : [step];
      state.set({ steps: next.length > 1 ? next.join(",") : null, step: next.length === 1 ? next[0] : null });
    },
    twin: () =>
      table({
        name: "Changes of live bytes",
        id: "liveness-table",
        rows: Array.from(series.steps, (step, i) => [step, series.values[i]]),
        columns: [
          column("program", "From program", "number", 0),
          column("name", "Name", "text", (row) => nameOf(row[0])),
          column("not_always_live", "At times", "bytes", 1),
          column("live", "With always live", "bytes", (row) => row[1] + series.floor),
        ],
      }),
  });
  return plot;
}

/** @param {App} app @param {number[]} steps @param {number} ipu
 * @param {number[]} tiles @param {(program: number) => string} nameOf */
async function aliveTables(app, steps, ipu, tiles, nameOf) {
  const { state } = app;
  const by = state.get("group", "variable"),
    isVariable = by === "variable";
  const { rows, problem } = await app.ask("alive", steps, ipu, tiles, by);
  if (problem) return empty(problem);
  const lines = state.numbers("lines");
  const last = steps[steps.length - 1],
    { born, died } = await app.ask("turnover", last);
  const list = (/** @type {{rows: any, count: number}} */ some) => {
    const texts = unpack(some.rows).map((row) => `${row.name} (${bytesText(row.total_bytes)})`);
    if (some.count > texts.length) texts.push(`and ${some.count - texts.length} more`);
    return texts.length === 0 ? h("p.dim", "nothing") : h("p", texts.join(", "));
  };
  return h(
    "div.view",
    h(
      "div.bar",
      app.menu(
        "Alive, by",
        "group",
        { variable: "variable", operation: "operation", layer: "layer", line: "source line" },
        by,
      ),
      app.showIn([
        ["Program", "program", { step: last, steps: null }],
        ["Trace", "trace", { step: last, steps: null }],
      ]),
    ),
    panel(
      `Alive at step ${steps.join(", ")}`,
      ...steps.map((step) => h("p.dim.wide", `${step}: ${nameOf(step)}`)),
      table({
        name: "Alive",
        id: "alive",
        rows: unpack(rows),
        keyOf: (row) => (isVariable ? String(row.id) : row.name),
        sort: `-s${steps[0]}`,
        selected: lines.map(String),
        onpick: isVariable ? ({ id }) => state.set({ lines: toggled(lines, id).join(",") }) : undefined,
        columns: [
          column("name", isVariable ? "Variable" : "Of", "text", "name"),
          ...steps.map((step, i) => column(`s${step}`, `Step ${step}`, "bytes", `s${i}`, { sum: true })),
          ...(steps.length > 1
            ? [
                column("difference", "Last − first", "bytes", (row) => row[`s${steps.length - 1}`] - row.s0, {
                  sum: true,
                }),
              ]
            : []),
          ...(isVariable
            ? [
                column("life", "Life", "text", lifeOf),
                column("category", "Category", "text", "category"),
                column("operation", "Operation", "text", "op"),
                column("line", "Source", "text", "where", { cell: ({ where }) => fileName(where) }),
              ]
            : []),
        ],
      }),
    ),
    lives(unpack(await app.ask("variablesById", lines)), app.overview.totals.num_steps),
    h("div.columns", panel(`Became alive at step ${last}`, list(born)), panel(`Died before step ${last}`, list(died))),
  );
}

/** @type {ViewModule} */
export const livenessView = {
  id: "liveness",
  title: "Liveness",
  hint: "What is alive at each step: a floor that is always there, and spikes.",
  render,
};
