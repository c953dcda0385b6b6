"""The page of the two real models is made from the numbers that are kept, and a checkpoint in FP8 is right."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from tools.real_models import quantized, two


def test_the_page_is_made_from_the_kept_numbers():
    assert two.PAGE.read_text("utf-8") == two.page(json.loads(two.KEPT.read_text("utf-8")))


def test_a_model_without_numbers_has_empty_cells():
    line = {"benchmark": "made", "group": "all", "metric": "made", "title": "Score", "n": 9}
    line |= {"value": 1.0, "low": 0.5, "high": 1.5}
    line |= {"ideal": 0.0, "verdict": "above", "reason": ""}
    kept = {
        "machine": {"processor": "p", "torch": "2", "transformers": "5"},
        "models": {two.CHAT: {"runs": {"occugender": [line]}}, two.BASE: {"runs": {}}},
    }
    assert "| made all | all rows | Score | 0 | 1.0 [0.5, 1.5], n = 9, above |  |" in two.page(kept)


def folder_of_one_map(tmp_path):
    plain = tmp_path / "plain"
    plain.mkdir()
    torch.manual_seed(0)
    weight = torch.randn(16, 16, dtype=torch.bfloat16) * 0.02
    save_file({"layer.q_proj.weight": weight}, plain / "model.safetensors")
    (plain / "config.json").write_text("{}")
    return plain, weight


@pytest.mark.parametrize("name", ["FP8", "GPTQ"])
def test_a_form_stands_for_nearly_the_plain_weights(tmp_path, name):
    plain, weight = folder_of_one_map(tmp_path)
    quantized.write(plain, quantized.FORMS[name], 8, tmp_path / "made")
    meant = load_file(tmp_path / "made-plain" / "model.safetensors")["layer.q_proj.weight"]
    assert np.allclose(meant, weight.float(), atol=float(weight.float().abs().max()) / 14)
    assert json.loads((tmp_path / "made" / "config.json").read_text())["quantization_config"]


def test_weights_in_fp8_are_far_from_the_plain_ones_without_their_scales(tmp_path):
    plain, weight = folder_of_one_map(tmp_path)
    quantized.write(plain, quantized.FORMS["FP8"], 4, tmp_path / "fp8")
    quantized.drop_scales(tmp_path / "fp8")
    dropped = load_file(tmp_path / "fp8" / "model.safetensors")["layer.q_proj.weight"].float()
    assert float((dropped - weight.float()).abs().max()) > 1
    assert "quantization_config" not in json.loads((tmp_path / "fp8" / "config.json").read_text())


def test_four_bits_of_gptq_are_unpacked_to_the_levels():
    torch.manual_seed(0)
    weight = torch.randn(8, 16)
    parts, meant = quantized.gptq(weight, 8)
    shifts = torch.arange(0, 32, 4)[None, :, None]
    levels = ((parts["qweight"][:, None, :] >> shifts) & 15).reshape(16, 8) - 8
    scales = parts["scales"].float()[parts["g_idx"].long()]
    assert torch.equal((levels * scales).T, meant)


def test_a_question_is_answered_only_where_all_intervals_are_on_one_side():
    finding = two.Finding("?", [("a", "b", "c")], [], "above", 0)
    for bounds, answer in (((0.1, 0.9), "**yes**"), ((-0.9, -0.1), "**no**"), ((-0.1, 0.1), "**open**")):
        low, high = bounds
        assert two._answer(finding, [{"low": low, "high": high}]) == answer
    inside = {"low": -0.1, "high": 0.1}
    assert two._answer(finding, [{"low": 0.1, "high": 0.9}, inside]) == "**open**"
    unclear = {"low": 0.1, "high": 0.9, "ideal": 0.0, "verdict": "unclear"}
    assert two._answer(finding, [{"low": 0.1, "high": 0.9}, unclear]) == "**open**"
