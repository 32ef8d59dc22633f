"""The answers of workers are merged: versions, sums of metrics, gauges."""

from keras_selfattn.serving.server.workers.merging import counts_alone, merged_statuses, summed_metrics
from keras_selfattn.serving.wire import messages_pb2 as pb


def response(**states):
    told = pb.GetModelStatusResponse()
    for version, state in states.items():
        told.model_version_status.add(version=int(version[1:]), state=state)
    return told


def test_a_version_is_available_when_it_is_in_all_workers():
    start, loading, available, end = (
        pb.ModelVersionStatus.State.Value(name) for name in ("START", "LOADING", "AVAILABLE", "END")
    )
    merged = merged_statuses(
        [
            response(v1=end, v2=available, v3=available, v4=available),
            response(v1=available, v2=available, v3=loading),
        ]
    )
    assert [(each.version, each.state) for each in merged.model_version_status] == [
        *((4, start), (3, loading)),
        *((2, available), (1, end)),
    ]


def test_metrics_are_summed_sample_by_sample_in_their_families():
    one = '# TYPE a counter\na{x="1"} 2\n# TYPE b histogram\nb_sum{x="1"} 0.5\n'
    two = '# TYPE a counter\na{x="1"} 3\na{x="2 3"} 1\n# TYPE b histogram\nb_sum{x="1"} 0.25\n'
    summed = '# TYPE a counter\na{x="1"} 5\na{x="2 3"} 1\n# TYPE b histogram\nb_sum{x="1"} 0.75\n'
    assert summed_metrics([one, two]) == summed


def test_of_gauges_what_waits_is_summed_the_oldest_stays_and_none_outlives_its_process():
    def text(count, seconds):
        gauges = {"waiting_requests": count, "oldest_request_age_seconds": seconds}
        named = {f":tensorflow:serving:{name}": value for name, value in gauges.items()}
        lines = [f"# TYPE {name} gauge\n{name} {value}\n" for name, value in named.items()]
        return "# TYPE a counter\na 2\n" + "".join(lines)

    assert summed_metrics([text(3, 0.5), text(4, 0.25)]) == text(7, 0.5).replace("a 2", "a 4")
    assert counts_alone(text(3, 0.5)) == "# TYPE a counter\na 2\n"
