"""A prompt with an instruction against bias, for base and chat models; nothing is trained.

The instruction against gender mentions is that of *Disclosure and Mitigation of Gender Bias in LLMs* (Dong et
al., 2024), in the wording of its code and in that of the paper. The six debiasing prompts are those of
*Causally Testing Gender Bias in LLMs* (OccuGender; Chen et al., 2024): they follow the ``Q:`` of its
questions, and precede the context in other benchmarks. Chain of thought, self-reflection, self-help and self-aware
are methods that *BiasFreeBench* compares (Xu et al., 2025), in words of this project; the first three take two turns
of a chat. A JSON file of the user's own works too. The result is a file for ``probes score MODEL --prompt FILE``.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from cards.common import files, terminal
from mitigation.recipe import Adapter, Job, MitigationError, Settings, declared, setting
from scoring.adapters.facts import PROMPT
from scoring.inputs.prompts import PROMPTS, get


@dataclass(frozen=True)
class PromptSettings(Settings):
    """Which prompt."""

    prompt: str = setting(
        "debias-6", "A prompt by name (probes score --list) or a JSON file.", "Chen et al. 2024, Table 4"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        prompt = get(self.prompt)
        if not (prompt.instruction or prompt.system or prompt.first):
            raise MitigationError(
                f"The prompt {prompt.name!r} says nothing to the model; give one with an instruction or a system text."
            )

    def inputs(self) -> dict[str, str]:
        """The digest of a prompt of the user's own; the prompts of the project change with its version."""
        fingerprints = super().inputs()
        if self.prompt not in PROMPTS:
            digest = hashlib.sha256(get(self.prompt).json().encode()).hexdigest()
            fingerprints[f"prompt:{Path(self.prompt).name}"] = digest
        return fingerprints


def make(job: Job[PromptSettings]) -> Adapter:
    """Writes the prompt into ``out``."""
    prompt = get(job.settings.prompt)
    files.put(job.out / PROMPT, prompt.json().encode())
    # A prompt of two turns has no instruction: what is asked in each turn is shown.
    instruction = prompt.instruction or prompt.system or " … ".join(prompt.turns("QUESTION", "ANSWER")[::2])
    terminal.show(job.console, [f"{prompt.name}: {instruction}"])
    return job.done(None)


RECIPE = declared("prompts", PromptSettings, make)
