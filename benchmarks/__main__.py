"""`python -m benchmarks`, from a checkout."""

import os

# As for the `keras-selfattn` command: gRPC's core would log each connection whose handshake fails.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")

from benchmarks.commands import main

if __name__ == "__main__":
    main(prog_name="python -m benchmarks")
