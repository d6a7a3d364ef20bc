// Heat maps of the host's timelines: how many numbers are between two edges, over time.

import { h, panel } from "../base/dom.js";
import { grouped } from "../base/format.js";
import { ramp } from "../base/kinds.js";
import { column, table } from "../base/table.js";
import { axis, label } from "../charts/area.js";
import { clockText } from "../charts/host.js";
import { Plot } from "../charts/plot.js";

/** @typedef {import("../data/timeline.js").Heatmap} Heatmap */

const FOOT = 20;

/** The bin at a height. @param {Heatmap} map @param {number} y @param {number} height */
function binAt(map, y, height) {
  const bins = map.edges.length - 1;
  return Math.max(0, Math.min(bins - 1, bins - 1 - Math.floor((y / (height - FOOT)) * bins)));
}

/** @param {Heatmap} map @param {number} bin */
function binText(map, bin) {
  return `${map.edges[bin]} to ${map.edges[bin + 1]}${map.unit ? ` ${map.unit}` : ""}`;
}

/** @param {App} app @param {Timeline} timeline @param {Heatmap} map @param {string} id */
function chart(app, timeline, map, id) {
  const { ts, values, edges } = map;
  const bins = edges.length - 1,
    height = Math.max(120, Math.min(320, bins * 14)) + FOOT;
  const most = values.reduce((a, row) => row.reduce((b, count) => Math.max(b, count), a), 1);
  const end = Math.max(timeline.end, (ts.at(-1) ?? 0) + 1);
  const x = (/** @type {number} */ i) => (i < ts.length ? ts[i] : end) - timeline.begin;
  const timeAt = (/** @type {number} */ at) => {
    const next = ts.findIndex((one) => one - timeline.begin > at);
    return (next < 0 ? ts.length : next) - 1;
  };
  /** @type {Plot} */
  let plot;
  plot = new Plot({
    id,
    name: `${map.name}${map.unit ? ` in ${map.unit}` : ""}, in µs from the timeline's first mark on`,
    height,
    domain: [0, Math.max(1, end - timeline.begin)],
    least: 1,
    strip: false,
    summary: `${grouped(ts.length)} histograms of ${grouped(bins)} bins from ${edges[0]} to ${edges[bins]}, the highest on top; a bin holds at most ${grouped(most)}.`,
    legend: [
      ["#fde725", `bright: ${grouped(most)}`],
      ["#440154", "dark: 0"],
    ],
    paint: (view) => {
      const { g, colours, width } = view;
      const tall = (height - FOOT) / bins;
      for (let i = 0; i < ts.length; ++i) {
        const left = Math.max(0, view.x(x(i))),
          right = Math.min(width, view.x(x(i + 1)));
        if (right < 0 || left > width) continue;
        const begin = Math.round(left),
          wide = Math.max(1, Math.round(right) - begin);
        values[i].forEach((count, bin) => {
          const top = Math.round((bins - 1 - bin) * tall);
          g.fillStyle = `rgb(${ramp(count / most).join(" ")})`;
          g.fillRect(begin, top, wide, Math.round((bins - bin) * tall) - top);
        });
      }
      axis(view, height - 5, "number", "µs");
      label(g, String(edges[bins]), 4, 12, colours, "left");
      label(g, String(edges[0]), 4, height - FOOT - 4, colours, "left");
      if (view.cursor === null) return;
      g.strokeStyle = colours.text;
      g.strokeRect(view.x(view.cursor) - 0.5, (bins - 1 - binAt(map, plot.cursorY, height)) * tall, 1, tall);
    },
    tip: (at, y) => {
      const i = timeAt(at),
        bin = binAt(map, y, height);
      return i < 0
        ? ""
        : `${binText(map, bin)}: ${grouped(values[i][bin])}\nof ${grouped(values[i].reduce((a, b) => a + b, 0))} at ${clockText(ts[i])} UTC`;
    },
    step: (at, direction) => {
      const i = Math.max(0, Math.min(ts.length - 1, timeAt(at) + direction));
      return (x(i) + x(i + 1)) / 2;
    },
    onkey: (event) => {
      if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return false;
      const tall = (height - FOOT) / bins;
      const y = plot.cursorY + (event.key === "ArrowDown" ? tall : -tall);
      const at = plot.cursor ?? plot.lo;
      plot.point(
        at,
        Math.max(1, Math.min(height - FOOT - 1, y)),
        ((at - plot.lo) / (plot.hi - plot.lo)) * plot.canvas.clientWidth,
        true,
      );
      return true;
    },
    speak: (text) => app.speak(text || "nothing here"),
    twin: () =>
      table({
        name: map.name,
        id: `${id}-table`,
        rows: ts.flatMap((_, i) => values[i].map((_count, bin) => [i, bin])),
        columns: [
          column("ts_us", "Time (UTC)", "number", ([i]) => ts[i], { cell: ([i]) => [clockText(ts[i])] }),
          column("from", "From", "real", ([, bin]) => edges[bin]),
          column("to", "To", "real", ([, bin]) => edges[bin + 1]),
          column("count", "Count", "number", ([i, bin]) => values[i][bin]),
        ],
      }),
  });
  plot.cursorY = height / 2;
  return plot.element;
}

/** The heat maps of timelines. @param {App} app @param {Timeline[]} timelines */
export function heatmapPanel(app, timelines) {
  const charts = timelines.flatMap((one, t) => one.heatmaps.map((map, i) => chart(app, one, map, `heatmap-${t}-${i}`)));
  return charts.length > 0 && panel("Heat maps of the host", h("div.view", charts));
}
