"""TF_POPLAR_FLAGS."""

import pathlib

import pytest

from tremula import flags


def test_defaults_are_there_for_every_flag():
    values = flags.parse("")
    assert set(values) == {flag.name for flag in flags.FLAGS}
    assert values["while_loop_brute_force_max_trip_count"] == 128
    assert values["use_ipu_model"] is False


def test_values_of_each_type():
    values = flags.parse("--use_ipu_model --log_cycle_count=1 --executable_cache_path='/a b/c' "
                         "--show_progress_bar=false --allow_nans=true --sync_replica_start=0")
    assert values["use_ipu_model"] is True and values["allow_nans"] is True
    assert values["sync_replica_start"] is False
    assert values["log_cycle_count"] == 1
    assert values["executable_cache_path"] == "/a b/c"


def test_the_cache_that_poprun_was_told(monkeypatch):
    monkeypatch.setenv("POPDIST_EXECUTABLE_CACHE_PATH", "/of/poprun")
    monkeypatch.delenv(flags.VARIABLE, raising=False)
    assert flags.read()["executable_cache_path"] == "/of/poprun"
    monkeypatch.setenv(flags.VARIABLE, "--executable_cache_path=/own")
    assert flags.read()["executable_cache_path"] == "/own"


def test_removed_flags_are_accepted():
    assert flags.parse("--force_replicated_mode --save_vertex_graph=/tmp")["force_replicated_mode"]


@pytest.mark.parametrize("text, words", [
    ("--use_ipu_modl", ["--use_ipu_modl", "'--use_ipu_model'"]),
    ("--executable_cache=/tmp", ["--executable_cache", "--executable_cache_path"]),
    ("-use_ipu_model", ["-use_ipu_model", "--use_ipu_model"]),
    ("--log_cycle_count=many", ["log_cycle_count", "'many'", "int"]),
    ("--log_cycle_count", ["log_cycle_count", "value"]),
    ("--use_ipu_model=perhaps", ["use_ipu_model", "'perhaps'", "bool"]),
    ("--synthetic_data_categories=infeed,outfed", ["'outfed'", "unknown synthetic data category"]),
    ("--synthetic_data_initializer=random", ["--use_synthetic_data"]),
    ("--use_synthetic_data --synthetic_data_initializer=blue", ["'blue'"]),
    ("--show_progress_bar=maybe", ["show_progress_bar", "maybe"]),
    ("--on_demand_device_poll_time=5", ["on_demand_device_poll_time", "100"]),
])
def test_errors_say_what_is_wrong(text, words):
    with pytest.raises(ValueError) as error:
        flags.parse(text)
    for word in words:
        assert word in str(error.value)


def test_flags_can_be_in_a_file(tmp_path):
    file = tmp_path / "flags"
    file.write_text("--use_ipu_model\n--ipu_model_tiles=8\n")
    assert flags.parse(str(file))["ipu_model_tiles"] == 8


def test_read_asks_the_environment_each_time(monkeypatch):
    monkeypatch.delenv("TF_POPLAR_FLAGS", raising=False)
    assert not flags.read()["use_ipu_model"]
    monkeypatch.setenv("TF_POPLAR_FLAGS", "--use_ipu_model")
    assert flags.read()["use_ipu_model"]


def test_synthetic_data_by_category():
    values = flags.parse("--synthetic_data_categories=infeed,seed")
    assert flags.uses_synthetic_data_for("infeed", values)
    assert not flags.uses_synthetic_data_for("outfeed", values)
    assert flags.uses_synthetic_data_for("outfeed", flags.parse("--use_synthetic_data"))


def test_every_flag_acts_or_says_why_not():
    for flag in flags.FLAGS:
        assert bool(flag.acts) != bool(flag.why), flag.name
        assert not (flag.removed and flag.acts), flag.name


def test_the_document_is_the_tables():
    document = pathlib.Path(__file__).resolve().parents[3] / "docs/flags.md"
    assert document.read_text() == flags.markdown(), (
        "run `python -m tremula.flags --markdown > docs/flags.md`")


def test_help_names_every_flag():
    lines = flags.help_text().splitlines()
    assert [line.split("=")[0].strip() for line in lines] == [
        f"--{flag.name}" for flag in flags.FLAGS]
    assert "(accepted, does nothing)" in next(line for line in lines if "allow_nans" in line)
