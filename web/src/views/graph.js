// V8 Graph: HLO instructions as nested boxes by name scope; a box opens when it is chosen.

import { empty, h, panel, save } from "../base/dom.js";
import { counted, cyclesWords, textOf } from "../base/format.js";
import { column, table } from "../base/table.js";
import { back, s, SVG } from "../charts/svg.js";
import { unnumbered } from "../data/graph.js";
import { unpack } from "../data/records.js";
import { programNames, stagesOf } from "./programs.js";

const METRICS = {
  cycles: "cycles",
  flops: "FLOPs",
  temporary: "temporary bytes",
  alwaysLive: "always-live bytes",
  code: "code bytes",
};

/** Text that fits a box. @param {string} text @param {number} most */
function cut(text, most) {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

/** @param {any} box */
function titleOf(box) {
  return box.scope ? cut(`${box.open ? "▾" : "▸"} ${box.label}`, 24) : cut(box.label, 27);
}

/** @param {any} box */
function detailOf(box) {
  const stage = box.stage === undefined ? "" : `, stage ${box.stage}`;
  return cut(box.scope ? `${counted(box.count, "instruction")}${stage}` : `${box.opcode} ${box.shape}`, 30);
}

/** The scopes to open so that an instruction is in sight. @param {string} path */
function openFor(path) {
  const parts = path.split("/").filter(Boolean);
  const scopes = parts.slice(0, -1).map((_, i) => `${parts.slice(0, i + 1).join("/")}/`);
  return [`(${unnumbered(parts[parts.length - 1] ?? "")})/`, ...scopes];
}

/** @param {App} app */
async function render(app) {
  const { state } = app;
  const inputs = state.get("inputs") === "1";
  const fold = state.get("fold", "1") === "1",
    metric = state.get("metric", "cycles");
  const wanted = state.get("hlo");
  const names = await programNames(app);
  const of = wanted === "" ? undefined : names.sources.find((one) => one.hlo === wanted);
  const open = [...new Set([...state.get("open").split("|").filter(Boolean), ...(of?.op ? openFor(of.op) : [])])];
  const result = await app.ask("graph", state.get("computation"), open, fold, inputs);
  if (result.problem) return { element: empty(result.problem) };
  const byHlo = new Map(unpack(result.operations).map((one) => [one.name, one]));
  const stageOf = stagesOf(names);
  for (const box of result.boxes) {
    const on = new Set(box.hlo.map((name) => stageOf.get(name)).filter((one) => one !== undefined));
    if (on.size === 1 || on.size === 2) box.stage = [...on].sort((a, b) => a - b).join(" and ");
  }
  const value = (box) => box.hlo.reduce((sum, name) => sum + (byHlo.get(name)?.[metric] ?? 0), 0);
  const values = new Map(result.boxes.map((box) => [box.id, value(box)]));
  const most = Math.max(1, ...result.boxes.filter((box) => !box.open).map((box) => values.get(box.id)));
  const chosen = state.get("box");
  const choose = (box) => {
    if (box.scope)
      state.set({
        open: (box.open ? open.filter((id) => !id.startsWith(box.id)) : [...open, box.id]).join("|"),
        box: box.id,
        hlo: null,
      });
    else state.set({ box: box.id });
  };
  const scale = state.number("zoom", 1);
  const picture = draw(result, { values, most, chosen, wanted, metric, choose, scale });
  const box = result.boxes.find(
    (one) => one.id === chosen || (wanted !== "" && one.hlo.length === 1 && one.hlo[0] === wanted),
  );
  const search = h("input.find", {
    type: "search",
    placeholder: "instruction or scope",
    "aria-label": "Find in the graph",
    "data-focus": "graph-find",
    onchange: () => {
      const text = search.value.toLowerCase();
      const found =
        names.sources.find((one) => one.hlo.toLowerCase() === text) ??
        names.sources.find((one) => `${one.hlo} ${one.op}`.toLowerCase().includes(text));
      if (found) state.set({ hlo: found.hlo, box: null });
      else app.speak(`Nothing is called ${search.value}`);
    },
  });
  const element = h(
    "div.view",
    h(
      "div.bar",
      search,
      app.menu(
        "Computation",
        "computation",
        result.computations.map((c) => [c.name, `${cut(c.name, 40)} (${c.count})${c.entry ? ", entry" : ""}`]),
        result.chosen,
        { open: null, box: null },
      ),
      app.menu("Colour", "metric", METRICS, metric),
      app.toggle("Inputs", "inputs", inputs, inputs ? null : "1"),
      app.toggle("Fold gradients", "fold", fold, fold ? "0" : null),
      h(
        "span",
        h("button", { onclick: () => state.set({ zoom: Math.min(2, scale * 1.25) }), "aria-label": "Larger" }, "+"),
        h("button", { onclick: () => state.set({ zoom: Math.max(0.25, scale / 1.25) }), "aria-label": "Smaller" }, "−"),
      ),
      h("button", { onclick: () => state.set({ open: null, box: null, hlo: null }) }, "Fold all"),
      h(
        "button",
        {
          onclick: () =>
            save("graph.svg", new Blob([new XMLSerializer().serializeToString(picture)], { type: "image/svg+xml" })),
        },
        "Save SVG",
      ),
    ),
    result.cut && h("p.note", "Too much is open: some boxes are not drawn. Fold a scope."),
    result.lacksCalls &&
      h("p.dim", "This framework.json does not say which computations an instruction calls; choose them in the menu."),
    panel(
      "Graph",
      h("div.graphbox", picture),
      h(
        "p.dim",
        `${counted(result.boxes.length, "box", "boxes")}, ${counted(result.edges.length, "arrow")}. Enter opens or folds a scope.`,
      ),
    ),
    box && details(app, box, result, byHlo, values),
  );
  return {
    element,
    after: () => {
      document.querySelector(".graphbox [data-chosen]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
    },
    keys: {},
  };
}

/** @param {any} result @param {any} look */
function draw(result, look) {
  const { values, most, chosen, wanted, choose, scale, metric } = look;
  const boxes = new Map(result.boxes.map((box) => [box.id, box]));
  const w = result.size.w + 16, // arrows back pass outside
    tall = result.size.h;
  const svg = s(
    "svg",
    {
      xmlns: SVG,
      viewBox: `0 0 ${w} ${tall}`,
      width: Math.max(200, w * scale),
      height: tall * scale,
      role: "group",
      "aria-label": "Graph of HLO instructions",
    },
    s("title", {}, "Graph of HLO instructions"),
    s(
      "defs",
      {},
      s(
        "marker",
        {
          id: "arrow",
          viewBox: "0 0 8 8",
          refX: 7,
          refY: 4,
          markerWidth: 8,
          markerHeight: 8,
          markerUnits: "userSpaceOnUse",
          orient: "auto",
        },
        s("path", { d: "M0 0L8 4L0 8z", fill: "#7a8699" }),
      ),
    ),
  );
  for (const edge of result.edges) {
    const from = boxes.get(edge.from),
      to = boxes.get(edge.to);
    if (!from || !to) continue;
    const x0 = from.x + from.w / 2,
      y0 = from.y + from.h,
      x1 = to.x + to.w / 2,
      y1 = to.y,
      bend = Math.max(14, Math.abs(y1 - y0) / 2);
    svg.append(
      s("path", {
        d: y1 < y0 ? back(from, to) : `M${x0} ${y0}C${x0} ${y0 + bend} ${x1} ${y1 - bend} ${x1} ${y1}`,
        fill: "none",
        stroke: "#7a8699",
        "stroke-width": Math.min(3, 0.8 + Math.log2(edge.count) / 2),
        "marker-end": "url(#arrow)",
        "pointer-events": "none",
      }),
    );
    if (result.edges.length < 60)
      svg.append(
        s(
          "text",
          {
            class: "edge",
            x: (x0 + x1) / 2 + 4,
            y: (y0 + y1) / 2 + 4,
            "font-size": 10,
            "font-family": "system-ui, sans-serif",
            fill: "currentColor",
            opacity: 0.8,
            "pointer-events": "none",
          },
          edge.count > 1 ? `${edge.count} tensors` : cut(edge.shape, 22),
        ),
      );
  }
  const ordered = [...result.boxes].sort((a, b) => a.depth - b.depth);
  for (const box of ordered) {
    const share = Math.sqrt(values.get(box.id) / most);
    const warm = box.open
      ? "none"
      : share > 0
        ? `rgb(${Math.round(255 - (255 - 213) * share)} ${Math.round(250 - (250 - 120) * share)} ${Math.round(240 - 190 * share)})`
        : "#e9edf3";
    const isChosen = box.id === chosen || (wanted !== "" && box.hlo.length === 1 && box.hlo[0] === wanted);
    svg.append(
      s(
        "g",
        {
          tabindex: 0,
          role: "button",
          "data-focus": `box-${box.id}`,
          "data-chosen": isChosen ? "" : undefined,
          "aria-expanded": box.scope ? String(box.open) : undefined,
          "aria-label": `${titleOf(box)} ${box.open ? "" : detailOf(box)}, ${box.label}, ${metric} ${Math.round(values.get(box.id))}`,
          onclick: (/** @type {Event} */ e) => {
            e.stopPropagation();
            choose(box);
          },
          onkeydown: (/** @type {KeyboardEvent} */ e) => {
            if (e.key !== "Enter" && e.key !== " ") return;
            e.preventDefault();
            e.stopPropagation();
            choose(box);
          },
        },
        s("rect", {
          x: box.x,
          y: box.y,
          width: box.w,
          height: box.h,
          rx: box.scope ? 7 : 3,
          fill: warm,
          stroke: isChosen ? "#0b5cad" : "#8a97aa",
          "stroke-width": isChosen ? 3 : 1,
          "stroke-dasharray": box.open ? "5 4" : undefined,
        }),
        s(
          "text",
          {
            x: box.x + 8,
            y: box.y + 16,
            "font-size": 12,
            "font-weight": box.scope ? 600 : 400,
            "font-family": "system-ui, sans-serif",
            fill: box.open ? "currentColor" : "#1b2330",
          },
          titleOf(box),
        ),
        " ",
        ...(box.open
          ? []
          : [
              s(
                "text",
                {
                  x: box.x + 8,
                  y: box.y + 31,
                  "font-size": 11,
                  "font-family": "system-ui, sans-serif",
                  fill: "#1b2330",
                },
                detailOf(box),
              ),
            ]),
      ),
    );
  }
  return svg;
}

/** @param {App} app @param {any} box @param {any} result @param {Map<string, any>} byHlo @param {Map<string, number>} values */
function details(app, box, result, byHlo, values) {
  const rows = box.hlo.map((name) => ({ name, ...(byHlo.get(name) ?? {}) }));
  const one = byHlo.get(box.hlo[0]);
  const into = result.edges.filter((e) => e.to === box.id),
    out = result.edges.filter((e) => e.from === box.id);
  return panel(
    box.label,
    h(
      "p.dim",
      box.scope
        ? `${counted(box.count, "instruction")}, ${textOf("number", values.get(box.id))} in all`
        : `${box.hlo[0]}: ${box.opcode} ${box.shape}${box.role ? `, ${box.role}` : ""}${box.stage === undefined ? "" : `, stage ${box.stage}`}`,
    ),
    box.calls.length > 0 &&
      h(
        "p",
        "Calls ",
        box.calls.map((name) => [
          h("a", { href: app.state.link({ computation: name, open: null, box: null, hlo: null }) }, name),
          " ",
        ]),
      ),
    app.showIn([
      [
        "Operations",
        "operations",
        box.scope ? { layer: "scope", op: box.id.replace(/\/$/, "") } : { layer: "hlo", op: box.hlo[0] },
      ],
      ["Program", "program", { step: one?.first }],
      ["Trace", "trace", { step: one?.first }],
    ]),
    h(
      "div.columns",
      table({
        name: "Instructions",
        id: "box-instructions",
        rows,
        sort: "-cycles",
        keyOf: (row) => row.name,
        onpick: (row) => app.state.set({ v: "operations", layer: "hlo", op: row.name }),
        columns: [
          column("name", "Instruction", "text", "name"),
          column("opcode", "Opcode", "text", (row) => row.opcode ?? ""),
          column("cycles", "Cycles", "cycles", (row) => row.cycles ?? 0, { sum: true }),
          column("flops", "FLOPs", "number", (row) => row.flops ?? 0, { sum: true }),
        ],
      }),
      table({
        name: "Tensors",
        id: "box-edges",
        rows: [
          ...into.map((e) => ["from", e.from, e.shape, e.count]),
          ...out.map((e) => ["to", e.to, e.shape, e.count]),
        ],
        fixed: true,
        columns: [
          column("way", "", "text", 0),
          column("box", "Box", "text", 1),
          column("shape", "First tensor", "text", 2),
          column("count", "Tensors", "number", 3),
        ],
      }),
    ),
    one && h("p.dim", `${cyclesWords(one.cycles)}${one.plan ? `; ${one.plan}` : ""}`),
  );
}

/** @type {ViewModule} */
export const graphView = {
  id: "graph",
  title: "Graph",
  hint: "Instructions as nested boxes, by the scopes of their names.",
  render,
};
