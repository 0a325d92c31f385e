"""Operations that move, order, fold or contract elements."""
