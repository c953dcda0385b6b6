"""Publishing adapters to a Hub on this machine, and loading them by name with the real clients."""

import json
import shutil
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from huggingface_hub import ModelCard
from peft import PeftModel
from rich.console import Console
from transformers import AutoModelForCausalLM

from cards.adapter_card import RecipeFacts, adapter_card
from cards.common.text import CardError
from mitigation import recipes
from mitigation.adapters.write import describe, write, write_facts
from mitigation.errors import MitigationError
from mitigation.publish import publication
from mitigation.training.data import TrainingData
from scoring.adapters.attach import wrap
from scoring.adapters.facts import CONFIG, FACTS, PROMPT, AdapterError, Change, Cost, digests, read
from scoring.adapters.stamp import StampConfig
from scoring.inference.load_options import BUNDLED
from tests.mitigation.made import bundled, data, quick, silent, tuned
from tests.support import commands
from tests.support.helpers import ROOT
from tests.support.hub import CUT, GUEST, Hub
from tests.support.hub import read as files_of

BASE = "org/small"
pytestmark = pytest.mark.usefixtures("undrawn")
#: Loads adapters by their names, in a process that has never seen them: LoRA with peft alone, then a stamp.
LOAD = """
import sys, torch
from peft import PeftModel
from transformers import AutoModelForCausalLM
torch.set_num_threads(1)
base, to, folder, lora, stamp = sys.argv[1:]
def logits(name):
    network = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(base), name).eval()
    with torch.no_grad():
        return network(torch.tensor([[1, 5, 9, 12]])).logits
found = {"folder": logits(folder), "lora": logits(lora)}
assert not [name for name in sys.modules if name.startswith(("mitigation", "scoring"))]
import mitigation
torch.save(found | {"stamp": logits(stamp)}, to)
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """An adapter of the bundled model with numbers before and after."""
    folder = tmp_path_factory.mktemp("made")
    adapter = tuned(bundled(), quick(), data(folder / "data"), folder / "adapter")
    change = Change("neutral", "stsb", "gas", (0.5, 0.4, 0.6), (0.1, 0.05, 0.15), (-0.4, -0.5, -0.3), 40)
    spare = shutil.copytree(folder / "adapter", folder / "spare")
    write(
        spare,
        replace(adapter, changes=(change,), measures={"loss": (0.5, float("nan"), float("nan"))}),
        folder / "adapter",
    )
    return folder / "adapter"


@pytest.fixture
def own(made, tmp_path):
    return shutil.copytree(made, tmp_path / "own")


def publish(folder, *options, repo="org/less"):
    return commands.run("mitigation.publish", folder, "--repo", repo, *options)


@contextmanager
def hub_with_base(folder):
    """A Hub that has the base model under its name there."""
    with Hub(cache=folder / "cache") as hub:
        hub.add("model", BASE, files_of(Path(BUNDLED["tiny-causal"])))
        yield hub


WHOLE = ("--licence", "apache-2.0", "--base", BASE)


@pytest.fixture(scope="module")
def visit(made, tmp_path_factory):
    """A Hub with an adapter and a stamp, the results of publishing them, and their logits in another process."""
    root = tmp_path_factory.mktemp("visit")
    made_stamp = stamp(root)
    with hub_with_base(root) as hub:
        results = {
            "lora": publish(made, *WHOLE, repo="org/less"),
            "stamp": publish(made_stamp, *WHOLE, repo="org/stamp"),
        }
        names = [BUNDLED["tiny-causal"], root / "logits.pt", made, "org/less", "org/stamp"]
        command = [sys.executable, "-c", LOAD, *map(str, names)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        logits = torch.load(root / "logits.pt", weights_only=True)
        yield SimpleNamespace(hub=hub, results=results, logits=logits, folders={"lora": made, "stamp": made_stamp})


def expected(folder):
    network = AutoModelForCausalLM.from_pretrained(BUNDLED["tiny-causal"])
    network = PeftModel.from_pretrained(network, folder).eval()
    with torch.no_grad():
        return network(torch.tensor([[1, 5, 9, 12]])).logits


def stamp(folder):
    """A folder with a stamp of the bundled model that changes what it says."""
    model = bundled()
    wrapped = wrap(model.network, StampConfig(layer=1, units=4, task_type="CAUSAL_LM"))
    torch.manual_seed(0)
    for name, weight in wrapped.named_parameters():
        if "fast_values" in name:
            torch.nn.init.normal_(weight, std=0.1)
    (folder / "work").mkdir()
    wrapped.save_pretrained(folder / "work")
    (folder / "work" / "README.md").unlink()
    model.network = wrapped.unload()
    settings = recipes.get("fast").profiles["clean"]
    facts = describe(folder / "work", model, "fast", settings, data={}, cost=Cost(1, 1.0, 1, "cpu"))
    write(folder / "work", facts, folder / "stamp")
    return folder / "stamp"


def test_a_published_adapter_has_a_commit_of_its_own(visit):
    result = visit.results["lora"]
    assert result.returncode == 0, result.stderr
    assert f"Published: {visit.hub.url}/org/less" in result.stdout
    repo = visit.hub.repos["model", "org/less"]
    assert [commit.title for commit in repo.history("main")] == ["Publish the adapter", "initial commit"]
    assert set(repo.at("main").tree) >= {"README.md", FACTS, *read(visit.folders["lora"]).files}


@pytest.mark.filterwarnings("ignore:.*gradient_checkpointing:FutureWarning")
def test_an_adapter_is_loaded_by_its_folder_and_by_its_name_with_peft_alone(visit):
    logits = expected(visit.folders["lora"])
    assert torch.equal(visit.logits["folder"], logits)
    assert torch.equal(visit.logits["lora"], logits)


@pytest.mark.filterwarnings("ignore:.*gradient_checkpointing:FutureWarning")
def test_a_published_stamp_is_loaded_by_its_name_once_mitigation_is_imported(visit):
    assert visit.results["stamp"].returncode == 0, visit.results["stamp"].stderr
    card = visit.hub.repos["model", "org/stamp"].at("main").tree["README.md"].data.decode()
    assert "import mitigation  # pip install" in card
    assert torch.equal(visit.logits["stamp"], expected(visit.folders["stamp"]))
    assert not torch.equal(visit.logits["stamp"], visit.logits["lora"])


def test_a_prompt_is_published_with_its_words(tmp_path):
    (tmp_path / "work").mkdir()
    recipe = recipes.get("prompts")
    facts = recipe.apply(
        bundled(), recipe.profiles["clean"], TrainingData(), tmp_path / "work", Console(file=silent().file)
    )
    write(tmp_path / "work", facts, tmp_path / "prompt")
    files = publication(tmp_path / "prompt", "org/words", "mit", BASE)
    assert set(files) == {"README.md", FACTS, PROMPT}
    card = ModelCard(files["README.md"].decode())
    assert "prompt" in card.data.tags
    assert card.data.get("library_name") is None
    assert json.loads(card.text.split("```json\n")[1].split("```")[0]) == json.loads(files[PROMPT])
    assert "It was made without training data." in card.text


def test_the_card_has_base_recipe_data_numbers_cost_and_limits(own):
    card = ModelCard(publication(own, "org/less", "apache-2.0", BASE)["README.md"].decode())
    assert (card.data.base_model, card.data.library_name, card.data.license) == (BASE, "peft", "apache-2.0")
    assert card.data.base_model_relation == "adapter"
    assert {"gender-bias", "lora", "debias_tuning"} <= set(card.data.tags)
    facts = read(own)
    gas = "neutral, stsb: Gender attribute score (GAS)"
    for fact in (
        rf"| {gas} | 0.50 \[0.40, 0.60\] | 0.10 \[0.05, 0.15\] | -0.40 \[-0.50, -0.30\] | 40 |",
        rf"To remove: 0.50, because {gas} was 0.50 \[0.40, 0.60\], and its ideal is 0. This is beyond noise.",
        "| loss | 0.5 |",
        f"{facts.cost.parameters:,} parameters trained",
        f"| steps | {facts.settings['steps']} |",
        "gender-neutral-probes/stsb/train",
        "## Limits",
        "@article{dong2024disclosure",
        "{cer2017semeval",
        'PeftModel.from_pretrained(model, "org/less")',
    ):
        assert fact in card.text, fact
    assert "import mitigation" not in card.text


def test_the_main_table_of_the_card_has_one_metric_of_each_benchmark_and_no_undefined_score(own):
    facts = json.loads((own / "mitigation.json").read_text())
    (first, *_) = facts["changes"]
    undefined = first | {"group": "none", "difference": [None, None, None]}
    more = [first | {"group": f"group {number}"} for number in range(5)]
    changes = [undefined, first, first | {"metric": "gld"}, *more]
    recipe = RecipeFacts("made", "Made.", "nowhere", {"a": "@misc{a}"})
    titles = {("neutral", "gas"): "Gender attribute score (GAS)"}
    content = facts | {"changes": changes}
    card = adapter_card(content, "org/x", "mit", recipe, [], config=None, prompt=None, titles=titles)
    main, details = card.split("<details>")
    rows = [line.split(" | ")[0] for line in main.splitlines() if line.startswith("| neutral, ")]
    assert rows == [f"| neutral, {group}: Gender attribute score (GAS)" for group in ("stsb", "group 0", "group 1")]
    assert "All 8 differences" in details
    # Without a title a metric has its name of the files.
    assert "| neutral, stsb: gld" in details


def test_the_base_has_its_name_on_the_hub_in_every_file(own):
    files = publication(own, "org/less", "mit", BASE)
    assert json.loads(files[CONFIG])["base_model_name_or_path"] == BASE
    assert json.loads(files[FACTS])["base"] == BASE
    assert not [name for name, content in files.items() if b"tiny-causal" in content]


def test_the_published_files_are_a_complete_adapter(own, tmp_path):
    for name, content in publication(own, "org/less", "mit", BASE).items():
        (tmp_path / name).write_bytes(content)
    assert read(tmp_path).changes == read(own).changes


def test_files_that_are_not_part_of_the_adapter_are_not_published(own):
    (own / "notes.txt").write_text("mine")
    assert "notes.txt" not in publication(own, "org/less", "mit", BASE)


def test_a_base_without_a_name_on_the_hub_must_be_given_one(own):
    with pytest.raises(MitigationError, match=r"tiny-causal, .*Hub"):
        publication(own, "org/less", "mit")
    with pytest.raises(MitigationError, match="--base"):
        publication(own, "org/less", "mit", "../x")


@pytest.mark.fault(58)
def test_a_missing_licence_is_refused(own):
    with pytest.raises(CardError, match=r"org/less.*--licence"):
        publication(own, "org/less", "", BASE)


def facts_with(folder, **changed):
    """The folder with other facts."""
    facts = json.loads((folder / FACTS).read_text()) | changed
    (folder / FACTS).write_text(json.dumps(facts))
    return folder


@pytest.mark.fault(58)
def test_a_missing_citation_is_refused(own, monkeypatch):
    uncited = replace(recipes.get("debias_tuning"), cite=())
    monkeypatch.setattr(recipes, "get", lambda _: uncited)
    with pytest.raises(CardError, match=r"org/less.*debias_tuning"):
        publication(own, "org/less", "mit", BASE)


@pytest.mark.fault(58)
def test_data_that_is_not_known_is_refused_by_name(own):
    facts_with(own, data={"gender-neutral-probes/none/train": "1.0.0"})
    with pytest.raises(CardError, match="gender-neutral-probes/none/train"):
        publication(own, "org/less", "mit", BASE)


def test_text_of_the_users_own_has_the_licence_and_the_citation_that_are_given(own, tmp_path):
    facts_with(own, data={"corpus:a.txt": "0" * 64, "words:b.json": "1" * 64})
    refused = publish(own, *WHOLE, "--dry-run")
    assert refused.returncode == 1
    assert "give them with --corpus-licence and --corpus-citation" in refused.stderr
    (tmp_path / "a.bib").write_text("@misc{mine, title={Mine}}\n")
    given = ("--corpus-licence", "CC-BY-4.0", "--corpus-citation", tmp_path / "a.bib")
    done = publish(own, *WHOLE, *given, "--dry-run")
    assert done.returncode == 0, done.stderr
    assert f"| a.txt | {'0' * 64} | CC-BY-4.0 |" in done.stdout
    assert done.stdout.count("@misc{mine, title={Mine}}") == 1
    missing = publish(own, *WHOLE, *given[:3], tmp_path / "none.bib")
    assert missing.returncode == 1
    assert f"{tmp_path / 'none.bib'} cannot be used (No such file or directory)" in missing.stderr


def test_the_card_says_which_of_peft_merge_and_vllm_works(made, tmp_path):
    def ways(**config):
        recipe = RecipeFacts("made", "Made.", "nowhere", {"a": "@misc{a}"})
        facts = json.loads((made / FACTS).read_text())
        card = adapter_card(facts, "org/x", "mit", recipe, [], config={"r": 4} | config, prompt=None)
        return [line.split("|")[2].strip() for line in card.split("| way |")[1].split("\n\n")[0].splitlines()[2:]]

    lora = {"peft_type": "LORA", "task_type": "CAUSAL_LM"}
    assert ways(**lora) == ["yes, as above", "yes, `--enable-lora --max-lora-rank 4` or more", "yes"]
    with_bias, stamp = ways(**lora, lora_bias=True), ways(peft_type="FAST, …", kind="causal")
    assert with_bias[1] == stamp[1] == "no; serve the merged model"
    assert with_bias[2].startswith("where the maps have biases or a LayerNorm is before the head")
    assert stamp[2].startswith("where the width of feed-forward parts can be set")
    assert ways(peft_type="LORA", task_type=None, kind="masked")[1] == "no; serve the merged model"


def test_every_recipe_has_a_citation():
    assert all(recipe.cite or recipe.citations for recipe in map(recipes.get, recipes.names()))


@pytest.mark.fault(49)
@pytest.mark.fault(51)
def test_damaged_files_and_secrets_are_not_published(own, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "planted-secret")
    facts_with(own, package="planted-secret")
    with pytest.raises(CardError, match=r"README\.md"):
        publication(own, "org/less", "mit", BASE)
    (own / "adapter_model.safetensors").write_bytes(b"\0" * 9)
    with pytest.raises(AdapterError, match=r"adapter_model\.safetensors.*mitigation\.json"):
        publication(own, "org/less", "mit", BASE)
    facts_with(own, files=digests(own))
    with pytest.raises(AdapterError, match="safetensors file"):
        publication(own, "org/less", "mit", BASE)


def test_a_dry_run_shows_files_and_card_and_sends_nothing(own, tmp_path):
    with hub_with_base(tmp_path) as hub:
        result = publish(own, *WHOLE, "--dry-run")
        assert result.returncode == 0, result.stderr
        assert "adapter_model.safetensors" in result.stdout
        assert "## Before and after" in result.stdout
        assert f"{BASE}." in result.stdout
        assert "(--dry-run)" in result.stdout
        assert not hub.requests


@pytest.mark.fault(49)
def test_a_refused_upload_is_reported_without_the_token(own, tmp_path, monkeypatch):
    with hub_with_base(tmp_path) as hub:
        monkeypatch.setenv("HF_TOKEN", GUEST)
        result = publish(own, *WHOLE)
        assert result.returncode == 2
        assert "(403: You don't have the required permissions to perform this operation)" in result.stderr
        assert GUEST not in result.stdout + result.stderr
        assert set(hub.repos) == {("model", BASE)}


@pytest.mark.parametrize(
    ("sending", "fault"),
    [("PUT /lfs/.*", 500), *(("POST .*/commit/main", fault) for fault in (400, 401, 409, 413, 429, 500, CUT))],
)
def test_a_refusal_while_it_is_written_is_one_sentence_and_the_next_try_completes(own, tmp_path, sending, fault):
    with hub_with_base(tmp_path) as hub:
        hub.faults[sending] = fault
        refused = publish(own, *WHOLE)
        assert refused.returncode == 2
        reason = "Error)" if fault == CUT else f"({fault}: Internal error)"
        sentence = refused.stderr.splitlines()[-1]
        assert sentence.startswith("error: ")
        assert reason in sentence
        assert "Traceback" not in refused.stderr
        assert set(hub.repos["model", "org/less"].at("main").tree) == set()
        hub.faults.clear()
        assert publish(own, *WHOLE).returncode == 0
        assert "adapter_model.safetensors" in hub.repos["model", "org/less"].at("main").tree


@pytest.mark.fault(15)
def test_an_impossible_repository_name_is_refused(own):
    result = publish(own, *WHOLE, repo="../x")
    assert result.returncode == 1
    assert "'../x' is not a repository of the Hub; give ORG/NAME with --repo." in result.stderr


def test_a_base_that_is_another_model_is_refused_before_anything_is_sent(own, tmp_path):
    with hub_with_base(tmp_path) as hub:
        hub.add("model", "org/other", files_of(Path(BUNDLED["tiny-masked"])))
        result = publish(own, "--licence", "apache-2.0", "--base", "org/other")
        assert result.returncode == 1
        assert "error: --base is org/other, whose configuration or weights are not those of" in result.stderr
        assert ("model", "org/less") not in hub.repos


def test_another_base_than_the_hubs_model_of_the_adapter_is_refused(own):
    write_facts(own, replace(read(own), base=BASE, revision="0" * 40))
    with pytest.raises(MitigationError, match="leave --base out"):
        publication(own, "org/less", "apache-2.0", base="org/other")
