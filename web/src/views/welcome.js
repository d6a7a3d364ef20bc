// The first page, and the list of many reports.

import { message } from "../base/format.js";
import { h } from "../base/dom.js";
import { column, table } from "../base/table.js";

/** @param {string} problem @param {(list: FileList|null) => void} take */
export function welcome(problem, take) {
  const input = (/** @type {string} */ id, /** @type {boolean} */ folder) =>
    h("input", {
      type: "file",
      multiple: true,
      webkitdirectory: folder,
      id,
      class: "unseen",
      tabindex: -1,
      "aria-hidden": true,
      onchange: (e) => take(e.target.files),
    });
  const folder = input("choose-folder", true),
    files = input("choose-files", false);
  return h(
    "div.welcome",
    h("h1", "Open a profile"),
    problem !== "" && h("p.note.bad", { role: "alert" }, problem),
    h(
      "div.drop",
      h(
        "p",
        "Drop a folder ",
        h("code", "tf_report__…"),
        " here, two of them to compare, or a folder that holds many. A timeline of the host (",
        h("code", ".pvti"),
        ") may come along, before or after.",
      ),
      h(
        "div.bar",
        h("button.main", { onclick: () => folder.click() }, "Choose a folder"),
        h("button", { onclick: () => files.click() }, "Choose files"),
      ),
      folder,
      files,
    ),
    h(
      "p.dim",
      "A program writes a profile when ",
      h("code", 'POPLAR_ENGINE_OPTIONS=\'{"autoReport.all":"true"}\''),
      " is set. Nothing leaves this page: it has no network.",
    ),
    h(
      "p.dim",
      "Other ways: ",
      h("code", "tremula view DIR [DIR2]"),
      " serves this page; ",
      h("code", "tremula report DIR --html report.html"),
      " makes one file to send.",
    ),
  );
}

/**
 * @param {App} app @param {import("../base/opening.js").Folder[]} folders
 * @param {(folders: any[]) => void} open
 */
export async function reportList(app, folders, open) {
  const rows = [];
  for (const [i, folder] of folders.slice(0, 200).entries()) {
    const pop = folder.files.filter((file) => file.name === "profile.pop");
    try {
      const o = await app.client.send(10 + i, "open", [{ name: folder.name, files: pop }]);
      rows.push({
        folder,
        module: o.meta.module,
        time: o.meta.timestamp ?? "",
        target: o.target.name,
        ipus: o.target.num_ipus,
        fits: o.totals.fits ? "fits" : "does not fit",
        cycles: o.totals.cycles,
        steps: o.totals.num_steps,
      });
    } catch (error) {
      rows.push({ folder, module: "", time: "", target: "", ipus: 0, cycles: 0, steps: 0, fits: message(error) });
    }
  }
  const most = Math.max(...rows.map((row) => row.cycles));
  const trivial = (row) => (row.cycles < most / 1000 ? 1 : 0);
  rows.sort((a, b) => trivial(a) - trivial(b) || (a.time < b.time ? 1 : -1));
  /** @type {Set<any>} */
  const picked = new Set();
  const button = h(
    "button.main",
    { disabled: true, onclick: () => open([...picked]) },
    "Compare the two that are ticked",
  );
  return h(
    "div.view",
    h(
      "div.title",
      h("h1", "Reports"),
      h("p", "Enter opens one; tick two to compare. The newest come first, trivial programs last."),
    ),
    h("div.bar", button),
    table({
      name: "Reports",
      id: "reports",
      rows,
      fixed: true,
      tools: true,
      keyOf: (row) => row.folder.name,
      onpick: (row) => open([row.folder]),
      columns: [
        column("pick", "", "text", () => "", {
          cell: (row) =>
            h("input", {
              type: "checkbox",
              "aria-label": `Compare ${row.folder.name}`,
              onchange: (e) => {
                if (e.target.checked) picked.add(row.folder);
                else picked.delete(row.folder);
                button.disabled = picked.size !== 2;
              },
            }),
        }),
        column("name", "Folder", "text", (row) => row.folder.name, {
          cell: (row) => h("button.link", { onclick: () => open([row.folder]) }, row.folder.name),
        }),
        column("module", "Module", "text", "module"),
        column("time", "Time", "text", "time"),
        column("target", "Target", "text", "target"),
        column("ipus", "IPUs", "number", "ipus"),
        column("fits", "Fits", "text", "fits"),
        column("cycles", "Cycles", "number", "cycles"),
        column("steps", "Programs", "number", "steps"),
      ],
    }),
  );
}
