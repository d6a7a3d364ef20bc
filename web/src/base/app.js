// The App that every view gets: the reports, the worker, the state, messages for the user.

import { Client } from "./client.js";
import { empty, h } from "./dom.js";
import { message, units } from "./format.js";
import { State } from "./state.js";

/**
 * @typedef {object} Shown the result of a view
 * @property {Node} element
 * @property {Record<string, () => void>} [keys] of this view
 * @property {() => void} [after] called when the view is in the page
 */
/**
 * @typedef {object} ViewModule
 * @property {string} id @property {string} title @property {string} hint
 * @property {(app: App) => Promise<Shown>} render
 */

const MOST_TIMELINES = 32;

export class App {
  constructor() {
    this.state = new State();
    this.progress = h("div.progress", { hidden: true, role: "status" });
    this.live = h("div.unseen", { "aria-live": "polite" });
    this.client = new Client((text, cancel) => {
      this.progress.hidden = text === "";
      this.progress.replaceChildren(...(text === "" ? [] : [text, h("button.plain", { onclick: cancel }, "Cancel")]));
    });
    /** @type {any[]} overviews */
    this.reports = [];
    /** @type {any} plans instead of reports (views/plan.js), or null */
    this.plans = null;
    /** @type {any} */
    this.timer = 0;
    /** @type {(message: string) => void} */
    this.fail = () => {};
    /** @type {Map<string, string>} texts of source files that the user gave */
    this.sources = new Map();
    /** @type {Timeline[]} of the host */
    this.timelines = [];
    /** @type {import("./opening.js").Given[]} timelines that were not read yet */
    this.given = [];
    this.reading = Promise.resolve();
    /** @type {(list: FileList|null, beside?: boolean) => void} opens chosen files; beside: as the second report */
    this.take = () => {};
    /** @type {string[]} messages about timelines that could not be read */
    this.timelineFaults = [];
  }

  /** The number of the report that views show. */
  get report() {
    const found = this.reports.findIndex((_, i) => this.keyOf(i) === this.state.get("r"));
    return Math.max(0, found);
  }

  /** The key of a report in the state. @param {number} report */
  keyOf(report) {
    return report === 0 ? "" : report === 1 ? "b" : String(report);
  }

  get overview() {
    return this.reports[this.report];
  }

  /** @param {string} method @param {...any} args @returns {Promise<any>} */
  ask(method, ...args) {
    return this.client.ask(this.report, method, ...args);
  }

  /** Speaks, at most a few times a second. @param {string} text */
  speak(text) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      this.live.textContent = text;
    }, 200);
  }

  /** Reads the timelines that came with the reports; one that cannot be read leaves a message. */
  readTimelines() {
    const given = this.given;
    this.given = [];
    this.reading = this.reading.then(async () => {
      for (const one of given.slice(0, MOST_TIMELINES)) {
        try {
          const found = await this.client.send(-1, "timeline", [one]);
          this.timelines = [...this.timelines.filter((other) => other.name !== found.name), found];
        } catch (error) {
          this.timelineFaults.push(message(error));
        }
      }
      if (given.length > MOST_TIMELINES)
        this.timelineFaults.push(`There are ${given.length} timelines; the first ${MOST_TIMELINES} were read.`);
    });
    return this.reading;
  }

  /** The tiles that the user chose. */
  get tiles() {
    const most = this.overview.numTiles;
    return this.state.numbers("tiles").filter((tile) => Number.isInteger(tile) && tile >= 0 && tile < most);
  }

  applyUnits() {
    units.bytes = this.state.get("bytes", "bytes");
    units.cycles = this.state.get("cycles", "cycles");
    units.clock = Number(this.overview?.target.clock_frequency) || 1;
  }

  /** Links to other views that keep or change what is chosen.
   * @param {[string, string, Record<string, any>][]} places text, view, changes */
  showIn(places) {
    return h(
      "p.bar",
      h("span.dim", "Show in"),
      places.map(([text, view, changes]) => h("a", { href: this.state.link({ v: view, ...changes }) }, text)),
    );
  }

  /** A menu of the values of a key of the state. @param {string} label @param {string} key
   * @param {Record<string, string>|string[][]} choices values with their texts
   * @param {string} [value] that is chosen @param {Record<string, null>} [others] what a choice clears */
  menu(label, key, choices, value = this.state.get(key), others = {}) {
    const select = h(
      "select",
      { "data-focus": key, onchange: () => this.state.set({ [key]: select.value, ...others }) },
      (Array.isArray(choices) ? choices : Object.entries(choices)).map(([id, text]) =>
        h("option", { value: id, selected: id === value }, text),
      ),
    );
    select.value = value;
    return h("label.field", label, select);
  }

  /** A button that is on or off. @param {string} text @param {string} key @param {boolean} on
   * @param {string|null} next the value of the key after a press */
  toggle(text, key, on, next) {
    const change = () => this.state.set({ [key]: next });
    return h("button", { "aria-pressed": String(on), "data-focus": key, onclick: change }, text);
  }

  /** A menu of the IPUs, if there are several. */
  ipuMenu() {
    const { ipus } = this.overview;
    return ipus.length > 1 && this.menu("IPU", "ipu", [["", "all"], ...ipus.map(([id]) => [String(id), `IPU ${id}`])]);
  }

  /** The SQL behind a view. @param {string} sql */
  sqlLink(sql) {
    return h("a", { href: this.state.link({ v: "sql", q: sql }), title: sql }, "SQL");
  }

  /** A part of a view. If it fails, the message stands in its place.
   * @param {() => any} make */
  async part(make) {
    try {
      return await make();
    } catch (error) {
      return empty(message(error));
    }
  }
}
