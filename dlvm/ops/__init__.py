"""Every operation, by family: one class each, with all its facts in one place.

Every file of the four folders is imported, so a new operation may be a new file.
"""

import importlib
import pkgutil

from . import arrays, elements, factorisations, flow
from .arrays.contraction import Matmul, transposed
from .arrays.extremes import ArgMax, ArgMin, Max, Min
from .arrays.indexing import Gather, Scatter, ScatterAdd
from .arrays.movement import Diagonal, Permute, Reshape
from .arrays.ordering import SearchSorted, Sort
from .arrays.overwriting import (
    overwriter,
    reads_in_place,
    reads_own_window,
    updates_in_order,
    written_over,
)
from .arrays.patches import Patches, Unpatch
from .arrays.prod import CumulativeProd, Prod
from .arrays.reduction import Fold, LogSumExp, scalar_region
from .arrays.running import (
    CumulativeLogSumExp,
    CumulativeMax,
    CumulativeMin,
    CumulativeSum,
    LinearRecurrence,
)
from .arrays.scattering import Exchange, ScatterMax, ScatterMin, ScatterMul, ScatterSet
from .arrays.sections import Concat, Pad, Slice, Update
from .arrays.segments import SegmentedFold
from .arrays.sums import Broadcast, Sum, spread
from .elements.assumptions import Assume, Shard
from .elements.bits import IntegerPower, ShiftLeft, ShiftRight
from .elements.casting import Bitcast, Cast
from .elements.division import FloorDiv, Fmod, Remainder
from .elements.elementwise import (
    Add,
    Div,
    Maximum,
    Minimum,
    Modf,
    Mul,
    Named,
    Neg,
    Saved,
    StopGradient,
    Sub,
)
from .elements.hyperbolic import Acosh, Asinh, Atanh, Cosh, Sinh, Tanh
from .elements.logic import And, Equal, Less, LessEqual, Not, Or, Select, Xor
from .elements.magnitude import Abs, CopySign, IsFinite, IsInf, IsNan, NextAfter, Sign, SignBit
from .elements.rounding import Ceil, Floor, Round, Trunc
from .elements.special import Digamma, Erf, Erfc, Erfinv, LGamma, Polygamma
from .elements.transcendental import (
    Cbrt,
    Exp,
    Exp2,
    Expm1,
    Hypot,
    Log,
    Log1p,
    Log2,
    Log10,
    LogAddExp,
    LogAddExp2,
    Pow,
    Sigmoid,
    Sqrt,
)
from .elements.trigonometric import Acos, Asin, Atan, Atan2, Cos, Sin, Tan
from .factorisations.cholesky import Cholesky
from .factorisations.eigenpairs import Eigenpairs, Eigenvalues, Eigenvectors
from .factorisations.eigh import Eigh
from .factorisations.functions import Spectral, SpectralSlope
from .factorisations.lu import LU, Solve
from .factorisations.qr import QR
from .factorisations.schur import Schur
from .factorisations.stated import Determinant, LeastSquares, LogDeterminant, PseudoInverse, Stated
from .factorisations.svd import Svd, TallSvd
from .factorisations.triangular import TriangularSolve
from .families import (
    Contraction,
    Control,
    Creation,
    Effect,
    Elementwise,
    Factorisation,
    IndexMap,
    Movement,
    Ordering,
    Reduction,
    Running,
)
from .flow.control import Call, Checkpoint, Cond, Recompute, Scan, While
from .flow.custom import Custom, CustomJvp, CustomVjp
from .flow.effects import Assert, Outgoing, Print, Tap
from .flow.kernels import Kernel, family_of, kernel_of, windows
from .flow.structured import Structured
from .flow.tape import Pop, Push
from .literals import (
    Constant,
    DimSize,
    EmptyTape,
    Iota,
    is_splat,
    never_negative_zero,
    scalar_value,
)

for _room in (elements, arrays, factorisations, flow):
    for _found in pkgutil.iter_modules(_room.__path__):
        importlib.import_module(f"{_room.__name__}.{_found.name}")

__all__ = [
    "LU",
    "QR",
    "Abs",
    "Acos",
    "Acosh",
    "Add",
    "And",
    "ArgMax",
    "ArgMin",
    "Asin",
    "Asinh",
    "Assert",
    "Assume",
    "Atan",
    "Atan2",
    "Atanh",
    "Bitcast",
    "Broadcast",
    "Call",
    "Cast",
    "Cbrt",
    "Ceil",
    "Checkpoint",
    "Cholesky",
    "Concat",
    "Cond",
    "Constant",
    "Contraction",
    "Control",
    "CopySign",
    "Cos",
    "Cosh",
    "Creation",
    "CumulativeLogSumExp",
    "CumulativeMax",
    "CumulativeMin",
    "CumulativeProd",
    "CumulativeSum",
    "Custom",
    "CustomJvp",
    "CustomVjp",
    "Determinant",
    "Diagonal",
    "Digamma",
    "DimSize",
    "Div",
    "Effect",
    "Eigenpairs",
    "Eigenvalues",
    "Eigenvectors",
    "Eigh",
    "Elementwise",
    "EmptyTape",
    "Equal",
    "Erf",
    "Erfc",
    "Erfinv",
    "Exchange",
    "Exp",
    "Exp2",
    "Expm1",
    "Factorisation",
    "Floor",
    "FloorDiv",
    "Fmod",
    "Fold",
    "Gather",
    "Hypot",
    "IndexMap",
    "IntegerPower",
    "Iota",
    "IsFinite",
    "IsInf",
    "IsNan",
    "Kernel",
    "LGamma",
    "LeastSquares",
    "Less",
    "LessEqual",
    "LinearRecurrence",
    "Log",
    "Log1p",
    "Log2",
    "Log10",
    "LogAddExp",
    "LogAddExp2",
    "LogDeterminant",
    "LogSumExp",
    "Matmul",
    "Max",
    "Maximum",
    "Min",
    "Minimum",
    "Modf",
    "Movement",
    "Mul",
    "Named",
    "Neg",
    "NextAfter",
    "Not",
    "Or",
    "Ordering",
    "Outgoing",
    "Pad",
    "Patches",
    "Permute",
    "Polygamma",
    "Pop",
    "Pow",
    "Print",
    "Prod",
    "PseudoInverse",
    "Push",
    "Recompute",
    "Reduction",
    "Remainder",
    "Reshape",
    "Round",
    "Running",
    "Saved",
    "Scan",
    "Scatter",
    "ScatterAdd",
    "ScatterMax",
    "ScatterMin",
    "ScatterMul",
    "ScatterSet",
    "Schur",
    "SearchSorted",
    "SegmentedFold",
    "Select",
    "Shard",
    "ShiftLeft",
    "ShiftRight",
    "Sigmoid",
    "Sign",
    "SignBit",
    "Sin",
    "Sinh",
    "Slice",
    "Solve",
    "Sort",
    "Spectral",
    "SpectralSlope",
    "Sqrt",
    "Stated",
    "StopGradient",
    "Structured",
    "Sub",
    "Sum",
    "Svd",
    "TallSvd",
    "Tan",
    "Tanh",
    "Tap",
    "TriangularSolve",
    "Trunc",
    "Unpatch",
    "Update",
    "While",
    "Xor",
    "family_of",
    "is_splat",
    "kernel_of",
    "never_negative_zero",
    "overwriter",
    "reads_in_place",
    "reads_own_window",
    "scalar_region",
    "scalar_value",
    "spread",
    "transposed",
    "updates_in_order",
    "windows",
    "written_over",
]
