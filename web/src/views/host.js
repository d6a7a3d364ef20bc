// The host's timelines: lanes over those of the IPUs, a chart of their own, their marks as a table.

import { clockText } from "../charts/host.js";
import { flamePainter, laneMoves, lanesHeight } from "../charts/flame.js";
import { Plot } from "../charts/plot.js";
import { h, panel } from "../base/dom.js";
import { decimal, grouped } from "../base/format.js";
import { column, table } from "../base/table.js";
import { heatmapPanel } from "./heatmap.js";

const TONES = ["#7b5ea7", "#66c2a5", "#a05d2c", "#5b7fb5", "#b8a13c", "#a6567c", "#6f8f3f", "#8a94a3"];
const LINE = "#c2452d";
const DAY = 86400e6;
const MOST_LANES = 48;
const FIRST_HOST = 1 << 20; // pid in Perfetto; the instances are 1, 2, ...

/** The begin of a run in µs since 1970, as in `tremula trace`: its own start, or the end of the runs
 * before it if that is later. @param {any} o overview @param {any[]} run */
function beganAt(o, run) {
  const clock = o.target.clock_frequency;
  let most = -Infinity;
  for (const first of o.runs) {
    if (first[0] > run[0]) continue;
    const between = o.runs.filter((one) => one[0] >= first[0] && one[0] < run[0]);
    const cycles = between.reduce((sum, one) => sum + one[5] - one[3], 0);
    most = Math.max(most, o.meta.first_run_us + first[6] * 1e6 + (cycles / clock) * 1e6);
  }
  return most;
}

/** The timelines above the run's lanes, the others, and the reason for these. x is in cycles since
 * the run began to wait. @param {App} app @param {any[]|null} run */
export function align(app, run) {
  const o = app.overview,
    notes = [...app.timelineFaults];
  // Of several reports' timelines, those of this one's process.
  const process = /__(\d+)$/.exec(o.name)?.[1],
    own = app.timelines.filter((one) => one.name.endsWith(`_${process}.pvti`));
  const timelines = app.reports.length > 1 && own.length > 0 ? own : app.timelines;
  /** @type {Timeline[]} */
  let over = [];
  let apart = timelines;
  let place = (/** @type {number} */ us) => us,
    wall = place;
  if (timelines.length > 0 && run === null)
    notes.push("This profile has no runs, so the host's timeline has an axis of its own, below.");
  else if (timelines.length > 0 && !(o.meta.first_run_us > 0))
    notes.push(
      "This profile does not say when its first run began (an older Tremula wrote it), so the host's timeline has " +
        "an axis of its own, below.",
    );
  else if (timelines.length > 0 && run !== null) {
    const began = beganAt(o, run),
      scale = o.target.clock_frequency / 1e6;
    place = (us) => run[3] + (us - began) * scale;
    wall = (x) => began + (x - run[3]) / scale;
    over = timelines.filter((one) => began > one.begin - DAY && began < one.end + DAY);
    apart = timelines.filter((one) => !over.includes(one));
    for (const one of apart)
      notes.push(
        `${one.name} is of another day than this run: its marks begin on ${new Date(one.begin / 1e3).toUTCString()}, ` +
          `the run on ${new Date(began / 1e3).toUTCString()}. It stands below.`,
      );
  }
  return { over, apart, notes, place, wall };
}

/** The letters of channels: the first free one of the name, small to differ from kinds.
 * @param {string[]} names */
function lettersOf(names) {
  /** @type {Map<string, string>} */
  const found = new Map();
  for (const name of names) {
    const choices = [...`${name.toLowerCase()}abcdefghijklmnopqrstuvwxyz`].filter((one) => /[a-z]/.test(one));
    found.set(name, choices.find((one) => ![...found.values()].includes(one)) ?? "?");
  }
  return found;
}

/** @param {string} text */
function cut(text) {
  return text.length > 80 ? `${text.slice(0, 79)}…` : text;
}

/** How much a thread does in a range: the time of its outer marks, and the least for each moment.
 * @param {Lane} lane @param {number} from @param {number} to @param {number} least */
function workOf(lane, from, to, least) {
  let sum = 0;
  for (const [depth, { kind, begin, end }] of lane.levels.entries()) {
    if (depth > 0 && kind !== "moments") continue;
    for (let i = 0; i < begin.length; ++i) {
      if (end[i] < from || begin[i] > to) continue;
      sum += kind === "moments" ? least : Math.min(end[i], to) - Math.max(begin[i], from);
    }
  }
  return sum;
}

/** Threads that do most first; those that do less than a pixel shows are one lane, until that is opened.
 * @param {Lane[]} lanes @param {[number, number]} range @param {boolean} open @param {Lane} fold */
function arrange(lanes, [from, to], open, fold) {
  const least = (to - from) / 1000;
  const threads = lanes
    .filter((lane) => lane.levels[0].kind !== "line")
    .map((lane) => ({ lane, work: workOf(lane, from, to, least) }))
    .sort((a, b) => b.work - a.work);
  const idle = threads.filter(({ work }) => work < least).map(({ lane }) => lane);
  const folds = idle.length > 1 || (idle.length === 1 && idle[0].levels.length > 1);
  const shown = threads.filter(({ work }) => !folds || work >= least).map(({ lane }) => lane);
  const series = lanes.filter((lane) => lane.levels[0].kind === "line");
  return {
    lanes: [...shown, ...(folds ? [fold, ...(open ? idle : [])] : []), ...series],
    idle: folds ? idle.length : 0,
  };
}

/** Lanes of timelines, whose rows are counted from `first` on; behind them, a row for the threads that are folded.
 * @param {Timeline[]} timelines @param {(us: number) => number} place @param {number} first @param {number} firstLabel
 * @param {[number, number]} range in which a thread that does nothing is idle @param {boolean} open: idle ones too */
export function hostLanes(timelines, place, first, firstLabel, range, open) {
  /** @type {any[]} */
  const lanes = [];
  /** @type {string[]} */
  const labels = [];
  /** @type {[Timeline, number][]} */
  const rows = [];
  const channels = [...new Set(timelines.flatMap((one) => one.channels))];
  const letters = lettersOf(channels);
  // A process that is the only one need not stand beside each thread.
  const threadTitles = timelines.flatMap((one) => one.lanes.map((lane) => lane.title.split(" · process ")));
  const isOne = new Set(threadTitles.map((parts) => parts[1]).filter(Boolean)).size === 1;
  for (const one of timelines) {
    const labelBase = firstLabel + labels.length,
      rowBase = first + rows.length;
    for (const lane of one.lanes) {
      lanes.push({
        title: cut(isOne ? lane.title.split(" · process ")[0] : lane.title),
        levels: lane.levels.map((level) => ({
          ...level,
          begin: level.begin.map(place),
          end: level.end.map(place),
          label: level.label.map((id) => id + labelBase),
          row: level.row.map((id) => id + rowBase),
        })),
      });
    }
    labels.push(...one.labels);
    for (let i = 0; i < one.ts.length; ++i) rows.push([one, i]);
  }
  const begin = Math.min(...timelines.map((one) => place(one.begin))),
    end = Math.max(...timelines.map((one) => place(one.end)));
  const foldRow = first + rows.length;
  const fold = {
    title: "",
    folds: true,
    levels: [
      {
        begin: Float64Array.of(Math.min(0, begin, range[0])),
        end: Float64Array.of(Math.max(end, range[1])),
        label: Int32Array.of(firstLabel + labels.length),
        row: Int32Array.of(foldRow),
      },
    ],
  };
  const arranged = arrange(lanes, range, open, fold),
    { idle } = arranged;
  const foldText = `${open ? "▾" : "▸"} ${idle} idle thread${idle === 1 ? "" : "s"}`;
  labels.push(foldText);
  const channelOf = (/** @type {number} */ row) => {
    if (row === foldRow) return "";
    const [one, i] = rows[row - first];
    return one.channels[one.channel[i]] ?? "";
  };
  const isNumber = (/** @type {number} */ row) =>
    row !== foldRow && !Number.isNaN(rows[row - first][0].value[rows[row - first][1]]);
  const used = channels.filter((name) => timelines.some((one) => one.channel.some((c) => one.channels[c] === name)));
  const toneOf = (/** @type {string} */ name) => TONES[Math.max(0, channels.indexOf(name)) % TONES.length];
  return {
    lanes: arranged.lanes.slice(0, MOST_LANES),
    left: Math.max(0, arranged.lanes.length - MOST_LANES),
    idle,
    foldRow,
    labels,
    rows,
    first,
    begin,
    end,
    colourOf: (/** @type {number} */ row) => (row === foldRow ? "soft" : isNumber(row) ? LINE : toneOf(channelOf(row))),
    letterOf: (/** @type {number} */ row) => letters.get(channelOf(row)) ?? "",
    channelOf,
    legend: used.map((name) => /** @type {[string, string]} */ ([toneOf(name), `${letters.get(name)} host: ${name}`])),
    has: (/** @type {number} */ row) => row >= first && row < foldRow + (idle > 0 ? 1 : 0),
    tip: (/** @type {number} */ row) =>
      row === foldRow
        ? `${foldText.slice(2)}\nEnter or a click ${open ? "folds" : "shows"} them`
        : tipOf(rows[row - first], channelOf(row)),
  };
}

/** @typedef {ReturnType<typeof hostLanes>} Hosts */
/** @typedef {import("../charts/flame.js").Lane} Lane */

/** @param {[Timeline, number]} one @param {string} channel */
function tipOf([line, i], channel) {
  const name = line.labels[line.label[i]],
    at = `at ${clockText(line.ts[i])} UTC`;
  if (!Number.isNaN(line.value[i])) return `${name}: ${line.value[i]}\n${at}`;
  const long = Number.isNaN(line.dur[i]) ? "a moment" : `${decimal(line.dur[i], 2)} µs`;
  return `${name}\n${long}, ${at}\nchannel ${channel}\n${line.lanes[line.lane[i]]?.title ?? ""}`;
}

/** @param {Hosts} hosts */
export function hostTable(hosts) {
  const of = (/** @type {number} */ i) => hosts.rows[i];
  return table({
    name: "Marks of the host",
    id: "host-table",
    rows: Array.from(hosts.rows.keys()),
    keyOf: (i) => String(i),
    columns: [
      column("id", "Row", "number", (i) => i),
      column("label", "Mark", "text", (i) => of(i)[0].labels[of(i)[0].label[of(i)[1]]]),
      column("channel", "Channel", "text", (i) => hosts.channelOf(hosts.first + i)),
      column("lane", "Lane", "text", (i) => of(i)[0].lanes[of(i)[0].lane[of(i)[1]]]?.title ?? ""),
      column("ts_us", "Time (UTC)", "number", (i) => of(i)[0].ts[of(i)[1]], {
        cell: (i) => [clockText(of(i)[0].ts[of(i)[1]])],
      }),
      column("dur_us", "µs", "real", (i) => of(i)[0].dur[of(i)[1]], { sum: true }),
      column("value", "Value", "real", (i) => of(i)[0].value[of(i)[1]]),
    ],
  });
}

/** A button that opens files or a folder beside those that are open.
 * @param {App} app @param {string} text @param {string} id @param {boolean} folder
 * @param {boolean} [second] a profile is the second of two */
export function chooseMore(app, text, id, folder, second = false) {
  const input = h("input.unseen", {
    type: "file",
    multiple: true,
    webkitdirectory: folder,
    accept: folder ? undefined : ".pvti",
    id,
    tabindex: -1,
    "aria-label": text,
    "aria-hidden": "true",
    onchange: (e) => app.take(e.target.files, second),
  });
  return [h("button", { "data-focus": id, onclick: () => input.click() }, text), input];
}

/** Timelines without a profile. @param {App} app */
export function hostPage(app) {
  return h(
    "div.view",
    h("div.title", h("h1", "Timeline of the host"), h("p", "What this program did on the host.")),
    app.timelineFaults.map((text) => h("p.note.bad", { role: "alert" }, text)),
    h(
      "div.bar",
      chooseMore(app, "Add a profile's folder …", "more-folder", true),
      chooseMore(app, "Add timelines …", "more-timelines", false),
    ),
    hostPanel(app, app.timelines),
    heatmapPanel(app, app.timelines),
  );
}

/** Whether idle threads are shown. @param {App} app */
export function isOpen(app) {
  return app.state.get("idle") === "open";
}

/** The button that shows idle threads. @param {App} app @param {Hosts} hosts */
export function idleToggle(app, hosts) {
  return hosts.idle > 0 && app.toggle(`Idle threads (${hosts.idle})`, "idle", isOpen(app), isOpen(app) ? null : "open");
}

/** Chooses a mark, or opens and folds the idle threads. @param {App} app @param {Hosts} hosts @param {number} row */
export function pickMark(app, hosts, row) {
  if (row === hosts.foldRow) app.state.set({ idle: isOpen(app) ? null : "open" });
  else app.state.set({ mark: row - hosts.first });
}

/** The mark that was chosen. @param {App} app @param {Hosts} hosts */
export function markPanel(app, hosts) {
  const row = hosts.first + app.state.number("mark", -1);
  if (app.state.get("mark") === "" || !hosts.has(row) || row === hosts.foldRow) return null;
  return panel("Chosen mark", h("pre.text", { id: "chosen-mark" }, hosts.tip(row)));
}

/** Timelines on an axis of their own. @param {App} app @param {Timeline[]} timelines */
export function hostPanel(app, timelines) {
  const { state } = app;
  const zero = Math.min(...timelines.map((one) => one.begin));
  const total = Math.max(1, ...timelines.map((one) => one.end - zero));
  const hosts = hostLanes(timelines, (us) => us - zero, 0, 0, [0, total], isOpen(app));
  const { lanes, labels } = hosts;
  /** @type {Plot} */
  let plot;
  const moves = laneMoves(lanes, () => plot);
  plot = new Plot({
    id: "host-chart",
    name: "Timeline of the host, in µs from its first mark on",
    height: Math.max(120, lanesHeight(lanes) + 14),
    domain: [0, total],
    least: 1,
    range: state.range("hz"),
    summary: `${grouped(hosts.rows.length)} marks and numbers over ${grouped(total)} µs.`,
    legend: hosts.legend,
    paint: flamePainter({
      lanes,
      textOf: (label) => labels[label],
      kind: "number",
      colourOf: hosts.colourOf,
      letterOf: hosts.letterOf,
      hatched: () => false,
      chosen: (row) => state.get("mark") === String(row),
      wall: (x) => x + zero,
    }),
    tip: (x, y) => {
      const box = moves.boxAt(x, y);
      return box === null ? "" : hosts.tip(box.level.row[box.at]);
    },
    step: moves.step,
    onkey: moves.onkey,
    speak: (text) => app.speak(text || "nothing here"),
    onzoom: (lo, hi) => state.keepRange("hz", lo, hi, total),
    onpick: (x, y) => {
      const box = moves.boxAt(x, y);
      if (box !== null) pickMark(app, hosts, box.level.row[box.at]);
    },
    twin: () => hostTable(hosts),
  });
  plot.cursorY = 20;
  const isEmpty = hosts.rows.length === 0;
  return h(
    "div.view",
    !isEmpty && panel("Host", h("div.bar", idleToggle(app, hosts)), plot.element, leftNote(hosts)),
    markPanel(app, hosts),
  );
}

/** @param {Hosts} hosts */
export function leftNote(hosts) {
  return hosts.left > 0 && h("p.note", `${grouped(hosts.left)} more lanes are in the table only.`);
}

/** Marks as Chrome's trace events. @param {Hosts} hosts @param {(us: number) => number} place to the trace's µs */
export function hostEvents(hosts, place) {
  /** @type {any[]} */
  const events = [];
  const named = new Set(),
    pids = new Map();
  hosts.rows.forEach(([one, i], at) => {
    const name = one.labels[one.label[i]],
      lane = one.lane[i];
    if (!pids.has(one)) pids.set(one, FIRST_HOST + pids.size);
    const pid = pids.get(one);
    const base = { pid, tid: lane, name, ts: place(one.ts[i]), cat: hosts.channelOf(hosts.first + at) };
    if (!named.has(`${pid} ${lane}`)) {
      named.add(`${pid} ${lane}`);
      events.push({ ph: "M", pid, tid: lane, name: "thread_name", args: { name: one.lanes[lane]?.title ?? "" } });
    }
    if (!Number.isNaN(one.value[i])) events.push({ ...base, ph: "C", args: { value: one.value[i] } });
    else if (Number.isNaN(one.dur[i])) events.push({ ...base, ph: "i", s: "t" });
    else events.push({ ...base, ph: "X", dur: one.dur[i] });
  });
  return events;
}
