"""Requests that are nearly right: valid ones with bytes changed, and JSON of every wrong shape."""

import json

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

# One change in a message leaves most of it to be read; many make it noise.
_MOST_CHANGES = 4
_FEW_OF = 3  # without --whole


def check_many(examples, whole, check, **strategies):
    """Calls `check` with so many draws; with a fraction of them, the same each time, unless it runs whole."""
    drawn = settings(
        max_examples=examples if whole else examples // _FEW_OF,
        derandomize=not whole,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    drawn(given(**strategies)(check))()


@st.composite
def mutated(draw, seeds):
    """A valid message with bits flipped, cut, repeated, or with a piece of another or of noise in it."""
    data = draw(st.sampled_from(seeds))
    for _ in range(draw(st.integers(1, _MOST_CHANGES))):
        start = draw(st.integers(0, len(data)))
        end = draw(st.integers(start, min(len(data), start + 20)))
        other = draw(st.sampled_from(seeds))
        cut = draw(st.integers(0, len(other)))
        flipped = bytes(byte ^ (1 << draw(st.integers(0, 7))) for byte in data[start : start + 1])
        data = draw(
            st.sampled_from(
                [
                    data[:start] + flipped + data[start + 1 :],
                    data[:start] + data[end:],
                    data[:end] + data[start:],
                    data[:start],
                    data[:start] + other[cut:],
                    data[:start] + draw(st.binary(max_size=8)) + data[start:],
                ]
            )
        )
    return data


def requests(seeds):
    """Arbitrary bytes and, more often, mutated messages."""
    return st.one_of(st.binary(max_size=200), mutated(seeds), mutated(seeds), mutated(seeds))


_NUMBERS = [
    *(
        "0",
        "-0",
        "1.5",
        "1e999",
        "-1e-999",
        "1E400",
        "NaN",
        "-NaN",
        "Infinity",
        "-Inf",
        "+1",
        "01",
        ".5",
        "5.",
    ),
    *(str(2**number) for number in (24, 31, 32, 53, 63, 64, 200)),
    *("9" * 5000, "-" + "9" * 400, "0." + "3" * 3000, "1e" + "9" * 50, "0x10", "1_000", "١"),
]
_WORDS = ["null", "true", "false", "nul", "undefined", "'x'", "", " ", "//", "\\"]
_KEYS = ["instances", "inputs", "signature_name", "examples", "context", "x", "b64", "left", "", "\ud800"]
_SIGNATURES = ["serving_default", "matmul", "regress_x_to_y", "classify_with_labels", "string", "float16"]


def _text(value):
    return json.dumps(value).encode()  # lone surrogates become escapes


def _pairs(values):
    # As pairs and no dict: a key may come twice.
    keys = st.sampled_from(_KEYS) | st.text(st.characters(), max_size=5)
    pairs = st.lists(st.tuples(keys, values), max_size=4)
    return pairs.map(lambda found: b"{" + b",".join(_text(key) + b":" + value for key, value in found) + b"}")


def _lists(values):
    return st.lists(values, max_size=4).map(lambda found: b"[" + b",".join(found) + b"]")


_leaves = st.one_of(
    st.sampled_from([each.encode() for each in _NUMBERS + _WORDS]),
    st.sampled_from(_SIGNATURES).map(_text),
    st.integers().map(_text),
    st.floats().map(_text),
    st.text(st.characters(), max_size=8).map(_text),
    st.binary(max_size=8).map(lambda data: b'"' + data + b'"'),
)
_values = st.recursive(_leaves, lambda values: _lists(values) | _pairs(values), max_leaves=12)
_deep = st.tuples(
    st.sampled_from([b"[", b'{"x":', b'{"inputs":', b'{"instances":[']), st.sampled_from([5, 33, 990, 10**5])
).map(lambda drawn: drawn[0] * drawn[1])


@st.composite
def documents(draw):
    """A JSON object with the keys of a request, and anything as their values."""
    rows = draw(st.sampled_from([b"instances", b"inputs", b"examples"]))
    signature = _text(draw(st.sampled_from(_SIGNATURES)))
    value = draw(_lists(_values) | _values | _deep)
    more = draw(st.just(b"") | _pairs(_values).map(lambda pairs: b"," + pairs[1:-1]))
    return b'{"signature_name":' + signature + b',"' + rows + b'":' + value + more + b"}"


@st.composite
def infer_documents(draw):
    """A request of the Open Inference Protocol with one or two of its values replaced by anything."""
    found = {
        "name": b'"x"',
        "datatype": _text(draw(st.sampled_from(["FP32", "INT8", "BOOL", "BYTES", "FP16"]))),
        "shape": b"[2]",
        "data": b"[1, 2]",
        "parameters": draw(st.sampled_from([b"{}", b'{"binary_data_size": 8}'])),
    }
    for key in draw(st.lists(st.sampled_from([*found]), max_size=2)):
        found[key] = draw(_values | _deep)
    x = b",".join(_text(key) + b":" + value for key, value in found.items())
    more = draw(st.sampled_from([b"id", b"outputs", b"parameters"])), draw(st.just(b"{}") | _values)
    return b'{"inputs":[{' + x + b'}],"' + more[0] + b'":' + more[1] + b"}" + draw(st.binary(max_size=9))
