"""OpenCL C 1.2: a table.

Sums, products and ``fma`` are rounded correctly, and quotients and roots of f32 are in a program
that is built with ``-cl-fp32-correctly-rounded-divide-sqrt``. Contraction is off. Half precision is
bits, which only conversions look into, so it needs no extension. NaN is found by comparisons, as
PoCL 3.1 gives wrong answers for ``isnan`` in loops with barriers.
"""

from __future__ import annotations

from .dialect import Dialect

CLAIM = "atomic_cmpxchg((volatile __global uint *)status, 0u, (uint){0}) == 0u"
"""The low word of the status, as 64-bit atomics are an extension; codes are small."""
SIGNED = "as_{S}({0}) %s as_{S}({1})"
FENCES = "barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)"
HEAD = """#pragma OPENCL FP_CONTRACT OFF
float dlvm_float_of_half(ushort x) {
  ushort bits[1] = {x};
  return vload_half(0, (const __private half *)bits);
}
ushort dlvm_half_of_float(float x) {
  ushort bits[1];
  vstore_half_rte(x, 0, (__private half *)bits);
  return bits[0];
}"""

OPENCL = Dialect(
    name="opencl",
    language="OpenCL C",
    types={
        "i1": "bool",
        "i8": "uchar",
        "i16": "ushort",
        "i32": "uint",
        "i64": "ulong",
        "half": "ushort",
        "float": "float",
        "double": "double",
    },
    signed={"i8": "char", "i16": "short", "i32": "int", "i64": "long"},
    absent={},
    instead="f32",
    forms={
        "add": "{0} + {1}",
        "sub": "{0} - {1}",
        "mul": "{0} * {1}",
        "mul.i16": "(uint){0} * {1}",
        "shl": "{0} << {1}",
        "shl.i16": "(uint){0} << {1}",
        "lshr": "{0} >> {1}",
        "ashr": "({T})(as_{S}({0}) >> {1})",
        "and": "{0} & {1}",
        "or": "{0} | {1}",
        "xor": "{0} ^ {1}",
        "xor.i1": "{0} != {1}",
        "udiv": "{0} / {1}",
        "urem": "{0} % {1}",
        "sdiv": f"({{T}})({SIGNED % '/'})",
        "srem": f"({{T}})({SIGNED % '%'})",
        "fadd": "{0} + {1}",
        "fsub": "{0} - {1}",
        "fmul": "{0} * {1}",
        "fdiv": "{0} / {1}",
        "fneg": "-{0}",
        "icmp.eq": "{0} == {1}",
        "icmp.ne": "{0} != {1}",
        "icmp.ult": "{0} < {1}",
        "icmp.ule": "{0} <= {1}",
        "icmp.ugt": "{0} > {1}",
        "icmp.uge": "{0} >= {1}",
        "icmp.slt": SIGNED % "<",
        "icmp.sle": SIGNED % "<=",
        "icmp.sgt": SIGNED % ">",
        "icmp.sge": SIGNED % ">=",
        "fcmp.oeq": "{0} == {1}",
        "fcmp.olt": "{0} < {1}",
        "fcmp.ole": "{0} <= {1}",
        "fcmp.ogt": "{0} > {1}",
        "fcmp.oge": "{0} >= {1}",
        "fcmp.one": "{0} < {1} || {0} > {1}",
        "fcmp.ueq": "!({0} < {1} || {0} > {1})",
        "fcmp.une": "{0} != {1}",
        "fcmp.ult": "!({0} >= {1})",
        "fcmp.ule": "!({0} > {1})",
        "fcmp.ugt": "!({0} <= {1})",
        "fcmp.uge": "!({0} < {1})",
        "fcmp.uno": "{0} != {0} || {1} != {1}",
        "fcmp.ord": "{0} == {0} && {1} == {1}",
        "select": "{0} ? {1} : {2}",
        "bitcast": "as_{T}({0})",
        "zext": "({T}){0}",
        "trunc": "({T}){0}",
        "sext": "({T})as_{S}({0})",
        "fpext": "({T}){0}",
        "fpext.half": "dlvm_float_of_half({0})",
        "fptrunc": "({T}){0}",
        "fptrunc.float": "dlvm_half_of_float({0})",  # f32 has one narrower type
        "uitofp": "({T}){0}",
        "sitofp": "({T})as_{S}({0})",
        "@llvm.fma": "fma({0}, {1}, {2})",
        "@llvm.fabs": "fabs({0})",
        "@llvm.sqrt": "sqrt({0})",
        "@llvm.trunc": "trunc({0})",
        "@llvm.floor": "floor({0})",
        "@llvm.ceil": "ceil({0})",
        "@llvm.rint": "rint({0})",
        "@llvm.roundeven": "rint({0})",
        "@llvm.copysign": "copysign({0}, {1})",
        "@llvm.ldexp": "ldexp({0}, (int){1})",
        "@llvm.fptosi.sat": "{0} != {0} ? 0 : ({T})convert_{U}_sat({0})",
        "@llvm.fptoui.sat": "{0} != {0} ? 0 : convert_{T}_sat({0})",
        "@dlvm.claim": CLAIM,
        "@llvm.ctlz": "clz({0})",
        "@llvm.nvvm.read.ptx.sreg.ctaid.x": "get_group_id(0)",
        "@llvm.nvvm.read.ptx.sreg.nctaid.x": "get_num_groups(0)",
        "@llvm.nvvm.read.ptx.sreg.tid.x": "get_local_id(0)",
        "@llvm.nvvm.barrier.cta.sync.aligned.all": FENCES,
        "@llvm.nvvm.bar.warp.sync": FENCES,
    },
    constants={
        "i8": "(uchar){x}",
        "i16": "(ushort){x}",
        "i32": "{x}u",
        "i64": "{x}ul",
        "half": "(ushort){x}",
        "float": "{x}f",
        "double": "{x}",
    },
    infinite=("({T})INFINITY", "({T})NAN"),
    head=HEAD,
    let="const {T} {name} = {x};",
    variable="{T} {name} = {x};",
    array="{T} {name}[{count}];",
    shared="__local {T} {name}[{count}];",
    table="__constant {T} {name}[{count}] = {{{items}}};",
    record="typedef struct {{ {fields} }} {name};",
    part="{T} {name};",
    zeros="{{{zeros}}}",
    count="for ({T} {i} = {start}; {below}; {i} += {step}) {{",
    function="static {T} {name}({parameters}) {{",
    parameter="{T} {name}",
    kernel="__kernel __attribute__((reqd_work_group_size({lanes}, 1, 1)))\n"
    "void {name}({parameters}) {{",
    buffer="__global uchar *m_{name}, ulong at_{name}",
    size="ulong {name}",
    place="__global {T} *{name} = (__global {T} *)(m_{name} + at_{name});",
)
