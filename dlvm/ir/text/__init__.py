"""The text form of the language: the printer, the reader of single lines, the parser."""
