// Sums over rows of the trace: by kind, by operation, by name; balance; a pipeline's grid.

import { Boxes, Grown, inOrder } from "./grown.js";
import { numberOf } from "./texts.js";

/** @typedef {{text: string, cycles: number, rows: number, row: number, most: number}} Group rows of one
 *   name: cycles without overlapped ones, how many rows, the longest */

/** @param {string} name */
export function partsOf(name) {
  return name.split("/").filter(Boolean);
}

/** The rows by their names, made one after the other: there may be a million names.
 * @param {Columns} c @param {Texts} names of programs @param {string} ipu "": all
 * @returns {Iterable<Group>} */
export function byName(c, names, ipu) {
  const sums = new Float64Array(names.count),
    counts = new Int32Array(names.count),
    longest = new Int32Array(names.count),
    order = new Grown(true);
  const cyclesOf = (/** @type {number} */ i) => c.cycles[i] - c.cycles_overlapped[i];
  for (let i = 2; i < c.cycles.length; ++i) {
    const cycles = cyclesOf(i);
    if (cycles <= 0 || (ipu !== "" && c.ipu[i] >= 0 && c.ipu[i] !== Number(ipu))) continue;
    const id = names.ids[c.program[i]];
    if (counts[id]++ === 0) order.push(id);
    sums[id] += cycles;
    if (counts[id] === 1 || cycles > cyclesOf(longest[id])) longest[id] = i;
  }
  return {
    *[Symbol.iterator]() {
      for (let k = 0; k < order.length; ++k) {
        const id = order.data[k],
          row = longest[id];
        yield { text: names.text(id), cycles: sums[id], rows: counts[id], row, most: cyclesOf(row) };
      }
    },
  };
}

/**
 * @param {Columns} c @param {number} lo @param {number} hi cycles since the run's first step
 * @param {(row: number) => string} kindOf @param {(program: number) => string} nameOf
 * @param {number} count of programs
 */
export function rangeSums(c, lo, hi, kindOf, nameOf, count) {
  /** @type {Map<string, number>} */
  const kinds = new Map();
  const programs = new Float64Array(count);
  const sums = { cycles: 0, overlapped: 0, sync: 0, bytesIn: 0, bytesOut: 0, mean: 0, worst: 0, rows: 0 };
  for (let i = 2; i < c.cycles.length; ++i) {
    const begin = c.cycles_base[i],
      cycles = c.cycles[i],
      end = begin + cycles;
    // A row without cycles may move bytes.
    if (cycles < 0 || begin >= hi || (cycles === 0 ? begin < lo : end <= lo)) continue;
    const part = cycles === 0 ? 1 : (Math.min(hi, end) - Math.max(lo, begin)) / cycles;
    const kind = kindOf(i);
    const sync = c.sync_cycles[i] * part;
    kinds.set(kind, (kinds.get(kind) ?? 0) + cycles * part - sync);
    if (sync > 0) kinds.set("S", (kinds.get("S") ?? 0) + sync);
    programs[c.program[i]] += cycles * part;
    sums.cycles += cycles * part;
    sums.overlapped += c.cycles_overlapped[i] * part;
    sums.sync += sync;
    sums.bytesIn += c.data_in[i] * part;
    sums.bytesOut += c.data_out[i] * part;
    sums.rows += 1;
    if (kind === "C" || kind === "P") {
      sums.mean += c.cycles_mean[i] * part;
      sums.worst += cycles * part;
    }
  }
  /** @type {Map<string, number>} */
  const names = new Map();
  programs.forEach((cycles, program) => {
    if (cycles === 0) return;
    const name = nameOf(program);
    names.set(name, (names.get(name) ?? 0) + cycles);
  });
  return { ...sums, kinds, names };
}

/**
 * A pipeline as stage x mini-batch: cycles of each cell, and how busy each stage is.
 * @param {Columns} c @param {(row: number) => string} phaseOf
 */
export function pipelineGrid(c, phaseOf) {
  /** @type {Map<string, {stage: number, batch: number, phase: string, cycles: number, begin: number, end: number}>} */
  const cells = new Map();
  let first = Infinity,
    last = 0,
    stages = 0;
  const hasBatches = c.micro_batch !== undefined;
  const busy = new Map();
  for (let i = 2; i < c.cycles.length; ++i) {
    const stage = c.stage[i];
    if (stage < 0 || c.cycles[i] <= 0) continue;
    stages = Math.max(stages, stage + 1);
    first = Math.min(first, c.cycles_base[i]);
    last = Math.max(last, c.cycles_base[i] + c.cycles[i]);
    busy.set(stage, (busy.get(stage) ?? 0) + c.cycles[i]);
    if (!hasBatches || !(c.micro_batch[i] >= 0)) continue;
    const phase = phaseOf(i);
    const key = `${stage} ${c.micro_batch[i]} ${phase}`;
    const cell = cells.get(key) ?? {
      stage,
      batch: c.micro_batch[i],
      phase,
      cycles: 0,
      begin: c.cycles_base[i],
      end: 0,
    };
    cell.cycles += c.cycles[i];
    cell.end = Math.max(cell.end, c.cycles_base[i] + c.cycles[i]);
    cells.set(key, cell);
  }
  if (stages === 0) return null;
  const span = last - first;
  const rows = Array.from({ length: stages }, (_, stage) => ({
    stage,
    busy: busy.get(stage) ?? 0,
    bubble: Math.max(0, span - (busy.get(stage) ?? 0)),
  }));
  const total = rows.reduce((sum, row) => sum + row.busy, 0);
  const critical = rows.reduce((a, b) => (b.busy > a.busy ? b : a));
  return { rows, span, cells: [...cells.values()], critical: critical.stage, balanced: total / stages, hasBatches };
}

/** The parts of rows' names: cycles of the rows that end with a part, and of those that contain
 * it. @param {Iterable<Group>} groups */
export function frames(groups) {
  /** @type {Map<string, {name: string, self: number, total: number, rows: number}>} */
  const found = new Map();
  for (const { text, cycles, rows } of groups) {
    const parts = partsOf(text);
    for (const name of new Set(parts)) {
      const one = found.get(name) ?? { name, self: 0, total: 0, rows: 0 };
      one.total += cycles;
      one.rows += rows;
      if (name === parts[parts.length - 1]) one.self += cycles;
      found.set(name, one);
    }
  }
  return [...found.values()];
}

/** The parts of names as a tree in arrays: a million objects would stay until they are collected. */
class Tree {
  constructor() {
    this.parent = new Grown();
    this.label = new Grown();
    this.cycles = new Grown();
    this.row = new Grown(); // the longest, which gives the kind of work
    this.most = new Grown();
    this.places = new Int32Array(1024); // by parent and label, or behind it: the frame's number and 1; 0 is free
    this.child(-1, -1);
  }

  /** The place of a frame, or the free one where it belongs. @param {number} parent @param {number} label */
  place(parent, label) {
    const { places } = this,
      most = places.length - 1;
    let at = Math.imul(parent, 0x9e3779b1) ^ Math.imul(label, 0x85ebca6b);
    for (at = (at ^ (at >>> 15)) & most; places[at] !== 0; at = (at + 1) & most) {
      const frame = places[at] - 1;
      if (this.parent.data[frame] === parent && this.label.data[frame] === label) break;
    }
    return at;
  }

  /** @param {number} parent @param {number} label */
  child(parent, label) {
    const at = this.place(parent, label),
      frame = this.parent.length;
    if (this.places[at] !== 0) return this.places[at] - 1;
    this.places[at] = frame + 1;
    this.parent.push(parent);
    this.label.push(label);
    for (const zeros of [this.cycles, this.most]) zeros.push(0);
    this.row.push(-1);
    if (2 * frame > this.places.length) {
      this.places = new Int32Array(2 * this.places.length);
      for (let k = 0; k <= frame; ++k) this.places[this.place(this.parent.data[k], this.label.data[k])] = k + 1;
    }
    return frame;
  }

  /** The children of each frame, the heaviest first: those of k are order[begins[k]] to order[begins[k + 1] - 1]. */
  children() {
    const count = this.parent.length,
      begins = new Int32Array(count + 1),
      order = new Int32Array(count - 1);
    for (let k = 1; k < count; ++k) ++begins[this.parent.data[k]];
    for (let k = 0; k < count; ++k) begins[k + 1] += begins[k];
    // begins[k] is the end of k now, and its begin after all are placed.
    for (let k = count - 1; k > 0; --k) order[--begins[this.parent.data[k]]] = k;
    const cycles = this.cycles.data;
    for (let k = 0; k < count; ++k)
      if (begins[k + 1] > begins[k] + 1)
        inOrder(order.subarray(begins[k], begins[k + 1]), (a, b) => cycles[b] - cycles[a]);
    return { begins, order };
  }
}

/** The same frames merged, heaviest first: levels of boxes as a flame chart has them.
 * @param {Iterable<Group>} groups @param {Map<string, number>} labels of parts, to which it adds
 * @param {(parts: string[]) => string[]} [take] what of each name; nothing: not the group */
export function leftHeavy(groups, labels, take = (parts) => parts) {
  const tree = new Tree();
  for (const { text, cycles, row, most } of groups) {
    const parts = take(partsOf(text));
    if (parts.length === 0) continue;
    tree.cycles.data[0] += cycles;
    let at = 0;
    for (const part of parts) {
      at = tree.child(at, numberOf(labels, part));
      tree.cycles.data[at] += cycles;
    }
    if (most > tree.most.data[at]) {
      tree.row.data[at] = row;
      tree.most.data[at] = most;
    }
  }
  const { begins, order } = tree.children();
  /** @type {Boxes[]} */
  const levels = [];
  /** @param {number} frame @param {number} begin @param {number} depth */
  const place = (frame, begin, depth) => {
    let at = begin;
    for (let k = begins[frame]; k < begins[frame + 1]; ++k) {
      const child = order[k],
        end = at + tree.cycles.data[child];
      const row = begins[child] === begins[child + 1] ? tree.row.data[child] : -1;
      (levels[depth] ??= new Boxes()).push(at, end, tree.label.data[child], row);
      place(child, at, depth + 1);
      at = end;
    }
  };
  place(0, 0, 0);
  return { total: tree.cycles.data[0], levels: levels.map((boxes) => boxes.level()) };
}
