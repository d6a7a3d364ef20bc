"""Files that are no Python of today."""

from tremula.check.rules import rule


@rule(
    "syntax", "error", "The file is no Python 3",
    "A script of Python 2, or one that is cut off, cannot run on the Pythons that today's "
    "TensorFlow has.",
    "Mend the line; `2to3`, or an editor, turns `print x` into `print(x)`.",
    """
    import tensorflow as tf

    print "the version is", tf.__version__
    """,
    """
    import tensorflow as tf

    print("the version is", tf.__version__)
    """)
def find(project):
    for problem in project.unreadable:
        yield problem, problem, f"this is no Python 3: {problem.message}"
