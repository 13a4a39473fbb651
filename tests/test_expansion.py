import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from streamk.expansion import Expansion, accumulate, evaluate

from streamk.encoding.keys import number_key
from streamk.features.activation import AMPLITUDE, activate
from streamk.features.keyed import fill_angles
from streamk.kernels import kernel

KEYS = np.array([number_key(f"x{j}") for j in range(11)], dtype=np.uint64)


def expansion(features=300, outputs=2):
    return Expansion(kernel("gaussian"), 2.0, (2.0, 1.0), features, seed=9, outputs=outputs)


def compiled(e, X):
    frequencies = e.frequencies(KEYS[: X.shape[1]], slice(None), slice(0, e.width))
    where = np.tile(np.arange(X.shape[1], dtype=np.int32), (len(X), 1))
    phi = np.empty((len(X), e.width), dtype=np.float32)
    counts = np.full(len(X), X.shape[1])
    fill_angles(X.astype(np.float32), where, counts, frequencies, e.waves, phi)
    activate(e.kind, AMPLITUDE, phi, len(X), e.features)
    return phi


@given(st.integers(1, 700), st.integers(0, 11), st.integers(1, 5))
def test_features_are_the_formula(features, width, rows):
    e = expansion(features)
    X = np.random.default_rng(features).normal(size=(rows, width)).astype(np.float32)
    W = e.frequencies(KEYS[:width], slice(None), slice(0, e.width)).astype(np.float64)
    exact = np.sqrt(2) * np.cos(2 * np.pi * (X.astype(np.float64) @ W + e.phases))
    exact[:, features:] = 0.0
    np.testing.assert_allclose(compiled(e, X), exact, atol=2e-5)


def test_rows_do_not_depend_on_their_neighbours():
    e, X = expansion(1000), np.random.default_rng(1).normal(size=(7, 11)).astype(np.float32)
    together = compiled(e, X)
    alone = np.concatenate([compiled(e, X[i : i + 1]) for i in range(7)])
    assert together.tobytes() == alone.tobytes()


def test_evaluate_and_accumulate():
    e = expansion(64)
    rng = np.random.default_rng(2)
    flat = rng.normal(size=(4, 64)).astype(np.float32)
    phi = rng.normal(size=(3, 64)).astype(np.float32)
    out = np.empty(2, dtype=np.float32)
    evaluate(flat, 1, phi, 2, out)
    np.testing.assert_allclose(out, flat[1:3] @ phi[2], rtol=1e-5)
    before = flat.copy()
    accumulate(flat, 3, np.float32(0.5), phi, 1)
    np.testing.assert_allclose(flat[3], before[3] + 0.5 * phi[1], rtol=1e-6)
    assert (flat[:3] == before[:3]).all()
    assert e.width == 64


def test_growing_changes_nothing_learned():
    e = expansion(outputs=2)
    e.coefficients[:] = np.random.default_rng(0).normal(size=e.coefficients.shape)
    before = e.coefficients.copy()
    e.add_outputs(5)
    assert e.coefficients.shape[2] == e.outputs == 5
    assert (e.coefficients[:, :, :2] == before).all()
    assert not e.coefficients[:, :, 2:].any()


def test_only_seed_and_coefficients_are_state():
    e = expansion()
    e.hold_frequencies(KEYS)
    state = e.__getstate__()
    assert sum(v.nbytes for v in state.values() if isinstance(v, np.ndarray)) == e.coefficients.nbytes
    again = Expansion.__new__(Expansion)
    again.__setstate__(state)
    assert again.waves.tobytes() == e.waves.tobytes()
    assert again.block_keys.tobytes() == e.block_keys.tobytes()
