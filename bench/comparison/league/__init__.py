"""The same networks in JAX, PyTorch, TensorFlow and ONNX, each peer in a process of its own.

    rows.py       the networks, written once over a backend's operations
    backends.py   these operations in JAX, PyTorch and TensorFlow
    onnx_graph.py the same as a graph of ONNX
    peer.py       one peer: prepares a row, runs it when asked
"""
