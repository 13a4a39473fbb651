"""Random features as pure functions of a seed: bits, normals, cosines, directions, frequencies."""
