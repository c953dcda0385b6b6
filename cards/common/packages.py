"""Optional packages: what is installed, and the command that installs what is missing."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path

from packaging.requirements import Requirement

#: The name of this project as an installed package.
PACKAGE = "gender-neutral-probes"


def install_command(extra: str) -> str:
    """The command that adds an extra of this project, as it was installed: from a checkout, a wheel or an index.

    >>> install_command("pmi").startswith("pip install ")
    True
    """
    # A checkout has the file of the project two folders above this package.
    checkout = Path(__file__).parents[2]
    if (checkout / "pyproject.toml").is_file():
        return f"pip install --editable '{checkout}[{extra}]'"
    try:
        origin = json.loads(distribution(PACKAGE).read_text("direct_url.json") or "{}")
    except PackageNotFoundError:
        origin = {}
    url = origin.get("url", "")
    if "dir_info" in origin:
        return f"pip install '{url.removeprefix('file://')}[{extra}]'"
    # A wheel or archive that was given by its file or address is on no index, so that address is repeated.
    return f"pip install '{PACKAGE}[{extra}] @ {url}'" if url else f"pip install '{PACKAGE}[{extra}]'"


def missing_sentence(what: str, package: str | None, extra: str) -> str:
    """The sentence for a package that is not installed.

    >>> missing_sentence("Counting a corpus", "numba", "pmi").partition(";")[0]
    'Counting a corpus needs the package numba, which is not installed'
    """
    return f"{what} needs the package {package}, which is not installed; install it with {install_command(extra)}."


def extras() -> dict[str, list[Requirement]]:
    """The packages that each extra adds, from the metadata of this project; an extra of another is left out of it.

    Raises
    ------
    PackageNotFoundError
        When the project is not installed.

    >>> [requirement.name for requirement in extras()["hub"]]
    ['mlcroissant']
    """
    metadata = distribution(PACKAGE).metadata
    requirements = [Requirement(text) for text in metadata.get_all("Requires-Dist", [])]
    packages: dict[str, list[Requirement]] = {}
    for extra in metadata.get_all("Provides-Extra", []):
        packages[extra] = []
        for requirement in requirements:
            # A requirement without a marker is one of the project itself.
            marker = requirement.marker
            if marker and marker.evaluate({"extra": extra}) and requirement.name != PACKAGE:
                packages[extra].append(requirement)
    return packages


def installed_version(requirement: Requirement) -> str:
    """The version of an installed package; empty where it is not installed, or is none that will do."""
    try:
        installed = version(requirement.name)
    except PackageNotFoundError:
        return ""
    # A release candidate that is installed will do; by default a specifier takes none.
    if not requirement.specifier.contains(installed, prereleases=True):
        return ""
    return installed


@contextmanager
def required(what: str, extra: str, error: type[Exception]) -> Iterator[None]:
    """Turns a missing package inside the block into an error of a given type, with the command that installs it."""
    try:
        yield
    except ModuleNotFoundError as problem:
        # The module that is missing may be one that a package of the extra needs.
        raise error(missing_sentence(what, problem.name, extra)) from None
