// V3 Memory by tile: a stepped area over the tiles of all IPUs, details of chosen tiles, variables.

import { areaPainter } from "../charts/area.js";
import { Plot } from "../charts/plot.js";
import { treemap } from "../charts/treemap.js";
import { empty, h, panel } from "../base/dom.js";
import { bytesText, bytesWords, grouped, parseTiles } from "../base/format.js";
import { SERIES } from "../base/kinds.js";
import { column, table } from "../base/table.js";
import { TILE_BYTES } from "../data/memory.js";
import { details, linesTable, regions, tileName, variables } from "./memory_parts.js";

const BREAKDOWNS = { none: "total", liveness: "liveness", region: "region", category: "category" };

/** Series of a breakdown. @param {any} memory @param {string} by @param {boolean} gaps */
export function breakdown(memory, by, gaps) {
  const gap = { name: "gaps", colour: "T", values: memory.gaps };
  if (by === "liveness") {
    return [
      { name: "always live", colour: "P", values: memory.always_live },
      { name: "at times", colour: "H", values: memory.not_always_live },
      ...(gaps ? [gap] : []),
    ];
  }
  if (by === "region") {
    const plain = Float64Array.from(
      memory.total_including_gaps,
      (all, i) => all - memory.interleaved[i] - memory.overflowed[i],
    );
    return [
      { name: "not interleaved", colour: "P", values: plain },
      { name: "interleaved", colour: "X", values: memory.interleaved },
      { name: "beyond the tile's end", colour: "C", values: memory.overflowed },
    ];
  }
  if (by === "category") {
    return [
      ...memory.categories.map((one, i) => ({ name: one.name, colour: SERIES[i % SERIES.length], values: one.bytes })),
      ...(gaps ? [gap] : []),
    ];
  }
  return [
    {
      name: gaps ? "bytes, gaps included" : "bytes",
      colour: "P",
      values: gaps ? memory.total_including_gaps : memory.total,
    },
  ];
}

/** A field for tiles. @param {App} app */
export function tileField(app) {
  const o = app.overview;
  const input = h("input", {
    type: "text",
    value: app.state.get("tiles").replace(/,/g, ", "),
    size: 22,
    placeholder: "0, 5, 30-33, ipu2:17",
    "data-focus": "tiles",
    "aria-label": "Tiles",
    onchange: () => app.state.set({ tiles: parseTiles(input.value, o.target.tiles_per_ipu, o.numTiles).join(",") }),
  });
  return h("label.field", "Tiles", input);
}

/** Whether the chart ends at the fullest tile: by choice, or because most of each tile is free.
 * @param {App} app @param {any} memory */
function fitsBytes(app, memory) {
  const most = memory.total_including_gaps.reduce((a, b) => Math.max(a, b), 0);
  return app.state.get("y", most < app.overview.target.bytes_per_tile / 4 ? "fit" : "end") === "fit";
}

/** @param {App} app @param {any} memory @param {number[]} order */
function chart(app, memory, order) {
  const { state, overview: o } = app;
  const by = state.get("by", "liveness"),
    gaps = state.get("gaps", "1") === "1";
  const sorted = order.length > 0;
  const pick = (/** @type {Float64Array} */ values) => (sorted ? Float64Array.from(order, (i) => values[i]) : values);
  const series = breakdown(memory, by, gaps).map((one) => ({ ...one, values: pick(one.values) }));
  const count = memory.tile.length;
  const tileOf = (/** @type {number} */ place) => (sorted ? order[place] : place);
  const placeOf = new Map(sorted ? order.map((tile, place) => [tile, place]) : []);
  const area = areaPainter({
    series,
    limit: o.target.bytes_per_tile,
    kind: "bytes",
    across: sorted ? "tiles, the fullest first" : "tiles",
    limitName: "end of a tile",
    fits: fitsBytes(app, memory),
    marks: sorted ? [] : o.ipus.slice(1).map((row) => row[1]),
    chosen: app.tiles.map((tile) => placeOf.get(tile) ?? tile),
  });
  const most = memory.total_including_gaps.reduce((a, b) => Math.max(a, b), 0);
  return new Plot({
    id: "memory-chart",
    name: "Bytes by tile",
    height: 260,
    domain: [0, count],
    least: 4,
    range: state.range("z"),
    summary: `${grouped(count)} tiles; the fullest holds ${grouped(most)} bytes of ${grouped(o.target.bytes_per_tile)}.`,
    paint: area.paint,
    legend: [
      ...series.map((one) => /** @type {[string, string]} */ ([one.colour, one.name])),
      ["dim", "hatched: beyond the tile's end"],
    ],
    tip: (x) => {
      const tile = tileOf(area.placeAt(x));
      return [
        `${tileName(o, tile)}: ${bytesWords(area.sums[area.placeAt(x)])}`,
        ...series.map((one) => `${one.name}: ${bytesText(one.values[area.placeAt(x)])}`),
        `gaps: ${bytesText(memory.gaps[tile])}`,
      ].join("\n");
    },
    step: (x, direction) => area.placeAt(x) + direction + 0.5,
    speak: (text) => app.speak(text),
    onpick: (x, _, more) => {
      const tile = tileOf(area.placeAt(x));
      const tiles = more ? [...new Set([...app.tiles, tile])].slice(-8) : [tile];
      state.set({ tiles: tiles.join(",") });
    },
    onzoom: (lo, hi) => state.keepRange("z", lo, hi, count),
    twin: () =>
      table({
        name: "Bytes by tile",
        id: "memory-tiles",
        rows: Array.from({ length: count }, (_, i) => tileOf(i)),
        tools: true,
        keyOf: String,
        columns: [
          column("tile", "Tile", "number", (tile) => tile),
          ...TILE_BYTES.map((key) => column(key, key.replace(/_/g, " "), "bytes", (tile) => memory[key][tile])),
          ...(by === "category"
            ? memory.categories.map((one) =>
                column(`category.${one.name}`, one.name, "bytes", (tile) => one.bytes[tile]),
              )
            : []),
        ],
      }),
  });
}

/** @param {App} app */
async function lineChart(app) {
  const ids = app.state.numbers("lines");
  if (ids.length === 0) return null;
  const { lines, problem } = await app.ask("variableLines", ids);
  if (problem) return empty(problem);
  const series = lines.map((one, i) => ({ name: one.name, colour: SERIES[i], values: one.bytes }));
  const area = areaPainter({ series, kind: "bytes", across: "tiles", lines: true });
  return new Plot({
    id: "lines-chart",
    name: "Bytes of chosen variables by tile",
    height: 180,
    domain: [0, area.count],
    least: 4,
    strip: false,
    summary: `${lines.length} variables.`,
    paint: area.paint,
    legend: series.map((one) => [one.colour, one.name]),
    step: (x, direction) => area.placeAt(x) + direction + 0.5,
    speak: (text) => app.speak(text),
    tip: (x) =>
      [
        tileName(app.overview, area.placeAt(x)),
        ...series.map((one) => `${one.name}: ${bytesText(one.values[area.placeAt(x)])}`),
      ].join("\n"),
    twin: () =>
      linesTable(
        "lines-table",
        "Bytes of chosen variables by tile",
        column("tile", "Tile", "text", (i) => tileName(app.overview, i)),
        series,
      ),
  }).element;
}

/** @param {App} app */
async function render(app) {
  const { state, overview: o } = app;
  const memory = await app.ask("memory");
  const by = state.get("by", "liveness");
  const order =
    state.get("sort") !== "bytes"
      ? []
      : Array.from(memory.tile.keys()).sort(
          (a, b) => memory.total_including_gaps[b] - memory.total_including_gaps[a] || a - b,
        );
  const plot = chart(app, memory, order);
  const gaps = state.get("gaps", "1") === "1",
    fits = fitsBytes(app, memory);
  const element = h(
    "div.view",
    h(
      "div.bar",
      app.menu("Breakdown", "by", BREAKDOWNS, by),
      app.toggle("Gaps", "gaps", gaps, gaps ? "0" : null),
      app.toggle("Fullest first", "sort", order.length > 0, order.length > 0 ? null : "bytes"),
      app.toggle("Scale to the bytes", "y", fits, fits ? "end" : "fit"),
      tileField(app),
      app.sqlLink("SELECT * FROM memory_by_tile ORDER BY tile"),
    ),
    panel(
      "Memory by tile",
      plot.element,
      fits && h("p.dim", `The chart ends at the fullest tile; a tile has ${bytesWords(o.target.bytes_per_tile)}.`),
      app.showIn([
        ["Tile map", "tiles", {}],
        ["Liveness of these tiles", "liveness", {}],
        ["Insights", "insights", {}],
      ]),
    ),
    await app.part(() => lineChart(app)),
    h(
      "div.columns",
      panel("Details", details(o, memory, app.tiles)),
      panel(
        "Bytes by layer",
        await app.part(async () =>
          treemap(
            "Bytes by layer",
            (await app.ask("bytesByScope")).map((one) => ({
              name: one.scope,
              value: one.always,
              detail: `${bytesText(one.always)} always live, ${one.count} variables`,
            })),
            (name) => state.set({ v: "operations", layer: "scope", op: name === "(no layer)" ? "" : name }),
          ),
        ),
      ),
    ),
    app.tiles.length > 0 && (await app.part(() => regions(app))),
    panel("Variables", await app.part(() => variables(app))),
  );
  return {
    element,
    keys: {
      f: () => {
        const places = app.tiles.map((tile) => (order.length > 0 ? order.indexOf(tile) : tile));
        if (places.length > 0) plot.show(Math.min(...places) - 8, Math.max(...places) + 9);
      },
    },
  };
}

/** @type {ViewModule} */
export const memoryView = {
  id: "memory",
  title: "Memory",
  hint: "Bytes on every tile, each when it is fullest.",
  render,
};
