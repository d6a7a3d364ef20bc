"""Layers of Keras that compute with the IPU's operations, and those that capture gradients."""

import importlib

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


def __getattr__(name):
    if name in _PLACES:
        value = getattr(importlib.import_module(f"{__name__}.{_PLACES[name]}"), name)
    elif name in _MODULES:
        value = importlib.import_module(f"{__name__}.{name}")
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__():
    return sorted({*globals(), *_PLACES, *_MODULES})
