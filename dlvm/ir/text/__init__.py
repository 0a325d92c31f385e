"""The text of the language: printed, read line by line, parsed."""
