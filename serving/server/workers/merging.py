"""Merge the answers of several processes of a server."""

from collections.abc import Iterable, Iterator, Mapping

from ...wire import messages_pb2 as pb
from ..runtime.metrics import GAUGE, OLDEST_AGE

_START, _AVAILABLE = pb.ModelVersionStatus.START, pb.ModelVersionStatus.AVAILABLE


def merged_statuses(responses: Iterable[pb.GetModelStatusResponse]) -> pb.GetModelStatusResponse:
    """Return the states of a model in all processes: a version is available if it is available in all.

    Otherwise its state is that of a process in which it is not available. A process that does not know the
    version has yet to find it.
    """
    told = [{each.version: each for each in response.model_version_status} for response in responses]
    merged = pb.GetModelStatusResponse()
    for version in sorted({version for statuses in told for version in statuses}, reverse=True):
        known = [statuses[version] for statuses in told if version in statuses]
        missing = [each for each in known if each.state != _AVAILABLE]
        status = merged.model_version_status.add()
        status.CopyFrom((missing or known)[0])
        if not missing and len(known) < len(told):
            status.state = _START
    return merged


def summed_metrics(texts: Iterable[str]) -> str:
    """Sum the samples of several texts in Prometheus' format; of ages the oldest stays."""
    families: dict[str, dict[str, float]] = {}
    for text in texts:
        for head, sample, value in _samples(text):
            family = families.setdefault(head, {})
            known = family.get(sample, 0)
            family[sample] = max(known, value) if f" {OLDEST_AGE} " in head else known + value
    return _text(families)


def counts_alone(text: str) -> str:
    """Return the counts of a text in Prometheus' format, without its gauges, which end with their process."""
    families: dict[str, dict[str, float]] = {}
    for head, sample, value in _samples(text):
        if not head.endswith(f" {GAUGE}"):
            families.setdefault(head, {})[sample] = value
    return _text(families)


def _text(families: Mapping[str, Mapping[str, float]]) -> str:
    lines: list[str] = []
    for head, samples in families.items():
        lines += [head, *(f"{sample} {value:.15g}" for sample, value in samples.items())]
    return "".join(f"{line}\n" for line in lines)


def _samples(text: str) -> Iterator[tuple[str, str, float]]:
    """Each sample with the line that begins its family."""
    head = ""
    for line in text.splitlines():
        if line.startswith("#"):
            head = line
        else:
            sample, _, value = line.rpartition(" ")
            yield head, sample, float(value)
