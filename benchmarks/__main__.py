"""`python -m benchmarks`, from a checkout."""

import os

# As for the `keras-selfattn` command: gRPC's core logs each connection that does not come to terms.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")

from benchmarks.commands import main

if __name__ == "__main__":
    main(prog_name="python -m benchmarks")
