// The bands beneath liveness: what encloses each step; where steps lie in cycles; lives of variables.

import { h, panel } from "../base/dom.js";
import { SERIES } from "../base/kinds.js";
import { boxText } from "../charts/flame.js";

/** Bands beneath: what encloses each step, outermost first; forward, backward and update where the
 * profile tells. @param {any} programs @param {(program: number) => string} roleOf */
export function bands(programs, roleOf) {
  const depth = new Int16Array(programs.id.length);
  /** @type {{begin: number, end: number, text: string}[][]} */
  const rows = [[], []];
  let open = "";
  for (let i = 0; i < depth.length; ++i) {
    depth[i] = programs.parent[i] < 0 ? 0 : depth[programs.parent[i]] + 1;
    if (depth[i] === 1 && programs.end[i] > i + 1) {
      rows[0].push({ begin: i, end: programs.end[i], text: programs.type.table[programs.type.ids[i]] });
    }
    const name = programs.name.table[programs.name.ids[i]];
    const scope = name.split("/").slice(0, 2).join("/");
    if (scope !== open || rows[1].length === 0) rows[1].push({ begin: i, end: i + 1, text: scope });
    else rows[1][rows[1].length - 1].end = i + 1;
    open = scope;
  }
  /** @type {{begin: number, end: number, text: string}[]} */
  const roles = [];
  for (let i = 0; i < depth.length; ++i) {
    const role = roleOf(i),
      last = roles[roles.length - 1];
    if (role === "") continue;
    if (last?.text === role && last.end === i) last.end = i + 1;
    else roles.push({ begin: i, end: i + 1, text: role });
  }
  return roles.length > 1 ? [rows[0], roles, rows[1]] : rows;
}

/** @param {import("../charts/plot.js").View} view @param {{begin: number, end: number, text: string}[][]} rows
 * @param {(step: number) => number} place */
export function paintBands(view, rows, place) {
  const { g, height, colours } = view;
  g.font = "11px system-ui, sans-serif";
  /** @type {Map<string, number>} */
  const widths = new Map();
  rows.forEach((row, level) => {
    const y = height - 20 - (rows.length - level) * 17;
    let last = -1;
    row.forEach((band, i) => {
      const x0 = view.x(place(band.begin)),
        x1 = view.x(place(band.end));
      if (x1 < 0 || x0 > view.width || (x1 - x0 < 0.5 && x1 <= last)) return;
      last = x1;
      g.fillStyle = i % 2 ? colours.soft : colours.line;
      g.fillRect(x0, y, Math.max(0.5, x1 - x0), 16);
      if (x1 - x0 < 30) return;
      g.fillStyle = colours.text;
      const left = Math.max(0, x0) + 4,
        room = Math.min(view.width, x1) - left - 3;
      const tail = band.text.split("/").pop() ?? "";
      const text = [band.text, tail].find((one) => g.measureText(one).width <= room);
      if (text !== undefined) g.fillText(text, left, y + 12);
      else if (room > 60) boxText(g, tail, left, y + 12, room, widths);
    });
  });
}

/** Bars of the lives of chosen variables. @param {any[][]} rows @param {number} count */
export function lives(rows, count) {
  if (rows.length === 0) return null;
  return panel(
    "Lives of chosen variables",
    h(
      "div.bars",
      null,
      rows.map((row, i) => {
        const begin = row[6] ? 0 : row[15] / count,
          end = row[6] ? 1 : row[16] / count;
        return [
          h("span", null, row[1]),
          h(
            "div.meter",
            null,
            h("div", {
              style: {
                "margin-left": `${100 * begin}%`,
                width: `${Math.max(0.3, 100 * (end - begin))}%`,
                background: SERIES[i % SERIES.length],
              },
            }),
          ),
          h("span.dim", null, row[6] ? "always" : `${row[15]} – ${row[16] - 1}`),
        ];
      }),
    ),
  );
}
