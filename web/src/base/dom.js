// Elements. Names from a profile only ever become text nodes.

/** @typedef {Node|string|number|null|undefined|boolean|any[]} Child */

/**
 * h("td.number", {title: "..."}, children...). A key that begins with "on" is a listener; a style
 * is set by CSSOM, which the page's policy allows. Without attributes, children follow the tag.
 * @param {string} tag @param {Record<string, any>|Child} [first] @param {...Child} children
 * @returns {any}
 */
export function h(tag, first, ...children) {
  const isPlain = typeof first === "object" && first !== null && Object.getPrototypeOf(first) === Object.prototype;
  const attributes = isPlain ? first : {};
  const [name, ...classes] = tag.split(".");
  const element = document.createElement(name);
  if (name === "button") element.setAttribute("type", "button");
  if (classes.length > 0) element.className = classes.join(" ");
  for (const [key, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "style") {
      for (const [property, text] of Object.entries(value)) {
        element.style.setProperty(property, String(text));
      }
    } else if (key === "value" || key === "checked" || key === "selected") {
      /** @type {any} */ (element)[key] = value;
    } else {
      element.setAttribute(key, value === true ? "" : String(value));
    }
  }
  append(element, isPlain ? children : [/** @type {Child} */ (first), ...children]);
  return element;
}

/** @param {Element} element @param {Child[]} children */
export function append(element, children) {
  for (const child of /** @type {any[]} */ (children).flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

/** A panel with a heading. @param {string} title @param {...Child} children */
export function panel(title, ...children) {
  const id = `panel-${title.toLowerCase().replace(/[^a-z0-9]+/g, "-")}`;
  return h("section.panel", { "aria-labelledby": id }, h("h2", { id }, title), ...children);
}

/** Pairs of terms and values. @param {[string, Child][]} rows */
export function pairs(rows) {
  return h("dl.pairs", ...rows.map(([term, value]) => [h("dt", term), h("dd", value)]));
}

/** @param {string} text */
export function empty(text) {
  return h("p.empty", { role: "note" }, text);
}

/** Saves data as a file of the user's. @param {string} name @param {Blob} blob */
export function save(name, blob) {
  const link = h("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

/** Changes the page, and gives the focus to the element that stands for the one that had it. @param {() => void} change */
export function keepFocus(change) {
  const focus = /** @type {HTMLElement|null} */ (document.activeElement)?.dataset.focus;
  change();
  if (focus === undefined) return;
  /** @type {HTMLElement|null} */ (document.querySelector(`[data-focus="${CSS.escape(focus)}"]`))?.focus({
    preventScroll: true,
  });
}
