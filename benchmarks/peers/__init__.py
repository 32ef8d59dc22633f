"""What the workers measure, a module for each framework; frameworks are imported in functions only."""
