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
# Not inspect.h, poplar.h and poplar_codelet.h, which no program includes by itself.
HEADERS = ["tremula", "builder", "device", "group", "log", "program", "report", "target",
           "timeline", "user_op"]
STANDARD = {"stdbool.h": "#define bool _Bool\n", "stddef.h": "typedef unsigned long size_t;\n",
            "stdint.h": "".join(f"typedef {kind} {sign}int{bits}_t;\n" for bits, kind in (
                (8, "char"), (16, "short"), (32, "int"), (64, "long")) for sign in ("", "u"))}
KIND = cindex.CursorKind
DECLARES = ("", "typedef", "#define", "TRM_API")  # what may come before a declaration in its line
FENCE = re.compile(r"^(-{4}|={4})")
MARKS = re.compile(r"\bTRM_API\s+|\s*__attribute__\(\(.*\)\)\s*$", re.S)


class Header:
    """A header: its tokens' comments, and the declarations in their order."""

    def __init__(self, name):
        self.name, self.path = name, str(ROOT / f"include/tremula/{name}.h")
        unit = cindex.Index.create().parse(
            self.path, ["-x", "c", "-std=c11", "-nostdinc", f"-I{ROOT}/include", "-I/standard"],
            [(f"/standard/{one}", text) for one, text in STANDARD.items()],
            cindex.TranslationUnit.PARSE_DETAILED_PROCESSING_RECORD)
        wrong = [str(one) for one in unit.diagnostics if one.severity >= cindex.Diagnostic.Error]
        if wrong:
            raise RuntimeError(f"{self.path}: libclang says {wrong[0]}")
        self.source = pathlib.Path(self.path).read_bytes()  # in which offsets count
        comments = [one for one in unit.cursor.get_tokens()
                    if one.kind == cindex.TokenKind.COMMENT]
        self.intro = cleaned(comments[0].spelling)
        own_line = {one.extent.start.line for one in comments if not self.line_before(one)}
        self.before = {one.extent.end.line: one for one in comments
                       if one.extent.start.line in own_line}
        self.behind = {one.extent.start.line: one for one in comments
                       if one.extent.start.line not in own_line}
        declarations = [one for one in unit.cursor.get_children()
                        if one.location.file and one.location.file.name == self.path
                        and one.kind != KIND.MACRO_INSTANTIATION
                        and self.line_before(one) in DECLARES]
        fences = [one for one in comments[1:] if FENCE.match(cleaned(one.spelling))]
        self.parts = sorted([*declarations, *fences], key=lambda one: one.extent.start.offset)

    def line_before(self, token):
        start = token.extent.start.offset
        return self.source[self.source.rfind(b"\n", 0, start) + 1:start].decode().strip()

    def text(self, cursor):
        text = self.source[cursor.extent.start.offset:cursor.extent.end.offset].decode()
        return " ".join(MARKS.sub("", re.sub(r"/\*.*?\*/", "", text, flags=re.S)).split())

    def comment(self, cursor):
        """The comment before a declaration, else the one behind it on its last line."""
        if cursor.location.file.name != self.path:  # a row of a .def file
            return ""
        before = self.before.get(cursor.extent.start.line - 1)
        if before is not None and not FENCE.match(cleaned(before.spelling)):
            return cleaned(before.spelling)
        behind = self.behind.get(cursor.extent.end.line)
        return cleaned(behind.spelling) if behind is not None else ""


def cleaned(comment):
    """The text of a comment, without its frame."""
    lines = comment.strip()[2:-2].strip("\n").splitlines()
    return textwrap.dedent("\n".join(
        [" " + lines[0].strip(), *(re.sub(r"^\s*\*", "", one) if one.strip().startswith("*")
                                   else " " + one.strip() for one in lines[1:])])).strip()


def pages():
    """(header's name, text of its page in reStructuredText)."""
    for name in HEADERS:
        yield f"{name}.h", "\n".join(page(Header(name), f"tremula/{name}.h"))


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
        return described("struct", cursor.spelling, comment, [
            line for one in cursor.get_children() if one.kind == KIND.FIELD_DECL
            for line in described("member", member(header, one), header.comment(one), [])])
    if cursor.kind == KIND.ENUM_DECL:
        named = f"@{header.name}" if cursor.is_anonymous() else cursor.spelling
        return described("enum", named, comment, [
            line for one in cursor.get_children()
            for line in described("enumerator", f"{one.spelling} = {one.enum_value}",
                                  header.comment(one), [])])
    if cursor.kind == KIND.TYPEDEF_DECL and "{" not in text:
        return described("type", text.partition("typedef ")[2], comment, [])
    if cursor.kind == KIND.MACRO_DEFINITION and comment:
        return described("macro", re.match(r"\w+(\([^)]*\))?", text)[0], comment, [])
    return []


def member(header, field):
    """A field's declaration of its own, where one statement declares several."""
    kind, name = field.type.spelling, field.spelling
    text = header.text(field)
    if "," not in text or "(" in text:
        return text
    array = re.search(rf"\b{name}(\[[^\]]*\])*", text)
    base = kind.partition("[")[0]
    return f"{base}{'' if base.endswith('*') else ' '}{array[0]}"


def described(kind, head, comment, inner):
    content = plain(comment) + inner
    return [f".. c:{kind}:: {head}", "",
            *textwrap.indent("\n".join(content), "   ").splitlines(), ""]


def plain(text):
    return [".. plain::", "", *textwrap.indent(text, "   ").splitlines(), ""] if text else []
