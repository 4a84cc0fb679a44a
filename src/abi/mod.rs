//! The C edge: exported symbols, one file per chapter of the standard.
