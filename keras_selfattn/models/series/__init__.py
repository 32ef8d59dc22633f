"""Models of real-valued series: classifier, regressor and forecaster."""
