// Two profiles side by side: operations aligned by name, then by scope and type in their order.

import { operationsSeen } from "./operations.js";
import { unpack } from "./records.js";

/** @typedef {{name: string, layer: string, plan: string, opType: string, opcode: string, cycles: number,
 *   temporary: number, first: number}} Operation */
/** @typedef {{name: string, a: Operation|null, b: Operation|null, how: string}} Pair */

/** Places of a longest common subsequence: pairs of places. @param {string[]} a @param {string[]} b */
export function commonSubsequence(a, b) {
  if (a.length * b.length > 4e6) return [];
  const wide = b.length + 1;
  const best = new Int32Array((a.length + 1) * wide);
  for (let i = a.length - 1; i >= 0; --i) {
    for (let j = b.length - 1; j >= 0; --j) {
      best[i * wide + j] =
        a[i] === b[j] ? best[(i + 1) * wide + j + 1] + 1 : Math.max(best[(i + 1) * wide + j], best[i * wide + j + 1]);
    }
  }
  const pairs = [];
  for (let i = 0, j = 0; i < a.length && j < b.length;) {
    if (a[i] === b[j]) pairs.push([i++, j++]);
    else if (best[(i + 1) * wide + j] >= best[i * wide + j + 1]) ++i;
    else ++j;
  }
  return pairs;
}

/** Operations as the page gets them. @param {Profile} profile @returns {Operation[]} */
function operationsOf(profile) {
  return unpack(operationsSeen(profile)).map(({ name, layer, plan, opType, opcode, cycles, temporary, first }) => ({
    name,
    layer,
    plan,
    opType,
    opcode,
    cycles,
    temporary,
    first,
  }));
}

/** @param {Profile} a @param {Profile} b */
export function comparePairs(a, b) {
  const left = operationsOf(a),
    right = operationsOf(b);
  const byName = new Map(right.map((one) => [one.name, one]));
  /** @type {Pair[]} */
  const pairs = [];
  const lonely = [];
  for (const one of left) {
    const other = byName.get(one.name);
    if (other === undefined) lonely.push(one);
    else pairs.push({ name: one.name, a: one, b: other, how: "name" });
    byName.delete(one.name);
  }
  const rest = [...byName.values()];
  const inOrder = (/** @type {Operation[]} */ list) => list.sort((x, y) => x.first - y.first);
  inOrder(lonely);
  inOrder(rest);
  // Layers that were renamed: pairs of the same kind of op in the same scope, without digits.
  const like = (/** @type {Operation} */ one) => `${one.layer.replace(/\d+/g, "#")}|${one.opType || one.opcode}`;
  const matched = commonSubsequence(lonely.map(like), rest.map(like));
  const takenA = new Set(),
    takenB = new Set();
  for (const [i, j] of matched) {
    if (lonely[i].opType === "" && lonely[i].opcode === "") continue;
    takenA.add(i);
    takenB.add(j);
    pairs.push({ name: `${lonely[i].name} → ${rest[j].name}`, a: lonely[i], b: rest[j], how: "scope and type" });
  }
  lonely.forEach((one, i) => {
    if (!takenA.has(i)) pairs.push({ name: one.name, a: one, b: null, how: "gone" });
  });
  rest.forEach((one, j) => {
    if (!takenB.has(j)) pairs.push({ name: one.name, a: null, b: one, how: "new" });
  });
  const change = (/** @type {Pair} */ p) => Math.abs((p.b?.cycles ?? 0) - (p.a?.cycles ?? 0));
  return pairs.sort((x, y) => change(y) - change(x) || (x.name < y.name ? -1 : 1));
}
