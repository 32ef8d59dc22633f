"""Routes have placeholders for names."""

import pytest

from keras_selfattn.serving.server.rest.routes import http_route


@pytest.mark.parametrize(
    ("path", "route"),
    [
        ("/v1/models", "/v1/models"),
        ("/v1/models/a%20b", "/v1/models/{model}"),
        ("/V1/mOdElS/Half:Predict", "/v1/models/{model}:predict"),
        ("/v1/model\N{LATIN SMALL LETTER LONG S}", ""),
        ("/v1/models/half/versions/\N{ARABIC-INDIC DIGIT ONE}", ""),
        ("/v1/models/a/labels/b/metadata", "/v1/models/{model}/labels/{label}/metadata"),
        ("/v2", "/v2"),
        ("/v2/models/a:b/versions/v/ready", "/v2/models/{model}/versions/{version}/ready"),
        ("/v1/models/half:no", ""),
        ("/healthz", ""),
    ],
)
def test_a_route_has_placeholders_for_names(path, route):
    assert http_route(path) == route
