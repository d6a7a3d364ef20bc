"""Links from the names of examples in a text, `examples/feeds.py`, to copies of these programs."""

import pathlib
import re

from docutils import nodes
from sphinx import addnodes
from sphinx.transforms import SphinxTransform

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = re.compile(r"examples/[\w/]+\.(py|c)")


class Programs(SphinxTransform):
    default_priority = 400

    def apply(self):
        for node in list(self.document.findall(nodes.literal)):
            name = node.astext()
            if PROGRAM.fullmatch(name) and isinstance(node.parent, nodes.paragraph) and (
                    ROOT / name).is_file():
                node.replace_self(addnodes.download_reference(
                    "", "", node.deepcopy(), reftarget=f"/{name}", refdoc=self.env.docname))


def setup(app):
    app.add_transform(Programs)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
