"""Formats of files: CSV, JSON, MessagePack and Parquet, read in batches."""
