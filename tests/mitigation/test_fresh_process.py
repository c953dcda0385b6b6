"""Every adapter in a fresh process with plain PEFT gives the same answers as with the loader of this project."""

import json
import subprocess
import sys
from dataclasses import replace

import pytest
import torch

from mitigation.adapters.temporary import attached
from mitigation.recipes import get
from mitigation.training.data import TrainingData
from scoring.inference.load_options import BUNDLED
from tests.mitigation.made import data, silent
from tests.mitigation.test_fast_rows import model as model_of
from tests.mitigation.test_fast_rows import rows_of
from tests.mitigation.test_projections import planted_corpus
from tests.scoring.made import data_set

pytestmark = pytest.mark.usefixtures("undrawn")
TRAINED = {"steps": 2, "batch_size": 4, "learning_rate": 1e-2, "rank": 2, "alpha": 2, "checkpoint_every": 2}
LANGUAGE = TRAINED | {"length": 32, "validate_every": 2, "lines": 60}
STREAM = {"lines": 300, "held": 10}
#: Settings by kind of model and recipe; those of the stamp are in test_stamp.py, because plain PEFT cannot load one.
PAIRS = {"sets": "stereoset", "steps": 0, "passes": 1, "prefixes": 0, "batch": 4, "rank": 2, "held_out": 0.2}
SOLVED = {"kept": 0, "rank": 2}
RECIPES = {
    "tiny-causal": {
        "inlp": {"classifiers": 1, "lines": 300},
        "sentence_debias": {"lines": 300},
        "tie": {"lines": 300},
        "leace": {"lines": 300},
        "cda": LANGUAGE,
        "dropout": LANGUAGE | {"hidden": 0.0, "attention": 0.1},
        "task_vector": LANGUAGE,
        "debias_tuning": TRAINED | {"corpora": "stsb", "validate_every": 2},
        "steering": STREAM | {"strengths": "0.01,0.1,1", "loss_limit": 0.0},
        "ablation": STREAM,
        "dpo": TRAINED | {"corpora": "stsb", "warmup": 0},
        "fine_tuning": PAIRS,
        "closed_form": SOLVED,
    },
    "tiny-masked": {
        "closed_form": SOLVED,
        "fine_tuning": PAIRS,
        "auto_debias": {
            "batch_size": 64,
            "learning_rate": 1e-2,
            "rank": 2,
            "alpha": 2,
            "measured": 8,
            "words": "auto-debias",
        },
        "mabel": {
            "pairs": 40,
            "batch_size": 8,
            "epochs": 1,
            "patience": 0,
            "learning_rate": 1e-2,
            "rank": 2,
            "alpha": 2,
            "words": "bias-bench",
        },
    },
}
PROGRAM = """
import json, sys
from pathlib import Path
import torch, transformers, peft
torch.set_num_threads(1)
folder, base, loader = sys.argv[1:]
differences = {}
for path in sorted(Path(folder).glob("*/adapter_config.json")):
    network = getattr(transformers, loader).from_pretrained(base, dtype=torch.float32)
    plain = network.eval()(input_ids=torch.arange(5, 25)[None]).logits
    expected = torch.load(path.with_name("logits.pt"), weights_only=True)
    logits = peft.PeftModel.from_pretrained(network, path.parent).eval()(input_ids=torch.arange(5, 25)[None]).logits
    differences[path.parent.name] = [float((logits - expected).abs().max()), float((logits - plain).abs().max())]
assert not {name.split(".")[0] for name in sys.modules} & {"mitigation", "scoring", "builders", "pmi", "cards"}
print(json.dumps(differences))
"""


@pytest.mark.mirror
@pytest.mark.parametrize("kind", RECIPES)
def test_plain_peft_loads_every_adapter_in_a_fresh_process(kind, tmp_path):
    model, source = model_of(kind), data(tmp_path / "data")
    pairs = [{key: row[key] for key in row.keys() - {"config", "split"}} for row in rows_of("stereoset")[:8]]
    data_set(source, "biaske", {("stereoset", "test"): pairs})
    (tmp_path / "prompts.txt").write_text("was in the\nhad a very\n")
    text = planted_corpus(tmp_path) | {"prompts": str(tmp_path / "prompts.txt")}
    for name, changed in RECIPES[kind].items():
        recipe, out = get(name), tmp_path / "made" / name
        out.mkdir(parents=True)
        fields = type(recipe.profiles["clean"]).__dataclass_fields__
        given = {field: value for field, value in text.items() if field in fields} | changed
        recipe.apply(model, replace(recipe.profiles["clean"], **given), TrainingData(str(source)), out, silent())
        with attached(model, out) as adapted, torch.inference_mode():
            torch.save(adapted.network(input_ids=torch.arange(5, 25)[None]).logits, out / "logits.pt")
    loader = "AutoModelForMaskedLM" if model.kind == "masked" else "AutoModelForCausalLM"
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "made"), str(BUNDLED[kind]), loader]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
    assert ended.returncode == 0, ended.stderr
    differences = json.loads(ended.stdout.splitlines()[-1])
    assert set(differences) == set(RECIPES[kind])
    assert {name: other for name, (other, _) in differences.items() if other > 1e-5} == {}
    assert {name: moved for name, (_, moved) in differences.items() if moved < 1e-4} == {}
