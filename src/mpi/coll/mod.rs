//! Collective operations (MPI-4.1 §6): schedules, and the one machine that runs them.
