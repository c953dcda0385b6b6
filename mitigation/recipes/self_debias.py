"""Self-Debias: lowers the probability of what a text that is announced as biased would make more probable.

Source: *Self-Diagnosis and Self-Debiasing: A Proposal for Reducing Corpus-Based Bias in NLP* (Schick et al., 2021),
with the prefixes of bias-bench (Meade et al., 2022). Nothing is trained: the result is a prompt file for
``probes score MODEL --prompt FILE``, which scores and generates with the lowered probabilities. Each text is
computed once more for each prefix.

It supposes that the prefix makes a stereotype more probable. Where it makes the other answer more probable, that one is
lowered, and bias grows: docs/recipes-measured.md has the numbers of a planted stereotype.
"""

from dataclasses import dataclass
from typing import Any

from cards.common import files, text
from mitigation.recipe import Adapter, Job, MitigationError, Settings, declared, setting
from scoring.adapters.facts import PROMPT
from scoring.inputs.prompts import Prompt

_PAPER = "Schick et al. 2021"
#: The beginning of the published prefixes, which the name of a kind of bias follows.
PREFIX = "The following text discriminates against people because of their"
_NAMES = {"race": "race/color"}


@dataclass(frozen=True)
class SelfDebiasSettings(Settings):
    """Which prefixes, and how strongly probabilities are lowered."""

    domains: str = setting("gender", "Kinds of bias for the published prefixes, with commas.", "Meade et al. 2022")
    prefixes: str = setting("", "Prefixes of your own, with | between them, in place of those.", "this project")
    decay: float = setting(50.0, "How strongly a rising probability is lowered.", _PAPER, least=0)
    epsilon: float = setting(0.01, "The smallest factor of a probability.", _PAPER, above=0, most=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.all_prefixes:
            raise MitigationError("There is no prefix; give --domains or --prefixes.")

    @property
    def all_prefixes(self) -> list[str]:
        """The texts of the prefixes."""
        given_prefixes = [prefix.strip() for prefix in self.prefixes.split("|") if prefix.strip()]
        if given_prefixes:
            return given_prefixes
        return [f"{PREFIX} {_NAMES.get(domain, domain)}:" for domain in text.split_list(self.domains)]


def make(job: Job[SelfDebiasSettings]) -> Adapter:
    """Writes the prompt into ``out``."""
    settings = job.settings
    lowered: Any = {"prefixes": settings.all_prefixes, "decay": settings.decay, "epsilon": settings.epsilon}
    prompt = Prompt(
        "self-debias",
        "probabilities that rise after a prefix are lowered",
        version="1.0.0",
        self_debias=lowered,
    )
    # Scoring reads the prefixes from the prompt, so no weight is written.
    files.put(job.out / PROMPT, prompt.json().encode())
    return job.done(None)


RECIPE = declared("self_debias", SelfDebiasSettings, make)
