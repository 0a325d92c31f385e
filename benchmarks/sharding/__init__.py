"""What ranks exchange in a training step of a transformer block, beside XLA's partitioner."""
