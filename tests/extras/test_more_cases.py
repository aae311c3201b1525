"""Cases too long for ``make test``: coalitions of eight parties, and more runs behind a law of noise."""

import pytest

from tests.unit.protocols.blocks import test_sums_that_open as sums
from tests.unit.protocols.blocks.test_sums_that_open import quick  # noqa: F401 - a fixture for every test here
from tests.unit.protocols.local_aggregation import test_local_aggregation as local

MOST = 8


def test_only_the_sum_of_all_honest_parties_opens() -> None:
    sums.test_only_the_sum_of_all_honest_parties_opens(MOST)


def test_under_double_masks_only_the_sum_of_all_honest_parties_of_the_set_opens() -> None:
    sums.test_under_double_masks_only_the_sum_of_all_honest_parties_of_the_set_opens(MOST)


def test_without_names_in_the_derivation_sums_of_some_open(monkeypatch: pytest.MonkeyPatch) -> None:
    sums.test_without_names_in_the_derivation_sums_of_some_open(MOST, monkeypatch)


@pytest.mark.parametrize("change", sums.VARIANTS)
def test_without_names_a_copied_one_time_key_opens_sums_of_some(
    change: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    sums.test_without_names_a_copied_one_time_key_opens_sums_of_some(MOST, change, monkeypatch)  # type: ignore[arg-type]


@pytest.mark.parametrize("noise", ["laplace", "l2"])
def test_the_opened_noise_has_the_law_of_the_smallest_party(noise: str, monkeypatch: pytest.MonkeyPatch) -> None:
    local.test_the_opened_noise_has_the_law_of_the_smallest_party(noise, 100, monkeypatch)
