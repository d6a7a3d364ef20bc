"""Configs that are declared by what their `__init__` sets: `_ConfigBase` of
`tensorflow.python.ipu.config`.

A text before an attribute is its description, an annotation its type. IPUConfig itself is made from
a table (config_base.py). Needs no TensorFlow.
"""

import ast
import inspect
import textwrap

from tremula.tf.ipu.config_base import (AttributeMetadata, Exported, InvalidAttribute, checker,
                                        full_type_text, nearest)

_NO_DOC = "No description provided."


class DeclaredConfig(Exported):
    """A config, or a category of one. The outermost `__init__` ends with _finalize_base_config();
    from then on attributes are checked as those of an IPUConfig are."""

    _declared = {}      # name -> (description, text of the annotation or None)
    _deprecations = {}  # name -> message

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        cls._declared, cls._deprecations = _declarations(cls), {}

    # ---- Set up ----

    def _finalize_base_config(self):
        """Names, types and descriptions of all that has been set, down to the last category."""
        self._finalize("", 1, None)
        lines = []
        self._document(lines, "")
        self.__dict__["__doc__"] = inspect.cleandoc(type(self).__doc__ or "") + "\n" \
            + "\n".join(lines) + "\n"

    def _finalize(self, prefix, depth, deprecated):
        names = [name for name in self.__dict__ if not name.startswith("_")]
        metadata = {}
        for name in names:
            value = self.__dict__[name]
            doc, annotation = self._declared.get(name, (None, None))
            message = self._deprecations.get(name, deprecated)
            about = {"doc": doc or _NO_DOC, "depth": depth, "deprecated_msg": message}
            if isinstance(value, DeclaredConfig):
                metadata[name] = AttributeMetadata(prefix + name, **about)
                value._finalize(f"{prefix}{name}.", depth + 1, message)
            else:
                kind = _evaluate(type(self), annotation) if annotation else type(value)
                metadata[name] = AttributeMetadata(
                    prefix + name, default=value, attr_type=kind,
                    attr_type_str=annotation or full_type_text(kind), check_type_fn=checker(kind),
                    **about)
        self.__dict__.update(_metadata=metadata, _prefix=prefix)

    def _document(self, lines, above):
        """Adds the directives of Sphinx for each attribute; `above`: the name of the category that
        this one is in."""
        for name, metadata in self._metadata.items():
            value = self.__dict__[name]
            outer = " " * 3 * (metadata._depth + 1)
            inner = outer + "   "
            lines += ["", f"{outer}.. _{metadata.name}:",
                      f"{outer}.. py:attribute:: {above}{metadata.name}"]
            if metadata.type is not None:
                lines += [f"{inner}:type: {metadata.type}", f"{inner}:value: {metadata.default}"]
            lines.append(outer)
            if metadata.deprecated:
                lines += [f"{inner}.. note::", f"{inner}   DEPRECATED: {metadata.deprecated_msg}"]
            lines += textwrap.indent(metadata.__doc__, inner).split("\n")
            if isinstance(value, DeclaredConfig):
                value._document(lines, self._prefix)

    # ---- Attributes ----

    def __setattr__(self, name, value):
        metadata = self.__dict__.get("_metadata")
        if metadata is None:
            self.__dict__[name] = value  # __init__ is not done
            return
        if name not in metadata:
            raise self._invalid(name)
        if isinstance(self.__dict__[name], DeclaredConfig):
            raise Exception(f"{metadata[name].name} is a category and cannot be assigned to.")
        metadata[name].check_type(value)
        metadata[name].warn_if_deprecated()
        self.__dict__[name] = value

    def __getattr__(self, name):  # only called for what is not there
        if name.startswith("__") or "_metadata" not in self.__dict__:
            raise AttributeError(name)
        raise self._invalid(name)

    def __delattr__(self, name):
        raise AttributeError(f"{name} is an attribute of the config and cannot be deleted.")

    def _invalid(self, name):
        near = nearest(name, {one: metadata.name for one, metadata in self._metadata.items()})
        return InvalidAttribute(f"'{name}' is not a valid attribute of this config." + near)

    def _get_full_name(self, attr):
        """The name of the attribute `attr` of this category, from the outermost config on."""
        return self._prefix + attr

    def get_attribute_metadata(self, attr):
        """The AttributeMetadata of an attribute, by its name from here on: "category.option".

        Raises ValueError if there is none.
        """
        owner = self
        *path, leaf = attr.split(".")
        for name in [*path, leaf]:
            if not isinstance(owner, DeclaredConfig) or name not in owner._metadata:
                near = owner._invalid(name) if isinstance(owner, DeclaredConfig) else \
                    f"'{name}' is not a valid attribute of this config."
                raise ValueError(f"Could not get attribute metadata for '{attr}': {near}")
            metadata, owner = owner._metadata[name], owner.__dict__[name]
        return metadata

    def _walk(self, prefix=""):
        for name, metadata in self._metadata.items():
            value = self.__dict__[name]
            if isinstance(value, DeclaredConfig):
                yield from value._walk(f"{prefix}{name}.")
            else:
                yield prefix + name, metadata, value

    def _to_protobuf(self, pb):
        """Writes all categories to `pb`; a class that has something to write itself does so and
        calls this."""
        for value in list(self.__dict__.values()):
            if isinstance(value, DeclaredConfig):
                value._to_protobuf(pb)


def _declarations(cls):
    """What the `__init__` of a class says of its attributes: nothing where there is no source."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(cls.__init__)))
    except (OSError, TypeError, SyntaxError):
        return {}
    found, doc = {}, None
    for node in tree.body[0].body:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) \
                and isinstance(node.value.value, str):
            doc = inspect.cleandoc(node.value.value)
            continue
        targets = node.targets if isinstance(node, ast.Assign) else \
            [node.target] if isinstance(node, ast.AnnAssign) else []
        annotation = ast.unparse(node.annotation) if isinstance(node, ast.AnnAssign) else None
        for target in targets:
            if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) \
                    and target.value.id == "self":
                found[target.attr] = (doc, annotation)
        doc = None
    return found


def _evaluate(cls, annotation):
    """The type that an annotation in the `__init__` of a class names."""
    return eval(annotation, dict(cls.__init__.__globals__))  # the class's own source
