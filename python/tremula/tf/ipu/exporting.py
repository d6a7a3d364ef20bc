"""Writing inputs and variables of a program to files, and reading them; part of `ipu.utils`."""

import tensorflow.compat.v1 as tf

from tremula.tf.ipu import dataset_extractor, ipu_infeed_queue
from tremula.tf.runtime.base import regular


def export_dataset_to_file(dataset_or_infeed, output_filename, num_elements, feed_name="",
                           apply_debug_options=True, apply_options=None):
    """Writes `num_elements` elements of a dataset or an infeed queue, as
    dataset_extractor.dataset_extractor() does it. `feed_name` may be left out for a queue."""
    del apply_debug_options, apply_options
    dataset = dataset_or_infeed
    if isinstance(dataset_or_infeed, ipu_infeed_queue.IPUInfeedQueue):
        dataset, feed_name = dataset_or_infeed._dataset, feed_name or dataset_or_infeed._id
    operation = dataset_extractor.dataset_extractor(dataset, num_elements, output_filename,
                                                    feed_name)
    if operation is not None:  # not done yet
        with tf.Session() as session:
            session.run(operation)


def export_inputs_to_file(inputs, output_filename, feed_dict):
    """Writes what `feed_dict` feeds for `inputs`, a list of tensors of any shape and type, under
    their names.

    Raises InvalidArgumentError for an input that is not fed, ValueError for names that are equal.
    """
    operation = dataset_extractor.export_variables(inputs, [one.name for one in inputs],
                                                   output_filename)
    if operation is not None or feed_dict:
        with tf.Session() as session:
            session.run(operation, feed_dict)


def export_variables_from_live_session(session, filename):
    """Writes the values of all variables of a session's graph."""
    with session.graph.as_default():
        variables = tf.global_variables()
        session.run(dataset_extractor.export_variables(
            variables, dataset_extractor.get_variable_handles(variables), filename))


def import_data_in_live_session(session, filename, strict=True):
    """Gives the variables of a session's graph the values that a file has for them."""
    with session.graph.as_default():
        session.run(dataset_extractor.import_variables(tf.global_variables(), filename,
                                                       strict=strict))


def export_variables_from_live_model(model, filename):
    """Writes the values of the variables of a Keras model."""
    import numpy as np
    with regular.replacing(filename) as file:
        np.savez(file, **{one.name: one.numpy() for one in model.variables})


def import_data_in_live_model(model, filename, strict=True):
    """Gives the variables of a Keras model the values that a file has for them.

    Raises ValueError, with `strict`, for those that it does not have.
    """
    arrays = dataset_extractor.read_arrays(filename)
    for one in model.variables:
        if one.name in arrays:
            one.assign(arrays[one.name])
        elif strict:
            raise ValueError(f"The file {filename} has no value for {one.name}.")
