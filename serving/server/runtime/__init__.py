"""The process around the models: ports, metrics, logs, descriptors, TensorFlow itself."""
