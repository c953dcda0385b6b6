"""Wording that data sets share with benchmarks and prompts. This module imports no data set."""

from dataclasses import dataclass

from builders.text.embedded import table

#: The blank of a prompt. Each prompt has it exactly once; a sentence is the prompt with an object in its place.
BLANK = "[BLANK]"

#: The labels of objects and sentences, in the order of arguments.
LABELS = ("biased", "unbiased", "irrelevant")

#: The aims of a sentence about gender: what a recipe should take away, and what it should keep.
STEREOTYPE, STATED = "stereotype", "stated"

#: The stereotypes of GEST in the order of their numbers from 1; the first seven are about women.
STEREOTYPES = tuple(
    "emotional gentle empathetic neat social weak beautiful tough self-confident professional rational providers "
    "leaders childish sexual strong".split()
)
#: How many of them are about women.
ABOUT_WOMEN = 7


@dataclass(frozen=True, slots=True)
class DebiasingPrompt:
    """A text before the question that asks for less bias; ``level`` is its level of abstraction."""

    id: str
    level: str
    text: str


#: No debiasing prompt.
NO_DEBIASING = DebiasingPrompt("none", "none", "")

#: The six debiasing prompts of Table 4 of OccuGender (Chen et al., 2024), with their levels of abstraction.
DEBIASING_PROMPTS = tuple(DebiasingPrompt(**entry) for entry in table("debiasing")["prompts"])
