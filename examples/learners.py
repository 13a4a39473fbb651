"""Each learner on a stream, test then train.

python examples/learners.py
"""

from river import datasets, evaluate, metrics

import streamk

CLASSIFIERS = {
    "a mixture, nothing to tune": streamk.KernelClassifier(seed=7),
    "Kaczmarz projections": streamk.KaczmarzClassifier(average=True, regularization=0.1, seed=7),
    "matching pursuit": streamk.MatchingPursuitClassifier(features=128, seed=7),
    "Kaczmarz pursuit": streamk.KaczmarzPursuitClassifier(features=128, seed=7),
    "subspace pursuit": streamk.SubspacePursuitClassifier(features=1024, seed=7),
    "doubly stochastic gradients": streamk.DoublyStochasticClassifier(batch_size=128, seed=7),
    "features that grow like √n": streamk.KaczmarzClassifier(growth="sqrt", features=64, period=100, seed=7),
}
REGRESSORS = {
    "a mixture, nothing to tune": streamk.KernelRegressor(seed=7),
    "Kaczmarz projections": streamk.KaczmarzRegressor(seed=7),
    "matching pursuit": streamk.MatchingPursuitRegressor(features=128, seed=7),
    "Kaczmarz pursuit": streamk.KaczmarzPursuitRegressor(features=128, period=500, seed=7),
    "subspace pursuit": streamk.SubspacePursuitRegressor(features=1024, seed=7),
    "doubly stochastic gradients": streamk.DoublyStochasticRegressor(seed=7),
}


def main() -> None:
    """Evaluate every learner on one of two streams and print its metric and size."""
    for name, classifier in CLASSIFIERS.items():
        accuracy = evaluate.progressive_val_score(datasets.Bananas(), classifier, metrics.Accuracy())
        print(f"Bananas   {name:30} {accuracy.get():.1%}  {len(classifier.to_bytes()):,} bytes")
    for name, regressor in REGRESSORS.items():
        stream = datasets.synth.Friedman(seed=1).take(5000)
        score = evaluate.progressive_val_score(stream, regressor, metrics.R2())
        print(f"Friedman  {name:30} R² {score.get():.2f}  {len(regressor.to_bytes()):,} bytes")

    halves = [streamk.KaczmarzClassifier(bandwidth=1.0, seed=7) for _ in range(2)]
    for i, (x, y) in enumerate(datasets.Bananas()):
        halves[i % 2].learn_one(x, y)
    whole = streamk.merge(halves)
    right = sum(whole.predict_one(x) == y for x, y in datasets.Bananas())
    print(f"Bananas   two halves, merged             {right / whole.events:.1%} of the events learned")


if __name__ == "__main__":
    main()
