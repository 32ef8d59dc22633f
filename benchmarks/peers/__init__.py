"""The contestants, a module for each framework; frameworks are imported in functions only."""
