"""`bench accuracy`: the models with their defaults beside linear ones, on public sets with known figures."""
