// Of the page of plans: what would help, how many IPUs, the cut into IPUs, notes.

import { h, panel } from "../base/dom.js";
import { column, table } from "../base/table.js";
import { changeText } from "./compare.js";

/** @typedef {import("./plan_columns.js").PlanColumn} PlanColumn */

/** Rows of all plans that have some, with the plan's name first where there are several.
 * @param {string} title @param {string} id @param {PlanColumn[]} plans
 * @param {(plan: any) => any[]} of @param {Column[]} columns @param {string} help */
function rowsOfPlans(title, id, plans, of, columns, help) {
  const rows = plans.flatMap((one) => of(one.plan).map((row, i) => ({ ...row, title: one.title, plan: one.plan, i })));
  if (rows.length === 0) return null;
  return panel(
    title,
    h("p.dim", help),
    table({
      name: title,
      id,
      rows,
      fixed: true,
      keyOf: (row) => `${row.title} ${row.i}`,
      columns: [...(plans.length > 1 ? [column("plan", "Plan", "text", "title")] : []), ...columns],
    }),
  );
}

/** @param {PlanColumn[]} plans */
export function hints(plans) {
  const tile = (/** @type {any} */ row) => (100 * row.worst_tile_bytes) / row.plan.memory.bytes_per_tile;
  return rowsOfPlans(
    "What would help",
    "hints",
    plans,
    (plan) => plan.advice ?? [],
    [
      column("change", "Change", "text", "change"),
      column("saved", "Saves on the fullest tile", "bytes", "saved_bytes"),
      column("tile", "Fullest tile then", "percent", tile),
      column("cycles", "Cycles of a run", "cycles", "cycles"),
      column("cost", "Costs", "text", (row) =>
        row.cycles === null ? "not planned" : changeText(row.plan.cycles.total, row.cycles),
      ),
      column("fits", "Then", "text", (row) => (row.fits ? "fits" : "does not fit")),
    ],
    "Changes of plans that do not fit, each planned; those together that fit come first.",
  );
}

/** @param {PlanColumn[]} plans */
export function smallest(plans) {
  const how = (/** @type {any} */ row) => {
    const first = row.schedule === null ? "sharded" : `as a pipeline, ${row.schedule}, ${row.mini_batches} mini-batches`;
    return row.with === "" ? first : `${first}, with ${row.with}`;
  };
  const cuts = (/** @type {any} */ row) =>
    row.ipus === null
      ? `on ${row.nearest} the one that begins with ${row.fullest_shard_begins_with || "the first layer"} is too full`
      : row.cuts.map((/** @type {any} */ cut) => cut.before).join(", ");
  return rowsOfPlans(
    "The smallest number of IPUs",
    "smallest",
    plans,
    (plan) => plan.smallest ?? [],
    [
      column("how", "How", "text", how),
      column("ipus", "IPUs", "text", (row) => row.ipus ?? `none of up to ${row.most_tried}`),
      column("tile", "Fullest tile", "percent", (row) => (100 * row.worst_tile_bytes) / row.plan.memory.bytes_per_tile),
      column("cycles", "Cycles", "cycles", "cycles"),
      column("cost", "Costs", "text", (row) => changeText(row.plan.cycles.total, row.cycles)),
      column("cuts", "The IPUs behind the first begin with", "long", cuts),
    ],
    "Cycles of a pipeline are those of a mini-batch.",
  );
}

/** Where each plan is cut, and what each IPU then holds. @param {PlanColumn[]} plans */
export function cutPanels(plans) {
  const several = plans.filter(({ plan }) => plan.each_ipu?.length > 1);
  if (several.length === 0) return null;
  return h(
    "div.columns.tables",
    several.map(({ id, title, plan }) =>
      panel(
        `The cut into IPUs: ${title}`,
        table({
          name: `IPUs of ${title}`,
          id: `ipus${id}`,
          rows: plan.each_ipu.map((/** @type {any} */ one, /** @type {number} */ i) => ({
            ...one,
            i,
            cut: plan.cuts.find((/** @type {any} */ cut) => cut.ipu === i),
          })),
          fixed: true,
          tools: false,
          columns: [
            column("ipu", "IPU", "number", "i"),
            column("before", "Begins with", "text", (row) => row.cut?.before ?? (row.i === 0 ? "the first layer" : "")),
            column("sent", "Is sent", "bytes", (row) => row.cut?.bytes ?? null),
            column("bytes", "Holds", "bytes", "bytes"),
            column("tile", "Fullest tile", "percent", (row) => (100 * row.worst_tile_bytes) / plan.memory.bytes_per_tile),
            column("cycles", "Works", "cycles", "cycles"),
          ],
        }),
      ),
    ),
  );
}

/** Why a plan does not fit, and what a reader should know. @param {PlanColumn[]} plans */
export function notes(plans) {
  const some = plans.filter(({ plan }) => plan.explanation !== undefined || plan.notes?.length > 0);
  if (some.length === 0) return null;
  return panel(
    "Notes",
    some.map(({ title, plan }) => [
      h("h3", title),
      plan.explanation !== undefined && h("pre.text", { tabindex: 0, "aria-label": `Why ${title} does not fit` }, plan.explanation),
      (plan.notes ?? []).map((/** @type {string} */ note) => h("p", note)),
    ]),
  );
}
