"""The pages of the C reference: the declarations of include/tremula with their comments.

libclang reads the headers; a declaration is the text of the source, with the comment before it or
behind it. Functions that follow one another without a comment between belong together. The standard
headers are names of types here, so that the machine needs no compiler.
"""

import pathlib
import re
import textwrap

from clang import cindex

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEADERS = sorted((ROOT / "include/tremula").glob("*.h"))
STANDARD = {"stdbool.h": "#define bool _Bool\n", "stddef.h": "typedef unsigned long size_t;\n",
            "stdint.h": "".join(f"typedef {kind} {sign}int{bits}_t;\n" for bits, kind in (
                (8, "char"), (16, "short"), (32, "int"), (64, "long")) for sign in ("", "u"))}
KIND = cindex.CursorKind
DECLARES = ("", "typedef", "#define", "TRM_API")  # what may come before a declaration in its line
FENCE = re.compile(r"^(-{4}|={4})")
SWITCH = re.compile(r"/\* clang-format (on|off) \*/")
MARKS = re.compile(r"\bTRM_API\s+|\s*__attribute__\(\(.*\)\)\s*$", re.S)


class Header:
    """A header: its tokens' comments, and the declarations in their order."""

    def __init__(self, path):
        self.name, self.path, self.files = path.stem, str(path), {}
        unit = cindex.Index.create().parse(
            self.path, ["-x", "c", "-std=c11", "-nostdinc", f"-I{ROOT}/include", "-I/standard"],
            [(f"/standard/{one}", text) for one, text in STANDARD.items()],
            cindex.TranslationUnit.PARSE_DETAILED_PROCESSING_RECORD)
        wrong = [str(one) for one in unit.diagnostics if one.severity >= cindex.Diagnostic.Error]
        if wrong:
            raise RuntimeError(f"{self.path}: libclang says {wrong[0]}")
        self.unit = unit
        own = self.file(self.path)
        self.intro = cleaned(own.comments[0].spelling)
        declarations = [one for one in unit.cursor.get_children()
                        if one.location.file and one.location.file.name == self.path
                        and one.kind != KIND.MACRO_INSTANTIATION
                        and own.line_before(one) in DECLARES]
        fences = [one for one in own.comments[1:] if FENCE.match(cleaned(one.spelling))]
        self.parts = sorted([*declarations, *fences], key=lambda one: one.extent.start.offset)

    def file(self, path):
        """The header itself, or a .def file that it includes."""
        if path not in self.files:
            self.files[path] = File(self.unit, path)
        return self.files[path]

    def text(self, cursor):
        """A declaration as it is written; one that a .def file makes, as its type says."""
        if cursor.location.file.name != self.path:
            return made(cursor)
        text = self.file(self.path).source[cursor.extent.start.offset:cursor.extent.end.offset]
        text = re.sub(r"/\*.*?\*/", "", text.decode(), flags=re.S)
        return " ".join(MARKS.sub("", text).split())

    def comment(self, cursor):
        return self.file(cursor.location.file.name).comment(cursor)

    def fence(self, before, cursor):
        """The heading in a .def file between two declarations that it makes, or None."""
        path = cursor.location.file.name
        first = before.extent.end.line if before.location.file.name == path else 0
        return next(
            (cleaned(one.spelling) for one in self.file(path).comments if path != self.path
             and first < one.extent.start.line < cursor.extent.start.line
             and FENCE.match(cleaned(one.spelling))), None)


class File:
    """A file's bytes, in which offsets count, and its comments by their last or first line."""

    def __init__(self, unit, path):
        self.source, self.is_table = pathlib.Path(path).read_bytes(), path.endswith(".def")
        whole = cindex.SourceRange.from_locations(*(
            cindex.SourceLocation.from_offset(unit, unit.get_file(path), offset)
            for offset in (0, len(self.source))))
        self.comments = [one for one in cindex.TokenGroup.get_tokens(unit, whole)
                         if one.kind == cindex.TokenKind.COMMENT]
        switches = {one.extent.start.line for one in self.comments if SWITCH.match(one.spelling)}
        self.comments = [one for one in self.comments if one.extent.start.line not in switches]
        own_line = {one.extent.start.line for one in self.comments if not self.line_before(one)}
        self.before = {one.extent.end.line + (one.extent.end.line + 1 in switches): one
                       for one in self.comments if one.extent.start.line in own_line}
        self.behind = {one.extent.start.line: one for one in self.comments
                       if one.extent.start.line not in own_line}

    def line_before(self, token):
        start = token.extent.start.offset
        return self.source[self.source.rfind(b"\n", 0, start) + 1:start].decode().strip()

    def comment(self, cursor):
        """The last text of a .def file's row, else the comment before a declaration, else the one
        behind it on its last line."""
        rest = self.source[cursor.extent.start.offset:].decode() if self.is_table else ""
        texts = re.findall(r'"([^"]*)"', re.split(r"\n(?=\S)", rest, maxsplit=1)[0])
        if texts:
            return texts[-1]
        before = self.before.get(cursor.extent.start.line - 1)
        if before is not None and not FENCE.match(cleaned(before.spelling)) and (
                before.extent.start.offset > 0):
            return cleaned(before.spelling)
        behind = self.behind.get(cursor.extent.end.line)
        return cleaned(behind.spelling) if behind is not None else ""


def made(field):
    """The declaration of a member that a macro has made."""
    kind = field.type.get_pointee()
    if kind.kind != cindex.TypeKind.FUNCTIONPROTO:
        return named(field.type.spelling, field.spelling)
    arguments = ", ".join(named(one.type.spelling, one.spelling) for one in field.get_children()
                          if one.kind == KIND.PARM_DECL)
    text = f"{kind.get_result().spelling} (*{field.spelling})({arguments})"
    return re.sub(r"\b_Bool\b", "bool", text)


def named(kind, name):
    """`name` with its type, which may be a pointer to a function."""
    if "(*)" in kind:
        return kind.replace("(*)", f"(*{name})")
    return f"{kind}{'' if kind.endswith('*') else ' '}{name}"


def cleaned(comment):
    """The text of a comment, without its frame."""
    lines = comment.strip()[2:-2].strip("\n").splitlines()
    return textwrap.dedent("\n".join(
        [" " + lines[0].strip(), *(re.sub(r"^\s*\*", "", one) if one.strip().startswith("*")
                                   else " " + one.strip() for one in lines[1:])])).strip()


def pages():
    """(header's name, text of its page in reStructuredText)."""
    for path in HEADERS:
        yield path.name, "\n".join(page(Header(path), f"tremula/{path.name}"))


def page(header, title):
    lines = [title, "=" * len(title), "", *plain(header.intro)]
    seen, last = set(), None  # last: where the heads of a group of functions end, and its last line
    for one in header.parts:
        if isinstance(one, cindex.Token):
            lines += heading(cleaned(one.spelling))
            last = None
        elif one.spelling not in seen:
            if one.kind == KIND.FUNCTION_DECL and last and not header.comment(one) and (
                    one.extent.start.line == last[1] + 1 and not one.spelling.endswith("_free")):
                lines.insert(last[0], f"{' ' * len('.. c:function:: ')}{header.text(one)}")
                last = (last[0] + 1, one.extent.end.line)
                continue
            made = entry(header, one)
            if made:
                seen.add(one.spelling)
            last = (len(lines) + 1, one.extent.end.line) if (
                one.kind == KIND.FUNCTION_DECL) else None
            lines += made
    return lines


def heading(fence):
    text = " ".join(re.sub(r"[-=]{3,}", "", fence).split())
    title, _, rest = re.match(r"([^:]*)(: ?)?(.*)", text).groups()
    return [title, ("=" if fence.startswith("=") else "-") * len(title), "",
            *plain(rest[:1].upper() + rest[1:])] if title else []


def entry(header, cursor):
    """The lines of a declaration; none for what is no part of the interface."""
    comment, text = header.comment(cursor), header.text(cursor)
    if cursor.kind == KIND.FUNCTION_DECL:
        return described("function", text, comment, [])
    opaque = re.fullmatch(r"typedef struct (\w+) \1", text)
    if opaque:
        return described("struct", opaque[1], comment or "An opaque type.", [])
    if cursor.kind == KIND.STRUCT_DECL and cursor.is_definition():
        return described("struct", cursor.spelling, comment, members(header, cursor))
    if cursor.kind == KIND.ENUM_DECL:
        named = f"@{header.name}" if cursor.is_anonymous() else cursor.spelling
        return described("enum", named, comment, [
            line for one in cursor.get_children() for line in described(
                "enumerator", f"{one.spelling} = {one.enum_value}",
                "" if header.comment(one) == comment else header.comment(one), [])])
    if cursor.kind == KIND.TYPEDEF_DECL and "{" not in text:
        return described("type", text.partition("typedef ")[2], comment, [])
    if cursor.kind == KIND.MACRO_DEFINITION and comment:
        return described("macro", re.match(r"\w+(\([^)]*\))?", text)[0], comment, [])
    return []


def members(header, struct):
    fields = [one for one in struct.get_children() if one.kind == KIND.FIELD_DECL]
    for before, one in zip([struct, *fields], fields):
        fence = header.fence(before, one)
        if fence:
            title, *rest = heading(fence)
            yield from [f".. rubric:: {title}", "", *rest[2:]]
        inner = one.type.get_declaration()
        if inner.kind == KIND.UNION_DECL and inner.is_anonymous():
            yield from described("union", one.spelling, header.comment(one), members(header, inner))
        elif one.extent.start != before.extent.start:  # else it is in the statement of the last
            statement = [member(header, two) for two in fields
                         if two.extent.start == one.extent.start]
            yield from described("member", statement, header.comment(one), [])


def member(header, field):
    """A field's declaration of its own, where one statement declares several."""
    kind, name = field.type.spelling, field.spelling
    text = header.text(field)
    if "," not in text or "(" in text:
        return text
    array = re.search(rf"\b{name}(\[[^\]]*\])*", text)
    return named(kind.partition("[")[0], array[0])


def described(kind, heads, comment, inner):
    """An object of Sphinx's domain of C; several heads share the comment."""
    content, directive = [*plain(comment), *inner], f".. c:{kind}:: "
    first, *others = [heads] if isinstance(heads, str) else heads
    return [f"{directive}{first}", *(" " * len(directive) + one for one in others), "",
            *textwrap.indent("\n".join(content), "   ").splitlines(), ""]


def plain(text):
    return [".. plain::", "", *textwrap.indent(text, "   ").splitlines(), ""] if text else []
