//! What accesses to memory that only its owner maps take: asking the owner in its mailbox, and the kernel. The quicker way is taken, and the
//! other tried now and then.

/// Looks at a mailbox before the question there is taken back, at least: a microsecond or two. One takes about so many nanoseconds.
const LOOKS: u32 = 64;
const LOOK: u32 = 25;
/// Before the kernel has been tried, so many bytes of a cost are guessed to take it a nanosecond.
const GUESS: usize = 2;
/// Uses of a way before it counts as known, and of the better one between two of the other, at first and at most.
const KNOWN: u8 = 3;
const FIRST: u16 = 32;
const MOST: u16 = 1024;
/// ... but so many times as many as the other takes times as long, within limits: then trials cost a sixteenth.
const DEAR: u32 = 16;
const DEAREST: u32 = 4096;
/// Asking is tried so many times more in a row: a member that copies by the kernel meanwhile answers late, hears of it, and asks, too.
const TRIES: u8 = 2;
/// Classes of length: up to 64 bytes, 256, and so on.
const CLASSES: usize = 8;

/// What accesses to one member have taken, by length: transfers and updates, of bytes in a row and of lists.
#[derive(Clone, Copy, Debug, Default)]
pub struct Habits([[Habit; CLASSES]; 4]);

impl Habits {
    /// That of accesses of a `kind` that cost so many bytes.
    pub fn of(&mut self, kind: usize, cost: usize) -> &mut Habit {
        let class = (cost.max(64) - 1).ilog2() as usize / 2 - 2;
        &mut self.0[kind][class.min(CLASSES - 1)]
    }
}

/// What accesses of a class have taken by either way.
#[derive(Clone, Copy, Debug, Default)]
pub struct Habit {
    /// Nanoseconds, and from how many uses.
    costs: [u32; 2],
    seen: [u8; 2],
    /// Uses of the better way until the other is tried; how many it was the last time.
    left: u16,
    gap: u16,
    /// How often asking has been tried in a row.
    tries: u8,
}

/// Asking.
pub const ASK: usize = 0;
/// The kernel.
pub const KERNEL: usize = 1;

impl Habit {
    fn better(&self) -> usize {
        usize::from(self.costs[KERNEL] < self.costs[ASK])
    }

    /// How many times as long the slower way takes.
    fn ratio(&self) -> u32 {
        let [ask, kernel] = self.costs;
        ask.max(kernel) / ask.min(kernel).max(1)
    }

    /// The other way is tried after `gap` more uses, or later if it is dear.
    fn pause(&mut self, gap: u16) {
        let dear = self.ratio().saturating_mul(DEAR).min(DEAREST);
        (self.gap, self.left, self.tries) = (gap, gap.max(dear as u16), 0);
    }

    /// Whether both ways have been tried enough.
    fn is_known(&self) -> bool {
        self.seen[KERNEL] >= KNOWN
    }

    /// The way of the next access, and whether it is to be timed.
    pub fn choose(&mut self) -> (usize, bool) {
        if !self.is_known() {
            return (usize::from(self.seen[KERNEL] < self.seen[ASK]), true);
        }
        let better = self.better();
        if self.left == 0 {
            return (1 - better, true);
        }
        self.left -= 1;
        (better, self.left % 8 == 1)
    }

    /// The way instead of the kernel to a member that has just `asked`: it answers, too, however long it took before.
    pub fn instead(&self, asked: bool) -> Option<(usize, bool)> {
        (asked && self.is_known()).then_some((ASK, true))
    }

    /// An access has taken `nanoseconds` by `way`.
    pub fn took(&mut self, way: usize, nanoseconds: u64) {
        let (before, cost) = (self.better(), &mut self.costs[way]);
        let new = u32::try_from(nanoseconds).unwrap_or(u32::MAX);
        if self.seen[way] < KNOWN {
            *cost = if self.seen[way] == 0 { new } else { new.min(*cost) };
            self.seen[way] += 1;
            self.pause(FIRST);
            return;
        }
        // One that was interrupted says little.
        let new = new.min(cost.saturating_mul(2));
        *cost = (*cost / 4).saturating_mul(3).saturating_add(new / 4);
        if self.better() != before {
            self.pause(FIRST);
        } else if self.left == 0 && way == ASK && self.tries < TRIES {
            self.tries += 1;
        } else if self.left == 0 {
            self.pause(MOST.min(2 * self.gap));
        }
    }

    /// Looks at a mailbox that take as long as the kernel does: a member that copies by the kernel itself answers then, so that two that
    /// access each other's memory do not both leave it to the kernel because the other one does.
    pub fn looks(&self, cost: usize) -> u32 {
        let nanoseconds = match self.seen[KERNEL] {
            0 => u32::try_from(cost / GUESS).unwrap_or(u32::MAX),
            _ => self.costs[KERNEL],
        };
        LOOKS + nanoseconds / LOOK
    }

    /// Whether the member, which may sleep by now, is to be awake when it will be asked again.
    pub fn rouses(&self) -> bool {
        self.left == FIRST / 2 && self.better() == KERNEL
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_that_takes_less_is_used_and_the_other_one_tried_ever_less_often() {
        let mut habit = Habit::default();
        let mut run = |uses: usize, costs: [u64; 2]| {
            let mut asked = 0;
            for _ in 0..uses {
                let (way, timed) = habit.choose();
                asked += usize::from(way == ASK);
                if timed {
                    habit.took(way, costs[way]);
                }
            }
            asked
        };
        assert_eq!(run(6, [500, 3000]), 3, "first both are tried");
        let asked = run(5000, [500, 3000]);
        assert!((4980..5000).contains(&asked), "{asked}");
        assert_eq!(run(1, [1 << 40, 3000]), 1, "a single long one");
        assert!(run(100, [500, 3000]) > 95);
        assert!(run(2000, [5000, 3000]) < 200, "the member does something else");
        assert!(run(20_000, [500, 3000]) > 10_000, "and waits again");
        assert!(
            habit.looks(8) * LOOK >= 3000,
            "it is looked out for as long as the kernel takes"
        );
    }

    #[test]
    fn two_that_both_left_it_to_the_kernel_ask_again() {
        // Who asks while the other copies waits for that; each learns of the other's question at its next access.
        let mut habits = [Habit::default(); 2];
        let mut asked = [false; 2];
        let mut ways = [KERNEL; 2];
        let mut late = 0;
        for access in 0..1000 {
            // They do not try at the same time.
            for me in 0..if access < 17 { 1 } else { 2 } {
                let (mut way, mut timed) = habits[me].choose();
                if way == KERNEL {
                    let asked = std::mem::take(&mut asked[me]);
                    (way, timed) = habits[me].instead(asked).unwrap_or((way, timed));
                }
                let waits = way == ASK && ways[1 - me] == KERNEL;
                late += usize::from(access > 200 && (way == KERNEL || waits));
                asked[1 - me] |= way == ASK;
                ways[me] = way;
                if timed {
                    // At first all is against asking.
                    let unlucky = waits || access < 30;
                    habits[me].took(way, [if unlucky { 600_000 } else { 5000 }, 500_000][way]);
                }
            }
        }
        assert!(late < 20, "{late}");
    }

    #[test]
    fn a_dear_way_is_tried_seldom() {
        let run = |kernel: u64| {
            let mut habit = Habit::default();
            let mut all = 0;
            for _ in 0..2000 {
                let (way, timed) = habit.choose();
                let took = [5000, kernel][way];
                all += took;
                if timed {
                    habit.took(way, took);
                }
            }
            all
        };
        let all = run(500_000);
        assert!((10_000_000 + 3 * 500_000..12_500_000).contains(&all), "{all}");
        assert!(run(10_000) < 10_500_000);
    }
}
