"""Exact counters: the vocabulary of a model, text as text, and no text that breaks them."""

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core.token_texts import texts
from tests.models.vocabulary_checks import find_faults
from tests.scale import scaled
from tidegate.core.errors import BadPolicy
from tidegate.models.token_counters import (
    MAX_PIECE_CHARS,
    ExactCounter,
    Vocabulary,
    create_counter,
    find_vocabulary,
    load_text_counter,
)

O200K = Vocabulary("o200k_base")


VOCABULARIES: list[tuple[str, Vocabulary | None]] = [
    ("gpt-4o", O200K),
    ("openai/gpt-4o-mini", O200K),
    ("openrouter/openai/gpt-4.1:free", O200K),
    ("gpt-5.4", O200K),
    ("gpt-6.1-sol", O200K),
    ("o3", O200K),
    ("azure/o4-mini", O200K),
    ("chatgpt-4o-latest", O200K),
    ("ft:gpt-4o-mini:org::id", O200K),
    ("gpt-oss:20b", O200K),
    ("gpt-4", Vocabulary("cl100k_base")),
    ("gpt-4-turbo-2024-04-09", Vocabulary("cl100k_base")),
    ("gpt-3.5-turbo", Vocabulary("cl100k_base")),
    ("gpt-35-turbo", Vocabulary("cl100k_base")),
    ("ollama/qwen2.5:14b", Vocabulary("qwen3")),
    ("Qwen/Qwen3-Coder-30B", Vocabulary("qwen3")),
    ("llama-3.3-70b-versatile", Vocabulary("llama3")),
    ("meta.llama3-3-70b-instruct-v1:0", Vocabulary("llama3")),
    ("accounts/fireworks/models/llama-v3p1-8b-instruct", Vocabulary("llama3")),
    ("deepseek-r1-distill-llama-70b", Vocabulary("llama3")),
    ("deepseek-r1-distill-qwen-32b", Vocabulary("qwen3")),
    ("deepseek-chat", Vocabulary("deepseek_v3")),
    ("mistral-large-latest", Vocabulary("mistral_v3")),
    ("mistral:7b", Vocabulary("mistral_v2")),
    ("open-mixtral-8x7b", Vocabulary("mistral_v2")),
    ("google/gemma-3-27b-it", Vocabulary("gemma4")),
    ("models/gemini-2.5-pro", Vocabulary("gemma4")),
    ("gemma2:9b", Vocabulary("gemma2")),
    ("phi4", Vocabulary("phi4")),
    ("zai/glm-4.6", Vocabulary("glm4")),
    ("moonshotai/kimi-k2-instruct", Vocabulary("kimi_k2")),
    ("claude-opus-4-8", Vocabulary("o200k_base", 1.75)),
    ("claude-fable-5", Vocabulary("o200k_base", 1.75)),
    ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", Vocabulary("o200k_base", 1.35)),
    ("claude-sonnet-4-20250514", Vocabulary("o200k_base", 1.35)),
    ("claude-3-opus@20240229", Vocabulary("o200k_base", 1.35)),
    ("glm-5", None),
    ("qwen3.5-plus", None),
    ("grok-4", None),
    ("turbo1", None),
    ("", None),
]


def test_vocabulary_of_a_model() -> None:
    wrong = [(model, found) for model, expected in VOCABULARIES if (found := find_vocabulary(model)) != expected]
    assert wrong == []


def test_ways_to_count() -> None:
    assert create_counter("gpt-4o").name == "o200k_base"
    assert create_counter("grok-4").name == "estimate"
    assert create_counter("grok-4", "exact").name == "o200k_base"
    assert create_counter("claude-opus-5").name == "o200k_base*1.75"
    assert create_counter("claude-opus-5", "exact").name == "o200k_base"
    assert create_counter("gpt-4", "exact").name == "cl100k_base"
    assert create_counter("gpt-4o", "estimate").name == "estimate"
    assert create_counter("gpt-4o", "chars/4").name == "chars/4"
    assert create_counter("claude-opus-5").count_text("hello world") == 4
    with pytest.raises(BadPolicy, match=r"auto, exact, estimate or chars/N"):
        create_counter("gpt-4o", "guess")


def test_every_kind_of_text_is_counted_and_control_tokens_are_text() -> None:
    """Somebody else's text may spell a control token: it must not be taken for one, nor counted as one."""
    assert list(find_faults("o200k_base")) == []
    assert ExactCounter("o200k_base").count_text("<|endoftext|>") == 7


@pytest.mark.exhaustive
def test_every_vocabulary_counts_every_kind_of_text() -> None:
    program = Path(__file__).with_name("vocabulary_checks.py")
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, check=True)
    assert done.stdout == ""


def test_fast_and_careful_call_agree() -> None:
    """Texts without a mark take the fast call. A mark forces the careful one, at its own cost."""
    counter = ExactCounter("o200k_base")
    mark = "\n<|x"
    for text in texts(2).values():
        careful = counter.count_text(text + mark)
        assert counter.count_text(text) <= careful <= counter.count_text(text) + counter.count_text(mark) + 1


@settings(max_examples=scaled(50))
@given(st.text(st.characters(codec=None), max_size=80))
def test_no_text_raises(text: str) -> None:
    for model in ("gpt-4o", "gpt-4", "claude-opus-5"):
        assert create_counter(model).count_text(text) >= 0


def test_lone_surrogates_cost_what_replaces_them() -> None:
    counter = ExactCounter("o200k_base")
    assert counter.count_text("a\ud83db") == counter.count_text("a\ufffdb")
    assert counter.count_text("\ud83d\ude00") == counter.count_text("😀")


@pytest.mark.parametrize("kind", ["english", "base64", "chinese", "log"])
def test_pieces_add_up(kind: str) -> None:
    """Longer than a piece: never less than the whole counted at once, and hardly more."""
    counter = ExactCounter("o200k_base")
    text = (texts(4)[kind] + " ") * (MAX_PIECE_CHARS * 5 // 2 // len(texts(4)[kind]) + 1)
    whole = load_text_counter("o200k_base")(text)
    assert whole <= counter.count_text(text) <= whole + 8


@pytest.mark.timeout(120)
def test_huge_and_pathological_texts_are_bounded() -> None:
    """Without pieces, any of these would take hours."""
    counter = ExactCounter("o200k_base")
    for text in ("A" * 400_000, " " * 400_000, "\n" * 400_000, "中" * 200_000, "=-" * 200_000):
        assert counter.count_text(text) > 0


TOGETHER = """
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from tidegate.models.token_counters import create_counter
begin = Barrier(8)
def create(_):
    begin.wait()
    return id(create_counter("gpt-4o"))
with ThreadPoolExecutor(8) as threads:
    print(len(set(threads.map(create, range(8)))))
"""


def test_threads_that_begin_together_load_a_vocabulary_once() -> None:
    done = subprocess.run([sys.executable, "-c", TOGETHER], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "1"
