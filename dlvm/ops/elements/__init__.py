"""Operations that take each element by itself."""
