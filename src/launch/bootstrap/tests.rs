//! Which launcher a rank is found to be of.

use super::*;

fn planned(vars: &[(&str, &str)], open: &[i32]) -> Result<Plan, String> {
    let env = |name: &str| vars.iter().find(|(n, _)| *n == name).map(|(_, v)| v.to_string());
    plan(&env, &|fd| open.contains(&fd))
}

#[test]
fn nothing_is_a_job_of_one() {
    assert_eq!(planned(&[], &[]), Ok(Plan::Alone));
    let allocation = [("SLURM_NTASKS", "4"), ("SLURM_PROCID", "0"), ("SLURM_JOB_ID", "7")];
    assert_eq!(
        planned(&allocation, &[]),
        Ok(Plan::Alone),
        "the shell of sbatch or salloc"
    );
    assert_eq!(
        planned(&[("SLURM_STEP_NUM_TASKS", "1"), ("SLURM_PROCID", "0")], &[]),
        Ok(Plan::Alone)
    );
    assert_eq!(
        planned(&[("OMPI_COMM_WORLD_SIZE", "1"), ("OMPI_COMM_WORLD_RANK", "0")], &[]),
        Ok(Plan::Alone)
    );
}

#[test]
fn our_mpirun_comes_first() {
    let vars = [
        ("NEARMPI_FD", "30"),
        ("NEARMPI_RANK", "1/2"),
        ("PMI_RANK", "1"),
        ("PMI_SIZE", "2"),
        ("PMI_FD", "31"),
    ];
    let own = |socket| {
        Ok(Plan::Mpirun {
            rank: 1,
            size: 2,
            memory: 30,
            socket,
        })
    };
    assert_eq!(planned(&vars, &[30, 31]), own(Some(31)));
    assert_eq!(planned(&vars, &[30]), own(None), "a wrapper closed the socket");
}

#[test]
fn another_launcher_inside_ours_wins() {
    let vars = [
        ("NEARMPI_FD", "30"),
        ("NEARMPI_RANK", "0/1"),
        ("PMI_RANK", "1"),
        ("PMI_SIZE", "2"),
        ("PMI_FD", "9"),
    ];
    assert_eq!(
        planned(&vars, &[9, 30]),
        Ok(Plan::Pmi {
            rank: 1,
            size: 2,
            socket: 9
        })
    );
    // Its rank may be that of ours.
    let socket = ("PMI_FD", "9");
    let vars = [
        ("NEARMPI_FD", "30"),
        ("NEARMPI_RANK", "0/1"),
        ("PMI_RANK", "0"),
        ("PMI_SIZE", "1"),
        socket,
    ];
    let with = |name| [&vars[..], &[(name, "0")]].concat();
    assert_eq!(
        planned(&with("HYDI_CONTROL_FD"), &[9]),
        Ok(Plan::Pmi {
            rank: 0,
            size: 1,
            socket: 9
        })
    );
    let theirs = [
        ("OMPI_COMM_WORLD_RANK", "0"),
        ("OMPI_COMM_WORLD_SIZE", "2"),
        ("PMIX_NAMESPACE", "x"),
    ];
    let nested = [&vars[..], &theirs].concat();
    assert!(planned(&nested, &[]).unwrap_err().contains("Open MPI"));
    // A script has told another program what it knows.
    let told = [&vars[..], &theirs[..2]].concat();
    assert!(matches!(planned(&told, &[30]), Ok(Plan::Mpirun { rank: 0, .. })));
}

#[test]
fn pmi_is_joined_by_descriptor_or_port() {
    let vars = [("PMI_RANK", "0"), ("PMI_SIZE", "2"), ("PMI_FD", "6")];
    assert_eq!(
        planned(&vars, &[6]),
        Ok(Plan::Pmi {
            rank: 0,
            size: 2,
            socket: 6
        })
    );
    assert!(planned(&vars, &[]).unwrap_err().contains("PMI_FD=6 is not open"));
    let port = [("PMI_PORT", "localhost:99"), ("PMI_ID", "3")];
    assert_eq!(
        planned(&port, &[]),
        Ok(Plan::Port {
            address: "localhost:99".into(),
            id: 3
        })
    );
    assert_eq!(
        planned(&[("PMI_RANK", "0"), ("PMI_SIZE", "1"), ("PMI_FD", "6")], &[]),
        Ok(Plan::Alone)
    );
}

#[test]
fn a_task_of_srun_joins_over_the_socket_of_its_pmi2_plugin() {
    let vars = [
        ("SLURM_STEP_NUM_TASKS", "2"),
        ("SLURM_PROCID", "1"),
        ("PMI_JOBID", "7.0"),
        ("PMI_RANK", "1"),
        ("PMI_SIZE", "2"),
        ("PMI_FD", "6"),
    ];
    let (rank, size, socket) = (1, 2, 6);
    assert_eq!(planned(&vars, &[6]), Ok(Plan::Pmi { rank, size, socket }));
}

#[test]
fn a_launcher_that_cannot_be_joined_is_named() {
    let refused = |vars: &[(&str, &str)], word: &str| {
        let sentence = planned(vars, &[]).unwrap_err();
        assert!(sentence.contains(word) && sentence.contains("mpirun"), "{sentence}");
    };
    refused(
        &[("OMPI_COMM_WORLD_SIZE", "4"), ("OMPI_COMM_WORLD_RANK", "0")],
        "Open MPI",
    );
    refused(&[("SLURM_STEP_NUM_TASKS", "4"), ("SLURM_PROCID", "2")], "--mpi=pmi2");
    refused(&[("PMIX_RANK", "1"), ("PMIX_NAMESPACE", "x")], "PMIx");
    refused(&[("PMI_RANK", "1"), ("PMI_SIZE", "2")], "PMI_SIZE");
}

#[test]
fn junk_is_an_error_never_a_rank() {
    for (rank, size) in [
        ("2", "2"),
        ("-1", "2"),
        ("0", "0"),
        ("x", "2"),
        ("0", "99999999999999999999"),
        ("0", "40000"),
    ] {
        let vars = [("PMI_RANK", rank), ("PMI_SIZE", size), ("PMI_FD", "6")];
        assert!(planned(&vars, &[6]).is_err(), "{rank} of {size}");
        let vars = [("PMI_RANK", rank), ("PMI_SIZE", size), ("NEARMPI_FD", "6")];
        assert!(planned(&vars, &[6]).is_err(), "{rank} of {size}");
    }
    assert!(planned(&[("PMI_FD", "6")], &[6]).is_err());
    assert!(planned(&[("NEARMPI_FD", "6x"), ("PMI_RANK", "0"), ("PMI_SIZE", "1")], &[6]).is_err());
}

#[test]
fn nobody_around_makes_the_memory_itself() {
    let mut asked = None;
    let segment = |ranks| {
        asked = Some(ranks);
        Ok(File::open("/dev/null")?.into())
    };
    if planned_here() == Ok(Plan::Alone) {
        let member = join(segment).unwrap();
        assert_eq!((member.rank, member.size, asked), (0, 1, Some(1)));
        member.control.abort(3);
        assert!(member.control.finalize().is_ok());
    }
}

fn planned_here() -> Result<Plan, String> {
    plan(&|name| std::env::var(name).ok(), &is_open)
}
