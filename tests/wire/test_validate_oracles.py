"""Judges of others against ours: Mistral's request validator, JSON Schema's draft 7, an image library."""

import base64
import io
import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mistral_common.exceptions import MistralCommonException
from mistral_common.protocol.instruct.request import ChatCompletionRequest
from mistral_common.protocol.instruct.validator import (
    MistralRequestValidator,
    MistralRequestValidatorV5,
    ValidationMode,
)
from mistral_common.utils.json_utils import validate_json_schema_by_draft7
from PIL import Image

from tests.laws.sampled_law import sampled_law
from tests.scale import scaled
from tests.wire.rules_chat import A9, B9, MISTRAL_DEMANDS, SAID, SYSTEM, USER, answer, call, calls, chat
from tidegate.wire.anthropic.validate_media import UNKNOWN_PIXEL_SIZE, PixelSize, read_pixel_size
from tidegate.wire.openai_chat.validate import ChatValidator
from tidegate.wire.validation.faults import ValidationProfile
from tidegate.wire.validation.json_checks import find_schema_fault

ALPHABET = [
    SYSTEM,
    USER,
    SAID,
    SAID | {"prefix": True},
    SAID | {"content": ""},
    calls(call(A9), content="so"),
    calls(call(A9), call(B9)),
    answer(A9),
    answer(B9),
]


def test_what_we_accept_mistral_accepts() -> None:
    """Every sequence of up to four messages, not a sample."""
    validator: MistralRequestValidator = MistralRequestValidatorV5(ValidationMode.serving)
    accepted = 0
    for length in range(1, 5):
        for messages in itertools.product(ALPHABET, repeat=length):
            if ChatValidator.validate(chat(*messages), ValidationProfile(chat=MISTRAL_DEMANDS)) == []:
                accepted += 1
                validator.validate_request(ChatCompletionRequest(**chat(*messages)))
    assert accepted > 10


def test_the_oracle_can_refuse() -> None:
    validator: MistralRequestValidator = MistralRequestValidatorV5(ValidationMode.serving)
    with pytest.raises(MistralCommonException):
        validator.validate_request(ChatCompletionRequest(**chat(USER, SAID)))


KINDS = ["array", "boolean", "integer", "null", "number", "object", "string", "text", "Object"]
VALUES: Any = (
    st.none()
    | st.booleans()
    | st.integers(-2, 3)
    | st.sampled_from([*KINDS, "("])
    | st.lists(st.sampled_from(KINDS), max_size=2)
)
WORDS = (
    "type required enum items properties additionalProperties anyOf allOf not minLength maximum multipleOf pattern "
    "uniqueItems title dependencies patternProperties if examples"
).split()
SCHEMAS: Any = st.recursive(
    st.booleans() | st.dictionaries(st.sampled_from(WORDS), VALUES, max_size=2),
    lambda inner: st.dictionaries(
        st.sampled_from(WORDS),
        VALUES | inner | st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["a", "b"]), inner, max_size=2),
        max_size=3,
    ),
    max_leaves=5,
)


@sampled_law(80, 100, SCHEMAS)
def test_a_schema_is_one_exactly_when_draft_7_says_so(schema: Any) -> None:
    try:
        validate_json_schema_by_draft7(schema)
        valid = True
    except ValueError:
        valid = False
    assert (find_schema_fault(schema, regex=True) == "") == valid


@pytest.mark.parametrize("kind", ["PNG", "GIF", "JPEG", "WEBP"])
def test_the_size_of_an_image_is_read_from_its_header(kind: str) -> None:
    exif = b"Exif\0\0" + b"x" * 50
    saved: list[dict[str, Any]] = [{}, {"lossless": True}, {"progressive": True}, {"exif": exif}]
    for size, options in itertools.product([(1, 1), (37, 2001), (8001, 5)], saved):
        stream = io.BytesIO()
        Image.new("RGB", size).save(stream, kind, **options)
        assert read_pixel_size(base64.b64encode(stream.getvalue()).decode()) == PixelSize(*size)
        for cut in range(40):
            part = read_pixel_size(base64.b64encode(stream.getvalue()[:cut]).decode())
            assert part in (UNKNOWN_PIXEL_SIZE, PixelSize(*size))


@settings(max_examples=scaled(50))
@given(data=st.text(max_size=40) | st.binary(max_size=40).map(lambda raw: base64.b64encode(raw).decode()))
def test_no_image_data_raises(data: str) -> None:
    assert read_pixel_size(data) == UNKNOWN_PIXEL_SIZE
