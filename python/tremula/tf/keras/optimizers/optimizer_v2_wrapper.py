"""The base of optimizers around an optimizer."""

import inspect

from tremula.tf.inner import keras as inner
from tremula.tf.ipu.ops import _captured_gradients

_Base = inner.legacy_optimizer()
_CLIPS = ("clipnorm", "clipvalue", "global_clipnorm")


class _OptimizerV2Wrapper(_Base):
    """Passes on to the optimizer `opt` what it does not do itself. Hyperparameters, slots, weights
    and steps belong to `opt`. An optimizer of the newer kind is first replaced by one with slots.

    A wrapper changes the loss in _compute_gradients() and get_gradients(), and gradients in
    apply_gradients(), and calls the same method of `opt` with its results. So wrappers can be
    around each other in any order.

    Raises ValueError for an object that is no optimizer of Keras.
    """

    _HAS_AGGREGATE_GRAD = True

    def __init__(self, opt, name=None, **kwargs):
        opt = inner.to_legacy(opt)
        object.__setattr__(self, "_opt", opt)
        super().__init__(name or type(self).__name__,
                         **{**{key: getattr(opt, key) for key in _CLIPS}, **kwargs})
        self._track_trackable(opt, "inner_optimizer", overwrite=True)

    # ---- Hyperparameters ----

    def __getattribute__(self, name):
        if name == "lr":
            name = "learning_rate"
        try:
            return super().__getattribute__(name)
        except AttributeError:
            inside = object.__getattribute__(self, "__dict__").get("_opt")
            if inside is None or not _has_hyper(inside, name):
                raise
            return getattr(inside, name)

    def __setattr__(self, name, value):
        name = "learning_rate" if name == "lr" else name
        inside = self.__dict__.get("_opt")
        if inside is not None and _has_hyper(inside, name):
            setattr(inside, name, value)
        else:
            super().__setattr__(name, value)

    clipnorm, clipvalue, global_clipnorm = (
        property(lambda self, key=key: getattr(self._opt, key),
                 lambda self, value, key=key: setattr(self._opt, key, value))
        for key in _CLIPS)

    # ---- Weights ----

    @property
    def iterations(self):
        """The number of steps."""
        return self._opt.iterations

    @iterations.setter
    def iterations(self, variable):
        self._opt.iterations = variable

    @property
    def weights(self):
        """The weights of this optimizer and of the one inside."""
        return [*self._weights, *self._opt.weights]

    def variables(self):
        """The same."""
        return self.weights

    def get_weights(self):
        """Their values."""
        return inner.public("backend").batch_get_value(self.weights)

    def set_weights(self, weights):
        """Sets them. Raises ValueError for another number of weights."""
        own = self.weights
        if len(own) != len(weights):
            raise ValueError(f"{type(self).__name__} has {len(own)} weights, but {len(weights)} "
                             "were given.")
        inner.public("backend").batch_set_value(list(zip(own, weights)))

    def get_slot(self, var, slot_name):
        """A slot of the optimizer inside."""
        return self._opt.get_slot(var, slot_name)

    def get_slot_names(self):
        """The names of its slots."""
        return self._opt.get_slot_names()

    def add_slot(self, var, slot_name, initializer="zeros", shape=None):
        """A new slot of the optimizer inside."""
        return self._opt.add_slot(var, slot_name, initializer, shape)

    # ---- Steps ----

    def _create_hypers(self):
        super()._create_hypers()
        self._opt._create_hypers()

    def _create_slots(self, var_list):
        self._opt._create_slots(var_list)

    def _create_all_weights(self, var_list):
        self._opt._create_all_weights(var_list)

    def _prepare(self, var_list):
        return self._opt._prepare(var_list)

    @property
    def supports_captured_grads(self):
        """Whether apply_gradients() of the optimizer inside takes `captured_grads`."""
        return _captured_gradients.are_taken_by(self._opt)

    def minimize(self, loss, var_list, grad_loss=None, name=None, tape=None):
        """As Keras' minimize(). What a GradientCaptureTape has captured is handed on to an
        optimizer inside that takes it."""
        found = self._compute_gradients(loss, var_list, grad_loss, tape)
        captured = getattr(tape, "captured_gradients", None)
        more = {"captured_grads": captured} if captured and self.supports_captured_grads else {}
        return self.apply_gradients(found, name=name, **more)

    def _compute_gradients(self, loss, var_list, grad_loss=None, tape=None):
        return self._opt._compute_gradients(loss, var_list, grad_loss, tape)

    def get_gradients(self, loss, params):
        """The gradients of a loss in a graph, as the optimizer inside computes them."""
        return self._opt.get_gradients(loss, params)

    def apply_gradients(self, grads_and_vars, name=None, experimental_aggregate_gradients=True,
                        **kwargs):
        """Hands gradients on to the optimizer inside, with further arguments that it takes."""
        if not experimental_aggregate_gradients:
            kwargs["experimental_aggregate_gradients"] = False
        return self._opt.apply_gradients(grads_and_vars, name=name, **kwargs)

    def _aggregated(self, grads_and_vars, aggregates):
        """(gradients, whether they must still be summed over replicas): the sums, unless the
        optimizer inside cannot be told that they are sums already."""
        inside = self
        while isinstance(inside, _OptimizerV2Wrapper):
            inside = inside._opt
        parameters = inspect.signature(inside.apply_gradients).parameters
        if not aggregates or "experimental_aggregate_gradients" not in parameters and not any(
                one.kind is one.VAR_KEYWORD for one in parameters.values()):
            return grads_and_vars, aggregates
        return inside._aggregate_gradients(
            inside._transform_unaggregated_gradients(grads_and_vars)), False

    # What an optimizer of another library around this one calls, one variable after the other.

    def _transform_gradients(self, grads_and_vars):
        return self._opt._transform_gradients(grads_and_vars)

    def _resource_apply_dense(self, grad, handle, apply_state=None):
        arguments = ({"apply_state": apply_state}
                     if "apply_state" in self._opt._dense_apply_args else {})
        return self._opt._resource_apply_dense(grad, handle, **arguments)

    def _resource_apply_sparse(self, grad, handle, indices, apply_state=None):
        arguments = ({"apply_state": apply_state}
                     if "apply_state" in self._opt._sparse_apply_args else {})
        return self._opt._resource_apply_sparse(grad, handle, indices, **arguments)

    def _resource_apply_sparse_duplicate_indices(self, grad, handle, indices, **kwargs):
        return self._opt._resource_apply_sparse_duplicate_indices(grad, handle, indices, **kwargs)

    # ---- Configuration ----

    def get_config(self):
        """The constructor's arguments, with the name of the class of the optimizer inside."""
        return {"name": self._name, "inner_optimizer_config": self._opt.get_config(),
                "inner_optimizer_type": inner.saved_name(type(self._opt))}

    @staticmethod
    def _verify_config(config):
        for key, what in (
                ("inner_optimizer_config", "a configuration dict for the wrapped optimizer"),
                ("inner_optimizer_type", "a type for the wrapped optimizer")):
            if key not in config:
                raise ValueError("_OptimizerV2Wrapper configuration dicts must contain "
                                 f"{what}, {key}.")
        kind = config["inner_optimizer_type"]
        if not (isinstance(kind, type) and issubclass(kind, _Base)):
            raise ValueError("inner_optimizer_type must be a class derived from Keras OptimizerV2.")

    @classmethod
    def _inner_of(cls, config):
        """(the optimizer inside, the other arguments) of a configuration."""
        config = dict(config)
        if isinstance(config.get("inner_optimizer_type"), str):
            config["inner_optimizer_type"] = inner.saved_class(
                config["inner_optimizer_type"], "optimizers.legacy")
        cls._verify_config(config)
        inside = config.pop("inner_optimizer_config")
        return config.pop("inner_optimizer_type").from_config(dict(inside)), config

    @classmethod
    def from_config(cls, config, custom_objects=None):
        """The optimizer of a configuration."""
        del custom_objects
        opt, config = cls._inner_of(config)
        return cls(opt, **config)


def _has_hyper(optimizer, name):
    """Whether a hyperparameter belongs to an optimizer or to one inside it."""
    while not isinstance(hypers := vars(optimizer).get("_hyper"), dict) or name not in hypers:
        # Of a wrapper of ours, or of Keras' LossScaleOptimizer, which has no hyperparameters.
        optimizer = vars(optimizer).get("_opt", vars(optimizer).get("_optimizer"))
        if optimizer is None:
            return False
    return True
