"""Classes made from a table of options: typed, documented attributes in nested categories.

config_options.py has the table. Needs no TensorFlow.
"""

import copy
import difflib
import json
import logging
import sys
import typing
from enum import Enum

from tremula.tf.inner import logs

LOG = logging.getLogger("tensorflow")  # so that lines look like TensorFlow's


class InvalidAttribute(AttributeError, ValueError):
    """There is no attribute of that name: a ValueError in the original, an AttributeError for
    Python."""


def _no_check(_):
    return True


def warn(text):
    """Logs a warning as TensorFlow does."""
    if "tensorflow" in sys.modules:
        logs.module().warn(text)
    else:
        LOG.warning(text)


def nearest(name, names):
    """Which of `names`, a dict of names to what to call them, may be meant by `name`: a sentence
    to add to a message, or nothing."""
    near = difflib.get_close_matches(name, names, n=1)
    return f" Did you mean '{names[near[0]]}'?" if near else ""


class AttributeMetadata:
    """What is known of one attribute of a config: a category or an option.

    `type` is the type as text, `actual_type` the type itself (None for a category), `default` the
    value of a new config, `effect` what Tremula does with it, `check_value` a function that raises
    ValueError for a value that cannot be meant.
    """

    def __init__(self, name, doc="", depth=0, default=None, deprecated_msg=None, attr_type=None,
                 attr_type_str=None, check_type_fn=_no_check, effect="", check_value=_no_check):
        self._name = name
        self.__doc__ = doc
        self._depth = depth
        self._default = default
        self._deprecated_msg = deprecated_msg
        self._type = attr_type
        self._type_text = attr_type_str or type_text(attr_type)
        self._check = check_type_fn
        self.check_value = check_value
        self.effect = effect

    @property
    def name(self):
        return self._name

    @property
    def type(self):
        return self._type_text or None

    @property
    def actual_type(self):
        return self._type

    @property
    def default(self):
        return copy.deepcopy(self._default)

    @property
    def deprecated(self):
        return bool(self._deprecated_msg)

    @property
    def deprecated_msg(self):
        return self._deprecated_msg

    def check_type(self, value):
        """Raises TypeError if `value` is not of the attribute's type."""
        if not self._check(value):
            raise TypeError(f"Trying to set {self._name} to {value}, but it must be of type "
                            f"{self._type_text}")

    def warn_if_deprecated(self):
        """Logs a warning if the attribute is deprecated."""
        if self.deprecated:
            warn(f"{self._name} has been deprecated: {self._deprecated_msg}")

    def __str__(self):
        indent = "  " * (self._depth - 1)
        lines = [f"{indent}{self._name}" + (f": {self._type_text} = {self._default}"
                                            if self._type is not None else "")]
        lines += [f"{indent}  {self.__doc__}"] if self.__doc__ else []
        lines += [f"{indent}  {self.effect}"] if self.effect else []
        lines += [f"{indent}  Deprecated: {self._deprecated_msg}"] if self.deprecated else []
        return "\n".join(lines)


def deprecate_config_attribute(name, msg):
    """A decorator for a config class: setting its attribute `name` logs `msg` as a warning.

    Raises ValueError if the class has no such attribute.
    """
    def decorate(cls):
        is_declared = not issubclass(cls, ConfigBase)
        if name not in (cls._declared if is_declared else cls._metadata):
            raise ValueError(f"{cls.__name__} has no attribute {name!r} to deprecate.")
        if is_declared:
            cls._deprecations[name] = msg
        else:
            cls._metadata[name]._deprecated_msg = msg
        return cls
    return decorate


def deprecate_config_attributes(to_deprecate):
    """The same for several attributes: a dict of names to messages."""
    def decorate(cls):
        for name, msg in to_deprecate.items():
            cls = deprecate_config_attribute(name, msg)(cls)
        return cls
    return decorate


class Exported:
    """What configs of both kinds share: they become dicts and JSON and are made from them.

    _metadata        name -> AttributeMetadata, options and categories of this level
    _walk(prefix="") (path below this config, metadata, value) of every option, in order
    """

    def to_dict(self):
        """Every option by its full name; an enum by its number."""
        return {path: copy.deepcopy(value.value if isinstance(value, Enum) else value)
                for path, _, value in self._walk()}

    def from_dict(self, dct):
        """Sets the options in `dct`, as to_dict() returns them; nested dicts and names of enums
        will do too.

        Raises ValueError and TypeError as setting the attributes does.
        """
        for name, value in dct.items():
            *path, leaf = name.split(".")
            owner = self
            for part in path:
                owner = getattr(owner, part)
            if not isinstance(owner, Exported):
                raise InvalidAttribute(f"'{name}' is not a valid attribute of this config.")
            before = owner.__dict__.get(leaf)
            if isinstance(before, Exported):
                before.from_dict(value)
                continue
            metadata = owner._metadata.get(leaf)
            if metadata is not None:
                value = _from_plain(metadata.actual_type, value)
                if repr(value) == repr(before):
                    continue  # no warning for a deprecated option that stays as it is
            setattr(owner, leaf, value)

    def to_json(self):
        """to_dict() as JSON text."""
        return json.dumps(self.to_dict(), indent=2)

    def from_json(self, json_cfg):
        """from_dict() of JSON text."""
        self.from_dict(json.loads(json_cfg))


class ConfigBase(Exported):
    """A config, or a category of one. Its class attributes are made by define().

    An option is checked when it is set: TypeError for a value of another type, ValueError for one
    that is out of range; a category cannot be assigned to.
    """
    _metadata = {}     # name -> AttributeMetadata, options and categories of this level
    _categories = {}   # name -> class
    _convert = {}      # name -> function that turns an accepted value into the one that is kept

    def __init__(self):
        for name, metadata in self._metadata.items():
            category = self._categories.get(name)
            self.__dict__[name] = category() if category else metadata.default

    def __setattr__(self, name, value):
        metadata = self._metadata.get(name)
        if metadata is None:
            raise InvalidAttribute(f"'{name}' is not a valid attribute of this config."
                                   + self._suggestion(name))
        if name in self._categories:
            raise Exception(f"{metadata.name} is a category and cannot be assigned to.")
        if name in self._convert:
            value = self._convert[name](metadata, value)
        metadata.check_type(value)
        metadata.check_value(value)
        metadata.warn_if_deprecated()
        self.__dict__[name] = value

    def __getattr__(self, name):  # only called for what is not there
        if name.startswith("__"):
            raise AttributeError(name)
        raise InvalidAttribute(f"'{name}' is not a valid attribute of this config."
                               + self._suggestion(name))

    def __delattr__(self, name):
        raise AttributeError(f"{name} is an attribute of the config and cannot be deleted.")

    def _suggestion(self, name):
        # Names of this level first, then full names below it.
        below = {path: metadata.name for path, metadata, _ in self._walk()}
        return nearest(name, {one: metadata.name for one, metadata in self._metadata.items()}) \
            or nearest(name, below) \
            or nearest(name, {path.rpartition(".")[2]: full for path, full in below.items()})

    def get_attribute_metadata(self, name):
        """The AttributeMetadata of the option or category `name`, such as "ipu_model.version".

        Raises ValueError if there is none.
        """
        owner, metadata = type(self), None
        for part in name.split("."):
            metadata = owner._metadata.get(part) if owner is not None else None
            if metadata is None:
                raise ValueError(f"Could not get attribute metadata for '{name}': '{part}' is not "
                                 "a valid attribute of this config." + self._suggestion(name))
            owner = owner._categories.get(part)
        return metadata

    def _walk(self, prefix=""):
        """(path below this config, metadata, value) of every option, in the table's order."""
        for name, metadata in self._metadata.items():
            if name in self._categories:
                yield from self.__dict__[name]._walk(f"{prefix}{name}.")
            else:
                yield prefix + name, metadata, self.__dict__[name]

    def _to_named(self):
        """The same with an enum by its name."""
        return {path: _plain(value) for path, _, value in self._walk()}

    def __str__(self):
        return "\n".join(f"{metadata.name} = {value}" for _, metadata, value in self._walk()
                         if not metadata.name.startswith("_"))

    def __repr__(self):
        return "\n".join([f"{type(self).__name__}:", *(
            f"  {path} = {value if isinstance(value, Enum) else repr(value)}"
            for path, _, value in self._walk() if not path.startswith("_"))])


def define(cls, options, converters=None):
    """Fills `cls`, a sub-class of ConfigBase, and makes the classes of its categories.

    `options`: a category before what is in it. `converters`: option's path -> function of the
    metadata and a value that was set.
    """
    owners = {"": cls}
    for owner in owners.values():
        _clear(owner)
    for option in options:
        path, _, name = option.path.rpartition(".")
        owner = owners[path]
        owner._metadata[name] = AttributeMetadata(
            option.path, option.doc, depth=option.path.count(".") + 1, default=option.default,
            deprecated_msg=option.deprecated or None, attr_type=option.type,
            attr_type_str=None if option.type is None else full_type_text(option.type),
            check_type_fn=checker(option.type), effect=option.effect,
            check_value=option.check_value)
        if option.type is None:
            class_name = "".join(word.capitalize() for word in name.split("_"))
            inner = type(class_name, (ConfigBase,), {
                "__module__": cls.__module__,
                "__qualname__": f"{owner.__qualname__}.{class_name}"})
            _clear(inner)
            setattr(owner, class_name, inner)  # where pickle looks for it
            owner._categories[name] = owners[option.path] = inner
        if converters and option.path in converters:
            owner._convert[name] = converters[option.path]
    for path, owner in owners.items():
        own = [option for option in options if option.path.rpartition(".")[0] == path
               and not option.private]
        head = owner.__doc__ if owner is cls else cls_doc(options, path)
        owner.__doc__ = head.rstrip() + "\n\n" + "\n".join(
            f"{option.path}" + (f" ({type_text(option.type)}, default {option.default})"
                                if option.type is not None else "") + f": {option.doc}"
            for option in own)
    return cls


def cls_doc(options, path):
    """The doc of the category `path`."""
    return next(option.doc for option in options if option.path == path)


def type_text(kind):
    """A type as a user would write it."""
    if kind is None:
        return ""
    if isinstance(kind, type):
        return kind.__name__
    return str(kind).replace("typing.", "")


def full_type_text(kind):
    """The same as Python writes it: with "typing."."""
    return kind.__name__ if isinstance(kind, type) else str(kind)


def _clear(cls):
    cls._metadata, cls._categories, cls._convert = {}, {}, {}


def checker(kind):
    if kind is None:
        return _no_check
    return lambda value: _is(value, kind)


def _is(value, kind):
    """isinstance() that knows List[int], Tuple[int, ...] and Union; a bool is no number."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Union:
        return any(_is(value, one) for one in arguments)
    if origin is list:
        return isinstance(value, list) and all(_is(item, arguments[0]) for item in value)
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        if arguments[-1] is Ellipsis:
            return all(_is(item, arguments[0]) for item in value)
        return len(value) == len(arguments) and all(map(_is, value, arguments))
    if kind in (int, float) and isinstance(value, bool):
        return False
    return isinstance(value, (int, float) if kind is float else kind)


def _plain(value):
    if isinstance(value, Enum):
        return value.name
    return copy.deepcopy(value)


def _from_plain(kind, value):
    is_enum = isinstance(kind, type) and issubclass(kind, Enum)
    if is_enum and type(value) is int:
        return kind(value)
    if is_enum and isinstance(value, str):
        name = value.rpartition(".")[2]
        if name not in kind.__members__:
            raise ValueError(f"{value!r} is not a {kind.__name__}: it must be one of "
                             + ", ".join(kind.__members__) + ".")
        return kind[name]
    if typing.get_origin(kind) is tuple and isinstance(value, list):  # JSON has no tuples
        return tuple(value)
    return copy.deepcopy(value)
