"""What a default push of data sets with sources publishes, read back from a Hub on this machine."""

import io
import json
import os
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datasets import Dataset
from huggingface_hub import snapshot_download
from rich.progress import Progress

import builders
from builders.check import check
from builders.dataset import BuildError
from builders.files.manifest import read_manifest
from builders.files.write import content_digest
from builders.publish.restore import HASH, restored, text_digest
from builders.sources.fetch import Fetcher
from tests.support import commands
from tests.support.helpers import ROOT, mirror
from tests.support.hub import Hub

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


def test_a_downloaded_folder_is_checked_with_its_hashes_and_its_open_licences(hub, tmp_path):
    names = [PROBES, "gender-pmi"]
    for name in names:
        snapshot_download(f"org/{name}", repo_type="dataset", local_dir=tmp_path / name, endpoint=hub.url, token=False)
    assert (tmp_path / PROBES / "eval.yaml").is_file()

    def found():
        return check(names, Fetcher(tmp_path / "cache", mirror(), offline=True), tmp_path, Progress(disable=True))

    assert found() == ([], [])
    path = tmp_path / PROBES / "data" / "stsb" / "test.parquet"
    table = pq.read_table(path)
    hashes = table["prompt" + HASH].to_pylist()
    changed = pa.array([*hashes[1:], hashes[0]])
    place = table.schema.get_field_index("prompt" + HASH)
    pq.write_table(table.set_column(place, table.schema.field(place), changed), path, compression="zstd")
    differences, _ = found()
    first = f"{PROBES}/data/stsb/test.parquet: config stsb, row {table['id'][0]}, column prompt_sha256 is '{hashes[1]}'"
    assert any(sentence.startswith(first) for sentence in differences), differences


def test_a_text_with_another_hash_is_refused(hub):
    table = published(hub, PROBES, "data/stsb/test.parquet")
    rows = table.to_pylist()
    rows[0]["prompt" + HASH] = "0" * 64
    with pytest.raises(BuildError, match=f"{rows[0]['id']}"):
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
