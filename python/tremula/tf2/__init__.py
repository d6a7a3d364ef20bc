"""Runs TensorFlow 2 scripts of 2019 to 2022: `python -m tremula.tf2 script.py [arguments]`.

A script gets the names that NumPy, Python and other packages have dropped since, Keras 2 as `keras`
and `tf.keras`, and the names of Keras that moved, whichever module it imports first.
"""
