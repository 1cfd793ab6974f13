"""The page of the reference about Python: the public names, and the adapters."""

import ast
import inspect
import re
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

from reference_markdown import (
    DISPLAY_WIDTH,
    SOURCE,
    clean_docstring,
    describe_type,
    first_paragraph,
)

import tidegate

FIRST_NAMES = ("Session", "Request", "DataFolder", "load", "open_store")
MORE_CLASSES = (
    ("session.history", "History", "`session.history`"),
    ("session.policy_runner", "SessionRules", "`session.rules`"),
    ("session.policy_runner", "Recovery", "`session.recovery`"),
    ("session.following", "FollowingSession", "for programs that keep their own list of messages"),
)
ADAPTERS = "agent_framework google_adk inspect_ai langchain openai_agents otel_spans pydantic_ai strands".split()


def format_signature(name: str, found: Callable[..., Any]) -> str:
    """The signature with one parameter per line if it is long. Types are shown without their modules."""
    try:
        text = str(inspect.signature(found))
    except (TypeError, ValueError):
        return name
    text = re.sub(r"\b(?:tidegate|collections|typing|pathlib|os|types|msgspec)(?:\.\w+)*\.(?=[A-Z_a-z])", "", text)
    text = re.sub(r"<(?:function|class|object)?[^<>]*>", "...", text).replace("(self, ", "(").replace("(self)", "()")
    whole = f"{name}{text}"
    if len(whole) <= DISPLAY_WIDTH:
        return whole
    inside, _, after = text[1:].rpartition(")")
    return f"{name}(\n" + "".join(f"    {each},\n" for each in split_parameters(inside)) + f"){after}"


def split_parameters(text: str) -> Iterator[str]:
    depth, start = 0, 0
    for place, letter in enumerate(text):
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and not depth:
            yield text[start:place].strip()
            start = place + 1
    yield text[start:].strip()


def list_public_members(cls: type) -> list[tuple[str, Any]]:
    """The public methods and properties that tidegate itself defines, in the order of the source."""
    seen: dict[str, Any] = {}
    for base in cls.__mro__:
        if base.__module__.startswith("tidegate"):
            for name, found in vars(base).items():
                if not name.startswith("_") and (callable(found) or isinstance(found, property | classmethod)):
                    seen.setdefault(name, found)
    return list(seen.items())


def describe_class(cls: type, title: str, note: str = "") -> str:
    parts = [f"## {title}\n", note, f"```\n{format_signature(cls.__name__, cls)}\n```\n", clean_docstring(cls) + "\n"]
    for name, found in list_public_members(cls):
        if isinstance(found, property):
            hint = get_type_hint_text(found.fget)
            parts.append(f"### {cls.__name__}.{name}\n\nProperty{hint}. {clean_docstring(found)}\n")
        else:
            method = getattr(cls, name)
            parts.append(f"### {cls.__name__}.{name}\n\n```\n{format_signature(name, method)}\n```\n")
            parts.append(clean_docstring(method) + "\n")
    return "\n".join(part for part in parts if part)


def get_type_hint_text(getter: Any) -> str:
    text = str(inspect.signature(getter).return_annotation) if getter else ""
    return f" of type `{text.rsplit('.', 1)[-1]}`" if re.fullmatch(r"[\w.]+", text) else ""


def write_python_page() -> str:
    """The public names of the package, the classes behind them, and the adapters."""
    parts = [
        "# Python API\n",
        f"The names that `import tidegate` offers, in version {tidegate.__version__}. Everything else is internal,"
        " except the classes at the end of this page.\n",
    ]
    for name in dict.fromkeys((*FIRST_NAMES, *tidegate.__all__)):
        found = getattr(tidegate, name)
        if inspect.isclass(found):
            parts.append(describe_class(found, name))
        elif callable(found):
            parts.append(f"## {name}\n\n```\n{format_signature(name, found)}\n```\n\n{clean_docstring(found)}\n")
        elif name != "__version__":
            parts.append(f"## {name}\n\n`{describe_type(found)}`\n")
    for module, name, use in MORE_CLASSES:
        cls = getattr(import_module(f"tidegate.{module}"), name)
        parts.append(describe_class(cls, name, f"`from tidegate.{module} import {name}`: {use}.\n"))
    return "\n".join(parts) + write_adapters_section()


def write_adapters_section() -> str:
    """The public classes and functions of the adapters, read from the source: the frameworks need not be installed."""
    parts = ["\n## Adapters\n"]
    for name in ADAPTERS:
        path = SOURCE / "integrations" / f"{name}.py"
        if not path.exists():
            continue
        tree = ast.parse(path.read_text("utf-8"))
        about = first_paragraph(ast.get_docstring(tree) or "")
        parts.append(f"### tidegate.integrations.{name}\n\n{about}\n")
        for node in tree.body:
            public = not getattr(node, "name", "_").startswith("_")
            if isinstance(node, ast.ClassDef) and public:
                parts.append(describe_source_class(node))
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and public:
                parts.append(f"**`{node.name}({ast.unparse(node.args)})`** {ast.get_docstring(node) or ''}\n")
    return "\n".join(parts)


def describe_source_class(node: ast.ClassDef) -> str:
    methods = [each for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
    start = next((each for each in methods if each.name == "__init__"), None)
    arguments = ast.unparse(start.args).removeprefix("self").removeprefix(", ") if start else ""
    return f"**`{node.name}({arguments})`** {ast.get_docstring(node) or ''}\n"
