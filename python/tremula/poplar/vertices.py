"""The vertices of a compiled file of codelets and their fields, read from its DWARF.

g++ must have written it with popc.FLAGS: version 4, with all classes in it, used or not.
"""

import dataclasses

VERTEX_KINDS = "Vertex", "MultiVertex", "SupervisorVertex"
DIRECTIONS = "Input", "Output", "InOut"
# Types of Poplar by the compiler's names; what is a type of its own on a tile comes first.
TYPES = {
    "_Float16": "half", "HalfFloat": "half", "float": "float", "double": "double", "bool": "bool",
    "char": "char", "signed char": "signed char", "unsigned char": "unsigned char",
    "short int": "short", "short unsigned int": "unsigned short",
    "short": "short", "unsigned short": "unsigned short",  # clang's names
    "int": "int", "unsigned int": "unsigned int",
    "long int": "longlong", "long unsigned int": "unsigned longlong",
    "long": "longlong", "unsigned long": "unsigned longlong",
    "long long int": "longlong", "long long unsigned int": "unsigned longlong",
    "long long": "longlong", "unsigned long long": "unsigned longlong",
}
# Namespaces without vertices, which are most of the DWARF.
_SKIPPED = "std", "__gnu_cxx", "__gnu_debug", "__pstl", "__cxxabiv1"
_DEEPEST = 64  # types in types, classes in classes
_MOST_FIELDS = 4096
_CLASSES = "DW_TAG_class_type", "DW_TAG_structure_type"


class Unreadable(Exception):
    """The DWARF is damaged, or is not what g++ writes."""


@dataclasses.dataclass(frozen=True)
class Field:
    name: str
    offset: int  # in the vertex, in bytes
    size: int
    direction: str  # of DIRECTIONS; "" for a value that setInitialValue() sets
    type: str  # of TYPES' values, of one element; "" of another class
    width: int  # numbers in an element: 2 of float2, else 1
    # Layouts from the outside to the inside, by the names of poplar::VectorLayout: none for a
    # scalar, two for a vector of vectors.
    layouts: tuple = ()
    is_list: bool = False  # a VectorList; `layouts` is then its own
    count: int = 1  # of an array `T x[3]`
    align: int = 1  # the vector's MinAlign
    inner_direction: bool = False  # Vector<Input<...>>, unlike Input<Vector<Vector<...>>>


@dataclasses.dataclass(frozen=True)
class Vertex:
    name: str  # as Graph::addVertex knows the class: "ns::Rotate<half,2>"
    cpp_name: str  # as C++ spells the class
    kind: str  # of VERTEX_KINDS
    size: int
    fields: tuple


def read(path):
    """The vertices of a shared object, in the order of its source. Raises Unreadable."""
    from elftools.common.exceptions import DWARFError, ELFError
    from elftools.construct import ConstructError
    from elftools.elf.elffile import ELFFile
    try:
        with open(path, "rb") as file:
            elf = ELFFile(file)
            if not elf.has_dwarf_info():
                raise Unreadable(f"{path} has no debug information")
            return _Reader(elf.get_dwarf_info()).vertices()
    except Unreadable:
        raise
    # Damaged files raise all of these from inside of the library.
    except (ELFError, DWARFError, ConstructError, ArithmeticError, AssertionError, AttributeError,
            LookupError, MemoryError, NotImplementedError, OSError, RecursionError, TypeError,
            ValueError) as error:
        raise Unreadable(f"the debug information of {path} cannot be read: "
                         f"{type(error).__name__}: {error}") from error


class _Reader:
    def __init__(self, dwarf):
        self._dwarf = dwarf
        self._places = {}  # of classes and enumerations: offset -> names of the scopes around

    def vertices(self):
        found = []
        for unit in self._dwarf.iter_CUs():
            classes = []
            self._collect(unit.get_top_DIE(), (), classes, 0)
            found += [vertex for vertex in map(self._vertex, classes) if vertex]
        seen = set()
        return [one for one in found if not (one.name in seen or seen.add(one.name))]

    def _collect(self, parent, scopes, classes, depth):
        """The classes below a DIE, and where classes and enumerations stand."""
        if depth > _DEEPEST:
            raise Unreadable("namespaces and classes are nested too deeply")
        for die in parent.iter_children():
            name = _text(die, "DW_AT_name")
            if die.tag == "DW_TAG_namespace" and name not in _SKIPPED:
                self._collect(die, (*scopes, name) if name else scopes, classes, depth + 1)
            elif die.tag in _CLASSES:
                self._places[die.offset] = scopes
                if name:
                    if "DW_AT_declaration" not in die.attributes:
                        classes.append(die)
                    if scopes[:1] != ("poplar",):
                        self._collect(die, (*scopes, name), classes, depth + 1)
            elif die.tag == "DW_TAG_enumeration_type":
                self._places[die.offset] = scopes

    def _vertex(self, die):
        """The Vertex of a class; None if the class is none."""
        scopes, name = self._places[die.offset], _text(die, "DW_AT_name")
        if scopes[:1] == ("poplar",):
            return None
        kind, computes, fields = None, False, []

        def walk(one, offset, depth):
            nonlocal kind, computes
            if depth > _DEEPEST:
                raise Unreadable(f"the bases of {name} are nested too deeply")
            for child in one.iter_children():
                if child.tag == "DW_TAG_inheritance":
                    base = self._plain(self._type(child))
                    if base is None:
                        raise Unreadable(f"{name} has a base without a type")
                    base_name = _text(base, "DW_AT_name")
                    if self._places.get(base.offset) == ("poplar",) and base_name in VERTEX_KINDS:
                        kind = base_name
                    else:
                        walk(base, offset + _number(child, "DW_AT_data_member_location", 0),
                             depth + 1)
                elif child.tag == "DW_TAG_subprogram":
                    computes = computes or _text(child, "DW_AT_name") == "compute"
                elif (child.tag == "DW_TAG_member" and "DW_AT_external" not in child.attributes
                      and "DW_AT_artificial" not in child.attributes
                      and "DW_AT_name" in child.attributes):
                    fields.append(self._field(child, offset))
                    if len(fields) > _MOST_FIELDS:
                        raise Unreadable(f"{name} has more than {_MOST_FIELDS} fields")

        walk(die, 0, 0)
        if kind is None or not computes:
            return None
        size = _number(die, "DW_AT_byte_size")
        for field in fields:
            if not 0 <= field.offset <= field.offset + field.size <= size:
                raise Unreadable(f"the field {field.name} is outside of {name}")
        return Vertex("::".join((*scopes, self._name(die, 0))),
                      "::".join((*scopes, name)).replace("{anonymous}::", "").replace(
                          "(anonymous namespace)::", ""), kind, size, tuple(fields))

    def _field(self, member, offset):
        name = _text(member, "DW_AT_name")
        offset += _number(member, "DW_AT_data_member_location", 0)
        die, count = self._plain(self._type(member)), 1
        if die is not None and die.tag == "DW_TAG_array_type":
            for child in die.iter_children():
                if child.tag == "DW_TAG_subrange_type":
                    count *= _number(child, "DW_AT_upper_bound", -1) + 1
            die = self._plain(self._type(die))
        if die is None:
            raise Unreadable(f"the field {name} has no type")
        size = _number(die, "DW_AT_byte_size") * count
        direction, layouts, align, is_list, inner = "", [], 1, False, False
        for _ in range(_DEEPEST):
            of_poplar = self._places.get(die.offset) == ("poplar",)
            known = (_text(die, "DW_AT_name") or "").partition("<")[0] if of_poplar else ""
            if known not in (*DIRECTIONS, "Vector", "VectorList"):
                break
            parameters = [one for one in die.iter_children()
                          if one.tag.startswith("DW_TAG_template_")]
            if known in DIRECTIONS:
                direction, inner = known, bool(layouts)
            else:
                is_list = is_list or known == "VectorList"
                layouts.append(self._enumerator(self._plain(self._type(parameters[1])),
                                                _number(parameters[1], "DW_AT_const_value")))
                align = _number(parameters[2], "DW_AT_const_value", 1)
            die = self._plain(self._type(parameters[0]))
            if die is None:
                raise Unreadable(f"the field {name} has no type of its elements")
        else:
            raise Unreadable(f"the type of the field {name} is nested too deeply")
        if len(layouts) > 2:
            raise Unreadable(f"the field {name} is a vector of vectors of vectors")
        return Field(name, offset, size, direction, *self._element(die), tuple(layouts), is_list,
                     count, align, inner)

    def _element(self, die):
        """The type of Poplar of a plain value, and its width; enumerations count as their
        integers."""
        width = 1
        if die.tag == "DW_TAG_enumeration_type":
            die = self._plain(self._type(die)) or die
        elif self._places.get(die.offset) == ("ipu", "detail"):
            parameters = [one for one in die.iter_children()
                          if one.tag.startswith("DW_TAG_template_")]
            width = _number(parameters[1], "DW_AT_const_value")
            die = self._plain(self._type(parameters[0])) or die
        return TYPES.get(_text(die, "DW_AT_name") or "", ""), width

    def _name(self, die, depth):
        """The name of a class with its template's arguments, spelled as Poplar does."""
        if depth > _DEEPEST:
            raise Unreadable("the arguments of a template are nested too deeply")
        arguments = []

        def collect(parent, level):
            for child in parent.iter_children():
                if child.tag == "DW_TAG_template_type_param":
                    arguments.append(self._type_name(self._type(child), depth + 1))
                elif child.tag == "DW_TAG_template_value_param":
                    arguments.append(self._value(child))
                elif child.tag == "DW_TAG_GNU_template_parameter_pack" and level < _DEEPEST:
                    collect(child, level + 1)

        collect(die, 0)
        base = (_text(die, "DW_AT_name") or "").partition("<")[0]
        return f"{base}<{','.join(arguments)}>" if arguments else base

    def _type_name(self, die, depth):
        plain = self._plain(die)
        if plain is None:
            return "void"
        if plain.tag == "DW_TAG_pointer_type":
            return self._type_name(self._type(plain), depth + 1) + "*"
        own = _text(plain, "DW_AT_name") or ""
        if own in TYPES and (plain.tag == "DW_TAG_base_type" or own == "HalfFloat"):
            return TYPES[own]
        return "::".join((*self._places.get(plain.offset, ()), self._name(plain, depth)))

    def _value(self, child):
        if "DW_AT_const_value" not in child.attributes:
            return "?"
        value = _number(child, "DW_AT_const_value")
        die = self._plain(self._type(child))
        if die is not None and die.tag == "DW_TAG_enumeration_type":
            return "::".join((*self._places.get(die.offset, ()), _text(die, "DW_AT_name") or "",
                              self._enumerator(die, value)))
        if die is not None and _text(die, "DW_AT_name") == "bool":
            return "true" if value else "false"
        return str(value)

    @staticmethod
    def _enumerator(die, value):
        for child in die.iter_children() if die is not None else ():
            if (child.tag == "DW_TAG_enumerator"
                    and _number(child, "DW_AT_const_value", None) == value):
                return _text(child, "DW_AT_name") or ""
        return str(value)

    @staticmethod
    def _type(die):
        if "DW_AT_type" not in die.attributes:
            return None
        return die.get_DIE_from_attribute("DW_AT_type")

    def _plain(self, die):
        """The type without typedefs, const and volatile."""
        for _ in range(_DEEPEST):
            if die is None or die.tag not in ("DW_TAG_typedef", "DW_TAG_const_type",
                                              "DW_TAG_volatile_type"):
                return die
            die = self._type(die)
        raise Unreadable("typedefs are nested too deeply")


def _text(die, attribute):
    """A name; None without one."""
    if attribute not in die.attributes:
        return None
    value = die.attributes[attribute].value
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


_NEEDED = object()


def _number(die, attribute, default=_NEEDED):
    value = die.attributes[attribute].value if attribute in die.attributes else default
    if value is default and default is not _NEEDED:
        return default
    if not isinstance(value, int):
        raise Unreadable(f"{_text(die, 'DW_AT_name')} has no usable {attribute}")
    return value
