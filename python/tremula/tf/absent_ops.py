"""python -m tremula.tf.absent_ops: which functions of TensorFlow have no op on the IPU device.

    python -m tremula.tf.absent_ops > python/tremula/check/absent_ops.py

`tremula check` reads programs without TensorFlow, so it has this as a table: public name -> op.
TensorFlow's own exports name the functions that are an op. Of functions that it writes in Python,
their text tells the op that each way through them needs; WRAPPERS has those that it does not tell.
What the device has is never listed.
"""

import sys

# Functions whose text does not tell the op that they cannot do without.
WRAPPERS = {
    "tf.py_function": "EagerPyFunc", "tf.numpy_function": "PyFunc", "tf.py_func": "PyFunc",
    "tf.nn.ctc_loss": "CTCLoss", "tf.nn.sampled_softmax_loss": "ComputeAccidentalHits",
    "tf.nn.embedding_lookup_sparse": "SparseSegmentSum",
    "tf.signal.rfft": "RFFT", "tf.signal.irfft": "IRFFT", "tf.signal.stft": "RFFT",
    "tf.signal.inverse_stft": "IRFFT",
    "tf.sparse_tensor_dense_matmul": "SparseTensorDenseMatMul",
    "tf.sparse.sparse_dense_matmul": "SparseTensorDenseMatMul",
    "tf.sparse.to_dense": "SparseToDense",
    "tf.summary.scalar": "ScalarSummary", "tf.summary.histogram": "HistogramSummary",
    "tf.summary.image": "ImageSummary", "tf.parse_single_example": "ParseSingleExample",
    "tf.string_split": "StringSplitV2", "tf.strings.split": "StringSplitV2",
    "tf.strings.bytes_split": "StringSplitV2", "tf.strings.ngrams": "StringNGrams",
    "tf.strings.regex_full_match": "RegexFullMatch", "tf.strings.regex_replace": "RegexReplace",
    "tf.strings.unicode_decode": "UnicodeDecode", "tf.strings.unicode_split": "UnicodeDecode",
}

_HEAD = '''"""Functions of TensorFlow {version} that have no op on the IPU device, and that op.

Made by python -m tremula.tf.absent_ops."""

ABSENT = {{
'''


def table():
    """{public name: op}, sorted."""
    import tensorflow as tf
    from tremula.check import names
    from tremula.tf.inner import exports
    from tremula.tf.runtime import supported_ops
    from tremula.tf.runtime.host import outside
    from tremula.tf.runtime.ops import random_functions
    known = {op.lower(): op for op in dir(tf.raw_ops)}
    # Stock kernels of every device, and what the bridge replaces or does on the host, are none.
    fine = {*supported_ops(), *exports.ops_for_every_device(), *random_functions.MAKERS,
            *outside.PRINTS}
    found = {}
    pairs = [("tensorflow." + public, one) for public, one in exports.generated_functions()]
    pairs += [(public, one) for public, function in exports.written_functions()
              for one in sorted(exports.needed_ops(function))]
    for public, function in pairs:
        op = known.get(function.replace("_", "").lower())
        if op and op not in fine:
            found.setdefault(names.canonical(public), op)
    found.update({name: op for name, op in WRAPPERS.items() if op in dir(tf.raw_ops)
                  and op not in fine})
    return dict(sorted((name, op) for name, op in found.items() if ".raw_ops." not in name))


def text():
    from tremula.tf.inner import versions
    return _HEAD.format(version=versions.tensorflow_version()) + "".join(
        f'    "{name}": "{op}",\n' for name, op in table().items()) + "}\n"


if __name__ == "__main__":
    sys.stdout.write(text())
