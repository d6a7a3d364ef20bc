// A stepped, stacked area, for memory by tile and liveness. A pixel shows the largest sum of its
// range, which a pyramid finds, so that no spike is lost.

import { axisText, textOf, unitOf } from "../base/format.js";

/** @typedef {{name: string, colour: string, values: Float64Array}} Series */

const STEP = 8;

/** The place of the first of rising numbers that is above x; none before `from` is. @param {ArrayLike<number>} ends
 * @param {number} x @param {number} from */
export function firstAfter(ends, x, from = 0) {
  let low = from,
    high = ends.length;
  for (let step = 1; from > 0 && low + step < high; step *= 2) {
    if (ends[low + step] > x) high = low + step;
    else low += step;
  }
  while (low < high) {
    const middle = (low + high) >> 1;
    if (ends[middle] > x) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** The place of the largest value in any range. */
export class Peaks {
  /** @param {Float64Array} values */
  constructor(values) {
    this.values = values;
    /** @type {Int32Array[]} places; level 0 is of STEP values */
    this.levels = [];
    for (let below = values.length; below > 1;) {
      const count = Math.ceil(below / STEP);
      const level = new Int32Array(count),
        under = this.levels[this.levels.length - 1];
      for (let i = 0; i < count; ++i) {
        let best = under ? under[i * STEP] : i * STEP;
        for (let k = i * STEP + 1; k < Math.min(below, (i + 1) * STEP); ++k) {
          const place = under ? under[k] : k;
          if (values[place] > values[best]) best = place;
        }
        level[i] = best;
      }
      this.levels.push(level);
      below = count;
    }
  }

  /** @param {number} from @param {number} to exclusive */
  find(from, to) {
    let best = from;
    const { values, levels } = this;
    for (let at = from; at < to;) {
      let level = -1,
        size = 1;
      while (level + 1 < levels.length && at % (size * STEP) === 0 && at + size * STEP <= to) {
        ++level;
        size *= STEP;
      }
      const place = level < 0 ? at : levels[level][at / size];
      if (values[place] > values[best]) best = place;
      at += size;
    }
    return best;
  }
}

/**
 * A painter of stacked steps. `edges`: where each value begins, and the end; none: 0, 1, 2, ...
 * @param {{series: Series[], edges?: Float64Array, limit?: number, kind: string, marks?: number[],
 *   chosen?: number[], limitName?: string, lines?: boolean, fits?: boolean, across?: string,
 *   upwards?: string}} options   across, upwards: what is counted on each axis
 */
export function areaPainter(options) {
  const { series, edges, limit } = options;
  const count = series[0]?.values.length ?? 0;
  const sums = new Float64Array(count);
  for (const one of series) {
    for (let i = 0; i < count; ++i) {
      if (options.lines) sums[i] = Math.max(sums[i], one.values[i]);
      else sums[i] += one.values[i];
    }
  }
  const peaks = new Peaks(sums);
  let most = limit ?? 0;
  if (options.lines) most = 0;
  if (count > 0) most = Math.max(most, sums[peaks.find(0, count)]);
  if (options.fits) most = count > 0 ? sums[peaks.find(0, count)] : 0;
  const top = most * 1.06 || 1;
  /** The place at an x. @param {number} x */
  const placeAt = (x) => {
    if (edges === undefined) return Math.max(0, Math.min(count - 1, Math.floor(x)));
    return Math.max(0, Math.min(count, firstAfter(edges, x)) - 1);
  };
  const begin = (/** @type {number} */ place) => (edges === undefined ? place : edges[place]);
  /** @param {View} view */
  const paint = (view) => {
    const { g, width, height, colours, whole } = view;
    const bottom = whole ? height : height - 20,
      left = 0;
    const y = (/** @type {number} */ value) => bottom - (value / top) * (bottom - (whole ? 1 : 6));
    const labels = whole ? () => {} : grid(view, top, y, options);
    const from = placeAt(view.lo),
      to = placeAt(view.hi) + 1;
    const wide = to - from > width;
    /** @type {{x: number, w: number, place: number}[]} */
    const cells = [];
    if (wide) {
      for (let pixel = left; pixel < width; ++pixel) {
        const first = placeAt(view.lo + (pixel / width) * (view.hi - view.lo));
        const last = placeAt(view.lo + ((pixel + 1) / width) * (view.hi - view.lo));
        cells.push({ x: pixel, w: 1, place: peaks.find(first, Math.max(first + 1, last)) });
      }
    } else {
      for (let place = from; place < Math.min(to, count); ++place) {
        const x0 = view.x(begin(place)),
          x1 = view.x(begin(place + 1));
        cells.push({ x: x0, w: x1 - x0, place });
      }
    }
    if (options.lines) paintLines(g, cells, series, y, colours);
    else paintStack(g, cells, series, y, colours, limit, whole);
    if (limit !== undefined && limit <= top && !options.lines) {
      // On a line of the page's colour, so that it stands out from each series.
      for (const isDashed of [false, true]) {
        g.strokeStyle = isDashed ? colours.bad : colours.panel;
        g.lineWidth = isDashed ? 1.5 : 4;
        g.setLineDash(isDashed ? [6, 4] : []);
        g.beginPath();
        g.moveTo(0, y(limit));
        g.lineTo(width, y(limit));
        g.stroke();
      }
      g.setLineDash([]);
      g.lineWidth = 1;
      if (!whole) label(g, options.limitName ?? "capacity", width - 6, y(limit) - 4, colours, "right");
    }
    if (whole) return;
    labels();
    for (const mark of options.marks ?? []) {
      g.fillStyle = colours.dim;
      g.globalAlpha = 0.5;
      g.fillRect(view.x(mark), 0, 1, bottom);
      g.globalAlpha = 1;
    }
    for (const place of options.chosen ?? []) {
      const x0 = view.x(begin(place)),
        x1 = view.x(begin(place + 1));
      g.fillStyle = colours.text;
      g.globalAlpha = 0.25;
      g.fillRect(x0, 0, Math.max(2, x1 - x0), bottom);
      g.globalAlpha = 1;
      g.fillRect(x0 - 2, 0, Math.max(2, x1 - x0) + 4, 4);
    }
    if (view.cursor !== null) {
      g.fillStyle = colours.text;
      g.globalAlpha = 0.75;
      g.fillRect(view.x(view.cursor), 0, 1, bottom);
      g.globalAlpha = 1;
    }
  };
  return { paint, placeAt, sums, top, begin, count, peaks };
}

/** @param {CanvasRenderingContext2D} g @param {string} text @param {number} x @param {number} y
 * @param {Record<string, string>} colours @param {CanvasTextAlign} align */
export function label(g, text, x, y, colours, align) {
  g.font = "11px system-ui, sans-serif";
  g.textAlign = align;
  g.lineWidth = 3;
  g.lineJoin = "round";
  g.strokeStyle = colours.panel;
  g.strokeText(text, x, y);
  g.lineWidth = 1;
  g.fillStyle = colours.text;
  g.fillText(text, x, y);
  g.textAlign = "left";
}

/** @param {View} view @param {number} top @param {(value: number) => number} y
 * @param {{kind: string, across?: string, upwards?: string}} options */
function grid(view, top, y, { kind, across, upwards = kind === "bytes" ? unitOf(kind) : "" }) {
  const { g, width, colours } = view;
  const rough = top / 5,
    power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= rough) ?? rough;
  for (let value = 0; value <= top; value += step) {
    g.fillStyle = colours.line;
    g.fillRect(0, Math.round(y(value)), width, 1);
  }
  axis(view, view.height - 5, "number", across);
  return () => {
    for (let value = step; value <= top; value += step) {
      const last = value + step > top;
      label(g, `${axisText(value, kind)}${last ? ` ${upwards}` : ""}`, 4, Math.max(11, y(value) - 3), colours, "left");
    }
  };
}

/** Ticks of x, and what they count. @param {View} view @param {number} y */
export function axis(view, y, kind = "number", unit = unitOf(kind)) {
  const { g, colours, lo, hi, width } = view;
  const rough = (hi - lo) / Math.max(2, width / 110),
    power = 10 ** Math.floor(Math.log10(rough));
  const step = Math.max(1, [1, 2, 5, 10].map((one) => one * power).find((one) => one >= rough) ?? rough);
  g.font = "11px system-ui, sans-serif";
  g.fillStyle = colours.dim;
  g.textAlign = "right";
  g.fillText(unit, width - 4, y);
  const room = width - 30 - (unit === "" ? 0 : g.measureText(unit).width);
  g.textAlign = "center";
  for (let value = Math.ceil(lo / step) * step; value <= hi; value += step) {
    const x = view.x(value);
    if (x > 24 && x < room) g.fillText(textOf(kind, value), x, y);
  }
  g.textAlign = "left";
}

/** @param {CanvasRenderingContext2D} g @param {{x: number, w: number, place: number}[]} cells
 * @param {Series[]} series @param {(value: number) => number} y
 * @param {Record<string, string>} colours @param {number|undefined} limit @param {boolean} whole */
function paintStack(g, cells, series, y, colours, limit, whole) {
  const bases = new Float64Array(cells.length);
  for (const one of series) {
    g.fillStyle = colours[one.colour] ?? one.colour;
    cells.forEach((cell, i) => {
      const value = one.values[cell.place];
      if (!(value > 0)) return;
      const high = y(bases[i] + value),
        low = y(bases[i]);
      const left = Math.round(cell.x),
        right = Math.round(cell.x + cell.w);
      g.fillRect(left, high, Math.max(1, right - left), Math.max(0.4, low - high));
      bases[i] += value;
    });
  }
  if (limit === undefined || whole) return;
  hatchBeyond(
    g,
    cells.flatMap(({ x, w }, i) => (bases[i] > limit ? [{ x, w, high: y(bases[i]) }] : [])),
    y(limit),
  );
}

/** Hatches the part above a height. @param {CanvasRenderingContext2D} g
 * @param {{x: number, w: number, high: number}[]} cells @param {number} low */
function hatchBeyond(g, cells, low) {
  if (cells.length === 0) return;
  g.save();
  g.beginPath();
  for (const { x, w, high } of cells) g.rect(x, high, w, low - high);
  g.clip();
  g.strokeStyle = "rgb(0 0 0 / 55%)";
  g.beginPath();
  const last = cells[cells.length - 1];
  for (let at = cells[0].x - low; at < last.x + last.w; at += 8) {
    g.moveTo(at, low);
    g.lineTo(at + low, 0);
  }
  g.stroke();
  g.restore();
}

/** @param {CanvasRenderingContext2D} g @param {{x: number, w: number, place: number}[]} cells
 * @param {Series[]} series @param {(value: number) => number} y
 * @param {Record<string, string>} colours */
function paintLines(g, cells, series, y, colours) {
  for (const one of series) {
    g.strokeStyle = colours[one.colour] ?? one.colour;
    g.lineWidth = 1.6;
    g.beginPath();
    for (const { x, w, place } of cells) {
      const at = y(one.values[place]);
      g.lineTo(x, at);
      g.lineTo(x + w, at);
    }
    g.stroke();
    g.lineWidth = 1;
  }
}
