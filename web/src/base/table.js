// A table of any length: only the rows in sight are in the page. Sorting, filter, columns, export.

import { EXTRA, PAUSE, ROW, sorted, windowOf, writeLines } from "./arrange.js";
import { cell, numeric, spacer } from "./cells.js";
import { h, save } from "./dom.js";
import { matcher } from "./filter.js";
import { counted, grouped, textOf } from "./format.js";

/**
 * @typedef {object} Column
 * @property {string} key
 * @property {string} title
 * @property {"text"|"long"|"bytes"|"cycles"|"number"|"real"|"percent"} kind
 * @property {(row: any) => any} value
 * @property {(row: any) => any} [cell]  the cell's content, if not the value as text
 * @property {boolean} [hidden] at first
 * @property {boolean} [sum] below the column
 * @property {string} [help]
 */

/**
 * @typedef {object} TableOptions
 * @property {string} name          of the table, for people and files
 * @property {string} id            for focus and tests
 * @property {Column[]} columns
 * @property {ArrayLike<any>} rows
 * @property {((row: any) => boolean)|null} [only] the rows that count
 * @property {(row: any) => string} [keyOf]
 * @property {string[]} [selected]  keys
 * @property {(row: any, more: boolean) => void} [onpick]
 * @property {string} [sort]        a column's key; with "-" before it, the largest first
 * @property {boolean} [tools]      filter, columns, export; true unless the table is short
 * @property {boolean} [fixed]      rows keep their order
 * @property {string} [filter]      at first
 * @property {(row: any, event: KeyboardEvent) => boolean} [onkey]
 */

const ALL_BELOW = 120,
  SLICE = 40; // milliseconds

export class Table {
  /** @param {TableOptions} options */
  constructor(options) {
    this.options = options;
    this.hidden = new Set(options.columns.filter((c) => c.hidden).map((c) => c.key));
    this.sort = options.fixed ? "" : (options.sort ?? "");
    this.filter = options.filter ?? "";
    this.active = 0;
    this.top = -1;
    this.rows = options.rows;
    this.arranged = { sort: "", filter: "" }; // what the rows in sight are
    this.body = h("tbody");
    this.head = h("thead");
    this.foot = h("tfoot");
    this.table = h("table", { id: options.id, "aria-label": options.name }, this.head, this.body, this.foot);
    this.box = h("div.tablebox", { onscroll: () => this.window(false) }, this.table);
    this.status = h("span.dim", { role: "status" });
    this.stop = h("button.plain", { hidden: true, onclick: () => this.cancel() }, "Cancel");
    this.element = h("div", { style: { display: "grid", gap: "6px" } }, this.makeTools(), this.box);
    this.body.addEventListener("keydown", (e) => this.key(e));
    this.body.addEventListener("click", (e) => this.click(e));
    this.arrange();
    new ResizeObserver(() => this.window(false)).observe(this.box);
  }

  makeTools() {
    const { options } = this;
    const tools = options.tools ?? options.rows.length > 12;
    if (!tools) return null;
    this.search = h("input", {
      type: "search",
      value: this.filter,
      placeholder: "filter: text, cycles>1000",
      "aria-label": `Filter ${options.name}`,
      "data-focus": `${options.id}-filter`,
      class: "find",
      oninput: () => {
        this.filter = this.search.value;
        this.arrange();
      },
    });
    const columns =
      options.columns.length < 6
        ? null
        : h(
            "details",
            h("summary", "Columns"),
            h(
              "div.bar",
              options.columns.map((column) =>
                h(
                  "label.field",
                  h("input", {
                    type: "checkbox",
                    checked: !this.hidden.has(column.key),
                    onchange: (e) => {
                      if (e.target.checked) this.hidden.delete(column.key);
                      else this.hidden.add(column.key);
                      this.arrange();
                    },
                  }),
                  column.title,
                ),
              ),
            ),
          );
    return h(
      "div.bar",
      this.search,
      this.status,
      this.stop,
      h("button.plain", { onclick: () => this.copy() }, "Copy as text"),
      h("button.plain", { onclick: () => this.saveText() }, "Save CSV"),
      columns,
    );
  }

  columns() {
    return this.options.columns.filter((column) => !this.hidden.has(column.key));
  }

  /** Filters, sorts and sums up; of many rows in slices, so that the page answers meanwhile. */
  arrange() {
    this.slowly(this.arranging(), () => `Arranging ${grouped(this.options.rows.length)} rows …`);
  }

  /** Does work in slices, until other work is asked for or the user cancels it.
   * @param {Generator} work @param {() => string} progress */
  slowly(work, progress) {
    this.work = work;
    const go = () => {
      const begin = performance.now();
      while (this.work === work && performance.now() < begin + SLICE)
        if (work.next().done) {
          this.stop.hidden = true;
          return;
        }
      if (this.work !== work) return;
      this.status.textContent = progress();
      this.stop.hidden = false;
      setTimeout(go);
    };
    go();
  }

  /** Leaves the rows as they were. */
  cancel() {
    this.work = undefined;
    this.stop.hidden = true;
    Object.assign(this, this.arranged);
    this.search.value = this.filter;
    this.drawHead();
    this.count();
    this.window(true);
    this.search.focus();
  }

  count() {
    const { rows, options } = this,
      all = counted(options.rows.length, "row");
    this.status.textContent = rows.length === options.rows.length ? all : `${grouped(rows.length)} of ${all}`;
  }

  *arranging() {
    const { options } = this,
      all = options.rows;
    this.drawHead();
    let rows = all;
    if (this.filter.trim() !== "" || options.only) {
      const wanted = matcher(this.filter, options.columns),
        { only } = options;
      const found = [];
      for (let i = 0; i < all.length; ++i) {
        if ((!only || only(all[i])) && wanted(all[i])) found.push(all[i]);
        if (i % PAUSE === 0) yield;
      }
      rows = found;
    }
    const column = options.columns.find((c) => c.key === this.sort.replace(/^-/, ""));
    if (column !== undefined) rows = yield* sorted(rows, column, this.sort.startsWith("-") ? -1 : 1);
    this.rows = rows;
    this.arranged = { sort: this.sort, filter: this.filter };
    this.box.classList.toggle("short", rows.length <= 12);
    const first = options.columns[0];
    const isLong = Array.from({ length: Math.min(200, all.length) }, (_, i) => all[i]).some(
      (row) => String(first.value(row) ?? "").length > 24,
    );
    this.table.classList.toggle("names", isLong);
    this.active = Math.max(0, Math.min(this.active, rows.length - 1));
    this.top = -1;
    this.window(true);
    yield* this.drawFoot();
    this.count();
  }

  drawHead() {
    this.head.replaceChildren(
      h(
        "tr",
        this.columns().map((column) => {
          const sorted = this.sort.replace(/^-/, "") === column.key;
          const down = this.sort.startsWith("-");
          const content = this.options.fixed
            ? column.title
            : h(
                "button",
                {
                  title: column.help,
                  "data-focus": `${this.options.id}-${column.key}`,
                  onclick: () => {
                    const first = column.kind === "text" ? column.key : `-${column.key}`;
                    const other = column.kind === "text" ? `-${column.key}` : column.key;
                    this.sort = this.sort === first ? other : first;
                    this.arrange();
                    /** @type {any} */ (
                      this.head.querySelector(`[data-focus="${this.options.id}-${column.key}"]`)
                    )?.focus();
                  },
                },
                column.title,
                sorted ? (down ? " ↓" : " ↑") : "",
              );
          return h(
            numeric(column) ? "th.number" : "th",
            { scope: "col", title: column.help, "aria-sort": sorted ? (down ? "descending" : "ascending") : undefined },
            content,
          );
        }),
      ),
    );
  }

  *drawFoot() {
    const columns = this.columns(),
      { rows } = this;
    this.foot.replaceChildren();
    if (!columns.some((c) => c.sum) || rows.length < 2) return;
    const totals = columns.map(() => 0);
    for (let i = 0; i < rows.length; ++i) {
      columns.forEach((column, k) => {
        if (column.sum) totals[k] += Number(column.value(rows[i])) || 0;
      });
      if (i % PAUSE === 0) yield;
    }
    const total = (/** @type {Column} */ column, /** @type {number} */ k) =>
      column.sum
        ? h("td.number", { "data-value": totals[k], "data-column": column.key }, textOf(column.kind, totals[k]))
        : h("td", k === 0 ? "Total" : "");
    this.foot.replaceChildren(h("tr", columns.map(total)));
  }

  /** Puts the rows in sight into the page. @param {boolean} anyway */
  window(anyway) {
    const count = this.rows.length;
    const all = count <= ALL_BELOW;
    const part = windowOf(count, this.box.clientHeight || 500, this.box.scrollTop);
    const first = all ? 0 : part.first,
      last = all ? count : part.last;
    const near = part.scale === 1 && this.top >= 0 && Math.abs(first - this.top) < EXTRA / 2;
    if (!anyway && (all || near)) return;
    this.top = first;
    const focused = this.body.contains(document.activeElement),
      rows = [],
      columns = this.columns();
    if (first > 0) rows.push(spacer(part.above, columns.length));
    for (let i = first; i < last; ++i) rows.push(this.row(this.rows[i], i, columns));
    if (last < count) rows.push(spacer(part.below, columns.length));
    this.table.setAttribute("aria-rowcount", String(count + 1));
    this.body.replaceChildren(...rows);
    if (focused) this.focus(this.active, false);
  }

  /** @param {any} row @param {number} place @param {Column[]} columns */
  row(row, place, columns) {
    const { options } = this;
    const key = options.keyOf?.(row);
    const selected = key !== undefined && (options.selected ?? []).includes(key);
    return h(
      "tr",
      {
        "data-place": place,
        "data-key": key,
        "aria-rowindex": place + 2,
        "aria-selected": options.onpick ? String(selected) : undefined,
        tabindex: place === this.active ? 0 : -1,
        "data-focus": key === undefined ? undefined : `${options.id}-row-${key}`,
      },
      columns.map((column) => cell(column, row)),
    );
  }

  /** @param {number} place @param {boolean} scroll */
  focus(place, scroll = true) {
    this.active = Math.max(0, Math.min(this.rows.length - 1, place));
    if (scroll) {
      this.bring(this.active, 1);
    }
    const row = this.body.querySelector(`[data-place="${this.active}"]`);
    if (row === null) return;
    for (const other of this.body.querySelectorAll("[tabindex='0']")) other.setAttribute("tabindex", "-1");
    row.setAttribute("tabindex", "0");
    /** @type {HTMLElement} */ (row).focus({ preventScroll: scroll });
  }

  /** Scrolls so that a row is in sight. @param {number} place @param {number} above rows that stay above it */
  bring(place, above) {
    const { box } = this,
      { scale } = windowOf(this.rows.length, box.clientHeight || 500, box.scrollTop);
    const at = place * ROW,
      top = box.scrollTop * scale;
    if (at < top + above * ROW) box.scrollTop = Math.max(0, at - above * ROW) / scale;
    else if (at > top + box.clientHeight - 3 * ROW) box.scrollTop = (at - box.clientHeight + 3 * ROW) / scale;
    this.window(true);
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const row = /** @type {HTMLElement} */ (event.target).closest("tr");
    if (row === null || event.ctrlKey || event.metaKey) return;
    const place = Number(row.dataset.place);
    const item = this.rows[place];
    if (event.target === row && this.options.onkey?.(item, event)) {
      event.preventDefault();
      return;
    }
    const page = Math.max(1, Math.floor(this.box.clientHeight / ROW) - 2);
    /** @type {Record<string, number>} */
    const moves = {
      ArrowDown: place + 1,
      ArrowUp: place - 1,
      ".": place + 1,
      ",": place - 1,
      PageDown: place + page,
      PageUp: place - page,
      Home: 0,
      End: this.rows.length - 1,
    };
    if (event.key in moves) {
      this.focus(moves[event.key]);
    } else if (event.key === "Enter" && event.target === row && this.options.onpick) {
      this.options.onpick(item, event.shiftKey);
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  }

  /** @param {MouseEvent} event */
  click(event) {
    const target = /** @type {HTMLElement} */ (event.target);
    const row = target.closest("tr");
    if (row === null || row.dataset.place === undefined || target.closest("button, a, input")) return;
    this.active = Number(row.dataset.place);
    if (String(getSelection()) !== "") return; // the user marks text
    this.options.onpick?.(this.rows[this.active], event.shiftKey || event.ctrlKey || event.metaKey);
  }

  /** Makes all rows text, in slices. @param {string} separator @param {(text: string) => void} done */
  text(separator, done) {
    if (!this.stop.hidden) return; // what is arranged now is not known yet
    const { rows } = this,
      columns = this.columns();
    const lines = /** @type {string[]} */ ([]),
      table = this;
    const work = function* () {
      yield* writeLines(rows, columns, separator, lines);
      table.count();
      done(lines.join("\n"));
    };
    this.slowly(work(), () => `${grouped(lines.length)} of ${grouped(rows.length)} rows written …`);
  }

  copy() {
    this.text("\t", async (text) => {
      await navigator.clipboard?.writeText(text).catch(() => {});
      this.status.textContent = `${grouped(this.rows.length)} rows copied`;
    });
  }

  saveText() {
    this.text(",", (text) => save(`${this.options.id}.csv`, new Blob([text], { type: "text/csv" })));
  }
}

/** @param {string} key @param {string} title @param {Column["kind"]} kind
 * @param {((row: any) => any)|string|number} value or the member of a row that is the value
 * @param {Partial<Column>} [more] @returns {Column} */
export function column(key, title, kind, value, more) {
  return { key, title, kind, value: typeof value === "function" ? value : (row) => row[value], ...more };
}

/** @param {TableOptions} options */
export function table(options) {
  return new Table(options).element;
}
