"""Pronouns: a person's pronouns are declared, and a sentence about the person takes one of their forms."""

from itertools import cycle

from builders.dataset import Files, Origin, Row, Rows, declared
from builders.text.embedded import PROJECT, table
from builders.text.neopronouns import EVERY
from builders.text.words import SLOTS, Pronouns

FILE = "builders/data/pronouns.toml"


def _filled(text: str, name: str, forms: Pronouns) -> str:
    for slot in SLOTS:
        text = text.replace(f"{{{slot}}}", getattr(forms, slot))
    return text.replace("{name}", name)


def _rows(_: Files) -> Rows:
    """Each sentence without a declaration, and after each declaration of each pronoun."""
    wording = table("pronouns")
    sentences = [(slot, sentence) for slot in SLOTS for sentence in wording["sentences"][slot]]
    # Names go round, so that none belongs to one pronoun or one kind of sentence.
    names = cycle(wording["people"]["names"])
    for number, ((slot, sentence), name) in enumerate(zip(sentences, names, strict=False)):
        # Each sentence has exactly one slot, so this gives two parts.
        before, after = sentence.replace("{name}", name).split(f"{{{slot}}}")
        declarations: list[tuple[str | None, str, str]] = [(None, "none", "")]
        for how, text in wording["declarations"].items():
            for nominative, pronouns in EVERY.items():
                declarations.append((nominative, how, _filled(text, name, pronouns)))
        for pronoun, how, declaration in declarations:
            values = {
                "declared": pronoun,
                "declaration": how,
                "before": f"{declaration} {before}".strip(),
                "forms": [getattr(forms, slot) for forms in EVERY.values()],
                "after": after,
                "slot": slot,
                "sentence": sentence,
                "name": name,
            }
            parts = [str(number), pronoun, how]
            row_id = "-".join(part for part in parts if part)
            yield Row("test", row_id, Origin(PROJECT, FILE, number), values)


DATASET = declared("pronouns", {"continuations": _rows})
