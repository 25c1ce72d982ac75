"""A client that sees every byte: streams of four APIs, how they ended, and what they said."""

import contextlib
import json
import socket
import threading
import time

# What differs from one run of the same request to the next.
VOLATILE = {"id", "item_id", "created", "created_at", "sequence_number", "response_id"}


class Request:
    """A deterministic request."""

    def __init__(self, api, prompt, tokens):
        self.api, self.prompt, self.tokens = api, prompt, tokens
        said = [{"role": "user", "content": prompt}]
        fixed = {"model": "tiny", "stream": True, "temperature": 0}
        usage = {"stream_options": {"include_usage": True}, "seed": 7}
        self.path, body = {
            "completions": ("/v1/completions", {"prompt": prompt, "max_tokens": tokens, **usage}),
            "chat": ("/v1/chat/completions", {"messages": said, "max_tokens": tokens, **usage}),
            "messages": ("/v1/messages", {"messages": said, "max_tokens": tokens}),
            "responses": ("/v1/responses", {"input": prompt, "max_output_tokens": tokens}),
        }[api]
        self.body = json.dumps({**fixed, **body}).encode()


class Stream(threading.Thread):
    """One request, read to its end."""

    def __init__(self, address, request, key="none"):
        super().__init__(daemon=True)
        self.address, self.request, self.key = address, request, key
        self.status, self.clean, self.body = None, False, b""
        self.begun, self.last_byte = threading.Event(), None
        self.socket = None
        self.start()

    def run(self):
        host, port = self.address.rsplit(":", 1)
        head = (f"POST {self.request.path} HTTP/1.1\r\nhost: {self.address}\r\n"
                f"authorization: Bearer {self.key}\r\nx-api-key: {self.key}\r\n"
                f"content-type: application/json\r\nconnection: close\r\n"
                f"content-length: {len(self.request.body)}\r\n\r\n").encode()
        try:
            with socket.create_connection((host, int(port))) as self.socket:
                self.socket.sendall(head + self.request.body)
                with self.socket.makefile("rb") as answer:
                    self.clean = self.read(answer)
        except (OSError, ValueError):
            pass
        self.begun.set()

    def read(self, answer):
        """Whether the answer ended as HTTP says it must."""
        self.status = int(answer.readline().split()[1])
        chunked, length = False, 0
        while (line := answer.readline().strip().lower()):
            chunked |= line == b"transfer-encoding: chunked"
            if line.startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        if not chunked:
            self.took(answer.read(length))
            return len(self.body) == length
        while True:
            line = answer.readline()
            if not line.endswith(b"\r\n"):
                return False
            size = int(line, 16)
            data = answer.read(size + 2)
            if len(data) < size + 2:
                return False
            if size == 0:
                return True
            self.took(data[:-2])

    def took(self, data):
        self.body += data
        self.last_byte = time.monotonic()
        # The first event of an API may say nothing yet.
        if self.body.count(b"\n\n") >= 4:
            self.begun.set()

    def leave(self):
        """Hangs up, as a client does that gives up."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)

    def events(self):
        """Every event's data; what is no event is text."""
        for event in self.body.decode().split("\n\n"):
            lines = [line[5:].strip() for line in event.splitlines() if line.startswith("data:")]
            if lines:
                data = "\n".join(lines)
                yield data if data == "[DONE]" else json.loads(data)

    def said(self):
        """The whole stream, without what differs from run to run, and with texts joined that the
        engine happened to cut in another place."""
        whole = []
        for event in self.events():
            text = []
            shape = stripped(event, text)
            if whole and whole[-1][0] == shape and "error" not in shape:
                whole[-1][1].extend(text)
            else:
                whole.append([shape, text])
        return [(json.dumps(shape, sort_keys=True), "".join(text)) for shape, text in whole]

    def text(self):
        """What the model said."""
        return "".join(text for _, text in self.said())

    def error(self):
        """The code of an error event."""
        for event in self.events():
            if isinstance(event, dict) and (event.get("error") or event.get("type") == "error"):
                error = event.get("error") or event
                return error.get("code") or error.get("type")
        return None

    def ended(self):
        """`whole`, `looks finished` (an abort that ends like an answer), `told` (an error event),
        `silent` (an end without a word), `hangs` (no end at all), or `refused`."""
        if self.is_alive():
            return "hangs"
        if self.status != 200:
            return "refused"
        if self.error():
            return "told"
        terminal = (b"data: [DONE]", b"message_stop", b"response.completed")
        if not (self.clean and any(word in self.body for word in terminal)):
            return "silent"
        return "looks finished" if b'"abort"' in self.body else "whole"


def stripped(value, text):
    """`value` without what is volatile; the texts that a token brings are moved to `text`."""
    if isinstance(value, list):
        return [stripped(item, text) for item in value]
    if not isinstance(value, dict):
        return value
    shape = {}
    for key, item in value.items():
        if key in VOLATILE:
            continue
        if isinstance(item, str) and key in ("text", "content", "delta"):
            text.append(item)
            item = ""
        shape[key] = stripped(item, text)
    return shape
