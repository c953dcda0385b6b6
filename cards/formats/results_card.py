"""Renders the card of a data set of results: which runs it has, and how to use them."""

from collections.abc import Iterable, Mapping
from typing import Any

from cards.common.text import template
from cards.hub import HubRefusal, downloaded, failures, refusal

NAME = "README.md"
#: Stands in a card of this module, so that a card which somebody else wrote stays as it is.
MARKER = "<!-- made by gender-neutral-probes -->"
#: The folder of a run that has the examples with their texts.
EXAMPLES = "examples"


def results_card(repository: str, paths: Iterable[str]) -> str:
    """The text of the card, from the paths of all files of the data set.

    >>> card = results_card("org/scores", ["org/model/model/results-0a1b.json"])
    >>> "| org/model/model | [results-0a1b.json](<org/model/model/results-0a1b.json>) |" in card
    True
    """
    runs = []
    with_examples = False
    for path in sorted(paths):
        folder, _, file = path.rpartition("/")
        # The results of one run are results.json, or have a part of their digest in the name.
        if folder and file.startswith("results") and file.endswith(".json"):
            runs.append((folder, file))
        if f"/{EXAMPLES}/" in path:
            with_examples = True
    return template("results.md.j2").render(
        name=repository.rpartition("/")[2],
        repository=repository,
        runs=runs,
        with_examples=with_examples,
        marker=MARKER,
    )


def with_card(api: Any, repository: str, files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Files of results with the card of the data set that they go into.

    A card that somebody else wrote stays.

    Raises
    ------
    HubRefusal
        When the Hub cannot be reached or refuses.
    """
    from huggingface_hub.errors import RepositoryNotFoundError

    try:
        paths = set(api.list_repo_files(repository, repo_type="dataset"))
        if NAME in paths:
            file = downloaded(api, repository, NAME, "main", "dataset")
            if file and MARKER not in file.read_text(encoding="utf-8", errors="replace"):
                return dict(files)
    except RepositoryNotFoundError:
        # The first results make the data set.
        paths = set()
    except failures() as error:
        raise HubRefusal(refusal(error)) from None
    return {**files, NAME: results_card(repository, paths | set(files)).encode()}
