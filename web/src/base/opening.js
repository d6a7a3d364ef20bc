// Opening reports: files of the user's, files inside the page, files of `tremula view`.

import { fromBase64, unpacked } from "./client.js";

/** @typedef {{name: string, data: Blob|ArrayBuffer, packed: boolean}} Given */
/** @typedef {{name: string, files: Given[], modified: number}} Folder */

const NAMES = ["profile.pop", "vars.capnp", "debug.cbor", "archive.a", "framework.json", "serialized_graph.hlo"];

/** @param {{path: string, file: File}[]} found
 * @returns {{folders: Folder[], others: File[], timelines: Given[]}} */
export function group(found) {
  /** @type {Map<string, Map<string, File>>} */
  const folders = new Map();
  const others = [];
  /** @type {Given[]} */
  const timelines = [];
  for (const { path, file } of found) {
    const at = path.lastIndexOf("/");
    const folder = at < 0 ? "" : path.slice(0, at),
      name = path.slice(at + 1);
    if (name.endsWith(".pvti")) {
      timelines.push({ name, data: file, packed: false });
      continue;
    }
    if (!NAMES.includes(name)) {
      others.push(file);
      continue;
    }
    if (!folders.has(folder)) folders.set(folder, new Map());
    folders.get(folder)?.set(name, file);
  }
  const reports = [];
  for (const [folder, files] of folders) {
    const only = [...files.keys()].every((name) => name === "debug.cbor");
    if (only && folders.size > 1) continue;
    if (!files.has("debug.cbor")) {
      for (let up = folder; up !== "";) {
        up = up.includes("/") ? up.slice(0, up.lastIndexOf("/")) : "";
        const debug = folders.get(up)?.get("debug.cbor");
        if (debug !== undefined) files.set("debug.cbor", debug);
      }
    }
    reports.push({
      name: folder.split("/").pop() || "profile",
      modified: Math.max(...[...files.values()].map((file) => file.lastModified)),
      files: [...files].map(([name, file]) => ({ name, data: file, packed: false })),
    });
  }
  return { folders: reports, others, timelines };
}

/** Files of an input, with their paths. @param {FileList|null} list */
export function chosen(list) {
  return [...(list ?? [])].map((file) => ({ path: file.webkitRelativePath || file.name, file }));
}

/** The files that were dropped, and those in dropped folders. @param {DataTransfer} transfer */
export async function dropped(transfer) {
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  if (entries.length === 0) return chosen(transfer.files);
  /** @type {{path: string, file: File}[]} */
  const found = [];
  /** @param {any} entry @param {number} depth */
  const walk = async (entry, depth) => {
    if (found.length > 20000 || depth > 6) return;
    if (entry.isFile) {
      const file = await new Promise((resolve, reject) => entry.file(resolve, reject));
      found.push({ path: entry.fullPath.replace(/^\//, ""), file });
      return;
    }
    const reader = entry.createReader();
    for (;;) {
      const some = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
      if (some.length === 0) return;
      for (const one of some) await walk(one, depth + 1);
    }
  };
  for (const entry of entries) await walk(entry, 0);
  return found;
}

/** The reports that `tremula report --html` put into the page. @returns {Folder[]} */
export function embedded() {
  /** @type {Map<string, Folder>} */
  const reports = new Map();
  for (const block of document.querySelectorAll("script[data-report]")) {
    const { report = "0", folder = "profile", file = "" } = /** @type {HTMLElement} */ (block).dataset;
    if (!reports.has(report)) reports.set(report, { name: folder, files: [], modified: 0 });
    const bytes = fromBase64(block.textContent ?? "");
    reports.get(report)?.files.push({ name: file, data: /** @type {any} */ (bytes.buffer), packed: true });
    block.remove();
  }
  return [...reports.values()];
}

/** The plans that `tremula plan --html` put into the page, or null. @returns {Promise<any>} */
export async function embeddedPlans() {
  const block = document.querySelector("script[data-plan]");
  return block === null ? null : unpacked(block).json();
}

/** The timelines of the host in the page. @returns {Given[]} */
export function embeddedTimelines() {
  return [...document.querySelectorAll("script[data-timeline]")].map((block) => {
    const bytes = fromBase64(block.textContent ?? "");
    block.remove();
    const name = /** @type {HTMLElement} */ (block).dataset.timeline ?? "";
    return { name, data: /** @type {any} */ (bytes.buffer), packed: true };
  });
}

/** Texts of source files in the page (--with-source). @returns {Map<string, string>} */
export function embeddedSources() {
  const texts = new Map();
  for (const block of document.querySelectorAll("script[data-source]")) {
    const bytes = fromBase64(block.textContent ?? "");
    texts.set(/** @type {HTMLElement} */ (block).dataset.source ?? "", new TextDecoder().decode(bytes));
  }
  return texts;
}

/** The files that `tremula view` serves. @param {(text: string) => void} progress
 * @returns {Promise<{folders: Folder[], timelines: Given[]}>} */
export async function served(progress) {
  const block = document.getElementById("served");
  if (block === null) return { folders: [], timelines: [] };
  const reports = JSON.parse(block.textContent ?? "[]");
  for (const report of reports) {
    for (const file of report.files) {
      progress(`Fetching ${file.name}`);
      const answer = await fetch(new URL(file.url, location.href));
      if (!answer.ok)
        throw new Error(`${file.name} could not be fetched (${answer.status}). Is tremula view still running?`);
      file.data = await answer.blob(); // the browser may keep a large one on disk
      file.packed = false;
    }
  }
  const isTimeline = (one) => one.timeline === true;
  return {
    folders: reports.filter((one) => !isTimeline(one)),
    timelines: reports.filter(isTimeline).flatMap((one) => one.files),
  };
}
