"""One page about one program: what each line of it came from, became and costs."""
