"""Programs with variables, run by our library.

A program's variables are inputs after its arguments, and outputs after its results that say by
input_output_alias which input they update.
"""

import tensorflow as tf

from tremula import core


def lower_step(step, variables, arguments):
    """(HLO, the variables in the order of the program's inputs, the function compiled by XLA) of a
    function that reads and updates tf.Variables."""
    jitted = tf.function(step, jit_compile=True, autograph=False)
    hlo = jitted.experimental_get_compiler_ir(*arguments)(stage="hlo_serialized")
    captured = jitted.get_concrete_function(*arguments).captured_inputs
    ordered = [next(v for v in variables if v.handle is handle) for handle in captured]
    return hlo, ordered, jitted


class Program:
    """A step with its variables, run by our library."""

    def __init__(self, hlo, arguments, variables, **options):
        executable = core.compile(core.Module.read(hlo), **options)
        self.engine = core.Engine(executable)
        self.values = [variable.numpy() for variable in variables]
        self.versions = [1] * len(self.values)
        self.first = len(arguments)
        assert len(executable.inputs) == self.first + len(self.values)

    def step(self, arguments):
        """Results that update no variable."""
        results = []
        outputs = self.engine.run([*arguments, *self.values], [0] * self.first + self.versions)
        for output, alias in zip(outputs, self.engine.executable.aliases):
            if alias < 0:
                results.append(output)
            else:
                self.values[alias - self.first] = output
                self.versions[alias - self.first] += 1
        return results
