"""Names, lines of users, remedies and subscripts: the parts of the language without
staged values.
"""
