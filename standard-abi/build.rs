//! Writes what the tables of `src/abi` say in Rust: the values that differ between both ABIs, and every function that translates
//! its arguments by their types and names alone. What needs more is written by hand in `src`, where this finds it.

#[allow(dead_code)]
#[path = "../src/abi/tables.rs"]
mod tables;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use tables::{Constant, Function, Parameter};

/// Groups of numbers that one parameter takes: their names, or how these begin.
const GROUPS: [(&str, &[&str]); 19] = [
    ("CLASSES", &["MPI_SUCCESS", "MPI_ERR_", "MPI_T_ERR_"]),
    ("COMBINERS", &["MPI_COMBINER_"]),
    (
        "COMPARISONS",
        &["MPI_IDENT", "MPI_CONGRUENT", "MPI_SIMILAR", "MPI_UNEQUAL"],
    ),
    ("DISTRIBUTIONS", &["MPI_DISTRIBUTE_"]),
    ("FLAVORS", &["MPI_WIN_FLAVOR_"]),
    (
        "KEYVALS",
        &[
            "MPI_KEYVAL_INVALID",
            "MPI_TAG_UB",
            "MPI_HOST",
            "MPI_IO",
            "MPI_WTIME_IS_GLOBAL",
            "MPI_UNIVERSE_SIZE",
            "MPI_LASTUSEDCODE",
            "MPI_APPNUM",
            "MPI_WIN_BASE",
            "MPI_WIN_SIZE",
            "MPI_WIN_DISP_UNIT",
            "MPI_WIN_CREATE_FLAVOR",
            "MPI_WIN_MODEL",
        ],
    ),
    ("LOCKS", &["MPI_LOCK_"]),
    ("MODELS", &["MPI_WIN_SEPARATE", "MPI_WIN_UNIFIED"]),
    ("MODES", &["MPI_MODE_"]),
    ("ORDERS", &["MPI_ORDER_"]),
    ("SEEKS", &["MPI_SEEK_"]),
    ("SPLIT_TYPES", &["MPI_COMM_TYPE_"]),
    ("THREAD_LEVELS", &["MPI_THREAD_"]),
    ("TOPOLOGIES", &["MPI_CART", "MPI_GRAPH", "MPI_DIST_GRAPH"]),
    ("TOOL_BINDS", &["MPI_T_BIND_"]),
    ("TOOL_CLASSES", &["MPI_T_PVAR_CLASS_"]),
    ("TOOL_SCOPES", &["MPI_T_SCOPE_"]),
    ("TOOL_VERBOSITIES", &["MPI_T_VERBOSITY_"]),
    ("TYPE_CLASSES", &["MPI_TYPECLASS_"]),
];

/// What has other values in MPICH's ABI and is in no table: what `values.rs`, `status.rs`, `callbacks.rs` and `special.rs` translate, what only
/// the program looks at, and what the library has none of (sources of events, data types of extensions).
const OTHERWISE: [&str; 25] = [
    "MPI_ABI_",
    "MPI_ANY_SOURCE",
    "MPI_ANY_TAG",
    "MPI_BSEND_OVERHEAD",
    "MPI_BUFFER_AUTOMATIC",
    "MPI_COMM_DUP_FN",
    "MPI_DISPLACEMENT_CURRENT",
    "MPI_DUP_FN",
    "MPI_FILE_NULL",
    "MPI_F_",
    "MPI_IN_PLACE",
    "MPI_MAX_",
    "MPI_PROC_NULL",
    "MPI_ROOT",
    "MPI_STATUSES_IGNORE",
    "MPI_STATUS_IGNORE",
    "MPI_SUBVERSION",
    "MPI_TYPE_DUP_FN",
    "MPI_T_",
    "MPI_UNWEIGHTED",
    "MPI_VERSION",
    "MPI_WEIGHTS_EMPTY",
    "MPI_WIN_DUP_FN",
    "MPIX_TYPECLASS_LOGICAL",
    "MPI_ERR_LASTCODE",
];

/// Parameters that one of those groups is for: the name, whether the function sets it, the group.
const CHOICES: [(&str, bool, &str); 15] = [
    ("bind", true, "TOOL_BINDS"),
    ("combiner", true, "COMBINERS"),
    ("lock_type", false, "LOCKS"),
    ("order", false, "ORDERS"),
    ("provided", true, "THREAD_LEVELS"),
    ("required", false, "THREAD_LEVELS"),
    ("result", true, "COMPARISONS"),
    ("scope", true, "TOOL_SCOPES"),
    ("split_type", false, "SPLIT_TYPES"),
    ("status", true, "TOPOLOGIES"),
    ("typeclass", false, "TYPE_CLASSES"),
    ("var_class", false, "TOOL_CLASSES"),
    ("var_class", true, "TOOL_CLASSES"),
    ("verbosity", true, "TOOL_VERBOSITIES"),
    ("whence", false, "SEEKS"),
];

/// Functions that change or free the object whose handle they are given a pointer to.
const CHANGING: [&str; 19] = [
    "MPI_Cancel",
    "MPI_Comm_disconnect",
    "MPI_Comm_free",
    "MPI_Errhandler_free",
    "MPI_Group_free",
    "MPI_Imrecv",
    "MPI_Imrecv_c",
    "MPI_Info_free",
    "MPI_Mrecv",
    "MPI_Mrecv_c",
    "MPI_Op_free",
    "MPI_Request_free",
    "MPI_Session_finalize",
    "MPI_Start",
    "MPI_Test",
    "MPI_Type_commit",
    "MPI_Type_free",
    "MPI_Wait",
    "MPI_Win_free",
];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=src");
    println!("cargo:rerun-if-changed=../src/abi");
    // Its own calls are bound to itself: a tool that stands before MPI_Send is not called by PMPI_Send.
    for arg in ["-Wl,-soname,libmpi_abi.so.1", "-Wl,-Bsymbolic-functions"] {
        println!("cargo:rustc-cdylib-link-arg={arg}");
    }
    let out = std::path::PathBuf::from(std::env::var_os("OUT_DIR").unwrap());
    std::fs::write(out.join("values.rs"), values()).unwrap();
    std::fs::write(out.join("functions.rs"), functions()).unwrap();
}

/// A number as the tables write it.
fn number(text: &str) -> i64 {
    match text.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16).unwrap(),
        None => text.parse().unwrap(),
    }
}

/// The standard's numbers by name, and tables of pairs, the standard's number first.
fn values() -> String {
    let mpich: BTreeMap<&str, &str> = tables::constants().into_iter().map(|c| (c.name, c.value)).collect();
    let mut handles = BTreeMap::new();
    let mut groups: BTreeMap<&str, Vec<(i64, i64)>> = BTreeMap::new();
    let mut text =
        String::from("/// The standard's numbers.\n#[allow(dead_code)]\npub mod number {\n    use std::ffi::c_int;\n");
    for constant in tables::standard_constants() {
        let Constant { name, kind, value } = constant;
        let is_pointer = ["handle", "ptr", "callback"]
            .iter()
            .any(|start| kind.starts_with(start));
        let rust = if is_pointer { "usize" } else { "c_int" };
        writeln!(text, "    pub const {name}: {rust} = {value};").unwrap();
        let own = number(value);
        let other = mpich.get(name).copied();
        let is_in = |part: &&str| name == *part || part.ends_with('_') && name.starts_with(part);
        let group = GROUPS.iter().find(|(_, parts)| parts.iter().any(is_in));
        // A whole name that stands there is in no group, though its beginning may be.
        if let Some((group, _)) = group.filter(|_| !OTHERWISE.contains(&name)) {
            groups
                .entry(group)
                .or_default()
                .push((own, number(other.unwrap_or(value))));
        } else if kind.starts_with("handle:") && !OTHERWISE.iter().any(is_in) {
            handles.entry(own).or_insert((number(other.unwrap()), name));
        } else if other.is_none_or(|other| other != value) && !OTHERWISE.iter().any(is_in) {
            panic!("nothing translates {name}, which is {value} in the standard's ABI and {other:?} in MPICH's");
        }
    }
    text += "}\n";
    let last = *handles.keys().max().unwrap();
    writeln!(text, "/// MPICH's handle for each predefined one; 0 for none.").unwrap();
    writeln!(text, "pub static PREDEFINED: [c_int; {}] = [", last + 1).unwrap();
    for value in 0..=last {
        let (other, name) = handles.get(&value).copied().unwrap_or((0, "none"));
        writeln!(text, "    {}, // {value:#x} {name}", other as i32).unwrap();
    }
    // What has the same number in MPICH, a null message beside a null request, is told apart where it is known which is meant.
    let mut back: BTreeMap<i32, (i64, &str)> = BTreeMap::new();
    for (&value, &(other, name)) in handles.iter().filter(|(_, (_, name))| *name != "MPI_MESSAGE_NULL") {
        back.entry(other as i32).or_insert((value, name));
    }
    text += "];\n/// MPICH's handles in order, each with the standard's.\n";
    writeln!(text, "pub static NAMED: [(c_int, usize); {}] = [", back.len()).unwrap();
    for (other, (value, name)) in back {
        writeln!(text, "    ({other}, {value}), // {name}").unwrap();
    }
    text += "];\n";
    for (group, mut pairs) in groups {
        // What is a number of one ABI alone stands for what is one of the other alone, so that nothing gets lost either way.
        let (ours, theirs): (BTreeSet<_>, BTreeSet<_>) = pairs.iter().copied().unzip();
        pairs.extend(theirs.difference(&ours).copied().zip(ours.difference(&theirs).copied()));
        let pairs: Vec<_> = pairs.iter().map(|&(own, other)| (own as i32, other as i32)).collect();
        writeln!(text, "/// See [`Pairs`].\npub static {group}: Pairs = &{pairs:?};").unwrap();
    }
    text
}

/// The functions of the standard's ABI that `src` does not write itself.
fn functions() -> String {
    let mut by_hand = BTreeSet::new();
    for file in ["arrays", "callbacks", "special", "types"] {
        let text = std::fs::read_to_string(format!("src/{file}.rs")).unwrap();
        for line in text.lines().filter(|line| !line.trim_start().starts_with("//")) {
            // A name that is not the one of a function that is called.
            for (at, _) in line
                .match_indices("MPI_")
                .filter(|(at, _)| !line[..*at].ends_with("call!("))
            {
                let name = line[at..].split(|c: char| !c.is_alphanumeric() && c != '_').next();
                by_hand.extend(name.map(str::to_owned));
            }
        }
    }
    let mut text = String::new();
    for function in tables::functions() {
        if tables::is_standard(&function) && !by_hand.contains(function.name) {
            text += &translation(&function);
        }
    }
    text
}

/// How one parameter is translated.
#[derive(Default)]
struct Steps {
    /// Its type in the standard's ABI.
    taken: String,
    /// Its type in MPICH's.
    given: String,
    /// What comes before the call,
    before: String,
    /// the argument,
    argument: String,
    /// what comes after the call, and what only if it went well.
    after: String,
    after_success: String,
}

fn steps(function: &Function, parameter: &Parameter) -> Steps {
    let Parameter { name, rust } = parameter;
    let same = |kind: &str, argument: String| Steps {
        taken: kind.into(),
        given: kind.into(),
        argument,
        ..Steps::default()
    };
    let is_handle = |kind: &str| {
        [
            "MPI_Comm",
            "MPI_Datatype",
            "MPI_Errhandler",
            "MPI_Group",
            "MPI_Info",
            "MPI_Message",
            "MPI_Op",
            "MPI_Request",
            "MPI_Session",
            "MPI_Win",
        ]
        .contains(&kind)
    };
    if is_handle(rust) {
        return Steps {
            taken: "Handle".into(),
            given: "c_int".into(),
            argument: format!("mpich({name})"),
            ..Steps::default()
        };
    }
    if let Some(kind) = rust.strip_prefix("*mut ").filter(|kind| is_handle(kind)) {
        let make = if CHANGING.contains(&function.name) {
            "changing"
        } else {
            "empty"
        };
        let back = if kind == "MPI_Message" {
            "standard_message"
        } else {
            "standard"
        };
        return Steps {
            taken: "*mut Handle".into(),
            given: "*mut c_int".into(),
            before: format!("let mut {name} = Slot::{make}({name});"),
            argument: format!("{name}.pointer()"),
            after: format!("{name}.give({back});"),
            ..Steps::default()
        };
    }
    let status = |before: &str, argument: &str, after: &str| Steps {
        taken: "*mut Status".into(),
        given: "*mut MpichStatus".into(),
        before: before.replace('_', name),
        argument: argument.replace('_', name),
        after: after.replace('_', name),
        ..Steps::default()
    };
    let choice = |sets: bool| {
        CHOICES
            .iter()
            .find(|choice| choice.0 == name && choice.1 == sets)
            .map(|choice| choice.2)
    };
    let set = |convert: &str| Steps {
        after_success: format!("set({name}, {convert});"),
        ..same("*mut c_int", name.clone())
    };
    let many = |count: &str| Steps {
        taken: "*mut Handle".into(),
        given: "*mut c_int".into(),
        before: format!("let mut {name} = Handles::read({name}, {count});"),
        argument: format!("{name}.pointer()"),
        ..Steps::default()
    };
    match (rust.as_str(), name.as_str()) {
        ("*const MPI_Datatype", "sendtypes") => {
            let with_neighbors = function.name.contains("eighbor");
            let mut steps = many("sends");
            steps.before = format!(
                "let (sends, receives) = blocks(comm, {with_neighbors}, sendbuf); {}",
                steps.before
            );
            steps
        }
        ("*const MPI_Datatype", "recvtypes") => many("receives"),
        ("*const MPI_Datatype", "array_of_types") => many("count as isize"),
        ("*mut MPI_Status", _) => status("let mut _ = StatusSlot::empty(_);", "_.pointer()", "_.give();"),
        ("*const MPI_Status", _) => status("let mut _ = StatusSlot::full(_);", "_.pointer()", ""),
        ("MPI_File", _) => same("Pointer", format!("mpich_file({name})")),
        ("MPI_T_pvar_handle", _) => same("Pointer", format!("mpich_tool_handle({name})")),
        ("MPI_Offset", "disp") => same("i64", format!("mpich_displacement({name})")),
        ("c_int", "dest" | "source" | "root" | "rank" | "target_rank" | "local_leader" | "remote_leader") => {
            same("c_int", format!("mpich_rank({name})"))
        }
        ("c_int", "tag" | "sendtag" | "recvtag") => same("c_int", format!("mpich_tag({name})")),
        ("c_int", "errorclass") => same("c_int", format!("mpich_code({name})")),
        ("c_int", "errorcode") if function.name != "MPI_Abort" => same("c_int", format!("mpich_code({name})")),
        ("c_int", _) if name.ends_with("keyval") => same("c_int", format!("KEYVALS.mpich({name})")),
        ("c_int", "amode" | "assert") => same("c_int", format!("mpich_modes({name})")),
        ("c_int", _) => match choice(false) {
            Some(group) => same("c_int", format!("{group}.mpich({name})")),
            None => same("c_int", name.clone()),
        },
        ("*mut c_int", "source" | "rank_source" | "rank_dest") => set("standard_rank"),
        ("*mut c_int", "tag") => set("standard_tag"),
        ("*mut c_int", "error" | "errorclass" | "errorcode") => set("standard_code"),
        ("*mut c_int", "amode") => set("standard_modes"),
        ("*mut c_int", _) if choice(true).is_some() => {
            set(&format!("|value| {}.standard(value)", choice(true).unwrap()))
        }
        ("*const c_int" | "*mut c_int", "weights" | "sourceweights" | "destweights") => {
            same("Pointer", format!("mpich_weights({name})"))
        }
        (
            "*const c_void" | "*mut c_void",
            "buf" | "sendbuf" | "recvbuf" | "buffer" | "inbuf" | "outbuf" | "inoutbuf" | "origin_addr" | "result_addr"
            | "compare_addr",
        ) => same("Pointer", format!("mpich_address({name})")),
        ("MPI_Count" | "MPI_Offset", _) => same("i64", name.clone()),
        ("MPI_Aint", _) => same("isize", name.clone()),
        ("MPI_T_cb_safety", _) => same("c_int", name.clone()),
        (kind, _) if kind.starts_with('*') || kind.starts_with("MPI_T_") || kind.ends_with("_function") => {
            same("Pointer", name.clone())
        }
        (kind, name) => panic!("{}: no rule for {name}: {kind}", function.name),
    }
}

/// The text of one function.
fn translation(function: &Function) -> String {
    let parameters = function.parameters();
    let steps: Vec<Steps> = parameters.iter().map(|parameter| steps(function, parameter)).collect();
    let returns = match function.returns() {
        "int" => "c_int",
        "double" => "f64",
        "MPI_Aint" => "isize",
        other => panic!("{} returns {other}", function.name),
    };
    let join = |part: &dyn Fn(&Steps) -> String| {
        steps
            .iter()
            .map(part)
            .filter(|text| !text.is_empty())
            .collect::<Vec<_>>()
    };
    let taken: Vec<String> = parameters
        .iter()
        .zip(&steps)
        .map(|(parameter, step)| format!("{}: {}", parameter.name, step.taken))
        .collect();
    let success = join(&|step| step.after_success.clone());
    let success = if success.is_empty() {
        String::new()
    } else {
        format!("if code == 0 {{ {} }}", success.join(" "))
    };
    let result = if returns == "c_int" {
        "standard_code(code)"
    } else {
        "code"
    };
    format!(
        "#[apply(translation!)]\npub unsafe extern \"C\" fn {name}({taken}) -> {returns} {{\n    {before}\n    let code = call!({name}: fn({given}) -> {returns})({arguments});\n    {after}\n    {success}\n    {result}\n}}\n",
        name = function.name,
        taken = taken.join(", "),
        before = join(&|step| step.before.clone()).join(" "),
        given = join(&|step| step.given.clone()).join(", "),
        arguments = join(&|step| step.argument.clone()).join(", "),
        after = join(&|step| step.after.clone()).join(" "),
    )
}
