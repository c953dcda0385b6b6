"""Renders Croissant metadata of a data set, with the fields of responsible AI, from its manifest."""

import json
from pathlib import Path
from typing import Any

import mlcroissant

from cards.dataset_card import USES, citation_keys, licence_keys

NAME = "croissant.json"
CONFORMS = ["http://mlcommons.org/croissant/1.1", "http://mlcommons.org/croissant/RAI/1.0"]
_TYPES = {
    "bool": mlcroissant.DataType.BOOL,
    "int64": mlcroissant.DataType.INTEGER,
    "int32": mlcroissant.DataType.INTEGER,
    "double": mlcroissant.DataType.FLOAT,
    "float": mlcroissant.DataType.FLOAT,
    "string": mlcroissant.DataType.TEXT,
}


#: The fields of responsible AI that are the same for every data set.
_SAME: dict[str, Any] = json.loads((Path(__file__).parents[1] / "templates" / "responsible_ai.json").read_bytes())


def croissant(manifest: str, url: str) -> str:
    """The text of ``croissant.json``.

    Parameters
    ----------
    manifest:
        The text of ``manifest.json``.
    url:
        The page of the published data set; the addresses of files are made of it and the version's tag.
    """
    facts: dict[str, Any] = json.loads(manifest)
    configs: dict[str, Any] = facts["configs"]
    files, record_sets = [], []
    for name, config in configs.items():
        for split, entry in config["splits"].items():
            files.append(_file(name, split, entry, url, facts["version"]))
            record_sets.append(_records(name, split, config))
    citations = [facts["citations"][key].strip() for key in citation_keys(facts)]
    metadata = mlcroissant.Metadata(
        name=facts["name"],
        description=facts["summary"],
        version=facts["version"],
        url=url,
        conforms_to=CONFORMS,
        license=[facts["licences"][key]["url"] for key in licence_keys(facts)],
        cite_as="\n\n".join(citations),
        keywords=facts["tags"],
        in_language=facts["language"].split(),
        distribution=files,
        record_sets=record_sets,
        **_responsible_ai(facts),
    )
    return json.dumps(metadata.to_json(), indent=2, ensure_ascii=False, default=str) + "\n"


def _responsible_ai(facts: dict[str, Any]) -> dict[str, Any]:
    """The fields of responsible AI that apply, from the manifest; an empty one has no fact and is left out."""
    sources: dict[str, dict[str, Any]] = {}
    rows = dropped = 0
    for config in facts["configs"].values():
        for source in config["sources"]:
            sources[source["name"]] = source
        for split in config["splits"].values():
            rows += split["rows"]
            dropped += sum(split["dropped"].values())
    lacking, addresses = [], []
    for name, source in sorted(sources.items()):
        addresses += [file["url"] for file in source["files"]]
        if source["lacks"]:
            lacking.append(f"{name} lacks {source['lacks']}")
    # The words of the type are those of the vocabulary of Croissant RAI.
    collection = "Secondary data analysis"
    if not sources:
        collection = "Direct creation: sentences and facts written for this project"
    fields = _SAME | {
        "data_collection": "Every row is taken from the source that its columns name, or was written for this project; "
        "manifest.json has each source with its hash. " + " ".join(facts.get("written", [])),
        "data_collection_type": [collection],
        "data_collection_missing_data": "; ".join(lacking),
        "data_collection_raw_data": " ".join(addresses) or "There is none: all text is part of the project.",
        "data_preprocessing_protocol": list(facts["differences"]),
        "data_manipulation_protocol": f"{rows} rows are published and {dropped} records were left out; manifest.json "
        "counts the reasons.",
        "data_limitations": [facts["validity"]],
        "data_use_cases": list(USES),
        "data_release_maintenance_plan": f"Version {facts['version']} is a tag and does not change. Corrections are a "
        "new version with a new tag; `python -m builders.rebuild` builds every version from its pinned sources.",
    }
    return {name: value for name, value in fields.items() if value}


def _file(name: str, split: str, entry: dict[str, Any], url: str, version: str) -> Any:
    return mlcroissant.FileObject(
        id=f"{name}-{split}-file",
        name=f"{name}-{split}-file",
        content_url=f"{url}/resolve/v{version}/{entry['file']}",
        content_size=f"{entry['bytes']} B",
        encoding_formats=["application/x-parquet"],
        sha256=entry["sha256"],
    )


def _records(name: str, split: str, config: dict[str, Any]) -> Any:
    record_set = f"{name}-{split}"
    columns = []
    for column, column_type in config["columns"].items():
        # Such as list<item: string> or, as Parquet calls the values, list<element: string>.
        element_type = column_type.removeprefix("list<").removesuffix(">").rpartition(": ")[2]
        # Croissant writes a list of any length with the shape -1.
        shape: dict[str, Any] = {}
        if column_type.startswith("list<"):
            shape = {"is_array": True, "array_shape": "-1"}
        field = mlcroissant.Field(
            id=f"{record_set}/{column}",
            name=column,
            data_types=[_TYPES.get(element_type, mlcroissant.DataType.TEXT)],
            source=mlcroissant.Source(file_object=f"{record_set}-file", extract=mlcroissant.Extract(column=column)),
            **shape,
        )
        columns.append(field)
    return mlcroissant.RecordSet(id=record_set, name=record_set, description=config["summary"], fields=columns)
