"""The adapters beside the compaction that each framework has itself, on the same long run with a strict fake provider.

Run it in the environment of a framework: .envs/integrations/NAME/bin/python bench/integrations_compared.py NAME

The agent reads 100 pages, two at a time, in a window of 16,000 tokens. The first message has a rule in the middle of a
long text. The columns: requests; refused by the provider (over the window, or invalid); whether the run was finished;
far first lines, far deep lines: of the pages that are more than half a window old, the share whose first line or whose
line in the middle is in a request (only requests whose whole history exceeds the window count); rule: the share of
these requests that have the rule; tokens sent (bytes of the requests divided by 4). Settings are the framework's
defaults, with the window where it asks for one. A fixed text stands for every summary that a model is asked for.
"""

import asyncio
import importlib
import os
import pathlib
import random
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

from tests.fake.server import Fake, Step
from tests.integrations.provider import FINAL_ANSWER, LongTask, run_provider

WINDOW = 16_000
PAGES = 100
PAGES_IN_HALF_A_WINDOW = 12
RULE = "Never delete anything in the folder harbor/archive."
TASK = "Read all pages. " + "The harbor keeps a log for each day. " * 40 + RULE + " Most days are quiet." * 60
SUMMARY = "Pages of the harbor log were read; each page has a code, page 0 has K0000, page 1 has K0001."


def read_varied_page(number: int) -> str:
    """A page without repeated lines, with a fact in its first line and one in the middle that no other page has."""
    chance = random.Random(number)
    words = "wind tide crane berth pilot cargo rope anchor fog lamp buoy quay harbor ledger sail engine".split()
    lines = [" ".join(chance.choices(words, k=8)) + f" {chance.randrange(10_000)}." for _ in range(56)]
    first, middle = f"Page {number}: the code is K{number:04d}.", f"At noon the ship S{number:04d} came in."
    return "\n".join([first, *lines[:28], middle, *lines[28:], ""])


Run = Callable[[Fake, pathlib.Path], Any]


class Figures(NamedTuple):
    requests: int
    refused: int
    is_finished: bool
    first_lines: str
    deep_lines: str
    rule: str
    tokens: int


def measure_run(run: Run, wire: str, make_task: Callable[..., LongTask]) -> Figures:
    task = make_task(PAGES, parallel=2)
    left: dict[int, int] = {}  # by the number of the request: the pages that were not asked for

    def script(body: dict[str, Any]) -> Step:
        has_tools = bool(body.get("tools"))
        if has_tools:
            left[len(fake.seen) - 1] = len(task.left)
        return task(body) if has_tools else SUMMARY

    finished, firsts, deeps, rules = False, list[float](), list[float](), list[bool]()
    with run_provider(wire, script, WINDOW) as fake, tempfile.TemporaryDirectory() as folder:
        try:
            finished = FINAL_ANSWER in str(run(fake, pathlib.Path(folder)))
        except Exception as failure:  # noqa: BLE001 - the framework's own error for a refused request
            print(f"    stopped by {type(failure).__name__}", file=sys.stderr)
        for number, missing in left.items():
            text, read = fake.seen[number].raw.decode(), PAGES - missing
            far = read - PAGES_IN_HALF_A_WINDOW
            if read < 2 * PAGES_IN_HALF_A_WINDOW:
                continue
            firsts.append(sum(f"the code is K{page:04d}" in text for page in range(far)) / far)
            deeps.append(sum(f"the ship S{page:04d}" in text for page in range(far)) / far)
            rules.append(RULE in text)
        tokens = sum(len(request.raw) for request in fake.seen) // 4
        for text in fake.refused[:1]:
            print(f"    refused: {text[:200]}", file=sys.stderr)
        refusals = len(fake.refused)
        requests = len(fake.seen)
    return Figures(requests, refusals, finished, _mean(firsts), _mean(deeps), _mean(rules), tokens)


def _mean(values: list[Any]) -> str:
    return f"{sum(values) / len(values):.0%}" if values else "-"


# --- the frameworks -----------------------------------------------------------------------------------------------


def list_langchain(tests: Any) -> Iterator[tuple[str, Run]]:
    middleware = importlib.import_module("langchain.agents.middleware")

    def run(make: Callable[[Any, pathlib.Path], list[Any]]) -> Run:
        def act(fake: Fake, folder: pathlib.Path) -> str:
            model = tests.make_model(fake)
            saver = tests.InMemorySaver()
            agent = tests.create_agent(model, [tests.read], middleware=make(model, folder), checkpointer=saver)
            return str(agent.invoke(tests.ask(TASK), tests.config("t"))["messages"][-1].text)

        return act

    trigger = ("tokens", WINDOW * 3 // 4)
    clear = middleware.ClearToolUsesEdit(trigger=WINDOW * 3 // 4)
    yield "none", run(lambda model, folder: [])
    yield (
        "SummarizationMiddleware",
        run(lambda model, folder: [middleware.SummarizationMiddleware(model, trigger=trigger)]),
    )
    yield "ContextEditingMiddleware", run(lambda model, folder: [middleware.ContextEditingMiddleware(edits=[clear])])
    yield "tidegate", run(lambda model, folder: [tests.TidegateMiddleware(folder, window=WINDOW)])


def list_openai_agents(tests: Any) -> Iterator[tuple[str, Run]]:
    trimmer = importlib.import_module("agents.extensions").ToolOutputTrimmer

    def run(make: Callable[[pathlib.Path], dict[str, Any]]) -> Run:
        return lambda fake, folder: (
            tests.run_agent(fake, tests.make_agent, TASK, max_turns=500, **make(folder)).final_output
        )

    def use_tidegate(folder: pathlib.Path) -> dict[str, Any]:
        options = tests.options_of(tests.TidegateFilter(folder, window=WINDOW))
        return {name: value for name, value in options.items() if name != "max_turns"}

    settings = importlib.import_module("agents.memory").SessionSettings(limit=20)
    session = importlib.import_module("agents").SQLiteSession
    yield "none", run(lambda folder: {})
    yield "session of the last 20 items", run(lambda folder: {"session": session("t", session_settings=settings)})
    yield (
        "ToolOutputTrimmer",
        run(lambda folder: {"run_config": tests.RunConfig(call_model_input_filter=trimmer())}),
    )
    yield "tidegate", run(use_tidegate)


def list_pydantic_ai(tests: Any) -> Iterator[tuple[str, Run]]:
    process = importlib.import_module("pydantic_ai.capabilities").ProcessHistory

    def run(make: Callable[[pathlib.Path], list[Any]]) -> Run:
        def act(fake: Fake, folder: pathlib.Path) -> Any:
            async def ask(model: Any) -> Any:
                agent = tests.Agent(model, tools=[tests.read], capabilities=make(folder))
                return (await agent.run(TASK, conversation_id="t", usage_limits=tests.NO_LIMIT)).output

            return tests.run_agent("openai_chat", fake.url, ask)

        return act

    def keep_recent(messages: list[Any]) -> list[Any]:
        """The example of the documentation, with the first message and whole pairs of calls and results."""
        return messages if len(messages) < 20 else [messages[0], *messages[-18:]]

    yield "none", run(lambda folder: [])
    yield "ProcessHistory, last messages", run(lambda folder: [process(keep_recent)])
    yield "tidegate", run(lambda folder: [tests.TidegateCapability(folder, window=WINDOW)])


def list_agent_framework(tests: Any) -> Iterator[tuple[str, Run]]:
    framework = importlib.import_module("agent_framework")

    def run(make: Callable[[pathlib.Path], dict[str, Any]]) -> Run:
        def act(fake: Fake, folder: pathlib.Path) -> Any:
            async def ask(client: Any) -> Any:
                return (await tests.make_agent(client, **make(folder)).run(TASK)).text

            return tests.run_agent(fake.url, ask)

        return act

    by_window = framework.ContextWindowCompactionStrategy(max_context_window_tokens=WINDOW, max_output_tokens=1_000)
    sliding = framework.SlidingWindowStrategy(keep_last_groups=10)
    yield "none", run(lambda folder: {})
    yield "ContextWindowCompactionStrategy", run(lambda folder: {"compaction_strategy": by_window})
    yield "SlidingWindowStrategy", run(lambda folder: {"compaction_strategy": sliding})
    yield "tidegate", run(lambda folder: {"tidegate": tests.TidegateMiddleware(folder, window=WINDOW)})


def list_inspect_ai(tests: Any) -> Iterator[tuple[str, Run]]:
    model = importlib.import_module("inspect_ai.model")

    def run(make: Callable[[pathlib.Path], Any]) -> Run:
        def act(fake: Fake, folder: pathlib.Path) -> Any:
            solver = tests.react(tools=[tests.read()], compaction=make(folder))
            task = tests.Task(dataset=[tests.Sample(input=TASK)], solver=solver)
            return tests.run_task(task, fake.url, folder).output.completion

        return act

    limit = WINDOW - 2_000
    yield "none", run(lambda folder: None)
    yield "CompactionEdit", run(lambda folder: model.CompactionEdit(threshold=limit))
    yield "CompactionTrim", run(lambda folder: model.CompactionTrim(threshold=limit))
    yield "CompactionSummary", run(lambda folder: model.CompactionSummary(threshold=limit))
    yield "tidegate", run(lambda folder: tests.TidegateCompaction(folder / "data", threshold=limit))


def list_strands(tests: Any) -> Iterator[tuple[str, Run]]:
    managers = importlib.import_module("strands.agent.conversation_manager")

    def run(make: Callable[[pathlib.Path], Any]) -> Run:
        return lambda fake, folder: str(tests.make_agent(fake.url, make(folder), "t")(TASK))

    yield "none", run(lambda folder: managers.NullConversationManager())
    yield "SlidingWindowConversationManager", run(lambda folder: managers.SlidingWindowConversationManager())
    yield "SummarizingConversationManager", run(lambda folder: managers.SummarizingConversationManager())
    yield "tidegate", run(lambda folder: tests.TidegateConversation(folder, window=WINDOW))


def list_google_adk(tests: Any) -> Iterator[tuple[str, Run]]:
    os.environ["GOOGLE_API_KEY"] = tests.KEY
    compaction = importlib.import_module("google.adk.apps.app").EventsCompactionConfig
    context_filter = importlib.import_module("google.adk.plugins.context_filter_plugin").ContextFilterPlugin

    def run(make: Callable[[pathlib.Path], dict[str, Any]]) -> Run:
        def act(fake: Fake, folder: pathlib.Path) -> Any:
            async def ask() -> list[str]:
                agent = tests.LlmAgent(name="reader", model=tests.make_model(fake), tools=[tests.read])
                app = tests.App(name="app", root_agent=agent, **make(folder))
                return (await tests.run_app(app, "t", [tests.types.Part(text=TASK)]))[0]

            return asyncio.run(ask())

        return act

    by_tokens = {"token_threshold": WINDOW * 3 // 4, "event_retention_size": 10}
    yield "none", run(lambda folder: {})
    yield (
        "EventsCompactionConfig, by tokens",
        run(lambda folder: {"events_compaction_config": compaction(**by_tokens)}),
    )
    yield "ContextFilterPlugin", run(lambda folder: {"plugins": [context_filter(num_invocations_to_keep=1)]})
    yield "tidegate", run(lambda folder: {"plugins": [tests.TidegatePlugin(folder, window=WINDOW)]})


WIRES = {"openai_agents": "openai_responses", "google_adk": "gemini"}
CONTENDERS = {
    "langchain": list_langchain,
    "openai_agents": list_openai_agents,
    "pydantic_ai": list_pydantic_ai,
    "agent_framework": list_agent_framework,
    "inspect_ai": list_inspect_ai,
    "strands": list_strands,
    "google_adk": list_google_adk,
}


def main() -> int:
    name = sys.argv[1]
    tests = importlib.import_module(f"tests.integrations.test_{name}")
    tests.read_page = read_varied_page  # the tools of these modules read their pages with it
    wire = WIRES.get(name, "openai_chat")
    make_task = tests.SubmittingTask if name == "inspect_ai" else LongTask
    for contender, run in CONTENDERS[name](tests):
        figures = measure_run(run, wire, make_task)
        finished = "yes" if figures.is_finished else "no"
        shares = f"{figures.first_lines} | {figures.deep_lines} | {figures.rule}"
        print(
            f"| {name} | {contender} | {figures.requests} | {figures.refused} | {finished} | {shares}"
            f" | {figures.tokens:,} |",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
