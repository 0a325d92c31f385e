"""Public functions of whole arrays: shapes, indices, joins, orders and products."""
