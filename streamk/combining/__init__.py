"""Combiners: the outputs of experts to one honest prediction."""
