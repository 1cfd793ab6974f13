"""Reads the header of a GGUF file: context length, memory per token, vocabulary."""

import mmap
import struct
from collections.abc import Container, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from tidegate.core.errors import BadInput
from tidegate.core.tokens.counting import TokenCounter
from tidegate.models.token_counters import repair_surrogates

_PIECE_CHARS: Final = 1 << 20


class GgufHeader(NamedTuple):
    """`context` is the longest context the model was trained for. `token_bytes` is the memory for one token of context.

    `supports_tools`: the model's template shows tools to it; without that they would be dropped silently.
    """

    context: int
    token_bytes: int
    supports_tools: bool


_NUMBERS: Final = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
_TEXT, _ARRAY = 8, 9
_MOST_FIELDS: Final = 65_536
_LONGEST_KEPT: Final = 4_096
_DEFAULT_TOKEN_BYTES: Final = 131_072  # bytes; typical of models with seven billion parameters

_Value = int | float | bool | str | list[int | float] | list[str] | None


def read_gguf_header(path: Path) -> GgufHeader:
    """Read the header alone, without the weights, which takes milliseconds."""
    fields = _read_fields(path)
    family = fields.get("general.architecture")
    context = fields.get(f"{family}.context_length")
    if not isinstance(context, int) or context <= 0:
        raise BadInput(f"{path} does not say how much its model holds.", "Use a GGUF file of a language model.")
    return GgufHeader(
        context, _token_bytes(fields, f"{family}."), "tools" in str(fields.get("tokenizer.chat_template"))
    )


def _read_fields(path: Path, lists: Container[str] = ()) -> dict[str, _Value]:
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _fields(data, lists)
    except OSError as failure:
        raise BadInput(f"{path} cannot be read: {failure.strerror}.", "Check its permissions.") from None
    except (ValueError, struct.error):
        raise BadInput(f"{path} is not a GGUF file, or only the beginning of one.", "Fetch it again.") from None


def _fields(data: mmap.mmap, lists: Container[str]) -> dict[str, _Value]:
    """Read the fields. `lists` names the lists of texts to keep: a vocabulary is long and seldom needed."""
    magic, version, _, count = struct.unpack_from("<4sIQQ", data, 0)
    if magic != b"GGUF" or version not in (2, 3) or count > _MOST_FIELDS:
        raise ValueError
    fields: dict[str, _Value] = {}
    place = 24
    for _ in range(count):
        key, place = _text(data, place)
        (kind,) = struct.unpack_from("<I", data, place)
        fields[key], place = _value(data, place + 4, kind, keep_texts=key in lists)
    return fields


def _text(data: mmap.mmap, place: int) -> tuple[str, int]:
    (size,) = struct.unpack_from("<Q", data, place)
    end = place + 8 + size
    if end > len(data):
        raise ValueError
    return data[place + 8 : end].decode("utf-8", "replace"), end


def _value(data: mmap.mmap, place: int, kind: int, *, keep_texts: bool) -> tuple[_Value, int]:
    if kind == _TEXT:
        return _text(data, place)
    if kind == _ARRAY:
        return _array(data, place, keep_texts=keep_texts)
    form = _NUMBERS.get(kind)
    if form is None:
        raise ValueError
    (value,) = struct.unpack_from(form, data, place)
    return value, place + struct.calcsize(form)


def _array(data: mmap.mmap, place: int, *, keep_texts: bool) -> tuple[_Value, int]:
    """Read a list. Short lists of numbers are kept (heads per layer); long ones and texts only if they are wanted."""
    kind, count = struct.unpack_from("<IQ", data, place)
    place += 12
    if kind == _TEXT and keep_texts:
        texts: list[str] = []
        for _ in range(count):
            text, place = _text(data, place)
            texts.append(text)
        return texts, place
    if kind == _TEXT:
        size = struct.Struct("<Q").unpack_from
        for _ in range(count):
            place += 8 + size(data, place)[0]
        return None, place
    form = _NUMBERS.get(kind)
    if form is None:
        raise ValueError
    end = place + count * struct.calcsize(form)
    if count > _LONGEST_KEPT and not keep_texts:
        return None, end
    return list(struct.unpack_from(f"<{count}{form[1]}", data, place)), end


def _token_bytes(fields: Mapping[str, _Value], family: str) -> int:
    """Return the bytes of keys and values of all layers, two bytes each. A missing field gets a cautious guess."""

    def number(name: str, default: int = 0) -> int:
        value = fields.get(family + name)
        return value if isinstance(value, int) and value > 0 else default

    layers, heads = number("block_count"), number("attention.head_count", 1)
    each = number("embedding_length") // heads
    width = number("attention.key_length", each) + number("attention.value_length", each)
    listed = fields.get(f"{family}attention.head_count_kv")
    heads_in_cache = layers * number("attention.head_count_kv", heads)
    if isinstance(listed, list):
        heads_in_cache = sum(each for each in listed if isinstance(each, int))
    return 2 * heads_in_cache * width or _DEFAULT_TOKEN_BYTES


_TOKENS, _MERGES, _KINDS = "tokenizer.ggml.tokens", "tokenizer.ggml.merges", "tokenizer.ggml.token_type"
_SPECIAL: Final = (2, 3)  # unknown, control: a text never means them, but a server reads them as such
# How a text is split before the merges, by the name in the file. These were compared with the server.
_SPLITS: Final = {
    "smollm": [
        {"type": "Digits", "individual_digits": True},
        {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
    ]
}


class GgufCounter:
    """Counts with the vocabulary in the weights, as the model itself does."""

    def __init__(self, name: str, tokens: list[str], merges: list[str], split: list[dict[str, object]]) -> None:
        import splintr  # noqa: PLC0415 - heavy, and the vocabulary is asked for late

        model = {"type": "BPE", "vocab": {token: number for number, token in enumerate(tokens)}, "merges": merges}
        form = {"version": "1.0", "added_tokens": [], "model": model}
        form |= {"pre_tokenizer": {"type": "Sequence", "pretokenizers": split}, "decoder": {"type": "ByteLevel"}}
        self.name = name
        self._encode = splintr.from_json_bytes(msgspec.json.encode(form)).encode

    def count_text(self, text: str) -> int:
        try:
            return sum(len(self._encode(text[at : at + _PIECE_CHARS])) for at in range(0, len(text), _PIECE_CHARS))
        except UnicodeEncodeError:
            return self.count_text(repair_surrogates(text))


def read_special_tokens(path: Path) -> list[str]:
    """Return the control tokens of the vocabulary; none if the file does not say."""
    fields = _read_fields(path, (_TOKENS, _KINDS))
    tokens, kinds = fields.get(_TOKENS), fields.get(_KINDS)
    if not isinstance(tokens, list) or not isinstance(kinds, list) or len(tokens) != len(kinds):
        return []
    return [str(token) for token, kind in zip(tokens, kinds, strict=True) if kind in _SPECIAL]


def load_gguf_counter(path: Path) -> TokenCounter | None:
    """Return an exact counter for these weights, or None if we cannot count with their kind of vocabulary."""
    fields = _read_fields(path, (_TOKENS, _MERGES))
    tokens, merges = fields.get(_TOKENS), fields.get(_MERGES)
    split = _SPLITS.get(str(fields.get("tokenizer.ggml.pre")))
    if split is None or fields.get("tokenizer.ggml.model") != "gpt2":
        return None
    if not isinstance(tokens, list) or not isinstance(merges, list):
        return None
    return GgufCounter(path.name, [str(token) for token in tokens], [str(merge) for merge in merges], split)
