"""Measurements: how batching changes the answers of a network, measured before the requests are answered.

Batching is only allowed to change speed. Architectures differ in what they take: some ignore position
ids, some count a local window in rows instead of positions, some let padding reach other tokens, some
keep a state that padding on the left spoils. A list of such architectures would never be complete, so each
network is measured in its own dtype: made-up token ids go through it once as plain sequences, one at a
time, and once in the way to be tested, at the length that the requests will use. Ways that change the
answers by more than rounding are not used for this network.

The measure is the difference of logits relative to their spread over the vocabulary, root mean square, at
the position where it is largest. Rounding gives about 1e-6 in float32 and 1 % in bfloat16; a lost or
added token gives 10 % and more.
"""

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import transformers

from cards.common.stored import Stored
from scoring.inference.batching import Tree, out_of_memory, plan
from scoring.inference.fetching import first_sentence
from scoring.inference.network import UNSUITED, Network
from scoring.inference.tokens import Query
from scoring.types import ScoringError

#: Positions of a sequence at which logits are compared.
READ = 12
#: Plain sequences whose logits are kept: positions times vocabulary, 20 MB each for 256,000 tokens.
KEPT = 8
#: Queries at each end of a batch whose answers are compared; those between them only fill the batch.
COMPARED = 3
#: The shortest length that is probed, and the shortest row that shares contexts.
SHORTEST = 32
MEASURED = Stored("a measurement of a network", "remove it, and the network is measured again")
#: The largest relative difference of logits that quantization or half precision explains.
COARSE = 0.25
_PADDING = "Sequences are only batched with others of their length, because padding changes the answers of this model "
#: The sentence about a way of batching that changes the answers of a network.
_FINDINGS = {
    "batches": "Sequences are computed one at a time, because their batch changes the answers of this model ({apart}).",
    "padsFalse": f"{_PADDING}({{apart}}).",
    "padsTrue": f"{_PADDING}({{apart}}).",
    "shares": "Contexts are shared in rows shorter than {length} tokens only, because longer ones change the answers "
    "of this model ({apart}).",
    "gaps": "Padding on the left is computed, because leaving it out changes the answers of this model ({apart}).",
}
_CHANCE = "so its scores depend on chance; fix the seed of its random parts in its config."
_LATER = (
    "so it gives no probability of a next token; set is_decoder in its configuration if it was trained as a decoder, "
    "or give it as a masked model."
)


def tolerance(dtype: torch.dtype) -> float:
    """The largest relative difference of logits that rounding explains.

    Eight units of the last place, and 2e-4 for float32 and better, whose kernels differ by more than the
    last place: float32 2e-4, float16 0.8 %, bfloat16 6 %.

    >>> tolerance(torch.float32), tolerance(torch.bfloat16)
    (0.0002, 0.0625)
    """
    return max(8 * torch.finfo(dtype).eps, 2e-4)


def difference(first: torch.Tensor, second: torch.Tensor) -> float:
    """The largest difference of rows of logits (rows, vocabulary), relative to the spread of ``second``.

    >>> difference(torch.tensor([[0.0, 2.0]]), torch.tensor([[1.0, 3.0]]))
    0.0
    >>> round(difference(torch.tensor([[0.0, 2.2]]), torch.tensor([[0.0, 2.0]])), 6)
    0.1
    """
    first = first.double()
    second = second.double()
    finite = first.isfinite()
    if not torch.equal(finite, second.isfinite()):
        return float("inf")
    first = _centred(first.masked_fill(~finite, 0.0))
    second = _centred(second.masked_fill(~finite, 0.0))
    spread = second.square().mean(-1).sqrt().clamp(min=torch.finfo(torch.float32).tiny)
    return float(((first - second).square().mean(-1).sqrt() / spread).max())


def _measurement(content: dict[str, Any]) -> tuple[Any, dict[str, str]]:
    """The value and the findings in a file of :data:`MEASURED`."""
    value, findings = content["value"], content["findings"]
    # JSON has no named tuples.
    if isinstance(value, list):
        padded, batched, cached = value
        value = GenerationMode(padded, batched, cached)
    return value, dict(findings)


def _centred(values: torch.Tensor) -> torch.Tensor:
    """Rows without their mean: a constant added to all logits of a row changes no probability."""
    return values - values.mean(-1, keepdim=True)


def described(distance: float | None) -> str:
    """A difference in words; None and infinity say that the code does not take the input."""
    if distance is None or distance == float("inf"):
        return "its code does not take such input"
    return f"logits differ by {distance:.2g} of their spread"


def rounded_up(length: int) -> int:
    """The next power of two, so that few lengths are probed.

    >>> rounded_up(33), rounded_up(64)
    (64, 64)
    """
    return 1 << max(length - 1, 0).bit_length()


class GenerationMode(NamedTuple):
    """How continuations are generated: rows padded on the left, rows of one length only, with a cache or without."""

    padded: bool
    batched: bool
    cached: bool


@dataclass
class Measurements:
    """Measurements of one network, each made once when it is needed; with a folder ``folder``, once for a machine.

    Attributes
    ----------
    network:
        The network.
    name:
        How errors name it.
    window:
        The most tokens that it takes; None when there is no bound.
    avoid:
        Token ids that a network may treat in a way of its own (padding, masks).
    findings:
        A sentence for each way of batching that changes its answers, for the report.
    folder:
        A folder for the measurements of this network, which later processes read; None for a network that is not
        known by its weights. A file that cannot be read or written costs the time of a measurement.
    """

    network: Network
    name: str
    window: int | None = None
    avoid: frozenset[int] = frozenset()
    findings: dict[str, str] = field(default_factory=dict)
    #: Whether its answers are not numbers; each request then says so by its id.
    broken: bool = False
    folder: Path | None = None
    _known: dict[tuple[Any, ...], Any] = field(default_factory=dict)
    _plain: dict[Query, torch.Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._weights = self._state()

    def _state(self) -> list[tuple[int, int]]:
        """Where the weights are, and how often each was changed: measurements of other weights are not kept."""
        state = []
        for weight in self.network.module.parameters():
            # Weights that were made in inference mode have no count of changes; they are not changed in place.
            version = -1
            if not weight.is_inference():
                version = weight._version
            state.append((weight.data_ptr(), version))
        return state

    def _once(self, what: str, longest: int, measure: Callable[[int], tuple[Any, bool]]) -> Any:
        """A measurement at the length for a longest sequence: as it is known or kept, or else made.

        ``measure`` makes it, and says whether it may be kept.
        """
        length = self._length(longest)
        if (what, length) in self._known:
            return self._known[what, length]
        path = None
        # Weights that were changed since they were loaded are not those of the folder.
        if self.folder and self._state() == self._weights:
            path = self.folder / f"{what}-{length}.json"
        stored = None
        if path:
            with suppress(ScoringError):
                stored = MEASURED.read(path, _measurement, ScoringError)
        if stored:
            value, findings = stored
            self.findings.update(findings)
        else:
            before = dict(self.findings)
            value, lasting = measure(length)
            if path and lasting and not self.broken:
                new = {name: text for name, text in self.findings.items() if before.get(name) != text}
                with suppress(OSError):
                    MEASURED.write(path, {"value": value, "findings": new})
        self._known[what, length] = value
        return value

    def check(self, longest: int = 0) -> None:
        """Refuses a network whose answers would not be what they are called, measured at a length.

        Raises
        ------
        ScoringError
            For a network that cannot be run on token ids, that answers the same question in two ways, or that is
            used as causal and lets a token depend on later ones.
        """
        self._once("check", longest, self._checked)

    def _checked(self, length: int) -> tuple[bool, bool]:
        """Compares four answers to one sequence; whether they were compared, and whether that may be kept."""
        before = self._ids(1, length // 2)
        after = self._ids(2, length // 2)
        other = self._ids(3, length // 2)
        first = _reading(before + after, range(0, len(before), max(len(before) // READ, 1)))
        dtype = str(self.network.dtype).removeprefix("torch.")
        try:
            once = self._alone([first])
            again = self._alone([first])
            self.broken = not bool(once.isfinite().all())
            # The first half stays: what is read there may not change with the tokens after it, nor with how many
            # follow.
            changed = self._alone([first._replace(ids=before + other)])
            shorter = self._alone([first._replace(ids=first.ids[:-1])])
        except UNSUITED as error:
            if out_of_memory(error):  # A request that does not fit says so.
                return False, False
            text = " ".join(f"{type(error).__name__}: {error}".split())[:200]
            raise ScoringError(
                f"{self.name} cannot be run in {dtype} on token ids alone ({text}); load it in float32, or give a "
                "language model that takes text only."
            ) from None
        if not self.broken:
            self._check_same(once, again, "gives another answer when it is asked again", _CHANCE)
            if self.network.kind == "causal":
                what = "is used as a causal model, but its answers depend on later tokens"
                self._check_same(once, changed, what, _LATER)
                self._check_same(once, shorter, what, _LATER)
        return True, True

    def _check_same(self, first: torch.Tensor, second: torch.Tensor, what: str, advice: str) -> None:
        """Refuses the network where two answers differ by more than its dtype explains."""
        most = tolerance(self.network.dtype)
        # Quantized products take scales and outliers from all tokens of a call, later ones included, and in half
        # precision another shape of a product can change the experts of a token.
        is_quantized = getattr(self.network.bare, "quantization_method", None) is not None
        if is_quantized or torch.finfo(self.network.dtype).bits < 32:
            most = COARSE
        distance = difference(first, second)
        if distance > most:
            raise ScoringError(f"{self.name} {what} (logits differ by {distance:.0%} of their spread), {advice}")

    def batches(self, longest: int) -> bool:
        """Whether several sequences of one length in a batch give what each gives alone."""

        def batches(length: int) -> Iterator[list[Query]]:
            for size in (length, length // 2):
                yield [_last(self._ids(n, size), length) for n in range(3)]

        return self._measured("batches", longest, batches)

    def pads(self, longest: int, *, hidden: bool) -> bool:
        """Whether sequences padded on the right to ``longest`` give what each gives alone.

        ``hidden`` adds sequences with hidden tokens after the first (padding on the left).
        """

        def batches(length: int) -> Iterator[list[Query]]:
            for sizes in ((length, length // 2 + 1, 7), (length // 2, 5, 3, length // 4)):
                queries = [_last(self._ids(n, size), length) for n, size in enumerate(sizes)]
                if hidden:
                    ids = self._ids(9, length // 2)
                    count = min(length // 4, len(ids) - 2)
                    queries.append(_reading(ids, range(count + 1, len(ids)))._replace(hidden=count))
                yield queries

        return self.batches(longest) and self._measured(f"pads{hidden}", longest, batches)

    def shares(self, longest: int) -> int:
        """The largest length, at most ``longest``, up to which prefix trees give what plain sequences give; or 0."""
        arguments = inspect.signature(self.network.bare.forward).parameters
        if self.network.kind != "causal" or "position_ids" not in arguments:
            self.findings["shares"] = "Contexts are not shared, because this model takes no position ids."
            return 0
        length = self._length(longest)
        least = min(SHORTEST, length)
        while length >= least:
            if self._measured("shares", length, self._branches, share=True):
                return length
            # Errors grow with length (rotary positions in half precision), so a shorter tree may still be right.
            length //= 2
        self.findings["shares"] = (
            "Contexts are not shared, because a row with branches changes the answers of this model."
        )
        return 0

    def gaps(self, longest: int) -> bool:
        """Whether padding on the left can be replaced by position ids: a gap, instead of hidden tokens."""

        def batches(length: int) -> Iterator[list[Query]]:
            queries = []
            for size in (length, length // 2):
                # Two sequences that begin alike, as two options after one context.
                for ids in (self._ids(size, 9), self._ids(size, 5) + self._ids(1, 3)):
                    queries.append(Query(ids, tuple(range(2, len(ids))), ids[2:], hidden=1, gap=size - len(ids)))
            yield queries
            yield queries[:1]

        return self._measured("gaps", longest, batches, share=True)

    def generates(self, longest: int) -> GenerationMode:
        """The fastest way to generate whose next-token logits equal those of plain sequences.

        Raises
        ------
        ScoringError
            When there is none.
        """
        mode: GenerationMode = self._once("generates", longest, self._generation)
        return mode

    def _generation(self, length: int) -> tuple[GenerationMode, bool]:
        """The fastest way to generate at a length, and whether that may be kept."""
        new = 3
        # The forced tokens need room in the window as well.
        if self.window:
            length = max(length - new, 4)
        # Each way has prompts of the lengths that it would put into one batch.
        sizes = {"padded": (length, length // 2, 3), "equal": (length, length), "single": (length,)}
        fastest = None
        error = None
        lasting = True
        # From the fastest way to the slowest: the first one whose answers are those of plain sequences is taken.
        for cached, batched in product((True, False), ("padded", "equal", "single")):
            prompts = [self._ids(seed, size) for seed, size in enumerate(sizes[batched])]
            try:
                distance = self._generation_apart(prompts, new, cached=cached)
            except UNSUITED as raised:
                error = raised
                lasting = lasting and not out_of_memory(raised)
                continue
            if fastest is None:
                fastest = distance
            if self.broken or distance <= tolerance(self.network.dtype):
                if batched != "padded":
                    how = "one at a time"
                    if batched == "equal":
                        how = "in batches of one length"
                    self.findings["generates"] = (
                        f"Continuations are generated {how}, because padding on the left changes the answers of this "
                        f"model ({described(fastest)})."
                    )
                if not cached:
                    self.findings["cache"] = "Continuations are generated without a cache, which changes the answers."
                return GenerationMode(batched == "padded", batched != "single", cached), lasting
        if error is not None and out_of_memory(error):
            return GenerationMode(padded=False, batched=False, cached=True), False
        reason = described(fastest)
        if error is not None:
            reason = first_sentence(error)
        raise ScoringError(
            f"{self.name} does not generate what its own next-token probabilities say, even alone and without a cache "
            f"({reason}); leave out benchmarks that generate."
        )

    def _generation_apart(self, prompts: Sequence[tuple[int, ...]], new: int, *, cached: bool) -> float:
        """The largest difference between next-token logits while generating and those of plain sequences."""
        forced = self._ids(77, new)
        choice = _Forced(forced, max(len(prompt) for prompt in prompts))
        generated = self.network.generate(
            prompts, new, [choice], use_cache=cached, output_logits=True, return_dict_in_generate=True
        )
        # Before each forced token, shape (prompts * forced, vocabulary); on the processor, as the plain answers are.
        steps = torch.stack([logits.float().cpu() for logits in generated.logits], dim=1).flatten(0, 1)
        queries = [_reading(ids + forced[:-1], range(len(ids) - 1, len(ids) + new - 1)) for ids in prompts]
        return difference(steps, self._alone(queries))

    def _measured(
        self, what: str, longest: int, batches: Callable[[int], Iterable[Sequence[Query]]], share: bool = False
    ) -> bool:
        """Whether batches of queries give what each query gives alone, measured once for a length."""

        def measure(length: int) -> tuple[bool, bool]:
            lasting = True
            try:
                distance = self._apart(batches(length), length, share=share)
            except UNSUITED as error:  # A way whose test does not fit into memory is not used either.
                distance = float("inf")
                lasting = not out_of_memory(error)
            same = distance <= tolerance(self.network.dtype)
            if not same:
                self.findings[what] = _FINDINGS[what].format(apart=described(distance), length=length)
            return same, lasting

        return bool(self._once(what, longest, measure))

    def _apart(self, batches: Iterable[Sequence[Query]], length: int, *, share: bool) -> float:
        """The largest difference between batches of queries and the same queries alone."""
        largest = 0.0
        for queries in batches:
            # Both ends of a batch: a state that leaks from row to row, or padding on a side, shows there.
            ends = [n for n in range(len(queries)) if n < COMPARED or n >= len(queries) - COMPARED]
            alone = torch.cat([self._alone_once(queries[n].spelled()) for n in ends])
            if not alone.isfinite().all():
                # Of a broken network nothing can be compared, and each request says so by its id.
                if self.broken:
                    return 0.0
                return float("inf")
            # With so large a reach attention costs nothing next to the weights, so all that can be shared is measured.
            trees = plan(queries, share=share, merge=share, reach=1e12, longest=2 * length)
            together: Any = self._answers(trees)
            answers = together.split([len(query.at) for query in queries])
            largest = max(largest, difference(torch.cat([answers[n] for n in ends]), alone))
        return largest

    def _alone_once(self, query: Query) -> torch.Tensor:
        """Logits of a plain sequence, computed once: most of the time of the measurements goes into these."""
        if query not in self._plain:
            # The oldest goes first, as a dict keeps the order in which it was filled.
            if len(self._plain) == KEPT:
                del self._plain[next(iter(self._plain))]
            self._plain[query] = self._alone([query])
        return self._plain[query]

    def _branches(self, length: int) -> Iterator[list[Query]]:
        """Queries with trees of so many tokens: two long branches, many short ones, and a plain sequence as long."""
        # Two long branches show whether one sees the other.
        context = self._ids(1, max(length // 4, 2))
        half = (length - len(context)) // 2
        long = [_last(context + self._ids(seed, half), length) for seed in (2, 3)]
        queries = list(long)
        # Many short ones show whether positions are counted by rows.
        context = self._ids(4, max(length // 2, 2))
        count = min(max((length - len(context)) // 3, 1), 12)
        for seed in range(5, 5 + count):
            queries.append(_last(context + self._ids(seed, 3), length))
        queries.append(_last(self._ids(30, length), length))
        yield queries
        yield long

    def _length(self, longest: int) -> int:
        """The length that is measured for a longest sequence: few different ones, and none beyond the window."""
        length = rounded_up(max(longest, SHORTEST))
        if self.window:
            length = min(length, self.window)
        return length

    def _ids(self, seed: int, length: int) -> tuple[int, ...]:
        """Made-up token ids, the same on every machine."""
        vocabulary = min(self.network.config.vocab_size, 2**15)
        # A special token in a made-up text could end it or be masked.
        allowed = [i for i in range(vocabulary) if i not in self.avoid] or list(range(vocabulary))
        drawn = np.random.default_rng(seed).integers(len(allowed), size=length)
        return tuple(allowed[n] for n in drawn)

    def _alone(self, queries: Sequence[Query]) -> torch.Tensor:
        """Logits of plain sequences, one at a time."""
        parts = []
        for query in queries:
            parts.append(self._answers(plan([query], share=False, merge=False, reach=0, longest=0)))
        return torch.cat(parts)

    def _answers(self, trees: Sequence[Tree]) -> torch.Tensor:
        """Logits that trees in one batch give, shape (answers, vocabulary), in the order of answers."""
        outputs, places, _ = self.network.outputs(trees)
        order = np.argsort([number for tree in trees for number in tree.answer])
        with torch.inference_mode():
            return self.network.logits(outputs[self.network.tensor(places[order]).to(outputs.device)]).cpu()


class _Forced(transformers.LogitsProcessor):
    """Makes the next tokens the given ones."""

    def __init__(self, tokens: Sequence[int], width: int) -> None:
        self.tokens, self.width = tokens, width

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        token = self.tokens[input_ids.shape[1] - self.width]
        forced = torch.full_like(scores, -torch.inf)
        forced[:, token] = 0.0
        return forced


def _reading(ids: Sequence[int], at: Sequence[int]) -> Query:
    """A query that reads positions; which token is wanted does not matter to a measurement."""
    return Query(tuple(ids), tuple(at), (0,) * len(at))


def _last(ids: Sequence[int], length: int) -> Query:
    """A query that reads its last positions and some of those before."""
    places = set(range(max(len(ids) - READ // 2, 0), len(ids)))
    places.update(range(0, len(ids), max(2 * length // READ, 1)))
    return _reading(ids, sorted(places))
