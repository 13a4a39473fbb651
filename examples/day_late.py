"""Write two weeks of a shop's orders, and whether each was fraud, which is known a day later.

python examples/day_late.py shop && streamk run shop/streamk.toml
"""

import json
import math
import random
import sys
from pathlib import Path

DAY = 86_400  # seconds
SETTINGS = """\
[source]
kind = "file"
path = "DIRECTORY/events.jsonl"

[events]
target = "fraud"
key = "order"
time = "at"

[labels]
kind = "file"
path = "DIRECTORY/labels.jsonl"
time = "at"

[predictions]
kind = "file"
path = "DIRECTORY/predictions.jsonl"

[checkpoints]
directory = "DIRECTORY/checkpoints"
"""


def orders(count: int, rng: random.Random):
    """Yield orders and whether each is fraud: large ones from two countries, other ones from day 7 on."""
    for k in range(count):
        at = 14 * DAY * k / count
        amount = math.exp(rng.gauss(3.5, 1.0))
        country = rng.choice(["DE", "FR", "NZ", "PE", "US"])
        order = {
            "order": f"o{k}",
            "at": round(at, 1),
            "amount": round(amount, 2),
            "country": country,
            "items": 1 + int(rng.expovariate(0.6)),
            "known": rng.random() < 0.7,
        }
        risky = country in (("NZ", "PE") if at < 7 * DAY else ("DE", "US"))
        odds = -4.0 + 5.0 * risky * (amount > 40.0) + 2.0 * (not order["known"]) * (order["items"] > 2)
        yield order, rng.random() < 1.0 / (1.0 + math.exp(-odds))


def main() -> None:
    """Write events, labels and settings to a directory."""
    directory = Path(sys.argv[1] if len(sys.argv) > 1 else "shop")
    directory.mkdir(exist_ok=True)
    rng = random.Random(1)
    events, labels = [], []
    for order, fraud in orders(14_000, rng):
        events.append(order)
        if rng.random() < 0.97:  # the others are never settled
            known_at = round(order["at"] + DAY * rng.uniform(0.9, 1.1), 1)
            labels.append({"order": order["order"], "at": known_at, "fraud": fraud})
    labels.sort(key=lambda label: label["at"])
    for name, rows in (("events.jsonl", events), ("labels.jsonl", labels)):
        with (directory / name).open("w", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
    (directory / "streamk.toml").write_text(SETTINGS.replace("DIRECTORY", str(directory)), encoding="utf-8")
    print(f"wrote {len(events):,} orders and {len(labels):,} labels, a day later, to {directory}/")


if __name__ == "__main__":
    main()
