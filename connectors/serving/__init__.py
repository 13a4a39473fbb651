"""Serving over HTTP: predictions, and learning from requests, each once, with labels that come later."""
