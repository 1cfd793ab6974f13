"""The OpenAI Responses dialect."""

from tidegate.wire.dialect import AnswerForm, Dialect, Endpoint, MessageMarks, RequestPaths, StoredAnswers
from tidegate.wire.openai_responses.client_request import read_openai_responses
from tidegate.wire.openai_responses.encode import encode_body, encode_frames
from tidegate.wire.openai_responses.merge import ResponsesMerger
from tidegate.wire.openai_responses.message_form import RESPONSES_CALLS, ResponsesForm
from tidegate.wire.openai_responses.parse import parse_body, parse_message, recognize_body
from tidegate.wire.openai_responses.render import CAPABILITIES, render_block, render_head, render_leading_messages
from tidegate.wire.openai_responses.stored_state import (
    has_previous_id,
    list_phases,
    read_previous_id,
    render_stored,
    replace_previous_id,
    stores_answer,
    write_whole,
)
from tidegate.wire.openai_responses.stream import ResponsesAssembler, frames_from_body
from tidegate.wire.openai_responses.validate import ResponsesValidator
from tidegate.wire.splicing.options import OutputLimit, read_requested_lifetime
from tidegate.wire.usage import INPUT_USAGE

DIALECT = Dialect(
    name="openai_responses",
    capabilities=CAPABILITIES,
    endpoint=Endpoint("https://api.openai.com/v1", "/responses", lists_windows=False),
    render_head=render_head,
    render_leading_messages=render_leading_messages,
    render_block=render_block,
    parse_message=parse_message,
    answers=AnswerForm(
        ResponsesAssembler, frames_from_body, encode_frames, encode_body, ResponsesMerger, names_events=True
    ),
    parse_body=parse_body,
    form=ResponsesForm(),
    calls=RESPONSES_CALLS,
    read_request=read_openai_responses,
    output=OutputLimit((("max_output_tokens",),)),
    usage=INPUT_USAGE,
    paths=RequestPaths(("/responses",), sdk="openai"),
    marks=MessageMarks(part_types=frozenset({"input_text", "output_text", "input_image", "input_file"}), has_type=True),
    recognize_body=recognize_body,
    create_validator=ResponsesValidator,
    takes_instructions=lambda model: True,
    read_cache_lifetime=read_requested_lifetime,
    stored_answers=StoredAnswers(
        stores_answer, read_previous_id, has_previous_id, replace_previous_id, write_whole, list_phases, render_stored
    ),
)
