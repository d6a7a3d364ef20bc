// What views ask of all programs: those of an operation, and what encloses them.

import { Grown } from "./grown.js";
import { TextsMaker } from "./texts.js";
import { namesIn } from "./trace.js";

/** The steps of a group of operations. @param {Profile} profile @param {string} layer @param {string} group */
export function stepsOf(profile, layer, group) {
  const names = namesIn(profile),
    { end } = names.programs;
  const { type, op, source } = names;
  /** @type {Record<string, (i: number) => boolean>} */
  const tests = {
    hlo: (i) => (source(i)?.hlo ?? names.name(i)) === group,
    scope: (i) => `${source(i)?.text("layer") || op(i)}/`.startsWith(`${group}/`),
    source: (i) => (source(i)?.where ?? "") === group,
    type: (i) => (source(i)?.text("op_type") || source(i)?.text("opcode") || type(i)) === group,
    opcode: (i) => (source(i)?.text("opcode") ?? type(i)) === group,
  };
  const belongs = tests[layer] ?? ((i) => op(i) === group);
  const found = new Grown(true);
  for (let i = 0; i < end.length; ++i) if (end[i] === i + 1 && belongs(i)) found.push(i);
  return found.whole();
}

/** Bands of steps that are added one by one. */
class Bands {
  constructor() {
    this.begin = new Grown(true);
    this.end = new Grown(true);
    this.text = new TextsMaker();
    this.last = "";
  }

  /** @param {number} begin @param {number} end @param {string} text */
  push(begin, end, text) {
    this.begin.push(begin);
    this.end.push(end);
    this.text.ids.push(this.text.number(text));
    this.last = text;
  }

  /** A step more, in the band before if that has the same text and ends here. @param {number} step @param {string} text */
  grow(step, text) {
    const { data, length } = this.end;
    if (length > 0 && this.last === text && data[length - 1] === step) this.end.raise(step + 1);
    else this.push(step, step + 1, text);
  }

  packed() {
    return { begin: this.begin.whole(), end: this.end.whole(), text: this.text.texts() };
  }
}

/** What encloses each step, outermost first; forward, backward and update where the profile tells.
 * @param {Profile} profile */
export function bands(profile) {
  const names = namesIn(profile),
    { end } = names.programs;
  const { parent } = profile.programColumns();
  const depth = new Int16Array(end.length);
  const outer = new Bands(),
    scopes = new Bands(),
    roles = new Bands();
  let last = -1,
    scope = "";
  for (let i = 0; i < end.length; ++i) {
    depth[i] = parent[i] >= 0 && parent[i] < i ? depth[parent[i]] + 1 : 0;
    if (depth[i] === 1 && end[i] > i + 1) outer.push(i, end[i], names.type(i));
    const id = names.programs.name.ids[i];
    if (id !== last) scope = names.name(i).split("/", 2).join("/");
    last = id;
    scopes.grow(i, scope);
    const role = names.source(i)?.text("role") ?? "";
    if (role !== "") roles.grow(i, role);
  }
  const all = roles.begin.length > 1 ? [outer, roles, scopes] : [outer, scopes];
  return all.map((one) => one.packed());
}
