"""Graphs that old programs transform before they put them on the IPU."""


def test_a_frozen_graph_for_inference(prints):
    lines = prints("""
        import numpy as np
        import tensorflow as tf
        from tensorflow.python import ipu
        from tensorflow.tools.graph_transforms import TransformGraph

        with tf.Graph().as_default() as graph, tf.Session() as session:
            image = tf.placeholder(tf.float32, [2, 3], name="image")
            w = tf.get_variable("w", initializer=np.float32([[1, 2], [3, 4], [5, 6]]))
            scaled = tf.identity(w * tf.sqrt(4.0), name="scaled")
            y = tf.check_numerics(tf.matmul(tf.identity(image), scaled), "y")
            with tf.control_dependencies([scaled]):
                tf.reduce_sum(y, name="unused")
            tf.nn.relu(tf.identity(y) - 20, name="top")
            session.run(tf.global_variables_initializer())
            frozen = tf.graph_util.convert_variables_to_constants(
                session, graph.as_graph_def(), ["top"])
        small = TransformGraph(frozen, ["image:0"], ["top"], [
            "remove_nodes(op=Identity, op=CheckNumerics)", "strip_unused_nodes",
            "fold_constants(ignore_errors=true)"])
        print(sorted(node.op for node in small.node))

        cut = TransformGraph(frozen, ["MatMul"], ["top"], ['strip_unused_nodes(shape="2,2")'])
        print([(node.op, [d.size for d in node.attr["shape"].shape.dim]) for node in cut.node
               if node.name == "MatMul"])
        for wrong in (["quantize_weights"], ["no ("]):
            try:
                TransformGraph(frozen, ["image"], ["top"], wrong)
            except ValueError as error:
                print(error)

        with tf.Graph().as_default():
            with ipu.scopes.ipu_scope("/device:IPU:0"):
                x = tf.placeholder(tf.float32, [2, 3])
                top, = tf.import_graph_def(small, input_map={"image": x},
                                           return_elements=["top:0"])
            with tf.Session() as session:
                print(session.run(top, {x: [[1, 1, 1], [2, 0, 1]]}).tolist())
    """)
    assert lines == [
        "['Const', 'Const', 'MatMul', 'Placeholder', 'Relu', 'Sub']",
        "[('Placeholder', [2, 2])]",
        "The graph transform 'quantize_weights' is not here. There are fold_constants, "
        "remove_nodes, strip_unused_nodes.",
        "'no (' is not the name of a graph transform with its options.",
        "[[0.0, 4.0], [0.0, 0.0]]",
    ]
