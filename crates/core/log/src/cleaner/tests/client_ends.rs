//! How a cleaner of another process ends: refused for now, told to end, or
//! answered something else than it asked.

use super::client::{ALL, server};
use crate::cleaner::client::{Done, Refusal, Step};
use crate::cleaner::wire::{Answer, Request};
use crate::policy::PolicyKind;
use std::time::Duration;

const AGAIN: Duration = Duration::from_millis(10);

fn is_list(request: &Request) -> bool {
    matches!(request, Request::Usage { .. })
}

#[test]
fn who_is_refused_the_list_for_now_asks_again_or_ends() {
    for (sleeps, segments, lists) in [(1, 0, 1), (3, 1, 2)] {
        let server = server(&[(1, 300)]);
        let mut refused = false;
        server.says(move |request| {
            let first = is_list(request) && !std::mem::replace(&mut refused, true);
            first.then_some(Err(Refusal::Again))
        });
        server.0.borrow_mut().sleeps = sleeps;
        let mut client = server.client(PolicyKind::GREEDY, ALL);
        assert_eq!(client.run(false), Ok(()));
        let asked = server.asked();
        assert_eq!(asked.iter().filter(|r| is_list(r)).count(), lists);
        assert_eq!(asked.last(), Some(&Request::Leave));
        assert_eq!(client.done().segments, segments);
        let server = server.0.borrow();
        assert_eq!((server.slept[0], server.slept.len()), (AGAIN, sleeps));
    }
}

#[test]
fn who_is_told_to_end_while_he_is_refused_ends() {
    type Is = fn(&Request) -> bool;
    let calls: [(Is, u64); 4] = [
        (|request| matches!(request, Request::Wait { .. }), 0),
        (|request| matches!(request, Request::Bmapv { .. }), 1),
        (|request| matches!(request, Request::Markv { .. }), 1),
        (|request| matches!(request, Request::Segclean { .. }), 0),
    ];
    for (nth, (is_one, left)) in calls.into_iter().enumerate() {
        let server = server(&[(1, 300)]);
        server.says(move |request| is_one(request).then_some(Err(Refusal::Again)));
        server.0.borrow_mut().sleeps = 1;
        let mut client = server.client(PolicyKind::GREEDY, ALL);
        let outcome = client.step(false);
        // Without what lives in the segment there is nothing to move.
        let ends = if nth == 1 { Step::Worked } else { Step::End };
        assert_eq!(outcome, Ok(ends), "{nth}");
        assert_eq!(server.0.borrow().slept, [AGAIN], "{nth}");
        let done = client.done();
        assert_eq!((done.segments, done.left), (0, left), "{nth}: {done:?}");
    }
}

#[test]
fn an_answer_to_something_else_is_none() {
    type Is = fn(&Request) -> bool;
    let calls: [Is; 4] = [
        |request| matches!(request, Request::Wait { .. }),
        is_list,
        |request| matches!(request, Request::Bmapv { .. }),
        |request| matches!(request, Request::Markv { .. }),
    ];
    for (nth, is_one) in calls.into_iter().enumerate() {
        let server = server(&[(1, 300)]);
        server.says(move |request| is_one(request).then_some(Ok(Answer::Done)));
        let mut client = server.client(PolicyKind::GREEDY, ALL);
        let refused = client.step(false);
        assert!(
            matches!(refused, Err(Refusal::Failed(_))),
            "{nth}: {refused:?}"
        );
        assert_eq!(client.done(), Done::default(), "{nth}");
        let claimed = nth >= 2;
        let released = server.asked().contains(&Request::Release { segment: 1 });
        assert_eq!(released, claimed, "{nth}");
    }
}
