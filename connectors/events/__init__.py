"""Events: names, values, schema, decoding of records, batches, and what a model file stores of them."""
