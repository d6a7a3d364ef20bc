// archive.a: an ar archive with a text member for each tile.

/** The places of the members: name -> [begin, end]. @param {Uint8Array} data */
export function readArchive(data) {
  const decoder = new TextDecoder("latin1");
  if (decoder.decode(data.subarray(0, 8)) !== "!<arch>\n") throw new Error("it is no ar archive");
  /** @type {Map<string, [number, number]>} */
  const members = new Map();
  let names = "";
  for (let at = 8; at < data.length;) {
    if (at + 60 > data.length) throw new Error("it is cut short");
    const head = decoder.decode(data.subarray(at, at + 60));
    const size = Number(head.slice(48, 58).trim());
    const begin = at + 60,
      end = begin + size;
    if (head.slice(58) !== "`\n" || !(size >= 0) || end > data.length) {
      throw new Error(`the member at byte ${at} is damaged or cut short`);
    }
    let name = head.slice(0, 16).trimEnd();
    if (name === "//") {
      names = decoder.decode(data.subarray(begin, end));
    } else if (name !== "/") {
      if (/^\/\d+$/.test(name)) name = names.slice(Number(name.slice(1))).split("\n")[0];
      members.set(name.replace(/\/$/, ""), [begin, end]);
    }
    at = end + (end & 1);
  }
  return members;
}

/** @param {Uint8Array} data @param {[number, number]} range */
export function memberText(data, range) {
  return new TextDecoder().decode(data.subarray(range[0], range[1]));
}
