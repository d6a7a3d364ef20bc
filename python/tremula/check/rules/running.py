"""What only `tremula check --run` finds."""

from tremula.check.rules import rule


@rule(
    "script-fails", "error", "The script ends with an error",
    """The script was run to be traced, and failed: a file is missing, a module is not installed, or
    the code is of another TensorFlow. The line is the last of the program's own before the
    error.""",
    """Mend what the message says, or give the script the arguments and files that it needs:
    `tremula check --run train.py --data folder`.""",
    """
    import numpy as np
    import tensorflow as tf

    images = tf.constant(np.load("images.npy"))
    """,
    """
    import numpy as np
    import tensorflow as tf

    images = tf.constant(np.zeros([8, 28, 28], np.float32))
    """, needs_run=True)
def script_fails(project):
    del project
    return ()


@rule(
    "eager-step", "warning", "A training step that is in no function",
    """Without a `tf.function`, each operation of a step is a program of its own, which is compiled,
    loaded and launched alone, and `IPUStrategy.run` refuses the step.""",
    "Write the step as a function with `@tf.function(jit_compile=True)`.",
    """
    import tensorflow as tf

    weight = tf.Variable(1.0)
    for step in range(100):
        with tf.GradientTape() as tape:
            loss = (weight - 3.0) ** 2
        weight.assign_sub(0.1 * tape.gradient(loss, weight))
    """,
    """
    import tensorflow as tf

    weight = tf.Variable(1.0)

    @tf.function(jit_compile=True)
    def train():
        with tf.GradientTape() as tape:
            loss = (weight - 3.0) ** 2
        weight.assign_sub(0.1 * tape.gradient(loss, weight))

    for step in range(100):
        train()
    """, needs_run=True)
def eager_step(project):
    del project
    return ()
