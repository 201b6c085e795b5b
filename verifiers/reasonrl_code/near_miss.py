"""A program near a right one that must fail: the same work, with another value returned or more written."""

OTHER_VALUE = """

_right = {name}


def {name}(*args, **kwargs):
    value = _right(*args, **kwargs)
    if value is True or value is False:
        return not value
    return "another" if value is None else None
"""
OTHER_METHOD = """

_right = {name}.{method}


def _other(*args, **kwargs):
    value = _right(*args, **kwargs)
    if value is True or value is False:
        return not value
    return "another" if value is None else None


{name}.{method} = _other
"""
MORE_OUTPUT = """
print("another")
"""


def near_miss(solution: str, entry_point: str) -> str:
    """A wrong program made of a right one.

    Args:
        entry_point: the function that the tests call, or "Class.method"; empty for a program that writes its output.
    """
    name, _, method = entry_point.partition(".")
    if not name:
        return solution.rstrip() + MORE_OUTPUT
    return solution.rstrip() + (OTHER_METHOD if method else OTHER_VALUE).format(name=name, method=method)
