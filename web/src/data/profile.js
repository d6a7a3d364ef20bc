// One profile, in the worker: its files, results of queries, results that need more than SQL.

import { memberText, readArchive } from "./archive.js";
import { readVariables } from "./capnp.js";
import { readDebug } from "./cbor.js";
import { Complaint, Database, message } from "./database.js";
import { QUERIES } from "./queries.js";

/** The files of a profile and what the page loses without each. */
export const FILES = {
  "profile.pop": "nothing can be shown but this list",
  "vars.capnp": "no variables on chosen tiles, no liveness of chosen tiles, no lines of variables",
  "debug.cbor": "no contexts in the Files view; source lines are in profile.pop too",
  "archive.a": "no text of a tile's memory in the Files view",
  "framework.json": "no graph, no framework options",
  "serialized_graph.hlo": "no HLO text in the Files view",
};

/** The kind of work of a type of program: its letter is a key of KINDS in base/kinds.js. */
const PARTS = [
  "compute",
  "copies",
  "exchange",
  "exchange between IPUs",
  "transfers with the host",
  "collectives",
  "sync",
  "control",
];
const PART_MEMBERS = [
  "compute_cycles",
  "copy_cycles",
  "exchange_cycles",
  "global_exchange_cycles",
  "host_cycles",
  "collective_cycles",
  "sync_cycles",
  "control_cycles",
];

/** @typedef {{size: number, read: () => Promise<Uint8Array>, done?: Promise<void>}} Later */

export class Profile {
  /** @param {any} SQL @param {Map<string, Uint8Array>} files @param {string} name
   * @param {Map<string, Later>} [later] files to read when they are needed */
  constructor(SQL, files, name, later = new Map()) {
    this.files = files;
    this.name = name;
    this.later = later;
    const pop = files.get("profile.pop");
    if (pop === undefined) {
      throw new Complaint(
        "There is no profile.pop here. Choose or drop the folder tf_report__... " +
          'that a program writes with POPLAR_ENGINE_OPTIONS=\'{"autoReport.all":"true"}\'.',
      );
    }
    this.database = new Database(SQL, pop);
    /** @type {Map<string, any>} */
    this.kept = new Map();
    this.meta = this.database.keys("meta");
    this.target = this.database.keys("target");
    this.totals = this.database.keys("totals");
    for (const key of ["bytes_per_tile", "tiles_per_ipu", "clock_frequency"]) {
      if (!(this.target[key] > 0)) {
        throw new Complaint(`profile.pop is damaged: its target does not say '${key}'.`);
      }
    }
  }

  /** Reads a file of `later`; a file that cannot be read counts as missing. @param {string} name */
  async need(name) {
    const file = this.later.get(name);
    if (file === undefined) return;
    file.done ??= file.read().then(
      (data) => void this.files.set(name, data),
      () => {},
    );
    await file.done;
    this.later.delete(name);
  }

  /** The result of `make`, called once. @template T @param {string} key @param {() => T} make @returns {T} */
  once(key, make) {
    if (!this.kept.has(key)) this.kept.set(key, make());
    return this.kept.get(key);
  }

  /** Rows, or none where the table is missing or damaged. @param {string} table @param {string} sql */
  rowsIf(table, sql) {
    return this.database.has(table) ? this.database.rows(sql) : [];
  }

  /** An optional file of the profile. @param {string} name @param {Function} read */
  file(name, read) {
    return this.once(name, () => {
      const data = this.files.get(name);
      if (data === undefined) return { problem: `There is no ${name}: ${FILES[name]}.` };
      try {
        return { value: read(data) };
      } catch (error) {
        return { problem: `${name} is damaged (${message(error)}): ${FILES[name]}.` };
      }
    });
  }

  /** @returns {{value?: import("./capnp.js").Variables, problem?: string}} */
  variables() {
    return this.file("vars.capnp", (/** @type {Uint8Array} */ data) => {
      const all = readVariables(data);
      const count = this.database.value("SELECT count(*) FROM variables");
      if (count !== all.names.length) throw new Error("it belongs to another profile");
      return all;
    });
  }

  archive() {
    return this.file("archive.a", readArchive);
  }

  debug() {
    return this.file("debug.cbor", (/** @type {Uint8Array} */ data) => {
      const maps = readDebug(data);
      if (maps[0].get("stream") !== this.meta.debug_stream) {
        throw new Error("it belongs to another profile");
      }
      return maps;
    });
  }

  framework() {
    return this.file("framework.json", (/** @type {Uint8Array} */ data) => {
      const value = JSON.parse(new TextDecoder().decode(data));
      if (value === null || typeof value !== "object" || !Array.isArray(value.computations)) {
        throw new Error("it has no computations");
      }
      return value;
    });
  }

  /** The data of the summary and of the list of reports. */
  overview() {
    const database = this.database;
    const cycles = Object.fromEntries(PARTS.map((part, i) => [part, this.totals[PART_MEMBERS[i]] ?? 0]));
    cycles.overlapped = this.totals.overlapped_cycles ?? 0;
    const states = Object.keys(FILES).map((name) => ({
      name,
      size: this.files.get(name)?.length ?? this.later.get(name)?.size ?? -1,
      absence: FILES[name],
    }));
    return {
      name: this.name,
      meta: this.meta,
      target: this.target,
      totals: this.totals,
      cycles,
      files: states,
      options: this.rowsIf("engine_options", QUERIES.options),
      notes: this.rowsIf("notes", QUERIES.notes).map((row) => row[0]),
      numTiles: this.rowsIf("ipus", QUERIES.ipus).reduce((sum, row) => sum + row[2], 0) || this.target.tiles_per_ipu,
      ipus: this.rowsIf("ipus", QUERIES.ipus),
      runs: this.rowsIf("runs", QUERIES.runs),
      categories: this.categories(),
      fullestTiles: this.fullestTiles(),
      tables: [...database.tables.keys()],
    };
  }

  /** Name, bytes that are always live, and other bytes of each category, the largest first. SQLite
   * would need half a second to add those of tens of thousands of tiles. */
  categories() {
    if (!this.database.has("vars_info") || !this.database.has("var_categories")) return [];
    const info = this.database.columns("vars_info", ["category", "size_bytes", "always_live"]);
    const names = new Map(this.database.rows(QUERIES.varCategories).map(([id, name]) => [id, name]));
    /** @type {Map<number, [string, number, number]>} */
    const found = new Map();
    for (let i = 0; i < info.category.length; ++i) {
      let row = found.get(info.category[i]);
      if (row === undefined) found.set(info.category[i], (row = [names.get(info.category[i]), 0, 0]));
      row[info.always_live[i] === 1 ? 1 : 2] += info.size_bytes[i];
    }
    return [...found.values()]
      .filter((row) => row[0] !== undefined)
      .sort((a, b) => b[1] + b[2] - a[1] - a[2] || (a[0] < b[0] ? -1 : 1));
  }

  /** The five fullest tiles: tile, bytes with gaps, gaps, always live, other bytes. */
  fullestTiles() {
    if (!this.database.has("memory_by_tile")) return [];
    const names = ["tile", "total_including_gaps", "gaps", "always_live", "not_always_live"];
    const columns = Object.values(this.database.columns("memory_by_tile", names));
    if (columns.length < names.length) return [];
    const [tile, total] = columns;
    return Array.from(tile.keys())
      .sort((a, b) => total[b] - total[a] || tile[a] - tile[b])
      .slice(0, 5)
      .map((i) => columns.map((column) => column[i]));
  }

  frameworkOptions() {
    const { value, problem } = this.framework();
    if (value === undefined) return { problem };
    const { framework, version, tremula, module, options, engineOptions } = value;
    return { value: { framework, version, tremula, module, options, engineOptions } };
  }

  /** Names and numbers of the programs, in order. */
  programs() {
    const database = this.database;
    const numbers = database.columns("programs", [
      "id",
      "parent",
      "end",
      "source",
      "compute_set",
      "ipu",
      "stage",
      "repeat_count",
      "executions",
      "cycles",
      "sync_cycles",
      "cycles_mean",
      "active_tiles",
      "bytes_in",
      "bytes_in_worst",
      "bytes_out",
      "bytes_out_worst",
      "flops",
      "code_bytes",
      "live_bytes",
      "live_worst",
      "live_worst_tile",
      "tile_cycles",
      "stream",
    ]);
    return { ...numbers, ...this.programTexts() };
  }

  programTexts() {
    return {
      name: this.database.texts("programs", "name"),
      type: this.database.texts("programs", "type"),
      /** Whether a compute set's vertices copy: 1. */
      copies: this.copies(),
    };
  }

  /** The data for names of programs. */
  programNames() {
    return { ...this.database.columns("programs", ["end", "source", "compute_set"], 3), ...this.programTexts() };
  }

  /** As rows of sources(): id, name in the HLO, "", name of the operation. */
  sourceNames() {
    if (!this.database.has("sources")) return [];
    const [hlo, op] = this.sourceTexts(["hlo_name", "op_name"]);
    return Array.from(this.database.columns("sources", ["id"]).id, (id, i) => [id, hlo(i), "", op(i)]);
  }

  /** Texts of sources by place; "" where the profile has no such column. @param {string[]} names */
  sourceTexts(names) {
    return names.map((name) => {
      if (!this.database.has("sources", name)) return () => "";
      const { ids, table } = this.database.texts("sources", name);
      return (/** @type {number} */ i) => table[ids[i]];
    });
  }

  copies() {
    const types = new Map(
      this.rowsIf("vertex_types", "SELECT id, name FROM vertex_types").map(([id, name]) => [id, name]),
    );
    if (!this.database.has("vertices")) return new Uint8Array(0);
    const { compute_set, vertex_type } = this.database.columns("vertices", ["compute_set", "vertex_type"]);
    const found = new Uint8Array(compute_set.reduce((most, set) => Math.max(most, set), -1) + 1).fill(2);
    for (let i = 0; i < compute_set.length; ++i) {
      // The first row of a set has its kind.
      if (found[compute_set[i]] === 2)
        found[compute_set[i]] = String(types.get(vertex_type[i])).startsWith("poplar_rt::") ? 1 : 0;
    }
    return found;
  }

  /** id, hlo_name, opcode, op_name, op_type, layer, file, line, plan, note, role of each. */
  sources() {
    const { database } = this;
    if (!database.has("sources")) return [];
    const { id, line } = database.columns("sources", ["id", "line"]);
    const texts = this.sourceTexts([
      "hlo_name",
      "opcode",
      "op_name",
      "op_type",
      "layer",
      "file",
      "plan",
      "note",
      "role",
    ]);
    const [hlo, opcode, op, type, layer, file, plan, note, role] = texts;
    return Array.from(id, (_, i) => [
      id[i],
      hlo(i),
      opcode(i),
      op(i),
      type(i),
      layer(i),
      file(i),
      line[i],
      plan(i) || null,
      note(i) || null,
      role(i),
    ]);
  }

  /** Bytes of chosen tiles by region and category; null: this profile does not have them.
   * @param {number[]} tiles */
  regions(tiles) {
    if (!this.database.has("vars_by_region")) return null;
    return this.database.rows(
      "SELECT r.region, c.name, r.always_live, r.tile, sum(r.size_bytes) FROM vars_by_region AS r " +
        "JOIN var_categories AS c ON c.id = r.category " +
        `WHERE r.tile IN (${tiles.map(Number).join(",")}) GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3`,
    );
  }

  /** The bytes of each stream, and the cycles of its copies in a run. */
  streams() {
    if (!this.database.has("streams") || !this.database.has("programs", "stream")) return null;
    return this.database.rows(
      "SELECT s.id, s.name, s.kind, s.direction, s.bytes, CAST(coalesce(sum(p.cycles * p.executions), 0) " +
        "AS INTEGER), count(p.id) FROM streams AS s LEFT JOIN programs AS p ON p.stream = s.id GROUP BY s.id ORDER BY 6 DESC",
    );
  }

  /** @param {number} set */
  computeSet(set) {
    return {
      set: this.database.rows(QUERIES.computeSet, [set])[0] ?? null,
      vertices: this.database.rows(QUERIES.vertices, [set]),
    };
  }

  /** @param {string} sql */
  ask(sql) {
    if (!/^\s*(select|with|values|explain|pragma\s+table_info)\b/i.test(sql)) {
      throw new Complaint("Only statements that read are run here: begin with SELECT, WITH, VALUES " + "or EXPLAIN.");
    }
    return this.database.ask(sql, 10000);
  }

  schema() {
    return [...this.database.tables]
      .map(([name, table]) => ({ name, columns: table.names }))
      .filter((table) => !table.name.startsWith("sqlite_"));
  }

  /** The text of a file or member for the Files view. @param {string} file @param {string} part */
  raw(file, part) {
    const data = this.files.get(file);
    if (data === undefined) return { problem: `There is no ${file}: ${FILES[file] ?? ""}.` };
    if (file === "archive.a") {
      const { value, problem } = this.archive();
      if (value === undefined) return { problem };
      const range = value.get(part);
      if (range === undefined) return { problem: `archive.a has no member '${part}'.` };
      return { text: memberText(data, range), names: value.size };
    }
    if (file === "debug.cbor") {
      const { value, problem } = this.debug();
      if (value === undefined) return { problem };
      const plain = (/** @type {any} */ one) =>
        one instanceof Map ? Object.fromEntries([...one].map(([key, inner]) => [key, plain(inner)])) : one;
      return {
        text: value
          .slice(0, 5000)
          .map((one) => JSON.stringify(plain(one)))
          .join("\n"),
        cut: value.length > 5000,
      };
    }
    const most = 1 << 20;
    return { text: new TextDecoder().decode(data.subarray(0, most)), cut: data.length > most };
  }
}
