// Lanes of boxes on one time axis: rows of the trace, nested by the parts of their names or flat.
// Boxes narrower than a pixel become one; the next box is found by binary search, so that a frame
// costs as much as it has pixels.

import { inkOn } from "../base/kinds.js";
import { axis, firstAfter } from "./area.js";
import { paintLine, paintMoments, wallAxis } from "./host.js";

/** @typedef {{begin: Float64Array, end: Float64Array, label: Int32Array, row: Int32Array,
 *   kind?: string, values?: Float64Array}} Level kind: "moments", "line" of values, or boxes */
/** @typedef {{title: string, levels: Level[], folds?: boolean}} Lane folds: stands for other lanes; no title: no room
 *   for one */

export const BOX = 17;
const GAP = 8,
  TITLE = 15,
  SEEN = 8; // boxes of a pixel of the strip

/** @param {Lane} lane */
function titleHeight(lane) {
  return lane.title === "" ? GAP / 2 : TITLE;
}

/** @param {Lane[]} lanes */
export function lanesHeight(lanes) {
  return lanes.reduce((sum, lane) => sum + lane.levels.length * BOX + GAP + titleHeight(lane), 0) + 26;
}

/** The lane and level at a pixel's height. @param {Lane[]} lanes @param {number} y */
export function levelAt(lanes, y) {
  let top = 0;
  for (const [place, lane] of lanes.entries()) {
    const begin = top + titleHeight(lane),
      end = begin + lane.levels.length * BOX;
    if (y < end + GAP)
      return { lane: place, level: Math.max(0, Math.min(lane.levels.length - 1, Math.floor((y - begin) / BOX))), top };
    top = end + GAP;
  }
  return null;
}

/**
 * @param {{lanes: Lane[], textOf: (label: number, row: number) => string, colourOf: (row: number) => string,
 *   hatched: (row: number) => boolean, letterOf: (row: number) => string,
 *   chosen: (row: number) => boolean, dimmed?: (label: number) => boolean, kind: string,
 *   wall?: (x: number) => number}} options   wall: from an x to microseconds since 1970
 */
export function flamePainter(options) {
  const { lanes } = options;
  /** @type {Map<string, number>} */
  const widths = new Map();
  /** @param {View} view */
  return (view) => {
    const { g, height, colours, whole } = view;
    g.font = "11px system-ui, sans-serif";
    if (whole) {
      const each = height / Math.max(1, lanes.length);
      lanes.forEach((lane, i) => {
        for (const level of lane.folds ? [] : lane.levels) {
          paintLevel(view, level, i * each, Math.max(1, each - 0.5), options, widths, false);
        }
      });
      return;
    }
    let top = 0;
    for (const lane of lanes) {
      g.fillStyle = colours.dim;
      g.fillText(lane.title, 4, top + 11);
      lane.levels.forEach((level, depth) =>
        paintLevel(view, level, top + titleHeight(lane) + depth * BOX, BOX - 1, options, widths, true),
      );
      top += titleHeight(lane) + lane.levels.length * BOX + GAP;
      g.fillStyle = colours.line;
      g.fillRect(0, top - GAP / 2, view.width, 1);
    }
    axis(view, height - 6, options.kind);
    if (options.wall) wallAxis(view, height - 20, options.wall);
    if (view.cursor !== null) {
      g.fillStyle = colours.text;
      g.globalAlpha = 0.6;
      g.fillRect(view.x(view.cursor), 0, 1, height - 20);
      g.globalAlpha = 1;
    }
  };
}

/**
 * A cursor on lanes: the box under it, steps along a level, up and down.
 * @param {Lane[]} lanes @param {() => Plot} plotOf
 */
export function laneMoves(lanes, plotOf) {
  /** @param {number} x @param {number} y @returns {{level: Level, at: number}|null} */
  const boxAt = (x, y) => {
    const place = levelAt(lanes, y);
    const level = place === null ? undefined : lanes[place.lane].levels[place.level];
    if (level === undefined) return null;
    const at = firstAfter(level.end, x);
    if (level.kind === "moments") {
      const plot = plotOf(),
        near = (4 * (plot.hi - plot.lo)) / Math.max(1, plot.canvas.clientWidth);
      const off = (/** @type {number} */ i) => Math.abs((level.begin[i] ?? Infinity) - x);
      const best = off(at - 1) <= off(at) ? at - 1 : at;
      return off(best) <= near ? { level, at: best } : null;
    }
    return at < level.begin.length && level.begin[at] <= x ? { level, at } : null;
  };
  return {
    boxAt,
    step: (/** @type {number} */ x, /** @type {number} */ direction) => {
      const place = levelAt(lanes, plotOf().cursorY);
      const level = place && lanes[place.lane].levels[place.level];
      if (!level) return x;
      let to = firstAfter(level.end, x) + direction;
      if (level.kind === "moments" && direction > 0) --to;
      else if (level.kind === "moments" && level.end[to] === x) --to;
      const at = Math.max(0, Math.min(level.begin.length - 1, to));
      return (level.begin[at] + level.end[at]) / 2;
    },
    onkey: (/** @type {KeyboardEvent} */ event) => {
      if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return false;
      const plot = plotOf(),
        by = event.key === "ArrowDown" ? BOX : -BOX;
      const y = Math.max(20, Math.min(plot.options.height - 30, plot.cursorY + by));
      const x = plot.cursor ?? plot.lo;
      plot.point(x, y, ((x - plot.lo) / (plot.hi - plot.lo)) * plot.canvas.clientWidth, true);
      return true;
    },
  };
}

/** The colour of a name, or the colour itself. @param {Record<string, string>} colours @param {string} name */
export function toneOf(colours, name) {
  return colours[name] ?? name;
}

/** @param {View} view @param {Level} level @param {number} y @param {number} tall
 * @param {any} options @param {Map<string, number>} widths @param {boolean} texts */
function paintLevel(view, level, y, tall, options, widths, texts) {
  const { g, colours, width, lo, hi } = view;
  const pixel = (hi - lo) / Math.max(1, width);
  const { begin, end, row, label } = level;
  if (level.kind === "moments") return paintMoments(view, level, y, tall, options);
  if (level.kind === "line") return paintLine(view, level, y, tall, options);
  const run = new Run(g, y, tall);
  for (let i = firstAfter(end, lo); i < begin.length && begin[i] < hi;) {
    const long = end[i] - begin[i];
    if (long < pixel) {
      // a pixel of boxes that are too short has the colour of the first, in the strip of the first row
      const x = Math.floor((begin[i] - lo) / pixel);
      const next = Math.max(i + 1, firstAfter(end, lo + (x + 1) * pixel, i));
      if (!texts) for (let k = 0; k < SEEN && i + 1 < next && row[i] < 0; ++k) ++i;
      if (texts || row[i] >= 0) run.add(x, row[i] < 0 ? colours.line : toneOf(colours, options.colourOf(row[i])));
      i = next;
      continue;
    }
    if (!texts && row[i] < 0) {
      ++i;
      continue;
    }
    run.flush();
    const x0 = Math.max(-1, (begin[i] - lo) / pixel),
      x1 = Math.min(width + 1, (end[i] - lo) / pixel);
    const leaf = row[i] >= 0;
    g.fillStyle = leaf ? toneOf(colours, options.colourOf(row[i])) : colours.soft;
    g.globalAlpha = options.dimmed?.(label[i]) ? 0.35 : 1;
    g.fillRect(x0, y, Math.max(1, x1 - x0 - 0.5), tall);
    g.globalAlpha = 1;
    if (!leaf && x1 - x0 > 3) {
      g.strokeStyle = colours.line;
      g.strokeRect(x0 + 0.5, y + 0.5, x1 - x0 - 1.5, tall - 1);
    }
    if (leaf && options.hatched(row[i]))
      hatch(g, x0, y, x1 - x0, tall, inkOn(toneOf(colours, options.colourOf(row[i]))));
    if (leaf && texts && options.chosen(row[i])) {
      g.strokeStyle = colours.text;
      g.lineWidth = 2;
      g.strokeRect(x0 + 1, y + 1, Math.max(1, x1 - x0 - 2), tall - 2);
      g.lineWidth = 1;
    }
    if (texts && x1 - x0 > 14) {
      const text = options.textOf(label[i], row[i]);
      const words = leaf ? `${options.letterOf(row[i])} ${text}` : text;
      g.fillStyle = leaf ? inkOn(toneOf(colours, options.colourOf(row[i]))) : colours.text;
      boxText(g, words, Math.max(0, x0) + 3, y + 12, x1 - Math.max(0, x0) - 5, widths);
    }
    ++i;
  }
  run.flush();
}

/** Pixels of one colour beside each other, filled at once. */
class Run {
  /** @param {CanvasRenderingContext2D} g @param {number} y @param {number} tall */
  constructor(g, y, tall) {
    this.g = g;
    this.y = y;
    this.tall = tall;
    this.first = 0;
    this.last = 0;
    this.colour = "";
  }

  /** @param {number} x @param {string} colour */
  add(x, colour) {
    if (x !== this.last || colour !== this.colour) {
      this.flush();
      this.first = x;
      this.colour = colour;
    }
    this.last = x + 1;
  }

  flush() {
    if (this.last <= this.first) return;
    this.g.fillStyle = this.colour;
    this.g.fillRect(this.first, this.y, this.last - this.first, this.tall);
    this.last = this.first;
  }
}

/** Text that fits; its width is measured once. @param {CanvasRenderingContext2D} g
 * @param {string} text @param {number} x @param {number} y @param {number} room
 * @param {Map<string, number>} widths */
export function boxText(g, text, x, y, room, widths) {
  let wide = widths.get(text);
  if (wide === undefined) widths.set(text, (wide = g.measureText(text).width));
  if (wide <= room) {
    g.fillText(text, x, y);
    return;
  }
  const count = Math.floor((text.length * room) / wide) - 1;
  if (count >= 3) g.fillText(`${text.slice(0, count)}…`, x, y);
}

/** @param {CanvasRenderingContext2D} g @param {number} x @param {number} y @param {number} w
 * @param {number} tall @param {string} ink */
function hatch(g, x, y, w, tall, ink) {
  g.save();
  g.beginPath();
  g.rect(x, y, w, tall);
  g.clip();
  g.strokeStyle = ink;
  g.globalAlpha = 0.45;
  g.beginPath();
  for (let at = x - tall; at < x + w; at += 7) {
    g.moveTo(at, y + tall);
    g.lineTo(at + tall, y);
  }
  g.stroke();
  g.restore();
}
