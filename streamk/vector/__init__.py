"""Operations written for vectors, each a named function; all else is plain compiled loops."""
