"""Learners as models of MLflow (``pip install 'streamk[mlflow]'``).

The artifact is a model file of streamk (:mod:`streamk.model_file`), so loading a model runs no code that it
holds. Models have two flavors: ``streamk``, whose :func:`load_model` returns the learner, and
``python_function`` for ``mlflow.pyfunc.load_model``, batch jobs and ``mlflow models serve``.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType

import streamk
from streamk.arrays import Column, Frame
from streamk.learners.classifier import Classifier
from streamk.learners.learner import Learner
from streamk.learners.regressor import Regressor

__all__ = ["load_model", "log_model", "save_model"]

FLAVOR = "streamk"
_FILE = "model.streamk"
_PARAMETER = "probabilities"


def _part(name: str) -> ModuleType:
    """Return a module of MLflow, which is imported when it is needed."""
    try:
        return import_module(f"mlflow.{name}")
    except ImportError as error:
        message = f"streamk.mlflow needs MLflow and pandas ({error}); pip install 'streamk[mlflow]'"
        raise ImportError(message) from None


def _check(learner: object) -> None:
    if not isinstance(learner, Learner):
        raise TypeError(
            f"{type(learner).__name__} is not a learner of streamk; pass one, as KernelClassifier(), or the "
            "learner_ of an estimator of streamk.sklearn"
        )


def save_model(
    learner: Learner,
    path: str | Path,
    mlflow_model: object = None,
    signature: object = None,
    **options: object,
) -> None:
    """Save a learner as a model of MLflow.

    Parameters
    ----------
    learner
        A learner of streamk.
    path
        A directory that does not exist yet.
    mlflow_model
        The ``mlflow.models.Model`` to which the flavors are added; a new one by default.
    signature
        A ``mlflow.models.ModelSignature``, as ``infer_signature(frame)`` returns; MLflow then checks the
        columns and types of inputs. None by default.
    options
        Those of ``mlflow.pyfunc.save_model``, as ``input_example`` or ``metadata``.

    Raises
    ------
    TypeError
        If it is not a learner of streamk.
    ImportError
        If MLflow or pandas is not installed.
    """
    _check(learner)
    models, types = _part("models"), _part("types")
    model = models.Model() if mlflow_model is None else mlflow_model
    models.Model.add_flavor(model, FLAVOR, data=f"data/{_FILE}", streamk_version=streamk.__version__)
    columns = {} if signature is None else models.ModelSignature.to_dict(signature)
    parameters = types.ParamSchema([types.ParamSpec(_PARAMETER, "boolean", False)])
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory, _FILE)
        learner.save(file)
        _part("pyfunc").save_model(
            str(path),
            loader_module=__name__,
            data_path=str(file),
            mlflow_model=model,
            signature=models.ModelSignature.from_dict({**columns, "params": parameters.to_json()}),
            **{"pip_requirements": [f"streamk[mlflow]=={streamk.__version__}"], **options},
        )


def log_model(learner: Learner, name: str = "model", **options: object) -> object:
    """Log a learner as a model of the active run, or of a new one, and return MLflow's ``ModelInfo``.

    Parameters
    ----------
    learner
        A learner of streamk.
    name
        The model's name in MLflow.
    options
        Those of ``mlflow.models.Model.log``, as ``registered_model_name``, and of :func:`save_model`.

    Raises
    ------
    TypeError
        If it is not a learner of streamk.
    ImportError
        If MLflow or pandas is not installed.

    Examples
    --------
    >>> import mlflow, pandas as pd, streamk, streamk.mlflow  # doctest: +SKIP
    >>> learner = streamk.KernelClassifier(seed=7)  # doctest: +SKIP
    >>> frame = pd.DataFrame({"size": [1.0, 2.0, 3.0, 4.0] * 50})  # doctest: +SKIP
    >>> learner.learn_many(frame, ["small", "small", "large", "large"] * 50)  # doctest: +SKIP
    >>> info = streamk.mlflow.log_model(learner, "sizes")  # doctest: +SKIP
    >>> model = mlflow.pyfunc.load_model(info.model_uri)  # doctest: +SKIP
    >>> model.predict(frame.head(3)).tolist()  # doctest: +SKIP
    ['small', 'small', 'large']
    >>> list(model.predict(frame, params={"probabilities": True}).columns)  # doctest: +SKIP
    ['small', 'large']
    >>> streamk.mlflow.load_model(info.model_uri).to_bytes() == learner.to_bytes()  # doctest: +SKIP
    True
    """
    _check(learner)
    return _part("models").Model.log(
        None, name=name, flavor=sys.modules[__name__], learner=learner, **options
    )


def load_model(uri: str | Path) -> Learner:
    """Return the learner of a model of MLflow, which can learn on.

    Parameters
    ----------
    uri
        As MLflow takes it: ``models:/NAME/VERSION``, ``runs:/RUN/NAME`` or a directory.

    Raises
    ------
    ValueError
        If the model has no flavor ``streamk``, or its file is damaged.
    ImportError
        If MLflow or pandas is not installed.
    """
    directory = Path(_part("artifacts").download_artifacts(str(uri)))
    flavors = _part("models").Model.load(str(directory)).flavors
    if FLAVOR not in flavors:
        raise ValueError(
            f"{uri} has the flavors {', '.join(flavors)} and not {FLAVOR}; load it with one of these"
        )
    return streamk.load(directory / flavors[FLAVOR]["data"])


class PyfuncLearner:
    """A learner as ``mlflow.pyfunc`` calls it."""

    def __init__(self, learner: Learner) -> None:
        if not isinstance(learner, Classifier | Regressor):
            raise TypeError(f"{type(learner).__name__} does not predict rows")
        self.learner = learner

    def predict(self, rows: Frame[Column], params: Mapping[str, object] | None = None) -> object:
        """Return predictions, or the probabilities of all classes, in the type that goes with ``rows``."""
        if not (params or {}).get(_PARAMETER):
            return self.learner.predict_many(rows)
        if isinstance(self.learner, Regressor):
            raise ValueError(
                "a regressor has no probabilities; predict without params={'probabilities': True}"
            )
        return self.learner.predict_proba_many(rows)


def _load_pyfunc(path: str) -> PyfuncLearner:
    """Return what ``mlflow.pyfunc.load_model`` wraps; MLflow asks for a function of this name."""
    return PyfuncLearner(streamk.load(path))
