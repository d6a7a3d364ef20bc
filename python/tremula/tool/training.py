"""A training step of an inference model, to be planned: loss, gradients, the optimiser's updates.

Constants and variables of the model become inputs. Nothing is run, so their values do not matter:
the plan follows from the ops and the sizes of their arrays.
"""

import collections

from tremula import tool
from tremula.tool import lower

OPTIMISERS = ("sgd", "momentum", "adam")

_NORMS = ("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")
_PASSED_THROUGH = ("Identity", "Cast", "Snapshot")

# A tensor of the model that the program gets from outside. tensor: the placeholder.
_Weight = collections.namedtuple("_Weight", "name tensor")


def lower_step(graph, placeholders, outputs, input_names, output_names, optimiser=None,
               has_own_batch=False):
    """The bytes of a module: the model with its weights as inputs or, with an optimiser, a training
    step of it. The arguments are what lower.saved_model and lower.graph return.

    The loss is the cross-entropy of the first floating-point output with labels (an input more)
    where that is of the shape [items, classes], otherwise the mean squared difference from a
    target. Batch normalisation works with the batch's statistics and keeps moving averages up.
    Raises a Complaint for a model that has no gradients.
    """
    import tensorflow as tf
    with tf.Graph().as_default():
        inputs, weights, outputs, norms = _rebuild(graph, placeholders, outputs, bool(optimiser))
        notes = {"parameters": _size(weights), "has_own_batch": has_own_batch}
        names = [*input_names, *(one.name for one in weights)]
        tensors = [*inputs, *(one.tensor for one in weights)]
        if not optimiser:
            return lower.lower(tf.compat.v1.get_default_graph(), tensors, outputs, names,
                               output_names, notes=notes)
        step = _Step(tensors[:len(inputs)], names[:len(inputs)])
        loss = step.loss(outputs, output_names)
        step.train(loss, weights, norms, optimiser)
        return lower.lower(tf.compat.v1.get_default_graph(), step.tensors, [loss, *step.values],
                           step.names, ["loss", *step.value_names], step.updates, notes)


def _size(weights):
    """Number and bytes of the weights."""
    sizes = [(one.tensor.shape.num_elements(), one.tensor.dtype.size) for one in weights]
    return {"count": sum(count for count, _ in sizes),
            "bytes": sum(count * size for count, size in sizes)}


# ---- The model again, its weights cut off ----

def _rebuild(graph, placeholders, outputs, training):
    """Imports the model into the default graph. Returns its inputs, its weights that the outputs
    need, its outputs, and the batch normalisations."""
    import tensorflow as tf
    graph_def = graph.as_graph_def()
    cut, made = {}, {}
    needed = _needed(graph_def, outputs)
    _keep(graph_def, needed)
    for key, name, dtype, shape in _weights(graph_def):
        if name not in made:
            made[name] = _Weight(name, tf.compat.v1.placeholder(dtype, shape, "tremula_weight"))
        cut[key] = made[name].tensor
    norms = [node.name for node in graph_def.node if node.op in _NORMS]
    for node in graph_def.node:
        # A custom gradient is a function over tensors of the graph that it was made in (in swish,
        # to hold less of it). The gradients of what the nodes compute are taken instead.
        node.attr.pop("_gradient_op_type", None)
        if training and node.op in _NORMS:
            node.attr["is_training"].b = True
            if "exponential_avg_factor" in node.attr:  # V3's
                node.attr["exponential_avg_factor"].f = 1.0
    inputs = [tf.compat.v1.placeholder(one.dtype, one.shape, "tremula_feed")
              for one in placeholders]
    mapping = {**cut, **{one.name: new for one, new in zip(placeholders, inputs)
                         if one.op.name in needed}}
    results = tf.import_graph_def(graph_def, name="", input_map=mapping,
                                  return_elements=[one.name for one in outputs])
    results = [mapping.get(one.name, new) for one, new in zip(outputs, results)]
    known = tf.compat.v1.get_default_graph()
    return inputs, list(made.values()), results, [known.get_operation_by_name(one) for one in norms]


def _needed(graph_def, outputs):
    """The names of the nodes that the outputs need."""
    inputs = {node.name: [one.lstrip("^").split(":")[0] for one in node.input]
              for node in graph_def.node}
    waiting, found = [one.op.name for one in outputs], set()
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += inputs.get(name, [])
    return found


def _keep(graph_def, needed):
    """Keeps only these nodes: others may want a variable itself, such as what assigns to it."""
    kept = [node for node in graph_def.node if node.name in needed]
    del graph_def.node[:]
    graph_def.node.extend(kept)
    for node in graph_def.node:
        node.attr.pop("_class", None)  # may name nodes that are gone


def _weights(graph_def):
    """Yields (name of a tensor, name of the weight, its type, its shape) for constants of floats
    and for variables. Scalars stay in the program."""
    import tensorflow as tf
    nodes = {node.name: node for node in graph_def.node}
    for node in graph_def.node:
        if node.op == "Const":
            value = node.attr["value"].tensor
            dtype, shape = tf.dtypes.as_dtype(value.dtype), tf.TensorShape(value.tensor_shape)
            if dtype in (tf.float32, tf.float16, tf.bfloat16) and shape.num_elements() > 1:
                yield f"{node.name}:0", node.name, dtype, shape
        elif node.op in ("Variable", "VariableV2"):
            yield (f"{node.name}:0", node.name, tf.dtypes.as_dtype(node.attr["dtype"].type),
                   tf.TensorShape(node.attr["shape"].shape))
        elif node.op == "ReadVariableOp":
            handle = nodes[node.input[0].split(":")[0]]
            while handle.op in _PASSED_THROUGH:
                handle = nodes[handle.input[0].split(":")[0]]
            if handle.op == "VarHandleOp":
                yield (f"{node.name}:0", handle.name,
                       tf.dtypes.as_dtype(handle.attr["dtype"].type),
                       tf.TensorShape(handle.attr["shape"].shape))


# ---- The step ----

class _Step:
    """What a training step takes and gives."""

    def __init__(self, tensors, names):
        self.tensors, self.names = list(tensors), list(names)
        self.values, self.value_names, self.updates = [], [], []

    def _input(self, name, dtype, shape):
        import tensorflow as tf
        tensor = tf.compat.v1.placeholder(dtype, shape, "tremula_" + name.rsplit("/", 1)[-1])
        self.tensors.append(tensor)
        self.names.append(name)
        return tensor

    def _update(self, tensor, value):
        """`value` is the new value of the input `tensor`."""
        number = next(i for i, one in enumerate(self.tensors) if one is tensor)
        self.values.append(value)
        self.value_names.append(self.names[number])
        self.updates.append((len(self.values), number))  # output 0 is the loss

    def loss(self, outputs, output_names):
        """The loss, whose labels or target become an input."""
        import tensorflow as tf
        output = next((one for one in outputs if one.dtype.is_floating), None)
        if output is None:
            raise tool.Complaint("--training: no output of the model is of floating point (they "
                                 f"are {', '.join(output_names)}), so there is nothing to train")
        source = output.op
        while source.type in ("Identity", "IdentityN"):
            source = source.inputs[0].op
        with tf.name_scope("loss/"):
            if output.shape.rank == 2 and output.shape[1] > 1:
                logits = source.inputs[0] if source.type == "Softmax" else output
                labels = self._input("labels", tf.int32, [output.shape[0]])
                return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(
                    labels=labels, logits=logits))
            target = self._input("target", output.dtype, output.shape)
            return tf.reduce_mean(tf.math.squared_difference(output, target))

    def train(self, loss, weights, norms, optimiser):
        """Adds the updates of all weights that have gradients, and of moving averages."""
        import tensorflow as tf
        tensors = [one.tensor for one in weights]
        try:
            gradients = tf.gradients(loss, tensors)
        except (LookupError, ValueError) as error:
            raise tool.Complaint(f"--training: TensorFlow cannot take the gradients of this model: "
                                 f"{error}") from error
        statistics = {id(_source(norm.inputs[i])): (norm.inputs[i], norm.outputs[i - 2])
                      for norm in norms for i in (3, 4)}
        pairs = [(weight, gradient) for weight, gradient in zip(weights, gradients)
                 if gradient is not None and id(weight.tensor) not in statistics]
        if not pairs:
            raise tool.Complaint("--training: no weight of this model has a gradient")
        for weight in weights:
            self.tensors.append(weight.tensor)
            self.names.append(weight.name)
        rate = _rate(self, optimiser)
        for weight, gradient in pairs:
            with tf.name_scope(_scope(weight.tensor)):
                self._step_of(weight, tf.convert_to_tensor(gradient), rate, optimiser)
        for weight in weights:
            if id(weight.tensor) not in statistics:
                continue
            _, batch = statistics[id(weight.tensor)]
            with tf.name_scope(_scope(weight.tensor)):
                old = weight.tensor
                step = tf.multiply(tf.cast(batch, old.dtype) - old, tf.constant(.01, old.dtype),
                                   name="moving_average_step")
                self._update(old, tf.add(old, step, name="moving_average"))

    def _step_of(self, weight, gradient, rate, optimiser):
        import tensorflow as tf
        old = weight.tensor
        rate = tf.cast(rate, old.dtype)
        if optimiser == "sgd":
            change = gradient
        elif optimiser == "momentum":
            slot = self._input(weight.name + "/momentum", old.dtype, old.shape)
            change = tf.add(slot * tf.constant(.9, old.dtype), gradient, name="update_momentum")
            self._update(slot, change)
        else:
            first = self._input(weight.name + "/adam_m", old.dtype, old.shape)
            second = self._input(weight.name + "/adam_v", old.dtype, old.shape)
            mean = tf.add(first * tf.constant(.9, old.dtype),
                          gradient * tf.constant(.1, old.dtype), name="update_m")
            square = tf.add(second * tf.constant(.999, old.dtype),
                            tf.square(gradient) * tf.constant(.001, old.dtype), name="update_v")
            self._update(first, mean)
            self._update(second, square)
            change = mean / (tf.sqrt(square) + tf.constant(1e-4, old.dtype))
        self._update(old, tf.subtract(old, rate * change, name="update"))


def _rate(step, optimiser):
    """The learning rate; Adam's has a correction that depends on the number of steps."""
    import tensorflow as tf
    if optimiser != "adam":
        return tf.constant(.01)
    with tf.name_scope("optimiser/"):
        count = step._input("optimiser/steps", tf.float32, [])
        step._update(count, tf.add(count, 1., name="next"))
        return .001 * tf.sqrt(1. - tf.pow(.999, count + 1.)) / (1. - tf.pow(.9, count + 1.))


def _source(tensor):
    """The tensor behind ops that only pass it on."""
    while tensor.op.type in _PASSED_THROUGH:
        tensor = tensor.op.inputs[0]
    return tensor


def _scope(tensor):
    """The name scope of the first op that computes with a weight; its update goes there."""
    waiting = list(tensor.consumers())
    while waiting:
        op = waiting.pop(0)
        if op.type in _PASSED_THROUGH:
            waiting += op.outputs[0].consumers()
        elif not op.name.startswith("gradients/"):
            scope, slash, _ = op.name.rpartition("/")
            return scope + slash
    return ""
