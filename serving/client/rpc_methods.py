"""The paths of TensorFlow Serving's calls.

Reference: tensorflow_serving/apis/prediction_service.proto and model_service.proto.
"""

PREDICT = "/tensorflow.serving.PredictionService/Predict"
CLASSIFY = "/tensorflow.serving.PredictionService/Classify"
REGRESS = "/tensorflow.serving.PredictionService/Regress"
MULTI_INFERENCE = "/tensorflow.serving.PredictionService/MultiInference"
GET_MODEL_METADATA = "/tensorflow.serving.PredictionService/GetModelMetadata"
GET_MODEL_STATUS = "/tensorflow.serving.ModelService/GetModelStatus"
RELOAD = "/tensorflow.serving.ModelService/HandleReloadConfigRequest"

# The calls that change nothing, so they can be sent again even if they may have arrived.
SAFE_TO_REPEAT = {PREDICT, CLASSIFY, REGRESS, MULTI_INFERENCE, GET_MODEL_METADATA, GET_MODEL_STATUS}
