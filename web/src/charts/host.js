// Parts of the host's lanes beside boxes: moments as ticks, lines of numbers, an axis of wall time.

/** @typedef {import("./flame.js").Level} Level */

/** @param {View} view @param {Level} level @param {number} y @param {number} tall @param {any} options */
export function paintMoments(view, level, y, tall, options) {
  const { g, colours } = view;
  let last = -1;
  for (let i = 0; i < level.begin.length; ++i) {
    const x = Math.round(view.x(level.begin[i]));
    if (x < -1 || x > view.width || x === last) continue;
    last = x;
    const tone = options.colourOf(level.row[i]);
    g.fillStyle = options.chosen(level.row[i]) ? colours.text : (colours[tone] ?? tone);
    g.fillRect(x - 1, y, 2, tall);
    if (tall > 10) g.fillRect(x - 3, y, 6, 3);
  }
}

/** @param {View} view @param {Level} level @param {number} y @param {number} tall @param {any} options */
export function paintLine(view, level, y, tall, options) {
  const { g, colours } = view;
  const values = level.values ?? new Float64Array(0);
  let low = Math.min(0, values[0]),
    high = Math.max(0, values[0]);
  for (const value of values) {
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  const place = (/** @type {number} */ value) => y + tall - 1.5 - ((value - low) / (high - low || 1)) * (tall - 3);
  const tone = options.colourOf(level.row[0]);
  g.strokeStyle = colours[tone] ?? tone;
  g.lineWidth = tall > 10 ? 1.5 : 1;
  g.beginPath();
  for (let i = 0; i < values.length; ++i) {
    if (level.end[i] < view.lo || level.begin[i] > view.hi) continue;
    const x0 = Math.max(-2, view.x(level.begin[i])),
      x1 = Math.min(view.width + 2, view.x(level.end[i]));
    if (i > 0 && x0 > -2) g.lineTo(x0, place(values[i]));
    else g.moveTo(x0, place(values[i]));
    g.lineTo(x1, place(values[i]));
  }
  g.stroke();
  g.lineWidth = 1;
}

/** Time of day in UTC, to a microsecond if asked. @param {number} us since 1970
 * @param {number} [step] in µs: as many digits as tell steps apart */
export function clockText(us, step = 1) {
  const seconds = Math.floor(us / 1e6);
  const text = new Date(seconds * 1000).toISOString().slice(11, 19);
  const digits = Math.max(0, Math.min(6, Math.ceil(6 - Math.log10(Math.max(step, 1e-9)))));
  const rest = String(Math.floor(us - seconds * 1e6)).padStart(6, "0");
  return digits === 0 ? text : `${text}.${rest.slice(0, digits)}`;
}

/** Ticks of wall time. @param {View} view @param {number} y @param {(x: number) => number} wall */
export function wallAxis(view, y, wall) {
  const { g, colours, width } = view;
  const first = wall(view.lo),
    last = wall(view.hi);
  const rough = (last - first) / Math.max(2, width / 150);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = Math.max(1, [1, 2, 5, 10].map((one) => one * power).find((one) => one >= rough) ?? rough);
  g.fillStyle = colours.accent;
  g.fillText("UTC", 4, y);
  g.textAlign = "center";
  for (let us = Math.ceil(first / step) * step; us <= last; us += step) {
    const x = ((us - first) / (last - first)) * width;
    if (x > 76 && x < width - 50) g.fillText(clockText(us + step / 1000, step), x, y);
  }
  g.textAlign = "left";
}
