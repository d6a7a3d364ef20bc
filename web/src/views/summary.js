// V1 Summary: target, memory, cycles by part, runs, options, files.

import { kindTag } from "../base/cells.js";
import { h, pairs, panel } from "../base/dom.js";
import { barText, bytesText, bytesWords, cyclesText, decimal, grouped, megabytes, share, short } from "../base/format.js";
import { PART_LETTERS } from "../base/kinds.js";
import { column, table } from "../base/table.js";

/** Rows of the table meta with names for readers. */
const META = {
  program_hash: "Hash of the program",
  instance: "Instance",
  num_instances: "Instances",
  replica_offset: "First replica",
  hostname: "Host",
};

/** A value with the exact number for tests and copies. @param {string} key @param {number} value
 * @param {string} text */
export function figure(key, value, text) {
  return h("span", { "data-key": key, "data-value": value }, text);
}

/** @param {any} o overview */
function verdict(o) {
  const { totals, target, meta } = o;
  const median = o.runs.map((run) => run[8]).sort((a, b) => a - b);
  const seconds = median.length === 0 ? 0 : (median[(median.length - 1) >> 1] + median[median.length >> 1]) / 2;
  const items = meta.items_per_run > 0 ? meta.items_per_run : 1;
  const item = meta.item ?? "runs";
  const capacity = target.bytes_per_tile * target.tiles_per_ipu * Math.max(1, target.ipus_per_replica ?? 1);
  const one = (/** @type {string} */ name, value, detail) =>
    h("div.figure", h("dt", name), h("dd", value, h("small", detail)));
  const errorBar = (/** @type {string} */ key, /** @type {string|undefined} */ like) =>
    like === undefined
      ? ""
      : `; ${barText(totals[key], totals[`${key}_low`], totals[`${key}_high`])} for ${like} like these`;
  return h(
    "dl.figures",
    one(
      "Memory",
      h(
        totals.fits ? "span.good" : "span.bad",
        { "data-key": "fits", "data-value": totals.fits },
        totals.fits ? (totals.is_close ? "barely fits" : "it fits") : "out of memory",
      ),
      totals.fits
        ? totals.is_close
          ? "nearer to the limit than this estimate is exact"
          : "every tile has room"
        : [
            figure("tiles_over", totals.tiles_over, grouped(totals.tiles_over)),
            " tiles do not fit; the fullest lacks ",
            figure("bytes_over", totals.bytes_over, bytesText(totals.bytes_over)),
            " bytes",
          ],
    ),
    one(
      "Fullest tile",
      figure("worst_tile_bytes", totals.worst_tile_bytes, share(totals.worst_tile_bytes, target.bytes_per_tile)),
      `${bytesText(totals.worst_tile_bytes)} of ${bytesWords(target.bytes_per_tile)}, tile ${totals.worst_tile % target.tiles_per_ipu} of IPU ${Math.floor(totals.worst_tile / target.tiles_per_ipu)}${errorBar("worst_tile_bytes", totals.bytes_like)}`,
    ),
    one(
      "All tiles",
      figure("memory_bytes", totals.memory_bytes_with_gaps, megabytes(totals.memory_bytes_with_gaps)),
      `${bytesWords(totals.memory_bytes_with_gaps)} of ${megabytes(capacity)} (of 1000 KiB), gaps included`,
    ),
    one(
      "Cycles of a run",
      figure("cycles", totals.cycles, cyclesText(totals.cycles)),
      `${decimal((totals.cycles / target.clock_frequency) * 1e3, 3)} ms at ${short(target.clock_frequency / 1e9)} GHz${errorBar("cycles", totals.cycles_like)}`,
    ),
    totals.cycles > 0 &&
      one(
        `${item[0].toUpperCase()}${item.slice(1)} a second`,
        short((items * target.clock_frequency) / totals.cycles),
        `${short(items)} in a run, estimated for the IPU`,
      ),
    seconds > 0 &&
      one(
        `${item[0].toUpperCase()}${item.slice(1)} a second here`,
        short(items / seconds),
        "measured on the CPU that ran it",
      ),
  );
}

/** The nine parts of `tremula report`. @param {any} o overview */
export function partsPanel(o) {
  const all = Object.entries(o.cycles).filter(([name]) => name !== "overlapped");
  const sum = all.reduce((total, [, cycles]) => total + cycles, 0);
  const bar = h(
    "div.split",
    {
      role: "img",
      "aria-label": `Cycles by part: ${all
        .filter(([, c]) => c > 0)
        .map(([name, c]) => `${name} ${share(c, o.totals.cycles)}`)
        .join(", ")}`,
    },
    all
      .filter(([, cycles]) => cycles > 0)
      .map(([name, cycles]) =>
        h(
          "div",
          {
            title: `${name} ${grouped(cycles)}`,
            style: { "flex-grow": cycles, "flex-basis": 0, background: `var(--${PART_LETTERS[name]})` },
          },
          cycles / sum > 0.03 ? PART_LETTERS[name] : "",
        ),
      ),
  );
  return panel(
    "Cycles by part",
    bar,
    table({
      name: "Cycles by part",
      id: "parts",
      fixed: true,
      tools: false,
      rows: [...all, ["overlapped", o.cycles.overlapped]],
      keyOf: (row) => row[0],
      columns: [
        column("part", "Part", "text", 0, {
          cell: (row) =>
            [
              row[0] === "overlapped" ? null : kindTag(PART_LETTERS[row[0]]),
              row[0] === "overlapped" ? "of these, beside other work" : row[0],
            ].filter(Boolean),
        }),
        column("cycles", "Cycles", "cycles", 1),
        column("share", "Of the run", "percent", (row) =>
          o.totals.cycles > 0 ? (100 * row[1]) / o.totals.cycles : NaN,
        ),
      ],
    }),
    o.cycles.overlapped > 0 &&
      h("p.dim", "The parts are those of all IPUs, which work at the same time: together they are more than the run."),
  );
}

/** @param {any} o overview */
export function runsTable(o) {
  return table({
    name: "Runs",
    id: "runs",
    rows: o.runs,
    tools: false,
    fixed: true,
    keyOf: (row) => String(row[0]),
    columns: [
      column("id", "Run", "number", 0),
      column("name", "Name", "text", 1),
      column("wait_cycles", "Waiting for the host", "cycles", 3),
      column("load_cycles", "Loading", "cycles", 4),
      column("cycles", "Cycles, with these", "cycles", 5),
      column("host_seconds", "Seconds on this host", "real", 8),
      column("infeed_wait_seconds", "of these for infeeds", "real", 9),
    ],
  });
}

/** @param {any} value as a tree */
export function jsonTree(value, open = true) {
  if (value === null || typeof value !== "object") return h("span.mono", String(value));
  const entries = Object.entries(value);
  if (entries.length === 0) return h("span.dim", "none");
  return h(
    "details",
    { open },
    h("summary", `${grouped(entries.length)} entries`),
    pairs(entries.map(([key, inner]) => [key, jsonTree(inner, false)])),
  );
}

const MOST_NOTES = 4;

/** What the estimate assumes: a few in sight, many to open. @param {string[]} texts */
function notes(texts) {
  // A sentence begins with a capital letter, a name does not.
  const capital = (/** @type {string} */ text) =>
    text.replace(/^[a-z]+(?= )/, (word) => word[0].toUpperCase() + word.slice(1));
  const shown = texts.map((text) => h("p.note", capital(text)));
  const rest = shown.slice(MOST_NOTES);
  return [
    ...shown.slice(0, MOST_NOTES),
    rest.length > 0 && h("details", h("summary", `${rest.length} more notes`), h("div.view", rest)),
  ];
}

/** @param {App} app */
async function render(app) {
  const o = app.overview;
  const { target, totals, meta } = o;
  // The page is there before this file is read.
  const framework = h("div", { id: "framework" }, h("p.dim", "Reading framework.json …"));
  const fill = async () => {
    const { value, problem } = await app.ask("frameworkOptions");
    return problem
      ? h("p.empty", problem)
      : h(
          "div",
          h("h3", "Framework"),
          pairs([
            ["Name", value.framework || "none"],
            ["Version", value.version],
            ["Tremula", value.tremula],
          ]),
          h("h3", "Compiler options"),
          jsonTree(value.options, false),
        );
  };
  const given = o.options.filter((row) => row[2]);
  return {
    element: h(
      "div.view",
      panel(
        "At a glance",
        verdict(o),
        app.showIn([
          ["Memory", "memory", {}],
          ["Trace", "trace", {}],
          ["Operations", "operations", {}],
          ["Insights", "insights", {}],
        ]),
      ),
      notes(o.notes),
      h(
        "div.columns",
        partsPanel(o),
        panel(
          "Memory by category",
          table({
            name: "Memory by category",
            id: "categories",
            rows: o.categories,
            tools: false,
            keyOf: (row) => row[0],
            columns: [
              column("name", "Category", "text", 0),
              column("always_live", "Always live", "bytes", 1, { sum: true }),
              column("not_always_live", "At times", "bytes", 2, { sum: true }),
            ],
          }),
        ),
        panel(
          "Target",
          pairs([
            ["Type", target.type],
            ["Name", target.name],
            ["Architecture", target.architecture],
            ["IPUs", figure("num_ipus", target.num_ipus, grouped(target.num_ipus))],
            ["Replicas", figure("num_replicas", target.num_replicas, grouped(target.num_replicas))],
            ["IPUs in a replica", grouped(target.ipus_per_replica)],
            ["Tiles of an IPU", grouped(target.tiles_per_ipu)],
            ["Tiles of a replica", grouped(o.numTiles)],
            ["Bytes of a tile", figure("bytes_per_tile", target.bytes_per_tile, bytesText(target.bytes_per_tile))],
            ["Bytes of an IPU", bytesText(target.bytes_per_ipu ?? target.bytes_per_tile * target.tiles_per_ipu)],
            ["Clock", `${short(target.clock_frequency / 1e6)} MHz`],
            ["Instrumentation", "estimated"],
          ]),
        ),
        panel(
          "Graph",
          pairs([
            ["Programs", figure("num_steps", totals.num_steps, grouped(totals.num_steps))],
            ["Compute sets", figure("num_compute_sets", totals.num_compute_sets, grouped(totals.num_compute_sets))],
            ["Vertices", figure("num_vertices", totals.num_vertices, grouped(totals.num_vertices))],
            ["Edges", figure("num_edges", totals.num_edges, grouped(totals.num_edges))],
            ["Variables", figure("num_variables", totals.num_variables, grouped(totals.num_variables))],
            ["Floating-point operations of a run", figure("flops", totals.flops, grouped(totals.flops))],
            ["Module", meta.module],
            ["Written", meta.timestamp],
            ["By", meta.producer],
            ...Object.entries(META)
              .filter(([key]) => key in meta)
              .map(([key, name]) => /** @type {[string, string]} */ ([name, String(meta[key])])),
          ]),
        ),
      ),
      panel(
        "Runs",
        o.runs.length === 0
          ? h(
              "p.empty",
              "No run was recorded: the program was compiled only, or its profile was written without outputExecutionProfile. Cycles are those of the estimate.",
            )
          : runsTable(o),
      ),
      h(
        "div.columns",
        panel(
          "Files",
          table({
            name: "Files",
            id: "files",
            rows: o.files,
            fixed: true,
            tools: false,
            keyOf: (row) => row.name,
            columns: [
              column("name", "File", "text", "name"),
              column("size", "Bytes", "bytes", (row) => (row.size < 0 ? null : row.size)),
              column("absence", "Status", "long", (row) => (row.size < 0 ? `not there: ${row.absence}` : "found")),
            ],
          }),
        ),
        panel("Framework and options", framework),
      ),
      panel(
        "Engine options",
        h("p.dim", `${grouped(given.length)} of ${grouped(o.options.length)} were given by the program.`),
        table({
          name: "Engine options",
          id: "options",
          rows: o.options,
          fixed: true,
          tools: true,
          keyOf: (row) => row[0],
          columns: [
            column("name", "Option", "text", 0),
            column("value", "Value", "text", 1),
            column("given", "Given", "text", (row) => (row[2] ? "given" : "")),
            column("acts", "Effect", "text", (row) => (row[3] ? "has an effect" : "none here")),
          ],
        }),
      ),
    ),
    after: async () => framework.replaceChildren(await app.part(fill)),
  };
}

/** @type {ViewModule} */
export const summaryView = {
  id: "summary",
  title: "Summary",
  hint: "What ran where, whether it fits, where the cycles go.",
  render,
};
