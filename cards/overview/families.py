"""The family of a model and its place in it: the number of parameters, or the step of training, read from names.

>>> place("EleutherAI/pythia-6.9b-deduped", "step1000")
Place(family='EleutherAI/pythia-deduped', parameters=6900000000.0, step=1000.0)
"""

import math
import re
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from cards.results import last_part

#: A number of parameters, such as 6.9b or 70M. Not 8x7B, whose number of parameters its name does not say.
_SIZE = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?) ?([mbt])(?![a-z0-9])", re.IGNORECASE)
_FACTORS = {"m": 1e6, "b": 1e9, "t": 1e12}
#: A step of training, such as step1000, checkpoint-500, step 10,000 or step10k.
_STEP = re.compile(
    r"(?<![a-z0-9])(?:global_?step|step|checkpoint|ckpt|iter)[-_ ]?(\d[\d,]*)(k?)(?![a-z0-9])", re.IGNORECASE
)
#: What a name has left over where a number was taken out of it.
_SEPARATORS = re.compile(r"([-_ ,.])(?:[-_ ,.])+")


@dataclass(frozen=True, slots=True)
class Place:
    """A family of models, and the parameters and the step of one of them; NaN where they are not known."""

    family: str
    parameters: float = math.nan
    step: float = math.nan


def place(name: str, revision: str = "", parameters: float = math.nan) -> Place:
    """The family of a model and its place in it.

    Parameters
    ----------
    name:
        The name of the model, or the path of its folder. Of a folder that is named by its step alone, such as
        ``runs/mine/checkpoint-500``, the folder around it names the family.
    revision:
        The branch, tag or commit that was loaded, such as ``step1000``.
    parameters:
        The number of parameters where it is known; else it is read from the name.

    >>> place("OPT 6.7B").parameters, place("mistralai/Mixtral-8x7B-v0.1").family
    (6700000000.0, 'mistralai/Mixtral-8x7B-v0.1')
    >>> place("runs/mine/checkpoint-500"), place("gpt2", parameters=124e6)
    (Place(family='mine', parameters=nan, step=500.0), Place(family='gpt2', parameters=124000000.0, step=nan))
    """
    family, step = _without_step(name)
    if math.isnan(step):
        # Checkpoints of one training are often the branches of one repository.
        _, step = _without_step(revision)
    size = _SIZE.search(family)
    if size:
        named = float(size[1]) * _FACTORS[size[2].lower()]
        family = _joined(family[: size.start()], family[size.end() :])
    else:
        named = math.nan
    known = parameters if math.isfinite(parameters) else named
    # The page shows no folders of the machine.
    return replace(Place(last_part(family or name)), parameters=known, step=step)


def _without_step(text: str) -> tuple[str, float]:
    """A name without its step, and the step; NaN where it has none.

    >>> _without_step("pythia-step10k"), _without_step("Pythia 6.9B (D), step 10,000")
    (('pythia', 10000.0), ('Pythia 6.9B (D)', 10000.0))
    """
    match = _STEP.search(text)
    if not match:
        return text, math.nan
    step = float(match[1].replace(",", "")) * (1000 if match[2] else 1)
    rest = _joined(text[: match.start()], text[match.end() :])
    if rest.endswith("/") or not rest:
        # The folder is named by its step alone.
        rest = PurePosixPath(rest).name
    return rest, step


def _joined(before: str, after: str) -> str:
    """Both parts around a number, with one separator between them."""
    return _SEPARATORS.sub(r"\1", before + after).strip("-_ ,.")


def size_text(parameters: float) -> str:
    """A number of parameters as people write it; empty where it is not known.

    >>> size_text(6.9e9), size_text(70e6), size_text(1234567), size_text(math.nan)
    ('6.9B', '70M', '1.23M', '')
    """
    if not math.isfinite(parameters):
        return ""
    # Three digits tell the sizes of a family apart.
    for unit, factor in (("T", 1e12), ("B", 1e9), ("M", 1e6), ("k", 1e3)):
        if parameters >= factor:
            return f"{parameters / factor:.3g}{unit}"
    return f"{parameters:.0f}"
