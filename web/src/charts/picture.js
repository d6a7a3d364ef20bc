// Charts saved as pictures.

import { h, save } from "../base/dom.js";
import { colours } from "../base/kinds.js";

/** A chart with its title, the report and the legend as PNG.
 * @param {{canvas: HTMLCanvasElement, options: import("./plot.js").PlotOptions}} plot */
export function savePicture(plot) {
  const { canvas, options } = plot;
  const scale = devicePixelRatio || 1,
    head = 30 * scale,
    foot = 26 * scale;
  const copy = h("canvas", { width: canvas.width }),
    g = copy.getContext("2d"),
    tones = colours();
  const font = (g.font = `${13 * scale}px sans-serif`);
  let x = 8 * scale,
    line = 0;
  const legend = (options.legend ?? []).map(([colour, text]) => {
    const wide = g.measureText(text).width + 32 * scale;
    if (x > 8 * scale && x + wide > canvas.width) {
      x = 8 * scale;
      ++line;
    }
    x += wide;
    return { colour, text, left: x - wide, top: canvas.height + head + line * 20 * scale };
  });
  copy.height = canvas.height + head + foot + line * 20 * scale;
  g.fillStyle = tones.panel;
  g.fillRect(0, 0, copy.width, copy.height);
  g.drawImage(canvas, 0, head);
  g.font = font; // a new height forgets it
  g.fillStyle = tones.text;
  g.fillText(`${options.name} – ${document.title}`, 8 * scale, 20 * scale);
  for (const { colour, text, left, top } of legend) {
    g.fillStyle = tones[colour] ?? colour;
    g.fillRect(left, top + 8 * scale, 10 * scale, 10 * scale);
    g.fillStyle = tones.text;
    g.fillText(text, left + 15 * scale, top + 18 * scale);
  }
  copy.toBlob((blob) => {
    if (blob) save(`${options.id}.png`, blob);
  });
}

/** Canvases of one size side by side as PNG, each below its title. @param {string} name @param {string} title
 * @param {[string, HTMLCanvasElement][]} parts */
export function savePictures(name, title, parts) {
  const across = Math.min(4, parts.length),
    { width, height } = parts[0][1];
  const wide = Math.max(width, 480 / across) + 20,
    tall = height + 30;
  const copy = h("canvas", { width: across * wide, height: 30 + Math.ceil(parts.length / across) * tall });
  const g = copy.getContext("2d"),
    tones = colours();
  g.fillStyle = tones.panel;
  g.fillRect(0, 0, copy.width, copy.height);
  g.fillStyle = tones.text;
  g.font = "13px sans-serif";
  g.fillText(title, 10, 20);
  parts.forEach(([label, canvas], i) => {
    const x = 10 + (i % across) * wide,
      y = 30 + Math.floor(i / across) * tall;
    g.fillText(label, x, y + 16);
    g.drawImage(canvas, x, y + 22);
  });
  copy.toBlob((blob) => {
    if (blob) save(`${name}.png`, blob);
  });
}
