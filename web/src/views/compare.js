// V10 Compare: two reports, operation by operation; where cycles and bytes come from.

import { areaPainter } from "../charts/area.js";
import { Plot } from "../charts/plot.js";
import { empty, h, panel } from "../base/dom.js";
import { bytesText, cyclesText, decimal, grouped } from "../base/format.js";
import { PART_LETTERS } from "../base/kinds.js";
import { column, table } from "../base/table.js";
import { chooseMore } from "./host.js";
import { linesTable } from "./memory_parts.js";

/** Per cent of A; "new" or "gone" if one has none. @param {number|null} a @param {number|null} b */
export function changeText(a, b) {
  if (a === null) return "new";
  if (b === null) return "gone";
  if (a === 0) return b === 0 ? "0.0 %" : "new";
  return `${b > a ? "+" : ""}${(100 * (b / a - 1)).toFixed(1)} %`;
}

/** @param {string} kind @param {(row: any) => number|null} a @param {(row: any) => number|null} b
 * @returns {Column[]} */
function sides(kind, a, b) {
  const type = /** @type {"cycles"|"bytes"|"number"} */ (kind);
  return [
    column("a", "A", type, a, { sum: true }),
    column("b", "B", type, b, { sum: true }),
    column("difference", "B − A", type, (row) => (b(row) ?? 0) - (a(row) ?? 0), { sum: true }),
    column("change", "Change", "text", (row) => changeText(a(row), b(row))),
  ];
}

/** A waterfall from A to B as bars that begin where the one before ended. @param {string} name
 * @param {[string, number, string][]} steps name, change, colour @param {number} from @param {(v: number) => string} text */
function waterfall(name, steps, from, text) {
  const some = steps.filter(([, change]) => change !== 0).sort((a, b) => Math.abs(b[1]) - Math.abs(a[1]));
  const shown = some.slice(0, 12);
  const rest = some.slice(12).reduce((sum, [, change]) => sum + change, 0);
  if (rest !== 0) shown.push([`${some.length - 12} others`, rest, "T"]);
  const points = [0, from];
  let at = from;
  for (const [, change] of shown) points.push((at += change));
  const low = Math.min(...points.slice(1)),
    high = Math.max(...points.slice(1));
  const floor = high === low ? 0 : Math.max(0, low - (high - low) * 0.3),
    width = high - floor || 1;
  at = from;
  const bar = (
    /** @type {string} */ label,
    /** @type {number} */ begin,
    /** @type {number} */ end,
    /** @type {string} */ colour,
    /** @type {string} */ value,
  ) => [
    h("span", { style: { "max-width": "44ch", overflow: "hidden", "text-overflow": "ellipsis" }, title: label }, label),
    h(
      "div.meter",
      h("div", {
        style: {
          "margin-left": `${(100 * (Math.min(begin, end) - floor)) / width}%`,
          width: `${Math.max(0.4, (100 * Math.abs(end - begin)) / width)}%`,
          background: `var(--${colour})`,
        },
      }),
    ),
    h("span", value),
  ];
  return h(
    "div.bars",
    { role: "group", "aria-label": name },
    bar("A", floor, from, "P", text(from)),
    shown.map(([label, change, colour]) => {
      const begin = at;
      at += change;
      return bar(label, begin, at, colour, `${change > 0 ? "+" : "−"}${text(Math.abs(change))}`);
    }),
    bar("B", floor, at, "P", text(at)),
  );
}

/** @param {App} app */
async function render(app) {
  const { state, reports } = app;
  if (reports.length < 2)
    return {
      element: h(
        "div.view",
        empty(
          "One report is open. Choose another one to compare it with; or drop two folders, or begin tremula view with two.",
        ),
        h("div.bar", chooseMore(app, "Compare with the folder …", "second-folder", true, true)),
      ),
    };
  const [a, b] = reports;
  const pairs = await app.client.ask(0, "compare", 0, 1);
  const equal = pairs.filter(
    (p) =>
      p.a &&
      p.b &&
      p.how === "name" &&
      p.a.cycles === p.b.cycles &&
      p.a.temporary === p.b.temporary &&
      (p.a.plan ?? "") === (p.b.plan ?? ""),
  ).length;
  /** @type {[string, number, string][]} */
  const changes = pairs.map((p) => [p.name, (p.b?.cycles ?? 0) - (p.a?.cycles ?? 0), "C"]);
  const rest = changes.reduce((left, [, change]) => left - change, b.totals.cycles - a.totals.cycles);
  const differing = (x, y) => [...new Set([...Object.keys(x), ...Object.keys(y)])].filter((key) => x[key] !== y[key]);
  const options = (o) => Object.fromEntries(o.options.map((row) => [row[0], row[1]]));
  const targets = differing(a.target, b.target).map((key) => [`target: ${key}`, a.target[key], b.target[key]]);
  const optionsA = options(a),
    optionsB = options(b);
  const others = differing(optionsA, optionsB).map((key) => [key, optionsA[key], optionsB[key]]);
  const [frameA, frameB] = await Promise.all(
    [0, 1].map((i) => app.client.ask(i, "frameworkOptions").catch(() => ({}))),
  );
  const compiled =
    frameA.value && frameB.value
      ? differing(frameA.value.options ?? {}, frameB.value.options ?? {}).map((key) => [
          `compiler: ${key}`,
          frameA.value.options[key],
          frameB.value.options[key],
        ])
      : [];
  const parts = Object.keys(a.cycles);
  const totals = [
    ["cycles of a run", a.totals.cycles, b.totals.cycles, "cycles"],
    ...parts.map((part) => [part, a.cycles[part], b.cycles[part], "cycles"]),
    ["bytes of all tiles", a.totals.memory_bytes_with_gaps, b.totals.memory_bytes_with_gaps, "bytes"],
    ["bytes of the fullest tile", a.totals.worst_tile_bytes, b.totals.worst_tile_bytes, "bytes"],
    ["programs", a.totals.num_steps, b.totals.num_steps, "number"],
  ];
  const categories = new Map();
  for (const [side, o] of [
    [0, a],
    [1, b],
  ])
    for (const [name, always, times] of o.categories)
      categories.set(name, Object.assign(categories.get(name) ?? [0, 0], { [side]: always + times }));
  const differences = [...targets, ...compiled, ...others];
  return {
    element: h(
      "div.view",
      panel(
        "A and B",
        table({
          name: "The two reports",
          id: "sides",
          rows: [
            ["A", a],
            ["B", b],
          ],
          fixed: true,
          tools: false,
          columns: [
            column("side", "", "text", 0),
            column("module", "Module", "text", (row) => row[1].meta.module),
            column("name", "Folder", "text", (row) => row[1].name),
            column("target", "Target", "text", (row) => `${row[1].target.num_ipus} × ${row[1].target.name}`),
            column("fits", "Fits", "text", (row) => (row[1].totals.fits ? "fits" : "out of memory")),
            column("cycles", "Cycles", "cycles", (row) => row[1].totals.cycles),
          ],
        }),
        a.meta.program_hash !== undefined &&
          h(
            "p.dim",
            a.meta.program_hash === b.meta.program_hash
              ? "Both compiled the same program."
              : "They compiled different programs.",
          ),
      ),
      panel(
        "Options and target that differ",
        differences.length === 0
          ? empty("None.")
          : table({
              name: "Differences",
              id: "differences",
              rows: differences,
              fixed: true,
              keyOf: (row) => row[0],
              columns: [
                column("name", "Name", "text", 0),
                column("a", "A", "text", (row) => row[1] ?? "not there"),
                column("b", "B", "text", (row) => row[2] ?? "not there"),
              ],
            }),
      ),
      panel(
        "Totals",
        table({
          name: "Totals",
          id: "totals",
          rows: totals,
          fixed: true,
          tools: false,
          keyOf: (row) => row[0],
          columns: [
            column("name", "", "text", 0),
            column("a", "A", "number", 1),
            column("b", "B", "number", 2),
            column("difference", "B − A", "number", (row) => row[2] - row[1]),
            column("change", "Change", "text", (row) => changeText(row[1], row[2])),
          ],
        }),
      ),
      h(
        "div.columns",
        panel(
          "Where the cycles come from",
          waterfall(
            "Cycles by part",
            parts.map((part) => [
              part,
              (part === "overlapped" ? -1 : 1) * (b.cycles[part] - a.cycles[part]),
              PART_LETTERS[part] ?? "T",
            ]),
            a.totals.cycles,
            cyclesText,
          ),
        ),
        panel(
          "Which operations",
          waterfall(
            "Cycles by operation",
            [...changes, ["overlapped, or of no operation", rest, "T"]],
            a.totals.cycles,
            cyclesText,
          ),
        ),
        panel(
          "Where the bytes come from",
          waterfall(
            "Bytes by category",
            [...categories].map(([name, sums]) => [name, (sums[1] ?? 0) - (sums[0] ?? 0), "H"]),
            [...categories.values()].reduce((sum, one) => sum + (one[0] ?? 0), 0),
            bytesText,
          ),
        ),
      ),
      panel(
        "Operations",
        h(
          "p.dim",
          h("span", { "data-key": "equal_ops", "data-value": equal }, grouped(equal)),
          ` operations are alike in both. They are matched by name, then by scope and type in their order.`,
        ),
        table({
          name: "Operations",
          id: "pairs",
          rows: pairs,
          tools: true,
          fixed: true,
          keyOf: (p) => p.name,
          onpick: (p) => state.set({ v: "operations", layer: "op", op: (p.a ?? p.b).name, r: p.a ? null : "b" }),
          columns: [
            column("name", "Operation", "text", "name"),
            ...sides(
              "cycles",
              (p) => p.a?.cycles ?? null,
              (p) => p.b?.cycles ?? null,
            ),
            column("temporary_a", "Temporary A", "bytes", (p) => p.a?.temporary ?? null),
            column("temporary_b", "Temporary B", "bytes", (p) => p.b?.temporary ?? null),
            column("how", "Matched by", "text", "how"),
            column("plan_a", "Plan A", "long", (p) => p.a?.plan ?? "", { hidden: true }),
            column("plan_b", "Plan B", "long", (p) => p.b?.plan ?? "", { hidden: true }),
          ],
        }),
      ),
      await app.part(() => overlay(app, "memory")),
      await app.part(() => overlay(app, "liveness")),
    ),
    keys: {},
  };
}

/** Memory or liveness of both in one chart, as lines. @param {App} app @param {string} what */
async function overlay(app, what) {
  const both = await Promise.all(
    [0, 1].map(async (i) => {
      if (what === "memory") return (await app.client.ask(i, "memory")).total_including_gaps;
      const series = await app.client.ask(i, "liveness", -1, []);
      const values = new Float64Array(1000);
      for (let k = 0, at = 0; k < values.length; ++k) {
        while (at + 1 < series.steps.length && series.steps[at + 1] <= (k / values.length) * series.numSteps) ++at;
        values[k] = series.floor + (series.values[at] ?? 0);
      }
      return values;
    }),
  );
  const count = Math.max(both[0].length, both[1].length);
  const padded = both.map((values) => {
    const wide = new Float64Array(count);
    wide.set(values);
    return wide;
  });
  const series = [
    { name: "A", colour: "P", values: padded[0] },
    { name: "B", colour: "C", values: padded[1] },
  ];
  const area = areaPainter({ series, kind: "bytes", across: what === "memory" ? "tiles" : "thousandths", lines: true });
  const title = what === "memory" ? "Bytes by tile, both" : "Live bytes over the program, both, in thousandths of it";
  return panel(
    title,
    new Plot({
      id: `overlay-${what}`,
      name: title,
      height: 190,
      domain: [0, count],
      least: 4,
      strip: false,
      summary: "A and B as lines.",
      paint: area.paint,
      legend: [
        ["P", "A"],
        ["C", "B"],
      ],
      speak: (text) => app.speak(text),
      step: (x, direction) => area.placeAt(x) + direction + 0.5,
      tip: (x) => {
        const i = area.placeAt(x);
        return `${decimal(i, 0)}\nA ${bytesText(padded[0][i])}\nB ${bytesText(padded[1][i])}\nB − A ${bytesText(padded[1][i] - padded[0][i])}`;
      },
      twin: () =>
        linesTable(
          `overlay-${what}-table`,
          title,
          column("place", what === "memory" ? "Tile" : "Thousandth", "number", (i) => i),
          series,
        ),
    }).element,
  );
}

/** @type {ViewModule} */
export const compareView = {
  id: "compare",
  title: "Compare",
  hint: "Two reports side by side, matched by operation.",
  render,
};
