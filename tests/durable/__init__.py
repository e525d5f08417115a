"""Operations that outlive their process, and the stores that keep them."""

import pytest

pytest.register_assert_rewrite("durable.store_suite")
