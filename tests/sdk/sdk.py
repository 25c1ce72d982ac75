"""Checks with the real client libraries; one argument names the check.

The Rust test (tests/it/sdk.rs) starts the gate and the engine, runs this, and looks at what
arrived. GATE is the gate's address; tenants are `a` (two slots), `one` (one slot) and `other`
(another model); the key of a tenant is `key-<tenant>`. Faults are asked of the simulated engine
by `x-sim-…` headers, which the gate passes on.
"""

import asyncio
import os
import sys
import time

import anthropic
import httpx
import httpx2
import openai

GATE = os.environ["GATE"]
MODEL = "sim"
TURNS = [{"role": "user", "content": "hello"}]
TOKENS = 6


def openai_client(tenant="a", retries=0, **options):
    return openai.OpenAI(
        base_url=f"{GATE}/v1", api_key=f"key-{tenant}", max_retries=retries, timeout=30, **options
    )


def anthropic_client(tenant="a", retries=0, **options):
    return anthropic.Anthropic(
        base_url=GATE, api_key=f"key-{tenant}", max_retries=retries, timeout=30, **options
    )


# One streamed request of each API: (library, name, call); the call gives the raw event stream.
def chat(client, tokens=TOKENS, **options):
    return client.chat.completions.create(
        model=MODEL, messages=TURNS, max_tokens=tokens, stream=True, **options
    )


def completions(client, tokens=TOKENS, **options):
    return client.completions.create(
        model=MODEL, prompt="hello", max_tokens=tokens, stream=True, **options
    )


def responses(client, tokens=TOKENS, **options):
    return client.responses.create(
        model=MODEL, input="hello", max_output_tokens=tokens, stream=True, **options
    )


def messages(client, tokens=TOKENS, **options):
    return client.messages.create(
        model=MODEL, messages=TURNS, max_tokens=tokens, stream=True, **options
    )


APIS = [
    (openai, openai_client, chat),
    (openai, openai_client, completions),
    (openai, openai_client, responses),
    (anthropic, anthropic_client, messages),
]


def text_of(event):
    """The text an event of any of the APIs brings."""
    choices = getattr(event, "choices", None)
    if choices:
        delta = getattr(choices[0], "delta", None)
        return (delta.content if delta else choices[0].text) or ""
    delta = getattr(event, "delta", None)
    if isinstance(delta, str):
        return delta
    return getattr(delta, "text", None) or ""


def words(events):
    return "".join(map(text_of, events)).split()


def streaming():
    """Whole streams and plain answers, by the libraries' own types."""
    client = openai_client()
    events = list(chat(client))
    assert len(words(events)) == TOKENS, events
    assert events[-1].choices[0].finish_reason == "length", events[-1]
    assert all(event.usage is None for event in events), "usage that nobody asked for"

    events = list(chat(client, stream_options={"include_usage": True}))
    assert len(words(events)) == TOKENS and events[-1].choices == [], events[-1]
    assert events[-1].usage.completion_tokens == TOKENS, events[-1]

    events = list(completions(client))
    assert len(words(events)) == TOKENS, events
    assert events[-1].choices[0].finish_reason == "length", events[-1]

    events = list(responses(client))
    assert len(words(events)) == TOKENS, [event.type for event in events]
    assert events[0].type == "response.created", events[0]
    assert events[-1].type == "response.completed", events[-1]
    assert events[-1].response.usage.output_tokens == TOKENS, events[-1]

    with anthropic_client().messages.stream(
        model=MODEL, messages=TURNS, max_tokens=TOKENS
    ) as stream:
        assert len("".join(stream.text_stream).split()) == TOKENS
        message = stream.get_final_message()
    assert message.stop_reason == "max_tokens", message
    assert message.usage.output_tokens == TOKENS, message

    answer = client.chat.completions.create(model=MODEL, messages=TURNS, max_tokens=TOKENS)
    assert answer.usage.completion_tokens == TOKENS, answer
    answer = client.responses.create(model=MODEL, input="hello", max_output_tokens=TOKENS)
    assert len(answer.output_text.split()) == TOKENS, answer
    answer = anthropic_client().messages.create(
        model=MODEL, messages=TURNS, max_tokens=TOKENS
    )
    assert len(answer.content[0].text.split()) == TOKENS, answer
    assert MODEL in [model.id for model in client.models.list()]


def ask_again(make, call):
    """The slot comes back as soon as the engine has noticed; then the next request is served."""
    deadline = time.monotonic() + 15
    while True:
        try:
            return list(call(make("one")))
        except (openai.RateLimitError, anthropic.RateLimitError):
            assert time.monotonic() < deadline, "the slot never came back"
            time.sleep(0.02)


SLOW = {"x-sim-interval": "50ms"}


def cancelling():
    """Streams left in the middle, in each way a program leaves them; one slot."""
    for _, make, call in APIS:
        client = make("one")
        stream = call(client, tokens=2000, extra_headers=SLOW)
        seen = [event for event, _ in zip(stream, range(8))]
        assert words(seen), seen
        stream.close()
        assert len(words(ask_again(make, call))) == TOKENS

        with call(client, tokens=2000, extra_headers=SLOW) as stream:
            for event in stream:
                if text_of(event):
                    break
        assert len(words(ask_again(make, call))) == TOKENS

        # A bare `break` keeps the connection until the stream is collected.
        stream = call(client, tokens=2000, extra_headers=SLOW)
        for event in stream:
            if text_of(event):
                break
        del stream
        client.close()
        assert len(words(ask_again(make, call))) == TOKENS
    asyncio.run(cancelling_a_task())


async def cancelling_a_task():
    """A task that is cancelled, as web servers do when their own client leaves."""
    client = openai.AsyncOpenAI(base_url=f"{GATE}/v1", api_key="key-one", max_retries=0)

    async def consume(started):
        stream = await client.chat.completions.create(
            model=MODEL, messages=TURNS, max_tokens=2000, stream=True, extra_headers=SLOW
        )
        async for event in stream:
            if text_of(event):
                started.set()

    started = asyncio.Event()
    task = asyncio.create_task(consume(started))
    await asyncio.wait_for(started.wait(), 15)
    task.cancel()
    try:
        await task
        raise AssertionError("the task was not cancelled")
    except asyncio.CancelledError:
        pass
    events = await asyncio.to_thread(ask_again, openai_client, chat)
    assert len(words(events)) == TOKENS


class Watch:
    """When each answer came, and what it told."""

    def __init__(self, library):
        self.answers = []
        self.asked = []
        hooks = {"request": [self.request], "response": [self.response]}
        http = httpx2 if library is anthropic else httpx
        self.client = http.Client(event_hooks=hooks, timeout=60)

    def request(self, request):
        self.asked.append((time.monotonic(), request.headers.get("x-stainless-retry-count")))

    def response(self, response):
        self.answers.append((time.monotonic(), response.status_code, dict(response.headers)))


def refused():
    """The one slot is held: three requests, as far apart as told, then a typed exception."""
    for library, make, call in APIS[:1] + APIS[3:]:
        watch = Watch(library)
        client = make("one", retries=2, http_client=watch.client)
        try:
            call(client)
            raise AssertionError("a request was served beyond the cap")
        except library.RateLimitError as error:
            assert error.status_code == 429, error
            assert error.response.headers["x-streamgate-reason"] == "tenant_in_flight"
            assert error.request_id, error
            kind = error.body["error"]["type"] if library is anthropic else error.body["type"]
            assert kind in ("rate_limit_error", "requests"), error.body
        assert [status for _, status, _ in watch.answers] == [429] * 3, watch.answers
        assert [count for _, count in watch.asked] == ["0", "1", "2"], watch.asked
        for (answered, _, headers), (asked, _) in zip(watch.answers, watch.asked[1:]):
            told = int(headers["retry-after-ms"]) / 1000
            assert 1 <= int(headers["retry-after"]) <= 60, headers
            # As long as told, and no library waits twice as long.
            assert told - 0.01 <= asked - answered <= 2 * told + 2, (told, asked - answered)


def not_retried():
    """A request that can never succeed is sent once, whatever the library would do."""
    watch = Watch(openai)
    client = openai_client(retries=2, http_client=watch.client)
    try:
        client.chat.completions.create(model="nope", messages=TURNS)
        raise AssertionError("an unknown model was served")
    except openai.NotFoundError:
        pass
    assert len(watch.answers) == 1, watch.answers
    assert watch.answers[0][2]["x-should-retry"] == "false"


BREAKS = [
    {"x-sim-cut": "events:7"},
    {"x-sim-cut": "events:7", "x-sim-cut-by": "rst"},
    {"x-sim-cut": "bytes:5000"},
    {"x-sim-end-after": "7"},
    {"x-sim-error-after": "7"},
    {"x-sim-abort-after": "7"},
]


def broken():
    """A stream that breaks after content raises; it never looks like a short answer."""
    for library, make, call in APIS:
        for fault in BREAKS:
            seen = []
            try:
                for event in call(make(retries=2), tokens=60, extra_headers=fault):
                    seen.append(event)
            except (library.APIError, httpx.HTTPError, httpx2.HTTPError) as error:
                assert words(seen), (call, fault, error)
                assert len(words(seen)) < 60, (call, fault)
                continue
            kinds = [getattr(event, "type", "chunk") for event in seen]
            raise AssertionError(f"{call.__name__} {fault}: ended silently after {kinds}")


def expect(library, kind, status, work):
    try:
        work()
    except library.APIStatusError as error:
        assert type(error) is getattr(library, kind), (kind, type(error), error)
        assert error.status_code == status, error
        assert error.request_id, "the request's id is not found"
        body = error.body["error"] if library is anthropic else error.body
        assert body["message"] and body["type"], error.body
        if library is openai:
            assert error.code and error.type, error.body
        return error
    raise AssertionError(f"{library.__name__} {kind}: no exception")


def refusals():
    """Each refusal is the library's own typed error."""
    for library, make, call in APIS:
        expect(library, "AuthenticationError", 401, lambda: call(make("nobody")))
        expect(library, "PermissionDeniedError", 403, lambda: call(make("other")))
        unknown = {"model": "nope"}
        expect(library, "NotFoundError", 404, lambda: call(make(), extra_body=unknown))
        error = expect(
            library, "BadRequestError", 400, lambda: call(make(), extra_body={"stream": "yes"})
        )
        assert "stream" in str(error), error
        large = {"padding": "x" * 100_000}
        kind = "RequestTooLargeError" if library is anthropic else "APIStatusError"
        expect(library, kind, 413, lambda: call(make(), extra_body=large))


if __name__ == "__main__":
    globals()[sys.argv[1]]()
