"""How models of Keras run on IPUs (`keras.ipu.extensions`)."""
