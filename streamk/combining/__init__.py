"""Combiners, which compute one calibrated prediction from the outputs of experts."""
