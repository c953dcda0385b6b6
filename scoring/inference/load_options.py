"""The options for loading a model, as one object that commands fill in and pass on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from scoring.inference.model import Model

#: Models that come with the project, by name.
BUNDLED = {name: Path(__file__).parents[1] / "data" / name for name in ("tiny-causal", "tiny-masked")}


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """How to load a model: the parameters of :func:`scoring.inference.loading.load`.

    ``model`` may also be the name of a bundled model, and ``device`` may be ``auto``, which spreads the
    model over all devices (``device_map="auto"``).

    >>> LoadOptions("tiny-causal", device="cpu").dtype
    'auto'
    """

    model: str
    revision: str | None = None
    adapter: str | None = None
    adapter_revision: str | None = None
    dtype: str = "auto"
    device: str | None = None
    quantize: Literal["4bit", "8bit"] | None = None
    trust_remote_code: bool = False
    allow_pickle: bool = False
    device_map: str | Mapping[str, Any] | None = None
    exact: bool = False

    def load(self) -> Model:
        """The loaded model, which keeps the name that the user gave.

        Raises
        ------
        ScoringError
            As :func:`scoring.inference.loading.load`.
        """
        from transformers.utils import logging

        from scoring.inference.loading import load

        logging.disable_progress_bar()  # type: ignore[no-untyped-call]
        options = asdict(self) | {"model": BUNDLED.get(self.model, self.model)}
        if self.device == "auto":
            options |= {"device": None, "device_map": "auto"}
        loaded = load(**options)
        loaded.name = self.model
        return loaded
