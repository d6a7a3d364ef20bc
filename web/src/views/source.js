// V11 Source: cycles and bytes by file and line, beside the text if the page has it.

import { empty, h, panel } from "../base/dom.js";
import { bytesText, cyclesText, fileName, share } from "../base/format.js";
import { column, table } from "../base/table.js";
import { unpack } from "../data/records.js";

/** The text of a file, from the page or from dropped files, by its whole name or its last part.
 * @param {App} app @param {string} file */
function textOfFile(app, file) {
  return app.sources.get(file) ?? app.sources.get(file.split("/").pop() ?? "");
}

/** @param {App} app */
async function render(app) {
  const { state, overview: o } = app;
  const { rows, peak } = await app.ask("sourceLines");
  const known = unpack(rows).filter((row) => row.name !== "");
  const chosen = state.get("line");
  const files = [...new Set(known.map((row) => row.file))].sort();
  if (known.length === 0)
    return { element: empty("No operation of this profile says which line of source it comes from.") };
  const file = chosen !== "" ? chosen.slice(0, chosen.lastIndexOf(":")) : files[0];
  const text = textOfFile(app, file);
  const byLine = new Map(known.filter((row) => row.file === file).map((row) => [row.line, row]));
  const most = [...byLine.values()].reduce((a, row) => Math.max(a, row.cycles), 1);
  const element = h(
    "div.view",
    h(
      "div.bar",
      app.menu(
        "File",
        "line",
        files.map((name) => [`${name}:0`, name]),
        `${file}:0`,
      ),
      app.sqlLink("SELECT file, line, count(*) FROM sources WHERE file <> '' GROUP BY file, line"),
    ),
    panel(
      "Lines",
      table({
        name: "Source lines",
        id: "lines",
        rows: known,
        tools: true,
        sort: "-cycles",
        keyOf: (row) => row.name,
        selected: [chosen],
        onpick: (row) => state.set({ line: row.name }),
        columns: [
          column("name", "Line", "text", "name", { cell: (row) => h("span", { title: row.name }, fileName(row.name)) }),
          column("cycles", "Cycles", "cycles", "cycles", { sum: true }),
          column("share", "Share", "percent", (row) => (100 * row.cycles) / (o.totals.cycles || 1)),
          column("temporary", "Temporary bytes", "bytes", "temporary"),
          column("alwaysLive", "Always live", "bytes", "alwaysLive", { sum: true }),
          column("live", "Live at the peak", "bytes", "live", { help: `at step ${peak}, all tiles` }),
          column("wasted", "Wasted", "cycles", "wasted"),
          column("flops", "FLOPs", "number", "flops"),
        ],
      }),
      chosen !== "" &&
        app.showIn([
          ["Operations of this line", "operations", { layer: "source", op: chosen }],
          ["Trace", "trace", {}],
        ]),
    ),
    panel(
      file || "Source",
      text === undefined
        ? empty(
            "The text of this file is not here: drop the file onto the page, or make the page with tremula report --html OUT --with-source.",
          )
        : h(
            "div.tablebox",
            { tabindex: 0, role: "region", "aria-label": `Text of ${file}` },
            h(
              "table.source",
              { "aria-label": `Source of ${file}` },
              h(
                "thead",
                h(
                  "tr",
                  ["Cycles", "Share", "Live at the peak", "Line", "Text"].map((title, i) =>
                    h(i < 4 ? "th.number" : "th", { scope: "col" }, title),
                  ),
                ),
              ),
              h(
                "tbody",
                text
                  .split("\n")
                  .slice(0, 4000)
                  .map((line, i) => {
                    const row = byLine.get(i + 1);
                    return h(
                      "tr",
                      { "aria-selected": String(chosen === `${file}:${i + 1}`) },
                      h(
                        "td.number",
                        row
                          ? {
                              style: {
                                background: `color-mix(in srgb, var(--C) ${Math.round((65 * row.cycles) / most)}%, transparent)`,
                              },
                            }
                          : null,
                        row ? cyclesText(row.cycles) : "",
                      ),
                      h("td.number", row ? share(row.cycles, o.totals.cycles) : ""),
                      h("td.number", row ? bytesText(row.live) : ""),
                      h("td.number.dim", i + 1),
                      h("td", { style: { "white-space": "pre" } }, line),
                    );
                  }),
              ),
            ),
          ),
    ),
  );
  return { element };
}

/** @type {ViewModule} */
export const sourceView = { id: "source", title: "Source", hint: "What each line of the program costs.", render };
