//! Shared-memory structures that know no MPI.
