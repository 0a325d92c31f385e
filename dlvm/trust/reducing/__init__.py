"""Making a failing program small: what may be left out, put in place of another, made plainer."""
