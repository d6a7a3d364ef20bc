"""Strategies over processes, which are refused when one is made."""


def refuse(module, name):
    """A class `name` of `module` that says on construction what to do instead."""
    def refused(self, *arguments, **keywords):
        del self, arguments, keywords
        raise NotImplementedError(
            f"tensorflow.python.ipu.{module}.{name} distributes a program over processes, which "
            "Tremula does not have. Run one process, without a strategy, with the replicas in it: "
            "`auto_select_ipus` = replicas x IPUs of each.")
    return type(name, (), {"__init__": refused, "__module__": f"tremula.tf.ipu.{module}",
                           "__doc__": "Raises NotImplementedError: there is one process."})
