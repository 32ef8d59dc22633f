"""A thousand connections at once, each of which asks when all are there."""

import asyncio
import json

import http2
import numpy as np
import pytest
from served import SECONDS, predict_request

from keras_selfattn.serving.wire import codec
from keras_selfattn.serving.wire import messages_pb2 as pb

REST = b"POST /v1/models/half:predict HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s"


async def ask_grpc(server, number, all_there):
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(http2.HELLO)
    await all_there.wait()
    writer.write(http2.call(predict_request("half", x=np.float32([number]))))
    received = b""
    while (answer := http2.answered(received)) is None:
        chunk = await reader.read(2**16)
        assert chunk, "hung up"
        received += chunk
    writer.close()
    return codec.decode(pb.PredictResponse.FromString(answer).outputs["y"]).tolist()


async def ask_rest(server, number, all_there):
    reader, writer = await asyncio.open_connection("127.0.0.1", server.rest_port)
    await all_there.wait()
    body = b'{"inputs": [%d]}' % number
    writer.write(REST % (len(body), body))
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 "), head
    answer = await reader.readuntil(b"}")
    writer.close()
    return json.loads(answer)["outputs"]


async def ask_all(server, count):
    all_there = asyncio.Barrier(count)
    asks = [(ask_rest if number % 2 else ask_grpc)(server, number, all_there) for number in range(count)]
    async with asyncio.timeout(4 * SECONDS):
        return await asyncio.gather(*asks)


@pytest.mark.shortened
def test_as_many_connections_as_there_are_clients_are_all_answered(server, whole):
    count = 1000 if whole else 200
    answers = asyncio.run(ask_all(server, count))
    assert answers == [[0.5 * number + 2] for number in range(count)]
