#!/usr/bin/env bash
# `keras.ops.max_pool` and `average_pool` without `strides` fail on JAX alone.
#
# Library     Keras 3.15.1 with JAX 0.10.2 and TensorFlow 2.21.0, on a CPU.
# Behaviour   For a picture [1, 4, 4, 2] and a pool of 2 or (2, 2), TensorFlow returns [1, 2, 2, 2]. JAX raises
#             TypeError with "valid" padding, and ValueError with "same". With `strides` given, or as the layer
#             `MaxPooling2D`, both agree.
# A guess     [1, 2, 2, 2] everywhere: the documentation says that `strides` is the size of the pool by default.
# Why wrong   On JAX the size gets its axes of batch and channels first, becomes the default of the strides, and these
#             get the two axes once more. The layers always hand over strides, so layers work and the operations that
#             they are made of do not: a layer of one's own, tried on TensorFlow, fails when somebody takes JAX.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet keras==3.15.1 jax==0.10.2 tensorflow-cpu==2.21.0
cat >"$folder/try.py" <<'PY'
import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import keras
import numpy as np
from keras import ops

x = np.arange(32, dtype="float32").reshape(1, 4, 4, 2)


def told(pool):
    try:
        return str(tuple(pool().shape))
    except (TypeError, ValueError) as error:
        return type(error).__name__


backend = keras.backend.backend()
for padding in ("valid", "same"):
    settings = {"padding": padding, "data_format": "channels_last"}
    print(backend, padding, "max_pool, 2:", told(lambda: ops.max_pool(x, 2, **settings)))
    print(backend, padding, "average_pool, (2, 2):", told(lambda: ops.average_pool(x, (2, 2), **settings)))
    print(backend, padding, "max_pool, 2, with strides:", told(lambda: ops.max_pool(x, 2, 2, **settings)))
    print(backend, padding, "MaxPooling2D:", told(lambda: keras.layers.MaxPooling2D(2, **settings)(x)))
PY
for backend in tensorflow jax; do
    KERAS_BACKEND=$backend "$folder/env/bin/python" "$folder/try.py" 2>/dev/null
done | tee "$folder/seen"
diff "$folder/seen" - <<'EXPECTED'
tensorflow valid max_pool, 2: (1, 2, 2, 2)
tensorflow valid average_pool, (2, 2): (1, 2, 2, 2)
tensorflow valid max_pool, 2, with strides: (1, 2, 2, 2)
tensorflow valid MaxPooling2D: (1, 2, 2, 2)
tensorflow same max_pool, 2: (1, 2, 2, 2)
tensorflow same average_pool, (2, 2): (1, 2, 2, 2)
tensorflow same max_pool, 2, with strides: (1, 2, 2, 2)
tensorflow same MaxPooling2D: (1, 2, 2, 2)
jax valid max_pool, 2: TypeError
jax valid average_pool, (2, 2): TypeError
jax valid max_pool, 2, with strides: (1, 2, 2, 2)
jax valid MaxPooling2D: (1, 2, 2, 2)
jax same max_pool, 2: ValueError
jax same average_pool, (2, 2): ValueError
jax same max_pool, 2, with strides: (1, 2, 2, 2)
jax same MaxPooling2D: (1, 2, 2, 2)
EXPECTED
echo "As found."
