"""What importing a client costs: ours against TensorFlow Serving's own stub.

    python benchmarks/client_import.py [--repeats 7]

Each import runs in a fresh process, the two in turns, so that both see the same machine. Printed are the
medians: seconds of the import, and the memory of the process after it. The first row is Python alone.
RssAnon is memory that belongs to the process alone; RSS counts the mapped libraries too.
"""

import argparse
import statistics
import subprocess
import sys

STOCK = "import grpc; from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc"
CLIENTS = {
    "bare interpreter": "pass",
    "keras_selfattn.serving.client": "from keras_selfattn.serving.client import Client",
    "tensorflow_serving.apis": STOCK,
}

MEASURE = """
import time
start = time.perf_counter()
{statement}
seconds = time.perf_counter() - start
memory = dict(line.split(":") for line in open("/proc/self/status") if line.startswith(("VmRSS", "RssAnon")))
print(seconds, *(int(memory[name].split()[0]) / 1024 for name in ("RssAnon", "VmRSS")))
"""


def measure(statement: str) -> tuple[float, ...]:
    """Seconds, RssAnon in MiB and RSS in MiB of one import in a fresh process."""
    command = [sys.executable, "-c", MEASURE.format(statement=statement)]
    result = subprocess.run(command, check=True, capture_output=True, text=True)
    return tuple(map(float, result.stdout.split()))


def main() -> None:
    """Measures in turns and prints the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=7, help="processes for each client")
    repeats = parser.parse_args().repeats
    samples: dict[str, list[tuple[float, ...]]] = {name: [] for name in CLIENTS}
    for statement in CLIENTS.values():  # the first import of each reads the disk: not counted
        measure(statement)
    for _ in range(repeats):
        for name, statement in CLIENTS.items():
            samples[name].append(measure(statement))
    print(f"{'median of ' + str(repeats):32}{'import s':>10}{'RssAnon MiB':>13}{'RSS MiB':>10}")
    for name, runs in samples.items():
        seconds, anonymous, resident = (statistics.median(column) for column in zip(*runs, strict=True))
        print(f"{name:32}{seconds:10.3f}{anonymous:13.0f}{resident:10.0f}")


if __name__ == "__main__":
    main()
