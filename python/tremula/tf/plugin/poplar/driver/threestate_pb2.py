"""ThreeState: on, off or not set."""

from tremula.tf.plugin.poplar.driver import _messages

_messages.make(globals(), "threestate.proto", enums={
    "ThreeState": ("THREESTATE_OFF", "THREESTATE_ON", "THREESTATE_UNDEFINED")})
