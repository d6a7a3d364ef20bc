// The parts below the trace: the chosen row, the sums of a range, the export to Perfetto.

import { kindTag, operationLink } from "../base/cells.js";
import { empty, h, panel } from "../base/dom.js";
import { bytesText, cyclesText, cyclesWords, decimal, grouped, share } from "../base/format.js";
import { KINDS } from "../base/kinds.js";
import { column, table } from "../base/table.js";

/** @param {App} app @param {Programs} names @param {Columns} c @param {number} row */
export function rowPanel(app, names, c, row) {
  const program = c.program[row];
  const op = names.op(program);
  return panel(
    "Chosen row",
    h("p", kindTag(names.letter(program)), names.name(program)),
    h(
      "p.dim",
      `${cyclesWords(c.cycles[row])} from ${grouped(c.cycles_base[row])} on; ${grouped(c.iterations[row])} turn${c.iterations[row] === 1 ? "" : "s"}; mean of tiles ${decimal(c.cycles_mean[row], 1)}.`,
    ),
    app.showIn([
      ["Program", "program", { step: program, row: null }],
      ["Liveness", "liveness", { step: program, row: null }],
      ["Operation", "operations", { layer: "op", op, row: null }],
    ]),
  );
}

/** @param {App} app @param {number} first row of the run @param {number[]} ends cycles since the first step; none: of
 *   the run */
export async function sumsPanel(app, first, ends) {
  /** @type {ReturnType<typeof import("../data/rows.js").sums>} */
  const sums = await app.ask("sums", first, ...ends);
  const compute = sums.kinds.reduce((sum, [kind, cycles]) => sum + (kind === "C" || kind === "P" ? cycles : 0), 0);
  const one = (
    /** @type {string} */ key,
    /** @type {string} */ name,
    /** @type {number} */ value,
    /** @type {string} */ text,
  ) => h("div.figure", h("dt", name), h("dd", h("span", { "data-key": `range.${key}`, "data-value": value }, text)));
  return panel(
    ends.length === 0 ? "Sums of the run" : "Sums of the range",
    h(
      "div.columns.tables",
      h(
        "div.view",
        h(
          "dl.figures",
          one(
            "cycles",
            "Cycles, not overlapped",
            sums.cycles - sums.overlapped,
            cyclesText(sums.cycles - sums.overlapped),
          ),
          one("overlapped", "Overlapped", sums.overlapped, cyclesText(sums.overlapped)),
          one("sync", "Sync", sums.sync, cyclesText(sums.sync)),
          one("in", "Bytes in", sums.bytesIn, bytesText(sums.bytesIn)),
          one("out", "Bytes out", sums.bytesOut, bytesText(sums.bytesOut)),
          one(
            "balance",
            "Tile balance of compute",
            sums.worst > 0 ? sums.mean / sums.worst : NaN,
            share(sums.mean, sums.worst),
          ),
          one("compute", "Compute share", sums.cycles > 0 ? compute / sums.cycles : NaN, share(compute, sums.cycles)),
        ),
        table({
          name: "By kind",
          id: "range-kinds",
          rows: sums.kinds,
          tools: false,
          keyOf: (row) => row[0],
          columns: [
            column(
              "kind",
              "Kind",
              "text",
              (row) => (row[0] === "…" ? "steps that one row stands for" : KINDS[row[0]]),
              {
                cell: (row) => [
                  kindTag(row[0], row[0] === "…" ? "T" : row[0]),
                  row[0] === "…" ? "steps that one row stands for" : KINDS[row[0]],
                ],
              },
            ),
            column("cycles", "Cycles", "cycles", 1, { sum: true }),
            column("share", "Share", "percent", (row) => (100 * row[1]) / (sums.cycles || 1)),
          ],
        }),
      ),
      table({
        name: "Top operations",
        id: "range-operations",
        rows: sums.names,
        tools: false,
        sort: "-cycles",
        columns: [
          column("name", "Operation, the top 20", "text", 0, { cell: (row) => operationLink(app, row[0]) }),
          column("cycles", "Cycles", "cycles", 1),
          column("share", "Share", "percent", (row) => (100 * row[1]) / (sums.cycles || 1)),
        ],
      }),
    ),
  );
}

/** The data that moves between the IPU and the host or remote memory.
 * @param {App} app */
export async function streamsPanel(app) {
  const rows = await app.ask("streams");
  if (rows === null) return empty("This profile does not say which stream a copy serves (table 'streams').");
  if (rows.length === 0) return null;
  return panel(
    "Streams",
    table({
      name: "Streams",
      id: "streams",
      rows,
      sort: "-cycles",
      keyOf: (row) => String(row[0]),
      columns: [
        column("name", "Stream", "text", 1),
        column("kind", "Kind", "text", 2),
        column("direction", "Direction", "text", 3),
        column("bytes", "Bytes in a run", "bytes", 4, { sum: true }),
        column("cycles", "Cycles of its copies", "cycles", 5, { sum: true }),
        column("programs", "Programs", "number", 6, { sum: true }),
      ],
    }),
  );
}
