"""EigenPro written once more, with dense matrices in double precision and no shortcut."""

import numpy as np
from scipy.spatial.distance import cdist


def laplace(X, Z, bandwidth):
    return np.exp(-cdist(np.float64(X), np.float64(Z)) / bandwidth)


def dense_preconditioner(K, masses, q, exponent):
    """``I − √w E (Λ⁻¹ − λ_{q+1}^a Λ^{−1−a}) Eᵀ √w K`` on coefficients over the subsample, by a full eigh."""
    root = np.diag(np.sqrt(masses))
    values, vectors = np.linalg.eigh(root @ K @ root)
    values, vectors = values[::-1], vectors[:, ::-1]
    top = vectors[:, :q]
    inside = np.diag((1 - (values[q] / values[:q]) ** exponent) / values[:q])
    return root @ top @ inside @ top.T @ root, values


def least_squares(K, Y, weights=None):
    """The coefficients that minimise ``Σ w (Kα − Y)²``, the shortest of them."""
    root = np.ones(len(K)) if weights is None else np.sqrt(weights)
    return np.linalg.lstsq(root[:, None] * K, root[:, None] * Y, rcond=1e-12)[0]
