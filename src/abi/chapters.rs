//! Which chapter of MPI-4.1 a function of the ABI belongs to, by its name.

/// A chapter, and what the names of its functions look like: a word, or a word with `*` at one end or
/// both. The first chapter that fits has the function; `_c` at the end of a name does not count.
type Chapter = (&'static str, &'static [&'static str]);

/// The chapters.
pub const CHAPTERS: &[Chapter] = &[
    ("for MPICH's Fortran and C++ libraries", &["MPII_*", "MPIR_*"]),
    ("extensions of MPICH", &["MPIX_*"]),
    ("15 tools", &["MPI_T_*", "MPI_Pcontrol"]),
    (
        "19 language bindings",
        &[
            "*_c2f",
            "*_f2c",
            "*_c2f08",
            "*_f082c",
            "*_f2f08",
            "*_f082f",
            "*_toint",
            "*_fromint",
            "MPI_Type_create_f90_*",
            "MPI_Type_match_size",
            "MPI_Abi_*",
        ],
    ),
    (
        "16, 17 deprecated and removed",
        &[
            "MPI_Attr_*",
            "MPI_Keyval_*",
            "MPI_Errhandler_create",
            "MPI_Errhandler_get",
            "MPI_Errhandler_set",
            "MPI_Address",
            "MPI_Type_hindexed",
            "MPI_Type_hvector",
            "MPI_Type_struct",
            "MPI_Type_extent",
            "MPI_Type_lb",
            "MPI_Type_ub",
            "MPI_Info_get",
            "MPI_Info_get_valuelen",
            "*_x",
        ],
    ),
    ("14 files", &["MPI_File_*", "MPI_Register_datarep"]),
    (
        "12 one-sided communication",
        &[
            "MPI_Win_*",
            "MPI_Put",
            "MPI_Get",
            "MPI_Rput",
            "MPI_Rget",
            "MPI_*ccumulate*",
            "MPI_Fetch_and_op",
            "MPI_Compare_and_swap",
            "*_accumulate",
        ],
    ),
    (
        "11 processes, sessions, connections",
        &[
            "MPI_Init",
            "MPI_Init_thread",
            "MPI_Initialized",
            "MPI_Finalize",
            "MPI_Finalized",
            "MPI_Query_thread",
            "MPI_Is_thread_main",
            "MPI_Session_*",
            "MPI_Info_create_env",
            "MPI_Comm_spawn*",
            "MPI_Comm_get_parent",
            "MPI_Comm_accept",
            "MPI_Comm_connect",
            "MPI_Comm_disconnect",
            "MPI_Comm_join",
            "*_port",
            "MPI_Publish_name",
            "MPI_Unpublish_name",
            "MPI_Lookup_name",
        ],
    ),
    ("10 info objects", &["MPI_Info_*"]),
    (
        "13 external interfaces",
        &["MPI_Grequest_*", "MPI_Status_*", "MPI_Get_hw_resource_info"],
    ),
    (
        "9 environment and errors",
        &[
            "*errhandler*",
            "*Errhandler*",
            "*_error_*",
            "MPI_Error_*",
            "MPI_Get_version",
            "MPI_Get_library_version",
            "MPI_Get_processor_name",
            "MPI_Alloc_mem",
            "MPI_Free_mem",
            "MPI_Wtime",
            "MPI_Wtick",
            "MPI_Abort",
        ],
    ),
    (
        "8 topologies",
        &[
            "MPI_Cart*",
            "MPI_Graph*",
            "MPI_Dist_graph_*",
            "MPI_Dims_create",
            "MPI_Topo_test",
            "*eighbor_*",
        ],
    ),
    (
        "7 groups, communicators, attributes",
        &["MPI_Group_*", "*_keyval", "*_attr", "MPI_Intercomm_*", "MPI_Comm_*"],
    ),
    (
        "5 datatypes",
        &[
            "MPI_Type_*",
            "MPI_Pack*",
            "MPI_Unpack*",
            "MPI_Get_address",
            "MPI_Aint_*",
            "MPI_Get_elements",
        ],
    ),
    (
        "4 partitioned communication",
        &["MPI_Psend_init", "MPI_Precv_init", "MPI_Pready*", "MPI_Parrived"],
    ),
    (
        "6 collective communication",
        &[
            "MPI_*arrier*",
            "MPI_*bcast*",
            "MPI_Bcast*",
            "MPI_*ather*",
            "MPI_*catter*",
            "MPI_*lltoall*",
            "MPI_*educe*",
            "MPI_*can",
            "MPI_Scan_init",
            "MPI_Exscan_init",
            "MPI_Op_*",
        ],
    ),
    (
        "3 point-to-point communication",
        &[
            "MPI_Send*",
            "MPI_*send*",
            "MPI_Recv*",
            "MPI_*recv*",
            "MPI_*robe",
            "MPI_Wait*",
            "MPI_Test*",
            "MPI_Start*",
            "MPI_Cancel",
            "MPI_Request_*",
            "MPI_Get_count",
            "MPI_Buffer_*",
            "MPI_Test_cancelled",
        ],
    ),
];

/// The chapter of a function.
pub fn chapter(function: &str) -> Option<&'static str> {
    let name = function.strip_suffix("_c").unwrap_or(function);
    let fits = |(_, patterns): &&Chapter| patterns.iter().any(|pattern| matches(pattern, name));
    CHAPTERS.iter().find(fits).map(|(title, _)| *title)
}

/// Whether `name` is like `pattern`, in which `*` stands for anything.
fn matches(pattern: &str, name: &str) -> bool {
    let (first, rest) = match pattern.split_once('*') {
        None => return pattern == name,
        Some(parts) => parts,
    };
    let Some(name) = name.strip_prefix(first) else {
        return false;
    };
    let ends = |at: usize| matches(rest, &name[at..]);
    rest.is_empty() || (0..=name.len()).any(ends)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::tables;

    #[test]
    fn every_function_has_a_chapter() {
        let functions = tables::functions();
        let homeless: Vec<_> = functions
            .iter()
            .map(|f| f.name)
            .filter(|name| chapter(name).is_none())
            .collect();
        assert!(homeless.is_empty(), "{homeless:?}");
    }

    #[test]
    fn some_functions_stand_where_the_standard_has_them() {
        for (name, number) in [
            ("MPI_Isend_c", "3 "),
            ("MPI_Pready_list", "4 "),
            ("MPI_Type_vector", "5 "),
            ("MPI_Ireduce_scatter_block_c", "6 "),
            ("MPI_Comm_split_type", "7 "),
            ("MPI_Win_create_keyval", "12 "),
            ("MPI_Ineighbor_alltoallw", "8 "),
            ("MPI_Comm_set_errhandler", "9 "),
            ("MPI_Rget_accumulate", "12 "),
            ("MPI_Get_elements_x", "16"),
            ("MPI_Get_c", "12 "),
            ("MPI_Status_set_cancelled", "13 "),
            ("MPI_File_open", "14 "),
            ("MPI_Request_get_status_all", "3 "),
        ] {
            let chapter = chapter(name).unwrap_or("none");
            assert!(chapter.starts_with(number), "{name}: {chapter}");
        }
    }
}
