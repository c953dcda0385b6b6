"""A page to try one or two models with: ``python examples/demo.py [MODEL] [MODEL] [--table TABLE]``.

Type a job, or the beginning of a sentence, or choose an example, and see how likely each model goes on with she, he
and they, and which word of the sentence leans most to a gender in a corpus (MaxPMIDiff of UnStereoEval). The corpus
is the data set gender-pmi in the folder output, if it is built. The page needs the package gradio:
pip install '.[score,demo]'.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pmi import max_pmi_diff
from pmi.analysis.lookup import delta_table
from pmi.types import DeltaTable, PmiError
from scoring.inference.load_options import BUNDLED, load
from scoring.types import Request, ScoringError

if TYPE_CHECKING:
    from scoring.inference.model import Model

WORDS = ("she", "he", "they")
ARTICLES = ("a", "an", "the")
#: A text of at most two words and so many characters is taken for a job.
LONGEST = 40
#: What the page offers to choose.
EXAMPLES = ("nurse", "carpenter", "flight attendant", "My friend likes to cook, and", "The engineer was late because")
#: The table of δ that is used if it is built.
TABLE = Path("output", "gender-pmi")


def beginning(text: str) -> str:
    """The beginning of a sentence that a model is to go on with: the text itself, or one about a job.

    >>> beginning("  My boss called, and "), beginning("engineer"), beginning("The nurse")
    ('My boss called, and', 'My friend is an engineer, and', 'My friend is a nurse, and')
    """
    words = text.split()
    if 0 < len(words) <= 2 and len(text) <= LONGEST:
        job = " ".join(words[len(words) == 2 and words[0].lower() in ARTICLES :]).lower()
        return f"My friend is {'an' if job[0] in 'aeiou' else 'a'} {job}, and"
    return " ".join(words)


def chances(model: Model, text: str) -> dict[str, float]:
    """How likely the next word is each of she, he and they; a word that is several tokens is left out."""
    (response,) = model.answer([Request("demo", text, candidates=WORDS)])
    return {word: math.exp(p) for word, p in zip(WORDS, response.candidate_logprobs, strict=True) if not math.isnan(p)}


def told(found: dict[str, float]) -> str:
    """Chances in words.

    >>> told({"she": 0.01, "he": 0.03})
    'she 1.00 %, he 3.00 %; of these alone: she 25 %, he 75 %'
    """
    total = sum(found.values())
    if not total:
        return "None of these words is likely at all."
    each = ", ".join(f"{word} {100 * p:.2f} %" for word, p in found.items())
    shares = ", ".join(f"{word} {100 * p / total:.0f} %" for word, p in found.items())
    return f"{each}; of these alone: {shares}"


def leaning(text: str, table: DeltaTable | None) -> str:
    """Which word leans most to a gender in the corpus of a table.

    >>> leaning("The nurse", None)
    'No table of a corpus was given (--table).'
    """
    if table is None:
        return "No table of a corpus was given (--table)."
    score = max_pmi_diff(text, table)
    if score.value is None:
        return f"None of {score.total} words is in the table."
    side = "she" if score.value > 0 else "he"
    known = f"{score.known} of {score.total} content words known"
    return f"{score.value:+.2f} by “{score.word}”, which keeps more company with {side} ({known})"


def answer(model: Model, text: str) -> tuple[dict[str, float], str]:
    """What one model says to a sentence: the chances of the three words as shares, and in words."""
    found = chances(model, text)
    total = sum(found.values()) or 1.0
    return {word: p / total for word, p in found.items()}, told(found)


def answers(models: Sequence[Model], table: DeltaTable | None, text: str) -> list[Any]:
    """What the page shows: the sentence asked, the word that leans, and the answer of each model."""
    asked = beginning(text)
    if not asked:
        return ["", "Type a job or the beginning of a sentence.", *[part for _ in models for part in ({}, "")]]
    return [asked, leaning(asked, table), *[part for model in models for part in answer(model, asked)]]


def page(models: Sequence[Model], table: DeltaTable | None) -> Any:
    """The page."""
    import gradio

    with gradio.Blocks(title="she, he or they?", analytics_enabled=False) as made:
        gradio.Markdown("# she, he or they?\nA job, or the beginning of a sentence, and what each model goes on with.")
        text = gradio.Textbox(label="Job or sentence", value=EXAMPLES[0])
        gradio.Examples([[example] for example in EXAMPLES], text, label="Examples")
        ask = gradio.Button("Ask", variant="primary")
        asked = gradio.Textbox(label="Asked", interactive=False)
        leans = gradio.Textbox(label="MaxPMIDiff", interactive=False)
        shown = [asked, leans]
        with gradio.Row():
            for model in models:
                with gradio.Column(min_width=240):
                    # No heading: the likelier word is no verdict of the model.
                    shown.append(gradio.Label(label=f"Shares of these three words ({model.name})", show_heading=False))
                    shown.append(gradio.Textbox(label="Probability of the next word", interactive=False, lines=2))

        def update(typed: str) -> list[Any]:
            return answers(models, table, typed)

        # Choosing an example changes the text, which asks.
        gradio.on([text.submit, text.change, ask.click, made.load], update, text, shown, trigger_mode="always_last")
        gradio.Markdown("These numbers speak of this sentence and these models, and of no person.")
    return made


def main() -> None:
    """Starts the page on this machine."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", nargs="*", default=["tiny-causal"], help="One model, or two to compare.")
    parser.add_argument("--table", help="Counts, a table of δ, or the data set gender-pmi, as in probes pmi score; by "
                        f"default {TABLE} if it is there.")  # fmt: skip
    parser.add_argument("--port", type=int, default=7860)
    wanted = parser.parse_args()
    if len(wanted.model) > 2:
        parser.error(f"{len(wanted.model)} models were given; give one or two.")
    try:
        models = [load(BUNDLED.get(name, name)) for name in wanted.model]
        place = wanted.table or (str(TABLE) if TABLE.is_dir() else "")
        table = delta_table(place) if place else None
    except (ScoringError, PmiError) as error:
        parser.exit(1, f"error: {error}\n")
    for model, name in zip(models, wanted.model, strict=True):
        model.name = name
    page(models, table).launch(server_name="127.0.0.1", server_port=wanted.port)


if __name__ == "__main__":
    main()
