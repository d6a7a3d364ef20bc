"""The model classes of SDK 1.2 to 2.1, which are not made out of Keras' models in the scope but
have names of their own: `ipu.keras.Model`, Sequential, PipelineModel and PipelineSequential.

    model, pipeline  the classes
    base             what they have in common: compile, fit, evaluate, predict
    arguments, data  checks of arguments; datasets of what is given
    steps            how many steps, executions and mini-batches an epoch has
    programs         what runs on the IPU
    running          the loop over epochs: executions, callbacks, results
    messages         texts
"""
