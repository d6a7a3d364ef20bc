// The cells of a table.

import { h } from "./dom.js";
import { textOf } from "./format.js";
import { KINDS } from "./kinds.js";

/** A name in two parts: where it is too long, its scopes (a codelet's: its types' scopes) are cut, not what
 * it ends with. To be inside ".cut".
 * @param {string} text */
export function cutName(text) {
  const last = Math.max(
    text.lastIndexOf("/", text.length - 2) + 1,
    text.includes("/") ? 0 : Math.max(text.indexOf("<"), text.lastIndexOf("::") + 2),
  );
  return last > 1 ? [h("bdi.front", text.slice(0, last)), h("bdi", text.slice(last))] : [h("bdi", text)];
}

/** A link to an operation, cut as its name is. @param {App} app @param {string} op */
export function operationLink(app, op) {
  return h("a.cut", { href: app.state.link({ v: "operations", layer: "op", op }), title: op }, cutName(op));
}

/** @param {Column} column */
export function numeric(column) {
  return column.kind !== "text" && column.kind !== "long";
}

/** @param {number} height @param {number} columns */
export function spacer(height, columns) {
  return h("tr.spacer", { "aria-hidden": true }, h("td", { colspan: columns, style: { height: `${height}px` } }));
}

/** @param {Column} column @param {any} row */
export function cell(column, row) {
  const value = column.value(row);
  const text = textOf(column.kind, value);
  const tail = column.kind === "text" && column.cell === undefined && /\/|::/.test(text);
  const kind = numeric(column) ? "td.number" : column.kind === "long" ? "td.long" : "td.name";
  return h(
    kind,
    {
      "data-value": value ?? "",
      "data-column": column.key,
      title: !numeric(column) && text.length > 40 ? text : undefined,
    },
    column.cell === undefined ? (tail ? h("span.cut", cutName(text)) : text) : column.cell(row),
  );
}

/** The letter of a kind on its colour. @param {string} letter @param {string} [colour] the kind with that colour */
export function kindTag(letter, colour = letter) {
  return h("span.kind", { title: KINDS[letter], style: { background: `var(--${colour})` } }, letter);
}
