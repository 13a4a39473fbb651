"""Settings: the tables of the file, their keys and defaults, and the registry of connectors."""
