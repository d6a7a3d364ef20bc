// A squarified treemap. Its boxes are buttons; Tab reaches the largest, arrow keys reach all.

import { empty, h } from "../base/dom.js";
import { SERIES } from "../base/kinds.js";

/** @typedef {{name: string, value: number, detail: string}} Leaf */

const MOST = 60;

/** @param {Leaf[]} leaves largest first @param {number} width @param {number} height */
export function squares(leaves, width, height) {
  const total = leaves.reduce((sum, leaf) => sum + leaf.value, 0);
  /** @type {{leaf: Leaf, x: number, y: number, w: number, h: number}[]} */
  const placed = [];
  let x = 0,
    y = 0,
    w = width,
    tall = height;
  const scale = (width * height) / (total || 1);
  for (let at = 0; at < leaves.length;) {
    const side = Math.min(w, tall);
    let end = at,
      sum = 0,
      best = Infinity;
    while (end < leaves.length) {
      const next = sum + leaves[end].value * scale;
      const most = leaves[at].value * scale,
        least = leaves[end].value * scale;
      const worst = Math.max((side * side * most) / (next * next), (next * next) / (side * side * least));
      if (worst > best) break;
      best = worst;
      sum = next;
      ++end;
    }
    const thick = sum / side;
    let along = 0;
    for (; at < end; ++at) {
      const long = (leaves[at].value * scale) / thick;
      if (w >= tall) placed.push({ leaf: leaves[at], x, y: y + along, w: thick, h: long });
      else placed.push({ leaf: leaves[at], x: x + along, y, w: long, h: thick });
      along += long;
    }
    if (w >= tall) {
      x += thick;
      w -= thick;
    } else {
      y += thick;
      tall -= thick;
    }
  }
  return placed;
}

/** Leaves with shorter names, joined, if there are too many. @param {Leaf[]} leaves */
function shallower(leaves) {
  let found = leaves;
  for (let depth = 6; depth > 0 && found.length > MOST; --depth) {
    /** @type {Map<string, Leaf[]>} */
    const groups = new Map();
    for (const leaf of leaves) {
      const name = leaf.name.split("/").slice(0, depth).join("/");
      groups.set(name, [...(groups.get(name) ?? []), leaf]);
    }
    found = [...groups].map(([name, inside]) => ({
      name,
      value: inside.reduce((sum, leaf) => sum + leaf.value, 0),
      detail: inside.length === 1 ? inside[0].detail : `${inside.length} scopes`,
    }));
  }
  return found;
}

/** The last part of a name, below the one before where there is room. @param {string} name @param {boolean} isWide */
function nameLines(name, isWide) {
  const parts = name.split("/").slice(isWide ? -2 : -1);
  return parts.map((part, i) => h("div", h("bdi", i < parts.length - 1 ? `${part}/` : part)));
}

/** Arrow keys go to the next smaller or larger box. @param {KeyboardEvent} event */
function moveBySize(event) {
  const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
  if (by === undefined) return;
  const box = /** @type {HTMLElement} */ (event.target);
  const next = by > 0 ? box.nextElementSibling : box.previousElementSibling;
  /** @type {HTMLElement|null} */ (next)?.focus();
  event.preventDefault();
}

/** @param {string} name @param {Leaf[]} leaves @param {(name: string) => void} pick */
export function treemap(name, leaves, pick) {
  const some = shallower(leaves.filter((leaf) => leaf.value > 0)).sort((a, b) => b.value - a.value);
  if (some.length === 0) return empty("Nothing is always live.");
  const shown = some.slice(0, MOST);
  if (some.length > MOST) {
    const rest = some.slice(MOST).reduce((sum, leaf) => sum + leaf.value, 0);
    shown.push({ name: `${some.length - MOST} others`, value: rest, detail: String(rest) });
    shown.sort((a, b) => b.value - a.value);
  }
  return h(
    "div.treemap",
    { role: "group", "aria-label": name, onkeydown: moveBySize },
    squares(shown, 1000, 600).map((one, i) =>
      h(
        "button",
        {
          title: `${one.leaf.name}\n${one.leaf.detail}`,
          "aria-label": `${one.leaf.name}: ${one.leaf.detail}`,
          "data-value": one.leaf.value,
          onclick: () => pick(one.leaf.name),
          tabindex: i < 12 ? 0 : -1,
          style: {
            left: `${one.x / 10}%`,
            top: `${one.y / 6}%`,
            width: `${one.w / 10}%`,
            height: `${one.h / 6}%`,
            background: `color-mix(in srgb, ${SERIES[i % SERIES.length]} 45%, white)`,
          },
        },
        one.w > 90 && one.h > 50 ? nameLines(one.leaf.name, one.w > 160) : "",
      ),
    ),
  );
}
