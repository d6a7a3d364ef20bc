"""--xla_disable_hlo_passes in XLA_FLAGS."""

import pytest

from tremula import core, xla_flags


@pytest.mark.parametrize("flags, passes", [
    ("", []),
    ("--xla_disable_hlo_passes=embeddings-gradient-optimizer", []),
    ("--xla_disable_hlo_passes=cse,fuse-ops-late --xla_dump_to=/d",
     ["common-subexpressions", "fuse"]),
    ("--xla_disable_hlo_passes=cse --xla_disable_hlo_passes='algebraic_simplifier'",
     ["simplify"])])
def test_names_of_the_original_and_of_xla(monkeypatch, caplog, flags, passes):
    monkeypatch.setenv("XLA_FLAGS", flags)
    assert xla_flags.disabled_passes() == passes
    assert not caplog.records


def test_an_unknown_name_is_told(monkeypatch, caplog):
    monkeypatch.setenv("XLA_FLAGS", "--xla_disable_hlo_passes=no-such-pass,cse")
    assert xla_flags.disabled_passes() == ["common-subexpressions"]
    assert "names no-such-pass" in caplog.text


def test_a_file_of_flags(monkeypatch, tmp_path):
    (tmp_path / "flags").write_text("--xla_disable_hlo_passes=hoist\n")
    monkeypatch.setenv("XLA_FLAGS", str(tmp_path / "flags"))
    assert xla_flags.disabled_passes() == ["hoist"]
    monkeypatch.setenv("XLA_FLAGS", str(tmp_path / "none"))
    assert xla_flags.disabled_passes() == []


def test_the_compiler_leaves_them_out():
    module = core.Module.read("""HloModule m
ENTRY e { a = f32[4] parameter(0) b = f32[4] add(a, a) c = f32[4] tanh(b)
  ROOT d = f32[4] multiply(c, b) }""")
    assert "fusion(" in core.compile(module).print()
    assert "fusion(" not in core.compile(module, disabled_passes="fuse").print()
    with pytest.raises(core.TremulaError, match="names 'inline', which is no optimising pass"):
        core.compile(module, disabled_passes="inline")
