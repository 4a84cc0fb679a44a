//! Functions of the program that progress calls: those of polled generalized requests and of
//! asynchronous tasks, which are extensions of MPICH.

use super::error::Result;
use super::request::RequestKey;
use super::status::Status;
use super::world::Hold;

/// Tells whether the task is over, and what it has begun.
type Task = Box<dyn FnMut() -> (bool, Vec<Hook>)>;
/// Calls the program's poll function.
type Poll = Box<dyn FnMut() -> Result<()>>;

/// One function.
pub struct Hook(What);

enum What {
    Request(RequestKey, Poll),
    Task(Task),
}

impl Hook {
    /// Calls `poll` until the request is over; an error ends the request.
    pub fn request(key: RequestKey, poll: Poll) -> Hook {
        Hook(What::Request(key, poll))
    }

    /// Calls `task` until it says that it is over.
    pub fn task(task: Task) -> Hook {
        Hook(What::Task(task))
    }
}

/// Calls every function once, with the gate open; whether something ended or began. A function that
/// calls MPI, and other threads, find those functions not there to call meanwhile. The library's own thread (`helper`) calls tasks
/// only: a request's function belongs to those who wait for it, who may free what it looks at.
pub fn call(hold: &mut Hold, helper: bool) -> bool {
    let its = |hook: &mut Hook| !helper || matches!(hook.0, What::Task(_));
    let hooks: Vec<Hook> = hold.hooks.extract_if(.., its).collect();
    hold.hooks_called += hooks.len();
    let (mut left, mut moved) = (Vec::with_capacity(hooks.len()), false);
    for Hook(mut what) in hooks {
        let over = match &mut what {
            What::Request(key, _) if hold.is_over(*key) => true,
            What::Request(key, poll) => {
                if let Err(error) = hold.released(poll) {
                    hold.complete(*key, Status::EMPTY, Some(error));
                }
                moved |= hold.is_over(*key);
                hold.is_over(*key)
            }
            What::Task(task) => {
                let (over, mut begun) = hold.released(task);
                moved |= over || !begun.is_empty();
                left.append(&mut begun);
                over
            }
        };
        hold.hooks_called -= 1;
        if !over {
            left.push(Hook(what));
        }
    }
    left.append(&mut hold.hooks);
    hold.hooks = left;
    if moved {
        hold.wake_threads();
    }
    moved
}
