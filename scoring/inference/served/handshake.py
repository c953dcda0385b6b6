"""The handshake: whether a server gives log-probabilities of the tokens that it is sent, before anything is asked.

A server that ignores a request for log-probabilities, tokenizes anew, or answers after temperature would give
every benchmark a number, and a wrong one. So a few sentences are scored first, and a server is refused when

- it does not answer log-probabilities of the prompt, or of other tokens than the ones that were sent (a second
  beginning-of-sequence token, a prompt that was cut, another vocabulary);
- they change on a repeat, or with temperature and penalties;
- it finds sentences no likelier than the same words backwards, or than chance;
- probabilities of several next tokens add up to more than 1;
- a prompt as long as the longest of the run, which servers compute in parts, is not answered as its beginning alone.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import numpy as np

from builders.sources.client import HttpClient, HttpError, Refused, Unavailable
from scoring.inference.control import CHANGE, CONTROL, SENTENCES, Round, change, differs
from scoring.inference.responses import is_logprob
from scoring.inference.served import dialects
from scoring.inference.served.dialects import CHANGED, NEUTRAL, TOP, Dialect, Ids, Ignored
from scoring.inference.tokens import Tokens
from scoring.types import Option, Request, ScoringError

#: How often the control rows are scored before a run.
ROUNDS = 2
#: A context, and words of which at most one comes next.
CONTEXT, WORDS = "The man said that", ("he", "she", "it", "they", "the", "I", "we", "you")
#: The most by which the log-probability of one token of a long prompt may change; a rare one changes more by rounding
#: than the mean.
APART = 2.0
#: How much likelier than chance, in nats a token, ordinary sentences must be.
LIKELIER = 1.0
INSTEAD = (
    "start vLLM (vllm serve MODEL), SGLang or llama-cpp-python's server, which give log-probabilities of prompts, or "
    "use --chat-api, which needs none"
)

WHOLE = (
    "start it so that it computes each prompt at once (vLLM: --no-enable-chunked-prefill and --max-num-batched-tokens "
    "of at least the length; SGLang: --chunked-prefill-size -1), or another version of it; nothing was scored"
)


@dataclass
class Server:
    """A server that passed the handshake.

    Attributes
    ----------
    sentence, control:
        The tokens of the control sentence and their log-probabilities, to which later answers are compared.
    points:
        Whether it gives probabilities of candidates for the next token that agree with those of options.
    repeat:
        The largest change of a log-probability when the same was asked again.
    rows, rounds:
        The tokens of the control rows, and their log-probabilities in each round before the run.
    lost:
        Why it gets no more requests; empty while it answers.
    """

    client: HttpClient
    dialect: Dialect
    model: str
    version: str
    window: int | None
    sentence: Ids
    control: list[float]
    points: bool
    repeat: float
    rows: Sequence[Ids] = ()
    rounds: Sequence[Round] = ()
    lost: str = ""

    @property
    def software(self) -> str:
        """Its name with the version where it tells it."""
        if self.version and self.dialect.software:
            return f"{self.dialect.software} {self.version}"
        return self.dialect.software or self.version

    def scored(self, prompts: Sequence[Ids]) -> list[list[float]]:
        """For each prompt the log-probability of each of its tokens after the first.

        The control sentence is sent among the prompts, at a place that depends on them, so that a server that answers
        otherwise by turns does not answer the control sentence alone as before.

        Raises
        ------
        ScoringError
            When the server now answers as another model.
        Ignored
            When its reply is not what was asked for.
        """
        # The place depends on the prompts alone, so that a repeated request is the same and a cache of the server
        # helps.
        place = crc32(repr(prompts).encode()) % (len(prompts) + 1)
        with_control = list(prompts)
        with_control.insert(place, self.sentence)
        logprobs = self.dialect.sequences(with_control)
        distance = change(self.control, logprobs.pop(place))
        # Not ">": a distance of NaN is a change too.
        if not distance <= CHANGE:
            raise ScoringError(
                f"{self.client.host} changed its model during the run: a token of the control sentence has another "
                f"log-probability than at the beginning, {distance:.2g} on average; what was "
                "answered before is kept, so start the first model again, or give another --out."
            )
        return logprobs

    def check_rows(self) -> None:
        """Scores the control rows once more, at the end of a run.

        Raises
        ------
        ScoringError
            When they have other log-probabilities than before the run.
        """
        now = _logprobs(self.dialect, self.rows)
        difference = differs(self.rounds, [now])
        if difference:
            raise ScoringError(
                f"{self.client.host} changed its model during the run: log-probabilities of the control rows differ "
                f"by {difference} from those before it; which responses are of which model is not known, so give "
                "another --out."
            )

    def check_long(self, prompt: Ids, copies: int) -> None:
        """Compares a long prompt, ``copies`` times in one request, with itself and with its beginnings alone.

        Servers compute so many tokens at a time, so each copy is cut elsewhere, and a beginning perhaps not at all.

        Raises
        ------
        ScoringError
            One sentence, when the server answers otherwise or does not answer; one that cannot be reached is ``lost``.
        """
        try:
            copies_of_prompt = _logprobs(self.dialect, [prompt] * copies)
            first = copies_of_prompt[0]
            # Each has the log-probabilities of the whole prompt, or of its first quarter, half or three quarters.
            others = copies_of_prompt[1:]
            for quarters in (1, 2, 3):
                beginning = prompt[: max(len(prompt) * quarters // 4, 2)]
                others += _logprobs(self.dialect, [beginning])
            largest = 0.0
            largest_mean = 0.0
            for other in others:
                same_tokens = first[: len(other)]
                largest_mean = max(largest_mean, change(other, same_tokens))
                for a, b in zip(other, same_tokens, strict=True):
                    largest = max(largest, abs(a - b))
            if largest <= APART and largest_mean <= CHANGE:
                return
            did = f"gave a token another log-probability than in a copy or in the beginning alone (by {largest:.2g})"
        except Ignored as error:
            did = str(error)
        except HttpError as error:
            did = f"gave no answer ({error})"
            if isinstance(error, Unavailable):
                self.lost = str(error)
        did = f"fails at prompts as long as the longest of this run ({len(prompt)} tokens), because it {did}"
        raise refusal(self.client, self.software, did, WHOLE)


def _ids(tokens: Tokens, texts: Sequence[str], context: str = "") -> list[tuple[int, ...]]:
    """The token ids of texts after a context, with the tokens that the model's tokenizer puts before them."""
    request = Request("handshake", context, tuple(Option(text) for text in texts))
    ((options, _),) = tokens.queries([request])
    prompts = []
    for (query,) in options:
        # The last token is only wanted of a query, and a server scores the tokens that it is sent.
        prompts.append((*query.ids, query.want[-1]))
    return prompts


def _next_words(tokens: Tokens) -> list[tuple[int, ...]]:
    """The context with each word that is one token."""
    prompts = _ids(tokens, [f" {word}" for word in WORDS], CONTEXT)
    shortest = min(len(ids) for ids in prompts)
    return [ids for ids in prompts if len(ids) == shortest]


def refusal(client: HttpClient, software: str, did: object, instead: str) -> ScoringError:
    """The sentence about a server: its name, what it did, and what to do instead."""
    server = client.host
    if software:
        server = f"{client.host} ({software})"
    return ScoringError(f"{server} {did}; {instead}.")


@dataclass(frozen=True, slots=True)
class Identity:
    """What a server tells of itself: software, version, the models it serves with their facts.

    ``kind`` is the dialect of the software; a server of unknown software is asked as vLLM is.
    """

    kind: type[Dialect] | None
    version: str
    models: dict[str, dict[str, Any]]

    @property
    def software(self) -> str:
        """The name of the software; empty where it is not known."""
        if self.kind is None:
            return ""
        return self.kind.software


def identity(client: HttpClient) -> Identity:
    """What is found at the address.

    Raises
    ------
    ScoringError
        When nothing answers there, or it is no inference server.
    """
    try:
        models = _models(client)
        kind = _kind(client, models)
        if kind is None and not models:
            raise ScoringError(
                f"{client.host} is no inference server: the address that was given, with /models behind it, lists no "
                "model; give --base-url an address that usually ends in /v1."
            )
        version = ""
        if kind is not None and kind.version:
            path, name = kind.version
            version = _told(client, path, name)
        return Identity(kind, version, models)
    except Refused as error:
        raise ScoringError(f"{error}.") from None
    except HttpError as error:
        raise ScoringError(
            f"{error}, so nothing was asked; start the server, for example vllm serve MODEL, or correct --base-url."
        ) from None


def _models(client: HttpClient) -> dict[str, dict[str, Any]]:
    """The models that an address lists, with their facts; what has another form is no model."""
    listed = client.get(f"{client.base_url}/models")
    entries = None
    if isinstance(listed, dict):
        entries = listed.get("data")
    if not isinstance(entries, list):
        return {}
    models = {}
    for entry in entries:
        if isinstance(entry, dict):
            name = entry.get("id")
            if isinstance(name, str) and name:
                models[name] = entry
    return models


def _kind(client: HttpClient, models: Mapping[str, Mapping[str, Any]]) -> type[Dialect] | None:
    """The dialect of a server: that of the owner of a listed model, else the first one with a sign at its address."""
    owners = set()
    for entry in models.values():
        owner = entry.get("owned_by")
        if isinstance(owner, str):
            owners.add(owner)
    kinds = [dialects.get(name) for name in dialects.names()]
    for kind in kinds:
        if kind.owner and kind.owner in owners:
            return kind
    # Signs are looked for last, because each is a request.
    for kind in kinds:
        for path, name in kind.signs:
            if _told(client, path, name):
                return kind
    return None


def _told(client: HttpClient, path: str, name: str) -> str:
    """A field of what the server answers at a path, as text; empty where there is none."""
    reply = client.get(f"{client.root}/{path}")
    value = None
    if isinstance(reply, dict):
        value = reply.get(name)
    if isinstance(value, str):
        return value[:60]
    # Of a field that is no text, only its presence tells something.
    if value:
        return name
    return ""


def served_name(client: HttpClient, identity_: Identity, name: str | None) -> str:
    """The model to ask for: the one that the user names, or the only one that is served.

    Raises
    ------
    ScoringError
        When it is not served, or there are several.
    """
    if name is None and len(identity_.models) < 2:
        return next(iter(identity_.models), "model")
    shown = ", ".join(list(identity_.models)[:8]) or "none"
    if name is None:
        raise ScoringError(
            f"{client.host} lists {len(identity_.models)} models ({shown}); choose one with --model-name."
        )
    if identity_.models and name not in identity_.models:
        raise ScoringError(f"{client.host} does not serve {name!r}; its models are {shown}.")
    return name


def shake_hands(client: HttpClient, identity_: Identity, model: str, tokens: Tokens, *, trained: bool = True) -> Server:
    """The server, after it has shown that its log-probabilities are those of the tokens that it is sent.

    Parameters
    ----------
    trained:
        Whether the model knows English; only a model of random weights does not.

    Raises
    ------
    ScoringError
        One sentence that names the server, what it did, and what to start instead.
    """
    dialect = (identity_.kind or dialects.get("vllm"))(client, model, tokens.tokenizer)
    (sentence,) = _ids(tokens, SENTENCES[:1])
    try:
        _compare_tokens(client, identity_, model, tokens)
        control, repeat = _answers(dialect, tokens, trained=trained)
        points = _points(dialect, tokens)
        rows = _ids(tokens, CONTROL)
        rounds = [_logprobs(dialect, rows) for _ in range(ROUNDS)]
    except Unavailable as error:
        raise refusal(client, "", f"gave no answer to the first prompts ({error})", INSTEAD) from None
    except Refused as error:
        raise refusal(client, identity_.software, f"refused a prompt of token ids ({error})", INSTEAD) from None
    except Ignored as error:
        raise refusal(client, identity_.software, error, INSTEAD) from None
    except HttpError as error:
        raise ScoringError(f"{error}.") from None
    # The context window; None where the server does not tell it.
    window = identity_.models.get(model, {}).get("max_model_len")
    if not isinstance(window, int):
        window = None
    return Server(
        client=client,
        dialect=dialect,
        model=model,
        version=identity_.version,
        window=window,
        sentence=sentence,
        control=control,
        points=points,
        repeat=repeat,
        rows=rows,
        rounds=rounds,
    )


def _compare_tokens(client: HttpClient, identity_: Identity, model: str, tokens: Tokens) -> None:
    """Compares the tokenizers, where the server has an address for that (vLLM, llama-cpp-python)."""
    text = " ".join(SENTENCES)
    if not identity_.kind or not identity_.kind.tokenize:
        return
    body = {"model": model, "prompt": text, "input": text, "add_special_tokens": False}
    try:
        reply = client.post(f"{client.root}/{identity_.kind.tokenize}", body)
    except Refused:
        return
    theirs = None
    if isinstance(reply, dict):
        theirs = reply.get("tokens")
    if not isinstance(theirs, list) or not all(isinstance(token, int) for token in theirs):
        return
    ours = tokens.encode([text])[0].ids
    # A beginning-of-sequence token before the text is no difference: prompts are sent as token ids.
    extra = len(theirs) - len(ours)
    if extra not in (0, 1) or theirs[extra:] != ours:
        raise refusal(
            client,
            identity_.software,
            f"tokenizes {text[:20]!r}… as {theirs[extra : extra + 4]}, and the given tokenizer as {ours[:4]}",
            "give --tokenizer the tokenizer of the model that is served",
        )


def _logprobs(dialect: Dialect, prompts: Sequence[Ids], sampling: Mapping[str, float] = NEUTRAL) -> list[list[float]]:
    """The log-probabilities of prompts, each of which is a possible one: a number of at most 0."""
    logprobs_of = dialect.sequences(prompts, sampling)
    for logprobs in logprobs_of:
        for value in logprobs:
            if not is_logprob(np.array(value)):
                raise Ignored(f"answered {value} as a log-probability")
    return logprobs_of


def _answers(dialect: Dialect, tokens: Tokens, *, trained: bool) -> tuple[list[float], float]:
    """Log-probabilities of the control sentence, and their largest change on a repeat."""
    # A wrong tokenizer, or a prompt that does not arrive, makes order meaningless: both directions are as likely.
    backwards = [" ".join(reversed(text.split())) for text in SENTENCES]
    prompts = _ids(tokens, [*SENTENCES, *backwards])
    logprobs_of = _logprobs(dialect, prompts)
    (again,) = _logprobs(dialect, prompts[:1])
    # Some servers apply temperature and penalties before they give log-probabilities; then the same tokens differ.
    (changed,) = _logprobs(dialect, prompts[:1], CHANGED)
    first = logprobs_of[0]
    if change(first, again) > CHANGE:
        raise Ignored("answered other log-probabilities when the same was asked again")
    if change(again, changed) > CHANGE:
        raise Ignored("answered log-probabilities after temperature and penalties instead of the model's own")
    if trained:
        _check_language(logprobs_of, len(tokens.tokenizer))
    # Different next words exclude each other, so their probabilities add up to at most 1.
    total = math.fsum(math.exp(logprobs[-1]) for logprobs in _logprobs(dialect, _next_words(tokens)))
    if total > 1 + CHANGE:
        raise Ignored(f"answered probabilities of next tokens that add up to {total:.3g}")
    return first, max(abs(a - b) for a, b in zip(first, again, strict=True))


def _check_language(logprobs_of: Sequence[Sequence[float]], vocabulary: int) -> None:
    """Compares the sentences with their words backwards and with chance."""
    count = len(SENTENCES)
    is_language = True
    values: list[float] = []
    for forwards, backwards in zip(logprobs_of[:count], logprobs_of[count:], strict=True):
        values += forwards
        if math.fsum(forwards) <= math.fsum(backwards):
            is_language = False
    # By chance each token has the log-probability -log(vocabulary).
    if math.fsum(values) / len(values) < LIKELIER - math.log(vocabulary):
        is_language = False
    if not is_language:
        raise Ignored(
            "finds ordinary English sentences no likelier than the same words backwards or than chance, so the "
            "tokenizer is not the model's, or the prompts do not reach the model as they are sent"
        )


def _points(dialect: Dialect, tokens: Tokens) -> bool:
    """Whether probabilities of candidate next tokens are given and agree with those of one-token options."""
    if not dialect.points:
        return False
    prompts = _next_words(tokens)
    expected = {ids[-1]: logprobs[-1] for ids, logprobs in zip(prompts, _logprobs(dialect, prompts), strict=True)}
    # As many as are asked for later, because servers have limits.
    wanted = list(expected)
    for token in range(len(tokens.tokenizer)):
        if len(wanted) >= TOP:
            break
        if token not in expected:
            wanted.append(token)
    context = prompts[0][:-1]
    try:
        (candidates,) = dialect.next_tokens([context], wanted)
    except (Ignored, Refused):
        return False
    for token in candidates.keys() & expected.keys():
        # Not ">": a difference of NaN does not agree.
        if not abs(candidates[token] - expected[token]) <= CHANGE:
            return False
    return bool(candidates)
