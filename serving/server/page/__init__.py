"""The web page on the REST port: its files, what it is told of the models, and who may ask."""
