"""HTTP/2 by hand: frames that no client would send, and calls that cost nothing but their bytes.

Reference: RFC 9113 (frames), RFC 7541 (headers), grpc/doc/PROTOCOL-HTTP2.md.
"""

import struct

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = (
    range(10)
)
END_STREAM, END_HEADERS = 1, 4
PREDICT = "/tensorflow.serving.PredictionService/Predict"


def frame(kind, payload=b"", flags=0, stream=0, length=None):
    """A frame; `length` is what it says of itself where that is not true."""
    said = struct.pack(">I", len(payload) if length is None else length)[1:]
    return said + struct.pack(">BBI", kind, flags, stream) + payload


HELLO = PREFACE + frame(SETTINGS)


def header(name, value):
    """A header as a literal that nobody remembers."""
    return b"\0" + b"".join(bytes([len(each)]) + each.encode() for each in (name, value))


def call_headers(path=PREDICT, **more):
    fields = {
        ":method": "POST",
        ":scheme": "http",
        ":path": path,
        ":authority": "localhost",
        "te": "trailers",
    }
    fields |= {"content-type": "application/grpc", **more}
    return b"".join(header(name, value) for name, value in fields.items())


def message(data, length=None):
    """A gRPC message; `length` is what it says of itself where that is not true."""
    return b"\0" + struct.pack(">I", len(data) if length is None else length) + data


def call(data, stream=1, path=PREDICT, **more):
    """A whole call with one message; `more` are headers."""
    return frame(HEADERS, call_headers(path, **more), END_HEADERS, stream) + frame(
        DATA, message(data), END_STREAM, stream
    )


def answered(received, stream=1):
    """The message in the bytes that a server has sent so far; None until it is all there."""
    data, position = b"", 0
    while position + 9 <= len(received):
        length = int.from_bytes(received[position : position + 3], "big")
        kind, _, on = struct.unpack(">BBI", received[position + 3 : position + 9])
        body = received[position + 9 : position + 9 + length]
        position += 9 + length
        if kind == DATA and on == stream and len(body) == length:
            data += body
    size = int.from_bytes(data[1:5], "big")
    return data[5:] if len(data) >= 5 and len(data) == 5 + size else None
