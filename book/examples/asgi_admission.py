"""Admission in front of a model: what cannot be honoured is answered before any work."""

import json

from labkit import LabError, RuntimeFacts, admit, fingerprint
from labkit.admission import read_request
from labkit.files import data_file
from labkit.spec import read_config_file

SPEC = fingerprint(read_config_file(data_file("configs", "gpt2.json")), "gpt2")
FACTS = RuntimeFacts.from_json(json.loads(data_file("admission", "facts.json").read_text()))


async def app(scope, receive, send):
    """Answer 200 where the request is admitted, 422 where not, 400 where it is not understood."""
    if scope["type"] == "websocket":
        return await send({"type": "websocket.close"})
    if scope["type"] == "lifespan":  # there is nothing to start or to stop
        for _ in ("startup", "shutdown"):
            await send({"type": (await receive())["type"] + ".complete"})
        return None
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message.get("body", b""), message.get("more_body", False)
    try:
        decision = admit(SPEC, read_request(body), FACTS)
        status, answer = (200 if decision.admitted else 422), decision.to_json()
    except LabError as error:
        status, answer = 400, {"error": str(error)}
    headers = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps(answer).encode()})
