// Tiles beside each other over time (BSP): with cycles by tile a row of pixels for each tile; without
// them a band of the worst tile, the mean and the active tiles.

import { firstAfter } from "../charts/area.js";
import { Plot } from "../charts/plot.js";
import { h, panel } from "../base/dom.js";
import { decimal, grouped } from "../base/format.js";
import { ramp } from "../base/kinds.js";

/** Cycles of each distribution on each tile of an IPU, as runs. @param {any} runs */
function distributions(runs) {
  /** @type {Map<number, number[]>} */
  const found = new Map();
  for (let i = 0; i < runs.distribution.length; ++i) {
    const list = found.get(runs.distribution[i]) ?? [];
    list.push(i);
    found.set(runs.distribution[i], list);
  }
  return found;
}

/** The row at an x, the last that began; -1: none. @param {{order: Int32Array, begins: Float64Array}} rows
 * @param {Columns} c */
function rowsAt({ order, begins }, c) {
  return (/** @type {number} */ x) => {
    const low = Math.max(0, firstAfter(begins, x) - 1);
    const row = order[low];
    return row !== undefined && x < begins[low] + c.cycles[row] && x >= begins[low] ? row : -1;
  };
}

/** @param {App} app @param {Programs} names
 * @param {Columns} c @param {number} first of its rows in the trace @param {number} offset @param {Plot} trace */
export async function bspPanel(app, names, c, first, offset, trace) {
  const { programs } = names;
  const runs = await app.ask("tileCycles");
  /** @type {ReturnType<typeof import("../data/rows.js").working>} */
  const { all, lanes } = await app.ask("working", first, offset);
  const { order, begins } = all,
    rowAt = rowsAt(all, c);
  const tiles = app.overview.numTiles,
    per = app.overview.target.tiles_per_ipu;
  const sorted = app.state.get("bsp") === "cycles";
  const byTile = runs !== null && programs.tile_cycles !== undefined ? distributions(runs) : null;
  const domain = /** @type {[number, number]} */ ([trace.options.domain[0], trace.options.domain[1]]);
  const height = byTile ? 220 : 90;
  const plot = new Plot({
    id: "bsp-chart",
    name: byTile ? "Tiles over time" : "Band of tiles over time",
    height,
    domain,
    least: 1,
    strip: false,
    range: [trace.lo, trace.hi],
    summary: byTile
      ? `${grouped(tiles)} tiles, ${sorted ? "the busiest of each IPU" : "tile 0"} on top; bright is busy.`
      : "The share of the tiles that are active, and how long the mean tile works of the worst.",
    legend: byTile
      ? [
          ["#fde725", "busy"],
          ["#440154", "idle"],
        ]
      : [
          ["X", "active tiles, of all"],
          ["C", "mean tile, of the worst"],
        ],
    paint: (view) => {
      if (byTile === null) paintBand(view, rowAt, c, tiles);
      else paintTiles(view, lanes, c, { tiles, per, offset, sorted, byTile, runs, distribution: programs.tile_cycles });
    },
    tip: (x) => {
      const row = rowAt(x);
      if (row < 0) return "";
      return `${names.name(c.program[row])}\n${grouped(c.active_tiles[row])} of ${grouped(tiles)} tiles active\nworst ${grouped(c.cycles[row])}, mean ${decimal(c.cycles_mean[row], 1)} cycles`;
    },
    step: (x, direction) => {
      const at = order.indexOf(rowAt(x));
      const next = Math.max(0, Math.min(order.length - 1, at + direction));
      return begins[next] + c.cycles[order[next]] / 2;
    },
    speak: (text) => app.speak(text),
  });
  const zoomed = trace.options.onzoom;
  trace.options.onzoom = (lo, hi) => {
    zoomed?.(lo, hi);
    plot.lo = lo;
    plot.hi = hi;
    plot.draw();
  };
  return panel(
    "Tiles (BSP)",
    byTile && h("div.bar", app.toggle("Busiest tiles on top", "bsp", sorted, sorted ? null : "cycles")),
    plot.element,
    byTile
      ? h("p.dim", "Where nothing is drawn, no tile works, or one row stands for more turns.")
      : h(
          "p.dim",
          "This profile has no cycles by tile (table tile_cycles), so this is a band: how many tiles are active, and the mean of their cycles beside the worst tile's.",
        ),
  );
}

/** @param {View} view @param {(x: number) => number} rowAt
 * @param {Columns} c @param {number} tiles */
function paintBand(view, rowAt, c, tiles) {
  const { g, width, height, colours } = view;
  for (let pixel = 0; pixel < width; ++pixel) {
    const row = rowAt(view.lo + ((pixel + 0.5) / width) * (view.hi - view.lo));
    if (row < 0) continue;
    const active = Math.min(1, c.active_tiles[row] / tiles);
    const mean = c.cycles[row] > 0 ? Math.min(1, c.cycles_mean[row] / c.cycles[row]) : 0;
    g.fillStyle = colours.X;
    g.fillRect(pixel, height * (1 - active), 1, height * active);
    g.fillStyle = colours.C;
    g.fillRect(pixel, height * (1 - active * mean), 1, height * active * mean);
  }
}

/** @param {View} view
 * @param {{ipu: number, order: Int32Array, begins: Float64Array}[]} lanes @param {Columns} c
 * @param {{tiles: number, per: number, offset: number, sorted: boolean, byTile: Map<number, number[]>,
 *   runs: any, distribution: Float64Array}} of */
function paintTiles(view, lanes, c, of) {
  const { g, width, height } = view;
  const { tiles, per, runs } = of;
  const scale = g.getTransform().a;
  const wide = Math.max(1, Math.round(width * scale)),
    tall = Math.max(1, Math.round(height * scale));
  const image = g.createImageData(wide, tall);
  const data = new Uint32Array(image.data.buffer);
  const tones = new Uint32Array(256).map((_, i) => {
    const [r, green, b] = ramp(i / 255);
    return ((255 << 24) | (b << 16) | (green << 8) | r) >>> 0;
  });
  const pixelCycles = (view.hi - view.lo) / wide;
  const fill = (
    /** @type {number} */ pixel,
    /** @type {number} */ from,
    /** @type {number} */ to,
    /** @type {number} */ tone,
  ) => {
    const last = Math.max(Math.floor((from / tiles) * tall) + 1, Math.floor((to / tiles) * tall));
    for (let y = Math.floor((from / tiles) * tall); y < Math.min(tall, last); ++y) data[y * wide + pixel] = tone;
  };
  /** @type {Map<number, number[]>} */
  const ordered = new Map();
  const listOf = (/** @type {number} */ distribution) => {
    let list = of.byTile.get(distribution) ?? [];
    if (!of.sorted) return list;
    list = ordered.get(distribution) ?? [...list].sort((a, b) => runs.cycles[b] - runs.cycles[a]);
    ordered.set(distribution, list);
    return list;
  };
  for (const lane of lanes) {
    const ipu = lane.ipu,
      rowAt = rowsAt(lane, c);
    for (let pixel = 0; pixel < wide; ++pixel) {
      const x = view.lo + ((pixel + 0.5) / wide) * (view.hi - view.lo);
      const row = rowAt(x);
      if (row < 0) continue;
      const into = x - of.offset - c.cycles_base[row];
      const list = listOf(of.distribution[c.program[row]]);
      // A program on all IPUs has the tiles of the first.
      for (let base = ipu < 0 ? 0 : ipu * per; base < (ipu < 0 ? tiles : (ipu + 1) * per); base += per) {
        const shift = ipu < 0 ? base : 0;
        fill(pixel, base, base + per, tones[0]);
        let top = base;
        for (const r of list) {
          const share = c.cycles[row] < pixelCycles ? runs.cycles[r] / c.cycles[row] : into < runs.cycles[r] ? 1 : 0;
          const first = of.sorted ? top : runs.first_tile[r] + shift;
          top += runs.num_tiles[r];
          fill(pixel, first, first + runs.num_tiles[r], tones[Math.max(0, Math.min(255, Math.round(255 * share)))]);
        }
      }
    }
  }
  g.putImageData(image, 0, 0);
}
