// profile.pop through sql.js: checks that it is a profile; gives rows, and columns as typed arrays.

import { message } from "../base/format.js";
import { PagesError, readColumns, readRows, readTexts } from "./pages.js";
import { textsOf } from "./texts.js";

/** @typedef {import("./pieces.js").Bytes} Bytes */

export const FORMAT = 2;

/** A failure with a message for the user. */
export class Complaint extends Error {}

/** Only SQLite can say it: begin() first. */
export class Unbegun extends Error {}

/** Columns of a table by its CREATE statement, and which is the row's id. @param {string} sql */
function columnsOf(sql) {
  const inner = sql.slice(sql.indexOf("(") + 1, sql.lastIndexOf(")"));
  const parts = inner.split(/,(?![^(]*\))/).map((part) => part.trim());
  const names = parts.map((part) => /^\w+/.exec(part)?.[0] ?? "");
  if (names.some((name) => name === "" || /^(PRIMARY|UNIQUE|CHECK|FOREIGN|CONSTRAINT)$/i.test(name)))
    throw new PagesError("a table that another program made");
  const apart = /WITHOUT\s+ROWID\s*$/i.test(sql);
  if (apart && !/PRIMARY\s+KEY/i.test(parts[0])) throw new PagesError("a key that is not the first column");
  return { names, rowid: apart ? -1 : parts.findIndex((part) => /^\w+\s+INTEGER\s+PRIMARY\s+KEY/i.test(part)) };
}

export class Database {
  /** What opens without SQLite; begin() gives the rest. @param {Bytes} bytes */
  constructor(bytes) {
    const magic = new TextDecoder("latin1").decode(bytes.subarray(0, 15));
    if (magic !== "SQLite format 3") {
      throw new Complaint(
        "This file is no profile: a profile.pop, an SQLite database that Tremula " + "wrote, was expected.",
      );
    }
    this.bytes = bytes;
    /** @type {any} */
    this.engine = null;
    /** @type {Database|null} the other report's, for a user's statements */
    this.attached = null;
    /** @type {Map<string, {names: string[], root: number, rowid: number}>} */
    this.tables = new Map();
  }

  /** @param {any} SQL what initSqlJs gives */
  begin(SQL) {
    if (this.engine !== null) return;
    // SQLite reads the bytes where they are: what slice() gives, sql.js takes as its file.
    const { bytes } = this;
    const file = { length: bytes.length, subarray: bytes.subarray.bind(bytes), slice: () => bytes };
    this.engine = new SQL.Database(file);
  }

  get database() {
    if (this.engine === null) throw new Unbegun("SQLite has not begun");
    return this.engine;
  }

  /** The tables and their format, before anything else. */
  open() {
    this.tables.clear();
    this.readTables();
    this.checkFormat();
    return this;
  }

  /** Makes the other report's tables those of the schema 'other'. @param {Database|null} other */
  attach(other) {
    if (this.attached === other) return;
    if (this.attached !== null) this.database.run("DETACH DATABASE other");
    this.attached = null;
    if (other === null) return;
    this.database.run("ATTACH DATABASE ? AS other", [other.database.filename]);
    this.attached = other;
  }

  close() {
    this.engine?.close();
  }

  readTables() {
    /** @type {any[][]} */
    let rows;
    try {
      try {
        // type, name, tbl_name, rootpage, sql
        rows = readRows(this.bytes, 1, [0, 1, 3, 4], -1);
      } catch (error) {
        if (!(error instanceof PagesError)) throw error;
        rows = this.rows("SELECT type, name, rootpage, sql FROM sqlite_master");
      }
    } catch (error) {
      if (error instanceof Unbegun) throw error;
      throw new Complaint(`profile.pop is damaged or cut short: ${message(error)}.`);
    }
    for (const [type, name, root, sql] of rows) {
      if (type === "view") this.tables.set(name, { names: [], root: 0, rowid: -1 });
      if (type !== "table") continue;
      try {
        this.tables.set(name, { ...columnsOf(String(sql)), root });
      } catch (error) {
        if (!(error instanceof PagesError)) throw error;
        const names = this.rows("SELECT name FROM pragma_table_info(?)", [name]).map((row) => row[0]);
        this.tables.set(name, { names, root: 0, rowid: -1 });
      }
    }
  }

  /** The names of a view's columns, and of a table's. @param {string} name */
  columnNames(name) {
    const known = this.tables.get(name)?.names ?? [];
    if (known.length > 0) return known;
    try {
      return this.rows("SELECT name FROM pragma_table_info(?)", [name]).map((row) => row[0]);
    } catch {
      return []; // a view of a table that is not there
    }
  }

  checkFormat() {
    let format;
    try {
      format = this.keys("meta").format;
    } catch (error) {
      if (error instanceof Unbegun) throw error;
      throw new Complaint(`profile.pop is damaged or cut short: ${message(error)}.`);
    }
    if (!this.has("meta"))
      throw new Complaint("This database is no profile that Tremula wrote: it has no table 'meta'.");
    if (format === undefined) throw new Complaint("profile.pop is damaged: it does not say its format.");
    if (format !== FORMAT) {
      throw new Complaint(
        `profile.pop has the format ${format}; this page reads format ${FORMAT}. ` +
          "Open it with the Tremula that wrote it.",
      );
    }
  }

  /** @param {string} table @param {string} [column] */
  has(table, column) {
    const found = this.tables.get(table);
    return found !== undefined && (column === undefined || found.names.includes(column));
  }

  /** @param {string} sql @param {any[]} [parameters] @returns {any[][]} */
  rows(sql, parameters = []) {
    return rowsOf(this.database, sql, parameters);
  }

  /** The first value of the first row. @param {string} sql @param {any[]} [parameters] */
  value(sql, parameters) {
    const rows = this.rows(sql, parameters);
    return rows.length > 0 ? rows[0][0] : undefined;
  }

  /** A table of keys and values. @param {string} table @returns {Record<string, any>} */
  keys(table) {
    return Object.fromEntries(this.records(table, ["key", "value"]));
  }

  /** The rows of a short table in their order; none where the table is missing. null: no such column.
   * @param {string} table @param {string[]} names @returns {any[][]} */
  records(table, names) {
    const info = this.tables.get(table);
    if (info === undefined) return [];
    const places = names.map((name) => info.names.indexOf(name));
    try {
      if (info.root === 0 || places.includes(-1)) throw new PagesError("no plain table");
      return readRows(this.bytes, info.root, places, info.rowid);
    } catch (error) {
      if (!(error instanceof PagesError)) throw error;
    }
    return this.rows(`SELECT ${names.map((n, i) => (places[i] < 0 ? "NULL" : `"${n}"`)).join(", ")} FROM "${table}"`);
  }

  /**
   * Columns of numbers in the order of rows. NaN where a value is missing.
   * @param {string} table @param {string[]} names @param {number} needed so many of the first
   * @returns {Record<string, Float64Array>}
   */
  columns(table, names, needed = 0) {
    const info = this.tables.get(table);
    if (info === undefined) throw new Complaint(`This profile has no table '${table}'.`);
    const there = names.filter((name) => info.names.includes(name));
    const missing = names.slice(0, needed).find((name) => !there.includes(name));
    if (missing !== undefined)
      throw new Complaint(`profile.pop is damaged: its table '${table}' has no column '${missing}'.`);
    /** @type {Record<string, Float64Array>} */
    const found = {};
    if (there.length === 0) return found;
    let arrays;
    try {
      if (info.root === 0) throw new PagesError("no plain table");
      arrays = readColumns(
        this.bytes,
        info.root,
        there.map((name) => info.names.indexOf(name)),
        info.rowid,
      );
    } catch (error) {
      if (!(error instanceof PagesError)) throw error;
      const rows = this.rows(`SELECT ${there.map((n) => `"${n}"`).join(", ")} FROM "${table}"`);
      arrays = there.map((_, i) => Float64Array.from(rows, (row) => Number(row[i] ?? NaN)));
    }
    there.forEach((name, i) => {
      found[name] = arrays[i];
    });
    return found;
  }

  /** Columns of text in the order of ids, read at once. @param {string} table @param {string[]} columns */
  texts(table, columns) {
    const info = this.tables.get(table);
    try {
      if (!info || info.root === 0 || info.names[info.rowid] !== "id") throw new PagesError("no plain table");
      const places = columns.map((name) => info.names.indexOf(name));
      if (places.includes(-1)) throw new PagesError("a column is missing");
      return readTexts(this.bytes, info.root, places);
    } catch (error) {
      if (!(error instanceof PagesError)) throw error;
    }
    return columns.map((name) => textsOf(this.rows(`SELECT ${name} FROM ${table} ORDER BY id`).map((row) => row[0])));
  }

  /**
   * A user's statement: columns and at most `most` rows.
   * @param {string} sql @param {number} most
   */
  ask(sql, most) {
    this.database.run("PRAGMA query_only = 1");
    const statement = this.database.prepare(sql);
    try {
      const rows = [];
      let cut = false;
      while (statement.step()) {
        if (rows.length === most) {
          cut = true;
          break;
        }
        rows.push(statement.get());
      }
      return { columns: statement.getColumnNames(), rows, cut };
    } finally {
      statement.free();
    }
  }
}

/** @param {any} database of sql.js @param {string} sql @param {any[]} [parameters] @returns {any[][]} */
export function rowsOf(database, sql, parameters = []) {
  const statement = database.prepare(sql);
  try {
    statement.bind(parameters);
    const rows = [];
    while (statement.step()) rows.push(statement.get());
    return rows;
  } finally {
    statement.free();
  }
}
