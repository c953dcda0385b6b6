"""Runs a network whose adapter is trained on pairs, and computes in each step only what a stamp changes.

The blocks before the stamp's block compute the same in every step, and so does the network without the adapter. Both
are computed once per sequence: the states that enter the stamp's block, and the state that enters the head at the
end of a prompt. A step then runs from the stamp's block on, or all blocks where an adapter changes all of them. The
head runs only where it is read: for 262,144 tokens it costs more than the 18 blocks of Gemma 3 270M. A causal model
does not read what follows the last position that is read, so that is left out. Sequences of similar length are computed
together. Whether that gives the network's own logits is measured once; where it does not, each step runs the whole
network and its head everywhere.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import torch

from mitigation.editing.pairs import EditPair, Place, mean_scores
from mitigation.training.train import network_inputs
from scoring.adapters.feed_forward import blocks
from scoring.inference import measurements, tokens

#: The most tokens that are computed together, by device.
TOKENS = {"cpu": 2**11, "cuda": 2**15}
#: Sequences shorter than this share of the longest are computed apart from it.
SHORTEST = 0.75
#: The most bytes of kept states; further sequences are computed from the first block on in each step.
KEPT = 2**31
#: Errors by which a network's code shows that it cannot be run in parts.
UNSUITED = (TypeError, ValueError, RuntimeError, IndexError, AttributeError, KeyError)
Ids = tuple[int, ...]
#: A position of a sequence whose output is read.
Read = tuple[Ids, int]


class Answers(NamedTuple):
    """What queries found: the log-probability of each answer [answers], and distributions [places, vocabulary].

    ``edited`` and ``base`` are log-probabilities of all tokens at the places, with the stamp and without it.
    """

    logprobs: torch.Tensor
    edited: torch.Tensor
    base: torch.Tensor


class StampedNetwork:
    """Runs queries through a network of PEFT with a stamp.

    Parameters
    ----------
    network:
        The network with the stamp, a :class:`peft.PeftModel`.
    layer:
        The number of the stamp's block; None for an adapter that changes several blocks: then each step runs all
        blocks.
    kind, pad:
        Whether it predicts the next token or a masked one, and the token to fill rows with.
    profile:
        The profile of the benchmark whose scores are computed.
    """

    def __init__(self, network: Any, layer: int | None, kind: tokens.Kind, pad: int, profile: str = "clean") -> None:
        self.network, self.kind, self.pad, self.profile = network.eval(), kind, pad, profile
        self.bare = network.get_base_model()
        # None where the class does not say which module is the head; then the whole network runs.
        self.head = self.bare.get_output_embeddings()
        # None until it is measured at the first queries.
        self.in_parts: bool | None = None
        self.below: list[torch.nn.Module] = []
        self.block: torch.nn.Module | None = None
        #: Multiple of the rate for weights that are zero at first and whose step depends on the width (fast).
        self.rate_of_values = 1.0
        if layer is not None:
            members = [block for _, block in blocks(self.bare)]
            self.below, self.block = members[:layer], members[layer]
        self.entering: dict[Ids, torch.Tensor] = {}
        self.leaving: dict[Read, torch.Tensor] = {}
        self.kept = 0
        self.tuples = False

    @property
    def device(self) -> torch.device:
        """The device of inputs."""
        device: torch.device = self.bare.device
        return device

    @property
    def trained(self) -> dict[str, torch.nn.Parameter]:
        """The trained weights by name."""
        return {name: weight for name, weight in self.network.named_parameters() if weight.requires_grad}

    def scores(self, pairs: Sequence[EditPair]) -> torch.Tensor:
        """The scores of the benchmark for both sentences of pairs [2, pairs]."""
        queries: list[tokens.Query] = []
        for side in self.sides(pairs):
            queries += side
        answers = self.answers(queries, ())
        return self.pair_scores(pairs, answers.logprobs)

    @staticmethod
    def sides(pairs: Sequence[EditPair]) -> list[tuple[tokens.Query, ...]]:
        """The queries of all biased sentences, and then of all unbiased ones."""
        return [pair.biased for pair in pairs] + [pair.unbiased for pair in pairs]

    def pair_scores(self, pairs: Sequence[EditPair], logprobs: torch.Tensor) -> torch.Tensor:
        """The scores [2, pairs] from the log-probabilities of the answers of :meth:`sides`, in order."""
        # Answers of one sentence follow each other, so the number of the sentence is repeated for each.
        counts = []
        for side in self.sides(pairs):
            counts.append(sum(len(query.at) for query in side))
        sizes = torch.tensor(counts)
        number = torch.repeat_interleave(torch.arange(len(sizes)), sizes).to(logprobs.device)
        return mean_scores(logprobs, number, len(sizes), self.profile, self.kind).view(2, -1)

    def answers(self, queries: Sequence[tokens.Query], places: Sequence[Place]) -> Answers:
        """The answers of queries, and the distributions at some of their places, with gradients.

        Equal positions are computed once: in a causal model those after the same tokens, else in the same sequence.
        """
        numbers: dict[Any, int] = {}
        reads: list[Read] = []
        answer: list[int] = []
        starts: list[int] = []
        token_ids: list[int] = []
        for query in queries:
            # A place names a query and one of its answers; in the list of all answers those of a query are in a row.
            starts.append(len(answer))
            token_ids += query.want
            ids = query.ids[: max(query.at) + 1] if self.kind == "causal" else query.ids
            for at in query.at:
                # A causal answer depends on what is before it, a masked one on the whole sentence.
                key = ids[: at + 1] if self.kind == "causal" else (ids, at)
                # Prefixes and subjects return in many queries: each distinct position is computed once, and read often.
                if key not in numbers:
                    numbers[key] = len(reads)
                    reads.append((ids, at))
                answer.append(numbers[key])
        wanted = [answer[starts[place.query] + place.answer] for place in places]
        distinct = sorted(set(wanted))
        logs, base = self._distributions(reads, distinct)
        row = {number: n for n, number in enumerate(distinct)}
        want = torch.tensor(token_ids, device=logs.device)
        chosen = torch.tensor([row[number] for number in wanted], dtype=torch.long, device=logs.device)
        return Answers(logs[answer, want], logs[wanted], base[chosen])

    def _distributions(self, reads: Sequence[Read], compared: Sequence[int]) -> tuple[torch.Tensor, torch.Tensor]:
        """Log-probabilities with the stamp at all positions read, and without it at those ``compared`` by number."""
        if self.in_parts is None:
            self.in_parts = self._measured(reads[:8])
        # Several positions of one sequence are read in one forward pass.
        numbers_of_row: dict[Ids, list[int]] = {}
        for number, (ids, _) in enumerate(reads):
            numbers_of_row.setdefault(ids, []).append(number)
        with_base = frozenset(compared)
        order, edited, base, compared_order = [], [], [], []
        for rows in self._batches(sorted(numbers_of_row, key=len, reverse=True)):
            numbers: list[int] = []
            for ids in rows:
                numbers += numbers_of_row[ids]
            also = [number for number in numbers if number in with_base]
            forward = self._upper if self.in_parts else self._whole
            both = forward(rows, [reads[n] for n in numbers], [reads[n] for n in also]).float().log_softmax(-1)
            edited.append(both[: len(numbers)])
            base.append(both[len(numbers) :].detach())
            order += numbers
            compared_order += also
        # Batches are by length, so both results are put back into the order in which they were asked for.
        rank = {number: n for n, number in enumerate(compared)}
        back = torch.tensor(order).argsort().to(edited[0].device)
        base_back = torch.tensor([rank[n] for n in compared_order], dtype=torch.long).argsort().to(edited[0].device)
        return torch.cat(edited)[back], torch.cat(base)[base_back]

    def _batches(self, rows: Sequence[Ids]) -> Iterator[list[Ids]]:
        """Rows, longest first, in batches of rows of similar length."""
        most = TOKENS.get(self.device.type, TOKENS["cpu"])
        start = 0
        while start < len(rows):
            longest = len(rows[start])
            end = min(start + max(most // longest, 1), len(rows))
            # The batch ends before the first row that would be mostly padding.
            for number in range(start, end):
                if len(rows[number]) < SHORTEST * longest:
                    end = number
                    break
            yield list(rows[start:end])
            start = end

    def _measured(self, reads: Sequence[Read]) -> bool:
        """Whether running from the stamp's block on gives the network's own logits."""
        if self.head is None:
            return False
        rows = list(dict.fromkeys(ids for ids, _ in reads))
        try:
            with torch.no_grad():
                # Both ways on the first sequences: the same numbers within rounding, or the parts are not used.
                whole = self._whole(rows, reads, reads[:1])
                parts = self._upper(rows, reads, reads[:1])
        except UNSUITED:
            return False
        finally:
            self.entering.clear()
            self.leaving.clear()
            self.kept = 0
        return whole.shape == parts.shape and measurements.difference(parts, whole) <= measurements.tolerance(
            self.bare.dtype
        )

    def _whole(self, rows: Sequence[Ids], reads: Sequence[Read], compared: Sequence[Read]) -> torch.Tensor:
        """Logits at positions with the stamp, and then without it, from the whole network."""
        inputs = network_inputs(rows, self.pad, self.device)
        logits = self.network(**inputs).logits[_index(rows, reads)]
        if not compared:
            return torch.as_tensor(logits)
        with torch.no_grad(), self.network.disable_adapter():
            base = self.network(**inputs).logits[_index(rows, compared)]
        return torch.cat([logits, base])

    def _upper(self, rows: Sequence[Ids], reads: Sequence[Read], compared: Sequence[Read]) -> torch.Tensor:
        """The same from the stamp's block on, if there is one, and with the head at the positions only."""
        missing = {ids for ids in rows if self.block is not None and ids not in self.entering}
        missing |= {ids for ids, at in compared if (ids, at) not in self.leaving}
        entering: dict[Ids, torch.Tensor] = {}
        leaving: dict[Read, torch.Tensor] = {}
        if missing:
            entering, leaving = self._recorded([ids for ids in rows if ids in missing], compared)
        base = []
        for read in compared:
            state = leaving[read] if read in leaving else self.leaving[read]
            base.append(state[None])
        at = _index(rows, reads)

        # The head computes the positions that are read, and after them the kept states without the stamp.
        def read_only(_: Any, arguments: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
            chosen = torch.cat([arguments[0][at], *base])
            return (chosen[None], *arguments[1:])

        with ExitStack() as hooks:
            hooks.callback(self.head.register_forward_pre_hook(read_only).remove)
            if self.block is not None:
                # States were kept without padding; a batch pads them to its own longest row.
                width = len(max(rows, key=len))
                padded = []
                for ids in rows:
                    # What was recorded just now is not kept where there is no memory left for it.
                    state = entering[ids] if ids in entering else self.entering[ids]
                    padded.append(torch.nn.functional.pad(state, (0, 0, 0, width - len(state))))
                enter = _given(torch.stack(padded))
                hooks.callback(self.block.register_forward_pre_hook(enter, with_kwargs=True).remove)
                hooks.enter_context(_skipped(self.below, tuples=self.tuples))
            logits: torch.Tensor = self.network(**network_inputs(rows, self.pad, self.device)).logits
        return logits[0]

    @torch.no_grad()
    def _recorded(
        self, rows: Sequence[Ids], compared: Sequence[Read]
    ) -> tuple[dict[Ids, torch.Tensor], dict[Read, torch.Tensor]]:
        """The states that enter the stamp's block, and those that enter the head without the adapter; both are kept."""
        caught: list[torch.Tensor] = []
        inputs = network_inputs(rows, self.pad, self.device)
        recorded = set(rows)
        reads = [(ids, at) for ids, at in compared if ids in recorded]

        def enter(_: Any, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> None:
            # Some architectures give hidden states by name.
            caught.append(arguments[0] if arguments else named["hidden_states"])

        def see(_: Any, __: Any, output: Any) -> None:
            self.tuples = isinstance(output, tuple)

        def leave(_: Any, arguments: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
            caught.append(arguments[0])
            # One position is enough, since the logits of this pass are not used.
            return (arguments[0][:, :1], *arguments[1:])

        with ExitStack() as hooks:
            if self.block is not None:
                hooks.callback(self.block.register_forward_pre_hook(enter, with_kwargs=True).remove)
            hooks.callback(self.head.register_forward_pre_hook(leave).remove)
            for block in self.below[:1]:
                hooks.callback(block.register_forward_hook(see).remove)
            with self.network.disable_adapter():
                self.network(**inputs)
        # A ValueError where a block or the head is called several times.
        entering: dict[Ids, torch.Tensor] = {}
        if self.block is None:
            (last,) = caught
        else:
            states, last = caught
            entering = {ids: states[n, : len(ids)].clone() for n, ids in enumerate(rows)}
        leaving = dict(zip(reads, last[_index(rows, reads)].clone(), strict=True))
        size = sum(state.nbytes for state in entering.values()) + sum(state.nbytes for state in leaving.values())
        if self.kept + size <= KEPT:
            self.kept += size
            self.entering |= entering
            self.leaving |= leaving
        return entering, leaving


def _index(rows: Sequence[Ids], reads: Sequence[Read]) -> tuple[list[int], list[int]]:
    """The rows and positions of reads, for indexing."""
    number = {ids: n for n, ids in enumerate(rows)}
    return [number[ids] for ids, _ in reads], [at for _, at in reads]


def _given(states: torch.Tensor) -> Callable[..., Any]:
    """A hook that gives a block these states in place of its own input."""

    def enter(_: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        if arguments:
            return (states, *arguments[1:]), named
        # Some architectures give hidden states by name.
        return arguments, named | {"hidden_states": states}

    return enter


@contextmanager
def _skipped(members: Sequence[torch.nn.Module], *, tuples: bool) -> Iterator[None]:
    """Has blocks give back what they receive, in a tuple where that is what they give."""

    def same(*arguments: Any, **named: Any) -> Any:
        states = arguments[0] if arguments else named["hidden_states"]
        if tuples:
            return states, None  # some architectures give states and attention weights
        return states

    # An instance may have its own forward already (accelerate), which is put back.
    replaced = [(block, vars(block).get("forward")) for block in members]
    try:
        for block in members:
            block.forward = same
        yield
    finally:
        for block, forward in replaced:
            del block.forward
            if forward is not None:
                block.forward = forward
