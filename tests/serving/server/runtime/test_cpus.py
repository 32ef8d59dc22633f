"""CPUs that a process counts on: by affinity, and by quotas of its group and of those around it."""

import os

import pytest

from keras_selfattn.serving.server import ServerConfig, config
from keras_selfattn.serving.server.runtime import cpus
from keras_selfattn.serving.server.runtime.cpus import available_cpus


@pytest.fixture
def group(tmp_path, monkeypatch):
    """Makes a process on a machine of eight CPUs, in a group of files with quotas by folder."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)

    def made(line, **quotas):
        (tmp_path / "proc/self").mkdir(parents=True)
        (tmp_path / "proc/self/cgroup").write_text(line)
        for folder, quota in quotas.items():
            place = tmp_path / "sys/fs/cgroup" / folder.strip("_").replace("__", "/")
            place.mkdir(parents=True, exist_ok=True)
            (place / "cpu.max").write_text(quota)
        return tmp_path

    return made


@pytest.mark.parametrize(
    ("line", "quotas", "found"),
    [
        ("0::/\n", {}, 8),
        ("0::/\n", {"_": "max 100000\n"}, 8),
        ("0::/\n", {"_": "200000 100000\n"}, 2),
        ("0::/\n", {"_": "150000 100000\n"}, 2),
        ("0::/\n", {"_": "10000 100000\n"}, 1),
        ("0::/\n", {"_": "6400000 100000\n"}, 8),
        ("1:cpu:/x\n0::/a/b\n", {"a__b": "max 100000", "a": "300000 100000", "_": "500000 100000"}, 3),
        ("0::/a/b\n", {"a__b": "400000 100000", "a": "max 100000"}, 4),
        ("1:cpu:/\n", {"_": "100000 100000"}, 8),
        ("0::/\n", {"_": "much\n"}, 8),
        ("0::/\n", {"_": "1 0\n"}, 8),
        ("", {}, 8),
    ],
)
def test_the_smallest_quota_counts_rounded_up(group, line, quotas, found):
    assert available_cpus(group(line, **quotas)) == found


def test_affinity_counts_without_any_quota(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {1, 3, 5}, raising=False)
    assert available_cpus(tmp_path) == 3


def test_a_system_without_affinity_counts_all(tmp_path, monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    assert available_cpus(tmp_path) == os.cpu_count()


def test_workers_share_them(monkeypatch):
    monkeypatch.setattr(config, "available_cpus", lambda: 6)
    assert [ServerConfig("m", "models", workers=workers).cpus for workers in (1, 2, 9)] == [6, 3, 1]
    assert cpus.available_cpus() >= 1


@pytest.mark.parametrize(("quota", "set_to"), [(2, "2"), (8, None)])
def test_tensorflow_starts_no_more_threads_than_a_quota_allows(monkeypatch, quota, set_to):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    monkeypatch.setattr(cpus, "available_cpus", lambda: quota)
    monkeypatch.setattr(os, "environ", {"TF_NUM_INTRAOP_THREADS": "5"})
    cpus.limit_tensorflow()
    assert os.environ.get("TF_NUM_INTEROP_THREADS") == set_to
    assert os.environ["TF_NUM_INTRAOP_THREADS"] == "5", "what the operator has set stays"
