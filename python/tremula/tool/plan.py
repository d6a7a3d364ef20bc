"""python -m tremula.tool.plan MODEL --folder DIR: a model -> modules to plan.

MODEL is a SavedModel, a file that Keras has written, or a GraphDef.

Writes DIR/<batch>.hlo.pb for each batch size, 0 where none is given. Weights become inputs, whose
values a plan does not need; with --training the program is a training step (training.py). How many
parameters the model has travels in the module's side table, and whether all its inputs have sizes
of their own, which the command line changes in the module. A model with pipeline stages is the
pipeline that fit() or predict() runs (staged.py).
"""

import argparse
import os

from tremula import tool
from tremula.tool import lower, staged, training


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m tremula.tool.plan")
    parser.add_argument("model")
    parser.add_argument("--folder", required=True)
    parser.add_argument("--batch", type=int, action="append", default=[])
    parser.add_argument("--training", choices=training.OPTIMISERS)
    parser.add_argument("--signature", default="serving_default")
    parser.add_argument("--shape", action="append", default=[])
    parser.add_argument("--feed", action="append", default=[])
    parser.add_argument("--fetch", action="append", default=[])
    arguments = parser.parse_args(arguments)
    with tool.complaining():
        if staged.has_stages(arguments.model):
            staged.use_ipu_model()
        tool.need_tensorflow()
        for batch in arguments.batch or [None]:
            module = _module(arguments, batch)
            tool.write(os.path.join(arguments.folder, f"{batch or 0}.hlo.pb"), module)


def _module(arguments, batch):
    """The bytes of the module for a batch size."""
    shapes = dict(lower.parse_shape(text) for text in arguments.shape)
    if staged.has_stages(arguments.model):
        return staged.lower_program(arguments.model, shapes, batch, arguments.training)
    size = lower.Batch(batch) if batch else None
    program = lower.read(arguments, shapes, size, variables=True)
    has_own_batch = size is not None and not size.is_taken
    return training.lower_step(*program, optimiser=arguments.training, has_own_batch=has_own_batch)


if __name__ == "__main__":
    main()
