"""The options for loading a model, each declared once, as one object that commands fill in and pass on."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Argument, Option

from cards.common.options import completing
from cards.common.stored import digest
from cards.common.text import without_home
from scoring.types import ScoringError

if TYPE_CHECKING:
    from scoring.inference.model import Model
    from scoring.inference.tokens import Kind

#: Models that come with the project, by name.
BUNDLED = {name: Path(__file__).parents[1] / "data" / name for name in ("tiny-causal", "tiny-masked")}
#: A real model that ``make real-weights`` fetches, by the name that commands give it: the name of its folder.
FETCHED = {"smollm2": "SmolLM2-135M-Instruct"}
MODEL = "The model"
#: An option under that title in the help.
model_option = partial(Option, rich_help_panel=MODEL)
ModelName = Annotated[
    str,
    Argument(
        metavar="MODEL",
        autocompletion=completing(lambda: [*BUNDLED, *FETCHED]),
        help="A folder, a name on the Hub, or tiny-causal.",
    ),
]
ModelNames = Annotated[
    list[str] | None,
    Argument(
        metavar="MODEL",
        autocompletion=completing(lambda: [*BUNDLED, *FETCHED]),
        help="Folders, names on the Hub, or tiny-causal.",
    ),
]
Revision = Annotated[str | None, model_option(metavar="REV", help="Branch, tag or commit on the Hub.")]
Dtype = Annotated[
    Literal["auto", "float32", "bfloat16", "float16", "float64"],
    model_option(metavar="NAME", help="float32, bfloat16, float16, float64."),
]
Device = Annotated[str | None, Option(metavar="NAME", help="cpu, cuda, cuda:1 …, or auto for all.")]
TrustRemoteCode = Annotated[bool, model_option("--trust-remote-code", help="Run its code (pin its --revision).")]
AllowPickle = Annotated[bool, model_option("--allow-pickle", help="Read pickles, which can run code.")]


def place_of(model: str) -> str:
    """The folder of a bundled or fetched model, or the name on the Hub or the folder that was given.

    Raises
    ------
    ScoringError
        For a model that is not fetched yet, with the command that fetches it.

    >>> place_of("gpt2")
    'gpt2'
    """
    if model in BUNDLED:
        return str(BUNDLED[model])
    # A folder of that name is the user's.
    if model not in FETCHED or Path(model).is_dir():
        return model
    folder = Path(os.environ.get("PROBES_REAL") or Path(__file__).parents[2] / ".real") / FETCHED[model]
    if not folder.is_dir():
        raise ScoringError(
            f"The model {model} ({FETCHED[model]}, 93 MB) is not on this machine; run `make real-weights` in a "
            "checkout of this project, or name its folder."
        )
    return str(folder.absolute())


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """How to load a model, with its tokenizer and an adapter if one is given.

    Parameters
    ----------
    model, revision:
        A folder, a bundled model, or a name on the Hub and the branch, tag or commit of it.
    adapter, adapter_revision:
        A PEFT adapter, as a folder or a name on the Hub and the branch, tag or commit of it.
    dtype:
        A dtype of torch; ``auto`` is the checkpoint's own, but float32 for half precision on a CPU,
        where half precision only rounds: few processors compute in it faster. ``exact`` is float32 always.
    device:
        Where to run; the first GPU where there is one. ``auto`` spreads the model over all devices.
    quantize:
        Load weights in 4 (NF4) or 8 bits, with bitsandbytes.
    trust_remote_code:
        Run Python code that comes with the model, from a folder or a revision pinned to a commit.
    allow_pickle:
        Read weights from pickle files, which can run code as well, when there are no safetensors.
    device_map:
        How to spread the model over devices, as in accelerate.
    exact:
        See :class:`scoring.inference.model.Model`.

    >>> LoadOptions("tiny-causal", device="cpu").dtype
    'auto'
    """

    model: str
    revision: Revision = None
    adapter: Annotated[str | None, Option(metavar="NAME", help="A PEFT adapter: a folder or a name.")] = None
    adapter_revision: Annotated[
        str | None, model_option(metavar="REV", help="Branch, tag or commit of the adapter.")
    ] = None
    dtype: Dtype = "auto"
    device: Device = None
    quantize: Annotated[Literal["4bit", "8bit"] | None, model_option(help="Load weights in 4 or 8 bits.")] = None
    trust_remote_code: TrustRemoteCode = False
    allow_pickle: AllowPickle = False
    device_map: str | Mapping[str, Any] | None = None
    exact: Annotated[bool, model_option("--exact", help="One text at a time in float32: exact, slow.")] = False

    def configuration(self) -> tuple[Path, dict[str, Any]]:
        """The folder of the model with its small files, and its configuration: what is known before weights are there.

        Raises
        ------
        ScoringError
            As :meth:`load`.
        """
        from scoring.inference import checkpoint

        folder = self.small_files()
        return folder, checkpoint.config(folder, place_of(self.model))

    def small_files(self) -> Path:
        """The folder of the model with its small files; torch is not imported.

        Raises
        ------
        ScoringError
            For a model that is not there.
        """
        from scoring.inference import fetching

        return fetching.fetched(place_of(self.model), self.revision, list(fetching.SMALL), BUNDLED)

    def fetched(self) -> tuple[Path, Kind]:
        """The folder of the model, downloaded and checked, and its kind.

        Raises
        ------
        ScoringError
            As :meth:`load`, for what its files say.
        """
        from scoring.inference import checkpoint, fetching

        model = place_of(self.model)
        folder, config = self.configuration()
        kind = checkpoint.kind(config, model)
        checkpoint.check_code(folder, config, model, self.revision, trusted=self.trust_remote_code)
        checkpoint.check_quantization(config, model, self.quantize)
        folder = fetching.fetched(model, self.revision, None)
        weights = checkpoint.weight_files(folder, config.get("transformers_weights"))
        checkpoint.check_pickle(weights, model, allowed=self.allow_pickle)
        return folder, kind

    def load(self) -> Model:
        """The loaded model, which keeps the name that the user gave, with ``~`` for the home directory.

        Raises
        ------
        ScoringError
            For a model that is not there, is no causal or masked language model, lacks weights, or needs
            a permission that was not given.
        """
        from transformers.utils import logging

        from scoring.inference import checkpoint
        from scoring.inference.model import Model

        logging.disable_progress_bar()  # type: ignore[no-untyped-call]
        started = time.perf_counter()
        model = place_of(self.model)
        device_map: Any = self.device_map or None
        if self.device == "auto":
            place = checkpoint.torch_device(None)
            device_map = "auto"
        else:
            place = checkpoint.torch_device(self.device)
            # bitsandbytes places the weights while they are read: they cannot be moved afterwards.
            if not device_map and self.quantize:
                device_map = {"": place}
        folder, kind = self.fetched()
        config = checkpoint.config(folder, model)
        stored = checkpoint.stored_quantization(config)
        # The same for weights that bitsandbytes has quantized before.
        if not device_map and stored.get("quant_method") == "bitsandbytes":
            device_map = {"": place}
        numbers = checkpoint.dtype(self.dtype, config, place, exact=self.exact)
        code = {"trust_remote_code": self.trust_remote_code}
        more: dict[str, Any] = dict(code)
        quantization = checkpoint.quantized(self.quantize, numbers) or checkpoint.dequantizing(stored, place)
        # With None as its value, transformers would leave out the quantization of the checkpoint.
        if quantization:
            more["quantization_config"] = quantization
        network, apart = checkpoint.network(
            folder,
            model,
            kind,
            # None leaves the choice to transformers, which prefers safetensors.
            use_safetensors=not self.allow_pickle or None,
            dtype=numbers,
            device_map=device_map,
            **more,
        )
        if not device_map:
            network = network.to(place)
        digests = checkpoint.file_digests(folder)
        base = checkpoint.identity(folder, model, digests)
        content = checkpoint.identity(folder, "", digests)
        adapter = ""
        tokenizer = None
        if self.adapter is not None:
            tokenizer = checkpoint.tokenizer_of_adapter(network, str(self.adapter), self.adapter_revision)
            network, adapter = checkpoint.adapted(
                network,
                str(self.adapter),
                self.adapter_revision,
                model,
                base,
                content,
                allowed=self.allow_pickle,
            )
        if tokenizer is None:
            tokenizer = checkpoint.tokenizer(folder, model, code)
        name = without_home(self.model)
        loaded = Model(network, tokenizer, kind, name, base, adapter, exact=self.exact, files=digest(digests))
        loaded.named_revision = self.revision or ""
        loaded.quantization = stored
        loaded.stored_dtype = checkpoint.saved_dtype(config)
        loaded.apart = apart
        loaded.content = content
        loaded.keep_measurements()
        loaded.stats.load_seconds = time.perf_counter() - started
        return loaded


def load(model: str | Path, **options: Any) -> Model:
    """The loaded model; the options are those of :class:`LoadOptions`."""
    return LoadOptions(str(model), **options).load()
