// profile.pop through sql.js: checks that it is a profile; gives rows, and columns as typed arrays.

import { PagesError, readColumns, readTexts } from "./pages.js";

export const FORMAT = 2;

/** A failure with a message for the user. */
export class Complaint extends Error {}

export class Database {
  /** @param {any} SQL what initSqlJs gives @param {Uint8Array} bytes */
  constructor(SQL, bytes) {
    const magic = new TextDecoder("latin1").decode(bytes.subarray(0, 15));
    if (magic !== "SQLite format 3") {
      throw new Complaint(
        "This file is no profile: a profile.pop, an SQLite database that Tremula " + "wrote, was expected.",
      );
    }
    this.bytes = bytes;
    this.database = new SQL.Database(bytes);
    /** @type {Database|null} the other report's, for a user's statements */
    this.attached = null;
    /** @type {Map<string, {names: string[], root: number, rowid: number}>} */
    this.tables = new Map();
    this.readTables();
    this.checkFormat();
    this.database.run("PRAGMA query_only = 1");
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
    this.database.close();
  }

  readTables() {
    let rows;
    try {
      rows = this.rows("SELECT name, rootpage, sql FROM sqlite_master WHERE type IN ('table','view')");
    } catch (error) {
      throw new Complaint(`profile.pop is damaged or cut short: ${message(error)}.`);
    }
    for (const [name, root, sql] of rows) {
      let columns;
      try {
        columns = this.rows(`SELECT name, type, pk FROM pragma_table_info(?)`, [name]);
      } catch {
        continue; // a view of a table that is not there
      }
      const rowid = columns.findIndex(([, type, key]) => key === 1 && type === "INTEGER");
      const plain = root > 0 && !/WITHOUT\s+ROWID/i.test(String(sql));
      this.tables.set(name, { names: columns.map((c) => c[0]), root: plain ? root : 0, rowid });
    }
  }

  checkFormat() {
    let format;
    try {
      format = this.value("SELECT value FROM meta WHERE key = 'format'");
    } catch (error) {
      throw new Complaint(
        this.tables.has("meta")
          ? `profile.pop is damaged or cut short: ${message(error)}.`
          : "This database is no profile that Tremula wrote: it has no table 'meta'.",
      );
    }
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
    const statement = this.database.prepare(sql);
    try {
      statement.bind(parameters);
      const rows = [];
      while (statement.step()) rows.push(statement.get());
      return rows;
    } finally {
      statement.free();
    }
  }

  /** The first value of the first row. @param {string} sql @param {any[]} [parameters] */
  value(sql, parameters) {
    const rows = this.rows(sql, parameters);
    return rows.length > 0 ? rows[0][0] : undefined;
  }

  /** A table of keys and values. @param {string} table @returns {Record<string, any>} */
  keys(table) {
    return this.has(table) ? Object.fromEntries(this.rows(`SELECT key, value FROM ${table}`)) : {};
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

  /** A column of text in the order of ids, each text once. @param {string} table @param {string} column */
  texts(table, column) {
    const info = this.tables.get(table);
    try {
      if (!info || info.root === 0 || info.names[info.rowid] !== "id") throw new PagesError("no plain table");
      return readTexts(this.bytes, info.root, info.names.indexOf(column));
    } catch (error) {
      if (!(error instanceof PagesError)) throw error;
    }
    /** @type {Map<string, number>} */
    const places = new Map();
    const ids = Int32Array.from(this.rows(`SELECT ${column} FROM ${table} ORDER BY id`), ([value]) => {
      const text = value === null ? "" : String(value);
      const place = places.get(text) ?? places.size;
      places.set(text, place);
      return place;
    });
    return { ids, table: [...places.keys()] };
  }

  /**
   * A user's statement: columns and at most `most` rows.
   * @param {string} sql @param {number} most
   */
  ask(sql, most) {
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

/** @param {unknown} error */
export function message(error) {
  return error instanceof Error ? error.message : String(error);
}
