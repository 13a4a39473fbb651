"""The models of all partitions as one: merged, versioned by what it has learned, published and fetched."""
