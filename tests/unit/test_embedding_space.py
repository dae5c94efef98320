"""An embedding space and the text that names it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from projections.embedding import Space
from substrate.errors import InvalidInput


def test_a_space_is_written_as_its_model_and_dimensions() -> None:
    assert str(Space("all-minilm", 384)) == "all-minilm@384"


@given(st.builds(Space, st.text(min_size=1), st.integers(min_value=1)))
def test_a_space_is_read_back_from_its_text_whatever_the_model_is_called(space: Space) -> None:
    assert Space.parse(str(space)) == space


@pytest.mark.parametrize("text", ["", "minilm", "minilm@", "@384", "minilm@0", "minilm@-3", "minilm@many", "minilm@³"])
def test_a_text_that_names_no_space_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(InvalidInput, match="write it as model@dimensions"):
        Space.parse(text)
