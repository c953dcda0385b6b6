"""An extension of griffe, which reads docstrings for the reference pages; ``mkdocs.yml`` names it."""

from __future__ import annotations

from typing import Any

import griffe

from tools.docs.pages import docstring_markdown


class Docstrings(griffe.Extension):
    """Turns every docstring that is read into Markdown."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called by griffe for each object of a package."""
        if obj.docstring:
            obj.docstring.value = docstring_markdown(obj.docstring.value)
