"""A .gp's table and its vertices by ctypes: include/tremula/poplar_codelet.h."""
import ctypes

VALUE, VALUES, EDGE, EDGES, LISTS = 1, 2, 3, 4, 5
INPUT, OUTPUT, INOUT = 1, 2, 3


class Field(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("offset", ctypes.c_uint32), ("count", ctypes.c_uint32),
                *((name, ctypes.c_uint8) for name in (
                    "kind", "direction", "dtype", "width", "outer", "inner", "ipu_bytes",
                    "min_align"))]

    def summary(self):
        return (self.kind, self.direction, self.dtype, self.width, self.outer, self.inner)


class Vertex(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p),
                ("run", ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.c_void_p, ctypes.c_uint32)),
                ("state_bytes", ctypes.c_uint32), ("state_align", ctypes.c_uint32),
                ("workers", ctypes.c_uint32), ("code_bytes", ctypes.c_uint32),
                ("num_fields", ctypes.c_uint32), ("fields", ctypes.POINTER(Field))]

    def by_name(self):
        return {self.fields[i].name.decode(): self.fields[i] for i in range(self.num_fields)}

    def call(self, values):
        """Calls compute() of a state with these contents: for each field its bytes (any ctypes
        value). Returns nothing: arrays that the state points to have changed."""
        state = (ctypes.c_uint64 * (self.state_bytes // 8 + 1))()
        at = ctypes.addressof(state)
        fields = self.by_name()
        for name, value in values.items():
            ctypes.memmove(at + fields[name].offset, ctypes.addressof(value), ctypes.sizeof(value))
        for worker in range(self.workers):
            assert self.run(at, worker) is None


class Table(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint32), ("version", ctypes.c_uint32),
                ("vertex_bytes", ctypes.c_uint32), ("field_bytes", ctypes.c_uint32),
                ("num_vertices", ctypes.c_uint32), ("vertices", ctypes.POINTER(Vertex))]


class Span(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("size", ctypes.c_uint64)]


def load(path):
    """The vertices of a .gp by their names."""
    library = ctypes.CDLL(str(path))
    table = Table.in_dll(library, "trm_poplar_codelets")
    assert (table.size, table.version, table.vertex_bytes, table.field_bytes) == (
        ctypes.sizeof(Table), 2, ctypes.sizeof(Vertex), ctypes.sizeof(Field))
    found = {table.vertices[i].name.decode(): table.vertices[i] for i in range(table.num_vertices)}
    assert len(found) == table.num_vertices
    return found, library


def pointer(array):
    """A numpy array as a field that is a pointer."""
    return ctypes.c_void_p(array.ctypes.data)


def span(array):
    return Span(array.ctypes.data, array.size)
