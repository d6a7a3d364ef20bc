// V13 Files: the contents of the profile's files, as text.

import { empty, h, panel } from "../base/dom.js";
import { grouped } from "../base/format.js";

/** A long text in pieces, of which the browser lays out those in sight. @param {string} text */
function pieces(text) {
  const lines = text.split("\n"),
    found = [];
  for (let at = 0; at < lines.length; at += 200) found.push(h("div", lines.slice(at, at + 200).join("\n")));
  return found;
}

/** @param {App} app */
async function render(app) {
  const { state, overview: o } = app;
  const names = o.files.map((one) => one.name).filter((name) => !["profile.pop", "vars.capnp"].includes(name));
  const file = state.get("file", "framework.json");
  const tile = app.tiles[0] ?? 0;
  const shown = await app.part(async () => {
    const { text, problem, cut } = await app.ask("raw", file, file === "archive.a" ? `tile${tile}.mem` : "");
    if (problem) return empty(problem);
    return h(
      "div.view",
      cut && h("p.note", "Only the beginning is shown."),
      h("pre.text", { tabindex: 0, "aria-label": file }, pieces(text)),
    );
  });
  return {
    element: h(
      "div.view",
      h(
        "div.bar",
        app.menu(
          "File",
          "file",
          names.map((name) => [name, name]),
          file,
        ),
        file === "archive.a" &&
          h(
            "label.field",
            "Tile",
            h("input", {
              type: "text",
              size: 8,
              value: String(tile),
              "data-focus": "tile",
              onchange: (e) => state.set({ tiles: e.target.value }),
            }),
          ),
        h(
          "span.dim",
          o.files
            .filter((one) => one.name === file)
            .map((one) => (one.size < 0 ? "not there" : `${grouped(one.size)} bytes`)),
        ),
      ),
      h("p.dim", "profile.pop is read by the SQL view, vars.capnp by Memory."),
      panel(file, shown),
    ),
  };
}

/** @type {ViewModule} */
export const filesView = { id: "files", title: "Files", hint: "The files of the profile as they are.", render };
