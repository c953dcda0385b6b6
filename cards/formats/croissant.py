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
    files = [(name, split, entry) for name, config in configs.items() for split, entry in config["splits"].items()]
    metadata = mlcroissant.Metadata(
        name=facts["name"],
        description=facts["summary"],
        version=facts["version"],
        url=url,
        conforms_to=CONFORMS,
        license=[facts["licences"][key]["url"] for key in licence_keys(facts)],
        cite_as="\n\n".join(facts["citations"][key].strip() for key in citation_keys(facts)),
        keywords=facts["tags"],
        in_language=facts["language"].split(),
        distribution=[_file(name, split, entry, url, facts["version"]) for name, split, entry in files],
        record_sets=[_records(name, split, configs[name]) for name, split, _ in files],
        **{name: value for name, value in _responsible_ai(facts).items() if value},
    )
    return json.dumps(metadata.to_json(), indent=2, ensure_ascii=False, default=str) + "\n"


def _responsible_ai(facts: dict[str, Any]) -> dict[str, Any]:
    """The fields of responsible AI that apply, from the manifest; an empty one has no fact."""
    sources = {source["name"]: source for config in facts["configs"].values() for source in config["sources"]}
    splits = [split for config in facts["configs"].values() for split in config["splits"].values()]
    dropped = sum(sum(split["dropped"].values()) for split in splits)
    rows = sum(split["rows"] for split in splits)
    return _SAME | {
        "data_collection": "Every row is taken from the source that its columns name, or was written for this project; "
        "manifest.json has each source with its hash. " + " ".join(facts.get("written", [])),
        # The words of the type are those of the vocabulary of Croissant RAI.
        "data_collection_type": ["Secondary data analysis"] * bool(sources)
        + ["Direct creation: sentences and facts written for this project"] * (len(sources) == 0),
        "data_collection_missing_data": "; ".join(
            f"{name} lacks {source['lacks']}" for name, source in sorted(sources.items()) if source["lacks"]
        ),
        "data_collection_raw_data": " ".join(
            file["url"] for _, source in sorted(sources.items()) for file in source["files"]
        )
        or "There is none: all text is part of the project.",
        "data_preprocessing_protocol": list(facts["differences"]),
        "data_manipulation_protocol": f"{rows} rows are published and {dropped} records were left out; manifest.json "
        "counts the reasons.",
        "data_limitations": [facts["validity"]],
        "data_use_cases": list(USES),
        "data_release_maintenance_plan": f"Version {facts['version']} is a tag and does not change. Corrections are a "
        "new version with a new tag; `python -m builders.rebuild` builds every version from its pinned sources.",
    }


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
    record_set, columns = f"{name}-{split}", []
    for column, column_type in config["columns"].items():
        # Such as list<item: string> or, as Parquet calls the values, list<element: string>.
        element_type = column_type.removeprefix("list<").removesuffix(">").rpartition(": ")[2]
        field = mlcroissant.Field(
            id=f"{record_set}/{column}",
            name=column,
            data_types=[_TYPES.get(element_type, mlcroissant.DataType.TEXT)],
            **({"is_array": True, "array_shape": "-1"} if column_type.startswith("list<") else {}),
            source=mlcroissant.Source(file_object=f"{record_set}-file", extract=mlcroissant.Extract(column=column)),
        )
        columns.append(field)
    return mlcroissant.RecordSet(id=record_set, name=record_set, description=config["summary"], fields=columns)
