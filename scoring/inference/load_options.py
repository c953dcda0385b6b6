"""The options for loading a model, each declared once, as one object that commands fill in and pass on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Argument, Option

from cards.options import completing

if TYPE_CHECKING:
    from scoring.inference.model import Model

#: Models that come with the project, by name.
BUNDLED = {name: Path(__file__).parents[1] / "data" / name for name in ("tiny-causal", "tiny-masked")}
MODEL = "The model"
ModelName = Annotated[
    str,
    Argument(
        metavar="MODEL",
        autocompletion=completing(lambda: BUNDLED),
        help="A folder, a name on the Hub, or tiny-causal.",
    ),
]
Revision = Annotated[str | None, Option(rich_help_panel=MODEL, metavar="REV", help="Branch, tag or commit on the Hub.")]
Dtype = Annotated[
    Literal["auto", "float32", "bfloat16", "float16", "float64"],
    Option(rich_help_panel=MODEL, metavar="NAME", help="float32, bfloat16, float16, float64."),
]
Device = Annotated[str | None, Option(metavar="NAME", help="cpu, cuda, cuda:1 …, or auto for all.")]
TrustRemoteCode = Annotated[
    bool, Option("--trust-remote-code", rich_help_panel=MODEL, help="Run its code (pin its --revision).")
]
AllowPickle = Annotated[bool, Option("--allow-pickle", rich_help_panel=MODEL, help="Read pickles, which can run code.")]


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """How to load a model: the parameters of :func:`scoring.inference.loading.load`.

    ``model`` may also be the name of a bundled model, and ``device`` may be ``auto``, which spreads the
    model over all devices (``device_map="auto"``).

    >>> LoadOptions("tiny-causal", device="cpu").dtype
    'auto'
    """

    model: str
    revision: Revision = None
    adapter: Annotated[str | None, Option(metavar="NAME", help="A PEFT adapter: a folder or a name.")] = None
    adapter_revision: Annotated[
        str | None, Option(rich_help_panel=MODEL, metavar="REV", help="Branch, tag or commit of the adapter.")
    ] = None
    dtype: Dtype = "auto"
    device: Device = None
    quantize: Annotated[
        Literal["4bit", "8bit"] | None, Option(rich_help_panel=MODEL, help="Load weights in 4 or 8 bits.")
    ] = None
    trust_remote_code: TrustRemoteCode = False
    allow_pickle: AllowPickle = False
    device_map: str | Mapping[str, Any] | None = None
    exact: Annotated[
        bool, Option("--exact", rich_help_panel=MODEL, help="float32, one by one: repeatable, and slow.")
    ] = False

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
