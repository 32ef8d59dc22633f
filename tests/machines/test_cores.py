"""GPUs are counted without a library."""

from keras_selfattn.machines.cores import nvidia_gpus


def test_gpus_are_counted_without_a_library(tmp_path, monkeypatch):
    for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm"):
        (tmp_path / name).touch()
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert nvidia_gpus(tmp_path) == 2
    for visible, count in (("", 0), ("-1", 0), ("3", 1), ("0,1,2", 3), ("GPU-8e0d,GPU-1f2c", 2)):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        assert nvidia_gpus(tmp_path) == count
