"""TensorFlow Serving's REST API: JSON in and out, over the same calls as gRPC."""
