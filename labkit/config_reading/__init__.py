"""How a config.json becomes a `ModelSpec`: one idea a file, standard library only."""
