"""What the pages of the reference share: Markdown, docstrings and types in words."""

import inspect
import typing
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, get_args, get_origin

import tidegate

SOURCE = Path(tidegate.__file__).parent
DISPLAY_WIDTH = 100


def format_cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def format_code_cell(text: str) -> str:
    return f"`{format_cell(text)}`" if text else ""


def format_table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)]) + "\n"


def clean_docstring(found: object) -> str:
    """The docstring, with angle brackets that a browser would take for tags escaped. A class inherits none."""
    text = vars(found).get("__doc__") if inspect.isclass(found) else inspect.getdoc(found)
    return inspect.cleandoc(text or "").replace("<", "&lt;")


def first_paragraph(text: str) -> str:
    return " ".join(text.split("\n\n", 1)[0].split())


def describe_type(hint: Any) -> str:
    """A type as people write it: without `Annotated`, modules and `typing.`."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return describe_type(parts[0])
    if origin is Literal:
        return " or ".join(repr(each) for each in parts)
    if origin in (typing.Union, UnionType):
        return " or ".join(describe_type(each) for each in parts)
    if hint is NoneType:
        return "null"
    if origin is not None and parts:
        inner = ", ".join("..." if each is ... else describe_type(each) for each in parts)
        return f"{origin.__name__}[{inner}]"
    return getattr(hint, "__name__", str(hint)).removesuffix("Settings")
