"""Times as columns have them."""

from datetime import UTC, date, datetime

import pytest

from streamk.evaluation import DelayByTime
from streamk.evaluation.label_delay import moment


@pytest.mark.parametrize("day", [20240131, 20240131.0, "20240131", " 20240131 ", "20240131.0", "2024-01-31"])
def test_days_as_eight_digits(day):
    assert moment(day) == datetime(2024, 1, 31, tzinfo=UTC).timestamp()
    assert DelayByTime("at", 3600.0).seconds({"at": day}) == moment("2024-01-31")


def test_the_day_after_is_a_day_later():
    first, second, third = map(moment, [20240131, 20240201, 20240229])
    assert (second - first, third - second) == (86400.0, 28 * 86400.0)


@pytest.mark.parametrize(
    "seconds", [20240132, 20241301, 20230229, 18991231, 21000101, 2024013, 202401311, 20240131.5, -20240131]
)
def test_what_is_no_day_is_seconds(seconds):
    assert moment(seconds) == moment(str(seconds)) == float(seconds)


def test_all_days_of_both_centuries():
    for year in (1900, 1969, 1970, 2000, 2099):
        for number in range(date(year, 1, 1).toordinal(), date(year, 12, 31).toordinal() + 1):
            day = date.fromordinal(number)
            assert moment(int(day.strftime("%Y%m%d"))) == (number - date(1970, 1, 1).toordinal()) * 86400.0
