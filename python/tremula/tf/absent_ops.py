"""python -m tremula.tf.absent_ops: which functions of TensorFlow have no op on the IPU device.

    python -m tremula.tf.absent_ops > python/tremula/check/absent_ops.py

`tremula check` reads programs without TensorFlow, so it has this as a table: public name -> op.
TensorFlow's own exports name the functions that are an op; of functions that it writes in Python,
WRAPPERS has the op that makes them impossible. What the device has is never listed.
"""

import sys

# Functions written in Python -> the op that they cannot do without.
WRAPPERS = {
    "tf.py_function": "EagerPyFunc", "tf.numpy_function": "PyFunc", "tf.py_func": "PyFunc",
    "tf.nn.ctc_loss": "CTCLoss", "tf.nn.ctc_beam_search_decoder": "CTCBeamSearchDecoder",
    "tf.nn.ctc_greedy_decoder": "CTCGreedyDecoder",
    "tf.nn.fractional_max_pool": "FractionalMaxPool",
    "tf.nn.fractional_avg_pool": "FractionalAvgPool",
    "tf.edit_distance": "EditDistance", "tf.nn.embedding_lookup_sparse": "SparseSegmentSum",
    "tf.image.crop_and_resize": "CropAndResize", "tf.image.decode_image": "DecodeImage",
    "tf.linalg.eig": "Eig", "tf.linalg.eigvals": "Eig",
    "tf.linalg.sqrtm": "MatrixSquareRoot", "tf.linalg.logm": "MatrixLogarithm",
    "tf.signal.fft": "FFT", "tf.signal.ifft": "IFFT", "tf.signal.rfft": "RFFT",
    "tf.signal.irfft": "IRFFT", "tf.signal.stft": "RFFT", "tf.signal.inverse_stft": "IRFFT",
    "tf.random.poisson": "RandomPoissonV2", "tf.random.gamma": "RandomGamma",
    "tf.random_gamma": "RandomGamma", "tf.random_poisson": "RandomPoissonV2",
    "tf.histogram_fixed_width": "HistogramFixedWidth",
    "tf.image.resize_area": "ResizeArea", "tf.image.resize_bicubic": "ResizeBicubic",
    "tf.image.sample_distorted_bounding_box": "SampleDistortedBoundingBoxV2",
    "tf.image.decode_jpeg": "DecodeJpeg", "tf.read_file": "ReadFile",
    "tf.sparse_tensor_dense_matmul": "SparseTensorDenseMatMul",
    "tf.sparse.sparse_dense_matmul": "SparseTensorDenseMatMul",
    "tf.sparse.to_dense": "SparseToDense", "tf.timestamp": "Timestamp",
    "tf.summary.scalar": "ScalarSummary", "tf.summary.histogram": "HistogramSummary",
    "tf.summary.image": "ImageSummary", "tf.strings.format": "StringFormat",
    "tf.strings.split": "StringSplitV2", "tf.strings.join": "StringJoin",
    "tf.string_split": "StringSplitV2", "tf.parse_single_example": "ParseSingleExample",
    "tf.parse_example": "ParseExampleV2", "tf.io.parse_single_example": "ParseExampleV2",
    "tf.io.parse_example": "ParseExampleV2", "tf.io.read_file": "ReadFile",
    "tf.io.decode_csv": "DecodeCSV", "tf.io.decode_image": "DecodeImage",
    "tf.io.decode_raw": "DecodeRaw", "tf.io.serialize_tensor": "SerializeTensor",
    "tf.strings.bytes_split": "StringSplitV2", "tf.strings.length": "StringLength",
    "tf.strings.ngrams": "StringNGrams", "tf.strings.reduce_join": "ReduceJoin",
    "tf.strings.regex_full_match": "RegexFullMatch", "tf.strings.regex_replace": "RegexReplace",
    "tf.strings.substr": "Substr", "tf.strings.to_hash_bucket": "StringToHashBucket",
    "tf.strings.to_number": "StringToNumber", "tf.strings.unicode_decode": "UnicodeDecode",
    "tf.strings.unicode_split": "UnicodeDecode",
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
    known = {op.lower(): op for op in dir(tf.raw_ops)}
    # Stock kernels of every device, and what the bridge takes away, are no obstacle.
    fine = set(supported_ops()) | exports.ops_for_every_device()
    found = {}
    for public, function in exports.generated_functions():
        op = known.get(function.replace("_", "").lower())
        if op and op not in fine:
            found[names.canonical("tensorflow." + public)] = op
    found.update({name: op for name, op in WRAPPERS.items() if op in dir(tf.raw_ops)
                  and op not in fine})
    return dict(sorted((name, op) for name, op in found.items() if ".raw_ops." not in name))


def text():
    from tremula.tf.inner import versions
    return _HEAD.format(version=versions.tensorflow_version()) + "".join(
        f'    "{name}": "{op}",\n' for name, op in table().items()) + "}\n"


if __name__ == "__main__":
    sys.stdout.write(text())
