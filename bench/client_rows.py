"""Long runs of real clients and frameworks against the strict fake provider: one row of the table in docs/gateway.md.

    make client-rows ROWS="claude:prefix codex" STEPS=300       # all of them, without ROWS
    python bench/client_rows.py claude:prefix --steps 300
    .envs/integrations/langchain/bin/python bench/client_rows.py langchain:prefix --steps 300

A run has two turns, in a window of 40,000 tokens. The first message has a task and a rule. Each step is a tool call
with about 1,000 tokens of output. A client runs as its own program behind the gateway, with the gateway's defaults; its
second turn is another process that continues the first. A framework has the adapter (`framework_rows.py`). The provider
refuses requests above the window, requests that are not valid, and signed thinking in a wrong place. `MODES` says what
it knows of thinking: nothing, each block ("block"), or also what is before each block ("prefix", Anthropic only).

The columns: requests; those with the task (in the second turn: with both); those with the typed rule; those over the
window; sessions; requests that the guard shortened, or that were sent unmanaged; requests without the option for
thinking (- if the client has none); refusals of the provider; blocks of thinking that it dropped; faults. A line on
standard error says how many requests do not begin with all messages of the one before, so that the provider's cache
holds less of them. `--window 32000 --no-thinking` counts them in another window, and for Claude Code without thinking.
"""

import argparse
import asyncio
import importlib
import json
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

RULE = "Never push to main."
SECOND = "Now do the other half of the steps."
MODES = ("none", "block", "prefix")
CLAUDE_MODELS = {"none": "claude-opus-4-6", "block": "claude-sonnet-4-5", "prefix": "claude-opus-5-5"}
"""By what the provider checks. What a model's name says is checked is no more than that."""


class Row(NamedTuple):
    requests: int
    with_task: int
    with_rule: int
    over: int
    sessions: int
    guarded: int
    without_thinking: int | None
    refusals: int
    dropped: int
    faults: int


class SentRequest(NamedTuple):
    text: str
    tokens: int
    thinks: bool


def make_row(
    requests: list[SentRequest], task: str, window: int, sessions: int, guarded: int, refusals: list[str], **more: int
) -> Row:
    """`thinks`: whether a request has the option for thinking."""
    second = next((at for at, each in enumerate(requests) if SECOND in each.text), len(requests))
    with_task = sum(task in each.text and (at < second or SECOND in each.text) for at, each in enumerate(requests))
    thinking = sum(not each.thinks for each in requests)
    _print_findings([f"{count_prefix_changes(requests)} changes of the prefix"])
    return Row(
        len(requests),
        with_task,
        sum(RULE in each.text for each in requests),
        sum(each.tokens > window for each in requests),
        sessions,
        guarded,
        thinking if thinking < len(requests) else None,
        len(refusals),
        more.get("dropped", 0),
        more.get("faults", 0),
    )


def count_prefix_changes(requests: list[SentRequest]) -> int:
    """How many requests do not begin with all messages of the one before. Marks for the cache do not matter."""
    changes = 0
    before: list[object] = []
    for each in requests:
        body = json.loads(each.text)
        content = next((body[key] for key in ("messages", "input", "contents") if key in body), [])
        messages = [_without_marks(message) for message in content] if isinstance(content, list) else [content]
        changes += messages[: len(before)] != before
        before = messages
    return changes


def _without_marks(value: object) -> object:
    if isinstance(value, dict):
        return {key: _without_marks(inner) for key, inner in value.items() if key != "cache_control"}
    return [_without_marks(each) for each in value] if isinstance(value, list) else value


# --- clients ------------------------------------------------------------------------------------------------------


async def run_client_row(client: str, mode: str, steps: int, window: int, folder: Path) -> Row:
    programs = importlib.import_module("tests.clients.programs")
    scripted = importlib.import_module("tests.clients.scripted_provider")
    serving = importlib.import_module("tests.gateway.serving")
    upstream = importlib.import_module("tidegate.gateway.settings").Upstream
    home, work, last = folder / "home", folder / "work", steps // 2
    home.mkdir()
    work.mkdir()

    def script(step: int) -> str | None:
        return f"seq -f 'line %g of step {step} is some output of a tool' 1 90" if step < last else None

    # These two list the folder in their first message, so nothing may appear in it.
    options: dict[str, Any] = {"work": work} if client in ("gemini", "qwen") else {}
    before: tuple[str, ...] = ()
    if client in ("agent_sdk", "opencode", "pi"):
        options["model"] = CLAUDE_MODELS[mode]
    elif client == "claude":
        before = ("--model", CLAUDE_MODELS[mode])
    provider = scripted.ScriptedProvider(
        script, window=window, binding="" if mode == "none" else mode, gives_ids=client != "gemini"
    )
    async with provider:
        family = "anthropic" if options.get("model") else programs.FAMILY[client]
        settings = upstream(family, family, provider.url)
        options_of_gateway: dict[str, Any] = {"window": window, "recall": True, "make": serving.RecordingGateway}
        async with serving.run_gateway(folder / "data", settings, **options_of_gateway) as running:
            run = partial(programs.RUNS[client], running, home, *before, **options)
            first = await run(task=f"{programs.TASK} {RULE}")
            last = steps
            second = await run(*programs.CONTINUE[client], task=SECOND)
            metrics = running.gateway.metrics
            names = ("guarded_requests", "guarded_own_requests", "unmanaged_requests", "unlogged_requests", "defects")
            counts = {name: metrics.read(name) for name in names if metrics.read(name)}
            faults = provider.list_new_faults(set(running.gateway.bodies))
            logs = [running.data.open_log(info.name).read() for info in running.data.store.sessions()]
            sessions = sum(not _ends_with(log, scripted.SIDE_ANSWER) for log in logs)
            lines = {line for line in running.lines if "POST" not in line}
    for output in (first, second):
        if "All steps are done." not in output:
            print(f"  not finished: {output[-500:]}", file=sys.stderr)
    _print_findings([str(counts), *provider.refused, *faults, *sorted(lines)])
    main_requests = [request for request in provider.seen if not request.is_side]
    requests = [
        SentRequest(request.raw.decode(), request.tokens, _asks_for_thinking(request.raw)) for request in main_requests
    ]
    more = {"dropped": len(provider.dropped), "faults": len(faults)}
    return make_row(requests, programs.TASK, window, sessions, sum(counts.values()), provider.refused, **more)


# --- frameworks ---------------------------------------------------------------------------------------------------


def run_framework_row(name: str, mode: str, steps: int, window: int, folder: Path) -> Row:
    rows = importlib.import_module("framework_rows")
    framework, task = (
        rows.FRAMEWORKS[name],
        "Read the pages you are given, one after the other, and say when all are read.",
    )
    model = CLAUDE_MODELS[mode] if framework.wire == "anthropic" else framework.model
    with rows.serve(framework, steps, window, mode, ends_with_call=name == "inspect_ai") as fake:
        url = fake.host if framework.wire == "gemini" else fake.url
        framework.run(rows.Run(url, folder / "data", window, (f"{task} {RULE}", SECOND), model))
    scale = importlib.import_module("tests.fake.server").Scale()
    requests = [
        SentRequest(request.raw.decode(), scale.weight(framework.wire, request.raw), _asks_for_thinking(request.raw))
        for request in fake.seen
        if not request.path.endswith("/count_tokens")  # the fake does not count: inspect_ai estimates then
    ]
    refusals = [each for each in fake.refused if "/count_tokens" not in each]
    with importlib.import_module("tidegate.datafolder.data_folder").DataFolder(folder / "data") as data:
        logs = [list(data.open_log(info.name).read()) for info in data.store.sessions()]
    guarded = sum(getattr(event.payload, "stage", "") == "guard" for log in logs for event in log)
    _print_findings(refusals)
    return make_row(requests, task, window, len(logs), guarded, refusals, dropped=len(fake.dropped))


def _ends_with(log: Any, answer: str) -> bool:
    """Whether the last answer of a log is this one."""
    messages = [getattr(event.payload, "message", None) for event in log]
    answers = [message for message in messages if message is not None and message.role == "assistant"]
    return bool(answers) and answer in str(answers[-1].parts)


def _asks_for_thinking(raw: bytes) -> bool:
    has_option = any(name in raw for name in (b'"thinking":{', b'"reasoning":{', b'"thinkingConfig":{'))
    return has_option and b'"thinking":{"type":"disabled"}' not in raw


def _print_findings(findings: list[str]) -> None:
    for each in findings[:12]:
        print(f"  {each[:300]}", file=sys.stderr)


# --- the table ----------------------------------------------------------------------------------------------------

CLIENTS = ("claude", "agent_sdk", "codex", "opencode", "gemini", "pi", "qwen")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", help="a client or framework, with :block or :prefix for what the provider checks")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--window", type=int, default=40_000)
    parser.add_argument("--no-thinking", action="store_true", help="Claude Code without thinking")
    options = parser.parse_args()
    name, _, mode = options.name.partition(":")
    if options.no_thinking:
        importlib.import_module("tests.clients.programs").CLAUDE_SETTINGS["CLAUDE_CODE_DISABLE_THINKING"] = "1"
    with tempfile.TemporaryDirectory() as folder:
        row = (
            asyncio.run(run_client_row(name, mode or "none", options.steps, options.window, Path(folder)))
            if name in CLIENTS
            else run_framework_row(name, mode or "none", options.steps, options.window, Path(folder))
        )
    cells = ["-" if value is None else str(value) for value in row]
    print(f"| {name} | {mode or 'none'} | {options.steps} | {' | '.join(cells)} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
