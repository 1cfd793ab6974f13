"""Write the reference pages of the site from the code: `python docs/reference.py FOLDER`.

`make docs` runs it before every build. The pages are not committed, so they cannot differ from the code.
The pages about Python and about errors are written by `reference_python.py` and `reference_errors.py`.
"""

import argparse
import asyncio
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
from reference_errors import write_error_page
from reference_markdown import (
    DISPLAY_WIDTH,
    SOURCE,
    clean_docstring,
    describe_type,
    format_cell,
    format_code_cell,
    format_table,
)
from reference_python import write_python_page

from tidegate import DataFolder
from tidegate.agent.config.settings import FileSettings
from tidegate.agent.hook_types import RunFunction
from tidegate.cli.options import HelpFormatter
from tidegate.cli.parser import make_parser
from tidegate.core.policy.parser import RULE_KEYS
from tidegate.core.policy.policy import COMPARISONS
from tidegate.core.stages import STAGES
from tidegate.core.text.secrets import SecretString
from tidegate.gateway.metrics import Metrics
from tidegate.gateway.routing import find_route
from tidegate.gateway.settings import DEFAULT_URLS, Upstream
from tidegate.integrations.mcp_server import create_mcp_server

POLICIES = Path(__file__).parent / "policies.md"
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
    "manage": "logged, and edited if necessary",
    "count": "counted for the view that would be sent",
    "proxy": "passed on unchanged, not logged",
}
YAML_WORDS = {
    str: "text",
    SecretString: "text",
    int: "integer",
    float: "number",
    bool: "`true` or `false`",
    NoneType: "`null`",
    Any: "any value",
}
PAGE_DATA = {
    "newest": "the window now and the newest requests",
    "session": "everything about the session except its requests",
    "requests": "the requests before a given one",
    "request": "what the client sent and what was forwarded",
    "change": "the view before and after a compaction",
    "messages": "messages by their numbers",
    "recall": "messages by words",
}


def list_commands(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for each in dict.fromkeys(action.choices.values()):
                yield each
                yield from list_commands(each)


def format_help(parser: argparse.ArgumentParser) -> str:
    parser.formatter_class = lambda prog: HelpFormatter(prog, max_help_position=28, width=DISPLAY_WIDTH)
    home = str(Path.home())
    return parser.format_help().rstrip().replace(home, "~")


def write_command_page() -> str:
    parser = make_parser()
    parts = ["# Command line\n", f"```\n{format_help(parser)}\n```\n"]
    for each in list_commands(parser):
        parts.append(f"## {each.prog}\n\n```\n{format_help(each)}\n```\n")
    return "\n".join(parts)


Uses = dict[type[msgspec.Struct], list[str]]


def walk_settings(struct: type[msgspec.Struct], uses: Uses) -> None:
    """Collect the types of the fields, in the order in which they are met, each with the keys that use it."""
    for key, hint in get_type_hints(struct, include_extras=True).items():
        for found in find_structs(hint):
            is_new = found not in uses
            place = "" if struct is FileSettings else f" in {link_struct(struct)}"
            uses.setdefault(found, []).append(f"`{key}`{place}")
            if is_new:
                walk_settings(found, uses)


def title_struct(struct: type[msgspec.Struct]) -> str:
    return struct.__name__.removesuffix("Settings").removesuffix("File")


def link_struct(struct: type[msgspec.Struct]) -> str:
    return f"[{title_struct(struct)}](#{title_struct(struct).lower()})"


def describe_yaml_type(hint: Any) -> str:
    """A type in the words of a YAML file."""
    origin, parts = get_origin(hint), get_args(hint)
    if inspect.isclass(hint) and issubclass(hint, msgspec.Struct):
        return link_struct(hint)
    if origin is Annotated:
        return describe_yaml_type(parts[0])
    if origin is Literal:
        return " or ".join(f"`{each}`" for each in parts)
    if origin in (Union, UnionType):
        return " or ".join(describe_yaml_type(each) for each in parts if each is not RunFunction)
    if origin is tuple:
        return f"list of {describe_yaml_type(parts[0])}"
    if origin is dict:
        return f"mapping of names to {describe_yaml_type(parts[1])}"
    return YAML_WORDS[hint]


def find_structs(hint: Any) -> Iterator[type[msgspec.Struct]]:
    if inspect.isclass(hint) and issubclass(hint, msgspec.Struct) and hint is not RunFunction:
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
    uses: Uses = {FileSettings: []}
    walk_settings(FileSettings, uses)
    parts = [
        "# Configuration keys\n",
        "The keys of `tidegate.yaml`. [The agent](../agent.md) explains how files are combined and trusted, and"
        " `tidegate config` shows the values in effect.\n",
    ]
    for struct, keys in uses.items():
        if not vars(struct).get("__doc__"):
            raise SystemExit(f"reference: {struct.__name__} has no docstring for the list of configuration keys")
        title = "The file" if struct is FileSettings else title_struct(struct)
        used = f"Value of {', '.join(keys)}. " if keys else ""
        tag = struct.__struct_config__.tag
        note = f"Written with `type: {tag}`. " if tag else ""
        rows = [
            (f"`{field.encode_name}`", format_cell(describe_yaml_type(field.type)), describe_default(field))
            for field in msgspec.structs.fields(struct)
        ]
        table = format_table(("key", "value", "default"), rows) if rows else ""
        parts.append(f"## {title}\n\n{used}{note}{clean_docstring(struct)}\n\n{table}")
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
    actions = re.findall(r'^ +"(\w+)": lambda: looks\.', pages, re.MULTILINE)
    rows += [("GET", f"`/ui/api/{name}?name=NAME`", f"data of the page: {PAGE_DATA[name]}") for name in actions]
    rows += [("POST", f"`{path}`", "for the page only") for path in ("/ui/login", "/ui/logout", "/ui/api/undo")]
    text = pages + (SOURCE / "gateway" / "app.py").read_text("utf-8")
    for path in re.findall(r"`(/[\w/]+)", " ".join(row[1] for row in rows[:4] + rows[-3:])):
        if f'"{path}"' not in text:
            raise SystemExit(f"reference: the gateway does not know {path} any more; change docs/reference.py")
    return rows


def write_mcp_page() -> str:
    with TemporaryDirectory() as folder, DataFolder(folder) as data:
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
        (f"`{name}`", kind, helps.get(name, "The number now."))
        for name, kind in re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE)
    ]
    table = format_table(("metric", "type", "meaning"), rows)
    return f"# Metrics\n\n`GET /metrics` of the gateway, in the text format of Prometheus.\n\n{table}"


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
