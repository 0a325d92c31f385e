"""Kernels of PTX that are written by hand, for what no kernel of the compiler does."""


def kernel(body, lanes=32, shared=0, align=4):
    """The kernel ``k`` of two buffers, ``%rd1`` and ``%rd2``, and a status, ``%rd3``."""
    tile = f".shared .align 16 .b8 tile[{shared}];" if shared else ""
    loads = "".join(
        f"ld.param.b64 %rd{i + 1}, [k_param_{i}];\ncvta.to.global.u64 %rd{i + 1}, %rd{i + 1};\n"
        for i in range(3)
    )
    return f"""
.version 8.0
.target sm_80
.address_size 64
.visible .entry k(
  .param .u64 .ptr .align {align} k_param_0,
  .param .u64 .ptr .align 4 k_param_1,
  .param .u64 .ptr .align 1 k_param_2
)
.reqntid {lanes}
{{
.reg .pred %p<9>;
.reg .b32 %r<99>;
.reg .b64 %rd<99>;
{tile}
{loads}
{body}
ret;
}}
"""
