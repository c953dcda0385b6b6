"""Addresses of servers, and retries after their temporary failures, for downloads and for requests to models."""

from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

from tenacity import RetryCallState, Retrying, retry_if_exception_type, wait_exponential, wait_random

#: Status codes of temporary failures, after which a request is sent again.
TRANSIENT = frozenset({408, 429, 500, 502, 503, 504})
#: Longest wait in seconds that a server may ask for; with a longer one the request has failed.
LONGEST_WAIT = 300.0
#: The message for an address that is not valid. It may contain a password, so it is not repeated.
NO_ADDRESS = "The address of the server is not valid; give --base-url an address such as http://localhost:8000/v1"

_BACKOFF = wait_exponential(multiplier=0.5, max=60)
# Spreads the retries of several clients.
_SPREAD = wait_random(0, 0.5)


class Transient(Exception):
    """A temporary failure; ``wait`` is the number of seconds that the server asked to wait, if it did.

    ``free`` says that the request was not processed, so that nobody pays for it.
    """

    def __init__(self, message: str, wait: float | None = None, *, free: bool = False) -> None:
        super().__init__(message)
        self.wait = wait
        self.free = free


def retrying(attempts: int, sleep: Callable[[float], None], stopped: Callable[[], bool] = bool) -> Retrying:
    """A caller that repeats a function after a :class:`Transient`, with growing, random pauses.

    Parameters
    ----------
    attempts:
        Highest number of calls.
    sleep:
        Called with the seconds to wait between calls.
    stopped:
        Whether to make no further call.
    """
    return Retrying(
        stop=lambda state: state.attempt_number >= attempts or stopped(),
        wait=_wait,
        retry=retry_if_exception_type(Transient),
        sleep=sleep,
        reraise=True,
    )


def _wait(state: RetryCallState) -> float:
    """Seconds until the next call: as the server asked, or growing, and a random part."""
    error = state.outcome and state.outcome.exception()
    requested = error.wait if isinstance(error, Transient) else None
    # The random part is added to a requested wait too: many clients are asked to wait equally long.
    return (_BACKOFF(state) if requested is None else requested) + _SPREAD(state)


def seconds_to_wait(retry_after: str) -> float | None:
    """The seconds of a Retry-After header, which has a number or a date; None for other text.

    >>> seconds_to_wait("7"), seconds_to_wait("soon")
    (7.0, None)
    """
    # Not float(), which also takes "nan" and "inf".
    if retry_after.isdecimal():
        return float(retry_after)
    try:
        return max(0.0, (parsedate_to_datetime(retry_after) - datetime.now(UTC)).total_seconds())
    except (TypeError, ValueError):
        return None


def is_address(text: str) -> bool:
    """Whether a text is the address of a server.

    >>> is_address("http://localhost:8000/v1"), is_address("localhost:8000"), is_address("http://localhost:99999")
    (True, False, False)
    """
    try:
        parts = urlsplit(text)
        parts.port  # noqa: B018 - raises for what is no number, or no port
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname) and text.isprintable()
