"""Layers, losses and optimizers of Keras, which are not there yet."""

import tremula

raise ImportError(f"ipu_tensorflow_addons.keras is a part of the IPU API that Tremula "
                  f"{tremula.__version__} does not have yet.", name="ipu_tensorflow_addons.keras")
