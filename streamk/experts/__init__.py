"""Experts: each a rule of learning over columns of one feature map, one rule a file."""
