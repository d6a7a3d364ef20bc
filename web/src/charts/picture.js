// A chart as a picture to keep.

import { h, save } from "../base/dom.js";
import { colours } from "../base/kinds.js";

/** A chart with its title, the report and the legend as PNG.
 * @param {{canvas: HTMLCanvasElement, options: import("./plot.js").PlotOptions}} plot */
export function savePicture(plot) {
  const { canvas, options } = plot;
  const scale = devicePixelRatio || 1,
    head = 30 * scale,
    foot = 26 * scale;
  const copy = h("canvas", { width: canvas.width, height: canvas.height + head + foot });
  const g = copy.getContext("2d"),
    tones = colours();
  g.fillStyle = tones.panel;
  g.fillRect(0, 0, copy.width, copy.height);
  g.drawImage(canvas, 0, head);
  g.fillStyle = tones.text;
  g.font = `${13 * scale}px sans-serif`;
  g.fillText(`${options.name} – ${document.title}`, 8 * scale, 20 * scale);
  let x = 8 * scale;
  for (const [colour, text] of options.legend ?? []) {
    g.fillStyle = tones[colour] ?? colour;
    g.fillRect(x, canvas.height + head + 8 * scale, 10 * scale, 10 * scale);
    g.fillStyle = tones.text;
    g.fillText(text, x + 15 * scale, canvas.height + head + 18 * scale);
    x += g.measureText(text).width + 32 * scale;
  }
  copy.toBlob((/** @type {Blob|null} */ blob) => {
    if (blob) save(`${options.id}.png`, blob);
  });
}
