"""The notebooks of the course run: each of their cells, with its assertions."""
import importlib.util
import json
import os
import pathlib
import re
import shutil

import interpreter
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
SCRIPT = ROOT / "scripts/course.py"
CHAPTERS = sorted((ROOT / "course").glob("[0-9][0-9]_*.md"))
QUICK = ("01", "02")  # what a change must pass; the others take longer
NEEDS_COMPILER = "09"


def run(*arguments, **environment):
    return interpreter.run([SCRIPT, *arguments], env=dict(os.environ, **environment))


@pytest.mark.parametrize("chapter", [
    pytest.param(one, id=one.stem, marks=[] if one.stem[:2] in QUICK else pytest.mark.long)
    for one in CHAPTERS])
def test_a_chapter_runs(tmp_path, chapter):
    if chapter.stem[:2] == NEEDS_COMPILER and not (
            shutil.which("g++") and importlib.util.find_spec("elftools")):
        pytest.skip("needs g++ and pyelftools")
    done = run("one", chapter, tmp_path / "outputs.json", TREMULA_RUNTIME_DIR=str(tmp_path))
    assert done.returncode == 0, done.stderr[-4000:]
    outputs = json.loads((tmp_path / "outputs.json").read_text())
    pictures = [text for cell in outputs for kind, text in cell if kind == "image/svg+xml"]
    assert len(pictures) >= 2 and all("<title>" in one for one in pictures)
    assert "Exercise" in chapter.read_text() and "Answer" in chapter.read_text()


def test_there_are_ten():
    assert [one.stem[:2] for one in CHAPTERS] == [f"{number:02}" for number in range(1, 11)]


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda one: one.stem)
def test_a_chapter_takes_less_than_ten_minutes_to_read(chapter):
    """At 150 words a minute, with the words of the code."""
    assert len(re.findall(r"\w+", chapter.read_text())) < 1500


def test_a_wrong_assertion_fails_and_names_its_line(tmp_path):
    chapter = tmp_path / "11_wrong.md"
    cell = "```{code-cell} python\nx = 1\n\nassert x == 2\n```\n"
    chapter.write_text(f"---\nname: x\n---\n\n# Wrong\n\n{cell}")
    done = run("one", chapter)
    assert done.returncode != 0
    assert f'"{chapter}", line 10' in done.stderr
