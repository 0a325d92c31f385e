"""Arrays that the ranks of a mesh share, as arguments: functions of their mesh take them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dlvm.base.errors import ShapeError, TraceError, UserError
from dlvm.ir import TensorType, Value
from dlvm.ir.sharding.mesh import Mesh, Sharding, checked_axes
from dlvm.ir.sharding.sharded import Sharded
from dlvm.ir.text.printer import typed

from .provenance import definition, place
from .scopes import Trace, user_origin

DECORATE = "write @dlvm.function(mesh=mesh) above the function that is called"


def check_mesh(x: Sharded, label: str, mesh: Mesh | None) -> None:
    """An error for an array that is shared by ranks which do not run the function."""
    if mesh is None:
        raise UserError(
            f"{label}: expected an array, found one that the ranks of the mesh {x.mesh} share: the"
            " function has no mesh",
            origin=user_origin(),
            remedy=x.remedy.format(x=label),
        )
    if x.mesh != mesh:
        raise UserError(
            f"{label}: expected an array of the mesh {mesh}, which the function has, found one of"
            f" the mesh {x.mesh}",
            origin=user_origin(),
            remedy=f"pass {label}.whole(), or cut that for the other mesh by dlvm.shard",
        )


def check_axes(sharding: Sharding, label: str, mesh: Mesh | None) -> None:
    """An error for a spec whose axes the mesh of the function does not have."""
    if mesh is None:
        raise UserError(
            f"{label}: a spec names axes of a mesh, and the function has no mesh",
            origin=user_origin(),
            remedy=DECORATE,
        )
    try:
        checked_axes(mesh, sharding, label)
    except UserError as error:
        raise error.located(user_origin()) from None


def local(
    arrays: Sequence[Any], labels: Sequence[str], mesh: Mesh, wanted: Sequence[Sharding | None]
) -> list[Any]:
    """The arrays of a call of a function of a mesh: shared as it was compiled for, or whole."""
    found: list[Any] = []
    for x, label, sharding in zip(arrays, labels, wanted, strict=True):
        if isinstance(x, Sharded):
            check_mesh(x, label, mesh)
            x = x.local if x.is_whole else x
        if (x.sharding if isinstance(x, Sharded) else None) != sharding:
            raise _otherwise(x, label, sharding)
        found.append(x)
    return found


def _otherwise(x: Any, label: str, sharding: Sharding | None) -> ShapeError:
    """The error for an array that is cut otherwise than the program was compiled for."""
    given = x.sharding if isinstance(x, Sharded) else None
    return ShapeError(
        f"{label}: compiled for {_said(sharding)}, called with {_said(given)}",
        origin=user_origin(),
        remedy="call the staged function itself, which compiles for each way to cut its arguments",
    )


def _said(sharding: Sharding | None) -> str:
    if sharding is None:
        return "a whole array"
    return f"an array cut by ({', '.join('+'.join(axes) or 'None' for axes in sharding)})"


def shown_sharded(t: TensorType, sharding: Sharding | None) -> str:
    """A type with the axes of a mesh that share its axes."""
    value = Value()
    value.type, value.sharding = t, sharding
    return typed(value)


def check_one_mesh(label: str, fn: Callable[..., Any], mesh: Mesh | None, trace: Trace) -> None:
    """An error for a call, inside a trace, of a function of another mesh than the trace's."""
    if mesh is None or mesh == trace.mesh:
        return
    outer = "has none" if trace.mesh is None else f"is one of the mesh {trace.mesh}"
    sides = ((label, fn), (trace.label, trace.python))
    lines = ((name, definition(f)) for name, f in sides)
    raise TraceError(
        f"{label} is a function of the mesh {mesh}, and {trace.label}, which calls it, {outer}",
        origin=user_origin(),
        remedy="give both the same mesh: @dlvm.function(mesh=mesh)",
        notes=tuple(f"{name} is at {place(at)}" for name, at in lines if at is not None),
    )
