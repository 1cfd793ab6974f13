"""What an adapter adds to a model call: LangChain's messages, with 300 of them visible, early and late in a history.

Run it with an environment that has LangChain: .envs/integrations/langchain/bin/python bench/integrations.py
"""

import statistics
import sys
import tempfile
import time

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from tidegate.integrations.langchain import LangChainFormat
from tidegate.integrations.model_calls import CallPreparer

TARGET_MS = 2.0


def make_step(number: int, chars: int) -> list[AnyMessage]:
    call = {"id": f"c{number}", "name": "read", "args": {"number": number}}
    return [
        AIMessage("", tool_calls=[call]),
        ToolMessage(f"Page {number}: " + "all is well. " * (chars // 13), tool_call_id=f"c{number}"),
    ]


def measure_calls(steps: int, window: int, measured: int, chars: int = 200) -> tuple[float, float, int]:
    """The median and the largest time of the last calls in milliseconds, and how many messages were sent."""
    with tempfile.TemporaryDirectory() as folder:
        preparer = CallPreparer(LangChainFormat(), folder, window=window, model="gpt-4o")
        messages: list[AnyMessage] = [HumanMessage("Read all pages.")]
        times: list[float] = []
        sent = 0
        for number in range(steps):
            messages += make_step(number, chars)
            if number < steps - measured and number % 50:
                continue
            begun = time.process_time()
            call = preparer.prepare("t", messages)
            times.append((time.process_time() - begun) * 1000)
            sent = len(call.messages)
        preparer.threads.close()
    last = times[-measured:]
    return statistics.median(last), max(last), sent


def main() -> int:
    print("history  sent  median ms  largest ms  (CPU time of prepare, one step of two messages added each time)")
    held = True
    for steps, window in ((150, 1_000_000), (2_000, 18_000)):
        median, largest, sent = measure_calls(steps, window, 60)
        held = held and median < TARGET_MS
        print(f"{2 * steps + 1:7,}  {sent:4}  {median:9.2f}  {largest:10.2f}")
    print(f"target: median under {TARGET_MS} ms: {'holds' if held else 'does not hold'}")
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
