// Elements of SVG, and the path of an arrow upwards.

export const SVG = "http://www.w3.org/2000/svg";

/** @param {string} tag @param {Record<string, any>} attributes @param {...(Node|string)} children */
export function s(tag, attributes, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (value !== undefined) element.setAttribute(key, String(value));
  }
  element.append(...children);
  return element;
}

/** An arrow upwards, from side to side. @param {any} from @param {any} to */
export function back(from, to) {
  const x0 = from.x + from.w,
    x1 = to.x + to.w,
    out = Math.max(x0, x1) + 18;
  return `M${x0} ${from.y + from.h / 2}C${out} ${from.y + from.h / 2} ${out} ${to.y + to.h / 2} ${x1} ${to.y + to.h / 2}`;
}
