// The page: opening reports, the frame around views, keys.

import { copyChosen, find, nudge } from "./base/actions.js";
import { App } from "./base/app.js";
import { append, h, keepFocus } from "./base/dom.js";
import { message } from "./base/format.js";
import {
  chosen,
  dropped,
  embedded,
  embeddedPlans,
  embeddedSources,
  embeddedTimelines,
  group,
  served,
} from "./base/opening.js";
import { makePalette } from "./base/palette.js";
import { planPage } from "./views/plan.js";
import { operationsIn } from "./views/programs.js";
import { hostPage } from "./views/host.js";
import { reportList, welcome } from "./views/welcome.js";
import { areInstances, instanceMenu } from "./views/instances.js";
import { VIEWS } from "./views/all.js";

const MOST_COMMANDS = 20000; // operations in the palette: those with most cycles
const app = new App();
const main = h("main", { id: "main", tabindex: -1 });
const nav = h("nav", { "aria-label": "Views" });
const head = h("header");
/** @type {Record<string, () => void>} */
let viewKeys = {};
let turn = 0;

const palette = makePalette(commands, async () => {
  if (app.reports.length === 0) return [];
  const operations = await operationsIn(app, "op");
  return operations
    .slice(0, MOST_COMMANDS)
    .map((one) => ({
      text: `Operation ${one.name}`,
      act: () => app.state.set({ v: "operations", layer: "op", op: one.name }),
    }));
});

function commands() {
  const views = VIEWS.map((view, i) => ({
    text: `View: ${view.title}`,
    key: i < 9 ? String(i + 1) : undefined,
    act: () => app.state.set({ v: view.id }),
  }));
  const say = (/** @type {string} */ text, /** @type {string} */ key, /** @type {() => void} */ act) => ({
    text,
    key,
    act,
  });
  return [
    ...views,
    say("Find in this view", "/", find),
    say("Clear what is chosen", "Esc", clear),
    say("The other report, or the next instance's", "c", swap),
    say("Up a level (fold, or a scope outwards)", "[", () => viewKeys["["]?.()),
    say("Down a level (open, or a scope inwards)", "]", () => viewKeys["]"]?.()),
    say("Fit what is chosen into the chart", "f", () => viewKeys.f?.()),
    say("Next in the chart or table", ".", () => nudge(".")),
    say("Previous in the chart or table", ",", () => nudge(",")),
    say("Zoom in (also +)", "w", () => nudge("w")),
    say("Zoom out (also -)", "s", () => nudge("s")),
    say("Move left", "a", () => nudge("a")),
    say("Move right", "d", () => nudge("d")),
    say("Show the whole chart", "0", () => nudge("0")),
    say("Copy what is chosen as text", "Ctrl+C", () => copyChosen(app)),
    say("Bytes as bytes", "", () => app.state.set({ bytes: null })),
    say("Bytes as KiB", "", () => app.state.set({ bytes: "KiB" })),
    say("Bytes as kB", "", () => app.state.set({ bytes: "kB" })),
    say("Cycles as cycles", "", () => app.state.set({ cycles: null })),
    say("Cycles as microseconds", "", () => app.state.set({ cycles: "us" })),
    say("Light or dark", "", changeTheme),
    say("Open other reports", "", () => start("")),
  ];
}

function clear() {
  app.state.set({ op: null, step: null, steps: null, tiles: null, lines: null, range: null, row: null, mark: null });
}

function swap() {
  if (app.reports.length < 2) return;
  app.state.set({ r: app.keyOf((app.report + 1) % app.reports.length) });
}

function changeTheme() {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  draw();
}

function drawFrame() {
  const current = app.state.get("v", "summary");
  nav.replaceChildren(
    h(
      "ul",
      VIEWS.map((view, i) =>
        h(
          "li",
          h(
            "a",
            {
              href: app.state.link({ v: view.id }),
              "data-focus": `nav-${view.id}`,
              "aria-current": view.id === current ? "page" : undefined,
              title: view.hint,
            },
            view.title,
            i < 9 && h("kbd", { "aria-hidden": true }, i + 1),
          ),
        ),
      ),
    ),
  );
  const names = app.reports.map((report) => `${report.meta.module ?? "?"} · ${report.name}`);
  const choice =
    app.reports.length < 2
      ? null
      : (instanceMenu(app) ??
        h(
          "span.bar",
          ["A", "B"].map((letter, i) =>
            h(
              "button",
              {
                "aria-pressed": String(app.report === i),
                title: names[i],
                "data-focus": `report-${letter}`,
                onclick: () => app.state.set({ r: app.keyOf(i) }),
              },
              `Report ${letter}`,
            ),
          ),
        ));
  const unit = (/** @type {string} */ name, /** @type {string} */ label, /** @type {string[][]} */ values) =>
    h(
      "select",
      {
        "aria-label": label,
        "data-focus": `unit-${name}`,
        onchange: (e) => app.state.set({ [name]: e.target.value || null }),
      },
      values.map(([value, text]) => h("option", { value, selected: app.state.get(name) === value }, text)),
    );
  head.replaceChildren(
    ...[
      h("span.brand", "Tremula ", h("span", "analyser")),
      h("span.where", { title: names[app.report] }, names[app.report] ?? app.plans?.model ?? ""),
      choice,
      (app.reports.length > 0 || app.plans !== null) &&
        unit("bytes", "Unit of bytes", [
          ["", "bytes"],
          ["KiB", "KiB"],
          ["kB", "kB"],
        ]),
      app.reports.length > 0 &&
        unit("cycles", "Unit of cycles", [
          ["", "cycles"],
          ["us", "µs"],
        ]),
      h("button", { onclick: () => start(""), "data-focus": "open" }, "Open …"),
      h(
        "button",
        { onclick: palette.open, "data-focus": "palette", "aria-keyshortcuts": "Control+K ?" },
        "Commands ",
        h("kbd", "?"),
      ),
      h("button", { onclick: changeTheme, "data-focus": "theme" }, "Light / dark"),
    ].filter(Boolean),
  );
}

/** Draws the view that the state names. */
async function draw() {
  const mine = ++turn;
  if (app.reports.length === 0) {
    app.applyUnits();
    if (app.plans !== null) drawAlone("plans", `Plans of ${app.plans.model}`, planPage(app, app.plans));
    else if (app.timelines.length > 0) drawAlone("timeline", "Timeline of the host", hostPage(app));
    return;
  }
  app.applyUnits();
  const view = VIEWS.find((one) => one.id === app.state.get("v")) ?? VIEWS[0];
  app.client.view = view.id;
  keepFocus(drawFrame);
  document.title = `${view.title} · ${app.overview.meta.module ?? ""} · Tremula`;
  let shown;
  try {
    shown = await view.render(app);
  } catch (error) {
    shown = { element: h("p.note.bad", { role: "alert" }, message(error)) };
  }
  if (mine !== turn) return;
  viewKeys = shown.keys ?? {};
  const changes = main.dataset.view !== view.id,
    scrolled = changes ? 0 : main.scrollTop;
  main.dataset.view = view.id;
  const page = h("div.view", h("div.title", h("h1", view.title), h("p", view.hint)), shown.element);
  keepFocus(() => main.replaceChildren(page));
  main.dataset.drawn = String(mine);
  main.scrollTop = scrolled;
  shown.after?.();
  if (changes) app.speak(`${view.title}. ${view.hint}`);
}
app.state.changed = draw;
// Not in each chart: a listener there would keep the charts of all views that were shown, and their numbers.
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);

/** A page without a profile. @param {string} view @param {string} title @param {Node} page */
function drawAlone(view, title, page) {
  keepFocus(drawFrame);
  document.title = `${title} · Tremula`;
  main.dataset.view = view;
  main.dataset.drawn = String(turn);
  keepFocus(() => main.replaceChildren(page));
}

document.addEventListener("keydown", (event) => {
  const target = /** @type {HTMLElement} */ (event.target);
  const typing = target.matches("input, textarea, select") || target.closest("dialog") !== null;
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
    event.preventDefault();
    palette.open();
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) {
    if (event.key === "c" && !typing && String(getSelection()) === "" && app.reports.length > 0) copyChosen(app);
    return;
  }
  if (event.key === "Escape" && typing && target.closest("dialog") === null) {
    target.blur();
    return;
  }
  if (typing) return;
  /** @type {Record<string, () => void>} */
  const keys = { "?": palette.open, "/": find, Escape: clear, c: swap, ...viewKeys };
  for (const key of ["w", "s", "a", "d", "+", "-", "0", ".", ","]) keys[key] ??= () => nudge(key);
  VIEWS.slice(0, 9).forEach((view, i) => {
    keys[String(i + 1)] = () => app.state.set({ v: view.id });
  });
  if (app.reports.length === 0 && event.key !== "?") return;
  const act = keys[event.key];
  if (act === undefined) return;
  event.preventDefault();
  act();
});

/** Opens reports into the page: one, two, or those of instances of one program. Of others it shows a list.
 * @param {import("./base/opening.js").Folder[]} folders */
async function open(folders) {
  app.client.forget();
  app.reports = [];
  app.plans = null;
  const overviews = [];
  for (const [i, folder] of folders.entries()) {
    overviews.push(await app.client.send(i, "open", [{ name: folder.name, files: folder.files }]));
    if (folders.length > Math.max(2, overviews[0].meta.num_instances ?? 0)) break;
  }
  if (folders.length > 2 && (overviews.length < folders.length || !areInstances(overviews)))
    return main.replaceChildren(await reportList(app, folders, (some) => choose(some)));
  app.reports = overviews;
  nav.hidden = false;
  await draw();
}

/** @param {import("./base/opening.js").Folder[]} folders
 * @param {import("./base/opening.js").Given[]} [timelines] */
async function choose(folders, timelines = []) {
  app.timelineFaults = [];
  app.given.push(...timelines);
  if (folders.length === 0) await app.readTimelines();
  if (folders.length === 0 && timelines.length > 0) {
    if (app.reports.length === 0 && app.timelines.length === 0) start(app.timelineFaults[0]);
    else if (app.reports.length > 0 && app.state.get("v") !== "trace") app.state.set({ v: "trace" });
    else await draw();
    return;
  }
  if (folders.length === 0) {
    start("There is no profile among these files: a profile.pop in a folder tf_report__... was expected.");
    return;
  }
  try {
    await open(folders);
  } catch (error) {
    start(message(error));
  }
}

/** Opens a report beside the first. @param {import("./base/opening.js").Folder} folder */
async function openBeside(folder) {
  try {
    const second = await app.client.send(1, "open", [{ name: folder.name, files: folder.files }]);
    app.reports = [app.reports[0], second];
    await draw();
  } catch (error) {
    main.prepend(h("p.note.bad", { role: "alert" }, message(error)));
  }
}

/** @param {{path: string, file: File}[]} found @param {boolean} [beside] */
async function take(found, beside = false) {
  const { folders, others, timelines } = group(found);
  if (beside && folders.length === 1) return openBeside(folders[0]);
  if (folders.length === 0 && timelines.length === 0 && app.reports.length > 0 && others.length > 0) {
    for (const file of others.filter((one) => one.size < 4e6)) app.sources.set(file.name, await file.text());
    await draw();
    return;
  }
  await choose(folders, timelines);
}

/** The first page. @param {string} problem */
function start(problem) {
  ++turn;
  app.reports = [];
  app.plans = null;
  app.timelines = [];
  app.given = [];
  nav.hidden = true;
  nav.replaceChildren();
  drawFrame();
  document.title = "Tremula analyser";
  main.replaceChildren(welcome(problem, (list) => take(chosen(list))));
  main.dataset.view = "welcome";
}

app.take = (list, beside) => take(chosen(list), beside);
app.client.cancelled = () => start("Reading was cancelled. Open the report again.");
addEventListener("dragover", (event) => {
  event.preventDefault();
  document.body.classList.add("dropping");
});
addEventListener("dragleave", () => document.body.classList.remove("dropping"));
addEventListener("drop", async (event) => {
  event.preventDefault();
  document.body.classList.remove("dropping");
  if (event.dataTransfer) await take(await dropped(event.dataTransfer));
});

append(document.body, [
  h(
    "a.skip",
    {
      href: "#main",
      onclick: (/** @type {Event} */ e) => {
        e.preventDefault();
        main.focus();
      },
    },
    "Skip to the view",
  ),
  head,
  nav,
  main,
  palette.element,
  app.progress,
  app.live,
]);

async function begin() {
  // Reports inside the page come after this script: the worker starts while the browser reads them.
  if (document.readyState === "loading") await new Promise((done) => addEventListener("DOMContentLoaded", done));
  if (document.querySelector("script[data-plan]") !== null) {
    nav.hidden = true;
    app.plans = await embeddedPlans();
    await draw();
    return;
  }
  if (document.querySelector("script[data-file], script[data-timeline], #served") === null) {
    start("");
    return;
  }
  nav.hidden = true;
  drawFrame();
  const inside = embedded();
  app.sources = embeddedSources();
  try {
    const kept = embeddedTimelines();
    const { folders, timelines } =
      inside.length + kept.length > 0
        ? { folders: inside, timelines: kept }
        : await served((text) => app.client.show(text));
    if (folders.length + timelines.length > 0) await choose(folders, timelines);
  } catch (error) {
    start(message(error));
  }
}
begin();
