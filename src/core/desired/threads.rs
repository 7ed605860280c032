//! Work that does not depend on each other, side by side.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{panic, thread};

/// From this many pieces on another thread is worth its start.
const WORTH: usize = 8;

/// More would wait for each other in the allocator: in the operator's pod its arenas are as many (`deploy/osdpl/templates/deployment.yaml`).
const MOST: usize = 2;

/// Asked once: to find it the standard library reads the limits of the container.
static PROCESSORS: LazyLock<usize> = LazyLock::new(|| thread::available_parallelism().map_or(1, usize::from));

/// What is made of each, in the order of the items.
///
/// # Panics
/// Where making one does.
pub(super) fn each<T: Sync, R: Send>(items: &[T], make: impl Fn(&T) -> R + Sync) -> Vec<R> {
    each_on((*PROCESSORS).min(MOST).min(items.len() / WORTH), items, make)
}

fn each_on<T: Sync, R: Send>(threads: usize, items: &[T], make: impl Fn(&T) -> R + Sync) -> Vec<R> {
    if threads < 2 {
        return items.iter().map(make).collect();
    }
    let next = AtomicUsize::new(0);
    let take = || {
        let index = next.fetch_add(1, Ordering::Relaxed);
        Some((index, make(items.get(index)?)))
    };
    let work = || std::iter::from_fn(take).collect::<Vec<_>>();
    let mut results = thread::scope(|scope| {
        // Where the system has no thread left this one does it all.
        let start = |_| thread::Builder::new().spawn_scoped(scope, work).ok();
        let others: Vec<_> = (1..threads).filter_map(start).collect();
        let mut results = work();
        for other in others {
            results.extend(other.join().unwrap_or_else(|cause| panic::resume_unwind(cause)));
        }
        results
    });
    results.sort_unstable_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn what_is_made_side_by_side_comes_in_the_order_of_what_it_is_made_of() {
        let items: Vec<usize> = (0..100).collect();
        for threads in [0, 1, 3] {
            assert_eq!(
                each_on(threads, &items, |item| item * 2),
                items.iter().map(|item| item * 2).collect::<Vec<_>>()
            );
        }
        assert!(each(&[] as &[usize], |item| *item).is_empty());
    }

    #[test]
    fn pieces_are_made_at_the_same_time() {
        let both = Barrier::new(2);
        each_on(2, &[(), ()], |()| both.wait().is_leader());
    }

    #[test]
    fn a_panic_of_one_piece_is_one_of_the_whole() {
        let items: Vec<usize> = (0..20).collect();
        let made = panic::catch_unwind(|| each_on(2, &items, |item| assert!(*item < 15, "no piece {item}")));
        assert!(made.is_err());
    }
}
