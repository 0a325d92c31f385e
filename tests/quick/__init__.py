"""``make quick``: the tests that a change concerns, as many as there is time for."""
