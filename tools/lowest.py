"""Prints the lowest version of each requirement of the package and some extras, as constraints of pip.

``python tools/lowest.py score`` reads pyproject.toml. PyTorch is that of constraints.txt: its oldest release for Linux
brings gigabytes of packages for GPUs.
"""

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def lowest(project: dict, extras: list[str], pinned: str) -> list[str]:
    """One constraint for each requirement with a lowest version; ``pinned`` is the text of constraints.txt.

    >>> extra = {"score": ["torch>=2.6", "scipy>=1.11", "mine[pmi]"]}
    >>> lowest({"dependencies": ["rich>=13"], "optional-dependencies": extra}, ["score"], "torch==2.13.0")
    ['rich==13.*', 'torch==2.13.0', 'scipy==1.11']
    """
    requirements = list(project["dependencies"])
    for extra in extras:
        requirements += project["optional-dependencies"][extra]
    constraints = []
    for requirement in requirements:
        match = re.fullmatch(r"([\w-]+)>=([\d.]+)", requirement)
        if not match:
            continue
        name, version = match.groups()
        if name == "torch":
            constraints += re.findall(r"^torch==.*", pinned, re.MULTILINE)
        elif "." in version:
            constraints.append(f"{name}=={version}")
        else:
            # The first release of some packages with that number has more parts, or none is left.
            constraints.append(f"{name}=={version}.*")
    return constraints


if __name__ == "__main__":
    content = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    print(*lowest(content["project"], sys.argv[1:], pins), sep="\n")
