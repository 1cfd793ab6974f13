"""Check every bundled vocabulary and print what is wrong, one line each: `python vocabulary_checks.py`.

The vocabularies together take half a gigabyte, so the tests run this as a program.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.core.token_texts import texts
from tidegate.models.token_counters import ExactCounter

BUNDLED = (
    "cl100k_base codellama deepseek_v3 gemma2 gemma4 glm4 kimi_k2 kimi_k3 llama2 llama3 mistral_v2 mistral_v3"
    " o200k_base olmo2 phi4 qwen3"
).split()
SPECIAL = ("<|endoftext|>", "<|im_start|>system", "<|eot_id|>", "[INST]", "<tool_call>", "<｜User｜>")


def find_faults(vocabulary: str) -> Iterator[str]:
    counter = ExactCounter(vocabulary)
    if counter.count_text("") != 0:
        yield "an empty text has tokens"
    for kind, text in texts(1).items():
        if not len(text) / 12 < counter.count_text(text) <= len(text.encode()) + 1:
            yield f"{kind}: {counter.count_text(text)} tokens for {len(text)} characters"
    plain = counter.count_text("one  two")
    for text in SPECIAL:
        if counter.count_text(f"one {text} two") <= plain:
            yield f"{text} is counted as a control token"


if __name__ == "__main__":
    for name in BUNDLED:
        for fault in find_faults(name):
            print(f"{name}: {fault}")
