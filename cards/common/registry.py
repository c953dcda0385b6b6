"""A registry: values that the Python files of a folder define, one each, and files outside the project that are added.

The name of a file is the name of its value, so nothing else has to be registered. Files that begin with an underscore
are shared by others.
"""

import importlib
import importlib.util
import pkgutil
import sys
from collections.abc import Sequence
from dataclasses import Field, dataclass, field, fields, is_dataclass
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any, Generic, TypeVar

from cards.common.text import did_you_mean

T = TypeVar("T")
#: Begins the name of the module that a file of the user becomes, so that a numpy.py takes the place of no module.
INCLUDED = "included_"


def annotation_of(checked: Field[Any]) -> str:
    """The annotation of a field as a text; modules that postpone annotations have texts, and others types."""
    if isinstance(checked.type, str):
        return checked.type
    return getattr(checked.type, "__name__", "")


@dataclass(eq=False)
class Registry(Generic[T]):
    """The values of a package by name.

    Parameters
    ----------
    package:
        The name of the package and its ``__path__``.
    attribute:
        What a file calls its value, such as ``RECIPE``.
    kind:
        The type of values; those of included files have a ``name``.
    what:
        What a value is, for messages.
    error:
        The error that is raised.
    dash:
        Whether names have a dash where their file has an underscore.
    """

    package: tuple[str, Sequence[str]]
    attribute: str
    kind: type[T]
    what: str
    error: type[Exception]
    dash: bool = field(default=False, kw_only=True)
    #: Values of files outside the project with their files, by name.
    included: dict[str, tuple[T, Path]] = field(default_factory=dict, init=False)

    def own(self) -> set[str]:
        """Names of the values of the package."""
        names = {module.name for module in pkgutil.iter_modules(self.package[1]) if not module.name.startswith("_")}
        return {name.replace("_", "-") for name in names} if self.dash else names

    def names(self) -> tuple[str, ...]:
        """Names of all values, sorted, with those that were included."""
        return tuple(sorted(self.own() | self.included.keys()))

    def get(self, name: str) -> T:
        """The value called ``name``; where there is none, the error names those that there are."""
        if name in self.included:
            return self.included[name][0]
        if name not in self.own():
            near = did_you_mean(name, self.names())
            raise self.error(f"No {self.what} is called {name!r}{near}; the names are {', '.join(self.names())}.")
        # Imported only when asked for, so that listing the names needs no optional package.
        module = importlib.import_module(f"{self.package[0]}.{name.replace('-', '_') if self.dash else name}")
        value: T = getattr(module, self.attribute)
        return value

    def file(self, name: str) -> Path | None:
        """The file of an included value; None for a value of the package."""
        return self.included[name][1] if name in self.included else None

    def execute(self, path: Path) -> ModuleType:
        """Executes a Python file and gives it as a module; a file that cannot be executed raises the error."""
        name = f"{INCLUDED}{path.stem}"
        spec = importlib.util.spec_from_file_location(name, path)
        if not path.is_file() or spec is None or not isinstance(spec.loader, SourceFileLoader):
            raise self.error(f"{path} is not a Python file; give a file NAME.py that defines {self.attribute}.")
        module = sys.modules[name] = importlib.util.module_from_spec(spec)  # dataclasses look up their own module
        try:
            # Not exec_module: its bytecode is known by size and second, so an edit of the same size would be missed.
            exec(spec.loader.source_to_code(path.read_bytes(), path), module.__dict__)
        except (Exception, SystemExit) as error:  # whatever the code of the file raises
            remedy = "correct the file"
            name_of_kind = self.kind.__name__
            if is_dataclass(self.kind) and str(error).startswith(f"{name_of_kind}.__init__()"):
                # A field is missing, misspelt, or had another name in an earlier version.
                names = ", ".join(named.name for named in fields(self.kind))
                remedy += f"; the fields of {name_of_kind} are {names}"
            raise self.error(f"{path} cannot be run ({type(error).__name__}: {error}); {remedy}.") from error
        return module

    def add(self, value: Any, path: Path) -> T:
        """Adds the value of a file; one that is not of the type, or has the name of another file's, is refused."""
        if not isinstance(value, self.kind):
            wanted = f"{self.kind.__module__}.{self.kind.__qualname__}"
            raise self.error(f"{path} defines no {self.attribute}; set it to a {wanted}.")
        self._refuse_wrong_types(value, path)
        name: str = getattr(value, "name", path.stem)
        if name in self.own() or self.file(name) not in (None, path.resolve()):
            raise self.error(f"{path} has the name {name!r} of another {self.what}; give it a new name.")
        self.included[name] = value, path.resolve()
        return value

    def _refuse_wrong_types(self, value: Any, path: Path) -> None:
        """Refuses a field that has to be a text or a function and is none: it would fail much later."""
        if not is_dataclass(value):
            return
        for checked in fields(value):
            annotation = annotation_of(checked)
            content = getattr(value, checked.name)
            wanted = ""
            if annotation == "str" and not isinstance(content, str):
                wanted = "a text"
            elif annotation.startswith("Callable[") and "| None" not in annotation and not callable(content):
                wanted = "a function"
            if wanted:
                kind = type(content).__name__
                raise self.error(f"{path} gives the field {checked.name} of its {self.what} as {kind}; give {wanted}.")

    def include(self, path: Path) -> T:
        """Adds the value that a file outside the project defines, for this process; the file is run.

        So include only files that you trust. The same file replaces its value. An error is raised where the file
        cannot be run, defines no value, or has the name of another one.
        """
        return self.add(getattr(self.execute(path), self.attribute, None), path)
