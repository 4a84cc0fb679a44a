//! Reduction operations (MPI-4.1 §6.9).
