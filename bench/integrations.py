"""What an adapter adds to a model call, with about 300 messages visible, early and late in a history.

Run it with the environment of a framework: .envs/integrations/NAME/bin/python bench/integrations.py NAME
`managed` is `tidegate.managed` with OpenAI's client: .venv/bin/python bench/integrations.py managed

Two messages are added for each call. The figures are the CPU time of the adapter's own work, as the framework calls it,
and for `managed` the CPU time of a whole call less that of the same call without it; the provider is a function that
answers at once. "4,001 : 301" is the quotient of the medians with these histories in the same window.
Some frameworks copy their messages for each call: the copies are made outside the clock.
"""

import asyncio
import copy
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any, NamedTuple

TARGET_MS = 2.0
TARGET_RATIO = 1.5
MEASURED = 60
ALL_VISIBLE = 1_000_000
BOUNDED = 18_000
"""A window in which 240 to 300 of the messages are visible."""

Prepare = Callable[[list[Any], list[Any]], int]
"""Prepares a call from the messages that the framework passes, and those that it keeps. Returns how many are sent."""


class Subject(NamedTuple):
    """An adapter: the messages of a step, how a call is prepared, and how the framework copies a message for it."""

    first: Any
    make_step: Callable[[int, str], list[Any]]
    prepare: Prepare
    copy_message: Callable[[Any], Any] = lambda message: message


def use_format(form: Any, folder: str, window: int, get_value: Callable[[Any], object] | None = None) -> Prepare:
    """With `get_value`, the framework copies its messages for each call."""
    from tidegate.integrations.host_messages import Copies
    from tidegate.integrations.model_calls import CallPreparer
    from tidegate.integrations.session_names import SessionName

    preparer: Any = CallPreparer(form, folder, window=window, model="gpt-4o")

    def prepare(messages: list[Any], originals: list[Any]) -> int:
        copies = Copies(originals, get_value) if get_value else None
        return len(preparer.prepare(SessionName("t"), messages, copies=copies).messages)

    return prepare


def make_langchain(folder: str, window: int) -> Subject:
    from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

    from tidegate.integrations.langchain import LangChainFormat

    def make_step(number: int, text: str) -> list[Any]:
        call = {"id": f"c{number}", "name": "read", "args": {"number": number}}
        return [AIMessage("", tool_calls=[call]), ToolMessage(text, tool_call_id=f"c{number}")]

    return Subject(HumanMessage("Read all pages."), make_step, use_format(LangChainFormat(), folder, window))


def make_openai_agents(folder: str, window: int) -> Subject:
    from agents import Agent
    from agents.run_config import CallModelData, ModelInputData

    from tidegate.integrations.openai_agents import TidegateFilter

    tidegate, agent = TidegateFilter(folder, window=window), Agent(name="reader", model="gpt-4o")
    loop = asyncio.new_event_loop()

    def make_step(number: int, text: str) -> list[Any]:
        call = {"type": "function_call", "call_id": f"c{number}", "name": "read", "arguments": f'{{"number":{number}}}'}
        return [call, {"type": "function_call_output", "call_id": f"c{number}", "output": text}]

    def prepare(messages: list[Any], _: list[Any]) -> int:
        data = CallModelData(ModelInputData(input=messages, instructions=None), agent, None)
        return len(loop.run_until_complete(tidegate(data)).input)

    return Subject({"role": "user", "content": "Read all pages."}, make_step, prepare, dict)


def make_pydantic_ai(folder: str, window: int) -> Subject:
    from pydantic_ai.messages import ModelRequest, ModelResponse, ToolCallPart, ToolReturnPart, UserPromptPart
    from pydantic_ai.models import ModelRequestContext, ModelRequestParameters
    from pydantic_ai.models.test import TestModel

    from tidegate.integrations.pydantic_ai import TidegateCapability

    tidegate, run = TidegateCapability(folder, window=window), SimpleNamespace(conversation_id="t", run_id="r")
    tidegate.threads.session("t")
    model, parameters, loop = TestModel(), ModelRequestParameters(), asyncio.new_event_loop()

    def make_step(number: int, text: str) -> list[Any]:
        call = ModelResponse(parts=[ToolCallPart("read", {"number": number}, f"c{number}")])
        return [call, ModelRequest(parts=[ToolReturnPart("read", text, f"c{number}")])]

    def prepare(messages: list[Any], _: list[Any]) -> int:
        context = ModelRequestContext(
            model=model, messages=messages, model_settings=None, model_request_parameters=parameters
        )
        return len(loop.run_until_complete(tidegate.before_model_request(run, context)).messages)

    return Subject(ModelRequest(parts=[UserPromptPart("Read all pages.")]), make_step, prepare)


def make_agent_framework(folder: str, window: int) -> Subject:
    from agent_framework import Content, Message

    from tidegate.integrations.agent_framework import AgentFrameworkFormat

    def make_step(number: int, text: str) -> list[Any]:
        call = Content.from_function_call(f"c{number}", "read", arguments={"number": number})
        return [
            Message("assistant", [call]),
            Message("tool", [Content.from_function_result(f"c{number}", result=text)]),
        ]

    return Subject(Message("user", ["Read all pages."]), make_step, use_format(AgentFrameworkFormat(), folder, window))


def make_strands(folder: str, window: int) -> Subject:
    from tidegate.integrations.strands import StrandsFormat

    def make_step(number: int, text: str) -> list[Any]:
        call = {"toolUse": {"toolUseId": f"c{number}", "name": "read", "input": {"number": number}}}
        result = {"toolResult": {"toolUseId": f"c{number}", "status": "success", "content": [{"text": text}]}}
        return [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]

    first = {"role": "user", "content": [{"text": "Read all pages."}]}
    prepare = use_format(StrandsFormat(), folder, window, lambda message: message)
    return Subject(first, make_step, prepare, copy.deepcopy)


def make_google_adk(folder: str, window: int) -> Subject:
    from google.genai import types

    from tidegate.integrations.google_adk import AdkFormat, list_fields

    def make_step(number: int, text: str) -> list[Any]:
        call = types.FunctionCall(id=f"c{number}", name="read", args={"number": number})
        response = types.FunctionResponse(id=f"c{number}", name="read", response={"result": text})
        return [
            types.Content(role="model", parts=[types.Part(function_call=call)]),
            types.Content(role="user", parts=[types.Part(function_response=response)]),
        ]

    first = types.Content(role="user", parts=[types.Part(text="Read all pages.")])

    def copy_content(content: Any) -> Any:
        """What ADK does: contents, parts and calls are copied, what is in them is not."""
        parts = [part.model_copy() for part in content.parts]
        for part in parts:
            for name in ("function_call", "function_response"):
                if getattr(part, name):
                    setattr(part, name, getattr(part, name).model_copy(update={"id": None}))
        return content.model_copy(update={"parts": parts})

    return Subject(first, make_step, use_format(AdkFormat(), folder, window, list_fields), copy_content)


SUBJECTS: dict[str, Callable[[str, int], Subject]] = {
    "langchain": make_langchain,
    "openai_agents": make_openai_agents,
    "pydantic_ai": make_pydantic_ai,
    "agent_framework": make_agent_framework,
    "strands": make_strands,
    "google_adk": make_google_adk,
}


class Figures(NamedTuple):
    history: int
    sent: int
    median: float
    largest: float


def time_call(prepare: Callable[[], int]) -> tuple[float, int]:
    """The CPU time of a call in milliseconds, and how many messages were sent."""
    start = time.process_time()
    count = prepare()
    return (time.process_time() - start) * 1000, count


def measure_adapter(name: str, steps: int, window: int) -> Figures:
    with tempfile.TemporaryDirectory() as folder:
        subject = SUBJECTS[name](folder, window)
        messages: list[Any] = [subject.first]
        times: list[float] = []
        count = 0
        for number in range(steps):
            messages += subject.make_step(number, f"Page {number}: " + "all is well. " * 15)
            if number >= steps - MEASURED or number % 50 == 0:
                copied = [subject.copy_message(message) for message in messages]
                milliseconds, count = time_call(partial(subject.prepare, copied, messages))
                times.append(milliseconds)
    return Figures(2 * steps + 1, count, statistics.median(times[-MEASURED:]), max(times[-MEASURED:]))


# --- tidegate.managed -----------------------------------------------------------------------------------------------


def make_call(number: int) -> dict[str, Any]:
    function = {"name": "read", "arguments": f'{{"number":{number}}}'}
    call = {"id": f"c{number}", "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


@contextmanager
def open_clients(folder: str, window: int) -> Iterator[tuple[Any, Any, list[bytes]]]:
    """A client, the same client managed, and the requests that were sent.

    The provider answers with the call that follows in the list, as a model does. It does not read the request, which
    would take the longer the more messages there are.
    """
    import httpx
    import openai

    import tidegate

    requests: list[bytes] = []

    def respond(request: httpx.Request) -> httpx.Response:
        requests[:] = [request.content]
        choice = {"index": 0, "message": make_call(int(request.headers["number"])), "finish_reason": "tool_calls"}
        answer = {"id": "1", "object": "chat.completion", "created": 1, "model": "gpt-4o", "choices": [choice]}
        return httpx.Response(200, json=answer)

    with httpx.Client(transport=httpx.MockTransport(respond)) as http:
        plain = openai.OpenAI(api_key="none", base_url="http://provider/v1", http_client=http)
        yield plain, tidegate.managed(plain, folder, window=window), requests


def measure_managed(steps: int, window: int) -> Figures:
    """The difference between a managed call and the same call without tidegate, one after the other."""
    import msgspec

    messages: list[Any] = [{"role": "user", "content": "Read all pages."}]
    times: list[float] = []

    with tempfile.TemporaryDirectory() as folder, open_clients(folder, window) as (plain, managed, requests):

        def call(client: Any, number: int) -> float:
            body = msgspec.json.encode({"messages": messages, "model": "gpt-4o"})

            def post() -> int:  # what `create` does after it checked and encoded the messages
                headers = {"number": str(number)}
                client.post("/chat/completions", content=body, cast_to=object, options={"headers": headers})
                return 0

            return time_call(post)[0]

        for number in range(steps):
            text = f"Page {number}: " + "all is well. " * 15
            messages.append(make_call(number))
            messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": text})
            if number >= steps - MEASURED or number % 50 == 0:
                unmanaged = call(plain, number + 1)
                times.append(call(managed, number + 1) - unmanaged)
        managed.close()
    count = requests[-1].count(b'"role":')
    return Figures(2 * steps + 1, count, statistics.median(times[-MEASURED:]), max(times[-MEASURED:]))


def main() -> int:
    name = sys.argv[1] if len(sys.argv) > 1 else "langchain"
    if name != "managed" and name not in SUBJECTS:
        print(f"integrations: {name} is not measured; choose one of {', '.join([*SUBJECTS, 'managed'])}")
        return 2
    print(f"{name}: CPU time of a call in ms")
    print("history  sent  median  largest")
    rows = {}
    for steps, window in ((150, ALL_VISIBLE), (150, BOUNDED), (500, BOUNDED), (2_000, BOUNDED)):
        row = measure_managed(steps, window) if name == "managed" else measure_adapter(name, steps, window)
        print(f"{row.history:7,}  {row.sent:4}  {row.median:6.2f}  {row.largest:7.2f}", flush=True)
        rows[steps, window] = row.median
    at_300, ratio = rows[150, ALL_VISIBLE], rows[2_000, BOUNDED] / rows[150, BOUNDED]
    holds = max(rows.values()) < TARGET_MS and ratio <= TARGET_RATIO
    print(f"300 visible messages: {at_300:.2f} ms; 4,001 : 301 = {ratio:.2f};", end=" ")
    print(f"all under {TARGET_MS} ms and at most {TARGET_RATIO}: {'yes' if holds else 'no'}")
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
