// A pipeline as stage x mini-batch, with bubbles and the slowest stage.

import { h, panel } from "../base/dom.js";
import { cyclesText, cyclesWords, grouped, share } from "../base/format.js";
import { column, table } from "../base/table.js";

/** @typedef {NonNullable<ReturnType<typeof import("../data/sums.js").pipelineGrid>>} Grid */

/** @param {App} app @param {number} first row of the run */
export async function pipelinePanel(app, first) {
  /** @type {Grid|null} */
  const grid = await app.ask("pipeline", first);
  if (grid === null) return null;
  const { critical, span } = grid;
  const facts = h(
    "p",
    `Stage ${critical} is the busiest: ${cyclesWords(grid.rows[critical].busy)} of the ${cyclesText(span)} from the first stage's begin to the last one's end. Were all stages as long as their mean, each would be busy ${cyclesWords(Math.round(grid.balanced))}.`,
  );
  const stages = table({
    name: "Stages",
    id: "stages",
    rows: grid.rows,
    tools: false,
    keyOf: (row) => String(row.stage),
    columns: [
      column("stage", "Stage", "number", "stage"),
      column("busy", "Busy", "cycles", "busy"),
      column("bubble", "Bubble", "cycles", "bubble"),
      column("share", "Busy, of the span", "percent", (row) => (100 * row.busy) / span, {
        cell: (row) => share(row.busy, span),
      }),
    ],
  });
  if (!grid.hasBatches || grid.cells.length === 0) {
    return panel(
      "Pipeline",
      facts,
      stages,
      h(
        "p.empty",
        "This profile does not say which mini-batch a row of the trace belongs to (columns micro_batch and phase); a newer Tremula writes it.",
      ),
    );
  }
  const phasesThere = [...new Set(grid.cells.map((cell) => cell.phase))];
  const batches = [...new Set(grid.cells.map((cell) => cell.batch))].sort((a, b) => a - b);
  const cells = new Map(grid.cells.map((cell) => [`${cell.stage} ${cell.batch} ${cell.phase}`, cell]));
  const most = grid.cells.reduce((a, cell) => Math.max(a, cell.cycles), 1);
  const tables = phasesThere.map((phase) =>
    h(
      "div.tablebox.short",
      { tabindex: 0, role: "region", "aria-label": `Stages and mini-batches, ${phase || "all phases"}` },
      h(
        "table",
        { "aria-label": `Cycles of stage and mini-batch, ${phase || "all phases"}` },
        h(
          "thead",
          h(
            "tr",
            h("th", { scope: "col" }, `${phase || "stage"}, mini-batch`),
            batches.map((batch) => h("th.number", { scope: "col" }, batch)),
          ),
        ),
        h(
          "tbody",
          grid.rows
            .filter((row) => batches.some((batch) => cells.has(`${row.stage} ${batch} ${phase}`)))
            .map((row) =>
              h(
                "tr",
                h("th", { scope: "row" }, `stage ${row.stage}`),
                batches.map((batch) => {
                  const cell = cells.get(`${row.stage} ${batch} ${phase}`);
                  return h(
                    "td.number",
                    {
                      "data-value": cell?.cycles ?? "",
                      title: cell ? `from ${grouped(cell.begin)}` : "bubble",
                      style: cell
                        ? {
                            background: `color-mix(in srgb, var(--C) ${Math.round((70 * cell.cycles) / most)}%, transparent)`,
                          }
                        : {},
                    },
                    cell ? cyclesText(cell.cycles) : "·",
                  );
                }),
              ),
            ),
        ),
      ),
    ),
  );
  return panel("Pipeline", facts, stages, ...tables);
}
