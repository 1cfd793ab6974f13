"""Write src/tidegate/data/models.json: windows and prices of well-known models, from the data of two packages.

    python bench/catalog.py [--fetch] [--check]

The packages' wheels are fetched into bench/.envs/catalog and read there (catalog_sources.py). `--fetch` gets their
newest versions first, `--check` writes nothing and fails if the file would change apart from its date.

What is kept when the sources differ, and the list of where they do, is in the file itself (`rules`, `differences`).
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from datetime import UTC, date, datetime
from pathlib import Path

from catalog_sources import (
    GENAI,
    LITELLM,
    WHEELS,
    Entry,
    Listed,
    Rate,
    Wheel,
    fetch,
    genai_models,
    litellm_models,
    meant,
)

TARGET = Path(__file__).resolve().parents[1] / "src" / "tidegate" / "data" / "models.json"
MOST_BYTES = 150_000

# Only names of services: the name of weights that anybody may load says nothing of what a server loaded.
# Whose models: the provider in litellm, in genai-prices ("" where it has none), and which names are its own.
MAKERS = (
    ("openai", "openai", r"(ft:)?(gpt-(?!oss)|o\d|chat-latest)"),
    ("anthropic", "anthropic", r"claude-"),
    ("gemini", "google", r"gemini-"),
    ("deepseek", "deepseek", r"deepseek-(chat|reasoner|flash|v[4-9])"),
    ("mistral", "mistral", r"(open-)?(mi[sx]tral|ministral|codestral|devstral|magistral|pixtral)"),
    ("xai", "x-ai", r"grok-"),
    ("moonshot", "moonshotai", r"kimi-|moonshot-"),
    ("zai", "zai", r"glm-"),
    ("dashscope", "", r"(qwen|qwq)(?!.*\d+b)"),
    ("minimax", "minimax", r"minimax-m"),
    ("cohere_chat", "cohere", r"command-"),
    ("perplexity", "perplexity", r"sonar"),
    ("amazon_nova", "", r"nova-"),
    ("meta", "meta", r"muse-"),
    ("xiaomi_mimo", "", r"mimo-"),
)
# These serve the models of others, at their own prices and with their own windows: `groq/name`.
HOSTS = (("groq", "groq"), ("cerebras", "cerebras"))

NO_CHAT = re.compile(
    r"audio|realtime|live|tts|image|embed|transcribe|speech|voxtral|robotics|guard|ocr|moderation|search|container"
    r"|omni|deep-research|computer-use|exp-|fim|translate|native|banana|lyria|instruct-\d{4}$|babbage|davinci"
)
DATED = re.compile(r"[-@](20\d{6}|20\d\d-\d\d-\d\d)(-v\d+)?$")

# What the documents of a product that others build on promise; these stay whatever a package says.
PROMISED = {
    "deepseek-chat": 131_072,
    "gpt-4o": 128_000,
    "gpt-4o-mini": 128_000,
    "llama-3.3-70b-versatile": 128_000,
    "mistral-large-latest": 128_000,
    "o3": 200_000,
    "o3-mini": 200_000,
}
# Where the packages are silent, or the first of them is known to be wrong: MiniMax says 204,800 of its M2 line, and
# Cerebras serves this Llama with a quarter of its window.
KNOWN = {
    "claude-3-opus": 200_000,
    "claude-3-5-haiku": 200_000,
    "claude-3-7-sonnet": 200_000,
    "claude-sonnet-4": 200_000,
    "claude-opus-4": 200_000,
    "minimax-m2.1": 204_800,
    "minimax-m2.1-lightning": 204_800,
    "minimax-m2.5": 204_800,
    "minimax-m2.5-lightning": 204_800,
    "cerebras/llama3.1-8b": 32_768,
}

# OpenAI's windows of prompt and answer together, as some entries tell them, and the prompt alone.
TOGETHER = {400_000: 272_000}
TOGETHER_GENAI = TOGETHER | {1_050_000: 922_000}

RULES = [
    "window: 1. promised in documents; 2. known from the maker (the list in bench/catalog.py); 3. litellm's "
    "max_input_tokens, the largest prompt; 4. genai-prices' context_window, which for some is prompt and answer.",
    "OpenAI's 400,000 (prompt and answer) are kept as 272,000, and 1,050,000 as 922,000 if only genai-prices knows the "
    "model: the prompt alone.",
    "Models of others that a host serves stand under the host's name: the same weights elsewhere hold what was loaded.",
    "max_output: litellm's max_output_tokens; left out if it is not smaller than the window, for then it says nothing.",
    "prices: litellm; genai-prices where litellm has none, and its prices of the cache where the others agree. "
    "Standard prices, no batch, priority or flex. A price of 0 is taken for one that is not known.",
    "written: what a cache that lives for minutes costs, not an hour.",
    "images: litellm's supports_vision; no where it lists a model without it, unless that is a tuned one.",
]


# Both together.


def merge_rates(one: list[Rate] | None, two: list[Rate] | None) -> list[Rate] | None:
    """The first, with what only the second knows of the cache, if they agree on all else."""
    if not one or not two or len(one) != len(two):
        return one or two
    plain = ("input", "output")
    same = all(a[key] == b[key] for a, b in zip(one, two, strict=True) for key in plain)
    return [b | a for a, b in zip(one, two, strict=True)] if same else one


class Catalog:
    """`first` is litellm's, `second` genai-prices'."""

    def __init__(self, first: dict[str, dict[str, Entry]], second: dict[str, list[Listed]]) -> None:
        self.first, self.second = first, second
        self.models: dict[str, Entry] = {}
        self.differences: dict[str, Entry] = {}

    def build(self) -> None:
        for ours, theirs, own in MAKERS:
            for name in self.names(ours, theirs):
                if re.match(own, name) and not NO_CHAT.search(name):
                    self.put(name, name, ours, theirs)
        for ours, theirs in HOSTS:
            for name in self.names(ours, theirs):
                if not NO_CHAT.search(name):
                    self.put(f"{ours}/{name}", name, ours, theirs)
        for name, window in PROMISED.items():
            entries = [self.models[key] for host, _ in HOSTS if (key := f"{host}/{name}") in self.models]
            self.models.setdefault(name, entries[0] if entries else {"window": window})
        for name in [name for name in self.models if self.said_by_undated(name)]:
            del self.models[name]
            self.differences.pop(name, None)

    def names(self, ours: str, theirs: str) -> list[str]:
        listed = [ident.rsplit("/", 1)[-1] for _, ident, _ in self.second.get(theirs, [])]
        return list(dict.fromkeys([*self.first.get(ours, {}), *listed, *(name for name in KNOWN if "/" not in name)]))

    def put(self, key: str, name: str, ours: str, theirs: str) -> None:
        one = self.first.get(ours, {}).get(name, {})
        two = next((entry for clause, _, entry in self.second.get(theirs, []) if meant(clause, name)), {})
        # Whoever tunes a model pays other prices than those of the model.
        two = {} if name.startswith("ft:") else two
        litellm_window, genai_window = one.get("window"), two.get("window")
        if ours == "openai":
            litellm_window, genai_window = (
                TOGETHER.get(litellm_window, litellm_window),
                TOGETHER_GENAI.get(genai_window, genai_window),
            )
        window = PROMISED.get(name) or KNOWN.get(key) or litellm_window or genai_window
        prices = merge_rates(one.get("prices"), two.get("prices"))
        if key in self.models or not window or not (prices or key in KNOWN):
            return
        output = one.get("output")
        entry = {"window": window, "max_output": output if output and output < window else None, "prices": prices}
        self.models[key] = {field: value for field, value in entry.items() if value}
        if one.get("images") or ("images" in one and not name.startswith("ft:")):
            self.models[key]["images"] = one["images"]
        self.compare(key, one, two)

    def compare(self, key: str, one: Entry, two: Entry) -> None:
        entry = self.models[key]
        windows = {name: each["window"] for name, each in ((LITELLM, one), (GENAI, two)) if "window" in each}
        apart: Entry = {}
        if set(windows.values()) - {entry["window"]}:
            apart["window"] = windows
        if one.get("prices") and two.get("prices") and merge_rates(two["prices"], one["prices"]) != entry["prices"]:
            apart["prices"] = {GENAI: two["prices"]}
        if apart:
            self.differences[key] = apart

    def said_by_undated(self, name: str) -> bool:
        """A dated name that has nothing of its own to say is found under the name without the date."""
        return DATED.search(name) is not None and self.models.get(DATED.sub("", name)) == self.models[name]


def document(catalog: Catalog, wheels: list[Wheel], today: date) -> Entry:
    sources = [
        {"name": each.name, "version": each.version, "licence": each.licence, "copyright": each.copyright}
        for each in wheels
    ]
    return {
        "written": today.isoformat(),
        "written_by": "bench/catalog.py",
        "sources": sources,
        "permission": wheels[0].permission,
        "unit": "tokens; dollars for a million tokens",
        "rules": RULES,
        "models": dict(sorted(catalog.models.items())),
        "differences": dict(sorted(catalog.differences.items())),
    }


def render_catalog(content: Entry) -> str:
    """One model a line: a change of the sources is then a change of lines that can be read."""
    head = {key: value for key, value in content.items() if key not in ("models", "differences")}
    lines = [f" {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}," for key, value in head.items()]
    for key, end in (("models", ","), ("differences", "")):
        rows = [f"  {json.dumps(name)}: {json.dumps(row, separators=(',', ':'))}" for name, row in content[key].items()]
        lines += [f' "{key}": {{', ",\n".join(rows), f" }}{end}"]
    return "{\n" + "\n".join(lines) + "\n}\n"


def main() -> int:
    parser = argparse.ArgumentParser(description="Write the catalog of models from two packages' data.")
    parser.add_argument("--fetch", action="store_true", help="get the newest versions of the packages first")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the file would change")
    options = parser.parse_args()
    WHEELS.mkdir(parents=True, exist_ok=True)
    today = datetime.now(UTC).date()
    wheels = [fetch(LITELLM, options.fetch), fetch(GENAI, options.fetch)]
    if wheels[0].permission != wheels[1].permission:
        raise SystemExit("The two packages no longer share the text of their licence: put both into the file.")
    catalog = Catalog(litellm_models(wheels[0]), genai_models(wheels[1], today))
    catalog.build()
    content = document(catalog, wheels, today)
    text = render_catalog(content)
    size = len(text.encode())
    print(f"{len(content['models'])} models, {len(content['differences'])} differences, {size:,} bytes")
    if size > MOST_BYTES:
        raise SystemExit(f"The file would be larger than {MOST_BYTES:,} bytes.")
    if options.check:
        stands = json.loads(TARGET.read_text("utf-8"))
        return int(stands | {"written": ""} != content | {"written": ""})
    TARGET.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
