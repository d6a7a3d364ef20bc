"""Options of IPUConfig and of TF_POPLAR_FLAGS: unknown ones, and those that do nothing here."""

import ast
import difflib
import functools
import re
import shlex

from tremula import flags
from tremula.check import texts
from tremula.check.rules import rule
from tremula.tf.ipu import config_options

_CONFIG = ("ipu.config.IPUConfig", "ipu.utils.IPUConfig")
_OF_GPUS = ("tf.GPUOptions", "tf.config.experimental.set_memory_growth",
            "tf.config.experimental.set_virtual_device_configuration",
            "tf.config.set_logical_device_configuration",
            "tf.train.experimental.enable_mixed_precision_graph_rewrite",
            "tf.config.experimental.enable_tensor_float_32_execution")
_GPU_VARIABLE = re.compile(
    "(CUDA|CUDNN|NCCL|NVIDIA)_|TF_(CUDNN|GPU|FORCE_GPU|USE_CUDNN|ENABLE_CUDNN|ENABLE_CUBLAS)_")
_FLAG = re.compile(r"--(\w+)")


def settings(project):
    """Yields (file, node, "a.b.c") of every option of an IPUConfig that is set."""
    for file, node in project.nodes(ast.Assign, ast.AnnAssign):
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            parts, owner = [], target
            while isinstance(owner, (ast.Attribute, ast.Subscript)):
                if isinstance(owner, ast.Attribute):
                    parts.insert(0, owner.attr)
                else:
                    parts.clear()
                owner = owner.value
            if parts and isinstance(owner, ast.Name):
                value = file.value(owner)
                if isinstance(value, ast.Call) and file.called(value) in _CONFIG:
                    yield file, target, ".".join(parts)


@functools.cache
def _options():
    return {one.path: one for one in config_options.OPTIONS}


@rule(
    "unknown-option", "error", "An option or a flag that does not exist",
    """IPUConfig refuses an attribute that it does not know, with a ValueError. A flag in
    TF_POPLAR_FLAGS that does not exist ends the program.""",
    "Use the name that the message gives; docs/ipu_config.md and docs/flags.md list all.",
    """
    from tensorflow.python import ipu

    config = ipu.config.IPUConfig()
    config.auto_select_ipu = 1
    config.configure_ipu_system()
    """,
    """
    from tensorflow.python import ipu

    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()
    """)
def unknown_options(project):
    known = _options()
    for file, node, path in settings(project):
        if path not in known:
            yield file, node, f"IPUConfig has no option '{path}'{_nearest(path, known)}"
    flag_names = [one.name for one in flags.FLAGS]
    for file, node, name in _flags(project):
        if name not in flag_names:
            yield file, node, (f"{flags.VARIABLE} has no flag '--{name}'"
                               f"{_nearest(name, flag_names, '--')}")


def _nearest(name, known, before=""):
    near = difflib.get_close_matches(name, known, 1)
    return f"; did you mean '{before}{near[0]}'?" if near else ""


@rule(
    "option-without-effect", "note", "An option that changes nothing",
    """Tremula checks and keeps every option of the original's; some of them tune what only a real
    IPU has. What is set of GPUs changes nothing on an IPU either.""",
    """Leave an IPU's option for a real IPU; for Tremula it may go, and so may a setting of GPUs.
    docs/ipu_config.md says what each option does.""",
    """
    from tensorflow.python import ipu

    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.optimizations.enable_gather_simplifier = False
    config.configure_ipu_system()
    """,
    """
    from tensorflow.python import ipu

    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.floating_point_behaviour.nanoo = True
    config.configure_ipu_system()
    """)
def idle_options(project):
    known = _options()
    for file, node, path in settings(project):
        option = known.get(path)
        if option is not None and option.type is not None and not option.private \
                and option.effect in ("", config_options.NOTHING_YET):
            yield file, node, f"'{path}' has no effect in Tremula"
    for file, node, name in _flags(project):
        flag = next((one for one in flags.FLAGS if one.name == name), None)
        if flag is not None and not flag.acts:
            yield file, node, f"--{name} has no effect in Tremula: {flag.why}"
    for file, node, what in _of_gpus(project):
        yield file, node, f"{what} is about GPUs, and no IPU is one"


def _flags(project):
    """Yields (file, node, name) of the flags in texts that TF_POPLAR_FLAGS is set to."""
    for file, node, variable, value in texts.settings(project):
        if variable != flags.VARIABLE:
            continue
        for name in dict.fromkeys(name for text in texts.texts(file, value)
                                  for name in _names(text)):
            yield file, node, name


def _names(text):
    try:
        words = shlex.split(text)
    except ValueError:
        words = text.split()
    for word in words:
        found = _FLAG.fullmatch(word.partition("=")[0])
        if found:
            yield found[1]


def _of_gpus(project):
    """Yields (file, node, what) of what is set of GPUs."""
    for file, call, called in project.calls():
        if called in _OF_GPUS:
            yield file, call.func, called
    for file, node, variable, _ in texts.settings(project):
        if _GPU_VARIABLE.match(variable):
            yield file, node, variable
    for file, node in project.nodes(ast.Assign):
        target = node.targets[0]
        if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Attribute) \
                and target.value.attr == "gpu_options":
            yield file, target, f"gpu_options.{target.attr}"
