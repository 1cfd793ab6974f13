"""How large the code is, and how much of it a reader meets who follows one call.

    python bench/code_figures.py                               # all figures of this checkout
    PYTHONPATH=OTHER/src python bench/code_figures.py          # of another checkout, with the same measure
    python bench/code_figures.py --list names                  # local names that are participles, per file
    python bench/code_figures.py --list siblings               # modules that one module of the same folder imports
    python bench/code_figures.py --list unused                 # modules and names that nothing in the package uses
    python bench/code_figures.py --list course                 # the files of the gateway request and its calls

Lines are those that are not blank. A file counts as met if Python runs a function of it. A switch is a call that begins
in another file than the call before it: there a reader has to change the page. A coroutine or a generator that goes on
counts, too; how many of the switches are such ones is printed beside them. The gateway request is a streamed one of a
known session, from the first byte of the request to the last byte of the answer, with a fake upstream.
"""

import argparse
import ast
import asyncio
import json
import re
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

import tidegate
from tidegate import Session

PACKAGE = Path(tidegate.__file__).parent
PARTICIPLES = frozenset(
    "added answered asked begged begun bound brought built called carried changed chosen clipped counted covered done "
    "dropped ended fed felt filled found gained given gone grown heard held hidden joined kept known laid learned led "
    "lent lost made marked masked meant measured merged met moved named needed noted opened owed packed paid painted "
    "parsed passed picked placed printed proven quoted ranked reached received refused removed rendered replaced said "
    "saved seen sent served shown skipped spent spoken stated stored stripped taken taught thrown timed told tried "
    "trimmed turned typed used wanted warned weighed won worn written".split()
)
"""Past participles that say what was done to a thing and not what it is."""


# --- size ---------------------------------------------------------------------------------------------------------


def list_sources() -> dict[str, Path]:
    """The modules of the package by their dotted name."""
    sources = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        sources[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return sources


def count_lines(paths: list[Path]) -> int:
    return sum(bool(line.strip()) for path in paths for line in path.read_bytes().splitlines())


def print_size() -> None:
    modules = list_sources()
    lines = {name: count_lines([path]) for name, path in modules.items()}
    packages: Counter[str] = Counter()
    for name, count in lines.items():
        packages[name.split(".")[1] if "." in name else name] += count
    files = [path for path in PACKAGE.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    print(f"src: {sum(lines.values()):,} lines of Python in {len(lines)} files")
    print(f"wheel: {len(files)} files, {sum(path.stat().st_size for path in files) / 1024:,.0f} KiB unpacked")
    print("lines by package: " + ", ".join(f"{name} {count:,}" for name, count in packages.most_common()))
    names = list(list_local_names())
    bad = sum(name in PARTICIPLES for _, name in names)
    print(f"local names: {len(names):,}, of which participles {bad:,} ({bad / len(names):.1%})")
    siblings = list(list_single_siblings())
    print(
        f"modules that only one module of their folder imports: {len(siblings)}, {sum(n for *_, n in siblings):,} lines"
    )


# --- names --------------------------------------------------------------------------------------------------------


def list_local_names() -> Iterator[tuple[Path, str]]:
    """The names that functions bind: arguments and variables, each once per function."""
    for path in list_sources().values():
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield from ((path, name) for name in sorted(bound_names(node)))


def bound_names(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    names = {argument.arg for argument in ast.walk(function.args) if isinstance(argument, ast.arg)}
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            waiting += ast.iter_child_nodes(node)
    return names


def print_names() -> None:
    counts: dict[Path, Counter[str]] = {}
    for path, name in list_local_names():
        if name in PARTICIPLES:
            counts.setdefault(path, Counter())[name] += 1
    for path, names in sorted(counts.items(), key=lambda item: -item[1].total()):
        listed = ", ".join(f"{name} {count}" for name, count in names.most_common())
        print(f"{names.total():4} {path.relative_to(PACKAGE)}: {listed}")
    total: Counter[str] = sum(counts.values(), Counter())
    print(f"{total.total()} in all: " + ", ".join(f"{name} {count}" for name, count in total.most_common()))


# --- modules ------------------------------------------------------------------------------------------------------


def imports_by_module() -> dict[str, set[str]]:
    """Which modules of the package each module imports, in functions too."""
    modules = list_sources()
    table: dict[str, set[str]] = {}
    for name, path in modules.items():
        needs = table.setdefault(name, set())
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                needs.update(alias.name for alias in node.names if alias.name in modules)
            elif isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    full = f"{node.module}.{alias.name}"
                    needs.add(full if full in modules else node.module or "")
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in modules:
                needs.add(node.value)  # a table of modules that are loaded when they are needed
        needs &= modules.keys() - {name}
    return table


def list_importers() -> dict[str, set[str]]:
    importers: dict[str, set[str]] = {name: set() for name in list_sources()}
    for name, needs in imports_by_module().items():
        for each in needs:
            importers[each].add(name)
    return importers


def list_single_siblings() -> Iterator[tuple[str, str, int]]:
    """A module with one importer, which is in the same folder; the importer; the lines of the module."""
    modules = list_sources()
    for name, importers in list_importers().items():
        if len(importers) == 1 and modules[name].stem != "__init__":
            (importer,) = importers
            if modules[importer].parent == modules[name].parent and modules[importer].stem != "__init__":
                yield name, importer, count_lines([modules[name]])


def print_siblings() -> None:
    modules = list_sources()
    for name, importer, lines in sorted(list_single_siblings()):
        whole = lines + count_lines([modules[importer]])
        print(f"{lines:4} {name} -> {importer} ({whole} together)")


def print_unused() -> None:
    """Modules that nothing imports, then functions and classes that are named once in the package: at their definition.

    Commands, formats and callbacks of a framework are found by their name, so a line here is a question.
    """
    for name, importers in list_importers().items():
        path = list_sources()[name]
        if not importers and path.stem not in ("__init__", "__main__"):
            print(f"{count_lines([path]):4} {name}")
    texts = {path: path.read_text("utf-8") for path in list_sources().values()}
    words = Counter(word for text in texts.values() for word in re.findall(r"\w+", text))
    for path, text in texts.items():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and words[node.name] == 1:
                print(f"{(node.end_lineno or 0) - node.lineno + 1:4} {path.relative_to(PACKAGE)}: {node.name}")


# --- courses ------------------------------------------------------------------------------------------------------


class Course:
    """The files that run between `start` and `stop`, in every thread that begins after this is made."""

    def __init__(self) -> None:
        self.is_on = False
        self.files: list[str] = []
        self.calls: list[tuple[str, str, str]] = []
        """The calls that are a switch: the file they come from, the file they lead to, the function."""
        self.resumed_count = 0
        self._names: dict[str, str | None] = {}
        threading.setprofile(self._note)

    def _note(self, frame: FrameType, event: str, argument: object) -> None:
        if not self.is_on or event != "call":
            return
        path = frame.f_code.co_filename
        if path not in self._names:
            inside = path.startswith(str(PACKAGE))
            self._names[path] = str(Path(path).relative_to(PACKAGE)) if inside else None
        name = self._names[path]
        if name is not None and (not self.files or self.files[-1] != name):
            self.calls.append((self.files[-1] if self.files else "", name, frame.f_code.co_qualname))
            # The argument of RESUME is 0 where a function begins, else it says what the function waited for.
            self.resumed_count += frame.f_code.co_code[frame.f_lasti + 1] > 0
            self.files.append(name)

    def start(self) -> None:
        self.files, self.calls, self.resumed_count, self.is_on = [], [], 0, True
        sys.setprofile(self._note)

    def stop(self, title: str) -> None:
        self.is_on = False
        sys.setprofile(None)
        resumed = f" ({self.resumed_count} where a coroutine or generator goes on)" if self.resumed_count else ""
        print(f"{title}: {len(set(self.files))} files, {max(len(self.files) - 1, 0)} switches{resumed}")


def print_session_courses(course: Course) -> None:
    session = Session("claude-sonnet-4-5")
    session.add({"role": "user", "content": "What does the parser return?"})
    session.prepare()
    course.start()
    session.add({"role": "assistant", "content": "A list of messages."})
    course.stop("add")
    session.prepare()
    course.start()
    session.prepare()
    course.stop("idle prepare")
    course.start()
    session.add({"role": "user", "content": "And if it is empty?"})
    session.prepare()
    course.stop("new turn (add and prepare)")


def encode_stream() -> bytes:
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-opus-4-6", "content": []}
    usage = {"input_tokens": 100, "output_tokens": 1}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": message | {"stop_reason": None, "stop_sequence": None, "usage": usage}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "A list of messages."}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 40}},
        {"type": "message_stop"},
    ]
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events).encode()


async def call_gateway(gateway: Any, messages: list[dict[str, str]]) -> None:
    """One request, without a server between."""
    request = {"model": "claude-opus-4-6", "max_tokens": 100, "stream": True, "messages": messages}
    pieces = [{"type": "http.request", "body": json.dumps(request).encode(), "more_body": False}]
    status = 0

    async def receive() -> dict[str, Any]:
        return pieces.pop() if pieces else await asyncio.Future()

    async def send(message: dict[str, Any]) -> None:
        nonlocal status
        status = message.get("status", status)

    headers = {"host": "127.0.0.1", "content-type": "application/json", "x-api-key": "key", "x-tidegate-session": "one"}
    scope = {"type": "http", "method": "POST", "path": "/v1/messages", "raw_path": b"/v1/messages", "query_string": b""}
    scope["headers"] = [(name.encode(), value.encode()) for name, value in headers.items()]
    await gateway(scope, receive, send)
    assert status == 200, status


async def follow_gateway_request(course: Course, folder: Path) -> None:
    from tidegate.datafolder.data_folder import DataFolder
    from tidegate.gateway.app import Gateway
    from tidegate.gateway.settings import GatewaySettings, Upstream

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head, body = (
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n",
            encode_stream(),
        )
        with suppress(asyncio.IncompleteReadError):
            while request := await reader.readuntil(b"\r\n\r\n"):
                await reader.readexactly(int(request.split(b"content-length: ")[1].split(b"\r\n")[0]))
                writer.write(head % len(body) + body)
        writer.close()

    upstream = await asyncio.start_server(answer, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{upstream.sockets[0].getsockname()[1]}"
    data = DataFolder(folder)
    gateway = Gateway(GatewaySettings(port=0, upstreams=(Upstream("anthropic", "anthropic", url),)), data)
    messages = [{"role": "user", "content": "What does the parser return?"}]
    for _ in range(3):
        await call_gateway(gateway, messages)
        messages += [{"role": "assistant", "content": "A list of messages."}, {"role": "user", "content": "Go on."}]
    course.start()
    await call_gateway(gateway, messages)
    course.stop("streamed gateway request")
    await gateway.close()
    data.close()
    upstream.close()


def run_gateway_request() -> Course:
    course = Course()
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(follow_gateway_request(course, Path(folder)))
    return course


def print_course() -> None:
    """Each file in the order of its first call and how often it is entered; the switches by pair, and in order."""
    calls = run_gateway_request().calls
    entered = Counter(name for _, name, _ in calls)
    print("\nfiles in order of their first call, and how often each is entered")
    for name in dict.fromkeys(name for _, name, _ in calls):
        print(f"{entered[name]:4} {name}")
    print("\nswitches by pair")
    for (start, name), count in Counter((start, name) for start, name, _ in calls[1:]).most_common():
        print(f"{count:4} {start} -> {name}")
    print("\nin order")
    for _, name, function in calls:
        print(f"     {name}: {function}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Sizes of the code and the courses of calls through it.")
    lists: dict[str, Callable[[], None]] = {
        "names": print_names,
        "siblings": print_siblings,
        "unused": print_unused,
        "course": print_course,
    }
    parser.add_argument("--list", choices=lists, help="list the candidates behind one figure instead")
    options = parser.parse_args()
    if options.list:
        lists[options.list]()
        return
    print_size()
    print_session_courses(Course())
    run_gateway_request()


if __name__ == "__main__":
    main()
