"""Ask a served model from a shell, with NumPy, grpcio and protobuf alone: rows, answers, statuses.

`client_command` is the program of the distribution keras-selfattn-client (deploy/client). The commands of
`keras-selfattn` use the rest, too.
"""
