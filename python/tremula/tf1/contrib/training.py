"""`tf.contrib.training`: HParams, and waiting for checkpoints."""

import json
import sys

import tensorflow.compat.v1 as tf

from tremula.tf.inner.contrib import get_or_create_eval_step, wait_for_new_checkpoint
from tremula.tf1 import contrib_slim, missing

__path__ = []  # the original had files below

__all__ = ["HParams", "checkpoints_iterator", "get_or_create_eval_step",
           "wait_for_new_checkpoint"]

checkpoints_iterator = tf.train.checkpoints_iterator

_SLIM = ("add_gradients_summaries", "clip_gradient_norms", "create_train_op",
         "multiply_gradients", "train")
_SLIM_EVALUATION = ("StopAfterNEvalsHook", "SummaryAtEndHook", "evaluate_once",
                    "evaluate_repeatedly")


def __getattr__(name):
    value = None
    if name == "hparam":  # a file of the original
        return sys.modules[__name__]
    if name in _SLIM:
        value = contrib_slim.attribute("training", name, f"tf.contrib.training.{name}")
    elif name in _SLIM_EVALUATION:
        value = contrib_slim.attribute("training.evaluation", name, f"tf.contrib.training.{name}")
    if value is None:
        raise missing.attribute("training", name)
    return value


class HParams:
    """Named values, which keep their types: attributes of this object.

    A value is a bool, int, float, text, None, or a list of one of them.
    """

    def __init__(self, **kwargs):
        self._types = {}
        for name, value in kwargs.items():
            self.add_hparam(name, value)

    def add_hparam(self, name, value):
        """Adds one. Raises ValueError for a name that is taken and for an empty list."""
        if getattr(self, name, None) is not None:
            raise ValueError(f"Hyperparameter name is reserved: {name}")
        if isinstance(value, (list, tuple)):
            if not value:
                raise ValueError(f"Multi-valued hyperparameters cannot be empty: {name}")
            self._types[name] = (type(value[0]), True)
        else:
            self._types[name] = (type(value), False)
        setattr(self, name, value)

    def set_hparam(self, name, value):
        """Changes one. Raises KeyError for one that there is not, ValueError for another type."""
        kind, is_list = self._types[name]
        if isinstance(value, (list, tuple)) != is_list:
            raise ValueError(f"{name} is {'a list' if is_list else 'no list'}, but {value!r} is "
                             f"{'none' if is_list else 'one'}.")
        setattr(self, name, [_cast(name, kind, one) for one in value] if is_list
                else _cast(name, kind, value))

    def del_hparam(self, name):
        """Removes one, if it is there."""
        if hasattr(self, name):
            delattr(self, name)
            del self._types[name]

    def parse(self, values):
        """Changes those of "name=value,name=[value,value],..."; returns this object. Raises
        ValueError for unknown names and other text."""
        for name, text in _split(values):
            if name not in self._types:
                raise ValueError(f"Unknown hyperparameter type for {name}")
            kind, is_list = self._types[name]
            if is_list != text.startswith("["):
                raise ValueError(f"Could not parse hparam {name!r} in {values!r}")
            parts = text.strip("[]").split(",") if is_list else [text]
            parsed = [_cast(name, kind, _from_text(name, kind, one)) for one in parts]
            setattr(self, name, parsed if is_list else parsed[0])
        return self

    def override_from_dict(self, values_dict):
        """Changes those of a dict; returns this object."""
        for name, value in values_dict.items():
            self.set_hparam(name, value)
        return self

    def parse_json(self, values_json):
        """The same from JSON."""
        return self.override_from_dict(json.loads(values_json))

    def values(self):
        """A dict of all."""
        return {name: getattr(self, name) for name in self._types}

    def to_json(self, indent=None, separators=None, sort_keys=False):
        """All of them as JSON."""
        return json.dumps(self.values(), indent=indent, separators=separators,
                          sort_keys=sort_keys)

    def get(self, key, default=None):
        """The value of one, or `default`."""
        return getattr(self, key) if key in self._types else default

    def __contains__(self, key):
        return key in self._types

    def __repr__(self):
        return f"HParams({', '.join(f'{k}={v!r}' for k, v in sorted(self.values().items()))})"


def _cast(name, kind, value):
    if kind is type(None) or value is None:
        return value
    fits = {float: (int, float), int: int, bool: bool, str: str}.get(kind, object)
    if not isinstance(value, fits) or isinstance(value, bool) != (kind is bool):
        raise ValueError(f"Could not cast hparam {name!r} of type {kind.__name__!r} from value "
                         f"{value!r}")
    return kind(value)


def _from_text(name, kind, text):
    text = text.strip()
    if kind is bool:
        if text.lower() not in ("true", "false", "1", "0"):
            raise ValueError(f"Could not parse {name}={text} as a bool.")
        return text.lower() in ("true", "1")
    return kind(text) if kind in (int, float) else text


def _split(values):
    """(name, text) of each "name=text" between commas that are not in brackets."""
    depth, start, parts = 0, 0, []
    for position, character in enumerate(values):
        depth += (character == "[") - (character == "]")
        if character == "," and depth == 0:
            parts.append(values[start:position])
            start = position + 1
    parts.append(values[start:])
    for part in filter(str.strip, parts):
        name, equals, text = part.partition("=")
        if not equals:
            raise ValueError(f"Could not parse hparams {values!r}: {part!r} has no '='.")
        yield name.strip(), text.strip()
