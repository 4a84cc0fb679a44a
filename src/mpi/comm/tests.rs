//! Communicators among ranks that are threads over a segment of this process.

use super::create::{Choice, create, create_group, dup, split};
use super::idup::idup;
use super::*;
use crate::mpi::coll::{allgather_bytes, barrier};
use crate::mpi::error::Class;
use crate::mpi::pt2pt;
use crate::mpi::status::UNDEFINED;
use crate::mpi::topo;
use crate::mpi::topo::graph::Edge;
use crate::mpi::world::{Hold, State, World};
use crate::shm::segment::Segment;
use crate::sys::cvar::Settings;
use std::sync::Arc;

/// Runs `program` as each of `ranks` ranks; afterwards every context but those of the predefined
/// communicators must be free again.
fn job(ranks: u32, program: impl Fn(&mut Hold, &Rc<Comm>) + Sync) {
    let segment = Arc::new(Segment::private(ranks, 2).unwrap());
    std::thread::scope(|scope| {
        for rank in 0..ranks {
            let (segment, program) = (segment.clone(), &program);
            scope.spawn(move || {
                let settings = Settings::read(|_| None).unwrap();
                let world = World::new(State::join(segment, rank, settings), false);
                let mut hold = world.hold();
                let comm = hold.world.clone();
                program(&mut hold, &comm);
                barrier(&mut hold, &comm).unwrap();
                if rank == 0 {
                    let free = std::iter::from_fn(|| hold.claim_context(1).ok()).count();
                    assert_eq!(free, 32768 - 2, "contexts were lost");
                }
                barrier(&mut hold, &comm).unwrap();
            });
        }
    });
}

/// The ranks in the job of everybody, as `comm` delivers them.
fn roll_call(hold: &mut Hold, comm: &Rc<Comm>) -> Vec<u8> {
    assert_eq!(comm.group.world(comm.rank), hold.world.rank);
    let me = [hold.world.rank as u8];
    allgather_bytes(hold, comm, &me).unwrap()
}

fn choice(color: i32, key: i32) -> Choice {
    Choice { color, key }
}

#[test]
fn duplicates_and_parts_have_their_own_contexts() {
    job(5, |hold, world| {
        let copy = Rc::new(dup(hold, world).unwrap());
        assert_eq!(world.compare(&copy), Likeness::Congruent);
        assert_eq!(roll_call(hold, &copy), [0, 1, 2, 3, 4]);
        let color = if world.rank == 2 {
            UNDEFINED
        } else {
            world.rank as i32 % 2
        };
        let part = split(hold, &copy, choice(color, -(world.rank as i32)))
            .unwrap()
            .map(Rc::new);
        match (world.rank, part) {
            (2, None) => (),
            (0 | 4, Some(part)) => assert_eq!(roll_call(hold, &part), [4, 0]),
            (1 | 3, Some(part)) => assert_eq!(roll_call(hold, &part), [3, 1]),
            (rank, part) => panic!("rank {rank} got {part:?}"),
        }
        let back = Rc::new(split(hold, &copy, choice(7, -(world.rank as i32))).unwrap().unwrap());
        assert_eq!(world.compare(&back), Likeness::Similar);
        assert_eq!(roll_call(hold, &back), [4, 3, 2, 1, 0]);
    });
}

#[test]
fn where_one_part_gets_no_context_everybody_learns_it() {
    job(5, |hold, world| {
        let mut taken = Vec::new();
        if world.rank == 0 {
            taken.extend(std::iter::from_fn(|| hold.claim_context(1).ok()));
            drop(hold.adopt_context(taken.pop().unwrap()));
        }
        barrier(hold, world).unwrap();
        let color = if world.rank == 4 {
            UNDEFINED
        } else {
            world.rank as i32 % 2
        };
        assert_eq!(split(hold, world, choice(color, 0)).unwrap_err().class(), Class::Other);
        assert_eq!(roll_call(hold, world), [0, 1, 2, 3, 4], "nobody is ahead");
        // The part that had the last context has let it go.
        if world.rank == 0 {
            taken.push(hold.claim_context(1).unwrap());
            taken.drain(..).for_each(|number| drop(hold.adopt_context(number)));
        }
        barrier(hold, world).unwrap();
    });
}

#[test]
fn groups_make_communicators() {
    job(5, |hold, world| {
        let group = Rc::new(match world.rank {
            0 | 3 => Group::new(vec![3, 0]),
            1 | 2 => Group::new(vec![1, 2]),
            _ => Group::default(),
        });
        let together = create(hold, world, &group).unwrap().map(Rc::new);
        let apart = match world.rank {
            4 => None,
            _ => create_group(hold, world, &group, i32::MAX).unwrap().map(Rc::new),
        };
        for part in [together, apart] {
            match (world.rank, part) {
                (4, None) => (),
                (0 | 3, Some(part)) => assert_eq!(roll_call(hold, &part), [3, 0]),
                (1 | 2, Some(part)) => assert_eq!(roll_call(hold, &part), [1, 2]),
                (rank, part) => panic!("rank {rank} got {part:?}"),
            }
        }
        let own = hold.own.clone();
        if world.rank == 0 {
            assert_eq!(create(hold, &own, &group).unwrap_err().class(), Class::Group);
        }
    });
}

/// An intercommunicator of the even and the odd ranks, each side's leader its last rank.
fn even_and_odd(hold: &mut Hold, world: &Rc<Comm>) -> Rc<Comm> {
    let odd = world.rank as i32 % 2;
    let half = Rc::new(split(hold, world, choice(odd, 0)).unwrap().unwrap());
    let last = half.size() - 1;
    let (evens, odds) = (world.size().div_ceil(2), world.size() / 2);
    let remote = if odd == 1 { 2 * (evens - 1) } else { 2 * odds - 1 };
    let peer = Ok((world.clone(), remote));
    Rc::new(inter::create(hold, &half, last, peer, 77).unwrap())
}

#[test]
fn intercommunicators_are_made_copied_split_and_merged() {
    job(5, |hold, world| {
        let odd = world.rank % 2 == 1;
        let inter = even_and_odd(hold, world);
        let sides = [vec![0, 2, 4], vec![1, 3]];
        assert_eq!(inter.group.members, sides[usize::from(odd)]);
        assert_eq!(inter.remote_group().unwrap().members, sides[usize::from(!odd)]);

        let copy = Rc::new(dup(hold, &inter).unwrap());
        assert_eq!(copy.compare(&inter), Likeness::Congruent);
        assert_eq!(world.compare(&inter), Likeness::Unequal);
        for (high, order) in [(odd, [0, 2, 4, 1, 3]), (!odd, [1, 3, 0, 2, 4]), (true, [0, 2, 4, 1, 3])] {
            let merged = Rc::new(inter::merge(hold, &copy, high).unwrap());
            assert_eq!(roll_call(hold, &merged), order);
        }

        // 0 and 1 get colour 0, 3 and 4 colour 1, 2 is alone with colour 2.
        let color = [0, 0, 2, 1, 1][world.rank as usize];
        let part = split(hold, &copy, choice(color, 0)).unwrap().map(Rc::new);
        match (world.rank, part) {
            (2, None) => (),
            (rank, Some(part)) if rank != 2 => {
                let merged = Rc::new(inter::merge(hold, &part, odd).unwrap());
                assert_eq!(roll_call(hold, &merged), if rank < 2 { [0, 1] } else { [4, 3] });
            }
            (rank, part) => panic!("rank {rank} got {part:?}"),
        }
        let disagreed = inter::merge(hold, &copy, world.rank == 3).unwrap_err();
        assert_eq!(disagreed.class(), Class::Arg);
    });
}

#[test]
fn overlapping_groups_and_failed_leaders_are_refused_everywhere() {
    job(3, |hold, world| {
        let own = hold.own.clone();
        // Leader 0 of everybody meets itself.
        let error = inter::create(hold, world, 0, Ok((own.clone(), 0)), 3).unwrap_err();
        assert_eq!(error.class(), Class::Comm);
        let absent = own.checked_rank(1).map(|rank| (own.clone(), rank));
        let error = inter::create(hold, world, 1, absent, 3).unwrap_err();
        assert_eq!(error.class(), Class::Rank);
    });
}

#[test]
fn nonblocking_duplicates_may_start_in_any_order() {
    job(4, |hold, world| {
        let other = Rc::new(dup(hold, world).unwrap());
        let inter = even_and_odd(hold, world);
        let mut parents = [world.clone(), other, inter];
        let turn = world.rank as usize % 3;
        parents.rotate_left(turn);
        let mut started: Vec<_> = parents.iter().map(|parent| idup(hold, parent).unwrap()).collect();
        for (_, request) in &started {
            pt2pt::wait(hold, *request).unwrap();
        }
        // Blocking collectives need the same order everywhere.
        parents.rotate_right(turn);
        started.rotate_right(turn);
        for ((new, _), parent) in started.iter().zip(&parents) {
            assert_eq!(new.compare(parent), Likeness::Congruent);
            match new.is_inter() {
                true => drop(inter::merge(hold, new, world.rank % 2 == 1).unwrap()),
                false => assert_eq!(roll_call(hold, new), [0, 1, 2, 3]),
            }
        }
    });
}

#[test]
fn where_a_nonblocking_duplicate_gets_no_context_every_request_says_so() {
    job(4, |hold, world| {
        let inter = even_and_odd(hold, world);
        let mut taken = Vec::new();
        if world.rank == 0 {
            taken.extend(std::iter::from_fn(|| hold.claim_context(1).ok()));
            drop(hold.adopt_context(taken.pop().unwrap()));
        }
        barrier(hold, world).unwrap();
        let made = |hold: &mut Hold, parent: &Rc<Comm>| {
            let (new, request) = idup(hold, parent).unwrap();
            pt2pt::wait(hold, request).map(|_| new)
        };
        // Those between groups take three.
        assert_eq!(made(hold, &inter).unwrap_err().class(), Class::Other);
        let last = made(hold, world).unwrap();
        assert_eq!(roll_call(hold, &last), [0, 1, 2, 3]);
        assert_eq!(made(hold, world).unwrap_err().class(), Class::Other);
        taken.drain(..).for_each(|number| drop(hold.adopt_context(number)));
        barrier(hold, world).unwrap();
        assert!(made(hold, &inter).unwrap().is_inter());
    });
}

#[test]
fn grids_and_graphs_come_with_their_communicators() {
    job(5, |hold, world| {
        let cart = topo::Cart::new(&[2, 2], &[0, 1], 5).unwrap();
        let grid = topo::create::cart(hold, world, cart, true).unwrap().map(Rc::new);
        assert_eq!(grid.is_none(), world.rank == 4);
        if let Some(grid) = grid {
            let row = Rc::new(topo::create::sub(hold, &grid, &[false, true]).unwrap());
            assert_eq!(roll_call(hold, &row)[row.rank as usize], world.rank as u8);
            assert_eq!(row.size(), 2);
            let copy = dup(hold, &grid).unwrap();
            assert_eq!(copy.topology, grid.topology);
        }
        // Each declares the edge from its right to its left neighbour.
        let (left, right) = ((world.rank + 4) % 5, (world.rank + 1) % 5);
        let edge = Edge {
            source: right as i32,
            destination: left as i32,
            weight: world.rank as i32,
        };
        let ring = topo::create::distributed(hold, world, &[edge], true, true).unwrap();
        let edges = topo::dist_graph(ring.topology.as_deref()).unwrap();
        assert_eq!(edges.sources, [(world.rank as i32 + 2) % 5]);
        assert_eq!(edges.destinations, [(world.rank as i32 + 3) % 5]);
        let weights = Some((vec![right as i32], vec![left as i32]));
        assert_eq!(edges.weights, weights);
    });
}
