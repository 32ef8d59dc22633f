"""Server reflection: tools such as grpcurl list the services and their messages.

grpcio-reflection speaks v1alpha. v1 has the same messages in another package, and newer tools ask it first.

Reference: grpc/reflection/v1/reflection.proto of grpc/grpc-proto.
"""

from collections.abc import Callable
from typing import Any

import grpc.aio
from google.protobuf import text_format
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import Default, DescriptorPool
from grpc_reflection.v1alpha import reflection, reflection_pb2

from ...wire import open_inference_pb2 as oip
from .grpc_services import REFLECTION_SERVICES, SERVICES
from .open_inference import SERVICE

_METHOD = "ServerReflectionInfo"
_V1_PACKAGE = "grpc.reflection.v1"
_NUMBERS = {
    "fp32_contents": FieldDescriptorProto.TYPE_FLOAT,
    "fp64_contents": FieldDescriptorProto.TYPE_DOUBLE,
}


def add_reflection(server: grpc.aio.Server) -> None:
    """Let tools list the services."""
    names = (*SERVICES, *REFLECTION_SERVICES)
    servicer: Any = reflection.aio.ReflectionServicer(names, _Pools())  # pyright: ignore[reportArgumentType]
    handler = grpc.stream_stream_rpc_method_handler(
        servicer.ServerReflectionInfo,
        request_deserializer=reflection_pb2.ServerReflectionRequest.FromString,
        response_serializer=reflection_pb2.ServerReflectionResponse.SerializeToString,
    )
    for service in REFLECTION_SERVICES:
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {_METHOD: handler}),))


class _Pools:
    """The descriptors of all services, under the names that the protocols have.

    The Open Inference Protocol's package has another name here, and reflection's v1 is made of v1alpha. Both
    are in a pool of their own, since a program may have loaded others of their names.
    """

    def __init__(self) -> None:
        own = FileDescriptorProto()
        oip.DESCRIPTOR.CopyToProto(own)
        for message in own.message_type:
            for field in message.field:
                if field.name in _NUMBERS:  # which are bytes here, to be read without an object each
                    field.type, field.label = _NUMBERS[field.name], FieldDescriptorProto.LABEL_REPEATED
        package, _, _ = SERVICE.rpartition(".")
        alpha = FileDescriptorProto()
        reflection_pb2.DESCRIPTOR.CopyToProto(alpha)
        alpha.name = alpha.name.replace("v1alpha", "v1")
        self._pool = DescriptorPool()
        self._pool.AddSerializedFile(_renamed(own, package).SerializeToString())
        self._pool.AddSerializedFile(_renamed(alpha, _V1_PACKAGE).SerializeToString())

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if not name.startswith("Find"):
            raise AttributeError(name)

        def find(*sought: Any) -> Any:
            try:
                return getattr(self._pool, name)(*sought)
            except KeyError:
                return getattr(Default(), name)(*sought)

        return find


def _renamed(file: FileDescriptorProto, package: str) -> FileDescriptorProto:
    """Return a file with another package."""
    # As text, because the package's name begins the name of each type.
    renamed = text_format.MessageToString(file).replace(file.package, package)
    return text_format.Parse(renamed, FileDescriptorProto())
