"""The base of the extensions by the name that it has in SDK 2.4 to 2.6."""

from tremula.tf.keras.extensions import extensions_base

KerasExtensionBase = extensions_base.KerasExtensionBase

logged_steps_per_execution_warning = False  # the original's note to itself
