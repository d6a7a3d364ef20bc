// V4 Tile map: the floor plan of each IPU, coloured by bytes; all IPUs side by side.

import { empty, h, panel } from "../base/dom.js";
import { bytesText, bytesWords, grouped } from "../base/format.js";
import { ramp } from "../base/kinds.js";
import { unpack } from "../data/records.js";
import { tileField } from "./memory.js";
import { tileName } from "./memory_parts.js";
import { histogram } from "./insights.js";
import { savePictures } from "../charts/picture.js";
import { column, table } from "../base/table.js";

/** Columns and tiles of an island. @param {any} target */
export function floorPlan(target) {
  const columns = target.floor_plan_columns > 0 ? target.floor_plan_columns : 16;
  const island = target.floor_plan_island_tiles > 0 ? target.floor_plan_island_tiles : 4;
  return { columns, island, rows: Math.ceil(target.tiles_per_ipu / columns), known: target.floor_plan_columns > 0 };
}

/** Where a tile of an IPU lies: column after column. @param {any} plan @param {number} tile */
export function placeOf(plan, tile) {
  return { column: Math.floor(tile / plan.rows), row: tile % plan.rows };
}

/** The values that colour the map. @param {App} app @param {any} memory @param {string} what */
async function valuesOf(app, memory, what) {
  const end = app.overview.target.bytes_per_tile;
  if (what === "gaps" || what === "always_live" || what === "not_always_live" || what === "interleaved")
    return memory[what];
  if (what === "free") return Float64Array.from(memory.total_including_gaps, (bytes) => end - bytes);
  if (what.startsWith("category:"))
    return memory.categories.find((one) => one.name === what.slice(9))?.bytes ?? memory.total;
  if (what.startsWith("variable:")) {
    const { lines, problem } = await app.ask("variableLines", [Number(what.slice(9))]);
    if (problem) throw new Error(problem);
    return lines[0]?.bytes ?? memory.total;
  }
  if (what === "peak") return memory.peak_program;
  return memory.total_including_gaps;
}

/** @param {App} app */
async function render(app) {
  const { state, overview: o } = app;
  const memory = await app.ask("memory");
  const what = state.get("colour", "total");
  const values = await valuesOf(app, memory, what);
  const isBytes = what !== "peak";
  let least = values.reduce((a, b) => Math.min(a, b), Infinity),
    most = values.reduce((a, b) => Math.max(a, b), -Infinity);
  const low = state.number("min", least),
    high = state.number("max", most),
    log = state.get("scale") === "log";
  const shareOf = (/** @type {number} */ value) => {
    if (high <= low) return 0.5;
    if (log) return Math.log1p(Math.max(0, value - low)) / Math.log1p(high - low);
    return (value - low) / (high - low);
  };
  const plan = floorPlan(o.target),
    per = o.target.tiles_per_ipu,
    chosen = new Set(app.tiles);
  const text = (/** @type {number} */ value) => (isBytes ? bytesText(value) : `step ${grouped(value)}`);
  const words = (/** @type {number} */ value) => (isBytes ? bytesWords(value) : text(value));
  const maps = o.ipus.map((row) => ipuMap(app, row[0], plan, per, { memory, values, shareOf, chosen, text }));
  const choices = [
    ["total", "total"],
    ["free", "free bytes"],
    ["gaps", "gaps"],
    ["always_live", "always live"],
    ["not_always_live", "at times"],
    ["interleaved", "interleaved"],
    ["peak", "step when fullest"],
    ...memory.categories.map((one) => [`category:${one.name}`, one.name]),
  ];
  if (what.startsWith("variable:")) {
    const [row] = unpack(await app.ask("variablesById", [Number(what.slice(9))]));
    choices.push([what, row?.name ?? what]);
  }
  const bound = (/** @type {string} */ key, /** @type {string} */ label, /** @type {number} */ value) =>
    h(
      "label.field",
      label,
      h("input", {
        type: "text",
        size: 9,
        value: String(value),
        "data-focus": key,
        onchange: (e) => state.set({ [key]: e.target.value }),
      }),
    );
  const bins = histogram(
    Float64Array.from(values, (v) => v - Math.min(0, least)),
    0,
  );
  const tallest = bins.counts.reduce((a, b) => Math.max(a, b), 1);
  const legend = h(
    "div",
    { role: "img", "aria-label": `Colours from ${text(low)}, dark, to ${text(high)}, bright` },
    h(
      "div",
      { style: { display: "flex", height: "38px", "align-items": "flex-end", gap: "1px" } },
      Array.from(bins.counts, (count, i) =>
        h("div", {
          title: `${grouped(count)} tiles at about ${text(bins.edges[i])}`,
          style: {
            flex: "1",
            height: `${(100 * count) / tallest}%`,
            background: `rgb(${ramp(shareOf(bins.edges[i])).join(" ")})`,
            "min-height": count > 0 ? "2px" : "0",
          },
        }),
      ),
    ),
    h("div.bar", h("span.dim", words(least)), h("span", { style: { flex: "1" } }), h("span.dim", words(most))),
  );
  const element = h(
    "div.view",
    h(
      "div.bar",
      app.menu("Colour", "colour", choices, what, { min: null, max: null }),
      app.toggle("Logarithmic", "scale", log, log ? null : "log"),
      bound("min", "from", low),
      bound("max", "to", high),
      tileField(app),
      h(
        "button",
        {
          onclick: () => {
            const canvases = [...document.querySelectorAll("main canvas[id^=map-]")];
            const label = choices.find(([id]) => id === what)?.[1] ?? what;
            savePictures(
              "tile-map",
              `Tile map – ${document.title}: ${label}, ${text(low)} dark to ${text(high)} bright`,
              canvases.map((one, i) => [`IPU ${o.ipus[i][0]}`, /** @type {HTMLCanvasElement} */ (one)]),
            );
          },
        },
        "Save PNG",
      ),
    ),
    panel(
      "Tile map",
      h(
        "p.dim",
        plan.known
          ? `${plan.columns} columns of ${plan.rows} tiles, islands of ${plan.island}, as the target file says.`
          : `${plan.columns} columns of ${plan.rows} tiles: the order is assumed, the target file does not say it.`,
        " A cross marks a tile that holds more than it has.",
      ),
      legend,
      h(
        "div",
        {
          style: {
            display: "grid",
            gap: "14px",
            "grid-template-columns": `repeat(auto-fill, minmax(${o.ipus.length > 1 ? 230 : 520}px, 1fr))`,
          },
        },
        maps,
      ),
      twin(app, values, isBytes),
      app.showIn([
        ["Memory by tile", "memory", {}],
        ["Liveness of these tiles", "liveness", { of: "tiles" }],
      ]),
    ),
    app.tiles.length === 0
      ? empty("Choose a tile with Enter or a click.")
      : panel(
          "Chosen tiles",
          h(
            "ul",
            app.tiles.map((tile) =>
              h(
                "li",
                `${tileName(o, tile)}: `,
                h("span", { "data-key": `map.${tile}`, "data-value": values[tile] }, text(values[tile])),
              ),
            ),
          ),
        ),
  );
  return { element };
}

/** The same values as a table that is opened. @param {App} app
 * @param {ArrayLike<number>} values @param {boolean} isBytes */
function twin(app, values, isBytes) {
  const box = h("details", { "data-focus": "map-twin" }, h("summary", "As table"));
  box.addEventListener("toggle", () => {
    if (!box.open || box.childNodes.length > 1) return;
    box.append(
      table({
        name: "Tile map",
        id: "map-table",
        rows: Array.from({ length: values.length }, (_, tile) => tile),
        tools: true,
        onpick: (tile) => app.state.set({ tiles: tile }),
        columns: [
          column("tile", "Tile", "number", (tile) => tile),
          column("value", isBytes ? "Bytes" : "Step", isBytes ? "bytes" : "number", (tile) => values[tile]),
        ],
      }),
    );
  });
  return box;
}

/** One IPU as a picture with a cursor. @param {App} app @param {number} ipu @param {any} plan @param {number} per @param {any} data */
function ipuMap(app, ipu, plan, per, data) {
  const { memory, values, shareOf, chosen, text } = data;
  const many = app.overview.ipus.length > 1;
  const cell = many ? 12 : 30,
    tall = many ? 3 : 6;
  let cursor = 0,
    focused = false;
  const canvas = h("canvas", {
    tabindex: 0,
    role: "img",
    width: plan.columns * cell,
    height: plan.rows * tall,
    id: `map-${ipu}`,
    "data-focus": `map-${ipu}`,
    "aria-label": `IPU ${ipu}: ${grouped(per)} tiles. Arrow keys move over tiles, Enter chooses one.`,
    style: {
      width: "100%",
      "max-width": `${plan.columns * cell}px`,
      "image-rendering": "pixelated",
      cursor: "crosshair",
    },
  });
  const status = h("span.dim");
  const paint = () => {
    const g = canvas.getContext("2d");
    g.clearRect(0, 0, canvas.width, canvas.height);
    for (let t = 0; t < per; ++t) {
      const tile = ipu * per + t,
        { column, row } = placeOf(plan, t);
      const [r, green, b] = ramp(shareOf(values[tile]));
      g.fillStyle = `rgb(${r} ${green} ${b})`;
      const x = column * cell,
        y = row * tall;
      g.fillRect(x, y, cell - 1, row % plan.island === plan.island - 1 ? tall - 1 : tall - 0.4);
      if (memory.overflowed[tile] > 0) {
        g.strokeStyle = shareOf(values[tile]) > 0.6 ? "#10151c" : "#ffffff";
        const half = tall / 2 - 0.8,
          middle = x + (cell - 1) / 2;
        g.beginPath();
        for (const side of [-half, half]) {
          g.moveTo(middle - side, y + tall / 2 - half);
          g.lineTo(middle + side, y + tall / 2 + half);
        }
        g.stroke();
      }
      if (chosen.has(tile) || (focused && t === cursor)) {
        g.strokeStyle = chosen.has(tile) ? "#ff3b30" : "#ffffff";
        g.lineWidth = 2;
        g.strokeRect(x - 0.5, y - 0.5, cell, tall + 0.5);
        g.lineWidth = 1;
      }
    }
  };
  const say = (/** @type {boolean} */ speaks) => {
    const tile = ipu * per + cursor;
    status.textContent = `${tileName(app.overview, tile)}: ${text(values[tile])}${memory.overflowed[tile] > 0 ? ", beyond its end" : ""}`;
    if (speaks) app.speak(status.textContent);
    paint();
  };
  const pick = (/** @type {boolean} */ more) => {
    const tile = ipu * per + cursor;
    app.state.set({ tiles: (more ? [...new Set([...app.tiles, tile])].slice(-8) : [tile]).join(",") });
  };
  const at = (/** @type {MouseEvent} */ e) => {
    const column = Math.floor((e.offsetX / canvas.clientWidth) * plan.columns),
      row = Math.floor((e.offsetY / canvas.clientHeight) * plan.rows);
    cursor = Math.max(0, Math.min(per - 1, column * plan.rows + row));
  };
  canvas.addEventListener("mousemove", (e) => {
    at(e);
    say(false);
  });
  canvas.addEventListener("click", (e) => {
    at(e);
    pick(e.shiftKey);
  });
  canvas.addEventListener("focus", () => {
    focused = true;
    say(true);
  });
  canvas.addEventListener("blur", () => {
    focused = false;
    paint();
  });
  canvas.addEventListener("keydown", (e) => {
    /** @type {Record<string, number>} */
    const moves = { ArrowDown: 1, ArrowUp: -1, ArrowRight: plan.rows, ArrowLeft: -plan.rows, ".": 1, ",": -1 };
    if (e.key in moves) cursor = Math.max(0, Math.min(per - 1, cursor + moves[e.key]));
    else if (e.key === "Enter") pick(e.shiftKey);
    else return;
    e.preventDefault();
    e.stopPropagation();
    say(true);
  });
  paint();
  return h(
    "figure",
    { style: { margin: 0 } },
    many && h("figcaption.dim", `IPU ${ipu}`),
    canvas,
    h("div", { style: { height: "20px", overflow: "hidden" } }, status),
  );
}

/** @type {ViewModule} */
export const tilesView = { id: "tiles", title: "Tile map", hint: "Where on the chip the bytes lie.", render };
