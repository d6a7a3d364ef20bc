// Damaged files through the page's readers, and through all that the worker does with a profile:
//   node damage.mjs WEB PROFILE SEED ROUNDS
// Each input gives values or an Error that is a sentence, and an end. Prints the numbers of both.

import { readdirSync, readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [web, folder, seed, rounds] = process.argv.slice(2);
const load = (name) => import(pathToFileURL(`${web}/src/data/${name}.js`));
const { readVariables } = await load("capnp");
const { readDebug } = await load("cbor");
const { readArchive } = await load("archive");
const { readColumns, readTexts } = await load("pages");
const { readTimeline } = await load("timeline");
const { Profile } = await load("profile");
const { Unbegun } = await load("database");
const { Pieces } = await load("pieces");
const { bands, stepsOf } = await load("steps");
const { flame, trace } = await load("trace");
const rows = await load("rows");
const memory = await load("memory");
const variables = await load("variables");
const { insights, operations, sourceLines } = await load("operations");
const { graph } = await load("graph");

const vendored = { exports: {} };
new Function("module", "exports", "require", "__dirname", readFileSync(`${web}/vendor/sql-wasm-inline.js`, "utf8"))(
  vendored, vendored.exports, () => ({}), "");
const SQL = await vendored.exports();

let state = Number(seed);
const random = (most) => {
  state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
  return Math.floor((state / 4294967296) * most);
};

const files = new Map();
for (const name of ["profile.pop", "vars.capnp", "debug.cbor", "archive.a", "framework.json"])
  files.set(name, new Uint8Array(readFileSync(`${folder}/${name}`)));

/** What views ask for; each answer is a value or a sentence of its own. */
function everything(given) {
  const pop = given.get("profile.pop");
  const bytes = random(2) ? pop : new Pieces(pop.length, (from, to) => pop.slice(from, to), 8192);
  const profile = new Profile(new Map([...given, ["profile.pop", bytes]]), "damaged");
  try {
    try {
      profile.open();
    } catch (error) {
      if (!(error instanceof Unbegun)) throw error;
      profile.database.begin(SQL);
      profile.open();
    }
    profile.database.begin(SQL);
    for (const ask of [
      () => profile.overview(), () => profile.programs(), () => profile.sources(), () => profile.streams(),
      () => profile.regions([0, 1]), () => profile.computeSet(0), () => profile.frameworkOptions(),
      () => profile.schema(), () => profile.raw("archive.a", "tile0.mem"), () => profile.raw("debug.cbor", ""),
      () => trace(profile), () => flame(profile, true, 7), () => flame(profile, false, 0),
      () => rows.sums(profile, 5, 5000), () => rows.heavy(profile, ""), () => rows.sandwich(profile, "0", ""),
      () => rows.pipeline(profile), () => rows.working(profile, 7), () => rows.rowsOfProgram(profile, 1),
      () => rows.beginnings(profile, 9),
      () => memory.memoryByTile(profile),
      () => memory.variablesOnTiles(profile, [0, 1]), () => variables.variablesById(profile, [0, 1]),
      () => variables.variablesOf(profile, "op", ""), () => variables.variablesOfSource(profile, 0, 3),
      () => variables.turnover(profile, 3), () => stepsOf(profile, "op", ""), () => bands(profile),
      () => memory.variableLines(profile, [0, 1]), () => memory.bytesByScope(profile),
      () => memory.livenessSeries(profile, -1, []), () => memory.livenessSeries(profile, -1, [0]),
      () => memory.aliveAt(profile, [3], -1, []), () => operations(profile, "op"), () => sourceLines(profile),
      () => insights(profile), () => graph(profile, "", [], true, false),
    ])
      attempt(ask);
  } finally {
    profile.database.close();
  }
}

const counts = { refused: 0, read: 0 };

function attempt(act) {
  try {
    act();
    ++counts.read;
  } catch (error) {
    if (!(error instanceof Error) || /undefined|null|not a function|not iterable/.test(error.message)) throw error;
    ++counts.refused;
  }
}

/** A copy with some bytes changed, and at times without its end. */
function damaged(whole) {
  const data = whole.slice(0, random(4) === 0 ? random(whole.length) : whole.length);
  for (let i = random(8); i >= 0 && data.length > 0; --i)
    data[random(random(2) ? data.length : Math.min(200, data.length))] = random(256);
  return data;
}

everything(files);
if (counts.refused > 0) throw new Error("the whole profile is refused");

const single = [
  ["vars.capnp", readVariables, 1e9],
  ["debug.cbor", readDebug, 20000],
  ["archive.a", readArchive, 60000],
  ["profile.pop", (data) => (random(2)
    ? readColumns(data, 1 + random(data.length / 4096), [0, 2, 3], 0)
    : readTexts(data, 1 + random(data.length / 4096), [1])), 1e9],
];
const timeline = readdirSync(folder).find((name) => name.endsWith(".pvti"));
readTimeline(SQL, new Uint8Array(readFileSync(`${folder}/${timeline}`)), timeline);
single.push([timeline, (data) => readTimeline(SQL, data, timeline), 1e9]);
let inputs = 0;
for (const [name, reader, most] of single) {
  const whole = new Uint8Array(readFileSync(`${folder}/${name}`)).slice(0, most);
  for (let round = 0; round < Number(rounds); ++round, ++inputs) attempt(() => reader(damaged(whole)));
}
const names = [...files.keys()];
for (let round = 0; round < Number(rounds) / 20; ++round, ++inputs) {
  const name = names[random(2) ? 0 : random(names.length)];
  attempt(() => everything(new Map([...files, [name, damaged(files.get(name))]])));
}
console.log(JSON.stringify({ ...counts, inputs }));
