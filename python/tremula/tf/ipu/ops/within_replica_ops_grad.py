"""Gradients of collectives within a replica: there is nothing to register, they are made of
TensorFlow's own operations, whose gradients TensorFlow has."""
