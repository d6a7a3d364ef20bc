// The name of a program and its kind of work, for the worker and the page.

import { kindOf } from "../base/kinds.js";

/** @param {any} programs @param {any[][]} sources rows: id, name in the HLO, opcode, operation ... */
export function namesOf(programs, sources) {
  const byId = new Map(sources.map((row) => [row[0], row]));
  const letters = [false, true].map((copies) =>
    programs.type.table.map((/** @type {string} */ type) => kindOf(type, copies)),
  );
  const name = (/** @type {number} */ p) =>
    p === -1
      ? "waiting for the host"
      : p === -2
        ? "loading the program"
        : (programs.name.table[programs.name.ids[p]] ?? "");
  const op = (/** @type {number} */ p) => {
    const source = byId.get(programs.source[p]);
    return source?.[3] || source?.[1] || name(p);
  };
  return {
    programs,
    name,
    /** @param {number} p */
    type: (p) => programs.type.table[programs.type.ids[p]] ?? "",
    /** @param {number} p */
    letter: (p) =>
      p === -1
        ? "W"
        : p === -2
          ? "L"
          : (letters[programs.copies[programs.compute_set[p]] === 1 ? 1 : 0][programs.type.ids[p]] ?? "T"),
    /** @param {number} p @returns {any[]|undefined} */
    source: (p) => byId.get(programs.source[p]),
    /** The operation as `tremula report` names it. */
    op,
  };
}

/** Whether a row of a loop or a call takes more than the loop itself: it stands for the steps inside.
 * @param {import("./trace.js").Columns} c @param {ArrayLike<number>} ends of programs */
export function standsFor(c, ends) {
  return (/** @type {number} */ row) =>
    c.iterations[row] > 1 || (ends[c.program[row]] > c.program[row] + 1 && c.cycles[row] > 100);
}
