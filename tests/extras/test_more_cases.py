"""Cases too long for ``make test``: coalitions of more parties, all orders of sizes, and more runs behind a law."""

from pathlib import Path

import pytest

from tests.unit.protocols import test_refusals as refusals
from tests.unit.protocols.blocks import test_sums_that_open as sums
from tests.unit.protocols.blocks.test_sums_that_open import quick  # noqa: F401 - a fixture for every test here
from tests.unit.protocols.local_aggregation import test_local_aggregation as local

MORE = pytest.mark.parametrize("K", [7, 8])


@MORE
def test_only_the_sum_of_all_honest_parties_opens(K: int) -> None:
    sums.test_only_the_sum_of_all_honest_parties_opens(K)


@MORE
def test_under_double_masks_only_the_sum_of_all_honest_parties_of_the_set_opens(K: int) -> None:
    sums.test_under_double_masks_only_the_sum_of_all_honest_parties_of_the_set_opens(K)


@MORE
def test_without_names_in_the_derivation_sums_of_some_open(K: int, monkeypatch: pytest.MonkeyPatch) -> None:
    sums.test_without_names_in_the_derivation_sums_of_some_open(K, monkeypatch)


@MORE
@pytest.mark.parametrize("change", sums.VARIANTS)
def test_without_names_a_copied_one_time_key_opens_sums_of_some(
    change: object, K: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    sums.test_without_names_a_copied_one_time_key_opens_sums_of_some(K, change, monkeypatch)  # type: ignore[arg-type]


@pytest.mark.parametrize("noise", ["laplace", "l2"])
def test_the_opened_noise_has_the_law_of_the_smallest_party(noise: str, monkeypatch: pytest.MonkeyPatch) -> None:
    local.test_the_opened_noise_has_the_law_of_the_smallest_party(noise, 100, 123, monkeypatch)


def test_the_smallest_of_four_is_found_for_every_order_and_every_tie(monkeypatch: pytest.MonkeyPatch) -> None:
    local.test_the_smallest_party_is_found_for_every_order_and_every_tie(4, monkeypatch)


@pytest.mark.parametrize("limit", refusals.LIMITS)
@pytest.mark.parametrize("name", refusals.COUNTED)
def test_nothing_depends_on_any_record_where_the_number_of_records_is_false(
    name: str, limit: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusals.test_nor_with_a_false_number_of_records_and_one_huge_one_sided_party(
        name, limit, tuple(refusals.RECORDS), tmp_path, monkeypatch
    )
