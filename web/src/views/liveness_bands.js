// The bands beneath liveness: what encloses each step; lives of variables.

import { h, panel } from "../base/dom.js";
import { SERIES } from "../base/kinds.js";
import { firstAfter } from "../charts/area.js";
import { boxText } from "../charts/flame.js";
import { lifeOf } from "./memory_parts.js";
import { Texts } from "../data/texts.js";

/** @typedef {{begin: Int32Array, end: Int32Array, text: Texts}} Band */

/** @param {any} packed what the worker handed over @returns {Band} */
export function bandOf(packed) {
  return { ...packed, text: new Texts(packed.text) };
}

/** Bands beneath the chart; those narrower than a pixel become one.
 * @param {View} view @param {Band[]} rows
 * @param {(step: number) => number} place @param {(x: number) => number} stepAt */
export function paintBands(view, rows, place, stepAt) {
  const { g, height, colours, lo, hi, width } = view;
  g.font = "11px system-ui, sans-serif";
  /** @type {Map<string, number>} */
  const widths = new Map();
  const pixel = (hi - lo) / Math.max(1, width),
    last = stepAt(hi);
  rows.forEach(({ begin, end, text }, level) => {
    const y = height - 20 - (rows.length - level) * 17;
    for (let i = firstAfter(end, stepAt(lo)); i < begin.length && begin[i] <= last;) {
      const x0 = view.x(place(begin[i])),
        x1 = view.x(place(end[i]));
      g.fillStyle = i % 2 ? colours.soft : colours.line;
      g.fillRect(x0, y, Math.max(0.5, x1 - x0), 16);
      if (x1 - x0 < 1) {
        i = Math.max(i + 1, firstAfter(end, stepAt(lo + (Math.floor(x0) + 1) * pixel), i));
        continue;
      }
      if (x1 - x0 >= 30) {
        g.fillStyle = colours.text;
        const left = Math.max(0, x0) + 4,
          room = Math.min(width, x1) - left - 3;
        const whole = text.at(i),
          tail = whole.split("/").pop() ?? "";
        const shown = [whole, tail].find((one) => g.measureText(one).width <= room);
        if (shown !== undefined) g.fillText(shown, left, y + 12);
        else if (room > 60) boxText(g, tail, left, y + 12, room, widths);
      }
      ++i;
    }
  });
}

/** Bars of the lives of chosen variables. @param {any[]} rows @param {number} count */
export function lives(rows, count) {
  if (rows.length === 0) return null;
  return panel(
    "Lives of chosen variables",
    h(
      "div.bars",
      rows.map((row, i) => {
        const begin = row.always_live ? 0 : row.first_step / count,
          end = row.always_live ? 1 : row.end_step / count;
        return [
          h("span", row.name),
          h(
            "div.meter",
            h("div", {
              style: {
                "margin-left": `${100 * begin}%`,
                width: `${Math.max(0.3, 100 * (end - begin))}%`,
                background: SERIES[i % SERIES.length],
              },
            }),
          ),
          h("span.dim", lifeOf(row)),
        ];
      }),
    ),
  );
}
