"""Server reflection: tools such as grpcurl list the services and their messages."""

from collections.abc import Callable
from typing import Any

import grpc.aio
from google.protobuf import text_format
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import Default, DescriptorPool
from grpc_reflection.v1alpha import reflection

from ...wire import open_inference_pb2 as oip
from .grpc_services import SERVICES
from .open_inference import SERVICE

_NUMBERS = {
    "fp32_contents": FieldDescriptorProto.TYPE_FLOAT,
    "fp64_contents": FieldDescriptorProto.TYPE_DOUBLE,
}


def add_reflection(server: grpc.aio.Server) -> None:
    """Let tools list the services."""
    names = (*SERVICES, reflection.SERVICE_NAME)
    reflection.enable_server_reflection(names, server, _Pools())  # pyright: ignore[reportArgumentType]


class _Pools:
    """The descriptors of all services: those of the Open Inference Protocol under its own package's name.

    They are in a pool of their own, since a program may have loaded others of that name.
    """

    def __init__(self) -> None:
        own = FileDescriptorProto()
        oip.DESCRIPTOR.CopyToProto(own)
        for message in own.message_type:
            for field in message.field:
                if field.name in _NUMBERS:  # which are bytes here, to be read without an object each
                    field.type, field.label = _NUMBERS[field.name], FieldDescriptorProto.LABEL_REPEATED
        package, _, _ = SERVICE.rpartition(".")
        # As text, because the package's name begins the name of each type.
        renamed = text_format.MessageToString(own).replace(own.package, package)
        self._pool = DescriptorPool()
        self._pool.AddSerializedFile(text_format.Parse(renamed, FileDescriptorProto()).SerializeToString())

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if not name.startswith("Find"):
            raise AttributeError(name)

        def find(*sought: Any) -> Any:
            try:
                return getattr(self._pool, name)(*sought)
            except KeyError:
                return getattr(Default(), name)(*sought)

        return find
