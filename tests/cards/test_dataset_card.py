import json

import pytest
import yaml

from cards.common.text import CardError
from cards.dataset_card import dataset_card


def facts(**changes):
    split = {"file": "data/stsb/test.parquet", "rows": 364, "sha256": "0" * 64, "content": "1" * 64, "bytes": 9}
    source = {"name": "stsb/test", "licence": "CC-BY-SA-4.0", "citation": "cer", "alternative": 1, "lacks": "two rows"}
    config = {
        "name": "stsb",
        "summary": "Statements.",
        "profile": "clean",
        "licence": "MIT",
        "encoder": "pyarrow",
        "recipe": "2" * 64,
        "columns": {"id": "string"},
        "sources": [source | {"files": [{"url": "https://example.org/a.csv", "sha256": "3" * 64}]}],
        "embedded": {},
        "cite": ["dong"],
        "splits": {"test": split | {"dropped": {"row is blank": 2}}},
    }
    licence = {"name": "A licence", "url": "https://example.org/licence", "redistribute": True}
    return {
        "name": "probes",
        "version": "1.2.3",
        "title": 'Probes: "neutral"',
        "summary": "What it is.",
        "language": "en",
        "tags": ["fairness"],
        "validity": "What it means.",
        "differences": ["One."],
        "configs": {"stsb": config},
        "left_out": {"snli": "snli/test is not available."},
        "licences": {"MIT": licence, "CC-BY-SA-4.0": licence | {"redistribute": False}},
        "citations": {"dong": "@article{dong}", "cer": "@inproceedings{cer}"},
    } | changes


def card(**changes):
    return dataset_card(json.dumps(facts(**changes)))


def header(text):
    return yaml.safe_load(text.split("---\n")[1])


def test_the_header_gives_explicit_configs_with_one_file_a_split():
    assert header(card()) == {
        "language": ["en"],
        "license": ["cc-by-sa-4.0", "mit"],
        "pretty_name": 'Probes: "neutral"',
        "task_categories": None,
        "size_categories": ["n<1K"],
        "tags": ["fairness"],
        "multilinguality": ["monolingual"],
        "source_datasets": ["extended"],
        "configs": [
            {
                "config_name": "stsb",
                "default": True,
                "data_files": [{"split": "test", "path": "data/stsb/test.parquet"}],
            },
        ],
    }


def test_the_body_states_the_facts_of_the_manifest():
    text = card()
    for fact in (
        '"org/probes", "stsb", split="test", revision="v1.2.3"',
        "| stsb | Statements. | test 364; MIT |",
        "| stsb | test | 2 | row is blank |",
        "- `snli`: snli/test is not available.",
        "- stsb/test (CC-BY-SA-4.0), used by stsb: [a.csv](<https://example.org/a.csv>). It lacks two rows.",
        "rows under it may not be published by others",
        "@article{dong}",
        "@inproceedings{cer}",
        "python -m builders.rebuild probes --out DIR --check",
    ):
        assert fact in text


def without(change):
    made = facts()
    change(made["configs"]["stsb"])
    return dataset_card(json.dumps(made))


@pytest.mark.fault(58)
def test_a_licence_or_citation_that_is_not_described_is_refused_by_the_name_of_what_needs_it():
    with pytest.raises(CardError, match="'MIT'"):
        card(licences={"CC-BY-SA-4.0": {}})
    with pytest.raises(CardError, match=r"stsb/test.*'CC-BY-SA-4\.0'"):
        card(licences={"MIT": {}})
    with pytest.raises(CardError, match=r"stsb/test.*'cer'"):
        card(citations={"dong": "@article{dong}"})
    with pytest.raises(CardError, match="'dong'"):
        card(citations={"dong": "", "cer": "@inproceedings{cer}"})


@pytest.mark.fault(58)
@pytest.mark.parametrize("none", ["", None])
def test_what_has_no_licence_or_citation_is_refused_by_its_name(none):
    with pytest.raises(CardError, match=r"probes: config stsb .*licence"):
        without(lambda config: config.update(licence=none))
    with pytest.raises(CardError, match="stsb/test"):
        without(lambda config: config["sources"][0].update(licence=none))
    with pytest.raises(CardError, match="stsb/test"):
        without(lambda config: config["sources"][0].update(citation=none))
    with pytest.raises(CardError, match=r"probes: config stsb .*licence"):
        without(lambda config: config.pop("licence"))


@pytest.mark.fault(50)
def test_hostile_text_stays_in_its_cell_and_in_the_header():
    hostile = "a|b`c\n<script>"
    made = facts(title='x"\n- injected: true')
    made["configs"]["stsb"]["summary"] = hostile
    text = dataset_card(json.dumps(made))
    assert r"| stsb | a\|b\`c \<script\> | test 364; MIT |" in text
    assert header(text)["pretty_name"] == 'x"\n- injected: true'


def test_a_visitor_finds_papers_code_the_command_versions_and_a_contact():
    paper = "@article{dong,\n  title = {{A} paper},\n  journal = {arXiv preprint arXiv:2402.11190}\n}"
    made = facts(citations=facts()["citations"] | {"dong": paper}, benchmarks=["neutral"], changes={"1.2.3": "Words."})
    url = "https://raw.githubusercontent.com/org/code/abc/a.csv"
    made["configs"]["stsb"]["sources"][0]["files"][0]["url"] = url
    text = dataset_card(json.dumps(made), organisation="lab")
    papers = "Papers and code: [A paper](https://arxiv.org/abs/2402.11190), [org/code](https://github.com/org/code)."
    assert papers in text
    assert "probes score MODEL --benchmarks neutral --data hub:lab\n" in text
    assert "- 1.2.3: Words." in text
    assert "https://huggingface.co/datasets/lab/probes/discussions" in text


def test_a_licence_that_the_hub_does_not_know_has_a_name_and_a_link():
    licences = facts()["licences"]
    made = facts(licences=licences | {"LicenseRef-None-Stated": licences["MIT"]})
    made["configs"]["stsb"]["licence"] = "LicenseRef-None-Stated"
    head = header(dataset_card(json.dumps(made)))
    assert head["license"] == ["cc-by-sa-4.0", "other"]
    assert (head["license_name"], head["license_link"]) == ("none-stated", "LICENSES.md")


def test_the_default_config_has_prompts_where_one_has():
    made = facts()
    made["configs"] = {"jobs": made["configs"]["stsb"], "explicit": made["configs"]["stsb"]}
    made["benchmark"] = {"framework": "f", "configs": ["explicit"]}
    assert 'load_dataset("org/probes", "explicit"' in dataset_card(json.dumps(made))


def test_a_data_set_without_dropped_records_has_no_empty_table():
    configs = facts()["configs"]
    assert "What was dropped" in card()
    for config in configs.values():
        for entry in config["splits"].values():
            entry["dropped"] = {}
    assert "What was dropped" not in card(configs=configs)


def test_columns_are_shown_with_what_they_mean():
    # Markdown shows a backslash inside code, so a name with an underscore is no code.
    assert "\n| bls\\_title | Its title. |\n" in card(meanings={"bls_title": "Its title."})
    assert "| column | meaning |" not in card(meanings={})


def test_configs_with_the_same_columns_share_a_line_without_the_columns_of_every_row():
    (one,) = facts()["configs"].values()
    one["columns"] = {"id": "string", "source_row": "int64", "prompt": "string", "line_no": "int64"}
    other = one | {"columns": {"id": "string"}}
    text = card(configs={"a": one, "b": one, "c": other})
    assert "| config | other columns |\n| --- | --- |\n| a, b | prompt: string, line\\_no: int64 |\n| c |  |\n" in text
