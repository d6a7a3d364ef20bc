"""The C++ that popc adds to a source: a function for each vertex, and the table of all of them."""

_DIRECTIONS = {"": 0, "Input": 1, "Output": 2, "InOut": 3}
_VALUE, _VALUES, _EDGE, _EDGES, _LISTS = 1, 2, 3, 4, 5
_SIZED = "SPAN", "SHORT_SPAN"
# Numbers of tremula/dtype.def by the names of Poplar's types.
_DTYPES = {"bool": 1, "char": 2, "signed char": 2, "short": 3, "int": 4, "longlong": 5,
           "unsigned char": 6, "unsigned short": 7, "unsigned int": 8, "unsigned longlong": 9,
           "half": 10, "float": 11, "double": 12}
# Of a field in a vertex's state on an IPU, by layout; a list has one more such word for its sizes.
_IPU_BYTES = {"SPAN": 8, "SHORT_SPAN": 4, "SCALED_PTR32": 2, "SCALED_PTR64": 2, "SCALED_PTR128": 2,
              "COMPACT_PTR": 4, "DELTAN": 8, "DELTANELEMENTS": 8, "COMPACT_DELTAN": 8}
_WORKERS = {"MultiVertex": 6}
# Calls compute(). No exception leaves a vertex: the engine is C.
_GUARD = """#include <cstdio>
#include <exception>
namespace {
template <class Compute>
const char *trm_guarded(const Compute &compute) {
#if defined(__cpp_exceptions)
  static thread_local char what[512];
  try {
    compute();
    return nullptr;
  } catch (const std::exception &thrown) {
    std::snprintf(what, sizeof what, "%s", thrown.what());
  } catch (...) {
    std::snprintf(what, sizeof what, "an exception that is no std::exception");
  }
  return what;
#else
  compute();
  return nullptr;
#endif
}
} // namespace
"""


def runners(source, found, number):
    """C++ with a function for each vertex of a source, and with their descriptions."""
    lines = [f'#include "{_quoted(str(source))}"', "", "#include <tremula/poplar_codelet.h>", "",
             _GUARD]
    for i, vertex in enumerate(found):
        name = f"trm_vertex_{number}_{i}"
        worker = "worker" if vertex.kind == "MultiVertex" else ""
        call = f"static_cast<{name} *>(state)->{name}::compute({worker})"
        lines += [
            f"typedef {vertex.cpp_name} {name};",
            f"static const char *{name}_run(void *state, uint32_t worker) {{",
            "  (void)worker;",
            f"  return trm_guarded([&] {{ {call}; }});",
            "}"]
        if vertex.fields:
            lines += [f"static const trm_codelet_field {name}_fields[] = {{",
                      *(f"  {{{_field(one)}}}," for one in vertex.fields), "};"]
    lines += [f"extern const trm_codelet_vertex trm_vertices_{number}[];",
              f"const trm_codelet_vertex trm_vertices_{number}[] = {{"]
    for i, vertex in enumerate(found):
        name = f"trm_vertex_{number}_{i}"
        fields = f"{name}_fields" if vertex.fields else "nullptr"
        lines.append(f'  {{"{_quoted(vertex.name)}", {name}_run, sizeof({name}), alignof({name}), '
                     f"{_WORKERS.get(vertex.kind, 1)}, 0, {len(vertex.fields)}, {fields}}},")
    return "\n".join([*lines, "};", ""])


def table(counts):
    """C++ with the table of the vertices that the sources have: `counts` of them."""
    lines = ["#include <tremula/poplar_codelet.h>", ""]
    lines += [f"extern const trm_codelet_vertex trm_vertices_{i}[];" for i in range(len(counts))]
    lines += [f"static trm_codelet_vertex vertices[{sum(counts)}];",
              'extern "C" {',
              '__attribute__((visibility("default"))) extern const trm_codelet_table '
              "trm_poplar_codelets;",
              "const trm_codelet_table trm_poplar_codelets = {",
              "  sizeof(trm_codelet_table), TRM_CODELET_VERSION, sizeof(trm_codelet_vertex),",
              f"  sizeof(trm_codelet_field), {sum(counts)}, vertices}};",
              "}",
              "__attribute__((constructor)) static void join_vertices() {",
              "  unsigned to = 0;"]
    lines += [f"  for (unsigned i = 0; i < {count}; ++i) vertices[to++] = trm_vertices_{number}[i];"
              for number, count in enumerate(counts)]
    return "\n".join([*lines, "}", ""])


def _field(field):
    kind, outer, inner = _VALUE, 0, 0
    layouts, of_edges = field.layouts, bool(field.direction)
    if field.is_list:
        kind, outer, inner = _LISTS, 1, 1
    elif layouts:
        outer = int(layouts[0] in _SIZED)
        if len(layouts) == 2:
            kind, inner = _LISTS, int(layouts[1] in _SIZED)
        elif field.inner_direction:
            kind = _LISTS
        else:
            kind = _EDGES if of_edges else _VALUES
    elif of_edges:
        kind = _EDGE
    width = field.width
    ipu = _IPU_BYTES.get(layouts[0], 4) if layouts else 4 if of_edges else field.size
    return ", ".join([f'"{_quoted(field.name)}"', str(field.offset),
                      str(field.count if kind == _VALUE else 0), str(kind),
                      str(_DIRECTIONS[field.direction]), str(_DTYPES.get(field.type, 0)),
                      str(width), str(outer), str(inner), str(min(ipu, 255)),
                      str(min(field.align, 255))])


def _quoted(text):
    return text.replace("\\", "\\\\").replace('"', '\\"')
