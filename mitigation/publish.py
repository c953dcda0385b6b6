"""Publishes an adapter or a prompt on the Hub: ``probes publish DIR --repo ORG/NAME``.

The repository has the checked files of the folder, and a card.
"""

import json
import re
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from builders import datasets
from builders.dataset import BuildError
from builders.parsers import read
from builders.sources.catalogue import catalogue
from builders.text.embedded import PROJECT
from cards import adapter_card, hub
from cards.common import options, terminal, text
from mitigation import recipes
from mitigation.__main__ import Include
from mitigation.adapters import write
from mitigation.recipe import Console, MitigationError, ScoringError
from mitigation.texts.corpora import OWN
from scoring.adapters import attach, facts
from scoring.inference.load_options import BUNDLED

CARD = "README.md"
#: A commit of the Hub, and the SHA-256 of a model in a folder: the two forms of a base model's revision.
_COMMIT, _DIGEST = re.compile(r"[0-9a-f]{40}"), re.compile(r"[0-9a-f]{64}")
#: The name of a model on the Hub; a few old ones have no organisation.
_NAME = re.compile(r"(?:[A-Za-z0-9][\w.-]{0,95}/)?[A-Za-z0-9][\w.-]{0,95}")


def publication(
    folder: Path, repository: str, licence: str, base: str = "", corpus_licence: str = "", corpus_citation: str = ""
) -> dict[str, bytes]:
    """File name to content: the files that ``mitigation.json`` describes, that file, and the card.

    The base model has its name on the Hub in all of them.

    Parameters
    ----------
    base:
        The name of the base model on the Hub, if it was loaded under another name.
    corpus_licence, corpus_citation:
        The licence and a BibTeX entry of text and lists of the user's own that the recipe learnt from.

    Raises
    ------
    AdapterError, MitigationError
        If the folder is not a complete adapter, or its base model has no name on the Hub.
    text.CardError
        If a licence or a citation is missing, or a file holds an access token.
    """
    from mitigation.methods.comparison import first_bias, titles_of_metrics
    from mitigation.running.outcome import outcome

    adapter = facts.read(folder)
    name = base or adapter.base
    if name != adapter.base and _COMMIT.fullmatch(adapter.revision):
        raise MitigationError(
            f"--base is {base}, and the adapter {folder} was made from {adapter.base} of the Hub; leave --base out."
        )
    # A path or a bundled model could not be loaded by a reader of the card.
    if not _NAME.fullmatch(name) or Path(name).exists() or name in BUNDLED:
        raise MitigationError(
            f"The adapter {folder} was made from {name}, which is not a name on the Hub; give the name of its base "
            "model there with --base."
        )
    if facts.CONFIG in adapter.files:
        attach.peft_config(folder)
        attach.tensor_shapes(folder / facts.WEIGHTS)
    elif facts.is_whole_model(folder):
        # A damaged file is refused before it is sent.
        for weights in folder.glob("*.safetensors"):
            attach.tensor_shapes(weights)
    elif facts.PROMPT not in adapter.files:
        raise MitigationError(
            f"{folder} describes neither {facts.CONFIG} nor {facts.PROMPT} nor a model; run its recipe again."
        )
    # A copy, because the base model's name changes in it: the digests of the user's folder stay right.
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch)
        for file in adapter.files:
            shutil.copyfile(folder / file, copy / file)
        config = prompt = model = None
        if facts.CONFIG in adapter.files:
            config = facts.json_of(copy / facts.CONFIG) | {"base_model_name_or_path": name}
            (copy / facts.CONFIG).write_text(json.dumps(config, indent=2, sort_keys=True), encoding="utf-8")
        renamed = replace(adapter, base=name, files=facts.digests(copy))
        write.write_facts(copy, renamed)
        if facts.PROMPT in adapter.files:
            prompt = facts.json_of(copy / facts.PROMPT)
        if facts.is_whole_model(copy):
            model = facts.json_of(copy / facts.MODEL)
        recipe, known_citations = recipes.get(adapter.recipe), catalogue().citations
        citations = {key: known_citations[key] for key in recipe.cite}
        citations |= recipe.citations
        judged = outcome(renamed.changes)
        card = adapter_card.adapter_card(
            facts.json_of(copy / facts.FACTS),
            repository,
            licence,
            adapter_card.RecipeFacts(recipe.name, recipe.summary, recipe.source, citations),
            training_data(adapter.data, corpus_licence, corpus_citation),
            config=config,
            prompt=prompt,
            model=model,
            merged=write.MERGED in adapter.measures,
            to_remove=first_bias(renamed),
            outcome=judged.lines if judged else (),
            titles=titles_of_metrics(),
        )
        (copy / CARD).write_text(card, encoding="utf-8")
        files = {path.name: path.read_bytes() for path in sorted(copy.iterdir())}
    # Weights and pictures are not text, and chance gives them strings that look like tokens.
    texts = {}
    for name, content in files.items():
        if not name.endswith((".safetensors", ".png")):
            texts[name] = content
    text.refuse_secrets(texts)
    return files


def check_base(folder: Path, base: str, api: Any) -> None:
    """Refuses a name of the base model on the Hub if the model there is not the one that the recipe changed.

    Raises
    ------
    MitigationError
        If configuration, tokenizer or weights differ, by their SHA-256.
    """
    adapter = facts.read(folder)
    # A revision that is a commit of the Hub is compared when the adapter is loaded.
    if _DIGEST.fullmatch(adapter.revision) and hub.model_digest(hub.HubModel(base, api)) != adapter.revision:
        raise MitigationError(
            f"--base is {base}, whose configuration or weights are not those of {adapter.base}, from which the adapter "
            f"{folder} was made; give the name of that model on the Hub."
        )


def check_repository(name: str) -> str:
    """The name of a repository of the Hub.

    Raises
    ------
    MitigationError
        If it is not ORG/NAME.
    """
    if not (_NAME.fullmatch(name) and "/" in name):
        raise MitigationError(f"{name!r:.60} is not a repository of the Hub; give ORG/NAME with --repo.")
    return name


def training_data(
    versions: Mapping[str, str], corpus_licence: str = "", corpus_citation: str = ""
) -> list[adapter_card.DataFacts]:
    """Version, licence and citations of the data that a recipe read, by the names DATASET/CONFIG/SPLIT.

    Text and lists of the user's own have the licence and the citation that are given.

    Raises
    ------
    text.CardError
        For data that is no config of its data set, and for the user's own without a licence or a citation.
    """
    listed = catalogue()
    described = []
    for name, version in versions.items():
        # A name with a colon is no built data set: KIND:NAME.
        kind, colon, rest = name.partition(":")
        if f"{kind}:" == OWN:  # the default of recipes that learn from text
            what = f"{rest}, written for this project: the default text and list of words, small and for trials"
            licence, citations = "Apache-2.0", {PROJECT: listed.citations[PROJECT]}
        elif colon and kind != "source":
            if not corpus_licence or not corpus_citation.lstrip().startswith("@"):
                raise text.CardError(
                    f"The adapter learnt from {rest} ({kind}), and this project knows neither its licence nor a "
                    "citation; give them with --corpus-licence and --corpus-citation (a file with a BibTeX entry)."
                )
            what, licence, citations = rest, corpus_licence, {"corpus": corpus_citation}
        elif colon:
            source = listed.sources[rest]
            what, licence, citations = rest, source.licence, {source.citation: listed.citations[source.citation]}
        else:
            # DATASET/CONFIG/SPLIT; facts that were edited by hand may have only a part of it.
            parts = name.split("/")
            dataset = parts[0]
            config_name = parts[1] if len(parts) > 1 else ""
            config = None
            for candidate in datasets.get(dataset).configs:
                if candidate.name == config_name:
                    config = candidate
            if config is None:
                raise text.CardError(f"The adapter learnt from {name}, which is no config of {dataset}; make it again.")
            keys, licences = set(config.cite), {config.licence}
            for source_name in config.sources:
                source = listed.sources[source_name]
                keys.add(source.citation)
                licences.add(source.licence)
            what, licence = name, " and ".join(sorted(licences))
            citations = {key: listed.citations.get(key, "") for key in sorted(keys)}
        described.append(adapter_card.DataFacts(what, version, licence, citations))
    return described


def main(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder that probes mitigate has written.")],
    repo: Annotated[str, typer.Option(metavar="ORG/NAME", help="The repository of the Hub.")],
    licence: Annotated[
        str, typer.Option(help="Licence by its name on the Hub; the licence of the base model may require one.")
    ] = "",
    base: Annotated[
        str, typer.Option(help="Name of the base model on the Hub, if it was loaded under another name.")
    ] = "",
    corpus_licence: Annotated[
        str, typer.Option(help="Licence of the text and the lists of your own that the recipe learnt from.")
    ] = "",
    corpus_citation: Annotated[
        Path | None, typer.Option(metavar="FILE.bib", help="File with the BibTeX entry of that text.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be sent.")] = False,
    private: Annotated[bool, typer.Option("--private", help="Make a new repository private.")] = False,
    include: Include = None,
) -> None:
    """Publish an adapter or a prompt with its card, in one commit.

    The token comes from the environment (HF_TOKEN) or the Hub client's login. Exit status: 1 when the
    folder is incomplete or a fact is missing, 2 when the Hub cannot be reached or refuses.
    """
    del include  # its callback has registered the recipes
    console, errors = Console(soft_wrap=True), Console(stderr=True, soft_wrap=True)
    with hub.explained(errors, ScoringError, BuildError, text.CardError):
        # Read first, so that a wrong path is refused before the card is made.
        citation = read.text(corpus_citation) if corpus_citation else ""
        files = publication(folder, check_repository(repo), licence, base, corpus_licence, citation)
        terminal.show(console, [repo])
        for name, content in files.items():
            terminal.show(console, [f"  {len(content):>11,} bytes  {name}"])
        if dry_run:
            terminal.show(console, [files[CARD].decode()])
            if base:
                terminal.show(
                    console, [f"A dry run asks nothing of the Hub, so it does not compare the base model with {base}."]
                )
            terminal.show(console, ["Nothing was sent (--dry-run)."])
            return
    # Slow to import, so not before the folder is checked.
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HFValidationError

    with hub.explained(errors, ScoringError, text.CardError, HFValidationError):
        if base:
            check_base(folder, base, HfApi())
        address = hub.add_files(HfApi(), repo, files, "Publish the adapter", kind="model", private=private)
        terminal.show(console, [f"Published: {address}"])


app = options.single(main)

if __name__ == "__main__":
    options.start(app, "python -m mitigation.publish")
