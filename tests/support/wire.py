"""Faults of a connection and of a reply, by name: what a server on loopback sends in place of an answer."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event
from typing import Any

#: Seconds between two bytes of what drips.
DRIP = 0.02
DEEP = "[" * 100_000
#: Long enough that the half of it is not a whole answer.
ANSWER = b'{"choices": [' + b" " * 2000 + b"]}"
#: Ports of servers that ended, the last one at the end.
FREE: list[int] = []


def bound(make: Callable[[int], ThreadingHTTPServer]) -> ThreadingHTTPServer:
    """A server on loopback, at the port of the one that ended last: to a client it is that server, started again.

    Servers that run at the same time have different ports, so they are different servers to a client.
    """
    while FREE:
        try:
            return make(FREE.pop())
        except OSError:
            continue  # another process has it now
    return make(0)


def _head(handler: BaseHTTPRequestHandler, status: str = "200 OK", *headers: str) -> None:
    lines = [f"HTTP/1.1 {status}", "Content-Type: application/json", *headers, "", ""]
    handler.wfile.write("\r\n".join(lines).encode())


def _drip(handler: BaseHTTPRequestHandler, data: bytes, closing: Event) -> None:
    for byte in data:
        handler.wfile.write(bytes([byte]))
        if closing.wait(DRIP):
            return


def reset(handler: BaseHTTPRequestHandler, _closing: Event) -> None:
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    handler.connection.close()


def cut_headers(handler: BaseHTTPRequestHandler, _closing: Event) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Le")


def cut_body(handler: BaseHTTPRequestHandler, _closing: Event) -> None:
    _head(handler, "200 OK", f"Content-Length: {len(ANSWER)}")
    handler.wfile.write(ANSWER[:1000])


def bad_gzip(handler: BaseHTTPRequestHandler, _closing: Event) -> None:
    _head(handler, "200 OK", f"Content-Length: {len(ANSWER)}", "Content-Encoding: gzip")
    handler.wfile.write(ANSWER)


def bad_chunk(handler: BaseHTTPRequestHandler, _closing: Event) -> None:
    _head(handler, "200 OK", "Transfer-Encoding: chunked")
    handler.wfile.write(b"10\r\n" + ANSWER[:16] + b"\r\nzz\r\n")


def cut_chunk(handler: BaseHTTPRequestHandler, _closing: Event) -> None:
    _head(handler, "200 OK", "Transfer-Encoding: chunked")
    handler.wfile.write(b"10\r\n" + ANSWER[:16] + b"\r\n")


def no_http(handler: BaseHTTPRequestHandler, _closing: Event) -> None:
    handler.wfile.write(b"220 mail.example ESMTP\r\n")


def endless_headers(handler: BaseHTTPRequestHandler, _closing: Event) -> None:
    _head(handler, "200 OK", *[f"X-{n}: {'x' * 1000}" for n in range(300)])


def header_drip(handler: BaseHTTPRequestHandler, closing: Event) -> None:
    _drip(handler, b"HTTP/1.1 200 OK\r\n" + b"X-Header: x\r\n" * 10_000, closing)


def slow_body(handler: BaseHTTPRequestHandler, closing: Event) -> None:
    _head(handler, "200 OK", f"Content-Length: {len(ANSWER)}")
    _drip(handler, ANSWER, closing)


def silence(_handler: BaseHTTPRequestHandler, closing: Event) -> None:
    closing.wait(20)


def _status(status: str, *headers: str, body: bytes = b'{"error": {"message": "it went wrong"}}') -> Any:
    def send(handler: BaseHTTPRequestHandler, _closing: Event) -> None:
        # Said, because the connection is closed: a client would use it again and find it closed at times.
        _head(handler, status, *headers, f"Content-Length: {len(body)}", "Connection: close")
        handler.wfile.write(body)

    return send


def redirect(handler: BaseHTTPRequestHandler, _closing: Event) -> None:
    """To the same server under another name, so that a client that follows comes again."""
    address = f"http://user:secret@localhost:{handler.server.server_address[1]}{handler.path}?key=secret"
    _status("307 Temporary Redirect", f"Location: {address}")(handler, _closing)


#: Faults that may pass, and what is said when they stay.
PASSING = {
    **dict.fromkeys((reset, cut_headers, cut_body, bad_gzip, bad_chunk, cut_chunk, no_http, endless_headers), "broke"),
    **dict.fromkeys((header_drip, slow_body, silence), "did not answer within"),
    _status("500 Internal Server Error"): r"answered 500 \(it went wrong\)",
    _status("503 Service Unavailable", body=b"busy"): r"answered 503 \(busy\)",
    _status("429 Too Many Requests", "Retry-After: 0"): r"answered 429 \(it went wrong\)",
}
#: Faults that another attempt does not change.
STAYING = {
    redirect: r"answered 307 and redirects to http://localhost:\d+/[a-z/0-9]+, and redirects are not followed; if",
    _status("422 Unprocessable", body=DEEP.encode()): r"answered 422 \(\[",
    _status("200 OK", body=DEEP.encode()): r"answered (with JSON that is nested too deeply|without a reply)",
    _status("200 OK", body=b"<html>Sign in</html>"): r"answered (with a web page|without a reply)",
}
_NAMES = ("500", "503", "429 with Retry-After", "deep JSON of an error", "deep JSON", "web page")
_made = iter(_NAMES)
#: All faults by name.
FAULTS = {
    (next(_made) if fault.__name__ == "send" else fault.__name__.replace("_", " ")): (fault, said)
    for fault, said in (PASSING | STAYING).items()
}
TEMPORARY = list(FAULTS)[: len(PASSING)]
PERMANENT = list(FAULTS)[len(PASSING) :]


def send(handler: BaseHTTPRequestHandler, name: str, closing: Event) -> None:
    """Sends what the fault of this name does, and closes the connection."""
    handler.close_connection = True
    try:
        FAULTS[name][0](handler, closing)
        if name != "reset":
            handler.wfile.flush()
    except OSError:
        pass  # the client gave up
