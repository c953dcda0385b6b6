"""CDA: further training on text in which the words of one group of people are replaced by those of another.

Source: *Gender Bias in Neural Natural Language Processing* (Lu et al., 2020) and its use by bias-bench (Meade et al.,
2022). The training is two-sided: it has each text with a listed word as it is written and with the words replaced.
Texts without a listed word are left out, as in bias-bench. First names can be swapped too
(``names``), as in *It's All in the Name* (Hall Maudslay et al., 2019). ``pairs`` of the user's already are two
sentences each, so none is swapped.
"""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mitigation.recipe import Adapter, Job, MitigationError, declared, setting
from mitigation.texts import attribute_words, corpora, pairs_file, swaps
from mitigation.training.settings import CODE, OPEN, LanguageSettings, WordSettings

#: What may stand after a listed word in the published code.
_ENDINGS = ("", ".", ",", "?", "!", ";", ":")


@dataclass(frozen=True)
class CdaSettings(LanguageSettings, WordSettings):
    """Which words are replaced, and how long is trained."""

    two_sided: bool = setting(True, "Also train on each changed text as it was written.", CODE)
    published: bool = setting(True, "Replace words as bias-bench does: lower-case ones between spaces.", CODE)
    names: str = setting("", "A JSON file with pairs of first names that are replaced too; empty for none.", CODE)
    pairs: str = setting(
        "", "A file of pairs of your own, whose two sentences are trained in place of swapped text.", OPEN
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.pairs and (self.corpus or self.names):
            raise MitigationError(
                "Pairs have both sentences already, so no text is swapped; give --pairs, or --corpus and --names."
            )
        if self.names and (self.published or self.domain != "gender"):
            raise MitigationError(
                "First names are replaced for gender and only where words are not replaced as published; give "
                "--no-published and --domain gender, or leave out --names."
            )

    def inputs(self) -> dict[str, str]:
        """The pairs; or the corpus, the list of words and the names."""
        if self.pairs:
            return corpora.fingerprints(self.pairs)
        versions = super().inputs()
        if self.names:
            names = attribute_words.name_pairs(self.names)
            versions[names.name] = names.version
        return versions


def make(job: Job[CdaSettings]) -> Adapter:
    """Trains on the changed texts and writes the adapter."""
    from mitigation.training.trainable import train_on

    settings = job.settings
    if settings.pairs:
        pairs = [
            (str(row["sentence_biased"]), str(row["sentence_unbiased"]))
            for row in pairs_file.read_pairs(settings.pairs)
        ]
    else:
        names: Sequence[tuple[str, ...]] = ()
        if settings.names:
            names = attribute_words.name_pairs(settings.names).groups
        pairs = changed(
            settings.texts(), settings.listed, published=settings.published, seed=settings.seed, names=names
        )
    random.Random(settings.seed).shuffle(pairs)
    # Both sides of a text stay together, so that none of them is trained and the other one held out.
    texts = []
    for as_written, swapped in pairs:
        if settings.two_sided:
            texts.append(as_written)
        texts.append(swapped)
    return train_on(job, texts, measures={"changed texts": len(pairs)})


def changed(
    lines: Iterable[str],
    words: attribute_words.AttributeWords,
    *,
    published: bool,
    seed: int,
    names: Sequence[tuple[str, ...]] = (),
) -> list[tuple[str, str]]:
    """Each text with a listed word or name, as it is written and with the words and names replaced."""
    draw = random.Random(seed)
    swapper, others = swaps.Swapper(words, names), len(words.groups[0]) - 1
    pairs = []
    for line in lines:
        # Each line takes its draws, also one without a listed word: a longer list of words leaves the rest as it was.
        if published:
            swapped = published_swap(line, words, draw)
        else:
            swapped = swapper.swap(line, draw.randrange(others))
        if swapped != line:
            pairs.append((line, swapped))
    return pairs


def published_swap(text: str, words: attribute_words.AttributeWords, draw: random.Random) -> str:
    """The text with listed words replaced as bias-bench replaces them.

    A word is lower-case and between spaces, with or without one mark after it. A word of several groups becomes
    its partner in the last of them. The other word of a triple is drawn for each place in a group and each text.

    >>> pairs = attribute_words.AttributeWords((("him", "her"), ("his", "her")), "", "")
    >>> published_swap("She told  her, and Her.", pairs, random.Random(0))
    'She told his, and Her.'
    """
    places = range(len(words.groups[0]))
    # One draw for the whole text: all words of a group go to the same other group.
    partner = [draw.choice([other for other in places if other != place]) for place in places]
    table = {}
    for group in words.groups:
        for place, word in enumerate(group):
            for ending in _ENDINGS:
                table[word + ending] = group[partner[place]] + ending
    parts = text.split()
    if table.keys().isdisjoint(parts):
        return text  # with the spaces as they were
    return " ".join(table.get(part, part) for part in parts)


RECIPE = declared("cda", CdaSettings, make)
