"""Learners in MLflow: a tracking store in a temporary directory, and both flavors of its models."""

import doctest
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import streamk
import streamk.mlflow
from streamk.sklearn import KernelClassifier

pytestmark = pytest.mark.filterwarnings("ignore:::mlflow.*", "ignore:.*type hint")
RNG = np.random.default_rng(3)
FRAME = pd.DataFrame({"a": RNG.normal(size=400), "shop": RNG.choice(["north", "south"], 400)})
LABELS = ["yes" if a > 0 else "no" for a in FRAME["a"]]


@pytest.fixture
def mlflow(tmp_path, monkeypatch):
    """MLflow, with its store in a temporary directory."""
    pytest.importorskip("alembic", reason="make mlflow runs these tests")
    module = pytest.importorskip("mlflow")
    monkeypatch.chdir(tmp_path)
    before = module.get_tracking_uri()
    module.set_tracking_uri(f"sqlite:///{tmp_path}/store.db")
    yield module
    module.set_tracking_uri(before)


def trained(cls=streamk.KernelClassifier, targets=LABELS):
    learner = cls(seed=5)
    learner.learn_many(FRAME, targets)
    return learner


def test_importing_streamk_does_not_import_mlflow():
    code = "import sys, streamk, streamk.mlflow; print('mlflow' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_missing_mlflow_is_a_sentence(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "mlflow", None)
    for name in [name for name in sys.modules if name.startswith("mlflow.")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(ImportError, match=r"needs MLflow and pandas .*pip install 'streamk\[mlflow\]'"):
        streamk.mlflow.save_model(trained(), tmp_path / "model")


@pytest.mark.parametrize("model", [object(), "model.streamk", None])
def test_only_learners_are_logged(model, tmp_path):
    with pytest.raises(TypeError, match="is not a learner of streamk; pass one"):
        streamk.mlflow.save_model(model, tmp_path / "model")
    with pytest.raises(TypeError, match="is not a learner of streamk; pass one"):
        streamk.mlflow.log_model(model)


def test_a_logged_learner_is_loaded_byte_for_byte(mlflow):
    learner = trained()
    with mlflow.start_run() as run:
        info = streamk.mlflow.log_model(learner, "sizes", registered_model_name="sizes")
    for uri in (info.model_uri, "models:/sizes/1", f"runs:/{run.info.run_id}/sizes"):
        assert streamk.mlflow.load_model(uri).to_bytes() == learner.to_bytes()


def test_pyfunc_predicts_as_the_learner(mlflow):
    learner = trained()
    info = streamk.mlflow.log_model(learner, "sizes")
    model = mlflow.pyfunc.load_model(info.model_uri)
    assert model.predict(FRAME).tolist() == streamk.loads(learner.to_bytes()).predict_many(FRAME).tolist()
    probabilities = model.predict(FRAME, params={"probabilities": True})
    expected = streamk.loads(learner.to_bytes())
    expected.predict_many(FRAME)
    pd.testing.assert_frame_equal(probabilities, expected.predict_proba_many(FRAME))


@pytest.mark.parametrize("cls", [streamk.KernelRegressor, streamk.KaczmarzRegressor, streamk.LSSVMRegressor])
def test_regressors_are_saved_with_their_columns(mlflow, tmp_path, cls):
    learner = trained(cls, (FRAME["a"] ** 2).tolist())
    signature = mlflow.models.infer_signature(FRAME, [0.5])
    streamk.mlflow.save_model(learner, tmp_path / "model", signature=signature, input_example=FRAME.head(2))
    model = mlflow.pyfunc.load_model(str(tmp_path / "model"))
    assert model.predict(FRAME).tolist() == learner.predict_many(FRAME).tolist()
    with pytest.raises(mlflow.MlflowException, match=r"missing inputs \['shop'\]"):
        model.predict(FRAME[["a"]])
    with pytest.raises(ValueError, match="a regressor has no probabilities"):
        model.predict(FRAME, params={"probabilities": True})


def test_the_artifact_is_a_model_file_without_pickles(mlflow, tmp_path):
    learner = trained()
    streamk.mlflow.save_model(learner, tmp_path / "model")
    files = {path.name for path in (tmp_path / "model").rglob("*") if path.is_file()}
    assert "model.streamk" in files
    assert not [name for name in files if name.endswith((".pkl", ".joblib"))]
    assert (tmp_path / "model/data/model.streamk").read_bytes() == learner.to_bytes()
    requirements = (tmp_path / "model/requirements.txt").read_text()
    assert f"streamk[mlflow]=={streamk.__version__}" in requirements


def test_models_of_other_flavors_are_named(mlflow, tmp_path):
    mlflow.pyfunc.save_model(str(tmp_path / "model"), loader_module="json", data_path=__file__)
    with pytest.raises(ValueError, match="has the flavors python_function and not streamk"):
        streamk.mlflow.load_model(tmp_path / "model")


def test_the_example_of_log_model_runs(mlflow):
    (test,) = doctest.DocTestFinder().find(streamk.mlflow.log_model, globs={})
    for example in test.examples:
        example.options.pop(doctest.SKIP, None)
    assert doctest.DocTestRunner().run(test).failed == 0


def test_estimators_of_scikit_learn_are_logged_by_their_learner(mlflow, tmp_path):
    estimator = KernelClassifier(features=768, random_state=0).fit(FRAME, LABELS)
    streamk.mlflow.save_model(estimator.learner_, tmp_path / "model")
    frozen = streamk.mlflow.load_model(tmp_path / "model").frozen()
    assert estimator.classes_[frozen.predict_many(FRAME)].tolist() == estimator.predict(FRAME).tolist()
