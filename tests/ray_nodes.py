"""A real Ray cluster of this machine, of nodes that have a CPU each."""

import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def cluster_of_nodes(count):
    """Gives the address."""
    from ray.cluster_utils import Cluster

    Path("/tmp/ray").mkdir(exist_ok=True)  # Ray writes the cluster's address there, and does not make it
    folder = tempfile.mkdtemp(prefix="ray-", dir="/tmp")  # its sockets' names have at most 107 bytes
    head = {"num_cpus": 1, "include_dashboard": False, "temp_dir": folder}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    for _ in range(count - 1):
        cluster.add_node(num_cpus=1)
    try:
        yield cluster.address
    finally:
        cluster.shutdown()
        shutil.rmtree(folder, ignore_errors=True)
