"""llama-cpp-python's server."""

from collections.abc import Mapping, Sequence
from typing import Any

from builders.sources.client import HttpClient, Refused
from scoring.inference.generation import Decoding
from scoring.inference.served.dialects import NEUTRAL, Dialect, Ids, Ignored, Made, listed, number, object_of


class Echo(Dialect):
    """llama-cpp-python: completions with ``echo`` and ``logprobs``, of one text at a time.

    The server puts the beginning-of-sequence token before the text and leaves it out of its reply, and the first token
    of a reply has no number: the probability of a sentence's first token is read as that of the next token after
    nothing, with ``logprobs`` over the whole vocabulary.
    """

    software = "llama-cpp-python"
    owner = "me"
    tokenize = "extras/tokenize"
    batches = False
    points = False

    def __init__(self, client: HttpClient, model: str, tokenizer: Any) -> None:
        super().__init__(client, model, tokenizer)
        self._first: dict[str, float] = {}

    def _post(self, text: str, more: Mapping[str, Any]) -> Mapping[str, Any]:
        body = {"model": self.model, "prompt": text, "repeat_penalty": 1.0, "min_p": 0.0, "seed": 0, **more}
        (choice,) = listed(self.client.post(f"{self.client.base_url}/completions", body), "choices", 1)
        answer: Mapping[str, Any] = choice
        return answer

    def _text(self, ids: Ids) -> str:
        """The text of ids without the beginning-of-sequence token, which the server adds.

        Raises
        ------
        ScoringError
            Where the text would become other tokens.
        """
        bos = self.tokenizer.bos_token_id
        if not ids or ids[0] != bos:
            raise Refused(
                f"{self.client.host} puts a beginning-of-sequence token before every text, and a prompt has none; use "
                "another engine for this benchmark.",
                0,
            )
        text = str(self.tokenizer.decode(list(ids[1:]), clean_up_tokenization_spaces=False))
        if self.tokenizer(text, add_special_tokens=False)["input_ids"] != list(ids[1:]):
            raise Refused(
                f"{self.client.host} takes text only, and {text!r} does not stand for the tokens of the request.", 0
            )
        return text

    def sequences(self, prompts: Sequence[Ids], sampling: Mapping[str, float] = NEUTRAL) -> list[list[float]]:
        """From ``token_logprobs`` of the echoed text, and the first token from the distribution after nothing."""
        return [self._sequence(ids, sampling) for ids in prompts]

    def _sequence(self, ids: Ids, sampling: Mapping[str, float]) -> list[float]:
        text = self._text(ids)
        choice = self._post(text, {"max_tokens": 1, "echo": True, "logprobs": 1, "top_k": 0, **sampling})
        logprobs = object_of(choice.get("logprobs"))
        tokens: Any = logprobs.get("tokens")
        values: Any = logprobs.get("token_logprobs")
        are_texts = isinstance(tokens, list) and all(isinstance(token, str) for token in tokens)
        if not (are_texts and isinstance(values, list) and len(tokens) == len(values)):
            raise Ignored("answered without log-probabilities of the prompt")
        # The beginning-of-sequence token is not among the pieces: the server adds it by itself.
        count = len(ids) - 1
        if len(values) <= count and "".join(tokens) != text:
            raise Ignored("answered without log-probabilities of the prompt")
        if len(values) < count:
            raise Ignored(f"answered log-probabilities of {len(values)} tokens to a prompt of {count}")
        # White space at the ends is the tokenizer's own (a leading space is dropped or added), so it is not compared.
        if "".join(tokens[:count]).strip() != text.strip():
            raise Ignored("answered log-probabilities of other tokens than the ones that were sent")
        scores = [self._after_nothing(tokens[0])]
        for value in values[1:count]:
            scores.append(number(value))
        return scores

    def _after_nothing(self, piece: str) -> float:
        if not self._first:
            # The echo has no probability of its first token. That after nothing is asked for once, for the whole
            # vocabulary.
            choice = self._post("", {"max_tokens": 1, "logprobs": len(self.tokenizer), "top_k": 0, **NEUTRAL})
            top = object_of(choice.get("logprobs")).get("top_logprobs")
            if isinstance(top, list) and top:
                self._first = dict(object_of(top[0]))
        return number(self._first.get(piece))

    def next_tokens(self, prompts: Sequence[Ids], _tokens: Ids) -> list[dict[int, float]]:
        """Nothing: candidates are scored as one-token options, because the reply names tokens by their text."""
        return [{} for _ in prompts]

    def continuations(self, prompts: Sequence[Ids], new: int, decoding: Decoding, seed: int) -> list[Made]:
        """Completions as text."""
        more = {"max_tokens": new, "top_k": decoding.top_k or 0, **self.sampling(decoding, seed)}
        return [Made.of(None, self._post(self._text(ids), more).get("text")) for ids in prompts]


DIALECT = Echo
