"""The messages of these models, in the original's words where it has one."""

# ---- Construction ----

SEQUENTIAL_LIST = "IPU Sequential requires a list of Layers."
SEQUENTIAL_LAYERS = "An IPU Sequential's list of Layers may only contain Keras Layers."
NO_INPUTS = "Model was not provided with 'inputs' and 'outputs'"
ONLY_NAME = ("Functional models may only specify `name` and `trainable` keyword arguments during "
             "initialization. Got an unexpected argument:")
PIPELINE_LIST = ("An IPU pipeline must take a non-empty list of stages, where each stage is a list "
                 "of Keras Layers.")
PIPELINE_STAGES = ("An IPU pipeline may only contain lists of stages, where each stage is a list "
                   "of Keras Layers.")
PIPELINE_LAYERS = "Each list in the `stages` list must contain only Keras Layers."
NO_STAGE = ("All layers of a pipelined model must have an associated pipeline stage.\n"
            "However, {} has not been assigned to one.\n"
            "Pipeline stages can be assigned when a layer is constructed, or each time a layer is "
            "called.\nDifferent pipeline stages can assigned to each call.")
STAGES_MISSING = ("Pipeline stages in the graph need to be strictly increasing, found pipeline "
                  "stages {}, however the following pipeline stages are missing {}.")
STAGE_TOO_EARLY = ("Layer %s in pipeline stage %d has a dependency from a pipeline stage which has "
                   "not yet executed. Layers can only use outputs from current or previous "
                   "pipeline stages.")
NOT_A_SCOPE = ("PipelineModel is a model and not the scope of a stage: write `with "
               "ipu.keras.PipelineStage(0):` around the calls of the layers, and make the "
               "PipelineModel of their inputs and outputs after that.")
RENAMED = "From {}: Argument '{}' is deprecated, use '{}' instead."
BOTH_NAMES = "Arguments {} and {} cannot be used together."

# ---- Use ----

CALLED = "{} can only be called through the `fit`, `evaluate` or `predict` interfaces."
SAVE = "IPU Keras models do not support the `save` interface."
KERAS_V1_OPTIMIZER = ("Optimizer must be a native TensorFlow or Keras V2 optimizer found in "
                      "tensorflow.keras.optimizer_v2.")
OTHER_OPTIMIZER = ("Only Keras optimizer_v2.Optimizer and TensorFlow native training.Optimizer "
                   "subclasses are supported.")
LOSS_WEIGHTS = "loss_weights can only be specified as a list."
STEPS_PER_EXECUTION = ("steps_per_execution is an option of Keras' own models. How many steps an "
                       "execution of this model has is the argument `steps_per_run` of fit, "
                       "evaluate and predict.")
UNSUPPORTED = "IPU Keras models do not support these parameters to {}(): {}"
BATCH_SIZE = ("Do not specify `batch_size` in {}.{}(). Use the Dataset.batch() method to apply "
              "batching at the input dataset level.")
NO_BATCH_SIZE = "`batch_size` or `steps` is required for `Tensor` or `NumPy` input data."
ELEMENTS = ("%s requires a dataset with a structure containing %d element(s), but got %d "
            "element(s) instead.")
NO_IPU = "{} can only be used on an IPU device."
TOO_FEW_IPUS = ("Current device has %d IPUs attached, however the current model requires a "
                "multiple of %d IPUs.")
LAYER_LOSSES = "Custom layer losses are not supported."
NO_LOSS = "The model cannot be compiled because it has no loss to optimize."
NOTHING_TO_TRAIN = "{} must have at least one trainable parameter."

# ---- Steps ----

NO_STEPS = ("When using an infinitely repeating dataset, you must provide the number of steps per "
            "epoch (steps_per_epoch).")
TOO_MANY_STEPS = ("%s times gradient accumulation count (%d x %d) is greater than the number of "
                  "mini-batches in the dataset (%d).")
TOO_FEW_BATCHES = ("The number of mini-batches in the dataset (%d) must be at least the gradient "
                   "accumulation count (%d) multiplied by the replication factor (%d)%s.")
DROPPED = (" The number of mini-batches in the dataset (%d) must be a multiple of the gradient "
           "accumulation count (%d) multiplied by the replication factor (%d)%s. Samples have been "
           "dropped to give a dataset of %d mini-batches. Adjust the size of the supplied dataset "
           "or specify the %s if you do not want this to happen.")
TIMES_STEPS_PER_RUN = " multiplied by steps_per_run (%d)"
STEPS_BY_RUN = ("%s requires the %s (%d) to be evenly divisible by the number of steps per "
                "execution of the on-device %s loop 'steps_per_run' (%d) multiplied by the "
                "replication factor (%d).")
STEPS_BY_REPLICAS = ("%s requires the %s (%d) to be evenly divisible by the replication factor "
                     "(%d).")
BATCHES_BY_COUNT = ("%s requires the number of mini-batches in the dataset (%d) to be evenly "
                    "divisible by the gradient accumulation count (%d) multiplied by the "
                    "replication factor (%d)")
BATCHES_BY_RUN = ("%s requires the number of mini-batches in the dataset (%d) to be evenly "
                  "divisible by the product of 'steps_per_run' (%d), the gradient accumulation "
                  "count (%d), and the replication factor (%d).")
