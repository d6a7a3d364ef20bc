"""PoplarOptionFlag, an option and its value, and PoplarOptionFlags, some of them."""

from tremula.tf.plugin.poplar.driver import _messages

_messages.make(globals(), "option_flag.proto", messages={
    "PoplarOptionFlag": ("string option 1", "string value 2"),
    "PoplarOptionFlags": ("repeated PoplarOptionFlag flags 1",)})
