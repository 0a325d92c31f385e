"""Operations that hold functions: calls, branches, loops; effects and tapes."""
