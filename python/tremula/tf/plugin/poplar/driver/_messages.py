"""Makes protocol buffers that have no file of generated code here."""

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.internal import enum_type_wrapper

PACKAGE = "xla.poplarplugin"
_FOLDER = "tensorflow/compiler/plugin/poplar/driver/"
_Field = descriptor_pb2.FieldDescriptorProto
_KINDS = {"string": _Field.TYPE_STRING, "int64": _Field.TYPE_INT64, "int32": _Field.TYPE_INT32,
          "bool": _Field.TYPE_BOOL, "bytes": _Field.TYPE_BYTES, "double": _Field.TYPE_DOUBLE}
_pool = descriptor_pool.DescriptorPool()


def make(namespace, file, enums=None, messages=None, imports=(), package=PACKAGE):
    """Adds the enums and messages of `file` to `namespace`, a module's dict.

    enums      name -> the names of its values, from 0
    messages   name -> fields; a field: "kind name number", with "repeated " before it if it is a
               list, with "oneof group " if it is one of a group. A kind that is no basic type is a
               message of this package, or after "enum " an enum. Inner messages and enums are
               called Outer.Inner and come after the outer one.
    imports    other files, by their names
    """
    proto = descriptor_pb2.FileDescriptorProto(name=_FOLDER + file, package=package,
                                               syntax="proto3")
    proto.dependency.extend(_FOLDER + name for name in imports)
    places = {"": proto}
    for name, fields in (messages or {}).items():
        outer, _, leaf = name.rpartition(".")
        place = places[outer]
        message = (place.nested_type if outer else place.message_type).add(name=leaf)
        places[name] = message
        for field in fields:
            _add_field(message, field, package)
    for name, values in (enums or {}).items():
        outer, _, leaf = name.rpartition(".")
        enum = places[outer].enum_type.add(name=leaf)
        for number, value in enumerate(values):
            enum.value.add(name=value, number=number)
    _pool.Add(proto) if hasattr(_pool, "Add") else _pool.AddSerializedFile(
        proto.SerializeToString())
    descriptor = _pool.FindFileByName(proto.name)
    namespace["DESCRIPTOR"] = descriptor
    for name, enum in descriptor.enum_types_by_name.items():
        namespace[name] = enum_type_wrapper.EnumTypeWrapper(enum)
        namespace.update((value.name, value.number) for value in enum.values)
    for name, message in descriptor.message_types_by_name.items():
        namespace[name] = message_factory.GetMessageClass(message)


def _add_field(message, text, package):
    words = text.split()
    group = words[1] if words[0] == "oneof" else None
    words = words[2:] if group else words
    repeated = words[0] == "repeated"
    is_enum = "enum" in words[:2]
    kind, name, number = words[-3:]
    field = message.field.add(name=name, number=int(number), label=(
        _Field.LABEL_REPEATED if repeated else _Field.LABEL_OPTIONAL))
    if kind in _KINDS:
        field.type = _KINDS[kind]
    else:
        field.type = _Field.TYPE_ENUM if is_enum else _Field.TYPE_MESSAGE
        field.type_name = f".{package}.{kind}"
    if group:
        names = [one.name for one in message.oneof_decl]
        if group not in names:
            message.oneof_decl.add(name=group)
        field.oneof_index = (names + [group]).index(group)
