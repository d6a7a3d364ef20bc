"""How large and how tangled the house is: `python scripts/house.py [REVISION ...]`.

Prints a table with a column for each revision (the working tree if none is given): lines and files
by folder, long files and functions, circles of imports, tests, and walks.

A walk starts at a function and follows its calls in the order of the source, each function once,
with those in the tables that a function reads. It counts the files that it enters, the functions,
and the calls into a file that it had left before. Functions of less than ten lines and src/base do
not count, because every file calls these. A walk does not follow function pointers in structs. The
walk of an opcode starts at the kernels and the cost that its row in opcodes.def names.
"""

import ast
import collections
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
LONG_FUNCTION, LONG_FILE, SHORT_CALL = 60, 600, 10
PARTS = {  # name in the table: (folder, endings)
    "src": ("src", None), "include": ("include", (".h",)),  # None: every text file
    "tools": ("tools", (".c", ".h")), "python": ("python", (".py",)),
    "tests/c": ("tests/c", (".c", ".h")), "tests/python": ("tests/python", (".py",)),
    "docs": ("docs", (".md",)),
}
# The walks: name, functions to begin with (the first that a revision has), and where to stop.
# The towers, also where older revisions have them: {name: what a path below src/ begins with}.
TOWERS = {
    "the estimate of an IPU": re.compile(
        r"(ipu|program|tile|target)/|ops/\w+/(tile|plan)_|"
        r"passes/(library|narrow|calls|values|popops|multi_conv)"),
    "the host": re.compile(r"(host|accelerator|ops|exec)/"),
}
COMPILING = re.compile(r"trm_(compile|inspect_compile|module_read|program_create|executable_load|"
                       r"report_)\w*$")
WALKS = [
    ("an HLO module, read", ["trm_module_read"], None),
    ("an HLO module, compiled", ["trm_compile"], None),
    ("a run's call of a compiled program, in the plugin and the engine",
     ["trm_tf_launch", "launch"], COMPILING),
    ("a run's call, in the engine", ["trm_engine_run"], None),
    ("a plan request", ["trm_program_create"], None),
]
OPCODE = "SORT"      # its row names a kernel and a cost
ELEMENTWISE = "CBRT"  # what an elementwise opcode adds is its own name, in tables
CALL = r"(?<![.>])\b[a-z_]\w*(?=\()"
MENTION = re.compile(rf"\btrm_\w+|{CALL}|(?<=[(, ])[a-z_]\w*(?=[,)])")
TABLE = re.compile(r"^(?:static )?const [\w \*]*?(\w+)\[.*?\] = \{(.*?)^\};", re.M | re.S)
DEFINE = re.compile(r"^#define (\w+)\(([\w, ]+)\) (.*##.*)$", re.M)
NAME = re.compile(CALL)


def files(root, part):
    folder, endings = PARTS[part]
    return sorted(path for path in (root / folder).rglob("*") if path.is_file() and (
        path.suffix in endings if endings else is_text(path)))


def is_text(path):
    return b"\0" not in path.read_bytes()


def tower_of(path):
    """The tower of a path below src/, or what stands below and above both."""
    return next((name for name, begins in TOWERS.items() if begins.match(path)), "both")


def lines(path):
    return path.read_text(errors="replace").count("\n")


def c_functions(path):
    """[(name, whether it is static, number of lines, body)] of a file as clang-format writes it."""
    found, text = [], path.read_text(errors="replace").split("\n")
    start = None
    for number, line in enumerate(text):
        if re.match(r"[A-Za-z_][\w \*]*\(", line) and not line.endswith(";"):
            start = number
        elif line == "}" and start is not None:
            name = re.match(r"[\w \*]*?(?:NAME\()?(\w+)[()]", text[start])[1]
            found.append((name, text[start].startswith("static"), number - start + 1,
                          "\n".join(text[start + 1:number])))
            start = None
    return found


def python_functions(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.name, node.lineno, node.end_lineno - node.lineno + 1


def in_circles(graph):
    """The nodes from which a way leads back to them."""
    found = []
    for start in graph:
        seen, waiting = set(), list(graph[start])
        while waiting:
            one = waiting.pop()
            if one not in seen:
                seen.add(one)
                waiting += graph.get(one, ())
        found += [start] if start in seen else []
    return found


# TensorFlow's private packages, without ours, as in tests/structure/test_layers.py.
PRIVATE = re.compile(r"tensorflow\.(?!python\.ipu\b|compiler\.plugin\b)"
                     r"(python|core|compiler|lite|tools|_api)\b")


def private_users(root):
    """How many Python files outside of tf/inner import private modules of TensorFlow."""
    return sum(any(PRIVATE.match(name) for name in imported(path))
               for path in files(root, "python") if "tf/inner" not in str(path))


def imported(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and getattr(
                node.func, "attr", getattr(node.func, "id", "")) == "import_module":
            yield from (one.value for one in node.args[:1] if isinstance(one, ast.Constant))
        elif isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{one.name}" for one in node.names)


def python_imports(root):
    known = {}
    for path in files(root, "python"):
        parts = path.relative_to(root / "python").with_suffix("").parts
        known[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    graph = {}
    for module, path in known.items():
        graph[module] = set()
        for name in imported(path):
            name = re.sub(r"^tensorflow\.python\.ipu\b", "tremula.tf.ipu", name)
            while name and name not in known:
                name = name.rpartition(".")[0]
            graph[module] |= {name} & known.keys() - {module}
    return graph


def includes(root):
    """{file of src: the files that it includes}."""
    known = {str(path.relative_to(root / "src")): path for path in files(root, "src")}
    graph = {}
    for path in known.values():
        names = re.findall(r'#\s*include "([^"]+)"', path.read_text())
        graph[path] = {known[one] for name in names
                       for one in (name, str(path.parent.relative_to(root / "src") / name))
                       if one in known}
    return graph


def c_calls(root):
    """({file: its functions}, {name of a function that is not static: file})."""
    functions = {path: c_functions(path) for path in files(root, "src")}
    owner = {name: path for path, found in functions.items() for name, is_static, *_ in found
             if not is_static}
    return functions, owner


def call_circles(root):
    """{folder: the names of its C files that are in a circle of calls within the folder}."""
    functions, owner = c_calls(root)
    graph = {path: {owner[name] for *_, body in found for name in NAME.findall(body)
                    if name in owner and owner[name].parent == path.parent} - {path}
             for path, found in functions.items()}
    circles = collections.defaultdict(set)
    for path in in_circles(graph):
        circles[path.parent.relative_to(root).as_posix()].add(path.name)
    return circles


def expanded(root, path, table):
    """The text of a table, with the names that its rows make by macros, as of costs and kernels."""
    for name in re.findall(r'#include "(.*\.def)"', table):
        table += (root / "src" / name).read_text()
    made = []
    for macro, parameters, text in DEFINE.findall(path.read_text()):
        for given in re.findall(rf"\b{macro}\(([\w, ]*)\)", table):
            row = text
            for parameter, value in zip(parameters.split(","), given.split(",")):
                row = re.sub(rf"(##)?\b{parameter.strip()}\b(##)?", value.strip(), row)
            made += re.findall(r"trm_\w+", row)
    return " ".join([table, *made])


def opcode_starts(root, opcode):
    """The functions that the row of an opcode names."""
    text = (root / "src/hlo/opcodes.def").read_text()
    row = re.search(rf"^OPCODE\({opcode},.*?\)(?=\n\S|\n\n)", text, re.M | re.S)
    kernels = re.findall(r"KERNELS?\(([\w, ]+)\)", row[0]) if row else []
    costs = re.findall(r"COST\((\w+)\)", row[0]) if row else []
    return [f"trm_{one.strip()}_create" for names in kernels for one in names.split(",")] + [
        f"trm_tile_{one}" for one in costs]


def naming(root, opcode):
    """How many files of src name an opcode."""
    name = re.compile(rf"\b(TRM_OP_)?{opcode}\b|\"{opcode.lower()}\"|\w+_{opcode.lower()}\b")
    return sum(bool(name.search(path.read_text(errors="replace")))
               for path in files(root, "src"))


def walk(root, starts, stops, every=False):
    """(files entered, functions, calls into a file that was left), or None. Begins at the first of
    `starts` that there is, or at every one."""
    functions, owner = c_calls(root)
    local = {path: {name: (size, body) for name, _, size, body in found}
             for path, found in functions.items()}
    starts = [one for one in starts if one in owner]
    if not starts:
        return None
    base = root / "src/base"
    seen, entered, count, returns = set(), set(), 0, 0
    stack = [(owner[one], one, None) for one in (reversed(starts) if every else starts[:1])]
    while stack:
        path, name, caller = stack.pop()
        if (path, name) in seen:
            continue
        seen.add((path, name))
        size, body = local[path][name]
        if size >= SHORT_CALL:
            count += 1
            returns += path in entered and path != caller
            entered.add(path)
            caller = path
        tables = "".join(expanded(root, path, text)
                         for table, text in TABLE.findall(path.read_text())
                         if re.search(rf"\b{table}\b", body))
        calls = []
        for called in MENTION.findall(body + tables):
            where = path if called in local[path] else owner.get(called)
            if where != path and not called.startswith("trm_") and f"{called}(" not in body:
                continue  # a variable of that name
            if where is not None and base not in where.parents and not (
                    stops is not None and stops.match(called)):
                calls.append((where, called, caller))
        stack += reversed(calls)
    return len(entered), count, returns


def measure(root):
    """{row: text}, in the order of the table."""
    table = {}
    for part in PARTS:
        found = files(root, part)
        table[f"{part}: files / lines"] = f"{len(found)} / {sum(map(lines, found))}"
    for folder in sorted({path.relative_to(root).parts[1] for path in files(root, "src")
                          if len(path.relative_to(root).parts) > 2}):
        found = [path for path in files(root, "src") if root / "src" / folder in path.parents]
        table[f"src/{folder}: files / lines"] = f"{len(found)} / {sum(map(lines, found))}"
    by_tower = collections.Counter()
    for path in files(root, "src"):
        by_tower[tower_of(path.relative_to(root / "src").as_posix())] += lines(path)
    for tower in [*TOWERS, "both"]:
        table[f"src, for {tower}: lines"] = str(by_tower[tower])
    folders = collections.Counter(path.parent for path in files(root, "python"))
    folder, count = folders.most_common(1)[0]
    table["python: most files in a folder"] = f"{count} ({folder.relative_to(root / 'python')})"
    for part in ("src", "python"):
        table[f"{part}: files over {LONG_FILE} lines"] = str(
            sum(lines(path) > LONG_FILE for path in files(root, part)))
    table[f"src, tools: functions over {LONG_FUNCTION} lines"] = str(sum(
        size > LONG_FUNCTION for part in ("src", "tools") for path in files(root, part)
        if path.name.endswith((".c", ".inc.h")) for _, _, size, _ in c_functions(path)))
    table[f"python: functions over {LONG_FUNCTION} lines"] = str(sum(
        size > LONG_FUNCTION for path in files(root, "python")
        for _, _, size in python_functions(path)))
    imports = python_imports(root)
    inner = {module: used for module, used in imports.items()
             if module.startswith("tremula.tf.")}
    table["python/tremula/tf: modules in circles of imports"] = str(
        len(in_circles(inner)))
    table["python: files that import private modules of TensorFlow, outside of tf/inner"] = str(
        private_users(root))
    table["src: files in circles of includes"] = str(len(in_circles(includes(root))))
    table["src: files in circles of calls"] = str(sum(map(len, call_circles(root).values())))
    table["tests: C files / Python functions"] = (
        f"{sum(path.name.startswith('test_') for path in files(root, 'tests/c'))} / "
        f"{sum(name.startswith('test_') for path in files(root, 'tests/python') for name, *_ in python_functions(path))}")  # noqa: E501
    table[f"src: files that name an elementwise opcode ({ELEMENTWISE.lower()})"] = str(
        naming(root, ELEMENTWISE))
    walks = [(*one, False) for one in WALKS]
    walks.append((f"an opcode's row ({OPCODE.lower()})", opcode_starts(root, OPCODE), None, True))
    for what, starts, stops, every in walks:
        found = walk(root, starts, stops, every)
        table[f"{what}: files / functions / returns"] = "/".join(
            f" {one} " for one in found).strip() if found else "-"
    return table


def unpacked(revision, folder):
    archive = pathlib.Path(folder) / "tree.tar"
    subprocess.run(["git", "-C", str(ROOT), "archive", "-o", str(archive), revision], check=True)
    with tarfile.open(archive) as tree:
        tree.extractall(folder, filter="data")
    return pathlib.Path(folder).resolve()


def table_of(columns):
    """Markdown; `columns` are {title: revision, "." for the working tree}."""
    measured = {}
    for title, revision in columns.items():
        if revision == ".":
            measured[title] = measure(ROOT)
            continue
        with tempfile.TemporaryDirectory() as folder:
            measured[title] = measure(unpacked(revision, folder))
    rows = list(dict.fromkeys(row for table in measured.values() for row in table))
    lines = ["| | " + " | ".join(measured) + " |", "|---|" + "---|" * len(measured)]
    lines += [f"| {row} | " + " | ".join(table.get(row, "-") for table in measured.values()) + " |"
              for row in rows]
    return "\n".join(lines) + "\n"


def main():
    revisions = sys.argv[1:] or ["."]
    print(table_of({one if one != "." else "working tree": one for one in revisions}), end="")


if __name__ == "__main__":
    main()
