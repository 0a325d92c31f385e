"""The operations of VHLO under the names that they have in StableHLO, with their attributes.

VHLO is StableHLO with a version in each name. An artifact lists the attributes of an operation
without their names, in the order of the alphabet, so that the names have to be known here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .cursor import damaged

CONVOLUTION = (
    "batch_group_count", "feature_group_count",
    "input_batch_dimension", "input_feature_dimension", "input_spatial_dimensions",
    "kernel_input_feature_dimension", "kernel_output_feature_dimension",
    "kernel_spatial_dimensions", "lhs_dilation",
    "output_batch_dimension", "output_feature_dimension", "output_spatial_dimensions",
    "padding", "precision_config", "rhs_dilation", "window_reversal", "window_strides",
)  # fmt: skip
ATTRIBUTES: dict[str, tuple[str, ...]] = {
    "broadcast_in_dim_v1": ("broadcast_dimensions",),
    "call_v1": ("callee",),
    "cholesky_v1": ("lower",),
    "compare_v1": ("compare_type", "comparison_direction"),
    "composite_v1": ("composite_attributes", "decomposition", "name", "version"),
    "composite_v2": ("composite_attributes", "decomposition", "name", "version"),
    "concatenate_v1": ("dimension",),
    "constant_v1": ("value",),
    "convolution_v1": CONVOLUTION,
    "custom_call_v1": (
        "api_version", "backend_config", "call_target_name", "called_computations",
        "has_side_effect", "operand_layouts", "output_operand_aliases", "result_layouts",
    ),
    "dot_v1": ("precision_config",),
    "dot_general_v1": (
        "lhs_batching_dimensions", "lhs_contracting_dimensions", "precision_config",
        "rhs_batching_dimensions", "rhs_contracting_dimensions",
    ),
    "dot_general_v2": (
        "accumulation_type", "allow_imprecise_accumulation", "lhs_batching_dimensions",
        "lhs_component_count", "lhs_contracting_dimensions", "lhs_precision_type",
        "num_primitive_operations", "precision_config", "rhs_batching_dimensions",
        "rhs_component_count", "rhs_contracting_dimensions", "rhs_precision_type",
    ),
    "dynamic_slice_v1": ("slice_sizes",),
    "func_v1": ("arg_attrs", "function_type", "res_attrs", "sym_name", "sym_visibility"),
    "gather_v1": (
        "collapsed_slice_dims", "index_vector_dim", "indices_are_sorted", "offset_dims",
        "slice_sizes", "start_index_map",
    ),
    "gather_v2": (
        "collapsed_slice_dims", "index_vector_dim", "indices_are_sorted", "offset_dims",
        "operand_batching_dims", "slice_sizes", "start_index_map", "start_indices_batching_dims",
    ),
    "iota_v1": ("iota_dimension",),
    "pad_v1": ("edge_padding_high", "edge_padding_low", "interior_padding"),
    "reduce_v1": ("dimensions",),
    "reduce_precision_v1": ("exponent_bits", "mantissa_bits"),
    "reduce_window_v1": (
        "base_dilations", "padding", "window_dilations", "window_dimensions", "window_strides",
    ),
    "reverse_v1": ("dimensions",),
    "rng_bit_generator_v1": ("rng_algorithm",),
    "scatter_v1": (
        "index_vector_dim", "indices_are_sorted", "inserted_window_dims",
        "scatter_dims_to_operand_dims", "unique_indices", "update_window_dims",
    ),
    "scatter_v2": (
        "index_vector_dim", "indices_are_sorted", "input_batching_dims", "inserted_window_dims",
        "scatter_dims_to_operand_dims", "scatter_indices_batching_dims", "unique_indices",
        "update_window_dims",
    ),
    "select_and_scatter_v1": ("padding", "window_dimensions", "window_strides"),
    "slice_v1": ("limit_indices", "start_indices", "strides"),
    "sort_v1": ("dimension", "is_stable"),
    "transpose_v1": ("permutation",),
    "triangular_solve_v1": ("left_side", "lower", "transpose_a", "unit_diagonal"),
}  # fmt: skip
"""The attributes of each operation in the order of the alphabet; others have none that is read."""
RECORDS = {
    "convolution": "dimension_numbers",
    "dot_general": "dot_dimension_numbers",
    "gather": "dimension_numbers",
    "scatter": "scatter_dimension_numbers",
}
"""The record in which StableHLO keeps the axes of an operation."""
NOT_AXES = ("padding", "precision_config", "slice_sizes", "value")
FUNCTIONS = ("call", "func", "return")


def word_of(name: str) -> str:
    """The operation in StableHLO: ``vhlo.add_v1`` is ``stablehlo.add``."""
    dialect, _, rest = name.partition(".")
    if dialect != "vhlo":
        return name
    word = rest.rpartition("_v")[0]
    return f"func.{word}" if word in FUNCTIONS else f"stablehlo.{word}"


def listed(name: str, indices: Sequence[int]) -> dict[str, int]:
    """The attributes of an operation by name, from their list."""
    names = ATTRIBUTES.get(name.removeprefix("vhlo."), ())
    if names and len(names) != len(indices):
        raise damaged(f"{name} with {len(indices)} attributes, expected {len(names)}")
    return dict(zip(names, indices, strict=False))


def as_stablehlo(name: str, attributes: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes as StableHLO has them: lists of numbers, and the axes in a record."""
    found = {k: v if k in ("padding", "value") else _plain(v) for k, v in attributes.items()}
    record = RECORDS.get(word_of(name).removeprefix("stablehlo."))
    if record is None:
        return found
    return {**found, record: {k: v for k, v in found.items() if k not in NOT_AXES}}


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else value
