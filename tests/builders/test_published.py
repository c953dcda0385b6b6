"""What a default push of data sets with sources publishes, read back from a Hub on this machine."""

import hashlib
import io
import json
import os
import subprocess
import sys

import pyarrow.parquet as pq
import pytest
from datasets import Dataset

import builders
from builders.dataset import BuildError
from builders.manifest import read_manifest
from builders.publish.restore import HASH, restored, text_digest
from builders.write import content_digest
from tests import commands
from tests.helpers import ROOT, mirror, missing
from tests.hub import Hub

pytestmark = pytest.mark.mirror
PROBES = "gender-neutral-probes"
NAMES = (PROBES, "gender-pmi", "unstereo")
#: The line of the card, in a process of its own.
RESTORE = """
import json, sys
from datasets import load_dataset
from builders import with_text
rows = with_text(load_dataset(sys.argv[1], sys.argv[2]), offline=True)
print(json.dumps({split: part.to_list() for split, part in rows.items()}))
"""
OLDEST = ROOT / ".venv-oldest" / "bin" / "python"


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    """Data sets of the mirror: one with text that may not be published, and two whose files have an open copy."""
    out = tmp_path_factory.mktemp("built")
    builders.build(*NAMES, out=out, mirror=mirror(), offline=True)
    return out


@pytest.fixture(scope="module")
def hub(out, tmp_path_factory):
    with Hub(cache=tmp_path_factory.mktemp("cache")) as hub:
        result = commands.run("builders.push", out, "--org", "org")
        assert result.returncode == 0, result.stderr
        yield hub


def published(hub, name, path):
    """A published table."""
    return pq.read_table(io.BytesIO(hub.repos["dataset", f"org/{name}"].at("main").tree[path].data))


@pytest.mark.parametrize("python", [sys.executable, OLDEST], ids=["newest", "oldest"])
def test_every_published_config_is_loaded_by_its_name(hub, out, python, tmp_path):
    if not os.access(python, os.X_OK):
        missing("needs the environment that make test prepares for the oldest supported release of datasets")
    command = [str(python), str(ROOT / "tests" / "builders" / "loaded.py"), *(f"org/{name}" for name in NAMES)]
    environment = os.environ | {"HF_HOME": str(tmp_path), "HF_DATASETS_CACHE": str(tmp_path / "datasets")}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    loaded = json.loads(done.stdout)["rows"]
    for name in NAMES:
        configs = read_manifest(out / name).configs
        assert loaded[f"org/{name}"].keys() == {f"{c}/{split}" for c in configs for split in configs[c].splits}
        for config_split, rows in loaded[f"org/{name}"].items():
            table = published(hub, name, f"data/{config_split}.parquet")
            assert content_digest(table) == _digest(rows)


def _digest(rows):
    digest = hashlib.sha256()
    for row in rows:
        digest.update(json.dumps(row, ensure_ascii=False, sort_keys=True).encode() + b"\n")
    return digest.hexdigest()


def test_text_that_may_not_be_published_is_nowhere_and_one_function_restores_it(hub, out):
    for config in ("stsb", "stsb-paper"):
        local = builders.load(PROBES, config, out=out)
        for split, rows in local.items():
            table = published(hub, PROBES, f"data/{config}/{split}.parquet")
            assert {"statement", "prompt"}.isdisjoint(table.column_names)
            assert table["prompt" + HASH].to_pylist() == [text_digest(prompt) for prompt in rows["prompt"]]
        done = subprocess.run(
            [sys.executable, "-c", RESTORE, f"org/{PROBES}", config],
            cwd=ROOT,
            capture_output=True,
            text=True,
            env=os.environ | {"PROBES_MIRROR": str(mirror())},
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout) == {split: rows.to_list() for split, rows in local.items()}
    everything = b"".join(file.data for file in hub.repos["dataset", f"org/{PROBES}"].at("main").tree.values())
    assert local["test"][0]["statement"].encode() not in everything


def test_restored_rows_have_the_digest_of_the_local_build(hub, out):
    facts = json.loads(hub.repos["dataset", f"org/{PROBES}"].at("main").tree["manifest.json"].data)
    entry = facts["configs"]["stsb"]["splits"]["test"]
    whole = restored(published(hub, PROBES, entry["file"]), PROBES, "stsb", mirror=mirror(), offline=True)
    assert content_digest(whole) == entry["built"] == read_manifest(out / PROBES).configs["stsb"].splits["test"].content


def test_a_text_with_another_hash_is_refused(hub):
    table = published(hub, PROBES, "data/stsb/test.parquet")
    rows = table.to_pylist()
    rows[0]["prompt" + HASH] = "0" * 64
    with pytest.raises(BuildError, match=f"do not have the text of row {rows[0]['id']} with the published hash"):
        restored(type(table).from_pylist(rows), PROBES, "stsb", mirror=mirror(), offline=True)


def test_rows_of_an_unknown_config_are_refused_and_whole_rows_stay_as_they_are(out):
    whole = builders.load(PROBES, "templates", out=out)
    assert builders.with_text(whole)["test"] is whole["test"]
    lacking = Dataset.from_dict({"id": ["a"], "prompt" + HASH: ["0"]})
    with pytest.raises(BuildError, match="do not say of which data set they are"):
        builders.with_text(lacking)
    with pytest.raises(BuildError, match="has no config none"):
        builders.with_text(lacking, PROBES, "none")


def test_rows_without_a_licence_are_published_as_those_of_the_same_files_with_one(hub, out):
    for name, config in (("unstereo", "ours-5-paper"), ("unstereo", "winobias"), ("gender-pmi", "words")):
        for split, entry in read_manifest(out / name).configs[config].splits.items():
            table, local = published(hub, name, entry.file), pq.read_table(out / name / entry.file)
            assert {*local["licence"].to_pylist()} == {"LicenseRef-None-Stated"}
            assert {*table["licence"].to_pylist()} == {"Apache-2.0"}
            assert {row.partition("/")[0] for row in table["source"].to_pylist()} == {"unstereo-development"}
            changed = ["source", "source_file", "licence"]
            assert table.drop_columns(changed) == local.drop_columns(changed), split
        licences = hub.repos["dataset", f"org/{name}"].at("main").tree["LICENSES.md"].data.decode()
        assert "None-Stated" not in licences
        assert "`unstereo-development`: no notice of a holder is known (licence stated at <https://raw" in licences


def test_the_card_leads_with_a_config_that_is_whole(hub):
    tree = hub.repos["dataset", f"org/{PROBES}"].at("main").tree
    card = tree["README.md"].data.decode()
    assert "- config_name: snli\n  default: true\n" in card
    assert f'rows = load_dataset("org/{PROBES}", "snli", split="test", revision="v' in card
    assert f'rows = with_text(load_dataset("org/{PROBES}", "stsb"))' in card
    assert "| stsb | statement, prompt |" in card
    assert card.index("## Intended use and limits") < card.index("## Configs")
    assert card.index("config_name: templates\n") < card.index("config_name: stsb-paper\n")
    assert "1,144 are from MSRvid" in card
    assert "debias-llms/stsb-test" in card


def test_a_config_without_its_text_is_no_task(hub):
    evaluation = hub.repos["dataset", f"org/{PROBES}"].at("main").tree["eval.yaml"].data.decode()
    assert 'id: "snli"' in evaluation
    assert "stsb" not in evaluation
