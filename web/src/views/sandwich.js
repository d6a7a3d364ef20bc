// The trace as a sandwich: one name, what encloses it above, what it is made of below.

import { empty, h, panel } from "../base/dom.js";
import { column, table } from "../base/table.js";
import { frames, leftHeavy } from "../data/sums.js";

/** @typedef {ReturnType<typeof sandwich>} Sandwich */

/** Lanes around the chosen name; the name that takes most itself where none is chosen.
 * @param {Record<string, Float64Array>} c @param {(row: number) => string[]|null} partsOf @param {string} asked */
export function sandwich(c, partsOf, asked) {
  const all = frames(c, partsOf);
  const whole = all.reduce((sum, one) => sum + one.self, 0);
  const heaviest = all.reduce((a, b) => (b.self > a.self ? b : a), { name: "", self: -1 });
  const chosen = asked === "" ? heaviest.name : asked;
  const around = (/** @type {(parts: string[], at: number) => string[]} */ take) =>
    leftHeavy(c, (row) => {
      const parts = partsOf(row),
        at = parts?.indexOf(chosen) ?? -1;
      return parts === null || at < 0 ? null : take(parts, at);
    });
  const callers = around((parts, at) => parts.slice(0, at + 1).reverse());
  const callees = around((parts, at) => parts.slice(at));
  const shift = callers.labels.length;
  // Scopes around it stand for no row of their own.
  const above = callers.levels.slice(1).map((level) => ({ ...level, row: level.row.map(() => -1) }));
  const below = callees.levels.map((level) => ({ ...level, label: level.label.map((label) => label + shift) }));
  return {
    lanes: [
      { title: `what '${chosen}' is in, the nearest below`, levels: above.reverse() },
      { title: `'${chosen}' and what is in it`, levels: below },
    ],
    labels: [...callers.labels, ...callees.labels],
    offset: 0,
    total: all.find((one) => one.name === chosen)?.total ?? 0,
    all,
    whole,
    chosen,
  };
}

/** All names, to choose one. @param {import("../base/app.js").App} app @param {Sandwich} sides */
export function sandwichPanel(app, sides) {
  const { all, whole, chosen } = sides;
  const both = (
    /** @type {string} */ key,
    /** @type {string} */ title,
    /** @type {string} */ help,
    /** @type {boolean} */ sum,
  ) => [
    column(key, title, "cycles", key, { help, sum }),
    column(`${key}_share`, "Of the run", "percent", (row) => (100 * row[key]) / (whole || 1)),
  ];
  return panel(
    "Names",
    all.length === 0 ? empty("No row of the trace takes cycles.") : null,
    table({
      name: "Names",
      id: "frames",
      rows: all,
      tools: true,
      sort: "-self",
      keyOf: (row) => row.name,
      selected: [chosen],
      onpick: (row) => app.state.set({ frame: row.name, z: null }),
      columns: [
        column("name", "Name", "text", "name"),
        ...both("self", "Itself", "rows whose last part is the name", true),
        ...both("total", "With what is in it", "rows that have the name anywhere", false),
        column("rows", "Rows", "number", "rows"),
      ],
    }),
    h("p.dim", null, "Cycles without overlapped ones. A click on a box, or on a row here, chooses its name."),
  );
}
