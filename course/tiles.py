"""Pictures of what happens on the tiles, for the notebooks of the course: SVG from a profile.

    with tiles.profiles() as reports:
        ...                      # programs that are compiled here are profiled
    tiles.memory(reports[-1])    # a picture, where a notebook's cell ends with it
"""

import atexit
import contextlib
import html
import json
import os
import pathlib
import shutil
import tempfile

import pva

WIDTH, LEFT = 720, 96  # of a picture, and of the names on its left
COLOURS = {"compute": "#c2410c", "exchange": "#1d4ed8", "between IPUs": "#7c3aed",
           "sync": "#d6d3d1", "loop": "#a8a29e", "host": "#0f766e"}
SHADES = ["#f1f5f9", "#dbe4f5", "#b9cdf0", "#8fb0e8", "#5f8cdc", "#336bc9", "#1d4a9e", "#112c66"]
STAGES = ["#c2410c", "#1d4ed8", "#0f766e", "#7c3aed", "#a16207", "#be185d", "#475569", "#15803d"]


class Picture:
    """An SVG that a notebook shows."""

    def __init__(self, title, height, parts):
        self.svg = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
            f'width="{WIDTH}" style="max-width:100%;height:auto" font-family="sans-serif" '
            f'font-size="12" fill="#1c1917"><title>{html.escape(title)}</title>'
            f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>'
            f'{text(8, 18, title, weight=600)}{"".join(parts)}</svg>')

    def _repr_svg_(self):
        return self.svg


def text(x, y, words, anchor="start", weight=400):
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}">'
            f"{html.escape(str(words))}</text>")


def box(x, y, width, height, colour, is_edged=False):
    edge = ' stroke="#ffffff" stroke-width=".6"' if is_edged else ""
    return (f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, .5):.1f}" height="{height:.1f}" '
            f'fill="{colour}"{edge}/>')


def key(colours, y):
    """What the colours mean: a line of names."""
    parts, x = [], LEFT
    for name, colour in colours.items():
        parts += [box(x, y - 9, 10, 10, colour), text(x + 15, y, name)]
        x += 30 + 7 * len(name)
    return parts


def grouped(number):
    return f"{number:,.0f}".replace(",", " ")


@contextlib.contextmanager
def profiles():
    """A list that has the profile of each program that was compiled meanwhile, once it is left."""
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    before = os.environ.get("POPLAR_ENGINE_OPTIONS")
    os.environ["POPLAR_ENGINE_OPTIONS"] = json.dumps(
        {"autoReport.all": "true", "autoReport.directory": folder,
         "autoReport.outputDebugInfo": "false"})  # which would be a file beside the notebook
    reports = []
    try:
        yield reports
    finally:
        if before is None:
            del os.environ["POPLAR_ENGINE_OPTIONS"]
        else:
            os.environ["POPLAR_ENGINE_OPTIONS"] = before
        for one in sorted(pathlib.Path(folder).glob("*/profile.pop")):
            reports.append(pva.openReport(str(one)))
            reports[-1].folder = str(one.parent)


def main(reports):
    """The profile with the most cycles: the program that one means."""
    return max(reports, key=lambda one: one.compilation.totals["cycles"])


def memory(report, title="Memory of every tile"):
    """A column for each tile: what stays in its memory all the time, what comes and goes."""
    tiles, height, bottom = report.compilation.tiles, 220, 180
    limit = report.compilation.target.bytesPerTile
    fullest = max(one.memory.total.includingGaps for one in tiles)
    scale = (bottom - 40) / max(limit, fullest)
    across = (WIDTH - LEFT - 16) / len(tiles)
    always = [one.memory.alwaysLiveBytes for one in tiles]
    parts = [area([one.memory.total.includingGaps for one in tiles], across, bottom, scale,
                  SHADES[3]),
             area(always, across, bottom, scale, SHADES[6])]
    y = bottom - limit * scale
    parts += [f'<path d="M{LEFT} {y:.1f}H{WIDTH - 16}" stroke="#b91c1c" stroke-dasharray="4 3"/>',
              text(LEFT - 6, y + 4, f"{limit // 1024} KiB", "end"),
              text(LEFT - 6, bottom, "0", "end"), text(LEFT, bottom + 14, "tile 0"),
              text(WIDTH - 16, bottom + 14, f"tile {len(tiles) - 1}", "end"),
              *key({"always there": SHADES[6], "for a while": SHADES[3],
                    "all that a tile has": "#b91c1c"}, height - 8)]
    return Picture(f"{title}: the fullest has {grouped(fullest)} bytes", height, parts)


def area(values, across, bottom, scale, colour):
    path, last = [f"M{LEFT} {bottom}"], None
    for index, value in enumerate(values):
        if value != last:
            path.append(f"H{LEFT + index * across:.1f}V{bottom - value * scale:.1f}")
            last = value
    path.append(f"H{LEFT + len(values) * across:.1f}V{bottom}Z")
    return f'<path d="{"".join(path)}" fill="{colour}"/>'


def curve(values, title):
    """A line over the steps of a program."""
    bottom, most = 170, max(values)
    parts = [area(values, (WIDTH - LEFT - 16) / len(values), bottom, 130 / most, SHADES[4]),
             text(LEFT - 6, 46, grouped(most), "end"), text(LEFT - 6, bottom, "0", "end")]
    return Picture(title, bottom + 12, parts)


def chip(values, title, unit="cycles"):
    """A square for each tile, the darker the larger its value."""
    columns = 64 if len(values) > 256 else 16
    side = (WIDTH - 16) // columns
    rows = -(-len(values) // columns)
    most, least = max(values), min(values)
    paths = {}
    for index, value in enumerate(values):
        shade = round((len(SHADES) - 1) * value / most) if most else 0
        row, column = divmod(index, columns)
        paths.setdefault(shade, []).append(
            f"M{8 + column * side} {28 + row * side}h{side - 1}v{side - 1}h-{side - 1}z")
    parts = [f'<path d="{"".join(path)}" fill="{SHADES[shade]}"/>'
             for shade, path in sorted(paths.items())]
    y = 28 + rows * side
    parts.append(text(8, y + 14, f"tile 0 is at the top left; from {grouped(least)} to "
                                 f"{grouped(most)} {unit}"))
    return Picture(title, y + 24, parts)


def kind(step):
    name = step.program.type.name
    if name == "OnTileExecute":
        return "compute"
    if name == "DoExchange":
        return "exchange"
    if name == "GlobalExchange":
        return "between IPUs"
    if name.startswith("StreamCopy"):
        return "host"
    return "sync" if name == "Sync" else "loop"


def steps(steps, title, by_stage=False):
    """A lane for each IPU: the steps, one after the other, as wide as their cycles."""
    steps = [one for one in steps if one.cycles]
    begin = min(one.cyclesFrom for one in steps)
    end = max(one.cyclesTo for one in steps)
    scale = (WIDTH - LEFT - 16) / (end - begin)
    ipus, parts, seen = len(steps[0].ipus), [], {}
    for step in steps:
        name = f"stage {step.stage}" if by_stage and step.stage >= 0 else kind(step)
        colour = STAGES[step.stage % 8] if name.startswith("stage") else COLOURS[name]
        seen[name] = colour
        for lane, one in enumerate(step.ipus):
            if one.cycles:
                parts.append(box(LEFT + (one.cyclesFrom - begin) * scale, 32 + lane * 28,
                                 one.cycles * scale, 22, colour, is_edged=one.cycles * scale > 3))
    parts += [text(LEFT - 6, 47 + lane * 28, f"IPU {lane}", "end") for lane in range(ipus)]
    y = 48 + ipus * 28
    parts += [text(LEFT, y, "0"), text(WIDTH - 16, y, f"{grouped(end - begin)} cycles", "end"),
              *key(dict(sorted(seen.items())), y + 24)]
    return Picture(title, y + 34, parts)


def bars(values, title, limit=None):
    """A bar for each name; `limit` is a line that they should not cross."""
    most = max(*values.values(), limit or 0)
    left = 20 + 7 * max(map(len, values))
    scale = (WIDTH - left - 110) / most
    parts, line = [], left + (limit or 0) * scale
    for row, (name, value) in enumerate(values.items()):
        at = left + value * scale + 6
        if at < line < at + 60:  # the line would cross the number
            at = line + 6
        over = limit is not None and value > limit
        parts += [text(left - 6, 47 + row * 26, name, "end"),
                  box(left, 32 + row * 26, value * scale, 20, "#b91c1c" if over else SHADES[5]),
                  text(at, 47 + row * 26, grouped(value))]
    height = 36 + 26 * len(values)
    if limit:
        parts.append(f'<path d="M{line:.1f} 26V{height - 4}" stroke="#b91c1c" '
                     'stroke-dasharray="4 3"/>')
    return Picture(title, height + 4, parts)

