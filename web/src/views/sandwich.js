// The trace as a sandwich: one name, above it the names around it, below it its parts.

import { empty, h, panel } from "../base/dom.js";
import { column, table } from "../base/table.js";

/** @typedef {ReturnType<typeof import("../data/rows.js").sandwich>} Sandwich */

/** All names, to choose one. @param {App} app @param {Sandwich} sides */
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
    h("p.dim", "Cycles without overlapped ones. A click on a box, or on a row here, chooses its name."),
  );
}
