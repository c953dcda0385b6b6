"""Each way of changing a built folder is found and named by ``--check``."""

import json
import re
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.progress import Progress

import builders
from builders import datasets
from builders.builder import Profile, build_datasets, code_digest
from builders.check import check
from builders.dataset import BuildError
from builders.files.manifest import NAME, file_sha256, read_manifest
from builders.publish.publication import make_publication
from builders.sources.fetch import Fetcher
from cards.dataset_card import dataset_card
from tests.support.helpers import manifest_text

PROBES = "gender-neutral-probes"
FILE = "data/templates/test.parquet"


def fetcher(folder):
    return Fetcher(folder / "cache", None, offline=True)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    out = tmp_path_factory.mktemp("built")
    build_datasets([PROBES], fetcher(out), out / "out", Profile.all, Progress(disable=True))
    return out / "out" / PROBES


@pytest.fixture
def folder(built, tmp_path):
    """A copy to change."""
    return shutil.copytree(built, tmp_path / "out" / PROBES)


def found(folder):
    """The differences, without the name of the data set; there are no remarks."""
    wrong, remarks = check([PROBES], fetcher(folder.parent), folder.parent, Progress(disable=True))
    assert remarks == []
    return [sentence.removeprefix(f"{PROBES}/") for sentence in wrong]


def written(folder, change):
    """Writes a changed table in place of one, and lets manifest and card describe it."""
    path = folder / FILE
    pq.write_table(change(pq.read_table(path)), path, compression="zstd")
    described(folder)


def described(folder, change=lambda manifest: None):
    manifest = json.loads((folder / NAME).read_text())
    for entry in manifest["configs"].values():
        for split in entry["splits"].values():
            path = folder / split["file"]
            split |= {"sha256": file_sha256(path), "bytes": path.stat().st_size}
    change(manifest)
    text = manifest_text(manifest)
    (folder / NAME).write_text(text)
    (folder / "README.md").write_text(dataset_card(text))


def flipped(path, place):
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


@pytest.mark.fault(61)
def test_a_folder_as_built_has_no_differences(folder):
    assert found(folder) == []


@pytest.mark.fault(61)
def test_a_flipped_byte_in_the_footer_is_not_another_encoder(folder):
    path = folder / FILE
    place = path.read_bytes().rindex(b"parquet-cpp-arrow version")
    flipped(path, place)
    assert found(folder) == [f"{FILE}: same rows, but other bytes than pyarrow {pa.__version__} writes."]
    described(folder)
    assert found(folder)[0].startswith(f"{FILE}: ")
    assert f"pyarrow {pa.__version__} " in found(folder)[0]
    described(folder, lambda manifest: manifest["configs"]["templates"].update(encoder="pyarrow 1.0.0"))
    assert re.fullmatch(
        rf"{NAME}: the encoder of {FILE} is 'pyarrow 1\.0\.0', and the file has 'pyarrow \S+'\.", found(folder)[0]
    )


@pytest.mark.fault(61)
def test_edited_column_statistics_are_named_even_with_the_manifest_of_another_encoder(folder):
    path = folder / FILE
    low = pq.read_metadata(path).row_group(0).column(0).statistics.min.encode()
    content = path.read_bytes()
    footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    edited = content[:footer] + content[footer:].replace(low, b"zz" + low[2:])
    path.write_bytes(edited.replace(b"arrow version 2", b"arrow version 1"))
    assert found(folder)[0].startswith(f"{FILE}: ")
    assert f"pyarrow {pa.__version__} " in found(folder)[0]
    encoder = pq.read_metadata(path).created_by.rpartition(" ")[2]
    described(folder, lambda manifest: manifest["configs"]["templates"].update(encoder=f"pyarrow {encoder}"))
    assert found(folder) == [f"{FILE}: config templates has other column statistics than its rows."]


@pytest.mark.fault(61)
def test_a_narrower_type_and_metadata_in_the_schema_are_named(folder):
    def narrower(table):
        place = table.schema.get_field_index("source_row")
        return table.cast(table.schema.set(place, pa.field("source_row", pa.int16(), nullable=False)))

    written(folder, narrower)
    assert f"{FILE}: config templates, column source_row is pyarrow.Field<source_row: int16 not null>, expected " \
           "pyarrow.Field<source_row: int64 not null>." in found(folder)  # fmt: skip


@pytest.mark.fault(61)
def test_metadata_added_to_the_schema_or_a_column_is_named(folder, built):
    written(folder, lambda table: table.replace_schema_metadata({"huggingface": "{}"}))
    assert f"{FILE}: config templates has metadata in its schema that a build does not write." in found(folder)
    shutil.copy(built / FILE, folder / FILE)

    def noted(table):
        return table.cast(table.schema.set(0, table.schema.field(0).with_metadata({"note": "x"})))

    written(folder, noted)
    assert any("column id is " in sentence for sentence in found(folder))


EDITS = {
    "redistribute": (
        lambda manifest: manifest["licences"]["Apache-2.0"].update(redistribute=False),
        "licences Apache-2.0 redistribute is False, expected True.",
    ),
    "citation": (
        lambda manifest: manifest["citations"].update({next(iter(manifest["citations"])): "@misc{other}"}),
        "is '@misc{other}', expected '@",
    ),
    "another licence": (
        lambda manifest: manifest["licences"].update(MIT={"name": "x", "url": "y", "redistribute": True}),
        "licences MIT name is 'x', expected None.",
    ),
    "sha256": (
        lambda manifest: manifest["configs"]["templates"]["splits"]["test"].update(sha256="0" * 64),
        f"configs templates splits test sha256 is '{'0' * 64}', expected '",
    ),
    "bytes": (
        lambda manifest: manifest["configs"]["templates"]["splits"]["test"].update(bytes=1),
        "configs templates splits test bytes is 1, expected ",
    ),
    "left out, not a config": (
        lambda manifest: manifest["left_out"].update(templates="stsb/benchmark is not available."),
        "left_out templates is 'stsb/benchmark is not available.', expected nothing.",
    ),
    "left out, another reason": (
        lambda manifest: manifest["left_out"].update(stsb="It contains errors."),
        "left_out stsb is 'It contains errors.', expected '",
    ),
}


@pytest.mark.fault(61)
@pytest.mark.parametrize("name", EDITS)
def test_an_edited_fact_of_the_manifest_is_named(folder, name):
    edit, told = EDITS[name]
    described(folder, edit)
    sentences = found(folder)
    assert any(sentence.startswith(f"{NAME}: ") and told in sentence for sentence in sentences), sentences


@pytest.mark.fault(61)
def test_a_manifest_in_other_bytes_is_named(folder):
    (folder / NAME).write_text((folder / NAME).read_text().replace("\n", "\n\n", 1))
    assert found(folder) == [f"{NAME}: the file is not the one that is written from the manifest."]


@pytest.mark.fault(61)
def test_a_path_in_the_manifest_that_leaves_the_folder_is_refused(folder):
    text = (folder / NAME).read_text().replace(FILE, "../../etc/test.parquet")
    (folder / NAME).write_text(manifest_text(json.loads(text)))
    with pytest.raises(BuildError, match=r"'\.\./\.\./etc/test\.parquet'"):
        found(folder)


@pytest.mark.fault(61)
def test_an_edited_or_deleted_card_is_named(folder):
    card = folder / "README.md"
    card.write_text(card.read_text().replace("gender", "Gender", 1))
    assert found(folder) == ["README.md: the file is not the one that is written from the manifest."]
    card.unlink()
    assert found(folder) == ["README.md: the file is missing."]


@pytest.mark.fault(61)
@pytest.mark.parametrize("place", ["notes.txt", "data/x/test.parquet", ".hidden/file", "load.py", "croissant.jsonl"])
def test_a_stray_file_is_named_wherever_it_lies(folder, place):
    (folder / place).parent.mkdir(exist_ok=True)
    (folder / place).write_text("x")
    (message,) = found(folder)
    assert message.startswith(f"{place}: ")


@pytest.mark.fault(61)
def test_a_link_in_the_place_of_a_file_is_named(folder, tmp_path):
    (folder / FILE).rename(tmp_path / "elsewhere.parquet")
    (folder / FILE).symlink_to(tmp_path / "elsewhere.parquet")
    (message,) = found(folder)
    assert message.startswith(f"{FILE}: ")


@pytest.mark.fault(61)
def test_a_published_folder_as_downloaded_has_no_differences_and_each_edit_is_named(folder, tmp_path):
    made = make_publication(folder, "org", "https://hub.example")
    files = {**made.files, "eval.yaml": made.benchmark}
    published = tmp_path / "download" / PROBES
    for name, content in files.items():
        (published / name).parent.mkdir(parents=True, exist_ok=True)
        (published / name).write_bytes(content if isinstance(content, bytes) else content.read_bytes())
    (published / ".gitattributes").write_text("*.parquet filter=lfs")
    assert found(published) == []
    for name, content in files.items():
        if isinstance(content, bytes):
            (published / name).write_bytes(content + b" ")
            assert len(found(published)) >= 1, name
            (published / name).write_bytes(content)
    (published / "eval.yaml").unlink()
    assert found(published) == [], "a push with --no-benchmark"


@pytest.mark.fault(61)
def test_rows_are_not_loaded_from_a_file_that_the_manifest_does_not_describe(folder):
    flipped(folder / FILE, 100)
    with pytest.raises(BuildError, match=r"test\.parquet.*manifest\.json"):
        builders.load(PROBES, "templates", out=folder.parent)


@pytest.mark.fault(61)
def test_a_folder_of_another_version_of_the_code_is_told_as_that_and_its_rows_are_compared(folder):
    def older(manifest):
        for entry in manifest["configs"].values():
            entry["recipe"] = "0" * 64

    described(folder, older)
    facts = json.loads((folder / NAME).read_text())
    facts["sha256"] = "0" * 64  # which earlier versions wrote
    (folder / NAME).write_text(manifest_text(facts))
    wrong, remarks = check([PROBES], fetcher(folder.parent), folder.parent, Progress(disable=True))
    assert wrong == []
    assert len(remarks) == len(facts["configs"])
    assert (
        "was built by another version of the code or of its libraries; its rows and facts are compared." in remarks[0]
    )
    written(folder, lambda table: table.slice(1))
    described(folder, older)
    wrong, _ = check([PROBES], fetcher(folder.parent), folder.parent, Progress(disable=True))
    assert any("lacks the row" in sentence for sentence in wrong)


@pytest.mark.fault(61)
def test_a_folder_that_was_built_before_an_optional_package_was_installed_has_no_differences(tmp_path, monkeypatch):
    arguments = ["unstereo"], fetcher(tmp_path), tmp_path / "out"
    with monkeypatch.context() as without:
        without.setattr("builders.builder.find_spec", lambda package: None)
        build_datasets(*arguments, Profile.all, Progress(disable=True))
    manifest = read_manifest(tmp_path / "out" / "unstereo")
    lacking = {name for name, reason in manifest.left_out.items() if "needs the package spacy" in reason}
    uses = {config.name for config in datasets.get("unstereo").configs if config.packages}
    assert lacking == uses != set()
    assert check(*arguments, Progress(disable=True)) == ([], [])


@pytest.mark.fault(61)
def test_the_version_of_a_library_counts_only_for_configs_that_use_it(monkeypatch):
    plain, _, *_ = datasets.get(PROBES).configs
    uses = next(config for config in datasets.get("unstereo").configs if config.packages)
    digests = []
    for number in ("1.0", "2.0"):
        monkeypatch.setattr("builders.builder.version", lambda _, number=number: number)
        digests.append((code_digest(PROBES, plain, {}), code_digest("unstereo", uses, {})))
    (one, other), (same, changed) = digests
    assert one == same
    assert other != changed
