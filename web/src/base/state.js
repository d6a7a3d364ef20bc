// The state of the page in location.hash: #v=memory&tiles=5,7&... Links work on file:// too.

export class State {
  constructor() {
    this.hash = "";
    /** @type {Map<string, string>} */
    this.values = new Map();
    /** @type {() => void} */
    this.changed = () => {};
    this.read();
    addEventListener("hashchange", () => {
      this.read();
      this.changed();
    });
    if (!this.isInside) return;
    addEventListener("click", (event) => {
      const link = /** @type {Element} */ (event.target).closest?.("a[href^='#']:not(.skip)");
      if (!link) return;
      event.preventDefault();
      this.move(link.getAttribute("href") ?? "#");
    });
  }

  /** A page inside another one (a notebook's cell) has no address that could change. So it keeps
   * the state itself, and follows links itself. */
  get isInside() {
    return location.protocol === "about:";
  }

  read() {
    const hash = this.isInside ? this.hash : location.hash;
    this.values = new Map(new URLSearchParams(hash.slice(1)));
  }

  /** @param {string} link */
  move(link) {
    if (this.isInside) this.hash = link;
    else history.pushState(null, "", link);
    this.read();
    this.changed();
  }

  /** @param {string} key @param {string} [otherwise] */
  get(key, otherwise = "") {
    return this.values.get(key) ?? otherwise;
  }

  /** @param {string} key @param {number} otherwise */
  number(key, otherwise) {
    const value = Number(this.values.get(key));
    return this.values.has(key) && Number.isFinite(value) ? value : otherwise;
  }

  /** Numbers with commas between them. @param {string} key */
  numbers(key) {
    return this.get(key).split(",").filter(Boolean).map(Number);
  }

  /** A range `first-last`, which may be negative; none: []. @param {string} key @returns {number[]} */
  range(key) {
    const match = /^(-?\d+)-(-?\d+)$/.exec(this.get(key));
    return match && Number(match[2]) > Number(match[1]) ? [Number(match[1]), Number(match[2])] : [];
  }

  /** Keeps the range in sight; the whole is none. @param {string} key @param {number} lo @param {number} hi
   * @param {number} end of the whole */
  keepRange(key, lo, hi, end) {
    this.keep({ [key]: lo <= 0 && hi >= end ? null : `${Math.floor(lo)}-${Math.ceil(hi)}` });
  }

  /** @param {Record<string, string|number|null|undefined>} changes */
  link(changes) {
    const values = new Map(this.values);
    for (const [key, value] of Object.entries(changes)) {
      if (value === null || value === undefined || value === "") values.delete(key);
      else values.set(key, String(value));
    }
    return `#${new URLSearchParams([...values])}`;
  }

  /** A step that "back" undoes. @param {Record<string, string|number|null|undefined>} changes */
  set(changes) {
    const link = this.link(changes);
    if (link !== this.link({})) this.move(link);
  }

  /** A change that makes no step for "back" and draws nothing again, such as zooming.
   * @param {Record<string, string|number|null|undefined>} changes */
  keep(changes) {
    const link = this.link(changes);
    if (this.isInside) this.hash = link;
    else history.replaceState(null, "", link);
    this.read();
  }
}
