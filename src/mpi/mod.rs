//! MPI semantics without statics: everything hangs off a [`world::World`].
pub mod attr;
pub mod buffer;
pub mod coll;
pub mod comm;
pub mod context;
pub mod datatype;
pub mod errhandler;
pub mod error;
pub mod group;
pub mod info;
pub mod op;
pub mod pt2pt;
pub mod request;
mod sleep;
pub mod status;
pub mod table;
pub mod topo;
pub mod world;
