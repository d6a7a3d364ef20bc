"""The one door to TensorFlow's private modules.

Every import of a module of TensorFlow that is not public API stands in this package, in the file of
its subject, so that a new version of TensorFlow is this package's work. The functions import what
they need when they are called: importing this package imports no TensorFlow. It imports nothing of
the rest of Tremula.

    versions     which TensorFlow and which Keras there is
    protos       classes of protocol buffers
    errors       exceptions and their status codes
    dtypes       types by their numbers in protocol buffers
    registry     registered ops, kernels and gradients; device plugins
    graphs       building graphs and the graphs of functions, and looking into them
    marks        attributes and devices of nodes
    handles      resource variables and their handles
    eager        eager mode
    functions    the functions that TensorFlow 2 traces
    strategies   what strategies of tf.distribute are made of
    sessions     sessions of TensorFlow 1
    datasets     tf.data
    keras        Keras 2 and its private modules
    layers       classes that layers on an IPU derive from
    logs         TensorFlow's log
    python_code  the program's own Python functions
    bridge       from graphs to HLO
    patches      everything that is changed in TensorFlow
    old_names    names that patches/ puts back
    contrib      what was part of tf.contrib; importing it imports TensorFlow
"""
