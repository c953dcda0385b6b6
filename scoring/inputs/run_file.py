"""A file in YAML with the model and the options of a run: ``probes score --config run.yaml``; each run writes one.

A name is that of an option, without ``--``; ``model`` or ``models`` has what is scored. Options on the command line go
before those of the file.

```yaml
model: tiny-causal
benchmarks: [gest, occugender]
limit: 20
```
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import typer
import yaml

from cards.common.options import UsageError, parameters
from cards.common.text import did_you_mean, for_files, nested
from scoring.inputs.prompt_file import PromptFile

NAME = "run.yaml"
#: Options of one call, which the same run made again does not have.
_OF_CALL = frozenset({"out", "overwrite", "dry_run", "beside"})


def fill_in(context: typer.Context, file: Path | None) -> Path | None:
    """The callback of ``--config``: what the file says is the default of each option.

    Raises
    ------
    UsageError
        For a file that is not there or is no YAML, and for a name or value that no option has.
    """
    if file is None:
        return None
    try:
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
    except OSError:
        raise UsageError(f"There is no file {file}; give --config the run.yaml of a run.", context) from None
    except (yaml.YAMLError, UnicodeDecodeError):
        raise UsageError(f"{file} is no YAML; write an option a line, such as limit: 20.", context) from None
    if not isinstance(content, dict):
        raise UsageError(f"{file} has no options; write one a line, such as limit: 20.", context)
    options: dict[str, typer.core.TyperArgument | typer.core.TyperOption] = {}
    for parameter in context.command.params:
        if parameter.name == "config":
            continue
        options[str(parameter.name)] = parameter  # type: ignore[assignment]
        for name in parameter.opts:
            options[name.removeprefix("--").replace("-", "_")] = parameter  # type: ignore[assignment]
    options["model"] = options["models"] = next(one for one in context.command.params if one.name == "models")  # type: ignore[assignment]
    values: dict[str, Any] = {}
    for key, value in content.items():
        option = options.get(str(key).removeprefix("--").replace("-", "_"))
        if option is None:
            raise UsageError(f"{file} has {str(key)!r}{did_you_mean(str(key), options)}, which is no option.", context)
        given = value if isinstance(value, list) else [value]
        if not all(isinstance(one, str | int | float) for one in given):
            raise UsageError(f"{file} has {value!r:.80} for {key}; give a text, a number, or a list of them.", context)
        # The file has ~ for the home directory.
        texts = [str(Path(one).expanduser()) if str(one).startswith("~/") else one for one in given]
        if option.multiple or option.nargs == -1:
            values[str(option.name)] = texts
        elif isinstance(value, list):
            values[str(option.name)] = ",".join(map(str, texts))
        else:
            (values[str(option.name)],) = texts
    context.default_map = values
    return file


def text(model: str, groups: Sequence[Any]) -> str:
    """The file of a run: its model, and the options of ``groups`` that do not have their default.

    It is empty where an option is an object of Python, which no file has.
    """
    content: dict[str, Any] = {}
    if model:
        content["model"] = model
    for group in groups:
        options = {parameter.name for parameter in parameters(type(group))}
        for field in fields(group):
            value, default = getattr(group, field.name), field.default
            if default is MISSING and field.default_factory is not MISSING:
                default = field.default_factory()
            # An option that was not given is None, False or an empty list or text; 0 is a value.
            is_absent = value is None or value in ("", (), []) or (value is False and not default)
            if field.name in _OF_CALL or field.name == "model" or is_absent or value == default:
                continue
            if isinstance(value, PromptFile):
                value = value.path
            plain = _plain(value)
            if field.name not in options or plain is None:
                return ""
            content[field.name.replace("_", "-")] = plain
    shown = nested(content, for_files(os.environ))
    return f"# probes score --config {NAME}\n" + str(yaml.safe_dump(shown, sort_keys=False, allow_unicode=True))


def _plain(value: Any) -> Any:
    """A value as YAML has it; None for an object."""
    if isinstance(value, str | int | float):
        return value
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, list | tuple):
        each = [_plain(one) for one in value]
        return None if None in each else each
    return None
