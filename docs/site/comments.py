"""Fields of dataclasses are documented by the comment behind or above them: griffe reads it."""

import re
from typing import Any

from griffe import Attribute, Docstring, Extension

COMMENT = re.compile(r"\s*#\s?(?!type:|noqa)(.*)")


class Comments(Extension):
    """Takes ``name: kind = value  # what it is`` for what it is."""

    def on_attribute_instance(self, *, attr: Attribute, **_: Any) -> None:
        """Give a field without a docstring the text of its comment."""
        if attr.docstring or attr.lineno is None or not (attr.parent and attr.parent.is_class):
            return
        lines = attr.lines_collection[attr.filepath]
        behind = lines[(attr.endlineno or attr.lineno) - 1].partition("  #")[2].strip()
        above, number = [], attr.lineno - 2
        while number >= 0 and (found := COMMENT.fullmatch(lines[number])):
            above.insert(0, found[1])
            number -= 1
        if text := behind or " ".join(above):
            attr.docstring = Docstring(text[0].upper() + text[1:], parent=attr, lineno=attr.lineno)
