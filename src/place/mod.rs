//! Which rank runs where: machines, communication matrices, and mappings of one onto the other
//! (Mercier 2009). For mpirun and the tools; the library itself uses none of it.
//!
//! | file | owns |
//! |---|---|
//! | `machine` | a machine as nested objects; from /sys, or as `xml` reads it from hwloc |
//! | `hwloc`, `scotch` | the two foreign libraries, loaded when they are there |
//! | `weights` | levels, distances and the weight matrix of a machine |
//! | `matrix`, `patterns` | who sends how much to whom: of a traced run, or of a NAS benchmark |
//! | `solve`, `policy` | a mapping of low cost, and the policies to compare it with |
//! | `mapping`, `map` | binding as mpirun's options ask for it; the file that carries a mapping |
//! | `draw` | a machine with ranks on it, as text and SVG |

pub mod draw;
pub mod hwloc;
pub mod machine;
pub mod map;
pub mod mapping;
pub mod matrix;
pub mod patterns;
pub mod policy;
pub mod scotch;
pub mod solve;
pub mod weights;
pub mod xml;
