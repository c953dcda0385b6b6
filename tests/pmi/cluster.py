"""A corpus of several files and its table, for tests of counting on several machines."""

import json
import random

import pytest
import zstandard

from pmi.counting.corpus import shards
from pmi.counting.counts import merge
from pmi.counting.local import GENDERED_WORDS, CountingJob, count, rule_of

WORDS = "she he her his nurse captain bridge storm the of café naïve o'clock".split()


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    dice = random.Random(7)
    for number in range(5):
        rows = ({"text": " ".join(dice.choices([*WORDS, *map(str, range(90))], k=60)), "n": n} for n in range(40))
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / f"{number}.jsonl.zst").write_bytes(zstandard.compress(text.encode()))
    return folder


@pytest.fixture(scope="module")
def local(corpus):
    return count(corpus, name="made up", jobs=1)


@pytest.fixture
def job(tmp_path):
    (tmp_path / "parts").mkdir()
    return CountingJob(rule_of("made up", GENDERED_WORDS, 10, "clean", "record"), tmp_path / "parts")


def same(one, other):
    assert one.words == other.words
    assert one.word_counts.tolist() == other.word_counts.tolist()
    assert one.pair_counts.tolist() == other.pair_counts.tolist()
    assert (one.rule, one.totals) == (other.rule, other.totals)


def merged(job, corpus):
    return merge([job.part(shard) for shard in shards([corpus])])


def times(job):
    return {file.name: file.stat().st_mtime_ns for file in job.folder.glob("*.parquet")}
