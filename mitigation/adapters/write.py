"""Writes the facts of an adapter's folder, and puts the folder in place."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING, Any

from builders.files.folders import recover_folder, replace_folder
from cards.common.files import put, refuse_strays
from cards.common.text import for_files, nested
from mitigation.errors import MitigationError
from scoring.adapters.attach import quiet
from scoring.adapters.facts import FACTS, SCHEMA, Adapter, Cost, Numbers, digests, written_files
from scoring.asking.answering import package_version

if TYPE_CHECKING:
    from scoring.inference.model import Model

#: The measure in the facts of a merged model.
MERGED = "largest logit difference of the merged model"


def describe(
    folder: Path,
    model: Model,
    recipe: str,
    settings: Any,
    *,
    data: Mapping[str, str],
    cost: Cost,
    measures: Mapping[str, Numbers | float] | None = None,
) -> Adapter:
    """The facts of a folder with the files of a recipe; there are no changes yet.

    Parameters
    ----------
    model:
        The base model.
    settings:
        The recipe's settings, a dataclass of plain values.
    data, cost, measures:
        As in :class:`scoring.adapters.facts.Adapter`; a measure without an interval may be a number.
    """
    numbers: dict[str, Numbers] = {}
    for name, value in (measures or {}).items():
        numbers[name] = value if isinstance(value, tuple) else (float(value), nan, nan)
    # Texts of the environment, such as tokens, are not written into files that are published.
    clean = for_files(os.environ)
    return Adapter(
        recipe=recipe,
        base=model.name,
        revision=model.revision,
        dtype=model.dtype,
        settings=nested(json.loads(json.dumps(asdict(settings))), clean),  # as they are read back
        data=nested(data, clean),
        cost=cost,
        files=digests(folder),
        measures=numbers,
        package=package_version(),
    )


def save_peft(network: Any, folder: Path, base: str) -> None:
    """Writes the configuration and the weights of PEFT into a folder; ``base`` is the name of the base model."""
    config = network.peft_config["default"]
    config.base_model_name_or_path = base
    if isinstance(config.target_modules, set):  # its order is another in every process
        config.target_modules = sorted(config.target_modules)
    with quiet():
        network.save_pretrained(folder, save_embedding_layers=False)  # for "auto", PEFT would ask the Hub
    (folder / "README.md").unlink(missing_ok=True)  # PEFT's empty model card


def save_whole(network: Any, tokenizer: Any, folder: Path, weights: Mapping[str, Any] | None = None) -> None:
    """Writes a whole model and its tokenizer into a folder, which then loads by its name; its own weights or others."""
    network.save_pretrained(folder, state_dict=weights)
    tokenizer.save_pretrained(folder)


def text(adapter: Adapter) -> str:
    """The text of ``mitigation.json``: NaN is null, and each change has a line of its own."""
    facts = json.loads(SCHEMA.dump_json(adapter))
    lines = ",".join(f"\n  {json.dumps(change, ensure_ascii=False)}" for change in facts.pop("changes"))
    head = json.dumps(facts, indent=1, ensure_ascii=False).removesuffix("\n}")
    return f'{head},\n "changes": [{lines}]\n}}\n'


def write_facts(folder: Path, adapter: Adapter) -> None:
    """Writes ``mitigation.json`` into a folder."""
    put(folder / FACTS, text(adapter).encode())


def check_target(out: Path) -> None:
    """Refuses an output folder with other content, because it would be replaced as a whole.

    Raises
    ------
    MitigationError
        If it has a file that is not as the facts of an adapter in it describe it.
    """
    recover_folder(out, written_files, MitigationError)
    refuse_strays(out, written_files(out), MitigationError)


def write(folder: Path, adapter: Adapter, out: Path) -> None:
    """Writes the facts into ``folder`` and moves it to ``out`` in one step, in place of an older adapter."""
    check_target(out)
    write_facts(folder, adapter)
    # Some writers make a file that only its owner may read; the facts have the rights that the user's umask gives.
    mode = (folder / FACTS).stat().st_mode
    for path in folder.iterdir():
        if path.stat().st_mode != mode:
            # Some file systems have no such rights.
            with suppress(OSError):
                path.chmod(mode)
    out.parent.mkdir(parents=True, exist_ok=True)
    replace_folder(folder, out)
