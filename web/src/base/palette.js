// The palette (Ctrl+K or ?): every command with its key, every view, every operation.

import { h } from "./dom.js";

/** @typedef {{text: string, key?: string, act: () => void}} Command */

/** @param {() => Command[]} commands @param {() => Promise<Command[]>} more */
export function makePalette(commands, more) {
  const list = h("ul", { role: "listbox", id: "palette-list", "aria-label": "Commands" });
  const input = h("input", {
    type: "search",
    role: "combobox",
    "aria-expanded": "true",
    "aria-controls": "palette-list",
    "aria-label": "Command, view or operation",
    placeholder: "Command, view or operation",
    style: { width: "100%" },
  });
  const dialog = h(
    "dialog",
    { "aria-label": "Commands and keys", id: "palette" },
    h("div", input, list, h("p.dim", "Enter runs the chosen one. Esc closes.")),
  );
  /** @type {Command[]} */
  let all = [];
  /** @type {Command[]} */
  let shown = [];
  let active = 0;
  const draw = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    shown = all.filter((one) => words.every((word) => one.text.toLowerCase().includes(word))).slice(0, 80);
    active = Math.max(0, Math.min(active, shown.length - 1));
    list.replaceChildren(
      ...shown.map((one, i) =>
        h(
          "li",
          { role: "option", id: `command-${i}`, "aria-selected": String(i === active), onclick: () => run(i) },
          h("span", one.text),
          one.key && h("kbd", one.key),
        ),
      ),
    );
    input.setAttribute("aria-activedescendant", shown.length > 0 ? `command-${active}` : "");
    list.children[active]?.scrollIntoView({ block: "nearest" });
  };
  /** @param {number} place */
  const run = (place) => {
    dialog.close();
    shown[place]?.act();
  };
  input.addEventListener("input", () => {
    active = 0;
    draw();
  });
  input.addEventListener("keydown", (e) => {
    if (e.key === "ArrowDown") active += 1;
    else if (e.key === "ArrowUp") active -= 1;
    else if (e.key === "Enter") run(active);
    else return;
    e.preventDefault();
    if (dialog.open) draw();
  });
  return {
    element: dialog,
    open: () => {
      if (dialog.open) return;
      input.value = "";
      active = 0;
      all = commands();
      dialog.showModal();
      input.focus();
      draw();
      more()
        .then((rest) => {
          all = [...commands(), ...rest];
          if (dialog.open) draw();
        })
        .catch(() => {});
    },
  };
}
