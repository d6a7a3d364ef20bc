"""The model classes of SDK 1.2 to 2.1, which have names of their own instead of extending Keras'
models: `ipu.keras.Model`, Sequential, PipelineModel and PipelineSequential. They run by the engine
of the extensions (`keras/extensions`): its loop over epochs, optimizer, queues and messages.

    model, pipeline  the classes
    base             their base: compile, fit, evaluate, predict
    arguments, data  checks of arguments; datasets made from arguments
    steps            the numbers of steps, executions and mini-batches of an epoch
    programs         the functions that run on the IPU
    running          the callbacks and results of their executions
"""
