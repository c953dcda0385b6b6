"""Publishing, through the Hub's real client, to a Hub on this machine; and reading back with the real libraries."""

import json
import os
import shutil
import subprocess
import sys

import mlcroissant
import pyarrow.parquet as pq
import pytest
import yaml

from builders.dataset import BuildError
from builders.files.manifest import read_manifest
from builders.publish.publication import make_publication, verified_manifest
from cards import hub as cards_hub
from cards.dataset_card import default_config, eval_yaml, tasks
from tests.support import commands
from tests.support.helpers import ROOT, manifest_text
from tests.support.hub import CUT, GUEST, Hub

NAME = "occugender"
LOAD = """
import sys
from datasets import load_dataset
rows = load_dataset(sys.argv[1], sys.argv[2], split="test", revision=sys.argv[3])
rows.to_json(sys.argv[4], force_ascii=False)
"""
#: The fields of responsible AI that no data set of the project has facts for, with the reason. The reference checker
#: counts 20 fields; :func:`croissant` fills the others.
NOT_APPLICABLE = {
    "data_collection_timeframe": "the sources do not say when their sentences were collected",
    "data_imputation_protocol": "no value is imputed; an unknown value is null",
    "data_annotation_protocol": "this project has no annotations of its own",
    "data_annotation_platform": "this project has no annotations of its own",
    "data_annotation_analysis": "this project has no annotations of its own",
    "annotations_per_item": "this project has no annotations of its own",
    "annotator_demographics": "this project has no annotations of its own",
    "machine_annotation_tools": "no column is annotated by a program; PMI values are counts",
}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Data sets made of what the project carries."""
    out = tmp_path_factory.mktemp("built")
    assert commands.run("builders.rebuild", NAME, "--offline", "--out", out).returncode == 0
    return out


@pytest.fixture
def out(built, tmp_path):
    shutil.copytree(built, tmp_path / "out")
    return tmp_path / "out"


#: The fields of responsible AI that the reference checker knows.
RAI = {
    name
    for name in vars(mlcroissant.Metadata)["__dataclass_fields__"]
    if name.startswith(("data_", "annotat", "machine_annotation", "personal_"))
}


def push(out, *options):
    return commands.run("builders.push", out, "--org", "org", *options)


def edit(out, change):
    """Changes the manifest of the data set."""
    path = out / NAME / "manifest.json"
    facts = json.loads(path.read_text())
    change(facts)
    path.write_text(manifest_text(facts))


def files(hub, revision="main"):
    return hub.repos["dataset", f"org/{NAME}"].at(revision).tree


def test_a_published_data_set_is_loaded_by_name_config_and_version(out, tmp_path):
    version = read_manifest(out / NAME).version
    with Hub(cache=tmp_path / "cache") as hub:
        result = push(out)
        assert result.returncode == 0, result.stderr
        assert f"Published: {hub.url}/datasets/org/{NAME}" in result.stdout
        made = tmp_path / "rows.jsonl"
        loaded = [sys.executable, "-c", LOAD, f"org/{NAME}", "explicit", f"v{version}", str(made)]
        subprocess.run(loaded, check=True, capture_output=True, env=os.environ)
    rows = [json.loads(line) for line in made.read_text().splitlines()]
    assert rows == pq.read_table(out / NAME / "data" / "explicit" / "test.parquet").to_pylist()


def test_the_data_are_one_commit_with_the_version_as_its_tag_and_the_benchmark_another(out, tmp_path):
    with Hub(cache=tmp_path / "cache") as hub:
        push(out)
        repo = hub.repos["dataset", f"org/{NAME}"]
        tag = f"v{read_manifest(out / NAME).version}"
        titles = [commit.title for commit in repo.history("main")]
        assert titles == ["Describe the benchmark", f"Version {tag[1:]}", "initial commit"]
        assert repo.tags[tag] == list(repo.history("main"))[1].oid
        assert "eval.yaml" not in files(hub, tag)
        names = set(files(hub)) - {".gitattributes"}
    splits = [split.file for item in read_manifest(out / NAME).configs.values() for split in item.splits.values()]
    documents = {"README.md", "manifest.json", "croissant.json", "eval.yaml", "LICENSES.md", "LICENSES/Apache-2.0.txt"}
    assert names == documents | {"images/scores.svg"} | set(splits)


def test_the_card_has_the_scores_of_published_models_with_a_picture(out):
    made = make_publication(out / NAME, "org", "https://huggingface.co").files
    card = made["README.md"].decode()
    assert "![Correlation with the labour market of 8 models, with 95 % intervals](images/scores.svg)" in card
    assert "| gpt2 | 0.4 [0.1, 0.7] | 40 |" in card
    picture = made["images/scores.svg"].decode()
    assert ">gpt2</text>" in picture
    assert picture.count("<circle") == 8


def test_a_dry_run_shows_every_change_and_sends_nothing(out, tmp_path):
    with Hub(cache=tmp_path / "cache") as hub:
        result = push(out, "--dry-run")
        assert result.returncode == 0, result.stderr
        assert "add    README.md" in result.stdout
        assert "(--dry-run)" in result.stdout
        assert not hub.repos
        assert {request.method for request in hub.requests} <= {"GET", "HEAD"}


def test_publishing_the_same_again_does_nothing(out, tmp_path):
    with Hub(cache=tmp_path / "cache") as hub:
        push(out)
        before = len(list(hub.repos["dataset", f"org/{NAME}"].history("main")))
        result = push(out)
        assert result.returncode == 0, result.stderr
        assert "exists already, with the same content." in result.stdout
        assert len(list(hub.repos["dataset", f"org/{NAME}"].history("main"))) == before


@pytest.mark.fault(13)
def test_a_version_with_other_content_is_refused_and_left_alone(out, tmp_path):
    with Hub(cache=tmp_path / "cache") as hub:
        push(out)
        before = hub.repos["dataset", f"org/{NAME}"].branches["main"]
        edit(out, lambda facts: facts.update(summary="Something else."))
        result = push(out)
        assert result.returncode == 1
        assert f"org/{NAME} has the tag v" in result.stderr
        assert "with other content (change README.md and more); give the data set a new version." in result.stderr
        assert hub.repos["dataset", f"org/{NAME}"].branches["main"] == before


def test_a_new_version_changes_only_what_is_new_and_takes_out_what_is_gone(out, tmp_path):
    def newer(facts):
        facts["version"] = "9.0.0"
        del facts["configs"]["jobs-paper"]

    with Hub(cache=tmp_path / "cache") as hub:
        push(out)
        edit(out, newer)
        shutil.rmtree(out / NAME / "data" / "jobs-paper")
        result = push(out)
        assert result.returncode == 0, result.stderr
        assert "remove data/jobs-paper/test.parquet" in result.stdout
        assert "data/explicit/test.parquet" not in result.stdout
        assert set(hub.repos["dataset", f"org/{NAME}"].tags) >= {"v9.0.0"}
        assert not [name for name in files(hub, "v9.0.0") if "jobs-paper" in name]


@pytest.mark.parametrize("token", ["", "hf_wrong"])
@pytest.mark.fault(49)
def test_without_a_token_that_may_write_nothing_is_published_and_none_is_shown(out, tmp_path, token, monkeypatch):
    with Hub(cache=tmp_path / "cache") as hub:
        monkeypatch.setenv("HF_TOKEN", token)
        result = push(out)
        assert result.returncode == 2
        assert "(401: Invalid username or password)" in result.stderr
        assert "hf_wrong" not in result.stdout + result.stderr
        assert not hub.repos


@pytest.mark.parametrize(
    ("place", "fault", "said"),
    [
        ("commit/main", 500, "(500: Internal error)"),
        ("commit/main", 429, "(429: Internal error)"),
        ("commit/main", 413, "(413: Internal error); it takes less at once;"),
        ("commit/main", 409, "(409: Internal error)"),
        ("commit/main", CUT, "Error)"),
        ("preupload", 403, "(403: Internal error)"),
        ("info/lfs/objects/batch", 500, "(500: Internal error)"),
        ("tag/", 500, "(500: Internal error)"),
        ("tag/", CUT, "Error)"),
    ],
)
def test_an_upload_that_breaks_leaves_no_version_and_can_be_done_again(out, tmp_path, place, fault, said):
    with Hub(cache=tmp_path / "cache") as hub:
        hub.faults[f"POST .*/{place}"] = fault
        result = push(out)
        assert result.returncode == 2
        assert said in result.stderr
        assert "Traceback" not in result.stderr
        assert not hub.repos["dataset", f"org/{NAME}"].tags
        hub.faults.clear()
        assert push(out).returncode == 0
        assert hub.repos["dataset", f"org/{NAME}"].tags


def large(out):
    """A file of the data set that is sent as a large one, and the request that sends it."""
    split = read_manifest(out / NAME).configs["explicit"].splits["test"]
    return split.file, f"PUT /lfs/{split.sha256}"


@pytest.mark.parametrize("status", [500, CUT])
def test_a_large_file_that_breaks_off_is_sent_again(out, tmp_path, status):
    path, sending = large(out)
    with Hub(cache=tmp_path / "cache") as hub:
        hub.faults[sending] = [status]
        result = push(out)
        assert result.returncode == 0, result.stderr
        assert [f"{item.method} {item.path}" for item in hub.requests].count(sending) == 2
        (tag,) = hub.repos["dataset", f"org/{NAME}"].tags
        assert files(hub, tag)[path].data == (out / NAME / path).read_bytes()


def test_a_large_file_that_cannot_be_sent_leaves_no_commit_and_no_version_and_the_next_push_sends_what_lacks(
    out, tmp_path
):
    path, sending = large(out)
    with Hub(cache=tmp_path / "cache") as hub:
        hub.faults[sending] = 500
        result = push(out)
        assert result.returncode == 2
        assert "(500: Internal error)" in result.stderr
        assert "Traceback" not in result.stderr
        repo = hub.repos["dataset", f"org/{NAME}"]
        assert not repo.tags
        assert not repo.at("main").tree, "nothing but the repository's own first commit"
        hub.faults.clear()
        hub.requests.clear()
        again = push(out)
        assert again.returncode == 0, again.stderr
        assert sending in [f"{item.method} {item.path}" for item in hub.requests]
        (tag,) = repo.tags
        assert files(hub, tag)[path].data == (out / NAME / path).read_bytes()


def test_a_slow_hub_is_waited_for(out, tmp_path):
    with Hub(cache=tmp_path / "cache") as hub:
        hub.delay = 0.4
        result = push(out)
        assert result.returncode == 0, result.stderr
        assert hub.repos["dataset", f"org/{NAME}"].tags


def test_who_may_not_write_to_the_organisation_is_told_so(out, tmp_path, monkeypatch):
    with Hub(cache=tmp_path / "cache") as hub:
        monkeypatch.setenv("HF_TOKEN", GUEST)
        result = push(out)
        assert result.returncode == 2
        assert "(403: You don't have the required permissions" in result.stderr
        assert GUEST not in result.stdout + result.stderr
        assert not hub.repos


def test_of_two_who_publish_at_once_none_spoils_the_version(out, tmp_path):
    command = [sys.executable, "-m", "builders.push", str(out), "--org", "org"]
    with Hub(cache=tmp_path / "cache"):
        both = [subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) for _ in range(2)]
        results = [(process.communicate()[1], process.returncode) for process in both]
        assert all("Traceback" not in error for error, _ in results)
        assert 0 in [status for _, status in results]
        again = push(out)
        assert again.returncode == 0, again.stderr
        assert "exists already, with the same content." in again.stdout


def test_a_hub_that_is_not_there_is_one_sentence(out, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    result = push(out)
    assert result.returncode == 2
    assert "(ConnectError)" in result.stderr


def test_a_dry_run_needs_no_hub(out, monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    result = push(out, "--dry-run")
    assert result.returncode == 0, result.stderr
    assert "  published  explicit: 280 rows, Apache-2.0" in result.stdout
    assert "(ConnectError)" in result.stdout
    assert "(--dry-run)" in result.stdout


def test_a_hub_that_does_not_answer_is_given_up(out, tmp_path, monkeypatch):
    monkeypatch.setattr(cards_hub, "PATIENCE", 0.3)
    with Hub(cache=tmp_path / "cache") as hub:
        hub.delay = 30
        result = push(out)
    assert result.returncode == 2
    assert "The Hub did not answer within 0 seconds; check the network and run the command again." in result.stderr


# The benchmark of the Hub


@pytest.mark.parametrize("fault", [400, 403, 413, 429, 500, CUT])
def test_an_eval_yaml_that_the_hub_refuses_leaves_the_data_published_and_is_sent_by_the_next_push(out, tmp_path, fault):
    with Hub(cache=tmp_path / "cache") as hub:
        hub.faults["POST .*/commit/main"] = [None, *[fault] * 9]
        result = push(out)
        assert result.returncode == 2
        reason = "Error)" if fault == CUT else f"({fault}: Internal error)"
        version = read_manifest(out / NAME).version
        assert f"error: org/{NAME} v{version} is published, but not its eval.yaml: " in result.stderr
        assert reason in result.stderr
        assert "Traceback" not in result.stderr
        assert "eval.yaml" not in files(hub)
        assert "data/explicit/test.parquet" in files(hub, f"v{version}")
        hub.faults.clear()
        again = push(out)
        assert again.returncode == 0, again.stderr
        assert "exists already, with the same content." in again.stdout
        assert "eval.yaml" in files(hub)


def test_a_framework_that_the_hub_does_not_know_is_told_in_its_own_words(out, tmp_path):
    edit(out, lambda facts: facts["benchmark"].update(framework="ours"))
    with Hub(cache=tmp_path / "cache") as hub:
        result = push(out)
        assert result.returncode == 2
        assert "(400: Invalid eval.yaml: evaluation_framework ours is not a supported framework)" in result.stderr
        assert "--no-benchmark leaves it out." in result.stderr
        again = push(out, "--no-benchmark")
        assert again.returncode == 0, again.stderr
        assert "eval.yaml" not in files(hub)


def test_without_a_benchmark_there_is_no_eval_yaml(out, tmp_path):
    with Hub(cache=tmp_path / "cache") as hub:
        result = push(out, "--no-benchmark")
        assert result.returncode == 0, result.stderr
        assert "eval.yaml" not in files(hub)


def test_an_organisation_must_be_named(out):
    result = commands.run("builders.push", out)
    assert result.returncode == 2
    assert "name one organisation or user of the Hub" in " ".join(result.stderr.replace("│", " ").split())


# What may be published


def closed(facts):
    facts["configs"]["implicit"]["licence"] = "LicenseRef-None-Stated"
    facts["licences"]["LicenseRef-None-Stated"] = {
        "name": "No licence stated",
        "url": "https://x.y",
        "redistribute": False,
    }


def test_what_may_not_be_redistributed_is_left_out_and_named(out):
    edit(out, closed)
    made = make_publication(out / NAME, "org", "https://huggingface.co")
    assert "withheld   implicit: No licence stated (its rows)" in made.states
    assert not [name for name in made.files if "data/implicit/" in name]
    shown = json.loads(made.files["manifest.json"])
    assert shown["left_out"]["implicit"] == "not redistributed: No licence stated (its rows)"
    assert "`implicit`: not redistributed" in made.files["README.md"].decode()
    assert "implicit" not in [task["id"] for task in yaml.safe_load(made.benchmark)["tasks"]]


def test_who_has_the_right_to_may_publish_it(out):
    edit(out, closed)
    made = make_publication(out / NAME, "org", "https://huggingface.co", restricted=True)
    assert not [state for state in made.states if state.startswith("withheld")]
    assert "data/implicit/test.parquet" in made.files


def test_a_source_that_only_filters_does_not_bind_a_config(out):
    def filtered(facts):
        source = {"name": "words/all", "licence": "LicenseRef-None-Stated", "citation": "chen2024occugender"}
        facts["configs"]["implicit"]["sources"].append(source | {"alternative": 0, "lacks": "", "files": []})
        facts["configs"]["implicit"]["filters"] = ["words/all"]

    edit(out, filtered)
    made = make_publication(out / NAME, "org", "https://huggingface.co")
    assert "data/implicit/test.parquet" in made.files
    assert "implicit (only to leave rows out)" in made.files["README.md"].decode().replace("\\", "")
    assert "words/all" not in made.files["LICENSES.md"].decode()


def test_a_data_set_of_closed_configs_alone_is_not_published(out, tmp_path):
    def all_closed(facts):
        closed(facts)
        for config in facts["configs"].values():
            config["licence"] = "LicenseRef-None-Stated"

    edit(out, all_closed)
    assert not make_publication(out / NAME, "org", "https://huggingface.co").files
    with Hub(cache=tmp_path / "cache") as hub:
        result = push(out)
        assert result.returncode == 0, result.stderr
        assert f"org/{NAME}: nothing of it may be published." in result.stdout
        assert not hub.repos


def test_a_licence_that_is_not_described_is_refused(out):
    edit(out, lambda facts: facts["configs"]["explicit"].update(licence="WTFPL"))
    with pytest.raises(BuildError, match="'WTFPL'"):
        make_publication(out / NAME, "org", "https://huggingface.co")


def no_licence(facts):
    facts["configs"]["explicit"]["licence"] = ""


def no_licence_of_a_source(facts):
    source = {"name": "words/all", "licence": "", "citation": "made", "alternative": 0, "lacks": "", "files": []}
    facts["configs"]["explicit"]["sources"].append(source)


def no_citation(facts):
    facts["citations"].popitem()


@pytest.mark.fault(58)
@pytest.mark.parametrize(
    ("change", "options", "said"),
    [
        (no_licence, (), "explicit (its rows) has no licence; nothing is published without one."),
        (no_licence, ("--restricted",), "config explicit has no licence; nothing is published without one."),
        (no_licence_of_a_source, (), "explicit (words/all) has no licence; nothing is published without one."),
        (
            no_licence_of_a_source,
            ("--restricted",),
            "source words/all has no licence; nothing is published without one.",
        ),
        (no_citation, (), "for which there is no citation."),
    ],
)
def test_a_data_set_without_a_licence_or_a_citation_is_refused_in_one_sentence(out, tmp_path, change, options, said):
    edit(out, change)
    with Hub(cache=tmp_path / "cache") as hub:
        result = push(out, *options)
        assert result.returncode == 1
        assert result.stderr.startswith(f"error: {NAME}: ")
        assert result.stderr.endswith(f"{said}\n")
        assert result.stderr.count("\n") == 1
        assert not hub.repos


def test_a_changed_missing_or_stray_file_is_refused(out):
    folder = out / NAME
    (folder / "data" / "explicit" / "extra.txt").write_text("x")
    with pytest.raises(BuildError, match=r"explicit/extra\.txt"):
        verified_manifest(folder)
    (folder / "data" / "explicit" / "extra.txt").unlink()
    path = folder / "data" / "explicit" / "test.parquet"
    path.write_bytes(path.read_bytes() + b"x")
    with pytest.raises(BuildError, match=r"test\.parquet.*manifest\.json"):
        verified_manifest(folder)
    path.unlink()
    with pytest.raises(BuildError, match=r"test\.parquet.*manifest\.json"):
        verified_manifest(folder)
    (folder / "manifest.json").unlink()
    with pytest.raises(BuildError, match=r"manifest\.json.*builders\.rebuild"):
        verified_manifest(folder)


def test_without_the_package_for_croissant_it_says_what_to_install(out, monkeypatch):
    monkeypatch.delitem(sys.modules, "cards.formats.croissant", raising=False)
    monkeypatch.setitem(sys.modules, "mlcroissant", None)
    with pytest.raises(BuildError, match="package mlcroissant"):
        make_publication(out / NAME, "org", "https://huggingface.co")


# Documents


def test_the_card_says_how_to_load_the_published_data_and_shows_a_row(out):
    card = make_publication(out / NAME, "org-of-ours", "https://huggingface.co").files["README.md"].decode()
    assert f'load_dataset("org-of-ours/{NAME}"' in card
    first = default_config(json.loads((out / NAME / "manifest.json").read_text()))
    shown = json.loads(card.split("```json\n")[1].split("```")[0])
    assert shown == pq.read_table(out / NAME / "data" / first / "test.parquet").slice(0, 1).to_pylist()[0]


def test_eval_yaml_has_the_documented_fields_and_a_task_for_each_config_with_a_test(out):
    text = (out / NAME / "manifest.json").read_text()
    benchmark = yaml.safe_load(eval_yaml(text))
    assert set(benchmark) == {"name", "description", "evaluation_framework", "tasks"}
    assert benchmark["tasks"] == tasks(text)
    assert {tuple(task) for task in benchmark["tasks"]} == {("id", "config", "split")}
    assert {"id": "explicit", "config": "explicit", "split": "test"} in benchmark["tasks"]


def test_a_data_set_that_asks_no_model_is_no_benchmark(out):
    facts = json.loads((out / NAME / "manifest.json").read_text())
    assert eval_yaml(json.dumps(facts | {"benchmark": {}})) is None
    for config in facts["configs"].values():
        config["splits"] = {"train": next(iter(config["splits"].values()))}
    assert eval_yaml(json.dumps(facts)) is None


def test_only_what_models_can_be_asked_is_a_task(out):
    text = (out / NAME / "manifest.json").read_text()
    assert [task["id"] for task in tasks(text)] == ["explicit", "implicit"]


@pytest.mark.filterwarnings("ignore:ConjunctiveGraph:DeprecationWarning")
def test_croissant_is_valid_and_its_fields_are_the_columns(out, tmp_path):
    path = tmp_path / "croissant.json"
    path.write_bytes(make_publication(out / NAME, "org", "https://huggingface.co").files["croissant.json"])
    loaded = mlcroissant.Dataset(path)
    assert not loaded.metadata.ctx.issues.errors
    manifest = read_manifest(out / NAME)
    for name, config in manifest.configs.items():
        (records,) = [records for records in loaded.metadata.record_sets if records.name == f"{name}-test"]
        assert [field.name for field in records.fields] == list(config.columns)
    assert loaded.metadata.data_limitations == [manifest.validity]
    assert loaded.metadata.data_use_cases
    filled = {name for name in RAI if getattr(loaded.metadata, name)}
    assert len(RAI) == 20
    assert filled | NOT_APPLICABLE.keys() | {"data_collection_missing_data"} == RAI
    assert not filled & NOT_APPLICABLE.keys()
    (file,) = [file for file in loaded.metadata.distribution if file.name == "explicit-test-file"]
    assert (
        file.content_url
        == f"https://huggingface.co/datasets/org/{NAME}/resolve/v{manifest.version}/data/explicit/test.parquet"
    )


def test_licences_name_what_is_under_them(out):
    text = make_publication(out / NAME, "org", "https://huggingface.co").files["LICENSES.md"].decode()
    known = "[Apache License 2.0](https://www.apache.org/licenses/LICENSE-2.0), [whole text](LICENSES/Apache-2.0.txt)"
    assert f"- Apache-2.0: {known}; configs" in text


def test_without_the_text_of_a_licence_nothing_is_published(out, tmp_path):
    edit(out, lambda facts: facts["configs"]["explicit"].update(licence="0BSD"))
    edit(
        out, lambda facts: facts["licences"].update({"0BSD": {"name": "0", "url": "https://x.y", "redistribute": True}})
    )
    with Hub(cache=tmp_path / "cache") as hub:
        result = push(out)
        assert result.returncode == 1
        assert f"error: {NAME} is published under 0BSD, whose text is missing" in result.stderr
        assert not hub.repos


@pytest.mark.fault(7)
def test_a_push_killed_at_any_request_publishes_no_half_version_and_the_next_one_ends_it(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "tests.builders.killed_push", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    states = json.loads(done.stdout)
    assert set(states) == {"nothing", "no version", "published"}
    assert len(states) > 20
