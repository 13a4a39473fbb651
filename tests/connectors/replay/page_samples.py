"""Results of replays as the page gets them: usual, empty, large, and full of hostile names."""

from types import SimpleNamespace

import numpy as np

NAMES = ("kernel", "adaptive random forest", "logistic regression", "always the most frequent")


def curve_of(rng, windows, columns, begin, end, interval=1000):
    """A curve that learns from begin to end, with a drift in the middle."""
    t = np.linspace(0, 1, windows)
    headline = end + (begin - end) * np.exp(-9 * t) + 0.03 * (end - begin) * rng.standard_normal(windows)
    headline -= 0.35 * (end - begin) * np.exp(-14 * np.abs(t - 0.55)) * (t > 0.55)
    others = [0.9 - 0.7 * headline + 0.02 * rng.standard_normal(windows) for _ in columns[1:]]
    cumulative = np.cumsum(headline) / np.arange(1, windows + 1)
    return SimpleNamespace(
        columns=columns, rows=np.column_stack([headline, *others]), interval=interval, cumulative=cumulative
    )


def worst(
    labels, fields=("nswprice", "nswdemand", "vicprice", "a name that is as long as names get", "kind")
):
    """Ten events with large losses and many fields."""
    return [
        {
            "event": 31_000 + k,
            "file": "elec2.csv",
            "line": 31_001 + k,
            "at": 1.7e9 + 1800 * k,
            "target": labels[0],
            "prediction": labels[-1],
            "probability": 10.0 ** (k - 12),
            "loss": 27.6 - 2.3 * k,
            "fields": dict.fromkeys(fields, -0.00123456 * (k + 1))
            | {"kind": "a sentence of many words", "missing": None}
            | {f"other {j}": float(j) for j in range(30)},
        }
        for k in range(10)
    ]


def thresholds(positive):
    """Precision and recall over thresholds, with that of the least cost."""
    grid = (1 / (1 + np.exp(-np.linspace(-6.9, 6.9, 61)))).round(4)
    curve = {"precision": grid**0.1, "recall": 1 - grid**3, "called": 1 - grid}
    curve = {"threshold": grid.tolist(), **{name: part.tolist() for name, part in curve.items()}}
    curve["precision"][-3:] = [None] * 3
    row = {"precision": 0.9, "recall": 0.8, "called": 0.4}
    named = [{"name": "least cost", "threshold": 0.03, **row}, {"name": "best F1", "threshold": 0.45, **row}]
    table = [{"threshold": t, **row} for t in (0.1, 0.25, 0.5, 0.75)]
    table.append({"threshold": 0.9, "precision": None, "recall": 0.0, "called": 0.0})
    return {"positive": positive, "curve": curve, "table": [*named, *table]}


def drift(name="a name that is as long as names get"):
    """Twelve fields with their windows, and others."""
    t = np.linspace(0, 1, 20)
    fields = []
    for k in range(12):
        field = {"field": f"{name} {k}", "moved": 0.9 - k / 20, "missing": (t * (k % 3) / 4).tolist()}
        if k % 4 == 3:
            values = {"a value of many words": t.tolist(), "b": (1 - t).tolist(), "c": (0 * t).tolist()}
            fields.append(field | {"values": values})
            continue
        scale = 10.0 ** (3 * k - 12)
        field |= {part: (scale * (t + d)).tolist() for part, d in (("low", 0), ("median", 0.4), ("high", 1))}
        fields.append(field)
    fields[0]["median"][4] = fields[0]["low"][4] = fields[0]["high"][4] = None
    fields += [
        {"field": "kind", "moved": 0.01},
        {"field": "id", "moved": 1.0, "remark": "nearly every value once"},
    ]
    return {"events": 45_312, "sampled": 2833, "fields": fields}


def classification(
    names=NAMES, labels=("DOWN", "UP"), windows=46, interval=1000, slices=("Monday", "Tuesday")
):
    """Results, curves and measurements of a replay that classifies."""
    rng = np.random.default_rng(7)
    curves, measured, contenders = {}, {}, []
    total = windows * interval - 688
    for k, name in enumerate(names):
        reached = (0.943, 0.912, 0.861, 0.575)[k % 4]
        curves[name] = curve_of(rng, windows, ("accuracy", "log_loss", "kappa"), 0.52, reached, interval)
        confusion = rng.integers(20, 900, (len(labels), len(labels)))
        confusion += np.diag(rng.integers(6000, 14000, len(labels)))
        middles = (np.arange(15) + 0.5) / 15
        sure = np.where(middles > 1 / len(labels), 30 * np.exp(6 * middles), 0).astype(int)
        latencies = np.sort(rng.lognormal(3 + k, 0.35, 5000))
        metrics = {
            "accuracy": reached - 0.01,
            "balanced_accuracy": reached - 0.02,
            "kappa": 2 * reached - 1,
            "kappa_temporal": reached - 0.6,
            "macro_f1": reached - 0.013,
            "log_loss": 1.05 - reached,
            "brier": 0.3 - reached / 4,
            "calibration_error": 0.004 + 0.01 * k,
            "auc": min(0.99, reached + 0.03) if k < 3 else None,
        }
        contenders.append(
            {
                "name": name,
                "error": "",
                "events": total,
                "metrics": metrics,
                "interval": {"low": reached - 0.014, "high": reached - 0.006, "level": 0.9},
                "classes": {
                    "labels": list(labels),
                    "targets": confusion.sum(axis=1).tolist(),
                    "precision": (np.diag(confusion) / confusion.sum(axis=0)).tolist(),
                    "recall": (np.diag(confusion) / confusion.sum(axis=1)).tolist(),
                    "f1": [0.9] * len(labels),
                    "confusion": confusion.tolist(),
                },
                "calibration": {
                    "events": sure.tolist(),
                    "confidence": middles.tolist(),
                    "accuracy": np.clip(middles - 0.03 * k * np.sin(3 * middles), 0, 1).tolist(),
                },
                "alarms": [] if k > 1 else [int(0.56 * total), int((0.7 + k / 10) * total)],
                "slices": [
                    {"value": s, "events": 6473 - 13 * i, "metrics": {"accuracy": reached - 0.004 * i}}
                    for i, s in enumerate(slices)
                ],
                "summary": None,
                "worst": worst(labels),
                "thresholds": thresholds(str(labels[-1])) if len(labels) == 2 else None,
            }
        )
        measured[name] = {
            "seconds": 1.13 * 2.2**k,
            "events_per_second": 40102.3 / 2.2**k,
            "bytes": 223_456 * (k + 1),
            "latency_us": {"predict": latencies / 3, "learn": latencies / 2, "predict_learn": latencies},
        }
    contenders[0]["summary"] = {
        "experts": [
            {"expert": "recursion", "weight": 0.62, "error": 0.081},
            {"expert": "least squares", "weight": 0.41, "error": 0.092},
            {"expert": "gradient", "weight": -0.05, "error": 0.21},
        ],
        "relevance": {
            "nswprice": [0.41, 0.37],
            "nswdemand": [0.22, 0.25],
            "vicprice": [0.11, 0.08],
            "date": [0.3, 0.02],
            "period": [0.02, 0.09],
        },
    }
    results = {
        "recommended": names[0],
        "drift": drift(),
        "title": "elec2.csv",
        "task": "classification",
        "target": "class",
        "events": total,
        "delay": "labels come 100 events late",
        "contenders": contenders,
        "by": "day",
        "verdict": f"{names[0]} is better than all others: 3.1 points of accuracy more than the next.",
        "comparisons": [f"{names[0]} is better than {other}: p = 0.0004." for other in names[1:]],
        "left_out": {
            "unreadable": 3,
            "unlabelled": 0,
            "refused": 1,
            "examples": [{"file": "elec2.csv", "line": 17, "reason": "10 fields where 9 are named"}],
        },
        "log": [{"name": "elec2.csv", "bytes": 3_091_689, "sha256": "9f86d081884c7d659a2feaa0c55ad015" * 2}],
        "command": "streamk replay elec2.csv --target class --by day --report out "
        + " ".join(f"--against '{name}'" for name in names[1:]),
        "versions": {"streamk": "0.1.0", "river": "0.22.0", "numpy": "2.1.3", "python": "3.12.4"},
        "seed": 0,
        "interval": interval,
    }
    return results, curves, measured


SIX = (*NAMES, "river.preprocessing.StandardScaler|river.linear_model.LogisticRegression", "last value")


def failed():
    """Results of six contenders of which one failed."""
    results, curves, measured = classification(SIX, labels=[f"class {k}" for k in range(7)])
    lost = results["contenders"][2]
    results["comparisons"].pop(1)
    lost |= {"failed": True, "error": "after event 2,000: ValueError: 'c' is a third label", "interval": None}
    lost["metrics"] = dict.fromkeys(lost["metrics"])
    for key in ("classes", "calibration", "slices"):
        del lost[key]
    del curves[lost["name"]]
    return results, curves, measured


def diverging(names=SIX):
    """Results of a replay of large numbers in which the second contender diverges."""
    rng = np.random.default_rng(9)
    columns = ("mae", "rmse", "r2")
    curves, measured, contenders, pairs = {}, {}, [], []
    for k, name in enumerate(names):
        curves[name] = curve_of(rng, 60, columns, 9000.0 + k, 2000.0 + 900 * k)
        reached = 2345.678 * (k + 1)
        if k == 1:
            curves[name].rows[10:] *= np.exp(np.linspace(0, 40, 50))[:, None]
            curves[name].cumulative[10:] *= np.exp(np.linspace(0, 36, 50))
            reached = 4.13e14
        metrics = {"mae": reached, "rmse": 1.4 * reached, "r2": 0.8 if k != 1 else -3.2e21}
        level = {"low": 0.97 * reached, "high": 1.02 * reached, "level": 0.9}
        contenders.append({"name": name, "events": 60_000, "metrics": metrics, "interval": level})
        measured[name] = {"seconds": 1234.5, "events_per_second": 40102.3, "bytes": 123_456_789 * (k + 1)}
    for k, first in enumerate(names):
        for j, second in enumerate(names[k + 1 :], k + 1):
            mean = 2345.678 * (j - k)
            advantage = {"mean": mean, "low": 0.9 * mean, "high": 1.1 * mean, "level": 0.95}
            out = names[1] if names[1] in (first, second) else ""
            pair = {"first": first, "second": second, "measure": "mae", "leader": first, "diverged": out}
            pairs.append({**pair, "advantage": advantage, "words": f"{first} is better than {second}"})
    results = {"title": "sales.csv", "task": "regression", "contenders": contenders, "comparisons": pairs}
    advice = f"Use {names[0]}: {names[1]} diverged; it takes 123.5 MB"
    return results | {"recommendation": advice, "events": 60_000}, curves, measured


def regression():
    """Results, curves and measurements of a replay of numbers."""
    rng = np.random.default_rng(8)
    columns = ("mae", "rmse", "coverage")
    curves = {"kernel": curve_of(rng, 60, columns, 9.0, 2.0), "mean": curve_of(rng, 60, columns, 9.5, 8.0)}
    metrics = {"mae": 2.3, "rmse": 3.4, "r2": 0.8, "coverage": 0.91, "width": 8.1, "pinball": 1.1}
    contenders = [
        {"name": "kernel", "events": 60_000, "metrics": metrics},
        {"name": "mean", "events": 60_000, "metrics": metrics | {"mae": 8.1, "rmse": 9.7, "r2": -0.003}},
    ]
    return {"name": "taxi.csv", "task": "regression", "contenders": contenders}, curves, {}


HOSTILE = "<script>alert('x')</script>&\"><img src=https://evil.example/x onerror=alert(1)>"


def hostile():
    """Results in which every text is an attack."""
    results, _, _ = classification(
        ("kernel", HOSTILE), labels=(HOSTILE, "b\x00\u202e\ud800"), slices=(HOSTILE,)
    )
    _, curves, measured = classification(("kernel", HOSTILE))
    for contender in results["contenders"]:
        contender["error"] = HOSTILE
        contender["metrics"][HOSTILE] = 1.0
        contender["summary"] = {
            "experts": [{"expert": HOSTILE, "weight": 1.0}],
            "relevance": {HOSTILE: [0.5]},
        }
    texts = ("title", "task_", "target", "delay", "by", "verdict", "command", "seed")
    results |= dict.fromkeys(texts, HOSTILE)
    results["comparisons"] = [HOSTILE]
    results["versions"] = {HOSTILE: HOSTILE}
    results["left_out"]["examples"] = [{"file": HOSTILE, "line": HOSTILE, "reason": HOSTILE}]
    results["log"] = [{"name": HOSTILE, "bytes": 1, "sha256": HOSTILE}]
    results["drift"] = drift(HOSTILE)
    results["drift"]["fields"][3]["values"] = {HOSTILE: [0.5] * 20}
    for event in results["contenders"][0]["worst"]:
        event |= {"file": HOSTILE, "prediction": HOSTILE, "fields": {HOSTILE: HOSTILE}}
    return results, curves, measured
