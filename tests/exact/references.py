"""EigenPro written once more, with dense matrices in double precision and no shortcut; and tickets."""

import struct

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


def ticket(seed, number, fields):
    """The 64 bits by which an event of these ``{key: value}`` is kept in a reservoir."""
    mask = 2**64 - 1

    def mix(x):
        x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & mask
        x = (x ^ x >> 27) * 0x94D049BB133111EB & mask
        return x ^ x >> 31

    content = sum(mix(key ^ mix(struct.unpack("<Q", struct.pack("<d", v))[0])) for key, v in fields.items())
    started = mix((seed ^ 0x524553455256) + (number + 1) * 0x9E3779B97F4A7C15 & mask)
    return mix(started ^ content & mask)
