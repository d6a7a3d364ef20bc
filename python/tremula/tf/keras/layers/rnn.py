"""Recurrent layers: Keras' LSTM and GRU over the IPU's operations.

Weights have Keras' shapes and order, so that they can be copied from and to Keras' layers.
"""

import tensorflow as tf

from tremula.tf.ipu.ops import _building, _rnn, op_util, rnn_ops
from tremula.tf.inner import keras as inner
from tremula.tf.keras.layers import ipu_layer

POPNN_LSTM = rnn_ops.POPNN_LSTM
POPNN_GRU = rnn_ops.POPNN_GRU
POPNN_LSTM_NUM_GATES = rnn_ops.POPNN_LSTM_NUM_GATES
POPNN_GRU_NUM_GATES = rnn_ops.POPNN_GRU_NUM_GATES

ACCEPTED_ACTIVATIONS = list(_rnn.ACTIVATIONS)
ACCEPTED_RECURRENT_ACTIVATIONS = list(_rnn.RECURRENT_ACTIVATIONS)
ACCEPTED_ACTIVATIONS_STR = ",".join(f'"{name}"' for name in ACCEPTED_ACTIVATIONS)
ACCEPTED_RECURRENT_ACTIVATIONS_STR = ",".join(
    f'"{name}"' for name in ACCEPTED_RECURRENT_ACTIVATIONS)

# Arguments of Keras' layers that both of the IPU's layers refuse.
_REFUSED = ("kernel_regularizer", "recurrent_regularizer", "bias_regularizer",
            "activity_regularizer", "kernel_constraint", "recurrent_constraint",
            "bias_constraint")


class _PopnnRNN(ipu_layer.IPULayer):
    """The base of the two layers. Arguments are those of Keras' layers, and

    dropout_seed             two 32-bit integers: of the dropout of inputs
    partials_dtype, options, options_bwd   of the products' plans; they change no number
    available_memory_proportion_fwd, ..._bwd   the same options, as SDK 2.4 and 2.5 have them
    seed                     is not used: initializers have seeds of their own
    time_major               whether inputs and outputs are [time, batch, ...]
    """

    _kind = _gates = _rnn_mode = None

    def __init__(self, units, activation, recurrent_activation, use_bias, kernel_initializer,
                 recurrent_initializer, bias_initializer, dropout, dropout_seed, return_sequences,
                 return_state, stateful, partials_dtype, seed, time_major, options, options_bwd,
                 refused, available_memory_proportion_fwd=None,
                 available_memory_proportion_bwd=None, **kwargs):
        super().__init__(**kwargs)
        for is_given, what in ((not use_bias, "use_bias = False"), *refused):
            if is_given:
                raise ValueError(f"IPU custom {self._kind} layer does not support {what}.")
        activations = inner.public("activations")
        self.activation = activations.get(activation)
        self.recurrent_activation = activations.get(recurrent_activation)
        # A text is the name itself, because functions of Keras may share a name.
        self._activation_name = _known(
            activation, self.activation, ACCEPTED_ACTIVATIONS, "an activation",
            ACCEPTED_ACTIVATIONS_STR)
        self._recurrent_activation_name = _known(
            recurrent_activation, self.recurrent_activation, ACCEPTED_RECURRENT_ACTIVATIONS,
            "a recurrent activation", ACCEPTED_RECURRENT_ACTIVATIONS_STR)
        dtype = tf.as_dtype(self.compute_dtype or inner.public("backend").floatx())
        if dtype not in (tf.float16, tf.float32):
            raise ValueError(f"Only support float16, float32, provided {dtype}")
        initializers = inner.public("initializers")
        self.kernel_initializer = initializers.get(kernel_initializer)
        self.recurrent_initializer = initializers.get(recurrent_initializer)
        self.bias_initializer = initializers.get(bias_initializer)
        self.units = int(units)
        self.dropout = dropout
        self.dropout_seed = dropout_seed
        self.return_sequences = return_sequences
        self.return_state = return_state
        self.stateful = stateful
        self.seed = seed
        self.time_major = time_major
        self._partials_dtype = tf.as_dtype(partials_dtype)
        self._options, self._options_bwd = options, options_bwd
        self._marks = rnn_ops._marks(partials_dtype, available_memory_proportion_fwd,
                                     available_memory_proportion_bwd, options, options_bwd)
        self._input_size = None
        self.states = None
        self.input_spec = [inner.public("layers").InputSpec(ndim=3)]

    @property
    def num_layers(self):
        """1."""
        return 1

    @property
    def num_units(self):
        """The size of the state."""
        return self.units

    @property
    def input_size(self):
        """The last dimension of the inputs. Raises ValueError before the layer is built."""
        if not self._input_size:
            raise ValueError("`_input_size` is unknown because the layer has not been built yet.")
        return self._input_size

    @property
    def canonical_weight_shape(self):
        """The shape of `kernel` with `recurrent_kernel` below it."""
        return [self.input_size + self.units, self.units * self._gates]

    @property
    def canonical_bias_shapes(self):
        """The shape of the biases, gate by gate."""
        return [self._gates, self.units]

    @property
    def saveable(self):
        """Refused: save the layer's weights, or the model."""
        raise NotImplementedError("This layer does not support object-based saving. Save its "
                                  "weights or its model.")

    def build(self, input_shape):
        """Makes the variables. Raises ValueError unless the inputs have three dimensions of which
        the last is known."""
        if isinstance(input_shape, list) and not isinstance(input_shape[0], (int, type(None))):
            input_shape = input_shape[0]
        shape = tf.TensorShape(input_shape)
        if shape.rank != 3:
            raise ValueError(f"Expecting input_shape with 3 dims, got {shape.rank}")
        self._input_size = shape.as_list()[-1]
        if self._input_size is None:
            raise ValueError("The last dimension of the inputs to `_PopnnRNN` should be defined. "
                             "Found `None`.")
        columns = self._gates * self.units
        self.kernel = self.add_weight("kernel", [self._input_size, columns],
                                      initializer=self.kernel_initializer)
        self.recurrent_kernel = self.add_weight("recurrent_kernel", [self.units, columns],
                                                initializer=self.recurrent_initializer)
        self.biases = self.add_weight("biases", self._bias_shape(),
                                      initializer=self._biases_initializer())
        if self.stateful:
            batch = shape.as_list()[1 if self.time_major else 0]
            if batch is None:
                raise ValueError("A stateful layer needs inputs of a known batch size.")
            self._set_states([tf.Variable(
                tf.zeros([batch, self.units], self._variable_type()), trainable=False,
                name=f"{name}_state") for name in self._state_names])
        self.built = True

    def _variable_type(self):
        return tf.as_dtype(self.dtype or inner.public("backend").floatx())

    @tf.__internal__.tracking.no_automatic_dependency_tracking
    def _set_states(self, variables):
        """States are no weights, as in Keras' layers."""
        self.states = variables

    def _bias_shape(self):
        return [self._gates * self.units]

    def _biases_initializer(self):
        return self.bias_initializer

    def reset_states(self, states=None):
        """Makes the states of a stateful layer zeros, or `states`, arrays of their shapes."""
        if not self.stateful:
            raise AttributeError("Layer must be stateful.")
        if self.states is None:
            raise ValueError("The layer has no states yet: it is not built.")
        for number, variable in enumerate(self.states):
            value = None if states is None else tf.nest.flatten(states)[number]
            variable.assign(tf.zeros_like(variable) if value is None else value)

    def __call__(self, inputs, *args, initial_state=None, **kwargs):
        if initial_state is not None:
            # A list is a structure that Keras flattens, because states may be symbolic tensors.
            kwargs["initial_state"] = list(tf.nest.flatten(initial_state))
        return super().__call__(inputs, *args, **kwargs)

    def call(self, inputs, mask=None, training=None, initial_state=None):
        """The last output, or with return_sequences all; with return_state (that, state...).

        inputs         [batch, time, inputs]
        mask           refused
        training       whether dropout is applied. With False nothing is kept for gradients, which
                       compute the forward pass again
        initial_state  (h, c), of a GRU h; by default zeros, in a stateful layer the state after
                       the last call
        """
        self._check_unsupported(mask is not None, "mask", "call")
        inputs = tf.convert_to_tensor(inputs)
        if inputs.shape.rank != 3:
            raise ValueError("inputs tensor must be 3D")
        if self.dropout:
            inputs = self._drop(inputs, training)
        if not self.time_major:
            inputs = tf.transpose(inputs, [1, 0, 2])
        dtype = inputs.dtype
        if initial_state is None and self.stateful:
            initial_state = [tf.cast(one, dtype) for one in self.states]
        if initial_state is None:
            batch = inputs.shape[1] if inputs.shape[1] is not None else tf.shape(inputs)[1]
            zeros = tf.zeros([batch, self.units], dtype)
            state = [zeros for _ in self._state_names]
        else:
            state = [tf.cast(one, dtype) for one in tf.nest.flatten(initial_state)]
        kernel = tf.concat([tf.cast(self.kernel, dtype), tf.cast(self.recurrent_kernel, dtype)], 0)
        # A tape may ask for gradients of a call without `training`, as with Keras' layers.
        is_kept = not isinstance(training, (bool, int)) or bool(training)
        with tf.name_scope(f"Popnn{self._kind}Layer"), _building.one_op():
            outputs, *state = self._run(inputs, state, kernel, tf.cast(self.biases, dtype), is_kept)
        if self.stateful:
            self.add_update([variable.assign(tf.cast(one, variable.dtype))
                             for variable, one in zip(self.states, state)])
        if not self.return_sequences:
            outputs = outputs[-1]
        elif not self.time_major:
            outputs = tf.transpose(outputs, [1, 0, 2])
        return (outputs, *state) if self.return_state else outputs

    def _drop(self, inputs, training):
        from tremula.tf.ipu.ops import rand_ops
        shape = inputs.shape.as_list()
        noise = [1, shape[1], shape[2]] if self.time_major else [shape[0], 1, shape[2]]
        return inner.choose(
            inner.is_training(training),
            lambda: rand_ops.dropout(inputs, rate=self.dropout, noise_shape=noise,
                                     seed=self.dropout_seed),
            lambda: tf.identity(inputs))

    def state_shape(self, batch_size):
        """The shape of the state, of an LSTM two shapes."""
        shapes = tuple([batch_size, self.units] for _ in self._state_names)
        return shapes if len(shapes) > 1 else shapes[0]

    def compute_output_shape(self, input_shape):
        """The shapes of what a call returns."""
        first, second, _ = tf.TensorShape(input_shape).as_list()
        batch = second if self.time_major else first
        state = tf.TensorShape([batch, self.units])
        outputs = tf.TensorShape([first, second, self.units]) if self.return_sequences else state
        return (outputs, *(state for _ in self._state_names)) if self.return_state else outputs

    def get_config(self):
        """The constructor's arguments; neither the name nor the type, as in the original."""
        initializers = inner.public("initializers")
        return {
            "units": self.units, "activation": self._activation_name,
            "recurrent_activation": self._recurrent_activation_name,
            "kernel_initializer": initializers.serialize(self.kernel_initializer),
            "recurrent_initializer": initializers.serialize(self.recurrent_initializer),
            "bias_initializer": initializers.serialize(self.bias_initializer),
            "dropout": self.dropout, "dropout_seed": self.dropout_seed,
            "return_sequences": self.return_sequences, "return_state": self.return_state,
            "stateful": self.stateful, "partials_dtype": self._partials_dtype.name,
            "seed": self.seed, "time_major": self.time_major}


@ipu_layer.registered
class PopnnLSTM(_PopnnRNN):
    """Keras' LSTM. Arguments that the IPU's operation cannot honour raise ValueError."""

    _kind, _gates, _rnn_mode = "LSTM", POPNN_LSTM_NUM_GATES, POPNN_LSTM
    _state_names = ("h", "c")

    def __init__(self, units, activation="tanh", recurrent_activation="sigmoid", use_bias=True,
                 kernel_initializer="glorot_uniform", recurrent_initializer="orthogonal",
                 bias_initializer="zeros", unit_forget_bias=True, kernel_regularizer=None,
                 recurrent_regularizer=None, bias_regularizer=None, activity_regularizer=None,
                 kernel_constraint=None, recurrent_constraint=None, bias_constraint=None,
                 dropout=0., dropout_seed=None, recurrent_dropout=0., implementation=2,
                 return_sequences=False, return_state=False, go_backwards=False, stateful=False,
                 unroll=False, partials_dtype=tf.float32, seed=None, time_major=False,
                 options=None, options_bwd=None, **kwargs):
        refused = (
            *zip((kernel_regularizer, recurrent_regularizer, bias_regularizer,
                  activity_regularizer, kernel_constraint, recurrent_constraint,
                  bias_constraint), _REFUSED),
            (recurrent_dropout, "recurrent_dropout"),
            (implementation not in (1, 2), "implementation != 1"),
            (go_backwards, "go_backwards = True"), (unroll, "unroll = True"))
        super().__init__(units, activation, recurrent_activation, use_bias, kernel_initializer,
                         recurrent_initializer, bias_initializer, dropout, dropout_seed,
                         return_sequences, return_state, stateful, partials_dtype, seed,
                         time_major, options, options_bwd, refused, **kwargs)
        self.unit_forget_bias = unit_forget_bias

    def _biases_initializer(self):
        if not self.unit_forget_bias:
            return self.bias_initializer

        def initialize(shape, dtype=None, **kwargs):
            del shape
            make, ones = self.bias_initializer, inner.public("initializers").Ones()
            return tf.concat([make([self.units], dtype, **kwargs),
                              ones([self.units], dtype, **kwargs),
                              make([2 * self.units], dtype, **kwargs)], 0)

        return initialize

    def get_bias(self):
        """The biases, gate by gate: a tensor [4, units]."""
        return tf.reshape(self.biases, self.canonical_bias_shapes)

    def _run(self, inputs, state, kernel, biases, is_kept):
        return rnn_ops._lstm(inputs, *state, kernel, tf.reshape(biases, [self._gates, self.units]),
                             None, self._activation_name, self._recurrent_activation_name,
                             is_kept, "PopnnLstmLayer", self._marks, again=True)

    def get_config(self):
        """The constructor's arguments."""
        return {**super().get_config(), "unit_forget_bias": self.unit_forget_bias}


@ipu_layer.registered
class PopnnGRU(_PopnnRNN):
    """Keras' GRU. Arguments that the IPU's operation cannot honour raise ValueError."""

    _kind, _gates, _rnn_mode = "GRU", POPNN_GRU_NUM_GATES, POPNN_GRU
    _state_names = ("h",)

    def __init__(self, units, activation="tanh", recurrent_activation="sigmoid", use_bias=True,
                 kernel_initializer="glorot_uniform", recurrent_initializer="orthogonal",
                 bias_initializer="zeros", kernel_regularizer=None, recurrent_regularizer=None,
                 bias_regularizer=None, activity_regularizer=None, kernel_constraint=None,
                 recurrent_constraint=None, bias_constraint=None, dropout=0., dropout_seed=None,
                 recurrent_dropout=0., implementation=2, return_sequences=False,
                 return_state=False, go_backwards=False, stateful=False, unroll=False,
                 reset_after=True, seed=None, partials_dtype=tf.float32, time_major=False,
                 options=None, options_bwd=None, **kwargs):
        refused = (
            *zip((kernel_regularizer, recurrent_regularizer, bias_regularizer,
                  activity_regularizer, kernel_constraint, recurrent_constraint,
                  bias_constraint), _REFUSED),
            (recurrent_dropout, "recurrent_dropout != 0"),
            (implementation not in (1, 2), "implementation != 1"),
            (go_backwards, "go_backwards"), (unroll, "unroll"))
        super().__init__(units, activation, recurrent_activation, use_bias, kernel_initializer,
                         recurrent_initializer, bias_initializer, dropout, dropout_seed,
                         return_sequences, return_state, stateful, partials_dtype, seed,
                         time_major, options, options_bwd, refused, **kwargs)
        self.reset_after = reset_after

    @property
    def canonical_bias_shapes(self):
        """The shape of the biases, gate by gate; with reset_after for inputs and for the state."""
        shape = super().canonical_bias_shapes
        return [shape[0], 2, shape[1]] if self.reset_after else shape

    def _bias_shape(self):
        shape = super()._bias_shape()
        return [2, *shape] if self.reset_after else shape

    def _run(self, inputs, state, kernel, biases, is_kept):
        if self.reset_after:
            biases = tf.transpose(tf.reshape(biases, [2, self._gates, self.units]), [1, 0, 2])
        else:
            biases = tf.reshape(biases, [self._gates, self.units])
        return rnn_ops._gru(inputs, *state, kernel, biases, None, None, self._activation_name,
                            self._recurrent_activation_name, self.reset_after, is_kept,
                            "PopnnGRULayer", self._marks, again=True)

    def get_config(self):
        """The constructor's arguments."""
        return {**super().get_config(), "reset_after": self.reset_after}


def _known(given, function, accepted, what, listed):
    name = given if isinstance(given, str) else op_util.get_activation_name(function)
    if name not in accepted:
        raise ValueError(f"IPU custom RNN layer does not support '{name}' as {what}. Acceptable "
                         f"value are {listed}")
    return name


LSTM = PopnnLSTM
GRU = PopnnGRU
