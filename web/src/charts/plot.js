// The base of charts: a canvas with a range of x that mouse, wheel and keys zoom and move, a cursor
// that is spoken, a strip of the whole, a table of the same numbers, and saving.

import { h } from "../base/dom.js";
import { colours } from "../base/kinds.js";
import { savePicture } from "./picture.js";

/**
 * @typedef {object} View the argument of a painter
 * @property {CanvasRenderingContext2D} g
 * @property {number} width @property {number} height   in CSS pixels
 * @property {number} lo @property {number} hi          the x in sight
 * @property {(value: number) => number} x              from a value to a pixel
 * @property {Record<string, string>} colours
 * @property {number|null} cursor                       an x
 * @property {boolean} whole                            whether it is the strip
 */

/**
 * @typedef {object} PlotOptions
 * @property {string} id @property {string} name @property {string} summary
 * @property {number} height
 * @property {[number, number]} domain
 * @property {(view: View) => void} paint
 * @property {(x: number, y: number) => string} [tip]  the text for a place
 * @property {(x: number, direction: number) => number} [step]  the next place from a place
 * @property {(x: number, y: number, more: boolean) => void} [onpick]
 * @property {(lo: number, hi: number) => void} [onrange]  of a drawn range; else it zooms
 * @property {() => Node} [twin]      the table with the same numbers
 * @property {[string, string][]} [legend] colours (CSS values or names) and texts
 * @property {number[]} [range] at first; none or []: the domain
 * @property {(lo: number, hi: number) => void} [onzoom]
 * @property {(text: string) => void} [speak]
 * @property {number} [least]         the shortest range of x
 * @property {boolean} [strip]
 * @property {(event: KeyboardEvent) => boolean} [onkey]
 */

export class Plot {
  /** @param {PlotOptions} options */
  constructor(options) {
    this.options = options;
    const [lo, hi] = options.range?.length === 2 ? options.range : options.domain;
    this.lo = lo;
    this.hi = hi;
    /** @type {number|null} */
    this.cursor = null;
    this.cursorY = 0;
    this.byKey = false; // a key has moved the cursor
    this.clamp();
    this.canvas = h("canvas", {
      tabindex: 0,
      role: "img",
      "aria-label": `${options.name}. ${options.summary}`,
      "data-focus": `${options.id}-canvas`,
      id: options.id,
    });
    this.strip = options.strip === false ? null : h("canvas.strip", { "aria-hidden": true });
    this.tip = h("div.tip", { hidden: true });
    const box = h("div.canvases", this.canvas, this.strip, this.tip);
    this.canvas.style.height = `${options.height}px`;
    if (this.strip) this.strip.style.height = "26px";
    this.twinBox = h("div");
    this.element = h("figure.chart", this.tools(), box, this.makeLegend(), this.twinBox);
    this.pending = false;
    /** @type {{key: string, copy: HTMLCanvasElement}|undefined} */
    this.stripCopy = undefined;
    this.listen();
    new ResizeObserver(() => this.draw()).observe(box);
  }

  tools() {
    const { options } = this;
    const button = (/** @type {string} */ text, /** @type {string} */ title, /** @type {() => void} */ act) =>
      h(
        "button.plain",
        { title, "aria-label": `${/\w/.test(text) ? text : title}: ${options.name}`, onclick: act },
        text,
      );
    this.twinButton =
      options.twin && h("button.plain", { "aria-expanded": "false", onclick: () => this.showTwin() }, "As table");
    return h(
      "figcaption.bar",
      h("span.dim", options.name),
      button("+", "Zoom in (+ or w)", () => this.zoom(0.5)),
      button("−", "Zoom out (- or s)", () => this.zoom(2)),
      button("All", "Show all (0)", () => this.show(...options.domain)),
      this.twinButton,
      button("Save PNG", "Save as picture", () => savePicture(this)),
    );
  }

  makeLegend() {
    const { legend } = this.options;
    if (legend === undefined || legend.length === 0) return null;
    return h(
      "div.legend",
      legend.map(([colour, text]) =>
        h(
          "span",
          h(text.startsWith("hatched") ? "span.sample.hatched" : "span.sample", {
            style: { "background-color": /^\w+$/.test(colour) ? `var(--${colour})` : colour },
          }),
          text,
        ),
      ),
    );
  }

  showTwin() {
    const open = this.twinBox.childNodes.length > 0;
    this.twinButton.setAttribute("aria-expanded", String(!open));
    this.twinBox.replaceChildren(...(open ? [] : [/** @type {() => Node} */ (this.options.twin)()]));
  }

  clamp() {
    const [first, last] = this.options.domain;
    const least = Math.min(this.options.least ?? 1, last - first) || 1;
    const width = Math.min(Math.max(this.hi - this.lo, least), Math.max(last - first, least));
    this.lo = Math.max(first, Math.min(this.lo, last - width));
    this.hi = this.lo + width;
  }

  /** @param {number} lo @param {number} hi */
  show(lo, hi) {
    this.lo = lo;
    this.hi = hi;
    this.clamp();
    this.options.onzoom?.(this.lo, this.hi);
    this.draw();
  }

  /** @param {number} factor @param {number} [at] the x that stays */
  zoom(factor, at = this.cursor ?? (this.lo + this.hi) / 2) {
    const middle = Math.max(this.lo, Math.min(this.hi, at));
    this.show(middle - (middle - this.lo) * factor, middle + (this.hi - middle) * factor);
  }

  /** @param {number} share of the width in sight */
  pan(share) {
    const by = share * (this.hi - this.lo);
    this.show(this.lo + by, this.hi + by);
  }

  /** @param {number} pixel */
  at(pixel) {
    return this.lo + (pixel / Math.max(1, this.canvas.clientWidth)) * (this.hi - this.lo);
  }

  listen() {
    const { canvas, options } = this;
    /** @type {{x: number, lo: number, hi: number, pans: boolean, moved: boolean}|null} */
    let drag = null;
    canvas.addEventListener(
      "wheel",
      (e) => {
        if (e.ctrlKey || e.metaKey || document.activeElement === canvas) {
          e.preventDefault();
          if (Math.abs(e.deltaX) > Math.abs(e.deltaY)) this.pan(e.deltaX / 800);
          else this.zoom(Math.exp(e.deltaY * 0.0025), this.at(e.offsetX));
        }
      },
      { passive: false },
    );
    canvas.addEventListener("pointerdown", (e) => {
      drag = { x: e.offsetX, lo: this.lo, hi: this.hi, pans: e.shiftKey || e.button === 1, moved: false };
      canvas.setPointerCapture(e.pointerId);
    });
    canvas.addEventListener("pointermove", (e) => {
      if (drag !== null && Math.abs(e.offsetX - drag.x) > 4) drag.moved = true;
      if (drag?.moved && drag.pans) {
        const by = ((drag.x - e.offsetX) / canvas.clientWidth) * (drag.hi - drag.lo);
        this.show(drag.lo + by, drag.hi + by);
      } else {
        this.drawn = drag?.moved ? [this.at(drag.x), this.at(e.offsetX)] : undefined;
        this.point(this.at(e.offsetX), e.offsetY, e.offsetX);
      }
    });
    canvas.addEventListener("pointerup", (e) => {
      const was = drag;
      drag = null;
      this.drawn = undefined;
      if (was === null) return;
      if (!was.moved) options.onpick?.(this.at(e.offsetX), e.offsetY, e.shiftKey);
      else if (!was.pans) {
        const ends = [this.at(was.x), this.at(e.offsetX)].sort((a, b) => a - b);
        (options.onrange ?? ((lo, hi) => this.show(lo, hi)))(ends[0], ends[1]);
      }
      this.draw();
    });
    canvas.addEventListener("pointerleave", () => {
      this.tip.hidden = true;
      if (document.activeElement !== canvas) this.cursor = null;
      this.draw();
    });
    canvas.addEventListener("blur", () => {
      this.tip.hidden = true;
    });
    canvas.addEventListener("keydown", (e) => {
      if (this.key(e)) {
        e.preventDefault();
        e.stopPropagation();
      }
    });
    this.strip?.addEventListener("pointerdown", (e) => {
      const move = (/** @type {PointerEvent} */ event) => {
        const [first, last] = options.domain;
        const middle = first + (event.offsetX / this.strip.clientWidth) * (last - first);
        const half = (this.hi - this.lo) / 2;
        this.show(middle - half, middle + half);
      };
      this.strip.setPointerCapture(e.pointerId);
      this.strip.addEventListener("pointermove", move);
      this.strip.addEventListener("pointerup", () => this.strip.removeEventListener("pointermove", move), {
        once: true,
      });
      move(e);
    });
  }

  /** @param {KeyboardEvent} e */
  key(e) {
    if (e.ctrlKey || e.metaKey || e.altKey) return false;
    if (this.options.onkey?.(e)) return true;
    const step = this.options.step;
    const width = this.hi - this.lo;
    switch (e.key) {
      case "w":
      case "+":
      case "=":
        this.zoom(0.6);
        return true;
      case "s":
      case "-":
        this.zoom(1 / 0.6);
        return true;
      case "a":
        this.pan(-0.25);
        return true;
      case "d":
        this.pan(0.25);
        return true;
      case "0":
        this.show(...this.options.domain);
        return true;
      case "Enter":
        if (this.cursor !== null) this.options.onpick?.(this.cursor, this.cursorY, e.shiftKey);
        return true;
      case "ArrowLeft":
      case "ArrowRight":
      case ",":
      case ".":
      case "Home":
      case "End": {
        const forth = e.key === "ArrowRight" || e.key === ".";
        if (e.shiftKey && e.key.startsWith("Arrow")) {
          this.pan(forth ? 0.25 : -0.25);
          return true;
        }
        const from = this.cursor ?? (forth ? this.lo : this.hi);
        let to = step?.(from, forth ? 1 : -1) ?? from + ((forth ? 1 : -1) * width) / 50;
        if (e.key === "Home") to = this.options.domain[0];
        if (e.key === "End") to = this.options.domain[1];
        to = Math.max(this.options.domain[0], Math.min(this.options.domain[1], to));
        if (to < this.lo || to > this.hi) this.show(to - width / 2, to + width / 2);
        this.point(to, this.cursorY, ((to - this.lo) / (this.hi - this.lo)) * this.canvas.clientWidth, true);
        return true;
      }
      default:
        return false;
    }
  }

  /** @param {number} x @param {number} y @param {number} pixel @param {boolean} [speaks] */
  point(x, y, pixel, speaks = false) {
    this.cursor = x;
    this.cursorY = y;
    this.byKey = speaks;
    const text = this.options.tip?.(x, y) ?? "";
    this.tip.hidden = text === "";
    this.tip.textContent = text;
    const width = this.canvas.clientWidth;
    if (pixel > width / 2) {
      this.tip.style.left = "auto";
      this.tip.style.right = `${Math.max(4, width - pixel + 14)}px`;
    } else {
      this.tip.style.right = "auto";
      this.tip.style.left = `${pixel + 14}px`;
    }
    this.tip.style.top = `${Math.max(4, Math.min(y + 12, this.options.height - 60))}px`;
    if (speaks) this.options.speak?.(text.replace(/\n/g, ", "));
    this.draw();
  }

  draw() {
    if (this.pending) return;
    this.pending = true;
    requestAnimationFrame(() => {
      this.pending = false;
      const begin = performance.now();
      this.paintNow();
      this.canvas.dataset.frame = String(performance.now() - begin); // bench/viewer.py reads it
    });
  }

  paintNow() {
    const tones = colours();
    this.paintOn(this.canvas, this.lo, this.hi, tones, false);
    const { strip } = this;
    if (strip === null) return;
    // The strip does not change with the range in sight, so it is painted once for a size and a theme, after the
    // chart, because both together may take long.
    const key = `${strip.clientWidth} ${strip.clientHeight} ${devicePixelRatio} ${tones.panel}`;
    if (this.stripCopy?.key !== key) setTimeout(() => this.makeStrip(key, tones));
    else this.paintStrip(this.stripCopy.copy, tones);
  }

  /** @param {string} key @param {Record<string, string>} tones */
  makeStrip(key, tones) {
    const { strip } = this;
    this.paintOn(strip, ...this.options.domain, tones, true);
    if (strip.width === 0 || strip.height === 0) return; // not in the page
    const copy = h("canvas", { width: strip.width, height: strip.height });
    copy.getContext("2d").drawImage(strip, 0, 0);
    this.stripCopy = { key, copy };
    this.paintStrip(copy, tones);
  }

  /** The strip below the chart, which shows the whole, and which range is in sight.
   * @param {HTMLCanvasElement} copy of it @param {Record<string, string>} tones */
  paintStrip(copy, tones) {
    const { strip } = this,
      [first, last] = this.options.domain,
      width = strip.clientWidth;
    const g = /** @type {CanvasRenderingContext2D} */ (strip.getContext("2d"));
    g.clearRect(0, 0, width, strip.clientHeight);
    g.drawImage(copy, 0, 0, width, strip.clientHeight);
    const x = (/** @type {number} */ v) => ((v - first) / Math.max(1e-9, last - first)) * width;
    g.fillStyle = tones.page;
    g.globalAlpha = 0.65;
    g.fillRect(0, 0, x(this.lo), 26);
    g.fillRect(x(this.hi), 0, width - x(this.hi), 26);
    g.globalAlpha = 1;
    g.strokeStyle = tones.accent;
    g.strokeRect(x(this.lo) + 0.5, 0.5, Math.max(2, x(this.hi) - x(this.lo) - 1), 25);
  }

  /** @param {HTMLCanvasElement} canvas @param {number} lo @param {number} hi
   * @param {Record<string, string>} tones @param {boolean} whole */
  paintOn(canvas, lo, hi, tones, whole) {
    const scale = devicePixelRatio || 1;
    const width = canvas.clientWidth,
      height = canvas.clientHeight;
    if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
      canvas.width = Math.round(width * scale);
      canvas.height = Math.round(height * scale);
    }
    const g = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    g.setTransform(scale, 0, 0, scale, 0, 0);
    g.clearRect(0, 0, width, height);
    const span = hi - lo || 1;
    this.options.paint({
      g,
      width,
      height,
      lo,
      hi,
      x: (value) => ((value - lo) / span) * width,
      colours: tones,
      cursor: whole ? null : this.cursor,
      whole,
    });
    if (!whole && this.drawn) {
      const [from, to] = this.drawn.map((v) => ((v - lo) / span) * width);
      g.fillStyle = tones.accent;
      g.globalAlpha = 0.2;
      g.fillRect(Math.min(from, to), 0, Math.abs(to - from), height);
      g.globalAlpha = 1;
    }
    return g;
  }
}
