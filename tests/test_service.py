"""The book's ASGI application, asked over HTTP on loopback."""

from __future__ import annotations

import asyncio
import http.client
import importlib.util
import json
import threading
import time
from collections.abc import Iterator
from types import ModuleType

import pytest
import uvicorn
from support import ROOT

EXAMPLE = ROOT / "book" / "examples" / "asgi_admission.py"
CHAT = {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 8, "temperature": 0}


def load_example() -> ModuleType:
    """Import the book's example from its file."""
    spec = importlib.util.spec_from_file_location("asgi_admission", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """Serve the application on a free port of this machine."""
    config = uvicorn.Config(
        load_example().app, port=0, ws="none", lifespan="on", log_level="warning"
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    waited_until_s = time.monotonic() + 30
    while not server.started and time.monotonic() < waited_until_s:
        time.sleep(0.01)
    yield server.servers[0].sockets[0].getsockname()[1]
    server.should_exit = True
    thread.join(timeout=30)


def post(port: int, body: bytes) -> tuple[int, dict]:
    """Return the status and the JSON of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("POST", "/", body)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def test_the_example_is_short() -> None:
    """The page promises an application of under thirty lines, blank ones not counted."""
    lines = EXAMPLE.read_text(encoding="utf-8").splitlines()

    assert sum(bool(line.strip()) for line in lines) < 30


@pytest.mark.parametrize(
    ("scope", "events", "answers"),
    [
        pytest.param(
            "lifespan",
            ["lifespan.startup", "lifespan.shutdown"],
            ["lifespan.startup.complete", "lifespan.shutdown.complete"],
            id="lifespan",
        ),
        pytest.param("websocket", ["websocket.connect"], ["websocket.close"], id="websocket"),
    ],
)
def test_what_is_no_http_is_answered_too(scope: str, events: list[str], answers: list[str]) -> None:
    """A server's start and stop are confirmed, and a websocket is closed."""
    sent: list[str] = []

    async def receive() -> dict[str, str]:
        return {"type": events.pop(0)}

    async def send(message: dict[str, str]) -> None:
        sent.append(message["type"])

    asyncio.run(load_example().app({"type": scope}, receive, send))

    assert sent == answers


def test_a_request_that_fits_is_admitted(port: int) -> None:
    """A short greedy request gets 200 and the decision."""
    status, answer = post(port, b'{"prompt_tokens": 10, "max_new_tokens": 4}')

    assert (status, answer["outcome"]) == (200, "accept")


def test_a_request_beyond_the_positions_is_answered_before_any_work(port: int) -> None:
    """Too long a prompt gets 422, the reason with its numbers, and what would fit."""
    status, answer = post(port, b'{"prompt_tokens": 1200, "max_new_tokens": 200}')
    (reason,) = answer["reasons"]

    assert (status, reason["rule"]) == (422, "context")
    assert reason["numbers"] == {"tokens": 1400, "positions": 1024}
    assert reason["hint"] == "at most 824 prompt tokens with 200 new ones"


def test_a_chat_request_is_read(port: int) -> None:
    """An OpenAI chat is decided too: gpt2 has no template for it."""
    status, answer = post(port, json.dumps(CHAT).encode())

    assert status == 422
    assert "template.missing" in {reason["rule"] for reason in answer["reasons"]}


@pytest.mark.parametrize(
    ("body", "error_has"),
    [
        pytest.param(json.dumps(CHAT | {"temprature": 1}).encode(), "temprature", id="unknown"),
        pytest.param(b"{", "line 1, column 2", id="no-json"),
        pytest.param(b"", "line 1, column 1", id="empty"),
        pytest.param(b"[" * 100_000, "nested too deeply", id="deep"),
        pytest.param(b"[]", "must be a JSON object; got list", id="no-object"),
    ],
)
def test_what_is_not_understood_is_named(port: int, body: bytes, error_has: str) -> None:
    """A body that is no request gets 400 and a message, and the service goes on."""
    status, answer = post(port, body)

    assert status == 400
    assert error_has in answer["error"]
    assert post(port, b'{"prompt_tokens": 10, "max_new_tokens": 4}')[0] == 200


def test_the_page_shows_the_example_that_is_tested() -> None:
    """The book's page includes the file itself, not a copy of it."""
    page = (ROOT / "book" / "chapter" / "admission_in_a_service.md").read_text(encoding="utf-8")

    assert "```{literalinclude} ../examples/asgi_admission.py" in page
