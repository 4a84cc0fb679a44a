//! How a rank finds its job, and how a launcher makes one.
