from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dwise_predict.engines.torch_engine.forward import group_by_context


@given(st.lists(st.integers(1, 3000), min_size=1, max_size=40).map(sorted))
def test_groups_cover_all_rows_and_bound_the_padding(lengths: list[int]) -> None:
    groups = group_by_context(lengths)
    assert [i for group in groups for i in range(group.start, group.stop)] == [*range(len(lengths))]
    for group in groups:
        shortest, longest = lengths[group.start], lengths[group.stop - 1]
        assert longest <= shortest + max(2, shortest / 4)


def test_one_long_row_does_not_join_short_ones() -> None:
    assert group_by_context([3, 3, 4, 60]) == [slice(0, 3), slice(3, 4)]
