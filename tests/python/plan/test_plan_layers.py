"""Layers against the IPU Model of poplibs (bench/fidelity/layers.py): one of each kind."""

import csv
import importlib.util
import json
import pathlib
import sys

import pytest

FOLDER = pathlib.Path(__file__).resolve().parents[3] / "bench" / "fidelity"

# What bench/fidelity finds is much closer; these bounds are for mistakes.
CASES = {
    "gemm_200x256x10000": 0.25,
    "bert_kqv_384x768x2304": 0.07,              # .083 if backward passes shared buses on an MK2
    "bert_grouped_16x384x64x384": 0.25,
    "resnet50_tr_bs4_bm128L0A1": 0.25,
    "resnet50_tr_bs4_bm512L0A1": 0.3,           # a field that is nearly all border
    "resnet50_tr_bs4_bm512L0_projection": 0.25,  # the gradient of a strided pointwise one
    "vgg16_tr_bs4_v3L1": 0.35,                  # little memory
    "mobilenet_depthwise": 0.3,
    "inception_tr_bs1_i1_dmaxpool": 0.35,
    "resnet50_tr_bs1_bm128L0_reduce": 0.4,
    "embedding_vlarge": 0.15,
    "gru_16_25_1024_1024_half": 0.2,
}


@pytest.fixture(scope="module", name="layers")
def fixture_layers():
    sys.path.insert(0, str(FOLDER))
    try:
        spec = importlib.util.spec_from_file_location("fidelity_layers", FOLDER / "layers.py")
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        yield module
    finally:
        sys.path.remove(str(FOLDER))


@pytest.mark.parametrize("name", CASES)
def test_cycles_are_near(layers, tool, name, tmp_path):
    with open(FOLDER / "layers.csv", encoding="utf-8") as file:
        row = next(row for row in csv.DictReader(file) if row["name"] == name)
    module = layers.KINDS[row["kind"]](*row["arguments"].split())
    answer = json.loads(tool.ok(*layers.plan_arguments(module, str(tmp_path))))
    for target, case in zip(("mk1", "mk2"), answer["cases"]):
        ours = case["cycles"]["total"] - case["cycles"]["host"]
        published = int(row[f"{target}_cycles"])
        assert abs(ours / published - 1) <= CASES[name], (target, ours, published)


def test_halves_are_even(layers):
    """About half of the layers are held out, and always the same ones."""
    with open(FOLDER / "layers.csv", encoding="utf-8") as file:
        names = [row["name"] for row in csv.DictReader(file)]
    held_out = [layers.is_held_out(name) for name in names]
    assert len(names) >= 190 and 0.4 < sum(held_out) / len(names) < 0.6
    assert not layers.is_held_out("mobilenet_depthwise")
