// The parts below memory by tile: details of chosen tiles, regions, variables.

import { operationLink } from "../base/cells.js";
import { empty, h, panel } from "../base/dom.js";
import { column, table } from "../base/table.js";
import { unpack } from "../data/records.js";

/** The name of a tile for people. @param {any} o overview @param {number} tile */
export function tileName(o, tile) {
  const per = o.target.tiles_per_ipu;
  return o.ipus.length > 1 ? `IPU ${Math.floor(tile / per)} tile ${tile % per}` : `tile ${tile}`;
}

/** When a variable is alive. @param {any} row as data/variables.js makes it */
export function lifeOf(row) {
  return row.always_live ? "always" : `${row.first_step} – ${row.end_step - 1}`;
}

/** The chosen variables, one more or less: at most 8. @param {number[]} ids @param {number} id */
export function toggled(ids, id) {
  return ids.includes(id) ? ids.filter((one) => one !== id) : [...ids, id].slice(-8);
}

const VARIABLE = [
  column("name", "Variable", "text", "name"),
  column("total", "All tiles", "bytes", "total_bytes", { sum: true }),
  column("worst", "Fullest tile", "bytes", "worst_bytes"),
  column("dtype", "Type", "text", "type"),
  column("life", "Life", "text", lifeOf),
  column("category", "Category", "text", "category"),
  column("op", "Operation", "text", "op"),
];

/** Variables; a click shows where one lies. @param {App} app
 * @param {Partial<import("../base/table.js").TableOptions> & {id: string, rows: any[]}} options
 * @param {string} keys of columns */
export function variableTable(app, options, keys = "name total worst dtype life category") {
  return table({
    name: "Variables",
    keyOf: (row) => String(row.id),
    onpick: (row) => app.state.set({ v: "memory", lines: row.id }),
    columns: VARIABLE.filter((one) => keys.split(" ").includes(one.key)).map(
      (one) => (options.fixed ? { ...one, sum: false } : one), // of the largest only, a sum would mislead
    ),
    ...options,
  });
}

/** @param {App} app */
export async function variables(app) {
  const { tiles, state, overview: o } = app;
  const lines = state.numbers("lines");
  if (tiles.length === 0)
    return empty("Choose a tile in the chart (Enter or a click, Shift for more) or in the field to see its variables.");
  const { rows, problem } = await app.ask("variablesOnTiles", tiles);
  if (problem) return empty(problem);
  return h(
    "div",
    table({
      name: "Variables on these tiles",
      id: "tile-variables",
      rows: unpack(rows),
      keyOf: (row) => String(row.id),
      selected: lines.map(String),
      sort: `-t${tiles[0]}`,
      onpick: (row) => {
        state.set({ lines: toggled(lines, row.id).join(",") });
      },
      columns: [
        column("name", "Variable", "text", "name"),
        ...tiles.map((tile, t) => column(`t${tile}`, tileName(o, tile), "bytes", `t${t}`, { sum: true })),
        column("peak", "When fullest", "text", (row) => (row.alive ? "alive" : "")),
        column("life", "Life", "text", lifeOf),
        column("category", "Category", "text", "category"),
        column("dtype", "Type", "text", "type"),
        column("op", "Operation", "text", "op", { cell: ({ op }) => op && operationLink(app, op) }),
        column("total", "All tiles", "bytes", "total_bytes"),
      ],
    }),
    h("p.dim", "Enter or a click adds a variable's line to the chart of variables, up to 8."),
  );
}

/** Bytes of the chosen tiles by region and category, if the profile has them.
 * @param {App} app */
export async function regions(app) {
  const { tiles, overview: o } = app;
  const found = await app.ask("regions", tiles);
  if (found === null) return empty("This profile does not say the region of each category (view 'vars_by_region').");
  /** @type {Map<string, any>} */
  const rows = new Map();
  for (const [region, category, always, tile, bytes] of found) {
    const key = `${region}/${category}/${always}`;
    if (!rows.has(key)) rows.set(key, { region, category, always, bytes: tiles.map(() => 0) });
    rows.get(key).bytes[tiles.indexOf(tile)] += bytes;
  }
  return panel(
    "By region and category",
    table({
      name: "By region and category",
      id: "regions",
      rows: [...rows.values()],
      fixed: true,
      columns: [
        column("region", "Region", "text", "region"),
        column("category", "Category", "text", "category"),
        column("live", "Live", "text", (row) => (row.always ? "always" : "at times")),
        ...tiles.map((tile, t) => column(`t${tile}`, tileName(o, tile), "bytes", (row) => row.bytes[t], { sum: true })),
      ],
    }),
  );
}

/** The tree of a tile's memory, a column for each. @param {any} o @param {any} memory @param {number[]} tiles */
export function details(o, memory, tiles) {
  const sum = (values) => values.reduce((a, b) => a + b, 0);
  const rows = [
    ["Memory including gaps", memory.total_including_gaps, 0],
    ["Gaps", memory.gaps, 1],
    ["Memory excluding gaps", memory.total, 1],
    ["Always live", memory.always_live, 2],
    ["At times, when fullest", memory.not_always_live, 2],
    ["Interleaved", memory.interleaved, 2],
    ["Beyond the end", memory.overflowed, 2],
    ...memory.categories.map((one) => [one.name, one.bytes, 2]),
  ];
  const shown = tiles.length > 0 ? tiles : [];
  const total = sum(memory.total);
  const wrong = [
    ["of the categories", sum(Float64Array.from(memory.categories, (one) => one.sum))],
    ["of what is always live and live at times", sum(memory.always_live) + sum(memory.not_always_live)],
  ].filter(([, bytes]) => bytes !== total);
  return h(
    "div",
    table({
      name: "Details",
      id: "details",
      rows,
      tools: false,
      fixed: true,
      keyOf: (row) => row[0],
      columns: [
        column("what", "Bytes of", "text", 0, {
          cell: (row) => h("span", { style: { "padding-left": `${row[2] * 14}px` } }, row[0]),
        }),
        column("all", "All tiles", "bytes", (row) => sum(row[1])),
        ...shown.map((tile) => column(`t${tile}`, tileName(o, tile), "bytes", (row) => row[1][tile])),
      ],
    }),
    wrong.map(([what]) =>
      h("p.note.bad", `The sum ${what} is not the memory excluding gaps: this profile is damaged.`),
    ),
  );
}

/** Lines of bytes as a table. @param {string} id @param {string} name @param {Column} place
 * @param {{name: string, values: ArrayLike<number>}[]} series */
export function linesTable(id, name, place, series) {
  return table({
    name,
    id,
    rows: Array.from({ length: series[0]?.values.length ?? 0 }, (_, i) => i),
    tools: true,
    columns: [place, ...series.map((one, s) => column(`s${s}`, one.name, "bytes", (i) => one.values[i]))],
  });
}
