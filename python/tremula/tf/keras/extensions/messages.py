"""The messages of Keras models on IPUs, in the original's words.

Origin: graphcore/keras, SDK 3.4, keras/ipu/extensions/{extensions_base, data_adapter,
model_extensions, functional_extensions, sequential_extensions}.py, and for SDK 2.1's classes
graphcore/tensorflow, SDK 2.1, tensorflow/python/ipu/keras/{model, pipeline}.py. A text that is ours
says so.
"""

# ---- Options ----

POSITIVE = ("Expected `gradient_accumulation_steps_per_replica` to be a positive integer, but got "
            "{} instead.")
METHOD = ("Cannot parse {} as one of GradientAccumulationReductionMethod. Valid values are: SUM, "
          "MEAN, RUNNING_MEAN.")
REPLICATED_METHOD = ("Cannot parse {} as a ReplicatedMetricReductionMethod. Valid values are: "
                     "NONE, LIST, SUM, MEAN.")
OPT = ("Found `opt` key in `gradient_accumulation_optimizer_kwargs`. This is not supported as the "
       "optimizer which the model has been compiled with is automatically wrapped.")
NUM_MINI_BATCHES = (
    "Found `num_mini_batches` key in `gradient_accumulation_optimizer_kwargs`. Set the "
    "`gradient_accumulation_steps_per_replica` argument to `set_gradient_accumulation_options` "
    "instead.")
REMOVED = ("Found `experimental_normalize_gradients` argument to `{}`. This argument has now been "
           "removed, use `gradient_accumulation_reduction_method` instead.")
NO_DICT = "`{}` must be a dictionary."
DEVICE_MAPPING = "Expected `device_mapping` to be a list of integers."
EXPLICIT = ("Found `{}` key in `pipelining_kwargs`. Set the `{}` argument to "
            "`set_pipelining_options` instead.")
AUTOMATIC = "Found `{}` key in `{}`. This argument is automatically set by Keras."
INCOMPATIBLE = "Found `{}` key in `{}`. This argument is not compatible with Keras."

# ---- Running ----

EAGER = ("Keras models cannot run eagerly when using `IPUStrategy`. Set `run_eagerly=False` when "
         "calling `compile`.")
NO_IPU = "{} can only be used on an IPU device."
TOO_FEW_IPUS = ("Current device has {} IPUs attached, however the current model requires a "
                "multiple of {} IPUs.")
OVERRIDDEN = (
    "The function `{}` for the model {} has been overridden. This is not supported when using "
    "Keras within an IPUStrategy. Either remove the override from your model definition or set "
    "`enable_keras_extensions=False` when creating the IPUStrategy.")
OVERRIDDEN_IN_PIPELINE = ("The function `{}` for the model {} has been overridden. This is not "
                          "supported for pipelined Keras models.")
NO_ACCUMULATION = (
    "The model which you are attempting to train is pipelined, however "
    "`gradient_accumulation_steps_per_replica` has not been set through "
    "`set_pipelining_options()`. You need to set this value as pipelined models will perform "
    "gradient accumulation when training.")
NOT_DIVISIBLE = (  # the missing space is the original's
    "The {}model has been configured to use gradient accumulation for training, however the "
    "current `steps_per_execution` value (set to {}) is not divisible by "
    "`gradient_accumulation_steps_per_replica` ({}). You need to adjust either "
    "`steps_per_execution` or`gradient_accumulation_steps_per_replica` to make sure that "
    "`steps_per_execution` is divisible by `gradient_accumulation_steps_per_replica`.")
MINIMIZE = ("When using Gradient Accumulation or Pipelining, the provided optimizer must not "
            "override OptimizerV2.minimize.")
ONLY_V2 = ("use_v2_gradient_accumulation_optimizer may only be set to True when an OptimizerV2 "
           "derived optimizer is used.")
NO_VARIABLES = ("When _KerasOptimizerWrapper has been instantiated with it's model set to None, "
                "var_list must be provided.")
NO_CAPTURED = "captured_grads cannot be used as the wrapped optimizer doesn't support it"
NO_GRADIENT = (  # of Keras' get_gradients()
    "Variable {} has `None` for gradient. Please make sure that all of your ops have a gradient "
    "defined (i.e. are differentiable). Common ops without gradient: K.argmax, K.round, K.eval.")
NO_DATA = "Expect x to be a non-empty array or dataset."

# ---- Models ----

NO_WEIGHTS = ("Weights for model {} have not yet been created. Weights are created when the Model "
              "is first called on inputs or `build()` is called with an `input_shape`.")
NO_CALL = ("The function `call` for the model {} has not been implemented. When subclassing the "
           "`Model` class you must implement the `call` function.")
SINGLE_INPUT = ("Layers in a Sequential model should only have a single input, but we received a "
                "{}: {}. Consider rewriting this model with the Functional API.")
BUILD_SHAPE = (
    "Specified input shape is not one of the valid types. Please specify a batch input shape of "
    "type tuple, a list of input shapes, or a `keras.Input`. User provided input type: {}")
BUILD_TYPES = (
    "You cannot pass a plain shape to your model's `build` function if your layers do not support "
    "float type inputs. You must pass a `keras.Input` object with the required dtype, or `call` "
    "your model on real tensor data (of the correct dtype).")
BUILD_ARGUMENTS = (  # Keras'
    "Currently, you cannot build your model if it has positional or keyword arguments that are not "
    "inputs to the model, but are required for its `call()` method. Instead, in order to "
    "instantiate and build your model, `call()` your model on real tensor data with all expected "
    "call arguments. The argument for `call()` can be a single list/tuple that contains multiple "
    "inputs.")

# ---- Stages ----

NO_STAGE = (
    "All layers of a pipelined model must have an associated pipeline stage. However, {} has not "
    "been assigned to one. Pipeline stages can be assigned when a layer is constructed, or each "
    "time a layer is called. Different pipeline stages can assigned to each call.")
NO_LIST = "`pipeline_stage_assignment` needs to be a list"
LENGTH = (
    "The length of the provided `pipeline_stage_assignment` ({}) does not match the number of "
    "layers in the graph ({}). Each layer needs to be assigned a pipeline stage (excluding input "
    "layers).")
LAYER_CLASS = ("The pipeline stage assignment for {} {} in {} must be an instance of `{}`. Instead "
               "the assignment was of type {}.")
SEQUENTIAL_CLASS = (
    "All elements of `pipeline_stage_assignment` must be instances of "
    "`SequentialLayerPipelineStageAssignment` for layers or  "
    "`SequentialNestedModelPipelineStageAssignment` for nested models.")
ORDER = ("The order of `pipeline_stage_assignment` does not match the post-order generated from "
         "the graph ({} != {}).")
NODES = " (missmatched nodes of layer {})."
UNASSIGNED_CALL = ("Layer {} with node_index {} has not been assigned a pipeline stage in "
                   "`pipeline_stage_assignment`.")
UNASSIGNED_INSIDE = ("Layer {} has not been assigned a pipeline stage in "
                     "`pipeline_stage_assignment`.")
UNASSIGNED = "Layer {} has not been assigned a pipeline stage."
LATER_STAGE = (
    "Layer {} in pipeline stage {} has a dependency from a pipeline stage which has not yet been "
    "executed. Layers can only use outputs from current or previous pipeline stages.")
OTHER_LAYER = ("The provided assignment at index {0} `pipeline_stage_assignment` is for layer {1}, "
               "but the layer in the Sequential model at index {0} is {2}.")
FIRST_LAYER = ("The first layer in a pipelined sequential model needs to be assigned to the 0th "
               "pipeline stage, however it was assigned to {}.")
NOT_NEXT = (
    "Layer {} has been assigned to pipeline stage {}, however the previous layer in the Sequential "
    "model was assigned to pipeline stage {}. A layer in a Sequential model can only be assigned "
    "to the same pipeline stage as the previous layer or to the next pipeline stage.")
NO_GRAPH = (
    "The Sequential model {} cannot be represented as a graph network, this could be because:\n"
    " * A layer in your model failed to evaluate.\n"
    " * The layer is dynamic and therefore not graph compatible.")
NO_NODES = ("Layer {} has no recorded nodes in the graph, but `pipeline_stage_assignment` contains "
            "an assignment for node_index {}.")
FEWER_NODES = ("Layer {} has {} invocation(s) in the graph, but `pipeline_stage_assignment` "
               "contains an assignment for node_index {}.")
GET_NOT_BUILT = ("Cannot get pipeline stage assignments for model `{}` which has not been built "
                 "yet. Please call `model.build()` first.")
SET_NOT_BUILT = ("Cannot set pipeline stage assignments for model `{}` which has not been built "
                 "yet. Please call `model.build()` first, or assign pipeline stages in your graph "
                 "definition using PipelineStage scopes.")
NO_LONGER_VALID = (
    'The pipeline stage assignments for model {} are no longer valid: "{}" This can happen if the '
    "model is invoked with shapes or dtypes which are incompatible with those from the previous "
    "invocation, or those passed to `model.build`. Try calling `model.build` and specifying a less "
    "restrictive shape. You can specify dtypes to `model.build` by passing in `keras.Input` "
    "objects instead of plain shapes.")
OWN_CALL = ("The function `call` for the model {} has been overridden. This is not supported for "
            "pipelined Keras {} models.")
MISSING_STAGES = (
    "All stages in a pipeline must have at lease one layer assigned to them. The highest stage "
    "with an assignment is stage {}, however the preceeding stages {} had no assignments.")

# ---- Saving ----

GET_CONFIG = (
    "get_config() has been overridden on a subclassed Model but IPU-specific properties have not "
    "been saved since the implementation does not call super().get_config(). In the get_config() "
    "override, add `config = super().get_config()` and merge your configuration with this config "
    "dict to ensure these options are saved along with the rest of your model.")
FROM_CONFIG = (
    "Failed to construct subclassed model of type {} from config. Subclassed models which require "
    "parameters in their constructors must override the `from_config` function to be compatible "
    "with saving/loading.")
SAVED_STAGES = (  # ours
    "The configuration of the model {} has pipeline stages of {} calls of layers, but the model "
    "makes {}. Take \"pipeline_stage_assignment\" out of it and call "
    "`set_pipeline_stage_assignment()`.")
SAVED_LAYERS = (  # ours
    "The pipeline stages in the configuration of the model {} are those of other layers. Take "
    "\"pipeline_stage_assignment\" out of it and call `set_pipeline_stage_assignment()`.")

# ---- Serving ----

NO_SIGNATURE = ("Cannot get model's input signature. Please specify the input shape using "
                "`model.build()` or invoke your model using real data.")
NO_BATCH_SIZE = (
    "Not all dimensions of inputs can be determined. Please specify batch size in model's input "
    "layer or specify `batch_size` parameter when exporting model.")

# ---- Data ----

GENERATOR = ("The provided set of data is of type `{}` which is not compatible with the IPU's "
             "requirement to know the data shape ahead of time. Please {}")
USE_DATASET = "use `tf.data.Dataset.from_generator()` to specify the shape of your data."
WRAP_ITERATOR = ("wrap your iterator inside a generator like so:\n\n"
                 "def generator:\n    while True:\n        yield next(iterator)\n\nand ")
PARTIAL_BATCH = (
    "The provided set of data has a partial batch, which could result in data being dropped. "
    "Either adjust the `batch_size` of your model (currently set to {}) or pad your dataset to "
    "ensure there are no partial batches.")
SHAPE = ("The provided set of data contains a shape {} which is not fully defined. Executing on "
         "IPU requires all dataset elements to have fully defined shapes. If using batch() make "
         "sure to set `drop_remainder=True`.")
NOT_ENOUGH = ("Your input does not have enough data. Make sure that your dataset or generator can "
              "generate at least {} batches (currently it can only generate {} batches). You may "
              "need to use the repeat() function when building your dataset.")
NO_SIZE = "Could not infer the size of the data. You must specify the number of steps to run."
TOO_FEW_ITEMS = ("The provided dataset contains {} items, but all {} replicas are requested to run "
                 "{} steps each. Make sure the dataset contains at least {} items.")
NO_DIVISOR = ("`steps_per_execution` ({}) must be a divisor of the number of batches ({}) in the "
              "dataset provided{}.")
TO_REPLICA = " to this replica"
NO_FACTOR = ("Cannot call {} before the replication factor is set. Either specify the replication "
             "factor in the constructor or set it using set_replication_factor.")

# ---- Log ----

DROPPED = ("Dataset of length {} is being evenly distributed between {} replicas. The remaining "
           "{} batch{} will be dropped.")
FEWER_STEPS = ("`steps_per_execution` has been set to {} but the dataset provided{} only contains "
               "{} batches. Using {} as `steps_per_execution`.")
UNKNOWN_SIZE = ("The provided set of data has an unknown size. This can result in runtime errors "
                "if not enough data is provided during execution.")
NUMPY = ("{} is of type `np.ndarray`. This will be cast to `tf.Tensor` during every call to: {}. "
         "If you plan to call any of these functions multiple times in your program, it is "
         "recommended to pre-emptively cast to `tf.Tensor` to avoid the repeated computation.")
ONE_STEP = ("The model `{}` has been configured with only {} steps per execution. Consider "
            "increasing the value for the `steps_per_execution` argument passed to the `compile()` "
            "method to improve performance.")
EFFECTIVE = "Training is{}{}{}, your effective batch size is {}."
UPDATES = "Doing {} weight update{} per execution per replica, which is {} per epoch per replica."
LAYERS_HAVE_CHANGED = (
    "Calling `get_pipeline_stage_assignment()` on a model which has had layers added/removed since "
    "the last `set_pipeline_stage_assignment()` call which means that the current assignment is "
    "not valid.")
LAYERS_CHANGE = (
    "{} a pipelined Sequential model has invalidated the pipeline stage assignment. You need to "
    "call `set_pipeline_stage_assignment()` before executing again.")
MOVING_STATISTICS = (
    "The moving statistics for keras.BatchNormalization layers in pipelined models are not "
    "properly updated when training. This means that during evaluation or inference, these batch "
    "normalization layers will not necessarily normalize their input data in a way that is "
    "consistent with the distribution of the data they saw when training.")
_AGAIN = "cannot be serialized and you will need to call `{}` again if the model is restored."
OPTIMIZER_KWARGS = (
    "Calling get_config() on {} - `gradient_accumulation_optimizer_kwargs` "
    + _AGAIN.format("set_gradient_accumulation_options")
    + " Further displays of this info is suppressed.")
PIPELINING_KWARGS = ("Calling get_config() on {} - `pipelining_kwargs` "
                     + _AGAIN.format("set_pipelining_options"))

# ---- SDK 2.1: construction ----

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
CALL_WITHOUT_STAGE = ("All layers of a pipelined model must have an associated pipeline stage.\n"
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

# ---- SDK 2.1: use ----

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
ARRAYS_WITHOUT_SIZE = "`batch_size` or `steps` is required for `Tensor` or `NumPy` input data."
ELEMENTS = ("%s requires a dataset with a structure containing %d element(s), but got %d "
            "element(s) instead.")
LAYER_LOSSES = "Custom layer losses are not supported."
NO_LOSS = "The model cannot be compiled because it has no loss to optimize."
NOTHING_TO_TRAIN = "{} must have at least one trainable parameter."

# ---- SDK 2.1: steps ----

NO_STEPS = ("When using an infinitely repeating dataset, you must provide the number of steps per "
            "epoch (steps_per_epoch).")
TOO_MANY_STEPS = ("%s times gradient accumulation count (%d x %d) is greater than the number of "
                  "mini-batches in the dataset (%d).")
TOO_FEW_BATCHES = ("The number of mini-batches in the dataset (%d) must be at least the gradient "
                   "accumulation count (%d) multiplied by the replication factor (%d)%s.")
BATCHES_DROPPED = (
    " The number of mini-batches in the dataset (%d) must be a multiple of the gradient "
    "accumulation count (%d) multiplied by the replication factor (%d)%s. Samples have been "
    "dropped to give a dataset of %d mini-batches. Adjust the size of the supplied dataset or "
    "specify the %s if you do not want this to happen.")
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
