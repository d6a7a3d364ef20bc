"""Layers of Keras that compute with the IPU's operations, and those that capture gradients."""

from tremula.tf.keras import lazy

# Module -> the names that this package shows of it.
_MODULES = {
    "assume_equal_across_replicas": ("AssumeEqualAcrossReplicas",),
    "capture_upstream_gradients": ("CaptureActivationGradients", "CaptureUpstreamGradients"),
    "ctc": ("CTCInferenceLayer", "CTCLoss", "CTCPredictionsLayer"),
    "dense": ("Dense", "SerialDense"),
    "dropout": ("Dropout",),
    "effective_transformer": ("EffectiveTransformer",),
    "embedding_lookup": ("Embedding",),
    "f8_convert": ("ConvertFromF8", "ConvertToF8"),
    "ipu_layer": ("IPULayer",),
    "math": (),
    "normalization": ("GroupNorm", "GroupNormalization", "InstanceNorm", "InstanceNormalization",
                      "LayerNorm", "LayerNormalization"),
    "recomputation": ("RecomputationCheckpoint",),
    "rnn": ("GRU", "LSTM", "PopnnGRU", "PopnnLSTM"),
}

_PLACES = {name: module for module, names in _MODULES.items() for name in names}

__all__ = sorted(_PLACES)  # noqa: PLE0605

__getattr__, __dir__ = lazy.names(__name__, _PLACES, _MODULES)
