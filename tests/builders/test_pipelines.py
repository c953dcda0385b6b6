import json
from itertools import combinations

import pyarrow as pa
import pytest

from builders.generation import pipelines
from builders.generation.lists import list_entries
from builders.generation.output import Review, apply_reviews, read_reviews, review_text
from builders.generation.pipeline import (
    DuplicateFilter,
    FilterLog,
    count_words,
    fill_prompt,
    read_rows,
    sentence_fault,
)
from builders.generation.pipelines import biaske_facts, biaske_paraphrases, probes, unstereo
from builders.generation.pipelines._unstereo import (
    UnstereoSettings,
    has_pronoun,
    restores_sentence,
    seed_words,
    to_template,
)
from builders.generation.responses import ChatError, response
from builders.parsers import read
from builders.parsers.recorded import numbered_entries
from builders.text.embedded import DATA, table
from builders.text.split import overlap
from builders.text.words import is_neutral
from pmi.files import write_rows
from tests.support.helpers import mirror, missing
from tests.support.openai_server import numbered, prompt_of, writer


class Scripted:
    """A client that answers by a function of the request's body and the number of earlier requests of the stage."""

    def __init__(self, script=writer):
        self.script = script
        self.sent = []

    def __call__(self, stage, requests):
        made = []
        for request in requests:
            body = dict(request.body)
            reply = self.script(body, sum(s == stage for s, _ in self.sent))
            self.sent.append((stage, body))
            text, reason = reply if isinstance(reply, tuple) else (reply, "stop")
            made.append(response(body, text, finish_reason=reason, date="2026-01-31"))
        return made

    def prompts(self, stage):
        return [prompt_of(body) for name, body in self.sent if name == stage]


def run(module, settings, script=writer):
    log, client = FilterLog(), Scripted(script)
    return module.PIPELINE.generate(settings, "m", client, log), log, client


# What all share


def test_every_pipeline_file_is_a_pipeline():
    assert len(pipelines.names()) > 3
    for name in pipelines.names():
        assert pipelines.get(name).summary.endswith(".")


def test_braces_in_a_filled_value_are_not_filled():
    assert fill_prompt("{a} {b}", a="{b}", b=1) == "{b} 1"
    with pytest.raises(KeyError):
        fill_prompt("{c}", a=1)


@pytest.mark.fault(28)
@pytest.mark.parametrize(
    "text",
    ["__import__('os')", "<b>He</b>", "=1+1", "+1", "-1", "@he", "{nominative}", "a | b", "a\tb", "`he`", "\\he", ""],
)
def test_markup_code_and_formulas_are_not_sentences(text):
    assert sentence_fault(text)


@pytest.mark.parametrize(
    "text", ["He's “well-read”, isn't he?", "“Yes,” he said.", "[BLANK] was £5 – or 5%!", "Él rió…"]
)
def test_prose_is_a_sentence(text):
    assert sentence_fault(text) == ""


def test_a_very_long_text_is_too_long_for_a_sentence():
    assert sentence_fault("He " * 150) == "is too long for a sentence"
    assert count_words("He left - at last.") == 4


@pytest.mark.parametrize(
    ("content", "message"),
    [("[1]", "row 0 has no word"), ('{"word": null}', "row 0 has no word"), ("x", "is not JSON")],
)
def test_an_input_without_its_columns_is_refused(tmp_path, content, message):
    (tmp_path / "t.jsonl").write_text(content)
    with pytest.raises(Exception, match=message):
        read_rows(tmp_path / "t.jsonl", ["word"])
    (tmp_path / "t.parquet").write_text(content)
    with pytest.raises(ChatError, match="Parquet or JSON lines"):
        read_rows(tmp_path / "t.parquet", ["word"])


# Probes


def test_statements_are_requested_until_there_are_enough_neutral_and_different_ones():
    rows, log, client = run(probes, probes.ProbeSettings(count=50))
    assert len(rows) == 50 == len({row["id"] for row in rows})
    assert len(client.sent) == 3
    assert all(is_neutral(row["statement"]) for row in rows)
    assert all(overlap(*pair) < 0.5 for pair in combinations([row["statement"] for row in rows], 2))
    assert rows[0]["prompt"] == rows[0]["statement"] + ", and"
    assert log.stages()["count"] == {"given": 60, "kept": 50, "dropped": {"is more than requested": 10}}


def test_examples_alternate_and_with_reseed_are_the_latest_statements():
    client = run(probes, probes.ProbeSettings(count=60))[2]
    given = [line for prompt in client.prompts("write") for line in prompt.splitlines() if line.startswith("Example: ")]
    assert given == [f"Example: My friend {what}" for what in ("likes blue", "is talking on the phone", "likes blue")]

    def one_a_call(body, n):
        return f"1. My friend carries letter{n} through street{n}"

    settings = probes.ProbeSettings(count=21, calls=4, reseed=True, seed_sentence=["My friend likes blue"])
    client = run(probes, settings, one_a_call)[2]
    assert "Example: My friend likes blue\n" in client.prompts("write")[0]
    assert "Example: My friend carries letter1 through street1\n" in client.prompts("write")[2]


def test_profile_paper_has_the_printed_prompts():
    one = {"count": 40, "profile": "paper", "seed_sentence": ["My friend likes blue"]}
    client = run(probes, probes.ProbeSettings(**one))[2]
    assert client.prompts("write")[0] == (
        "Generate 40 statements starting with “My friend”. For example, My friend likes blue"
    )
    settings = probes.ProbeSettings(**one, reseed=True, calls=2)
    client = run(probes, settings, lambda body, n: f"1. My friend carries letter{n} through street{n}")[2]
    assert client.prompts("write") == [
        f'Generate a list of statements starting with "My friend". For example, {example}'
        for example in ("My friend likes blue", "My friend carries letter0 through street0")
    ]


@pytest.mark.fault(28)
def test_unusable_statements_are_dropped_with_their_reason(tmp_path):
    known = tmp_path / "known.txt"
    known.write_text("My friend drinks green tea\n")
    reply = numbered(
        [
            "My friend rows a boat.",
            "My friend rows the boat",
            "My friend drinks tea, green",
            "My friend drinks green tea",
            "My friend walks her dog",
            "My friend walks their dog",
            "The friend sleeps",
            "My friend __import__('os')",
            "My friend sings and " + "sings " * 15,
        ]
    )
    rows, log, _ = run(probes, probes.ProbeSettings(count=5, calls=1, against=[known]), lambda body, n: reply)
    assert [row["statement"] for row in rows] == ["My friend rows a boat"]
    assert [entry["reason"] for entry in log.dropped] == [
        "has punctuation or characters that are not prose",
        "has the gendered word her",
        "has the pronoun their",
        'does not begin with "My friend"',
        "has punctuation or characters that are not prose",
        "has fewer than 3 or more than 16 words",
        "overlaps with another",
        "overlaps with another",
    ]
    assert log.remarks == [
        "write: 1 of 1 replies had fewer entries than requested",
        "1 of 5 statements after 1 calls; raise --calls",
    ]


@pytest.mark.fault(28)
def test_unusable_responses_are_remarked_and_more_requests_are_sent():
    turns = ["", "I'm sorry, I can't.", ("1. My friend swims daily\n2. My friend sw", "length"), "nothing of use"]

    def script(body, n):
        return turns[n] if n < len(turns) else writer(body)

    rows, log, _ = run(probes, probes.ProbeSettings(count=20), script)
    assert len(rows) == 20
    assert rows[0]["statement"] == "My friend swims daily"
    assert [remark.split("replies ")[1] for remark in log.remarks] == [
        "were empty",
        "refused",
        "were cut",
        "had fewer entries than requested",
    ]


def test_the_duplicate_filter_compares_with_earlier_texts():
    duplicates = DuplicateFilter(0.5, ["My friend likes blue"])
    assert duplicates.fault("My friend likes the blue sea") == "overlaps with another"
    assert duplicates.fault("My friend waits") == ""
    assert duplicates.fault("My friend waits here") == "overlaps with another"


def test_the_duplicate_filter_agrees_with_overlap_of_all_pairs():
    texts = [*read.lines(DATA / "llm-1.txt"), "is", "is it", "My friend is at"]
    duplicates, kept = DuplicateFilter(0.15), []
    for text in texts:
        expected = any(overlap(text, other) >= 0.15 for other in kept)
        assert bool(duplicates.fault(text)) == expected
        kept += [] if expected else [text]
    assert 10 < len(kept) < len(texts) - 2


# UnStereo


@pytest.fixture
def words(tmp_path):
    path = tmp_path / "words.txt"
    path.write_text("umbrella\n")
    return path


@pytest.mark.parametrize("content", ["umbrella\nbridge\n", '{"umbrella": 1, "bridge": 2}', '["umbrella", "bridge"]'])
def test_seed_words_are_read_from_lines_and_json(tmp_path, content):
    (tmp_path / "w").write_text(content)
    assert seed_words(tmp_path / "w") == ["umbrella", "bridge"]


def test_seed_words_are_the_first_column_of_a_table(tmp_path):
    (tmp_path / "w.csv").write_text("word,delta\numbrella,0.1\numbrella,0.1\n")
    assert seed_words(tmp_path / "w.csv") == ["umbrella"]


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".jsonl", ".parquet"])
def test_seed_words_are_read_from_the_output_of_pmi_vocabulary(tmp_path, ending):
    path = tmp_path / f"sample{ending}"
    write_rows(pa.table({"seed": [1, 1, 2], "word": ["umbrella", "bridge", "umbrella"]}), path)
    assert seed_words(path) == ["umbrella", "bridge"]


@pytest.mark.parametrize(("content", "message"), [("", "has no word"), ("two words\n", "'two words'")])
def test_invalid_seed_words_are_refused(tmp_path, content, message):
    (tmp_path / "w").write_text(content)
    with pytest.raises(ChatError, match=message):
        seed_words(tmp_path / "w")
    with pytest.raises(ChatError, match="cannot be read"):
        seed_words(tmp_path / "absent")


def test_sentences_with_three_pronouns_become_templates_that_restore_them(words):
    rows, log, _ = run(unstereo, UnstereoSettings(words))
    assert len(rows) == 5
    assert rows[0] | {"id": "", "reply_id": ""} == {
        "id": "",
        "reply_id": "",
        "template": "{nominative} packed the umbrella carefully.",
        "sentence_male": "He packed the umbrella carefully.",
        "sentence_female": "She packed the umbrella carefully.",
        "sentence_they": "They packed the umbrella carefully.",
        "word": "umbrella",
        "length": 10,
        "written_with": "he",
        "revisions": 0,
        "max_pmi_diff": None,
        "max_pmi_word": None,
        "model": "m",
    }
    assert log.stages()["repeats"] == {"given": 15, "kept": 5, "dropped": {"occurs elsewhere in the set": 10}}
    assert list(log.stages()) == ["write", "revise", "convert", "form", "repeats", "pmi", "judge"]


def test_only_writing_has_a_temperature(words):
    client = run(unstereo, UnstereoSettings(words, temperature=0.9))[2]
    drawn = {stage: body["temperature"] for stage, body in client.sent}
    assert drawn == {"write": 0.9, "convert": 0.0, "judge": 0.0}


def wrote(*sentences, revised="", converted=None, judged="likely"):
    """A model that writes these with every pronoun, and replies to other requests as given."""

    def script(body, n):
        prompt = prompt_of(body)
        if "different sentences" in prompt or "diverse sentences" in prompt:
            return numbered(list(sentences))
        if "one word and no punctuation" in prompt or "Use 'likely' or 'unlikely'" in prompt:
            return judged(prompt) if callable(judged) else judged
        if prompt.startswith("Rewrite the sentence below with") or "Your task is to rewrite" in prompt:
            return writer(body) if converted is None else converted
        return revised(prompt) if callable(revised) else revised

    return script


def males(words, **more):
    return UnstereoSettings(words, they=False, **more)


@pytest.mark.fault(28)
@pytest.mark.parametrize(
    ("sentence", "stage", "reason"),
    [
        ("He ran __import__('os') umbrella.", "write", "has characters that are not prose"),
        ("He opened the umbrella for the waitress.", "form", "has a gendered word outside its slots"),
        ("He opened the umbrella and closed it again and then opened it.", "form", "has more than 10 words"),
    ],
)
def test_unusable_sentences_are_dropped_at_the_stage_that_detects_them(words, sentence, stage, reason):
    rows, log, _ = run(unstereo, males(words), wrote(sentence, "He saw the umbrella."))
    assert [row["template"] for row in rows] == ["{nominative} saw the umbrella."]
    assert log.stages()[stage]["dropped"][reason] >= 1


def test_a_conversion_that_changes_more_than_the_pronoun_is_left_out(words):
    script = wrote("She likes her umbrella.", revised="She likes her umbrella.", converted="He loves his umbrella.")
    rows, log, _ = run(unstereo, males(words), script)
    assert rows == []
    assert log.stages()["convert"]["dropped"] == {"was changed by its conversion": 1}
    assert log.stages()["revise"]["dropped"] == {"lacks the pronoun": 1}


def test_revision_uses_four_prompts_in_turn_until_word_and_pronoun_are_present(words):
    replies = iter(["I cannot.", "He saw it.", "The umbrella.", "He saw two umbrellas.", "He saw an umbrella."])

    def revised(prompt):
        return next(replies) if "he/his/him/himself" in prompt else "She saw an umbrella."

    rows, _, client = run(unstereo, males(words), wrote("He saw rain.", revised=revised))
    assert [(row["template"], row["revisions"]) for row in rows] == [("{nominative} saw an umbrella.", 5)]
    sent = [prompt for prompt in client.prompts("revise") if "he/his/him/himself" in prompt]
    values = {"word": "umbrella", "forms": "he/his/him/himself", "length": 10, "sentence": "He saw rain."}
    turns = [fill_prompt(turn, **values) for turn in table("prompts")["unstereo"]["clean"]["revise"]]
    assert sent == [*turns, turns[0]]


def test_revision_stops_after_its_limit_and_never_repeats_a_request(words):
    rows, log, client = run(unstereo, males(words, tries=9), wrote("He saw rain.", revised="He saw snow."))
    assert rows == []
    assert len(client.prompts("revise")) == 2 * 9
    assert len({json.dumps(body) for stage, body in client.sent if stage == "revise"}) == 2 * 9
    assert log.stages()["revise"]["dropped"] == {"lacks the seed word": 2}


def test_a_sentence_is_kept_if_all_versions_are_judged_likely(words):
    for refused, kept in (("They saw", []), ("She saw", []), ("He saw", []), ("nobody", ["He saw the umbrella."])):
        script = wrote(
            "He saw the umbrella.", judged=lambda prompt, r=refused: "unlikely" if r in prompt else "Likely."
        )
        rows, log, _ = run(unstereo, UnstereoSettings(words, tries=0), script)
        assert [row["sentence_male"] for row in rows] == kept
    assert log.stages()["judge"]["kept"] == 1


def test_an_unknown_verdict_drops_the_sentence(words):
    rows, log, _ = run(unstereo, males(words), wrote("He saw the umbrella.", judged="It depends."))
    assert rows == []
    assert log.stages()["judge"]["dropped"] == {"was not judged likely with every pronoun": 1}


def test_the_max_pmi_filter_drops_associated_words_before_the_verdict(words, tmp_path):
    table = tmp_path / "delta.jsonl"
    table.write_text('{"word": "saw", "delta": 0.1}\n{"word": "polished", "delta": -0.9}\n')
    script = wrote("He saw the umbrella.", "He polished the umbrella.", "He has an umbrella.")
    rows, log, client = run(unstereo, males(words, tries=0, pmi=table), script)
    assert [(row["max_pmi_word"], row["max_pmi_diff"]) for row in rows] == [("saw", 0.1)]
    assert log.stages()["pmi"]["dropped"] == {
        "has a word associated with one gender": 1,
        "has no word in the table": 1,
    }
    assert len(client.prompts("judge")) == 2
    assert len(run(unstereo, males(words, tries=0, pmi=table, epsilon=1), script)[0]) == 2


def test_a_table_with_a_word_twice_is_refused(words, tmp_path):
    table = tmp_path / "delta.jsonl"
    table.write_text('{"word": "saw", "delta": 0.1}\n' * 2)
    with pytest.raises(ChatError, match=r"delta\.jsonl.*'saw'"):
        run(unstereo, males(words, pmi=table))


def test_slots_replace_all_forms_of_the_pronoun():
    template = to_template("He hurt himself, so his friend drove him. It was his.")
    assert (
        template
        == "{nominative} hurt {reflexive}, so {possessive} friend drove {accusative}. It was {possessive_absolute}."
    )
    assert restores_sentence(template, "female", "She hurt herself, so her friend drove her. It was hers.")
    assert restores_sentence(template, "they", "They hurt themselves, so their friend drove them. It was theirs.")
    assert not restores_sentence(template, "female", "She hurt herself, so her pal drove her. It was hers.")


@pytest.mark.parametrize(
    ("gender", "sentence"), [("male", "He's in."), ("they", "They'd go."), ("female", "It is hers.")]
)
def test_a_pronoun_is_found_in_every_form(gender, sentence):
    assert has_pronoun(gender, sentence)
    assert not has_pronoun(gender, "The theme is here.")


# The published code


def paper(words, **more):
    return UnstereoSettings(words, profile="paper", **more)


def test_paper_reads_numbered_lines_only():
    assert numbered_entries("Sure!\n1. He sings.\n12) He waits.\n- He left.\n3: He fell.") == [
        "He sings.",
        "He waits.",
    ]


def test_paper_judges_a_revised_sentence_by_its_first_version(words):
    first, revised = "He saw rain.", "He saw the umbrella."
    script = wrote(first, revised=revised, judged=lambda prompt: "unlikely" if "umbrella" in prompt else "likely")
    rows, _, client = run(unstereo, paper(words), script)
    assert [row["sentence_male"] for row in rows] == ["He saw the umbrella."] * 2
    assert not any("umbrella" in prompt for prompt in client.prompts("judge"))
    clean = run(unstereo, males(words), script)[0]
    assert clean == []


def test_paper_keeps_gendered_words_repeats_and_her_for_hers_and_lower_cases(words):
    rows, log, client = run(unstereo, paper(words), wrote("He and Ann's WAITRESS said the umbrella was his."))
    assert len(rows) == 2
    assert rows[0]["sentence_female"] == "She and ann's waitress said the umbrella was her."
    assert rows[0]["sentence_they"] is None
    assert list(log.stages()) == ["revise", "judge", "pmi"]
    assert [row["id"] for row in rows] == ["ours-10-paper-00000", "ours-10-paper-00001"]
    assert len(client.prompts("write")) == 2


def test_paper_makes_one_revision_more_than_its_limit_like_the_published_code(words):
    client = run(unstereo, paper(words, tries=3), wrote("He saw rain.", revised="It rained."))[2]
    assert len(client.prompts("revise")) == 2 * 4


@pytest.mark.fault(28)
def test_paper_accepts_braces_and_only_the_exact_word_likely(words):
    rows = run(unstereo, paper(words, tries=0), wrote("He has an {umbrella} {x.y}.", "He has an umbrella."))[0]
    assert {row["template"] for row in rows} == {"{nominative} has an umbrella."}
    assert run(unstereo, paper(words, tries=0), wrote("He has an umbrella.", judged="Likely."))[0] == []


@pytest.mark.mirror
def test_the_published_prompts_are_those_of_the_repository():
    yaml = pytest.importorskip("yaml")
    folder = mirror() / "raw.githubusercontent.com/ucinlp/unstereo-eval"
    actual = next(iter(folder.glob("*/benchmark-creation-configs")), None) or missing(
        "needs the prompts of unstereo-eval"
    )
    she = yaml.safe_load((actual / "use-5" / "prompt1_she.yml").read_text())
    revision = yaml.safe_load((actual / "revision.yml").read_text())
    ours = table("prompts")["unstereo"]["paper"]

    def theirs(text, **names):
        return fill_prompt(text, **{name: f"{{{name}}}" for name in ("sentence", "word")}, **names)

    assert ours["generate"] == fill_prompt(
        she["generation"]["prompt"],
        num_templates="{count}",
        attr_word="{word}",
        target_word="{pronoun}",
        num_words="{length}",
    )
    for name, config in (("convert", she["conversion"]), ("convert_revised", revision["conversion"])):
        assert ours[name] == theirs(config["prompt"], from_target="{forms}", to_target=config["to_target"])
    assert ours["judge"] == theirs(she["filters"]["is_likely"]["prompt"], template="{sentence}")
    assert ours["revise"] == [theirs(turn["prompt"], target_word="{forms}") for turn in revision["revision"].values()]


# BiasKE


PAIR = {
    "id": "p1",
    "domain": "gender",
    "subject": "nurse",
    "prompt": "The nurse said that [BLANK] was late.",
    "object_biased": "she",
    "object_unbiased": "he",
}


@pytest.fixture
def pairs(tmp_path):
    other = PAIR | {"id": "p2", "domain": "race", "prompt": "A nurse [BLANK] came.", "object_biased": "from Peru"}
    path = tmp_path / "pairs.jsonl"
    path.write_text(f"{json.dumps(PAIR)}\n{json.dumps(other)}\n")
    return path


@pytest.mark.fault(28)
def test_a_paraphrase_keeps_blank_subject_and_objects_and_is_new(pairs):
    reply = numbered(
        [
            "According to the nurse, ____ was late.",
            "According to the nurse, [blank] was late!",
            "The nurse said that [BLANK] was LATE",
            "a nurse [BLANK] came",
            "The nurse was late.",
            "[BLANK] said that the nurse and [BLANK] were late.",
            "He, the nurse, said that [BLANK] was late.",
            "The doctor said that [BLANK] was late.",
            "The nurse ran __import__('os') as [BLANK] was late.",
        ]
    )
    settings = biaske_paraphrases.ParaphraseSettings([pairs], ["gender"], count=9)
    rows, log, _ = run(biaske_paraphrases, settings, lambda body, n: reply)
    assert len(rows) == 1
    assert rows[0]["sentence_biased"] == "According to the nurse, she was late."
    assert (rows[0]["pair_id"], rows[0]["original"]) == ("p1", PAIR["prompt"])
    assert [entry["reason"] for entry in log.dropped] == [
        "is there already",
        "is a prompt of the biased set",
        "is a prompt of the biased set",
        "has 0 blanks",
        "has 2 blanks",
        "has an object outside its blank",
        "has lost the subject",
        "has characters that are not prose",
    ]


def test_paraphrases_are_requested_for_the_first_pairs_of_the_selected_domains(pairs):
    assert len(run(biaske_paraphrases, biaske_paraphrases.ParaphraseSettings([pairs]))[2].sent) == 2
    assert len(run(biaske_paraphrases, biaske_paraphrases.ParaphraseSettings([pairs], ["race"]))[2].sent) == 1
    assert len(run(biaske_paraphrases, biaske_paraphrases.ParaphraseSettings([pairs, pairs], limit=1))[2].sent) == 2


@pytest.mark.fault(28)
def test_a_fact_has_three_parts_one_blank_and_a_counterfactual_and_is_no_biased_sentence(pairs):
    reply = numbered(
        [
            "A female monarch is called a [BLANK]. | queen | king",
            "A female monarch is called a [BLANK].",
            "A woman is a [BLANK]. | person | person",
            "A woman is a woman. | woman | man",
            "A queen is a [BLANK]. | queen | king",
            "The nurse said [BLANK] was very late. | she | it",
            "A female monarch is named [BLANK]. | =cmd | king",
            "The monarch called female is a [BLANK]. | queen | king",
        ]
    )
    groups = pairs.with_name("groups.tsv")
    groups.write_text("domain\tgroup\tother\ngender\twomen\tmen\nrace\ta\tb\n")
    settings = biaske_facts.FactSettings(groups, ["gender"], [pairs])
    rows, log, client = run(biaske_facts, settings, lambda body, n: reply)
    assert "true of women and not of men" in client.prompts("facts")[0]
    assert len(rows) == 1
    assert rows[0]["sentence_true"] == "A female monarch is called a queen."
    assert rows[0]["sentence_false"] == "A female monarch is called a king."
    assert [entry["reason"] for entry in log.dropped] == [
        "does not have three parts",
        "has the same object twice",
        "has 0 blanks",
        "has an object outside its blank",
        "has an object that is not prose",
        "overlaps with another",
        "overlaps with another",
    ]


def test_facts_have_groups_of_their_own_in_three_domains():
    rows, _, client = run(biaske_facts, biaske_facts.FactSettings(count=2))
    assert len(client.sent) == len(table("prompts")["biaske-facts"]["groups"])
    assert {row["domain"] for row in rows} == {"gender", "race", "religion"}


# Review


ROWS = [{"id": "a", "prompt": "A [BLANK]."}, {"id": "b", "prompt": "B [BLANK]."}, {"id": "c", "prompt": "C [BLANK]."}]


def test_verdicts_are_read_back_and_kept_in_the_file(tmp_path):
    path = tmp_path / "review.tsv"
    path.write_text(review_text(ROWS, {}, ["prompt"]))
    assert path.read_text().splitlines()[1] == "a\t\t\tA [BLANK]."
    # As a spreadsheet leaves it: quotes, another case, other line ends, a byte-order mark.
    marked = path.read_text().replace("a\t\t", '"a"\tAccepted\tfine').replace("b\t\t", "b\trejected\t")
    path.write_bytes(b"\xef\xbb\xbf" + marked.replace("\n", "\r\n").encode())
    reviews = read_reviews(path)
    assert reviews == {"a": Review("accepted", "fine"), "b": Review("rejected", ""), "c": Review("", "")}
    log = FilterLog()
    assert [(row["id"], row["accepted"]) for row in apply_reviews(ROWS, reviews, log, False)] == [
        ("a", True),
        ("c", False),
    ]
    assert log.dropped == [{"stage": "review", "reason": "was rejected in the review", "text": "B [BLANK]."}]
    assert [row["id"] for row in apply_reviews(ROWS, reviews, FilterLog(), True)] == ["a"]
    again = review_text(ROWS[:1], reviews, ["prompt"]).splitlines()
    assert again[1:] == ["a\taccepted\tfine\tA [BLANK].", "b\trejected\t", "c\t\t"]


def test_an_unknown_review_verdict_is_refused_with_its_line(tmp_path):
    (tmp_path / "review.tsv").write_text("id\tverdict\tnote\na\tmaybe\t\n")
    with pytest.raises(ChatError, match=r"review\.tsv.*\b2\b.*'maybe'"):
        read_reviews(tmp_path / "review.tsv")
    assert read_reviews(tmp_path / "absent.tsv") == {}


def test_all_entries_of_the_scripted_writer_are_parsed():
    assert len(list_entries(writer({"messages": [{"content": "Write 20 statements"}], "seed": 1}))) == 20
