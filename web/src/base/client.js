// The page's side of the worker: questions, answers, progress.

import { bytesIn } from "../data/buffers.js";

const MOST_KEPT = 96e6; // bytes of answers, and those of the view that is shown

/** Descriptions of calls that take longer than 100 ms. @type {Record<string, string>} */
const DOING = {};
for (const method of ["trace", "flame", "working"]) DOING[method] = "Reading the rows of the trace …";
for (const method of ["sums", "heavy", "sandwich", "pipeline"]) DOING[method] = "Adding up the rows of the trace …";
DOING.perfetto = "Writing the rows of the trace …";

export class Client {
  /** @param {(text: string, cancel: (() => void)|null) => void} progress "": the worker is idle */
  constructor(progress) {
    this.progress = progress;
    /** @type {Map<number, {resolve: Function, reject: Function}>} */
    this.waiting = new Map();
    /** @type {Map<string, {answer: Promise<any>, bytes: number, view: string}>} in the order of their last use */
    this.kept = new Map();
    this.view = ""; // that asks
    this.last = 0;
    /** @type {Promise<Worker>} */
    this.worker = this.start();
  }

  async start() {
    const source = await unpacked(document.getElementById("worker")).blob();
    const worker = new Worker(URL.createObjectURL(new Blob([source], { type: "text/javascript" })));
    worker.onmessage = (event) => this.take(event.data);
    worker.onerror = (event) => {
      for (const { reject } of this.waiting.values()) reject(new Error(event.message));
      this.waiting.clear();
      this.show("");
    };
    return worker;
  }

  /** @param {string} text */
  show(text) {
    this.progress(text, text === "" ? null : () => this.cancel());
  }

  /** Ends the worker's call; the reports must be opened again. */
  async cancel() {
    (await this.worker).terminate();
    for (const { reject } of this.waiting.values()) reject(new Error("It was cancelled."));
    this.waiting.clear();
    this.kept.clear();
    this.worker = this.start();
    this.show("");
    this.cancelled();
  }

  cancelled() {}

  /** @param {any} message */
  take(message) {
    const one = this.waiting.get(message.id);
    if (one === undefined) return;
    if (message.progress !== undefined) {
      this.show(message.progress);
      return;
    }
    this.waiting.delete(message.id);
    if (this.waiting.size === 0) this.show("");
    if (message.problem !== undefined) one.reject(new Error(message.problem));
    else one.resolve(message.value);
  }

  /** @param {number} report @param {string} method @param {any[]} args @returns {Promise<any>} */
  async send(report, method, args) {
    const worker = await this.worker;
    const id = ++this.last;
    const timer = setTimeout(() => this.show(DOING[method] ?? "Reading the profile …"), 100);
    try {
      return await new Promise((resolve, reject) => {
        this.waiting.set(id, { resolve, reject });
        worker.postMessage({ id, report, method, arguments: args }, method === "open" ? buffersOf(args[0].files) : []);
      });
    } finally {
      clearTimeout(timer);
    }
  }

  /** Asks the worker once for each question, and keeps the answers that were asked for last.
   * @param {number} report @param {string} method @param {...any} args @returns {Promise<any>} */
  ask(report, method, ...args) {
    const key = `${report} ${method} ${JSON.stringify(args)}`;
    let found = this.kept.get(key);
    if (found === undefined) {
      const one = { answer: this.send(report, method, args), bytes: 0, view: "" };
      found = one;
      one.answer.then(
        (value) => {
          one.bytes = bytesIn(value);
          this.trim();
        },
        () => this.kept.delete(key),
      );
    }
    found.view = this.view;
    this.kept.delete(key);
    this.kept.set(key, found);
    return found.answer;
  }

  trim() {
    let sum = 0;
    for (const [key, { bytes, view }] of [...this.kept].reverse()) {
      sum += bytes;
      if (sum > MOST_KEPT && bytes > 0 && view !== this.view) this.kept.delete(key);
    }
  }

  forget() {
    this.kept.clear();
  }
}

/** The buffers to move to the worker, not to copy. @param {{data: Blob|ArrayBuffer}[]} files */
function buffersOf(files) {
  return /** @type {ArrayBuffer[]} */ (files.map((one) => one.data).filter((data) => data instanceof ArrayBuffer));
}

/** What a block of the page holds, packed. @param {Element|null} block */
export function unpacked(block) {
  const stream = new Blob([fromBase64(block?.textContent ?? "")]).stream();
  return new Response(stream.pipeThrough(new DecompressionStream("gzip")));
}

/** @param {string} text @returns {Uint8Array<ArrayBuffer>} */
export function fromBase64(text) {
  const native = /** @type {any} */ (Uint8Array).fromBase64;
  if (native !== undefined) return native.call(Uint8Array, text);
  const binary = atob(text.trim());
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; ++i) bytes[i] = binary.charCodeAt(i);
  return bytes;
}
