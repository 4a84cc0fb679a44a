//! The C edge: exported symbols, one file per chapter of the standard.
//!
//! Every function keeps the contract that the MPI standard gives it, safety included; its entry in
//! the standard is the documentation of its arguments.
#![allow(non_snake_case, non_camel_case_types, non_upper_case_globals)]
#![allow(clippy::missing_safety_doc, clippy::too_many_arguments)]
// The helpers of `edge` take C's pointers and say in its header whose promise they rely on.
#![allow(clippy::not_unsafe_ptr_arg_deref)]

pub mod chapters;
pub mod coll;
pub mod coll_args;
pub mod coll_short;
#[rustfmt::skip]
pub mod constants;
pub mod datatype;
pub mod datatype_contents;
pub mod datatype_make;
#[macro_use]
pub mod edge;
pub mod attr;
pub mod buffered;
pub mod comm;
pub mod completion;
pub mod crash;
pub mod dynamic;
pub mod errhandler;
pub mod errhandler_x;
pub mod exchange;
pub mod fault;
pub mod file;
pub mod file_access;
pub mod fortran;
pub mod generalized;
pub mod group;
pub mod handle;
#[cfg(test)]
mod header;
#[cfg(test)]
mod header_standard;
pub mod info;
pub mod init;
pub mod intel;
pub mod neighbor;
pub mod op;
pub mod packing;
pub mod partitioned;
pub mod probe;
pub mod progress;
pub mod pt2pt;
pub mod recv;
pub mod request;
pub mod rma;
pub mod send;
pub mod session;
mod source;
pub mod standard;
pub mod status;
#[cfg(test)]
#[allow(dead_code)]
mod tables;
pub mod timing;
pub mod tool_events;
pub mod tool_pvars;
pub mod tool_vars;
pub mod tools;
pub mod topo;
pub mod types;
pub mod unsupported;
pub mod win;
pub mod win_sync;
