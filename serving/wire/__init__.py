"""TensorFlow Serving's messages and tensors on the wire, without TensorFlow.

`messages_pb2` holds the messages, generated from messages.proto; `codec` turns NumPy arrays into tensor
messages and back; `message_bytes` writes and splits whole messages; `dtypes` names the types.
"""
