"""Write the reference pages of the site from the code: `python docs/reference.py FOLDER`.

`make docs` runs it before every build. The pages are not committed, so they cannot differ from the code.
"""

import argparse
import ast
import asyncio
import inspect
import re
import sys
import typing
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import msgspec

import tidegate
from tidegate.agent.config.settings import FileSettings
from tidegate.cli.parser import make_parser
from tidegate.core.policy.parser import RULE_KEYS
from tidegate.core.policy.policy import COMPARISONS
from tidegate.core.stages import STAGES
from tidegate.gateway.metrics import Metrics
from tidegate.gateway.routing import find_route
from tidegate.gateway.settings import DEFAULT_URLS, Upstream
from tidegate.integrations.mcp_server import create_mcp_server

SOURCE = Path(tidegate.__file__).parent
POLICIES = Path(__file__).parent / "policies.md"
DISPLAY_WIDTH = 100
FIRST_NAMES = ("Session", "Request", "DataFolder", "load", "open_store")
MORE_CLASSES = (
    ("session.history", "History", "`session.history`"),
    ("session.rules", "SessionRules", "`session.rules`"),
    ("session.recovery", "Recovery", "`session.recovery`"),
    ("session.following", "FollowingSession", "for programs that keep their own list of messages"),
)
ADAPTERS = "agent_framework google_adk inspect_ai langchain openai_agents otel_spans pydantic_ai strands".split()
ENDPOINTS = (
    ("POST", "/v1/messages"),
    ("POST", "/v1/messages/count_tokens"),
    ("POST", "/v1/chat/completions"),
    ("POST", "/v1/responses"),
    ("POST", "/v1beta/models/MODEL:generateContent"),
    ("POST", "/v1beta/models/MODEL:streamGenerateContent"),
    ("POST", "/v1/projects/PROJECT/locations/REGION/publishers/anthropic/models/MODEL:rawPredict"),
    ("POST", "/v1/projects/PROJECT/locations/REGION/publishers/anthropic/models/MODEL:streamRawPredict"),
    ("POST", "/v1/embeddings"),
    ("GET", "/v1/models"),
)
HANDLING = {
    "manage": "logged, and edited if it has to be",
    "count": "counted for the view that would be sent",
    "proxy": "passed on unchanged, not logged",
}


# --- Markdown ---------------------------------------------------------------------------------------------------------


def format_cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def format_code_cell(text: str) -> str:
    return f"`{format_cell(text)}`" if text else ""


def format_table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)]) + "\n"


def clean_docstring(found: object) -> str:
    """The docstring, with angle brackets that a browser would take for tags escaped."""
    return (inspect.getdoc(found) or "").replace("<", "&lt;")


def first_paragraph(text: str) -> str:
    return " ".join(text.split("\n\n", 1)[0].split())


# --- Types ------------------------------------------------------------------------------------------------------------


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


# --- Pages ------------------------------------------------------------------------------------------------------------


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


def list_commands(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for each in dict.fromkeys(action.choices.values()):
                yield each
                yield from list_commands(each)


def format_help(parser: argparse.ArgumentParser) -> str:
    formatter = argparse.HelpFormatter
    parser.formatter_class = lambda prog: formatter(prog, max_help_position=28, width=DISPLAY_WIDTH)
    home = str(Path.home())
    return parser.format_help().rstrip().replace(home, "~")


def write_command_page() -> str:
    parser = make_parser()
    parts = ["# Command line\n", f"```\n{format_help(parser)}\n```\n"]
    for each in list_commands(parser):
        parts.append(f"## {each.prog}\n\n```\n{format_help(each)}\n```\n")
    return "\n".join(parts)


def walk_settings(struct: type[msgspec.Struct], seen: list[type[msgspec.Struct]]) -> None:
    """Collect a type and the types of its fields, each once, in the order in which they are met."""
    if struct in seen:
        return
    seen.append(struct)
    for hint in get_type_hints(struct, include_extras=True).values():
        for found in find_structs(hint):
            walk_settings(found, seen)


def find_structs(hint: Any) -> Iterator[type[msgspec.Struct]]:
    if inspect.isclass(hint) and issubclass(hint, msgspec.Struct):
        yield hint
    for part in get_args(hint):
        yield from find_structs(part)


def describe_default(field: msgspec.structs.FieldInfo) -> str:
    if field.default_factory is not msgspec.NODEFAULT:
        value = field.default_factory()
    elif field.default is msgspec.NODEFAULT:
        return "required"
    else:
        value = field.default
    if isinstance(value, msgspec.Struct):
        return ""
    if value is None or isinstance(value, bool):
        return f"`{msgspec.json.encode(value).decode()}`"
    if value in ("", (), {}):
        return ""
    return f"`{value}`"


def write_configuration_page() -> str:
    """Every key of tidegate.yaml, from the types that read it."""
    structs: list[type[msgspec.Struct]] = []
    walk_settings(FileSettings, structs)
    parts = [
        "# Configuration keys\n",
        "The keys of `tidegate.yaml`. [The agent](../agent.md) explains how files are combined and trusted, and"
        " `tidegate config` shows the values in effect.\n",
    ]
    for struct in structs:
        name = struct.__name__
        title = "The file" if struct is FileSettings else name.removesuffix("Settings")
        tag = struct.__struct_config__.tag
        note = f"`type: {tag}`. " if tag else ""
        rows = [
            (
                f"`{field.encode_name}`",
                format_code_cell(describe_type(field.type)),
                describe_default(field),
            )
            for field in msgspec.structs.fields(struct)
        ]
        table = format_table(("key", "type", "default"), rows) if rows else ""
        parts.append(f"## {title}\n\n{note}{clean_docstring(struct)}\n\n{table}")
    return "\n".join(parts)


def read_table(head: str) -> dict[str, tuple[str, ...]]:
    """The rows of a table of docs/policies.md, by the names in their first cells."""
    lines = POLICIES.read_text("utf-8").splitlines()
    start = next(place for place, line in enumerate(lines) if line.startswith(f"| {head} |"))
    rows: dict[str, tuple[str, ...]] = {}
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        first, *rest = (cell.strip() for cell in line.strip("|").split(" | "))
        for name in re.findall(r"`([^`]+)`", first):
            rows[name] = tuple(re.sub(r"\]\((?=[\w-]+\.md)", "](../", cell) for cell in rest)
    return rows


def write_policy_page() -> str:
    """The keys of policy files. The meanings are those of docs/policies.md, which a test compares with the code."""
    parts = ["# Policy keys\n", "[Policies](../policies.md) explains how they work together.\n"]
    for title, head in (("Keys of the file", "key"), ("Moments", "moment"), ("Metrics", "metric")):
        rows = [(f"`{name}`", cells[0]) for name, cells in read_table(head).items()]
        parts.append(f"## {title}\n\n{format_table((head, 'meaning'), rows)}")
    keys = ", ".join(f"`{key}`" for key in RULE_KEYS)
    signs = ", ".join(f"`{sign}`" for sign in COMPARISONS)
    parts.append(f"## Keys of a rule\n\n{keys}, and the settings of the stage. Triggers compare with {signs}.\n")
    return "\n".join(parts)


def write_stage_page() -> str:
    lost = read_table("stage")
    parts = ["# Stages\n", "A stage is a step of a policy. [Policies](../policies.md) shows how to use them.\n"]
    for name, stage in STAGES.items():
        hints = get_type_hints(stage)
        rows = [
            (
                f"`{each.name}`",
                format_code_cell(describe_type(hints[each.name])),
                "required" if each.default is each.empty else f"`{each.default!r}`",
            )
            for each in inspect.signature(stage).parameters.values()
            if each.kind is each.KEYWORD_ONLY
        ]
        table = format_table(("setting", "type", "default"), rows) if rows else ""
        parts.append(f"## {name}\n\n{clean_docstring(stage)}\n\nIt loses: {lost[name][0]}.\n\n{table}")
    return "\n".join(parts)


def write_http_page() -> str:
    """The endpoints of the gateway. What happens with a path is asked of the function that routes it."""
    upstreams = [Upstream(family, family, url) for family, url in DEFAULT_URLS.items()]
    rows = []
    for method, path in ENDPOINTS:
        route = find_route(method, path, {}, upstreams)
        rows.append((method, f"`{path}`", route.upstream.name, route.dialect, HANDLING[route.handling]))
    table = format_table(("method", "path", "upstream", "dialect", "what happens"), rows)
    return (
        "# HTTP endpoints\n\n"
        "The gateway (`tidegate serve`) forwards every path. [The gateway](../gateway.md) explains what it changes. A"
        " path may begin with `/s/NAME/`, which names the session, and then with the name of an upstream.\n\n"
        f"## Forwarded\n\n{table}\n"
        "Any other path is passed on unchanged.\n\n"
        f"## Answered by the gateway itself\n\n{format_table(('method', 'path', 'answer'), list_own_endpoints())}"
    )


def list_own_endpoints() -> list[tuple[str, ...]]:
    """The paths that the sources of the gateway and of its page compare with."""
    pages = (SOURCE / "web" / "live" / "pages.py").read_text("utf-8")
    rows = [
        ("GET", "`/healthz`", "whether it runs; needs no token"),
        ("GET", "`/metrics`", "counters, see [Metrics](metrics.md)"),
        ("GET", "`/ui`, `/ui/session?name=NAME`", "the page, the page of a session"),
        ("GET", "`/ui/api/events`", "a stream of updates (server-sent events)"),
        ("GET", "`/ui/api/sessions`", "the list of sessions as JSON"),
    ]
    actions = re.findall(r'^ +"(\w+)": lambda: looks\.(\w+)', pages, re.MULTILINE)
    rows += [("GET", f"`/ui/api/{name}?name=NAME`", method.replace("_", " ")) for name, method in actions]
    rows += [("POST", f"`{path}`", "for the page only") for path in ("/ui/login", "/ui/logout", "/ui/api/undo")]
    text = pages + (SOURCE / "gateway" / "app.py").read_text("utf-8")
    for path in re.findall(r"`(/[\w/]+)", " ".join(row[1] for row in rows[:4] + rows[-3:])):
        if f'"{path}"' not in text:
            raise SystemExit(f"reference: the gateway does not know {path} any more; change docs/reference.py")
    return rows


def write_mcp_page() -> str:
    with TemporaryDirectory() as folder, tidegate.DataFolder(folder) as data:
        tools = asyncio.run(create_mcp_server(data, allow_writes=True).list_tools())
        readers = {tool.name for tool in asyncio.run(create_mcp_server(data).list_tools())}
    parts = ["# MCP tools\n", "The tools of `tidegate mcp`.\n"]
    for tool in tools:
        note = "" if tool.name in readers else " Only with `--allow-writes`."
        schema = tool.input_schema
        rows = [
            (
                f"`{name}`",
                str(field.get("type", "")),
                "required" if name in schema.get("required", ()) else f"`{field.get('default')!r}`",
                format_cell(field.get("description", "")),
            )
            for name, field in schema.get("properties", {}).items()
        ]
        table = format_table(("argument", "type", "default", "meaning"), rows)
        parts.append(f"## {tool.name}\n\n{tool.description}{note}\n\n{table}")
    return "\n".join(parts)


def write_metrics_page() -> str:
    text = Metrics().render()
    helps = dict(re.findall(r"^# HELP (\S+) (.*)$", text, re.MULTILINE))
    rows = [
        (f"`{name}`", kind, helps.get(name, "Now."))
        for name, kind in re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE)
    ]
    table = format_table(("metric", "type", "meaning"), rows)
    return f"# Metrics\n\n`GET /metrics` of the gateway, in the text format of Prometheus.\n\n{table}"


def list_error_classes() -> dict[str, tuple[str, str]]:
    """Every error class by name, with its parent and its docstring, from the sources."""
    classes = {
        node.name: (base.id, ast.get_docstring(node) or "")
        for path in sorted(SOURCE.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ClassDef)
        for base in node.bases[:1]
        if isinstance(base, ast.Name)
    }
    known = {"TidegateError"}
    while found := {name for name, (base, _) in classes.items() if base in known} - known:
        known |= found
    return {name: classes[name] for name in sorted(known)}


def format_message(node: ast.expr, constants: dict[str, str]) -> str:
    """A message of the source; values in it are shown as names in braces."""
    if isinstance(node, ast.Name):
        return constants.get(node.id, "")
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(
            str(each.value) if isinstance(each, ast.Constant) else "{" + name_value(each) + "}" for each in node.values
        )
    return ""


def list_text_constants(tree: ast.Module) -> dict[str, str]:
    return {
        name.id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        for name in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(name, ast.Name)
    }


def name_value(node: ast.expr) -> str:
    names = [each.id for each in ast.walk(node) if isinstance(each, ast.Name)]
    attributes = [each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)]
    return (attributes or names or ["value"])[0].strip("_")


def list_raised_errors(classes: dict[str, tuple[str, str]]) -> dict[str, list[tuple[str, str]]]:
    """The messages with which each class is raised, with their remedies."""
    found: dict[str, list[tuple[str, str]]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        constants = list_text_constants(tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in classes:
                texts = [format_message(each, constants) for each in node.args[:2]]
                if len(texts) == 2 and texts[0].strip():
                    found.setdefault(node.func.id, []).append((texts[0], texts[1]))
    return found


def write_error_page() -> str:
    classes = list_error_classes()
    raised = list_raised_errors(classes)
    parts = [
        "# Errors\n",
        "Every error of tidegate is a `TidegateError`. Its text says what happened and what to do next;"
        " `error.remedy` has the second part alone. Values that are filled in are shown in braces."
        " Texts that the code puts together from several parts are not listed.\n",
    ]
    for name, (base, about) in classes.items():
        parent = f"A `{base}`. " if base in classes else ""
        rows = [
            (escape_message(cause), escape_message(remedy) or "(depends on the cause)")
            for cause, remedy in dict.fromkeys(raised.get(name, ()))
        ]
        table = format_table(("what happened", "what to do"), rows) if rows else ""
        parts.append(f"## {name}\n\n{parent}{about.replace('<', '&lt;')}\n\n{table}")
    return "\n".join(parts)


def escape_message(text: str) -> str:
    return (
        re.sub(r"([*_<\[\]])", r"\\\1", format_cell(text))
        if "`" not in text
        else format_cell(text).replace("<", "&lt;")
    )


PAGES: dict[str, Callable[[], str]] = {
    "python": write_python_page,
    "command-line": write_command_page,
    "configuration": write_configuration_page,
    "policies": write_policy_page,
    "stages": write_stage_page,
    "http": write_http_page,
    "mcp": write_mcp_page,
    "metrics": write_metrics_page,
    "errors": write_error_page,
}


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, write in PAGES.items():
        (folder / f"{name}.md").write_text(write(), "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
