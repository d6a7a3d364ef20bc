// V12 SQL: statements that read, over the report that is shown and the other one beside it.

import { empty, h, panel } from "../base/dom.js";
import { grouped, textOf } from "../base/format.js";
import { column, table } from "../base/table.js";
import { areaPainter } from "../charts/area.js";
import { Plot } from "../charts/plot.js";

const EXAMPLES = /** @type {[string, string][]} */ ([
  [
    "Cycles by type of program",
    "SELECT type, count(*) AS programs, sum(cycles * executions) AS cycles\nFROM programs WHERE end = id + 1 GROUP BY type ORDER BY cycles DESC",
  ],
  [
    "The twenty fullest tiles",
    "SELECT tile, total_including_gaps, always_live, not_always_live\nFROM memory_by_tile ORDER BY total_including_gaps DESC LIMIT 20",
  ],
  ["Bytes by tile", "SELECT tile, total FROM memory_by_tile"],
  [
    "Variables by bytes",
    "SELECT variables.name, dtype, total_bytes, op_name\nFROM variables LEFT JOIN sources ON sources.id = variables.source ORDER BY total_bytes DESC",
  ],
  [
    "Codelets by vertices",
    "SELECT name, sum(count) AS vertices FROM vertices\nJOIN vertex_types ON vertex_types.id = vertex_type GROUP BY name ORDER BY vertices DESC",
  ],
  [
    "Compute sets out of balance",
    "SELECT name, cycles, cycles_mean, 100.0 * cycles_mean / cycles AS balance\nFROM compute_sets WHERE cycles > 0 ORDER BY cycles - cycles_mean DESC",
  ],
  [
    "Steps of the first run",
    "SELECT steps_by_ipu.cycles_base, steps_by_ipu.cycles, type, program\nFROM steps_by_ipu JOIN steps ON steps.id = step_id WHERE steps.run = 0",
  ],
]);

const OF_BOTH = /** @type {[string, string][]} */ ([
  [
    "Compute sets that both have",
    "SELECT name, main.compute_sets.cycles AS here, o.cycles AS other\nFROM main.compute_sets JOIN other.compute_sets AS o USING (name) ORDER BY abs(other - here) DESC",
  ],
  [
    "Totals of both",
    "SELECT key, main.totals.value AS here, o.value AS other\nFROM main.totals JOIN other.totals AS o USING (key)",
  ],
]);

/** @param {any} result */
function lineOf(result) {
  const numeric = result.columns.map((_, i) => result.rows.every((row) => typeof row[i] === "number"));
  const at = numeric.lastIndexOf(true);
  if (at < 1 || result.rows.length < 3) return null;
  const values = Float64Array.from(result.rows, (row) => Math.max(0, row[at]));
  const area = areaPainter({
    series: [{ name: result.columns[at], colour: "P", values }],
    kind: "number",
    across: "rows",
  });
  return new Plot({
    id: "sql-chart",
    name: `${result.columns[at]} by row, named by ${result.columns[0]}`,
    height: 150,
    domain: [0, values.length],
    least: 3,
    strip: false,
    summary: `${grouped(values.length)} rows.`,
    paint: area.paint,
    step: (x, direction) => area.placeAt(x) + direction + 0.5,
    tip: (x) => `${result.rows[area.placeAt(x)][0]}\n${result.columns[at]} ${grouped(values[area.placeAt(x)])}`,
  }).element;
}

/** @param {App} app */
async function render(app) {
  const { state } = app;
  const letter = app.report === 0 ? "B" : "A",
    isPair = app.reports.length > 1;
  const examples = isPair ? [...EXAMPLES, ...OF_BOTH] : EXAMPLES;
  const text = state.get("q", EXAMPLES[0][1]);
  const area = h("textarea", {
    value: text,
    spellcheck: "false",
    "aria-label": "SQL",
    "data-focus": "sql",
    id: "sql-text",
  });
  const run = () => state.set({ q: area.value });
  area.addEventListener("keydown", (e) => {
    if (e.key !== "Enter" || !(e.ctrlKey || e.metaKey)) return;
    e.preventDefault();
    run();
  });
  const schema = await app.ask("schema");
  const outcome = await app.part(async () => {
    const begin = performance.now();
    const result = await app.ask("ask", text);
    const took = performance.now() - begin;
    const columns = result.columns.map((name, i) => {
      const number =
        result.rows.length > 0 && result.rows.every((row) => row[i] === null || typeof row[i] === "number");
      return column(`c${i}`, name, number ? "real" : "text", (row) => row[i], {
        cell: (row) => textOf(number ? "real" : "text", row[i]),
      });
    });
    return h(
      "div.view",
      h(
        "p.dim",
        `${grouped(result.rows.length)} rows${result.cut ? ", the first 10 000" : ""} in ${took.toFixed(0)} ms`,
      ),
      lineOf(result),
      table({ name: "Result", id: "result", rows: result.rows, columns, tools: true }),
    );
  });
  return {
    element: h(
      "div.view",
      panel(
        "Statement",
        area,
        h(
          "div.bar",
          h("button.main", { onclick: run, "data-focus": "sql-run" }, "Run"),
          h("span.dim", "Ctrl+Enter"),
          h(
            "select",
            {
              "aria-label": "Examples",
              "data-focus": "examples",
              onchange: (e) => {
                if (e.target.value !== "") state.set({ q: examples[Number(e.target.value)][1] });
              },
            },
            h("option", { value: "" }, "Examples …"),
            examples.map(([name], i) => h("option", { value: String(i) }, name)),
          ),
        ),
        isPair && h("p.dim", `Tables of report ${letter} have the same names behind 'other.', as in other.programs.`),
        h(
          "details",
          h("summary", "Tables"),
          schema.length === 0
            ? empty("None.")
            : h(
                "dl.pairs",
                schema.map((one) => [h("dt.mono", one.name), h("dd.mono", one.columns.join(", "))]),
              ),
        ),
      ),
      panel("Result", outcome),
    ),
  };
}

/** @type {ViewModule} */
export const sqlView = { id: "sql", title: "SQL", hint: "Ask the profile itself. Statements only read.", render };
