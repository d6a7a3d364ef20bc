"""Running HLO texts with inputs of one's own."""

import shutil

import numpy as np

TYPES = {"f32": np.float32, "f64": np.float64, "c64": np.complex64}


def matrix(dtype, *shape, seed=0):
    random = np.random.default_rng(seed)
    values = random.standard_normal(shape)
    if dtype == "c64":
        values = values + 1j * random.standard_normal(shape)
    return values.astype(TYPES[dtype])


def shape_of(array):
    names = {np.dtype(v): k for k, v in {**TYPES, "s32": np.int32}.items()}
    return f"{names[array.dtype]}[{','.join(map(str, array.shape))}]"


def run(tool, text, *inputs, options=(), compile_options=()):
    """The results, in order."""
    program = tool.compile(text, "program", *compile_options)
    given = [f"{i}={tool.save(f'{i}.npy', value)}" for i, value in enumerate(inputs)]
    shutil.rmtree(tool.folder / "out", ignore_errors=True)
    inputs = [one for text in given for one in ("--input", text)]
    tool.ok("run", program, *inputs, *options, "--output", "out")
    return [tool.load(path) for path in sorted((tool.folder / "out").iterdir())]
