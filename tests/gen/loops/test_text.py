"""The text of loops: a fold by its tree, on a CPU and on a GPU, and a product."""

import re

from tests.gen.compiled import gpu, kernel, loops

SUM = "func @f(%x: f32[B,5]) -> f32[B] {\n %0 = sum %x axes=(1) : f32[B]\n return %0\n}"


def test_a_fold_on_a_cpu():
    """Four lanes, then the rest in the first ones, halves, and the total of chunks."""
    assert (
        str(loops(kernel(SUM, tree=(4096, 4))[0]))
        == """\
kernel @k(%b0: in f32[B,5], %b1: out f32[B]) symbols (B) {
  %0 = constant 0.0 : f32
  parallel %i1 < B grain 1600 {
    local %total2: f32[1]
    store %total2[0] = %0
    local %acc3: f32[4]
    vector %lane4 < 4 limit 4 {
      store %acc3[%lane4] = %0
    }
    vector %lane5 < 4 limit 4 {
      %1 = load %b0[5*%i1+%lane5] : f32
      %2 = load %acc3[%lane5] : f32
      %3 = add %2, %1 : f32
      store %acc3[%lane5] = %3
    }
    %4 = load %b0[5*%i1+4] : f32
    %5 = load %acc3[0] : f32
    %6 = add %5, %4 : f32
    store %acc3[0] = %6
    vector %lane6 < 2 limit 4 {
      %7 = load %acc3[%lane6] : f32
      %8 = load %acc3[%lane6+2] : f32
      %9 = add %7, %8 : f32
      store %acc3[%lane6] = %9
    }
    %10 = load %acc3[0] : f32
    %11 = load %acc3[1] : f32
    %12 = add %10, %11 : f32
    store %acc3[0] = %12
    %13 = load %acc3[0] : f32
    %14 = load %total2[0] : f32
    %15 = add %14, %13 : f32
    store %total2[0] = %15
    %16 = load %total2[0] : f32
    store %b1[%i1] = %16
  }
}"""
    )


def test_a_fold_on_a_gpu():
    """The lanes of a block share the accumulators and meet before they read one another's."""
    text = str(loops(kernel(SUM.replace("5", "20"), tree=(4096, 4))[0], gpu(4)))
    assert (
        """\
  block %i1 < B {
    shared %acc3: f32[4]
    lane %i1.lane < 4 {
"""
        in text
    )
    folded = text[text.index("barrier") :]
    assert re.match(
        r"""barrier
      %\d+ = load %acc3\[%i1.lane\] where \(-%i1.lane\+1\) : f32
      %\d+ = load %acc3\[%i1.lane\+2\] where \(-%i1.lane\+1\) : f32
      %\d+ = add %\d+, %\d+ : f32
      store %acc3\[%i1.lane\] = %\d+ where \(-%i1.lane\+1\)
      barrier
""",
        folded,
    )


def test_a_short_fold_on_a_gpu():
    """A lane folds a row of its own, and waits for nobody."""
    text = str(loops(kernel(SUM, tree=(4096, 4))[0], gpu(4)))
    assert "lane %i1.i < min(-4*%i1.o+B,4) limit 4 {" in text
    assert "barrier" not in text and "shared" not in text


def test_a_product_with_its_tile():
    op, _ = kernel(
        """func @f(%x: f32[M,K], %y: f32[N,K], %b: f32[N]) -> (f32[M,N]) {
      %t = permute %y perm=(1,0) : f32[K,N]
      %p = matmul %x, %t : f32[M,N]
      %c = broadcast %b shape=(M,N) axes=(1) : f32[M,N]
      %q = add %p, %c : f32[M,N]
      return %q
    }""",
        "product",
    )
    lines = str(loops(op)).splitlines()
    sides = "product %b0[0] step K by %b1[0] step K transposed m=M n=N k=K chunk=256"
    assert lines[1].strip().startswith(f"{sides} %tile1: f32[96,256] at (%row2, %col3)")
    assert [line.strip() for line in lines[2:8]] == [
        "serial %r10 < %rows4 {",
        "vector %c11 < %cols5 {",
        "%0 = load %tile1[%c11+256*%r10] : f32",
        "%1 = load %b2[%c11+%col3] : f32",
        "%2 = add %0, %1 : f32",
        "store %b3[%r10*N+%row2*N+%c11+%col3] = %2",
    ]
