// The page of `tremula plan --html`: plans side by side, a column for each.

import { empty, h, pairs, panel } from "../base/dom.js";
import { barText, bytesWords, grouped, share, signed } from "../base/format.js";
import { column, table } from "../base/table.js";
import { columnsOf, measures, rangeText, verdict } from "./plan_columns.js";
import { cutPanels, hints, notes, smallest } from "./plan_advice.js";

/** @typedef {import("./plan_columns.js").PlanColumn} PlanColumn */

/** @param {App} app @param {any} answer of `tremula plan --json` */
export function planPage(app, answer) {
  const all = columnsOf(answer);
  const hidden = new Set(app.state.numbers("hide"));
  const chosen = all.filter((one) => !hidden.has(one.id));
  const plans = chosen.filter((one) => one.plan.problem === undefined);
  const base = plans.find((one) => one.id === app.state.number("base", -1)) ?? plans[0];
  return h(
    "div.view",
    h("div.title", h("h1", "Plans"), h("p", "What the model needs on IPUs. Nothing was run.")),
    model(answer, all),
    all.length > 1 && choices(app, all, plans, hidden, base),
    chosen
      .filter((one) => one.plan.problem !== undefined)
      .map((one) => h("p.note.bad", `${one.title} cannot be planned: ${one.plan.problem}`)),
    plans.length === 0
      ? empty("No plan is chosen that could be made.")
      : [
          h("div.columns", memoryBars(plans), cyclesBars(plans)),
          sideBySide(app, plans, base),
          hints(plans),
          smallest(plans),
          cutPanels(plans),
          layers(app, plans),
          largest(plans),
          notes(plans),
        ],
  );
}

/** @param {any} answer @param {PlanColumn[]} all */
function model(answer, all) {
  const { parameters, input } = answer;
  const made = all.filter((one) => one.plan.problem === undefined);
  const fitting = made.filter((one) => one.plan.fits);
  const rate = (/** @type {PlanColumn} */ one) => one.plan.items_per_second ?? 0;
  const fastest = [...fitting].sort((a, b) => rate(b) - rate(a))[0];
  /** @type {[string, any][]} */
  const most =
    all.length > 1 && fastest !== undefined && rate(fastest) > 0
      ? [["most items a second", `${grouped(rate(fastest))}, ${fastest.title}`]]
      : [];
  return panel(
    "The model",
    pairs([
      ["model", answer.model],
      ["a step of", answer.training === null ? "the model as it is" : `training with ${answer.training}`],
      [
        "parameters",
        parameters === null ? "unknown" : `${grouped(parameters.count)}, ${bytesWords(parameters.bytes)}`,
      ],
      ["first input", input === null ? "none" : `${input.name} ${input.type}[${input.shape.join(", ")}]`],
      [
        "fits",
        h("span", { "data-key": "fitting", "data-value": fitting.length }, `${fitting.length} of ${all.length} plans`),
      ],
      ...most,
    ]),
  );
}

/** Which plans are shown, and with which of them the others are compared.
 * @param {App} app @param {PlanColumn[]} all @param {PlanColumn[]} plans @param {Set<number>} hidden
 * @param {PlanColumn} base */
function choices(app, all, plans, hidden, base) {
  const change = (/** @type {number} */ id) => {
    const next = new Set(hidden);
    if (!next.delete(id)) next.add(id);
    app.state.set({ hide: [...next].sort((a, b) => a - b).join(",") });
  };
  return panel(
    "Which plans",
    h(
      "div.bar",
      { role: "group", "aria-label": "Plans that are shown" },
      all.map(({ id, title }) =>
        h(
          "label.field",
          h("input", {
            type: "checkbox",
            checked: !hidden.has(id),
            "data-focus": `plan-${id}`,
            onchange: () => change(id),
          }),
          title,
        ),
      ),
    ),
    h(
      "div.bar",
      plans.length > 1 &&
        app.menu(
          "Compared with",
          "base",
          plans.map(({ id, title }) => [String(id), title]),
          String(base.id),
        ),
      plans.length > 1 &&
        app.toggle("Only rows that differ", "only", app.state.get("only") !== "", app.state.get("only") ? null : "1"),
    ),
  );
}

/** Bars of a figure with its error bar. @param {string} name @param {PlanColumn[]} plans
 * @param {(plan: any) => {value: number, low: number, high: number, text: string, over: boolean}} of
 * @param {number} [limit] */
function bars(name, plans, of, limit = 0) {
  const found = plans.map((one) => ({ ...of(one.plan), title: one.title }));
  const end = Math.max(limit, ...found.map((one) => Math.min(one.high, 2 * one.value))) * 1.02 || 1;
  const at = (/** @type {number} */ value) => `${(100 * Math.min(value, end)) / end}%`;
  return h(
    "div.bars.plans",
    { role: "group", "aria-label": name },
    found.map(({ title, value, low, high, text, over }) => [
      h("span", title),
      h(
        `div.meter${over ? ".over" : ""}`,
        h("div", { style: { width: at(value) } }),
        h("i.range", { style: { left: at(low), width: `calc(${at(high)} - ${at(low)})` } }),
        limit > 0 && h("i.limit", { style: { left: at(limit) } }),
      ),
      h("span", text),
    ]),
  );
}

/** @param {PlanColumn[]} plans */
function memoryBars(plans) {
  return panel(
    "Memory of the fullest tile",
    h("p.dim", "The thin line is the error bar, the upright one a tile's memory."),
    bars(
      "Fullest tile",
      plans,
      (plan) => {
        const m = plan.memory,
          of = m.bytes_per_tile;
        const [low, high] = [m.worst_tile_bytes_low / of, m.worst_tile_bytes_high / of];
        const text = `${share(m.worst_tile_bytes, of)} ${verdict(plan)}`;
        return { value: m.worst_tile_bytes / of, low, high, text, over: !plan.fits };
      },
      1,
    ),
  );
}

/** @param {PlanColumn[]} plans */
function cyclesBars(plans) {
  return panel(
    "Cycles of a run",
    h("p.dim", "The thin line is the error bar."),
    bars("Cycles", plans, ({ cycles, fits }) => ({
      value: cycles.total,
      low: cycles.low,
      high: cycles.high,
      text: `${grouped(cycles.total)}, ${barText(cycles.total, cycles.low, cycles.high)}`,
      over: !fits,
    })),
  );
}

/** @param {App} app @param {PlanColumn[]} plans @param {PlanColumn} base */
function sideBySide(app, plans, base) {
  const only = app.state.get("only") !== "" && plans.length > 1;
  const rows = measures(plans).filter(({ of }) => !only || new Set(plans.map(({ plan }) => of(plan))).size > 1);
  return panel(
    "Side by side",
    plans.length > 1 && h("p.dim", `Per cent are of the difference from ${base.title}.`),
    table({
      name: "Plans side by side",
      id: "plans",
      rows,
      fixed: true,
      tools: true,
      keyOf: (row) => row.key,
      columns: [
        column("name", "", "text", "name", { cell: (row) => (row.depth > 0 ? h("span.inner", row.name) : row.name) }),
        ...plans.map((one) =>
          column(`plan${one.id}`, one.title, "number", (row) => row.of(one.plan), {
            cell: (row) => figure(row, one, base),
          }),
        ),
      ],
    }),
  );
}

/** A figure of a plan, its error bar, and how far it is from the base's.
 * @param {import("./plan_columns.js").Measure} row @param {PlanColumn} one @param {PlanColumn} base */
function figure(row, one, base) {
  const value = row.of(one.plan),
    other = row.of(base.plan);
  const compares = one !== base && typeof value === "number" && typeof other === "number" && other > 0;
  const change = compares && value !== other ? (100 * (/** @type {number} */ (value) - other)) / other : 0;
  return [
    row.text(value, one.plan),
    row.range !== undefined && h("small.error", rangeText(row, one.plan)),
    compares && h("small.change", change === 0 ? "=" : `${signed(change, 1)} %`),
  ];
}

const LAYERS = {
  worst_tile_bytes: "bytes of the fullest tile",
  live_bytes: "bytes alive on all tiles",
  weights_bytes: "bytes of weights",
  cycles: "cycles",
};

/** A table with a row for each name and a column for each plan. @param {string} id @param {string} name
 * @param {string} what @param {PlanColumn[]} plans @param {"bytes"|"cycles"} kind
 * @param {(plan: any) => [string, number, string?][]} of name, value and more text of each item */
function items(id, name, what, plans, kind, of) {
  /** @type {Map<string, {name: string, more: string, values: Map<number, number>}>} */
  const rows = new Map();
  for (const { id: plan, plan: one } of plans)
    for (const [item, value, more = ""] of of(one)) {
      if (!rows.has(item)) rows.set(item, { name: item, more, values: new Map() });
      rows.get(item)?.values.set(plan, (rows.get(item)?.values.get(plan) ?? 0) + value);
    }
  const key = (/** @type {PlanColumn} */ one) => `plan${one.id}`;
  return table({
    name,
    id,
    rows: [...rows.values()],
    sort: `-${key(plans[0])}`,
    keyOf: (row) => row.name,
    columns: [
      column("name", what, "text", (row) => row.name || `(no ${what.toLowerCase()})`),
      ...([...rows.values()].some((row) => row.more !== "") ? [column("more", "Kind", "text", "more")] : []),
      ...plans.map((one) => column(key(one), one.title, kind, (row) => row.values.get(one.id) ?? null)),
    ],
  });
}

/** @param {App} app @param {PlanColumn[]} plans */
function layers(app, plans) {
  const by = app.state.get("layers", "worst_tile_bytes");
  const known = by in LAYERS ? by : "worst_tile_bytes";
  const full = plans.filter(({ plan }) => plan.layers !== undefined);
  return panel(
    "The largest layers",
    h("div.bar", app.menu("By", "layers", LAYERS, known)),
    items("layers", "Layers", "Layer", full, known === "cycles" ? "cycles" : "bytes", (plan) =>
      plan.layers.map((/** @type {any} */ layer) => [layer.name, layer[known]]),
    ),
  );
}

/** @param {PlanColumn[]} plans */
function largest(plans) {
  return panel(
    "The largest variables",
    h("p.dim", "On the IPU of the fullest tile, when that is fullest: the bytes of a variable where it has most."),
    items("largest", "Variables", "Variable", plans, "bytes", (plan) =>
      plan.largest.map((/** @type {any} */ one) => [one.name, one.worst_bytes, one.category]),
    ),
  );
}
