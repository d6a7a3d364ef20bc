// One profile, in the worker: its files, results of queries, results that need more than SQL.

import { memberText, readArchive } from "./archive.js";
import { copyOf } from "./buffers.js";
import { readVariables } from "./capnp.js";
import { readDebug } from "./cbor.js";
import { message } from "../base/format.js";
import { Complaint, Database } from "./database.js";
import { SOURCE_TEXTS } from "./names.js";
import { QUERIES } from "./queries.js";
import { variablesIn } from "./variables.js";

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

const RUN =
  "id name cycles_base wait_cycles load_cycles cycles start_seconds wait_seconds host_seconds infeed_wait_seconds first_row".split(
    " ",
  );

const PROGRAM = (
  "id parent end source compute_set ipu stage tile_cycles repeat_count executions cycles sync_cycles cycles_mean " +
  "active_tiles bytes_in bytes_in_worst bytes_out bytes_out_worst flops code_bytes live_bytes live_worst " +
  "live_worst_tile stream"
).split(" ");
const TREE = 8; // columns of a program that more views need than those that show its numbers

/** @typedef {{size: number, read: () => Promise<Uint8Array>, done?: Promise<void>}} Later */

export class Profile {
  /** @param {Map<string, any>} files their bytes: of profile.pop Bytes, else a Uint8Array
   * @param {string} name @param {Map<string, Later>} [later] files to read when they are needed */
  constructor(files, name, later = new Map()) {
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
    this.database = new Database(pop);
    /** @type {Map<string, any>} */
    this.kept = new Map();
    /** @type {Record<string, any>} */
    this.meta = {};
    this.target = this.meta;
    this.totals = this.meta;
  }

  /** Reads what the summary shows. Most profiles need no SQLite for it; else Unbegun is thrown. */
  open() {
    const database = this.database.open();
    this.meta = database.keys("meta");
    this.target = database.keys("target");
    this.totals = database.keys("totals");
    for (const key of ["bytes_per_tile", "tiles_per_ipu", "clock_frequency"]) {
      if (!(this.target[key] > 0)) {
        throw new Complaint(`profile.pop is damaged: its target does not say '${key}'.`);
      }
    }
    return this.overview();
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

  /** The result of `make`, called again if the memory was needed. @template {object} T
   * @param {string} key @param {() => T} make @returns {T} */
  lightly(key, make) {
    let value = this.kept.get(key)?.deref();
    if (value === undefined) this.kept.set(key, new WeakRef((value = make())));
    return value;
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
    return this.file("vars.capnp", (data) => {
      const all = readVariables(data);
      if (variablesIn(this).count !== all.names.length) throw new Error("it belongs to another profile");
      return all;
    });
  }

  archive() {
    return this.file("archive.a", readArchive);
  }

  debug() {
    return this.file("debug.cbor", (data) => {
      const maps = readDebug(data);
      if (maps[0].get("stream") !== this.meta.debug_stream) {
        throw new Error("it belongs to another profile");
      }
      return maps;
    });
  }

  framework() {
    return this.file("framework.json", (data) => {
      const value = JSON.parse(new TextDecoder().decode(data));
      if (value === null || typeof value !== "object" || !Array.isArray(value.computations)) {
        throw new Error("it has no computations");
      }
      return value;
    });
  }

  /** The data of the summary and of the list of reports. */
  overview() {
    const { database } = this,
      ipus = database.records("ipus", ["id", "first_tile", "num_tiles"]);
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
      options: database
        .records("engine_options", ["name", "value", "given", "acts"])
        .sort((a, b) => b[2] - a[2] || (a[0] < b[0] ? -1 : 1)),
      notes: database.records("notes", ["text"]).map((row) => row[0]),
      numTiles: ipus.reduce((sum, row) => sum + row[2], 0) || this.target.tiles_per_ipu,
      ipus,
      runs: database.records("runs", RUN),
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
    const names = new Map(
      this.database.records("var_categories", ["id", "name"]).map((row) => /** @type {[number, string]} */ (row)),
    );
    /** @type {Map<number, [string, number, number]>} */
    const found = new Map();
    for (let i = 0; i < info.category.length; ++i) {
      let row = found.get(info.category[i]);
      if (row === undefined) found.set(info.category[i], (row = [names.get(info.category[i]) ?? "", 0, 0]));
      row[info.always_live[i] === 1 ? 1 : 2] += info.size_bytes[i];
    }
    return [...found.values()]
      .filter((row) => row[0] !== "")
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

  /** The numbers of the programs, in order. */
  programColumns() {
    return this.once("programs", () => this.database.columns("programs", PROGRAM, 5));
  }

  /** The names of the programs and how they are nested, to hand over. */
  programs() {
    const { name, type } = this.programTexts(),
      tree = copyOf(this.programColumns(), PROGRAM.slice(0, TREE));
    return { ...tree, name: name.packed(), type: type.packed(), copies: this.copies() };
  }

  /** The other numbers of the programs, to hand over. */
  programNumbers() {
    return copyOf(this.programColumns(), PROGRAM.slice(TREE));
  }

  /** Texts for this side of the worker; packed() hands copies over. */
  programTexts() {
    return this.once("programTexts", () => {
      const [name, type] = this.database.texts("programs", ["name", "type"]);
      return { name, type };
    });
  }

  /** The data for names of programs. */
  programNames() {
    return { ...this.programColumns(), ...this.programTexts(), copies: this.copies() };
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

  /** The instructions that programs come from: numbers, and texts where the profile has them. */
  sourceTable() {
    return this.once("sources", () => {
      const { database } = this;
      if (!database.has("sources")) return { id: new Float64Array(0), line: new Float64Array(0), texts: {} };
      const names = SOURCE_TEXTS.filter((name) => database.has("sources", name));
      const { id, line = new Float64Array(id.length) } = database.columns("sources", ["id", "line"], 1);
      const texts = database.texts("sources", names);
      return { id, line, texts: Object.fromEntries(names.map((name, i) => [name, texts[i]])) };
    });
  }

  /** A copy of sourceTable() to hand over. */
  sources() {
    const { texts, ...numbers } = this.sourceTable();
    return {
      ...copyOf(numbers),
      texts: Object.fromEntries(Object.entries(texts).map(([name, one]) => [name, one.packed()])),
    };
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

  /** Each stream's id, name, kind, direction and bytes, cycles of its copies in a run, and their number. */
  streams() {
    const c = this.programColumns();
    if (!this.database.has("streams") || c.stream === undefined) return null;
    const rows = this.database.records("streams", ["id", "name", "kind", "direction", "bytes"]);
    const found = new Map(rows.map((row) => [row[0], [...row, 0, 0]]));
    for (let i = 0; i < c.stream.length; ++i) {
      const one = c.stream[i] >= 0 ? found.get(c.stream[i]) : undefined;
      if (one === undefined) continue;
      one[5] += c.cycles[i] * c.executions[i];
      one[6] += 1;
    }
    return [...found.values()].sort((a, b) => b[5] - a[5]);
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
      .map(([name]) => ({ name, columns: this.database.columnNames(name) }))
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
      const plain = (one) =>
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
