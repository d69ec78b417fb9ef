"""The shapes a request comes in: ours, OpenAI's chat, and what is neither."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.admission import Request, RuntimeFacts, admit, read_request
from labkit.errors import RequestError
from labkit.rules._openai import KNOWN
from labkit.rules._shapes import shape_of
from labkit.rules.context import GPT2
from labkit.spec import ModelSpec, fingerprint

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=4,
)


def gpt2() -> ModelSpec:
    """Return the spec of gpt2."""
    return fingerprint(GPT2, "gpt2")


def error_of(read, data: object) -> str:
    """Return the text of the refusal."""
    with pytest.raises(RequestError) as caught:
        read(data)
    return str(caught.value)


def test_openai_chat_is_read() -> None:
    """An OpenAI chat request becomes ours; what the library does not know is rejected by a rule."""
    body = {
        "model": "another-model",
        "messages": [{"role": "system", "content": "a"}, {"role": "user", "content": "b"}],
        "max_tokens": 8,
        "temperature": 0.5,
        "presence_penalty": 0.5,
        "frequency_penalty": 0,
        "n": 1,
    }
    request = Request.from_openai(body, prompt_tokens=20)

    assert request == Request(
        model="another-model",
        prompt_tokens=20,
        max_new_tokens=8,
        do_sample=True,
        temperature=0.5,
        roles=("system", "user"),
        chat_template=True,
        options={"presence_penalty": 0.5},
    )
    facts = RuntimeFacts(system_role="accepted", template_clock=False, generation_defaults={})
    assert [str(reason) for reason in admit(gpt2(), request, facts).reasons] == [
        "model.name: the request names another-model, and the config is that of gpt2: a stack that "
        "serves one model may answer with it under any name",
        "sampling.unknown: presence_penalty is not a generation option of this runtime",
    ]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param({}, {"do_sample": None}, id="no-temperature-is-the-checkpoints"),
        pytest.param({"temperature": 0}, {"do_sample": False}, id="zero-is-greedy"),
        pytest.param({"temperature": None}, {"do_sample": None}, id="null-is-absent"),
        pytest.param({"n": 3}, {"options": {"num_return_sequences": 3}}, id="n"),
        pytest.param({"stop": ["x"]}, {"options": {"stop_strings": ["x"]}}, id="stop"),
        pytest.param({"top_p": 0.5}, {"top_p": 0.5}, id="top-p"),
        pytest.param({"max_completion_tokens": 4}, {"max_new_tokens": 4}, id="new-limit"),
        pytest.param(
            {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
            {"options": {"messages.image_url": True}},
            id="image",
        ),
        pytest.param(
            {"messages": [{"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]}]},
            {"options": {"messages.tool_calls": True}},
            id="tool-calls",
        ),
        pytest.param(
            {"messages": [{"role": "tool", "content": "a", "tool_call_id": "1"}]},
            {"roles": ("tool",), "options": {}},
            id="tool-answer",
        ),
    ],
)
def test_openai_fields_map(changes: dict, expected: dict) -> None:
    """Each OpenAI field arrives where its meaning lies; an uncounted prompt stays unknown."""
    body = {"messages": [{"role": "user", "content": "a"}]} | changes
    request = Request.from_openai(body)

    assert request.prompt_tokens is None
    assert {name: getattr(request, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param(
            {"temprature": 1},
            "A chat request must have known, well-typed fields only; got temprature "
            f"(unknown; did you mean temperature?). Known fields: {', '.join(sorted(KNOWN))}.",
            id="unknown",
        ),
        pytest.param(
            {"messages": []},
            "messages must be a list of at least one message; got messages=[]. "
            'Write [{"role": "user", "content": "..."}].',
            id="empty",
        ),
        pytest.param(
            {"messages": [{"content": "a"}]},
            "Each message must have a role; got messages[0]={'content': 'a'}. "
            'Write {"role": "user", "content": "..."}.',
            id="no-role",
        ),
        pytest.param(
            {"max_tokens": "8", "n": 1.5},
            "A chat request must have known, well-typed fields only; got max_tokens='8' (must be "
            "an integer or null), n=1.5 (must be an integer or null). "
            f"Known fields: {', '.join(sorted(KNOWN))}.",
            id="ill-typed",
        ),
        pytest.param(
            {"messages": [{"role": "user", "contnet": "a"}, {"role": "user", "content": 5}]},
            "Messages must have known, well-typed fields only; got messages[0].contnet (unknown; "
            "did you mean content?), messages[1].content=5 (must be a text, a list of parts or "
            "null). Known fields: audio, content, function_call, name, reasoning_content, "
            "refusal, role, tool_call_id, tool_calls.",
            id="message-fields",
        ),
        pytest.param(
            {"max_tokens": 1, "max_completion_tokens": 2},
            "A chat request must have one limit; got max_tokens=1, max_completion_tokens=2. "
            "Drop max_tokens.",
            id="two-limits",
        ),
    ],
)
def test_openai_request_is_refused_by_name(changes: dict, message: str) -> None:
    """What an OpenAI request may not hold is named."""
    body = {"messages": [{"role": "user", "content": "a"}]} | changes

    assert error_of(Request.from_openai, body) == message


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        pytest.param('{"prompt_tokens": 3}', "labkit", id="ours"),
        pytest.param('{"messages": [{"role": "user"}]}', "openai", id="messages"),
        pytest.param('{"mesages": [], "max_tokens": 3}', "openai", id="misspelt-messages"),
        pytest.param('{"temperature": 0.5}', "labkit", id="both"),
        pytest.param("[]", "labkit", id="no-object"),
    ],
)
def test_the_shape_is_seen_by_its_fields(text: str, shape: str) -> None:
    """A request is read in the shape that knows its fields."""
    assert shape_of(json.loads(text)) == shape


def test_a_chat_request_is_told_its_length_and_ours_states_it() -> None:
    """The prompt's length goes beside a chat request, and into one of ours."""
    chat = b'{"messages": [{"role": "user", "content": "a"}]}'

    assert read_request(chat, prompt_tokens=7).prompt_tokens == 7
    assert read_request(b'{"prompt_tokens": 7}').prompt_tokens == 7
    with pytest.raises(RequestError, match="got prompt_tokens=7 beside a request in labkit's"):
        read_request(b'{"prompt_tokens": 7}', prompt_tokens=7)
    with pytest.raises(RequestError, match=r"got messages \(unknown; "):
        read_request(chat, shape="labkit")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "be JSON; it stops making sense at line 1, column 1: Expecting value."),
        (
            b'{"a": 1',
            "be JSON; it stops making sense at line 1, column 8: Expecting ',' delimiter.",
        ),
        (b"\xff", "be UTF-8 text; byte 0 is not."),
        (b"[" * 100_000, "be JSON: its values are nested too deeply."),
        (b'{"a": 1, "a": 2}', "be JSON: the key 'a' stands twice."),
        (b'{"a": NaN}', "be JSON: NaN is not a JSON number."),
        (b'{"a": -Infinity}', "be JSON: -Infinity is not a JSON number."),
    ],
)
def test_what_is_no_json_is_one_message(text: bytes, message: str) -> None:
    """Whatever bytes a stranger sends end in one message."""
    assert error_of(read_request, text) == f"A request must {message}"


@settings(max_examples=300, deadline=None)
@given(body=st.dictionaries(st.sampled_from(sorted(KNOWN)), json_values))
def test_a_chat_request_is_read_or_refused(body: dict) -> None:
    """Whatever values the known fields hold, the request is read or refused by name."""
    messages = body.get("messages") or [{"role": "user", "content": "a"}]
    try:
        request = Request.from_openai({**body, "messages": messages})
    except RequestError as error:
        assert " must " in str(error)
    else:
        assert admit(gpt2(), request, RuntimeFacts())
