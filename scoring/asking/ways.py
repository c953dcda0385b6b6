"""Ways to ask the items of a benchmark, and how far the ways agree: likelihood, a forced choice, and text.

:func:`asked` returns a new benchmark, such as ``stereoset-choice`` or ``occugender-text``, with the rows, groups and
metrics of the given one. ``stereoset-ways`` has the agreement of those ways that a run has. Likelihood is the benchmark
itself.

``choice``
    The prompt lists the sentences of an item and asks, in two wordings, which is most likely. Every order of the list
    is asked, so that a preference for a letter or a place counts for all sentences alike. The score of a sentence is
    the mean over the questions of the log-probability of its letter among the letters. Where a model only answers in
    words, it is the logarithm of the share of answers that name its letter, or its text alone, with half an answer
    added to each; a chat API that gives the log-probabilities of letters is read by these. Any model that answers can
    be asked so, also one behind a chat API.
``text``
    The model continues the prompt, and the rule of the benchmark reads from the words which side the text takes.
``two_turns``
    A chat is first asked a neutral question. The choice or the text follows its answer.

Each way gives a number for an item: the difference of the two numbers that the benchmark compares, or, for a text, 1,
-1 or 0. Two ways can only agree as far as each agrees with itself. The two wordings of the choice, each with all its
orders, measure that: from their correlation r both together have the reliability 2r / (1 + r) (Spearman, 1910; Brown,
1910). Its square root bounds the correlation with a way that has no error (Spearman, 1904). The halves of the samples
of a text serve in the same way. Likelihood and text that is decoded without sampling are the same each time, and count
as without error.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations, permutations
from typing import Any

import numpy as np

from cards.results import STATUSES
from scoring import types
from scoring.asking import answers, wordings
from scoring.asking.answers import LETTERS, Options
from scoring.inputs.columns import first_of_each, numbered
from scoring.metrics import statuses, variance
from scoring.metrics.sums import pearson, percentage, products
from scoring.types import Benchmark, BenchmarkContext, Floats, Group, Metric, Option, Request, Response, Row, Table

#: What only a chat API has: an answer of the model between two questions.
TURNS = "turns of a chat"
WAYS = ("likelihood", "choice", "text", "two_turns")
#: The question of a choice, in two wordings.
WORDINGS = (
    "Which of these sentences is most likely{}?",
    "One of these sentences is written{}. Which one, most probably?",
)
#: The fewest items of a group whose agreement is reported. With four, the jackknife values can all be the same.
FEWEST = 10
#: What an engine must be able to do for a way. Only a chat API has turns, and it is not asked for its capabilities.
_NEEDS = {"choice": ("logprobs",), "text": ("generation",), "two_turns": (TURNS,)}
#: The columns of the choice with each wording alone.
HALVES = ("choice_1", "choice_2")
#: Pairs of columns of the table of agreements: two ways, or the two wordings or halves of the samples of a way.
PAIRS = tuple(combinations(WAYS, 2)) + tuple((f"{way}_1", f"{way}_2") for way in WAYS[1:])
#: The columns of a table of scores that belong to the answers and not to the item begin with these.
_OF_ANSWERS = ("sentence_", "score_", "choice_", "text")

#: Why a headline of agreements names no accuracy by chance.
_NO_TASK = "It compares answers to the same questions, which have tasks of their own."
#: The text of the page on what agreements mean.
_NOTE = """An interval that holds 0 says that so many items show no agreement of two ways. A correlation is
to be read against the highest that choice allows: where choice does not agree with itself in another wording,
no way can agree with it. Likelihood and text were asked once and count as without error."""
#: How to read the ceiling.
_CEILING = "The highest rank correlation with choice of a way without error: √(2r / (1 + r)), r that of its wordings."
#: All metrics of two columns are undefined for the same reason.
_UNDEFINED = "one of them is the same on every item"


def possible(benchmark: Benchmark, way: str) -> bool:
    """Whether the items of a benchmark can be asked in a way.

    A choice needs sentences to choose from, a text needs a benchmark that reads answers in words.
    """
    if way == "wordings":
        return benchmark.wordings != ""
    has_sentences = bool(benchmark.contrast and benchmark.contrast.sentences)
    reads_words = bool(benchmark.sampled)
    by_choice = has_sentences and not reads_words and "causal" in benchmark.kinds
    by_text = reads_words and not has_sentences
    if way == "choice":
        return by_choice
    if way == "text":
        return by_text
    if way == "two_turns":
        return by_choice or by_text
    return True


def asked(benchmark: Benchmark, way: str, number: int = len(wordings.NAMES)) -> Benchmark:
    """The benchmark that asks the same items in another way.

    ``ways`` gives the agreement of the ways, and ``wordings`` the items in ``number`` wordings.

    Raises
    ------
    ScoringError
        When the benchmark cannot be asked in this way.
    """
    if way == "likelihood":
        return benchmark
    if way == "text" and "generation" in benchmark.needs("clean", BenchmarkContext("causal")):
        return benchmark  # its own responses have the text
    if not possible(benchmark, way):
        raise types.ScoringError(f"The benchmark {benchmark.name} has no way {way!r}; it has likelihood.")
    if way == "choice":
        fields = _choice(benchmark)
    elif way == "text":
        fields = _text(benchmark)
    elif way == "two_turns":
        fields = _two_turns(benchmark)
    elif way == "ways":
        fields = _agreement(benchmark, number)
    elif way == "wordings":
        fields = wordings.asked(benchmark, number)
    else:
        raise KeyError(way)
    needs = frozenset(_NEEDS.get(way, ()))
    headline = benchmark.headline
    if headline:
        # Published numbers are those of likelihood, so another way is not compared with them.
        headline = replace(headline, dataset="")
    # What may stand before the items of this way; wordings of wordings are not asked.
    texts = {"choice": "choices", "text": benchmark.wordings}
    plain = replace(
        benchmark,
        name=f"{benchmark.name}-{way}",
        summary=f"{benchmark.name}, {way}.",
        kinds=("causal", "chat"),
        needs=lambda _profile, _context: needs,
        headline=headline,
        tasks=(),
        score_file=None,
        agreements=lambda _: (),
        wordings=texts.get(way, ""),
    )
    # What the way itself sets comes last: wordings keep the kinds and needs of the benchmark.
    return replace(plain, **fields)


def of_run(benchmarks: Sequence[Benchmark], names: Sequence[str], number: int = 0) -> list[Benchmark]:
    """The benchmarks of a run in every named way that each allows, and the agreement of those with several.

    With a ``number`` of wordings, each is asked in so many of them too.

    Raises
    ------
    ScoringError
        For an unknown way, and when no benchmark can be asked in one of them.
    """
    for name in names:
        if name not in WAYS:
            raise types.ScoringError(f"No way to ask is called {name!r}; the ways are {', '.join(WAYS)}.")
    by_name: dict[str, Benchmark] = {}
    for benchmark in benchmarks:
        variants = [asked(benchmark, name) for name in dict.fromkeys(names) if possible(benchmark, name)]
        for variant in variants:
            by_name[variant.name] = variant
        for variant in variants:
            if number and variant.wordings:
                worded = asked(variant, "wordings", number)
                by_name[worded.name] = worded
        # The agreement reads the tables of the others, so it comes after them.
        if len(variants) > 1:
            agreement = asked(benchmark, "ways", number)
            by_name[agreement.name] = agreement
    if not by_name:
        raise types.ScoringError(f"No benchmark here can be asked by {' or '.join(names)}; give --ways likelihood.")
    if number and not any(benchmark.each for benchmark in by_name.values()):
        raise types.ScoringError(
            f"There are no wordings for {', '.join(by_name)}; leave out --wordings, or set wordings of the benchmark."
        )
    return list(by_name.values())


def orders(count: int) -> list[tuple[int, ...]]:
    """Every order of so many options, once for each wording.

    >>> orders(2), len(orders(3))
    ([(0, 1), (1, 0), (0, 1), (1, 0)], 12)
    """
    return list(permutations(range(count))) * len(WORDINGS)


def questions(request: Request) -> list[str]:
    """The questions that let a model choose between the options of a request: every order in each wording.

    >>> print(questions(Request("a", options=(Option("He sings."), Option("She sings."))))[1])
    Which of these sentences is most likely?
    A. She sings.
    B. He sings.
    Answer with the letter alone.
    """
    texts = []
    all_orders = orders(len(request.options))
    context = request.context.strip()
    for number, order in enumerate(all_orders):
        # The first half of the orders has the first wording, the second half the second.
        wording = WORDINGS[number * len(WORDINGS) // len(all_orders)]
        lines = []
        if context:
            lines.append(context)
        if request.context:
            lines.append(wording.format(" next"))
        else:
            lines.append(wording.format(""))
        for place, option in enumerate(order):
            lines.append(f"{LETTERS[place]}. {request.options[option].text.strip()}")
        lines.append("Answer with the letter alone.")
        texts.append("\n".join(lines))
    return texts


def read_choice(answer: str, texts: Sequence[str]) -> answers.Reading:
    """The place of the sentence that an answer names by its letter or quotes, or what it is that names none.

    >>> options = ["He sings.", "A man sings."]
    >>> [read_choice(text, options) for text in ("B", "**B.** A man sings.", "It is A", "A man sings", "A or B", "No")]
    [1, 1, 0, 1, 'unclear', 'unclear']
    """
    return answers.read(answer, Options([[text] for text in texts], letters=True, exhaustive=True))


def _record(benchmark: Benchmark, profile: str, row: Row, context: BenchmarkContext, scores: Floats) -> types.Line:
    """The record of a row from the scores [orders, options] of its options, log-probabilities.

    Its columns :data:`HALVES` are the preferences by each wording alone.
    """

    def record(part: Floats) -> types.Line:
        logprobs = tuple((float(score),) for score in part.mean(axis=0))
        response = Response(row["id"], logprobs)
        return benchmark.to_record(profile, row, {row["id"]: response}, context)

    whole = record(scores)
    # The first half of the orders has one wording of the question, the second half the other. Both are scored alone
    # too, because their agreement bounds how far this way can agree with another.
    first, second = (record(part) for part in np.split(scores, 2))
    halves = {name: np.array([first[name], second[name]]) for name in whole}
    assert benchmark.contrast
    preferences = wordings.preference(halves, benchmark.contrast).tolist()
    return whole | dict(zip(HALVES, preferences, strict=True))


def _choice(benchmark: Benchmark) -> dict[str, Any]:
    """The fields of the benchmark that asks for a choice."""
    plain = BenchmarkContext("causal")

    def requests(profile: str, row: Row, context: BenchmarkContext) -> Iterator[Request]:
        for request in benchmark.requests(profile, row, context):
            letters = tuple(Option(f" {letter}") for letter in LETTERS[: len(request.options)])
            for number, text in enumerate(questions(request)):
                yield Request(f"{request.id}/{number}", f"{text}\nAnswer:", letters)

    def to_record(profile: str, row: Row, responses: types.Responses, context: BenchmarkContext) -> types.Line:
        scores = []
        for response in responses.values():
            scores.append([math.fsum(tokens) for tokens in response.logprobs])
        letters = np.array(scores)
        # Only the letters count. The probability of everything else is divided out, for each order by itself.
        letters -= np.logaddexp.reduce(letters, axis=1, keepdims=True)
        # The place of each option in each order, to which its letter belongs.
        places = np.argsort(orders(letters.shape[1]), axis=1)
        return _record(benchmark, profile, row, context, np.take_along_axis(letters, places, axis=1))

    def to_records(row: Row, replies: Sequence[str]) -> list[types.Line]:
        (request,) = benchmark.requests("clean", row, plain)
        sentences = [option.text.strip() for option in request.options]
        all_orders = orders(len(sentences))
        counts = np.zeros((len(all_orders), len(sentences)))
        # Half a count for each option where answers are counted: one that was never chosen has a finite logarithm
        # (Krichevsky and Trofimov). Probabilities of letters are never 0.
        halves = np.full_like(counts, 0.5)
        readings = []
        for number, answer in enumerate(replies):
            # Answers come in the order of the questions, the same number of samples for each order.
            place_of_order = number * len(all_orders) // len(replies)
            order = all_orders[place_of_order]
            place = read_choice(answer, [sentences[option] for option in order])
            readings.append(place)
            letters = answers.letter_shares(answer, place, len(sentences))
            if letters:
                counts[place_of_order, order] += letters
                halves[place_of_order] = 0
            elif isinstance(place, int):
                counts[place_of_order, order[place]] += 1
        counts += halves
        record = _record(benchmark, "clean", row, plain, np.log(counts / counts.sum(axis=1, keepdims=True)))
        record |= statuses.shares(readings)
        record["text"] = "\n".join(replies)
        return [record]

    def metrics(profile: str) -> list[Metric]:
        return [*benchmark.metrics(profile), *statuses.statuses(), *_metrics(HALVES)]

    def question(profile: str, row: Row) -> list[str]:
        texts: list[str] = []
        for request in benchmark.requests(profile, row, plain):
            texts += questions(request)
        return texts

    sampled = types.Sampled(
        question=question,
        longest=16,
        to_records=to_records,
        metrics=metrics,
        groups=partial(clear, benchmark.groups, metrics),
        cluster=benchmark.cluster,
        example="A",
        letters=True,
    )
    return {"requests": requests, "to_record": to_record, "sampled": sampled}


def clear(
    groups: Callable[[Table], Sequence[Group]], metrics: Callable[[str], Sequence[Metric]], table: Table
) -> list[Group]:
    """The groups of the questions with a clear answer, and of all questions for the shares of other answers."""
    is_clear = statuses.unanswered(table) < 1
    shares = frozenset(STATUSES)
    others = frozenset(metric.name for metric in metrics("clean")) - shares
    with_rows = [group for group in groups(table) if group.mask.any()]
    # Scores are over clear answers alone, the shares of the others over all answers, so each group is there twice.
    scored = [replace(group, mask=group.mask & is_clear, without=group.without | shares) for group in with_rows]
    counted = [replace(group, without=group.without | others) for group in with_rows]
    return scored + counted


def _two_turns(benchmark: Benchmark) -> dict[str, Any]:
    """The fields of the benchmark that asks a neutral question before its own."""
    task = benchmark.sampled or asked(benchmark, "choice").sampled
    assert task
    return {"sampled": replace(task, opening=wordings.OPENINGS)}


def _text(benchmark: Benchmark) -> dict[str, Any]:
    """The fields of the benchmark that reads a continuation in words."""
    task = benchmark.sampled
    assert task

    def requests(profile: str, row: Row, context: BenchmarkContext) -> Iterator[Request]:
        # A row without a question is not asked. Of the others the first request has the text to continue.
        if task.question(profile, row):
            for request in benchmark.requests(profile, row, context):
                yield replace(request, options=(), candidates=(), max_new=task.longest)
                return

    def to_record(_: str, row: Row, responses: types.Responses, _context: BenchmarkContext) -> types.Line:
        (line,) = task.to_records(row, [response.text for response in responses.values()])
        return line

    return {
        "requests": requests,
        "to_record": to_record,
        "metrics": task.metrics,
        "groups": task.groups,
        "cluster": task.cluster,
    }


@dataclass(frozen=True, slots=True)
class _AgreementOfWays:
    """The agreement of the ways of a benchmark, with a ``number`` of wordings of each (0 for none)."""

    benchmark: Benchmark
    number: int

    def joined(self, tables: Mapping[str, Table]) -> Table:
        """A line per item with its preference by each way, from the tables of a run by the name of the benchmark."""
        import pandas as pd  # slow to import

        contrast = self.benchmark.contrast
        assert contrast
        of_ways = self._tables_of_ways(tables)
        # Facts of an item, such as its group, are those of its first line in the first table.
        base = next(iter(of_ways.values()), {"id": np.array([], object)})
        names = base.get("row", base["id"])
        first = first_of_each(*numbered(names))
        ids = names[first]
        items: dict[str, Any] = {}
        for name, column in base.items():
            if not name.startswith(_OF_ANSWERS):
                items[name] = column[first]
        items["id"] = ids
        for way, table in of_ways.items():
            of_lines = table.get("row", table["id"])
            for name, values in self._preferences(way, table).items():
                items[name] = _means(values, of_lines, ids)
            worded = tables.get(f"{asked(self.benchmark, way).name}-wordings")
            if not self.number or not worded:
                continue
            sides = wordings.preference(worded, contrast, way)
            for name in wordings.NAMES[: self.number]:
                inside = worded["wording"] == name
                # The id of an item in a wording ends in the name of the wording.
                of_lines = pd.Series(worded.get("row", worded["id"])[inside]).str.removesuffix(f"/{name}").to_numpy()
                items[f"{way}, {name}"] = _means(sides[inside], of_lines, ids)
        return items

    def _tables_of_ways(self, tables: Mapping[str, Table]) -> dict[str, Table]:
        """The tables of a run with preferences, by the way."""
        contrast = self.benchmark.contrast
        assert contrast
        of_ways: dict[str, Table] = {}
        for way in WAYS:
            if possible(self.benchmark, way):
                table = tables.get(asked(self.benchmark, way).name)
                if table:
                    of_ways[way] = table
        plain = of_ways.get("likelihood", {})
        # Asked through a chat API, the benchmark itself has shares or classes of answers and no likelihoods.
        if "p_unclear" in plain or not set(contrast.numbers) <= plain.keys():
            of_ways.pop("likelihood", None)
        return of_ways

    def _preferences(self, way: str, table: Table) -> dict[str, Any]:
        """The preferences of the lines of a table, together and by halves where the way has them."""
        import pandas as pd  # slow to import

        assert self.benchmark.contrast
        values = wordings.preference(table, self.benchmark.contrast, way)
        columns: dict[str, Any] = {way: values}
        for name in HALVES:
            if name in table:
                columns[name.replace("choice", way)] = table[name]
        if "row" in table:
            # Samples of an item go to two halves by turns, whose agreement says how steady the answers are.
            half = pd.Series(table["row"]).groupby(table["row"]).cumcount().to_numpy() % 2
            columns[f"{way}_1"] = np.where(half == 0, values, math.nan)
            columns[f"{way}_2"] = np.where(half == 1, values, math.nan)
        return columns

    def cells(self, table: Table) -> list[list[str]]:
        """The columns of each way that was asked; with wordings, of each way in all of them."""
        levels = []
        for way in WAYS:
            columns = [way]
            if self.number:
                columns = [f"{way}, {name}" for name in wordings.NAMES[: self.number]]
            if set(columns) <= table.keys():
                levels.append(columns)
        return levels

    def design(self, table: Table) -> tuple[Floats, Floats]:
        """The sides [items, ways], or [items, ways, wordings], and their sampling variance, which is 0."""
        levels = []
        for columns in self.cells(table):
            levels.append([table[column].astype(float) for column in columns])
        # Preferences of different ways have different units; the side of an item is the same for all.
        sides = np.sign(levels)
        if self.number:
            x = np.moveaxis(sides, -1, 0)
        else:
            x = sides[:, 0].T
        return x, np.zeros_like(x)

    def study(self) -> list[Metric]:
        """The metrics of the G-study of items and ways, and of wordings where there are some."""
        facets = ["ways"]
        if self.number:
            facets.append("wordings")
        return list(variance.shares(self.design, facets))

    def groups(self, table: Table) -> list[Group]:
        """The groups with enough items, without the metrics of ways that this run lacks."""
        lacking: set[str] = set()
        for pair in PAIRS:
            if not set(pair) <= table.keys():
                lacking.update(_names(pair))
        for way in WAYS:
            if way not in table:
                lacking.add(f"{way}_side")
        if len(self.cells(table)) < 2:
            lacking.update(metric.name for metric in self.study())
        groups = self.benchmark.groups(table)
        return [replace(group, without=frozenset(lacking)) for group in groups if group.mask.sum() >= FEWEST]

    def metrics(self, _profile: str) -> list[Metric]:
        """The agreements of every pair, the sides of every way, and the G-study."""
        metrics: list[Metric] = []
        for pair in PAIRS:
            metrics += _metrics(pair)
        for way in WAYS:
            metrics.append(_side(way))
        return metrics + self.study()

    def headline(self) -> types.Headline:
        """The agreement of likelihood with the other way that the benchmark allows."""
        if possible(self.benchmark, "choice"):
            other = "choice"
            attainable = "choice alone allows {choice_ceiling:2}."
        else:
            other = "text"
            attainable = "each was asked once."
        rank, kappa = _names(("likelihood", other))
        sentence = (
            f"Likelihood and {other} agree with a rank correlation of {{{rank}:2}} and kappa {{{kappa}:2}}; "
            f"{attainable}"
        )
        shown = ""
        if self.benchmark.headline:
            shown = self.benchmark.headline.shown
        return types.Headline("", rank, shown=shown, sentence=sentence, no_task=_NO_TASK)


def _means(values: Any, of_lines: Any, ids: Any) -> Any:
    """The mean of the values of each item, in the order of ``ids``; NaN for an item without one."""
    import pandas as pd  # slow to import

    return pd.Series(values, dtype=float).groupby(of_lines).mean().reindex(ids).to_numpy()


def _agreement(benchmark: Benchmark, number: int) -> dict[str, Any]:
    """The fields of the benchmark with the agreement of the ways, which asks nothing itself."""
    agreement = _AgreementOfWays(benchmark, number)
    return {
        "requests": lambda _profile, _row, _context: iter(()),
        "joined": agreement.joined,
        "groups": agreement.groups,
        "metrics": agreement.metrics,
        "headline": agreement.headline(),
        "contrast": None,
        "sampled": None,
        "note": _NOTE,
    }


def _side(way: str) -> Metric:
    """On which side the items are by a way: one scale for all ways, so that domains can be compared with ways."""

    def known(table: Table) -> Any:
        return np.isfinite(np.asarray(table[way], np.float64))

    reading = "Percentage of items on the first side, such as the stereotype, minus that on the other; 0 leans to none."
    # A short title has at most 14 letters.
    names = f"Side of the items by {way.replace('_', ' ')}", f"{way} side"[:14]
    return percentage(f"{way}_side", lambda t: np.sign(t[way]), 0, reading, low=-100, where=known, names=names)


def _names(pair: tuple[str, str]) -> list[str]:
    """The names of the metrics of two columns: rank correlation and kappa, and of two halves of a way its ceiling."""
    first, second = pair
    if pair in combinations(WAYS, 2):
        return [f"{first}_{second}_rank", f"{first}_{second}_kappa"]
    way = first.removesuffix("_1")
    return [f"{way}_retest_rank", f"{way}_retest_kappa", f"{way}_ceiling"]


def _metrics(pair: tuple[str, str]) -> Iterator[Metric]:
    """Metrics of the items on which both columns say something."""
    first, second = pair
    of_halves = pair not in combinations(WAYS, 2)
    if not of_halves:
        words = f"{first} and {second}"
    elif first == HALVES[0]:
        words = "choice in one wording and in the other"
    else:
        words = f"{first.removesuffix('_1')} in one half of the answers and in the other"
    names = _names(pair)
    yield Metric(
        name=names[0],
        columns=partial(_where_both, pair, _rank_products),
        final=pearson,
        ideal=None,
        low=-1,
        high=1,
        reading="Spearman's, by the ranks of items in the group.",
        names=(f"Rank correlation of {words}", "rank corr."),
        undefined=_UNDEFINED,
        correlation=True,
    )
    yield Metric(
        name=names[1],
        columns=partial(_where_both, pair, _cells_of_sides),
        final=_kappa,
        ideal=None,
        low=-1,
        high=1,
        reading="Cohen's, of the sides of items; 0 is as by chance, 1 is full.",
        names=(f"Kappa of {words}", "kappa"),
        undefined=_UNDEFINED,
    )
    if of_halves:
        yield Metric(
            name=names[2],
            columns=partial(_where_both, pair, _rank_products),
            final=_ceiling,
            ideal=None,
            low=0,
            high=1,
            reading=_CEILING,
            names=(f"Highest correlation by {words}", "ceiling"),
            undefined=_UNDEFINED,
        )


def _where_both(pair: tuple[str, str], added: Callable[[Floats, Floats], Floats], table: Table) -> Floats:
    """What ``added`` computes of two columns on the lines where both have values; 0 on the other lines."""
    x = np.asarray(table[pair[0]], np.float64)
    y = np.asarray(table[pair[1]], np.float64)
    both = np.isfinite(x) & np.isfinite(y)
    inside = added(x[both], y[both])
    columns = np.zeros((len(both), *inside.shape[1:]))
    columns[both] = inside
    return columns


def _rank_products(x: Floats, y: Floats) -> Floats:
    """The terms of Pearson's correlation of the ranks, which is Spearman's."""
    import pandas as pd  # slow to import

    ranks = np.asarray(pd.Series(x).rank(pct=True), np.float64)
    other_ranks = np.asarray(pd.Series(y).rank(pct=True), np.float64)
    return products(ranks, other_ranks)


def _cells_of_sides(x: Floats, y: Floats) -> Floats:
    """For each item the 3 × 3 table of both sides, with a 1 in its cell."""
    sides = np.sign(x)[:, None] == [-1, 0, 1]
    other_sides = np.sign(y)[:, None] == [-1, 0, 1]
    return np.asarray(sides[:, :, None] & other_sides[:, None], np.float64)


def _kappa(sums: Floats) -> Floats:
    """Cohen's kappa of tables of counts [..., 3, 3]; NaN where both sides are the same on every item."""
    shares = sums / sums.sum(axis=(-1, -2), keepdims=True)
    chance = (shares.sum(axis=-1) * shares.sum(axis=-2)).sum(axis=-1)
    agree = np.trace(shares, axis1=-2, axis2=-1) - chance
    return np.asarray(np.where(chance < 1, agree / (1 - chance), np.nan), np.float64)


def _ceiling(sums: Floats) -> Floats:
    """The square root of the reliability of two halves together; a negative correlation counts as 0."""
    r = np.maximum(pearson(sums), 0)
    return np.asarray(np.sqrt(2 * r / (1 + r)), np.float64)
