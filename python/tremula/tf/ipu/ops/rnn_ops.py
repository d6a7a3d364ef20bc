"""Recurrent layers (`tensorflow.python.ipu.ops.rnn_ops`).

Inputs are time-major. Gates stand in Keras's order, as since SDK 1.3: input, forget, candidate,
output (LSTM), update, reset, candidate (GRU). Weights of SDK 1.2, which had Poplar's order, must be
permuted before they are loaded.
"""

import json

import tensorflow.compat.v1 as tf

from tremula.tf.inner import layers
from tremula.tf.ipu.ops import _building, _generations, _rnn, op_util, rnn_ops_grad
from tremula.tf.runtime.base import checks

POPNN_LSTM = "lstm"
POPNN_GRU = "gru"
POPNN_DYNAMIC_GRU = "dynamic_gru"
POPNN_AUGRU = "augru"

POPNN_LSTM_NUM_GATES = 4
POPNN_GRU_NUM_GATES = 3
POPNN_DYNAMIC_GRU_NUM_GATES = 3
POPNN_AUGRU_NUM_GATES = 3

__all__ = ["PopnnLSTM", "PopnnDynamicLSTM", "PopnnGRU", "PopnnDynamicGRU", "PopnnAUGRU"]


# Keras's layers convert `call` by AutoGraph, which must not reach loops that are graphs already.
_as_it_is = tf.autograph.experimental.do_not_convert


# Releases before 2.1 had no activations: `name` stood in their place.
_OLD = ["self", "num_units", "dtype", "partials_dtype", "seed", "weights_initializer",
        "bias_initializer", "name"]


def _has_a_name_for_an_activation(arguments):
    if len(arguments) < len(_OLD):
        return False
    given = arguments[len(_OLD) - 1]
    return given is None or isinstance(given, str) and not hasattr(tf.keras.activations, given)


class _PopnnRNN(layers.base().Layer):
    """What the layers have in common.

    num_units                  size U of the state
    dtype                      of weights, inputs and outputs: float32 or float16
    partials_dtype, available_memory_proportion_fwd, available_memory_proportion_bwd, options,
    options_bwd                of the products' plans; they change no number
    seed                       of the default weights_initializer, Glorot's uniform one
    weights_initializer        of the variable `kernel`, [inputs + U, gates * U]
    bias_initializer           of `biases`, [gates, U]; zeros by default
    activation                 "tanh", "relu", "softmax", "sigmoid" or "hard_sigmoid"
    recurrent_activation       the same without "relu"
    name                       of the layer and the scope of its variables
    return_state               whether a call returns (outputs, state) or outputs

    Raises ValueError for other types and activations.
    """

    _num_gates_per_layer = None

    @_generations.older_order(_OLD, _has_a_name_for_an_activation)
    def __init__(self, num_units, dtype=tf.float32, partials_dtype=tf.float32, seed=None,
                 weights_initializer=None, bias_initializer=None, activation="tanh",
                 recurrent_activation="sigmoid", name=None, available_memory_proportion_fwd=None,
                 available_memory_proportion_bwd=None, options=None, options_bwd=None,
                 return_state=True):
        dtype = tf.as_dtype(dtype)
        super().__init__(dtype=dtype, name=name)
        if dtype not in (tf.float16, tf.float32):
            raise ValueError(f"Only support float16, float32, provided {dtype}")
        self._plain_dtype = dtype
        self._num_units = checks.whole("num_units", num_units, least=1)
        self._seed = seed
        self._weights_initializer = weights_initializer
        self._bias_initializer = bias_initializer
        self._activation = _known(activation, _rnn.ACTIVATIONS, "activation")
        self._recurrent_activation = _known(recurrent_activation, _rnn.RECURRENT_ACTIVATIONS,
                                            "recurrent_activation")
        self._return_state = checks.boolean("return_state", return_state)
        self._input_size = None
        self._marks = _marks(partials_dtype, available_memory_proportion_fwd,
                             available_memory_proportion_bwd, options, options_bwd)

    @property
    def num_layers(self):
        """1."""
        return 1

    @property
    def num_units(self):
        """The size of the state."""
        return self._num_units

    @property
    def input_size(self):
        """The last dimension of the inputs. Raises ValueError before the layer is built."""
        if not self._input_size:
            raise ValueError("'input_size' is unknown since layer has not been built.")
        return self._input_size

    @property
    def saveable(self):
        """Refused, as in the original: a tf.train.Saver saves the variables."""
        raise NotImplementedError("This layer does not support object-based saving. Save its "
                                  "variables with a tf.train.Saver.")

    @property
    def canonical_weight_shape(self):
        """The shape of `kernel`. Raises RuntimeError before the layer is built."""
        if not self._input_size:
            raise RuntimeError(f"{type(self).__name__}.canonical_weight_shape invoked before input "
                               "shape is known")
        return [self._input_size + self._num_units, self._num_units * self._num_gates_per_layer]

    @property
    def canonical_bias_shapes(self):
        """The shape of `biases`."""
        return [self._num_gates_per_layer, self._num_units]

    def build(self, input_shape):
        """Makes the variables for inputs of this shape. Raises ValueError unless it has three
        dimensions of which the last is known."""
        if self.built:
            return
        shape = tf.TensorShape(input_shape)
        if shape.rank != 3:
            raise ValueError(f"Expecting input_shape with 3 dims, got {shape.rank}")
        self._input_size = shape.as_list()[-1]
        if self._input_size is None:
            raise ValueError("The last dimension of the inputs to `_PopnnRNN` should be defined. "
                             "Found `None`.")
        self.input_spec = layers.base().InputSpec(ndim=3, axes={-1: self._input_size})
        self.kernel = self._variable(
            "kernel", self.canonical_weight_shape,
            self._weights_initializer or tf.glorot_uniform_initializer(self._seed))
        self._build_biases()
        self.built = True

    def _build_biases(self):
        self.biases = self._variable("biases", self.canonical_bias_shapes,
                                     self._bias_initializer or tf.zeros_initializer())

    def _variable(self, name, shape, initializer):
        return self.add_weight(name, shape, self._plain_dtype, initializer, trainable=True)

    def _tensors(self, *values):
        return [tf.convert_to_tensor(one, self._plain_dtype) for one in values]

    def _zeros(self, inputs):
        batch = inputs.shape.as_list()[1]
        batch = tf.shape(inputs)[1] if batch is None else batch
        return tf.zeros([batch, self._num_units], self._plain_dtype)

    def _result(self, outputs, state):
        return (outputs, state) if self._return_state else outputs

    def call(self, inputs, initial_state=None, training=True):
        raise ValueError("This method needs to be overridden.")

    def state_shape(self, batch_size):
        """The shape, or shapes, of the state."""
        raise ValueError("This method needs to be overridden.")


class PopnnLSTM(_PopnnRNN):
    """A layer of LSTM cells; arguments as those of _PopnnRNN."""

    _rnn_mode = POPNN_LSTM
    _num_gates_per_layer = POPNN_LSTM_NUM_GATES

    def call(self, inputs, initial_state=None, training=True):
        """(outputs [T, B, U], LSTMStateTuple(c, h)), of the layer's type: float16 or float32.

        inputs         [T, B, I]: time, batch, input
        initial_state  an LSTMStateTuple(c, h) of [B, U], zeros by default. As in releases before
                       2.1 it may be a plain tuple (h, c), and then that is returned too
        training       with False nothing is kept for gradients, which are refused then

        Raises ValueError for another initial_state, and for tensors of another type.
        """
        return self._run(inputs, None, initial_state, training, "PopnnLstmLayer")

    @_as_it_is
    def _run(self, inputs, lengths, initial_state, training, kind):
        inputs, = self._tensors(inputs)
        make = _state_tuple()
        if initial_state is None:
            c = h = self._zeros(inputs)
        elif type(initial_state).__name__ == "LSTMStateTuple":
            make, (c, h) = type(initial_state), initial_state
        elif type(initial_state) is tuple and len(initial_state) == 2:
            tf.logging.warning("A plain tuple (h, c) as initial_state of a PopnnLSTM is "
                               "deprecated: pass an LSTMStateTuple(c, h).")
            make, (h, c) = (lambda c, h: (h, c)), initial_state
        else:
            raise ValueError(f"Invalid initial_state type: `{type(initial_state)}`, expecting "
                             "`LSTMStateTuple`.")
        h, c = self._tensors(h, c)
        with tf.name_scope(kind), _building.one_op():
            outputs, h, c = _lstm(inputs, h, c, *self._tensors(self.kernel, self.biases), lengths,
                                  self._activation, self._recurrent_activation, training, kind,
                                  self._marks)
        return self._result(outputs, make(c, h))

    def state_shape(self, batch_size):
        """The shapes of c and h."""
        return ([batch_size, self.num_units], [batch_size, self.num_units])


class PopnnDynamicLSTM(PopnnLSTM):
    """A layer of LSTM cells for sequences of different lengths."""

    def call(self, inputs, seq_len, initial_state=None, training=True):
        """PopnnLSTM.call, with its shapes, types and errors (ValueError), and with the lengths
        seq_len, int32 [B]. Outputs behind a sequence's end are zero, and its state is the one at
        its end."""
        return self._run(inputs, _lengths(seq_len), initial_state, training,
                         "PopnnDynamicLstmLayer")


class PopnnGRU(_PopnnRNN):
    """A layer of GRU cells; arguments as those of _PopnnRNN, and

    reset_after  whether the reset gate scales the product of state and weights instead of the
                 state; `biases` is then [3, 2, U], for the inputs and for the state
    """

    _rnn_mode = POPNN_GRU
    _num_gates_per_layer = POPNN_GRU_NUM_GATES

    @_generations.older_order([*_OLD, "reset_after"], _has_a_name_for_an_activation)
    def __init__(self, num_units, dtype=tf.float32, partials_dtype=tf.float32, seed=None,
                 weights_initializer=None, bias_initializer=None, activation="tanh",
                 recurrent_activation="sigmoid", name=None, reset_after=False,
                 available_memory_proportion_fwd=None, available_memory_proportion_bwd=None,
                 options=None, options_bwd=None, return_state=True):
        super().__init__(num_units, dtype, partials_dtype, seed, weights_initializer,
                         bias_initializer, activation, recurrent_activation, name,
                         available_memory_proportion_fwd, available_memory_proportion_bwd, options,
                         options_bwd, return_state)
        self._reset_after = checks.boolean("reset_after", reset_after)

    @property
    def canonical_bias_shapes(self):
        """The shape of `biases`."""
        gates, units = self._num_gates_per_layer, self._num_units
        return [gates, 2, units] if self._reset_after else [gates, units]

    def call(self, inputs, initial_state=None, training=True):
        """(outputs [T, B, U], state [B, U]), of the layer's type: float16 or float32.

        inputs         [T, B, I]: time, batch, input
        initial_state  [B, U], zeros by default
        training       with False nothing is kept for gradients, which are refused then

        Raises ValueError for tensors of another type.
        """
        return self._run(inputs, None, None, initial_state, training, "PopnnGRULayer")

    @_as_it_is
    def _run(self, inputs, lengths, scores, initial_state, training, kind):
        inputs, = self._tensors(inputs)
        h, = self._tensors(self._zeros(inputs) if initial_state is None else initial_state)
        with tf.name_scope(kind), _building.one_op():
            outputs, state = _gru(inputs, h, *self._tensors(self.kernel, self.biases), lengths,
                                  scores, self._activation, self._recurrent_activation,
                                  self._reset_after, training, kind, self._marks)
        return self._result(outputs, state)

    def state_shape(self, batch_size):
        """The shape of the state."""
        return [batch_size, self.num_units]


class PopnnDynamicGRU(PopnnGRU):
    """A layer of GRU cells for sequences of different lengths. Its biases are two variables:
    `bias_r_u` [2, U], ones by default, and `bias_c` [1, U], zeros by default."""

    _rnn_mode = POPNN_DYNAMIC_GRU
    _num_gates_per_layer = POPNN_DYNAMIC_GRU_NUM_GATES

    def _build_biases(self):
        self._bias_r_u = self._variable("bias_r_u", [2, self._num_units],
                                        self._bias_initializer or tf.ones_initializer())
        self._bias_c = self._variable("bias_c", [1, self._num_units],
                                      self._bias_initializer or tf.zeros_initializer())

    @property
    def biases(self):
        """The biases as one tensor of the shape canonical_bias_shapes."""
        biases = tf.concat([self._bias_r_u, self._bias_c], 0)
        return tf.stack([biases, biases], 1) if self._reset_after else biases

    def call(self, inputs, seq_len, initial_state=None, training=True, time_major=True):
        """PopnnGRU.call, with its shapes, types and errors (ValueError), and with the lengths
        seq_len, int32 [B]. Outputs behind a sequence's end are zero, and its state is the one at
        its end. Without time_major inputs are [B, T, I]; outputs are [T, B, U] all the same."""
        return self._run(_time_major(inputs, time_major), _lengths(seq_len), None, initial_state,
                         training, "PopnnDynamicGRULayer")


class PopnnAUGRU(PopnnDynamicGRU):
    """GRU cells whose update gate attention scales; biases as in PopnnDynamicGRU."""

    _rnn_mode = POPNN_AUGRU
    _num_gates_per_layer = POPNN_AUGRU_NUM_GATES

    def call(self, inputs, seq_len, attention_score, initial_state=None, training=True,
             time_major=True):
        """PopnnDynamicGRU.call, with its shapes, types and errors (ValueError). attention_score [T,
        B] (without time_major [B, T]) scales each step's update gate by 1 - score."""
        score, = self._tensors(attention_score)
        return self._run(_time_major(inputs, time_major), _lengths(seq_len),
                         _time_major(score, time_major), initial_state, training,
                         "PopnnAUGRULayer")


def _time_major(tensor, is_time_major):
    tensor = tf.convert_to_tensor(tensor)
    return tensor if is_time_major else tf.transpose(tensor, [1, 0, 2][:tensor.shape.rank])


def _lengths(seq_len):
    return tf.cast(tf.convert_to_tensor(seq_len), tf.int32)


def _known(activation, accepted, argument):
    name = op_util.get_activation_name(activation)
    if name not in accepted:
        raise ValueError(f"The {argument} must be one of {', '.join(accepted)}, but it is {name}.")
    return name


def _marks(partials_dtype, fraction_forward, fraction_backward, options, options_bwd):
    """What the planner is told of the products of the forward and of the backward pass, two dicts
    of frontend attributes. An argument wins over the word of the options."""
    checks.number("available_memory_proportion_fwd", fraction_forward, most=1, optional=True)
    checks.number("available_memory_proportion_bwd", fraction_backward, most=1, optional=True)
    for name, value in ("options", options), ("options_bwd", options_bwd):
        if value is not None and not isinstance(value, dict):
            raise TypeError(f"{name} must be a dict, but it is {value!r}.")
    partials = tf.as_dtype(partials_dtype)
    if partials not in (tf.float16, tf.float32):
        raise ValueError(f"Only support float16, float32, provided {partials}")
    if fraction_backward is None:
        fraction_backward = fraction_forward
    marks = []
    for fraction, chosen in (fraction_forward, options), (fraction_backward, options_bwd):
        chosen = {"partialsType": "half" if partials == tf.float16 else "float", **(chosen or {})}
        if fraction is not None:
            chosen["availableMemoryProportion"] = fraction
        marks.append({"popnn_options": json.dumps(chosen, sort_keys=True, default=str)})
    return marks


def _state_tuple():
    """TensorFlow's class LSTMStateTuple: of several, the one that programs reach as
    tf.nn.rnn_cell's."""
    try:
        return tf.nn.rnn_cell.LSTMStateTuple
    except (AttributeError, ImportError, RecursionError):  # a Keras that is not there
        return layers.rnn_cells().LSTMStateTuple


def _lstm(x, h, c, kernel, bias, lengths, activation, recurrent, training, kind, marks,
          keep=False, again=False):
    """(outputs, h, c), with their gradient, which without training is refused or, if `again`, does
    the forward pass again; if `keep`, also what the gradient needs of the forward
    pass: gates and cells, [T, B, 5 U], or nothing, [0], without training. marks: see _marks()."""
    extra = [] if lengths is None else [lengths]

    def forward(keep):
        @_building.whole
        def outputs(x, h, c, kernel, bias, *lengths):
            with _building.marked(**marks[0]), _layer("lstm-layer-fwd", x, h, keep, activation,
                                                      recurrent):
                return _present(_rnn.lstm(x, h, c, kernel, bias, lengths[0] if lengths else None,
                                          activation, recurrent, keep))
        return outputs

    @_building.whole
    def backward(x, h, c, kernel, bias, outputs, gates, cells, d_outputs, d_h, d_c, *lengths):
        with _building.marked(**marks[1]), _layer("lstm-layer-bwd", x, h, activation, recurrent):
            return _present(rnn_ops_grad.lstm_grad(
                x, h, c, kernel, bias, lengths[0] if lengths else None, outputs, gates, cells,
                d_outputs, d_h, d_c, activation, recurrent))

    @tf.custom_gradient
    def run(*given):
        outputs, last_h, last_c, *kept = forward(training)(*given)
        layer, lengths = given[:5], given[5:]

        def gradient(d_outputs, d_h, d_c, *_):
            if not training and not again:
                raise rnn_ops_grad.refuse(kind)
            with tf.name_scope(kind + "Backprop"):
                gates, cells = kept or forward(True)(*given)[3:]
                found = backward(*layer, outputs, gates, cells, d_outputs, d_h, d_c, *lengths)
            return (*found, *[None for _ in extra])

        more = [_intermediates(x, *kept)] if keep else []
        return (outputs, last_h, last_c, *more), gradient

    return run(x, h, c, kernel, bias, *extra)


def _gru(x, h, kernel, bias, lengths, scores, activation, recurrent, reset_after, training, kind,
         marks, keep=False, again=False):
    """(outputs, h), with their gradient, which without training is refused or, if `again`, does the
    forward pass again; if `keep`, also what the gradient needs of the forward
    pass: gates, [T, B, 3 U] or with reset_after [T, B, 4 U], or nothing, [0], without training.
    marks: see _marks()."""
    extra = [one for one in (lengths, scores) if one is not None]

    def split(extra):
        return (None if lengths is None else extra[0]), (None if scores is None else extra[-1])

    def forward(keep):
        @_building.whole
        def outputs(x, h, kernel, bias, *extra):
            with _building.marked(**marks[0]), _layer("gru-layer-fwd", x, h, keep, activation,
                                                      recurrent, reset_after):
                return _present(_rnn.gru(x, h, kernel, bias, *split(extra), activation, recurrent,
                                         reset_after, keep))
        return outputs

    @_building.whole
    def backward(x, h, kernel, bias, outputs, gates, d_outputs, d_h, *extra):
        with _building.marked(**marks[1]), _layer("gru-layer-bwd", x, h, activation, recurrent,
                                                  reset_after):
            return _present(rnn_ops_grad.gru_grad(
                x, h, kernel, bias, *split(extra), outputs, gates, d_outputs, d_h, activation,
                recurrent, reset_after))

    @tf.custom_gradient
    def run(*given):
        outputs, last, *kept = forward(training)(*given)
        layer, extra = given[:4], given[4:]

        def gradient(d_outputs, d_h, *_):
            if not training and not again:
                raise rnn_ops_grad.refuse(kind)
            with tf.name_scope(kind + "Backprop"):
                gates, = kept or forward(True)(*given)[2:]
                found = list(backward(*layer, outputs, gates, d_outputs, d_h, *extra))
            if lengths is not None:
                found.insert(4, None)
            return tuple(found)

        more = [_intermediates(x, *kept)] if keep else []
        return (outputs, last, *more), gradient

    return run(x, h, kernel, bias, *extra)


def _layer(word, x, h, *rest):
    """The mark of a layer with inputs x and state h, built in the name scope of now."""
    scope = "" if tf.executing_eagerly() else tf.get_default_graph().get_name_scope()
    return _building.layer(scope, word, f"{x.shape} {h.shape} {x.dtype.name} {rest}")


def _present(tensors):
    return tuple(one for one in tensors if one is not None)


def _intermediates(x, *kept):
    return tf.concat(kept, 2) if kept else tf.zeros([0], x.dtype)
