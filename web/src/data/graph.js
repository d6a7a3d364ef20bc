// The graph of HLO instructions as nested boxes by name scope; only open boxes are laid out.

/** @typedef {{id: string, label: string, scope: boolean, open: boolean, count: number,
 *  opcode: string, shape: string, hlo: string[], x: number, y: number, w: number, h: number,
 *  depth: number, role: string, calls: string[]}} Box */

const MOST_BOXES = 500;
const MANY = 6;
const INPUTS = new Set(["parameter", "constant", "get-tuple-element", "tuple", "iota"]);

/** @param {any} one */
function shapeOf(one) {
  if (typeof one.shape === "string") return one.shape;
  return `${one.type}[${(one.dimensions ?? []).join(",")}]`;
}

/** @param {any} one @param {boolean} fold gradients to their forward op */
function pathOf(one, fold) {
  const name = String(one.opName || "");
  if (name === "") return [`(${one.opcode})`, String(one.name)];
  let parts = name.split("/").filter(Boolean);
  if (fold) {
    const at = parts.findIndex((part) => /^gradient(s(_\d+)?|_tape)$/.test(part));
    if (at >= 0) {
      parts = parts.slice(at + 1).filter((part) => part !== "gradients");
      parts = parts.map((part) => part.replace(/_grad$/, ""));
    }
  }
  return [...parts.slice(0, Math.max(0, parts.length - 1)), String(one.name)];
}

/** TensorFlow's name of it, without the scope. @param {any} one */
function opOf(one) {
  return (
    String(one.opName || "")
      .split("/")
      .pop() || String(one.name)
  );
}

/** A name without the number behind it. @param {string} name */
export function unnumbered(name) {
  return name.replace(/_\d+$/, "");
}

/** The path of each instruction; of those without a scope, many of one name have one together.
 * @param {any[]} instructions @param {boolean} fold */
function pathsOf(instructions, fold) {
  const paths = instructions.map((one) => pathOf(one, fold));
  /** @type {Map<string, number>} */
  const alike = new Map();
  const names = instructions.map((one) => unnumbered(opOf(one)));
  paths.forEach((path, i) => {
    if (path.length === 1) alike.set(names[i], (alike.get(names[i]) ?? 0) + 1);
  });
  return paths.map((path, i) =>
    path.length === 1 && (alike.get(names[i]) ?? 0) >= MANY ? [`(${names[i]})`, ...path] : path,
  );
}

/** The computation with most of the program: a loop's body rather than what calls it.
 * @param {any[]} computations */
function fullest(computations) {
  const named = (c) => c.instructions.filter((i) => i.opName && i.opcode !== "parameter").length;
  const more = (a, b) => named(a) - named(b) || a.instructions.length - b.instructions.length;
  return computations.reduce(
    (best, c) => (best === undefined || more(c, best) > 0 ? c : best),
    /** @type {any} */ (undefined),
  );
}

/**
 * @param {Profile} profile @param {string} computation @param {string[]} open ids of open scopes
 * @param {boolean} fold @param {boolean} inputs whether parameters, constants and parts of tuples are shown
 */
export function graph(profile, computation, open, fold, inputs) {
  const { value, problem } = profile.framework();
  if (value === undefined) return { problem };
  const list = value.computations.map((c) => ({
    name: String(c.name),
    entry: c.entry === true,
    count: (c.instructions ?? []).length,
  }));
  const chosen = value.computations.find((c) => c.name === computation) ?? fullest(value.computations);
  if (chosen === undefined) return { problem: "framework.json has no computations." };
  const opened = new Set(open);
  /** @type {Map<string, Box>} */
  const boxes = new Map();
  /** @type {Map<string, string>} the box that shows an instruction */
  const shown = new Map();
  const instructions = inputs ? chosen.instructions : chosen.instructions.filter((i) => !INPUTS.has(i.opcode));
  const paths = pathsOf(instructions, fold);
  for (const [place, one] of instructions.entries()) {
    const path = paths[place];
    let id = "";
    for (let depth = 0; depth < path.length; ++depth) {
      const scope = depth < path.length - 1;
      id = id === "" ? path[depth] : `${id}/${path[depth]}`;
      const key = scope ? `${id}/` : id;
      let box = boxes.get(key);
      if (box === undefined) {
        box = {
          id: key,
          label: scope ? path[depth] : opOf(one),
          scope,
          open: scope && opened.has(key),
          count: 0,
          opcode: scope ? "" : one.opcode,
          shape: scope ? "" : shapeOf(one),
          hlo: [],
          x: 0,
          y: 0,
          w: 0,
          h: 0,
          depth,
          role: scope ? "" : String(one.role ?? ""),
          calls: scope ? [] : (one.calls ?? []).map(String),
        };
        if (boxes.size < MOST_BOXES) boxes.set(key, box);
      }
      box.count += 1;
      box.hlo.push(String(one.name));
      if (!box.open) {
        shown.set(String(one.name), key);
        break;
      }
    }
  }
  /** @type {Map<string, {from: string, to: string, shape: string, count: number}>} */
  const edges = new Map();
  for (const one of instructions) {
    const to = shown.get(String(one.name));
    for (const operand of one.operands ?? []) {
      const from = shown.get(String(operand));
      if (from === undefined || to === undefined || from === to) continue;
      const key = `${from}\n${to}`;
      const edge = edges.get(key);
      if (edge === undefined) {
        const producer = instructions.find((i) => i.name === operand);
        edges.set(key, { from, to, shape: producer ? shapeOf(producer) : "", count: 1 });
      } else {
        edge.count += 1;
      }
    }
  }
  const cut = instructions.some((i) => {
    const key = shown.get(String(i.name));
    return key === undefined || !boxes.has(key);
  });
  const size = layout(boxes, [...edges.values()]);
  return {
    computations: list,
    chosen: String(chosen.name),
    boxes: [...boxes.values()],
    edges: [...edges.values()].filter((e) => boxes.has(e.from) && boxes.has(e.to)),
    cut,
    size,
    lacksCalls:
      list.length > 1 && !value.computations.some((c) => (c.instructions ?? []).some((i) => i.calls !== undefined)),
  };
}

const WIDTH = 206,
  HEIGHT = 38,
  GAP_X = 26,
  GAP_Y = 30,
  HEAD = 24,
  PAD = 12;

/** The id of the open box around a box. @param {Map<string, Box>} boxes @param {string} id */
function parentOf(boxes, id) {
  const parts = id.replace(/\/$/, "").split("/");
  for (let n = parts.length - 1; n > 0; --n) {
    const key = `${parts.slice(0, n).join("/")}/`;
    if (boxes.get(key)?.open) return key;
  }
  return "";
}

/**
 * Layers by the longest path inside each open box, the inner boxes first.
 * @param {Map<string, Box>} boxes @param {{from: string, to: string}[]} edges
 */
function layout(boxes, edges) {
  /** @type {Map<string, string[]>} */
  const inside = new Map([["", []]]);
  const parents = new Map();
  for (const id of boxes.keys()) {
    const parent = parentOf(boxes, id);
    parents.set(id, parent);
    if (!inside.has(parent)) inside.set(parent, []);
    inside.get(parent)?.push(id);
  }
  const chain = (/** @type {string} */ id) => {
    const all = [id];
    for (let p = parents.get(id); p; p = parents.get(p)) all.push(p);
    return all;
  };
  /** @type {Map<string, Set<string>>} edges between siblings */
  const next = new Map();
  for (const { from, to } of edges) {
    if (!boxes.has(from) || !boxes.has(to)) continue;
    const left = chain(from),
      right = chain(to);
    for (const a of left) {
      const b = right.find((one) => parents.get(one) === parents.get(a));
      if (b === undefined) continue;
      if (a !== b) {
        if (!next.has(a)) next.set(a, new Set());
        next.get(a)?.add(b);
      }
      break;
    }
  }
  const place = (/** @type {string} */ parent) => {
    const ids = inside.get(parent) ?? [];
    for (const id of ids) {
      const box = /** @type {Box} */ (boxes.get(id));
      if (box.open && inside.has(id)) {
        const inner = place(id);
        box.w = inner.w;
        box.h = inner.h;
      } else {
        box.w = WIDTH;
        box.h = HEIGHT;
      }
    }
    return stack(ids, boxes, next);
  };
  const size = place("");
  const shift = (/** @type {string} */ parent, /** @type {number} */ x, /** @type {number} */ y) => {
    for (const id of inside.get(parent) ?? []) {
      const box = /** @type {Box} */ (boxes.get(id));
      box.x += x;
      box.y += y;
      shift(id, box.x, box.y);
    }
  };
  shift("", 0, 0);
  return size;
}

/** @param {string[]} ids @param {Map<string, Box>} boxes @param {Map<string, Set<string>>} next */
function stack(ids, boxes, next) {
  // The longest path to each, without arrows back: folded gradients make circles.
  /** @type {string[]} */
  const order = [];
  /** @type {Map<string, number>} 1: begun, 2: done */
  const seen = new Map();
  const forward = new Map(ids.map((id) => [id, /** @type {string[]} */ ([])]));
  for (const root of ids) {
    const path = [{ id: root, left: [...(next.get(root) ?? [])] }];
    if (seen.has(root)) continue;
    seen.set(root, 1);
    while (path.length > 0) {
      const top = path[path.length - 1],
        to = top.left.pop();
      if (to === undefined) {
        seen.set(top.id, 2);
        order.push(top.id);
        path.pop();
      } else if (seen.get(to) !== 1) {
        forward.get(top.id)?.push(to);
        if (seen.has(to)) continue;
        seen.set(to, 1);
        path.push({ id: to, left: [...(next.get(to) ?? [])] });
      }
    }
  }
  const rank = new Map(ids.map((id) => [id, 0]));
  for (const id of order.reverse()) {
    for (const to of forward.get(id) ?? []) {
      rank.set(to, Math.max(rank.get(to) ?? 0, (rank.get(id) ?? 0) + 1));
    }
  }
  /** @type {string[][]} */
  const rows = [];
  for (const id of ids) (rows[rank.get(id) ?? 0] ??= []).push(id);
  let y = HEAD + PAD,
    wide = WIDTH;
  const lines = [];
  for (const row of rows.filter(Boolean)) {
    for (let at = 0; at < row.length; at += 6) lines.push(row.slice(at, at + 6));
  }
  const widths = lines.map((row) => row.reduce((sum, id) => sum + (boxes.get(id)?.w ?? 0) + GAP_X, -GAP_X));
  wide = Math.max(wide, ...widths);
  lines.forEach((row, i) => {
    let x = PAD + Math.min(WIDTH / 2, (wide - widths[i]) / 2),
      tall = 0;
    for (const id of row) {
      const box = /** @type {Box} */ (boxes.get(id));
      box.x = x;
      box.y = y;
      x += box.w + GAP_X;
      tall = Math.max(tall, box.h);
    }
    y += tall + GAP_Y;
  });
  return { w: wide + 2 * PAD, h: y - GAP_Y + PAD };
}
