"""Experts: each a rule of learning over some columns of one feature map, one rule a file."""
