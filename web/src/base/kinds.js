// Kinds of work: a letter, a name and a colour, the same in every view (Okabe and Ito's palette).

/** @type {Record<string, string>} letter -> name; the colour is the CSS variable of the letter */
export const KINDS = {
  C: "compute",
  P: "copies on a tile",
  X: "exchange",
  G: "exchange between IPUs",
  H: "transfers with the host",
  R: "collectives",
  S: "sync",
  T: "control",
  W: "waiting for the host",
  L: "loading the program",
};

/** The letter of the parts of `tremula report`. @type {Record<string, string>} */
export const PART_LETTERS = {
  compute: "C",
  copies: "P",
  exchange: "X",
  "exchange between IPUs": "G",
  "transfers with the host": "H",
  collectives: "R",
  sync: "S",
  control: "T",
};

/** @param {string} type Poplar's name @param {boolean} copies */
export function kindOf(type, copies) {
  switch (type) {
    case "OnTileExecute":
      return copies ? "P" : "C";
    case "DoExchange":
      return "X";
    case "GlobalExchange":
      return "G";
    case "CrossReplicaCopy":
      return "R";
    case "StreamCopyMid":
      return "H";
    case "StreamCopyBegin":
    case "StreamCopyEnd":
    case "Sync":
      return "S";
    default:
      return "T";
  }
}

/** The colours of the theme, read once for each painting. */
export function colours() {
  const style = getComputedStyle(document.documentElement);
  /** @type {Record<string, string>} */
  const found = {};
  for (const name of ["page", "panel", "line", "soft", "text", "dim", "accent", "mark", "bad", ...Object.keys(KINDS)]) {
    found[name] = style.getPropertyValue(`--${name}`).trim();
  }
  return found;
}

/** @type {Map<string, string>} */
const inks = new Map();

/** Dark or light text, whichever is easier to read on a colour. @param {string} colour "#rrggbb" */
export function inkOn(colour) {
  let ink = inks.get(colour);
  if (ink === undefined) {
    const value = parseInt(colour.slice(1), 16);
    const light = 0.299 * (value >> 16) + 0.587 * ((value >> 8) & 255) + 0.114 * (value & 255);
    inks.set(colour, (ink = light > 125 ? "#10151c" : "#ffffff"));
  }
  return ink;
}

/** Colours for series without a kind, which colour-blind people can tell apart too. */
export const SERIES = [
  "#0072b2",
  "#e69f00",
  "#009e73",
  "#cc79a7",
  "#56b4e9",
  "#d55e00",
  "#f0e442",
  "#8a94a3",
  "#7b5ea7",
  "#2f4b7c",
  "#a05d2c",
  "#66c2a5",
];

/** One ramp from dark to light that keeps its order in grey. @param {number} share 0 to 1 */
export function ramp(share) {
  const at = Math.max(0, Math.min(1, share)) * (RAMP.length - 1);
  const low = Math.floor(at),
    high = Math.min(RAMP.length - 1, low + 1),
    part = at - low;
  return RAMP[low].map((value, i) => Math.round(value + part * (RAMP[high][i] - value)));
}

const RAMP = [
  [68, 1, 84],
  [71, 44, 122],
  [59, 81, 139],
  [44, 113, 142],
  [33, 144, 141],
  [39, 173, 129],
  [92, 200, 99],
  [170, 220, 50],
  [253, 231, 37],
];
