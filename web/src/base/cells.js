// The cells of a table.

import { h } from "./dom.js";
import { textOf } from "./format.js";
import { KINDS } from "./kinds.js";

/** A name whose scopes are cut where it is too long, not what it ends with. @param {string} text */
function path(text) {
  const last = text.lastIndexOf("/", text.length - 2) + 1;
  return h("span.cut", h("bdi.front", text.slice(0, last)), h("bdi", text.slice(last)));
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
  const tail = column.kind === "text" && column.cell === undefined && text.includes("/");
  const kind = numeric(column) ? "td.number" : column.kind === "long" ? "td.long" : "td.name";
  return h(
    kind,
    {
      "data-value": value ?? "",
      "data-column": column.key,
      title: !numeric(column) && text.length > 40 ? text : undefined,
    },
    column.cell === undefined ? (tail ? path(text) : text) : column.cell(row),
  );
}

/** The letter of a kind on its colour. @param {string} letter @param {string} [colour] the kind with that colour */
export function kindTag(letter, colour = letter) {
  return h("span.kind", { title: KINDS[letter], style: { background: `var(--${colour})` } }, letter);
}
