//! A cleaner of another process, before a server that says what a test wants:
//! what it asks for, in which order, and what it makes of the answers.

use crate::cleaner::client::{Client, Done, Marks, Outside, Refusal, Step};
use crate::cleaner::wire::{Answer, Block, Marked, Request, Standing, Usage};
use crate::control::claims::MAX_CLAIMS;
use crate::policy::PolicyKind;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

const SEGMENT: u64 = 1000;
pub(super) const ALL: Marks = Marks {
    low_percent: Some(89),
    high_percent: Some(90),
    idle_ns: None,
};

/// Says otherwise than a server that agrees to everything.
type Otherwise = Box<dyn FnMut(&Request) -> Option<Result<Answer, Refusal>>>;

pub(super) struct Server {
    standing: Standing,
    /// Number and live bytes of each segment, which has a block for each 100.
    segments: Vec<(u32, u64)>,
    otherwise: Otherwise,
    asked: Vec<Request>,
    pub(super) slept: Vec<Duration>,
    pub(super) sleeps: usize,
    now_ns: u64,
}

#[derive(Clone)]
pub(super) struct Scripted(pub(super) Rc<RefCell<Server>>);

/// A block of `segment`, written the later the lower its number.
fn block(segment: u32, nth: u64) -> Block {
    Block {
        ino: 7.into(),
        block: nth.into(),
        byte: (u64::from(segment) * SEGMENT + nth * 100).into(),
        birth: 1.into(),
        written_ns: (100 - i64::from(segment)).into(),
        version: 1.into(),
        length: 100.into(),
    }
}

fn page(segments: &[(u32, u64)]) -> Vec<Usage> {
    let usage = |&(segment, live_bytes): &(u32, u64)| Usage {
        live_bytes: live_bytes.into(),
        newest_ns: 0.into(),
        segment: segment.into(),
        spare: 0.into(),
    };
    segments.iter().map(usage).collect()
}

impl Server {
    fn agree(&self, request: &Request) -> Answer {
        match request {
            Request::Wait { .. } => Answer::Standing(self.standing),
            Request::Usage { .. } => Answer::Usage {
                segments: page(&self.segments),
                next: None,
            },
            Request::Bmapv { segment, .. } => {
                let live = self.segments.iter().find(|(number, _)| number == segment);
                let blocks = 0..live.unwrap().1.div_ceil(100);
                Answer::Blocks {
                    blocks: blocks.map(|nth| block(*segment, nth)).collect(),
                    next: None,
                }
            }
            Request::Markv { blocks, .. } => Answer::Marked(Marked {
                done: (blocks.len() as u32).into(),
                moved: (blocks.len() as u32).into(),
                ..Marked::default()
            }),
            Request::Segclean { .. } | Request::Release { .. } | Request::Leave => Answer::Done,
        }
    }
}

impl Outside for Scripted {
    fn call(&mut self, id: u64, request: Request) -> Result<(u64, Answer), Refusal> {
        let mut server = self.0.borrow_mut();
        server.asked.push(request.clone());
        let answer = match (server.otherwise)(&request) {
            Some(answer) => answer?,
            None => server.agree(&request),
        };
        Ok((id.max(5), answer))
    }

    fn now_ns(&self) -> u64 {
        self.0.borrow().now_ns
    }

    fn sleep(&mut self, time: Duration) -> bool {
        let mut server = self.0.borrow_mut();
        server.slept.push(time);
        server.now_ns += time.as_nanos() as u64;
        server.slept.len() < server.sleeps
    }
}

/// A server with 100 segments, 10 of them clean; callers wait below 5.
pub(super) fn server(segments: &[(u32, u64)]) -> Scripted {
    Scripted(Rc::new(RefCell::new(Server {
        standing: Standing {
            clean: 10.into(),
            floor: 5.into(),
            low: 20.into(),
            high: 30.into(),
            used_bytes: 0.into(),
            idle_ns: 0.into(),
            now_ns: 1_000_000.into(),
            segment_bytes: SEGMENT.into(),
            segments: 100.into(),
            waiting: 0.into(),
        },
        segments: segments.to_vec(),
        otherwise: Box::new(|_| None),
        asked: Vec::new(),
        slept: Vec::new(),
        sleeps: usize::MAX,
        now_ns: 0,
    })))
}

impl Scripted {
    pub(super) fn client(&self, policy: PolicyKind, marks: Marks) -> Client<Scripted> {
        Client::new(self.clone(), policy, marks)
    }

    fn stands(&self, change: impl FnOnce(&mut Standing)) {
        change(&mut self.0.borrow_mut().standing);
    }

    pub(super) fn says(
        &self,
        otherwise: impl FnMut(&Request) -> Option<Result<Answer, Refusal>> + 'static,
    ) {
        self.0.borrow_mut().otherwise = Box::new(otherwise);
    }

    /// What has been asked since the last time, but how cleaning stands.
    pub(super) fn asked(&self) -> Vec<Request> {
        let mut asked = std::mem::take(&mut self.0.borrow_mut().asked);
        asked.retain(|request| !matches!(request, Request::Wait { .. }));
        asked
    }

    /// The segments that were looked into since the last time.
    fn looked_into(&self) -> Vec<u32> {
        let looked = |request: &Request| match request {
            Request::Bmapv { segment, .. } => Some(*segment),
            _ => None,
        };
        self.asked().iter().filter_map(looked).collect()
    }
}

fn is_to_move(request: &Request) -> bool {
    matches!(request, Request::Markv { .. })
}

#[test]
fn a_step_claims_moves_and_declares_one_segment() {
    let server = server(&[(3, 500), (4, 200)]);
    let mut client = server.client(PolicyKind::GREEDY, ALL);
    assert_eq!(client.step(false), Ok(Step::Worked));
    let moves = Request::Markv {
        sorted: false,
        blocks: vec![block(4, 0), block(4, 1)],
    };
    assert_eq!(
        server.asked(),
        [
            Request::Usage { from: 0 },
            Request::Bmapv {
                segment: 4,
                from: 0
            },
            moves,
            Request::Segclean { segment: 4 },
        ]
    );
    let done = Done {
        segments: 1,
        blocks: 2,
        ..Done::default()
    };
    assert_eq!(client.done(), done);
    // What was chosen is used up before anything is chosen anew.
    assert_eq!(client.step(false), Ok(Step::Worked));
    assert_eq!(server.looked_into(), [3]);
    assert_eq!(client.done().segments, 2);
}

#[test]
fn as_many_as_the_policy_sorts_are_moved_together_and_the_oldest_first() {
    let segments: Vec<(u32, u64)> = (1..=20).map(|number| (number, 400)).collect();
    let server = server(&segments);
    let mut client = server.client(PolicyKind::COST_BENEFIT, ALL);
    client.step(false).unwrap();
    let asked = server.asked();
    let moved: Vec<&Block> = asked
        .iter()
        .filter_map(|request| match request {
            Request::Markv { sorted, blocks } => Some((*sorted, blocks)),
            _ => None,
        })
        .inspect(|(sorted, _)| assert!(sorted))
        .flat_map(|(_, blocks)| blocks)
        .collect();
    let together = PolicyKind::COST_BENEFIT.policy().sorted_segments() * SEGMENT;
    let count = together.div_ceil(400).min(MAX_CLAIMS as u64);
    assert_eq!(moved.len() as u64, 4 * count);
    assert!(moved.is_sorted_by_key(|block| block.written_ns.get()));
    assert_eq!(client.done().segments, count);

    // No more than may be claimed, however little lives in each.
    let segments: Vec<(u32, u64)> = (1..=20).map(|number| (number, 1)).collect();
    let server = self::server(&segments);
    let mut client = server.client(PolicyKind::COST_BENEFIT, ALL);
    client.step(false).unwrap();
    assert_eq!(client.done().segments, MAX_CLAIMS as u64);
}

#[test]
fn segments_that_others_have_are_passed_over() {
    let server = server(&[(1, 100), (2, 200), (3, 300)]);
    server.says(|request| match request {
        Request::Bmapv { segment: 1, .. } => Some(Err(Refusal::NotThis)),
        Request::Segclean { segment: 3 } => Some(Err(Refusal::NotThis)),
        _ => None,
    });
    let mut client = server.client(PolicyKind::GREEDY, ALL);
    client.step(false).unwrap();
    let bmapv = Request::Bmapv {
        segment: 1,
        from: 0,
    };
    assert_eq!(server.asked()[1..], [bmapv]);
    assert_eq!((client.done().left, client.done().segments), (1, 0));
    client.step(false).unwrap();
    assert_eq!((client.done().left, client.done().segments), (1, 1));
    // What still lives is let go of.
    client.step(false).unwrap();
    let release = Request::Release { segment: 3 };
    assert_eq!(server.asked().last(), Some(&release));
    assert_eq!((client.done().left, client.done().segments), (2, 1));
}

#[test]
fn a_segment_with_damage_is_let_go_of_and_not_declared() {
    let server = server(&[(1, 300)]);
    server.says(|request| {
        let damaged = Marked {
            damaged: 1.into(),
            ..Marked::default()
        };
        is_to_move(request).then_some(Ok(Answer::Marked(damaged)))
    });
    let mut client = server.client(PolicyKind::GREEDY, ALL);
    assert_eq!(client.step(false), Ok(Step::Worked));
    assert_eq!(
        server.asked().last(),
        Some(&Request::Release { segment: 1 })
    );
    let done = Done {
        left: 1,
        damaged: 1,
        ..Done::default()
    };
    assert_eq!(client.done(), done);
}

#[test]
fn what_a_server_did_not_deal_with_is_sent_again() {
    let server = server(&[(1, 300)]);
    server.says(|request| {
        let one = Marked {
            done: 1.into(),
            moved: 1.into(),
            ..Marked::default()
        };
        is_to_move(request).then_some(Ok(Answer::Marked(one)))
    });
    let mut client = server.client(PolicyKind::GREEDY, ALL);
    client.step(false).unwrap();
    let sent = server.asked().into_iter().filter(is_to_move);
    let left = |request| match request {
        Request::Markv { blocks, .. } => blocks.len(),
        _ => 0,
    };
    assert_eq!(sent.map(left).collect::<Vec<_>>(), [3, 2, 1]);
    assert_eq!((client.done().blocks, client.done().segments), (3, 1));

    // Nothing, or more than was asked for, is no answer: all is let go of.
    for dealt in [0, 4] {
        let server = self::server(&[(1, 300)]);
        server.says(move |request| {
            let marked = Marked {
                done: dealt.into(),
                ..Marked::default()
            };
            is_to_move(request).then_some(Ok(Answer::Marked(marked)))
        });
        let mut client = server.client(PolicyKind::GREEDY, ALL);
        let refused = client.step(false);
        assert!(matches!(refused, Err(Refusal::Failed(_))), "{refused:?}");
        let release = Request::Release { segment: 1 };
        assert_eq!(server.asked().last(), Some(&release));
        assert_eq!(client.done(), Done::default());
    }
}

#[test]
fn lists_are_asked_for_page_by_page_and_a_page_that_leads_back_is_the_last() {
    let server = server(&[(1, 100), (2, 100)]);
    server.says(|request| match *request {
        Request::Usage { from } => {
            let (segments, next) = match from {
                0 => (page(&[(1, 100)]), Some(2)),
                _ => (page(&[(2, 200)]), Some(2)),
            };
            Some(Ok(Answer::Usage { segments, next }))
        }
        Request::Bmapv { segment, from } => {
            let (blocks, next) = (vec![block(segment, from.into())], Some(from.max(1)));
            Some(Ok(Answer::Blocks { blocks, next }))
        }
        _ => None,
    });
    let mut client = server.client(PolicyKind::GREEDY, ALL);
    client.step(false).unwrap();
    client.step(false).unwrap();
    let bmapv = |segment, from| Request::Bmapv { segment, from };
    let moves = |segment| Request::Markv {
        sorted: false,
        blocks: vec![block(segment, 0), block(segment, 1)],
    };
    assert_eq!(
        server.asked(),
        [
            Request::Usage { from: 0 },
            Request::Usage { from: 2 },
            bmapv(1, 0),
            bmapv(1, 1),
            moves(1),
            Request::Segclean { segment: 1 },
            bmapv(2, 0),
            bmapv(2, 1),
            moves(2),
            Request::Segclean { segment: 2 },
        ]
    );
}

#[test]
fn what_gives_back_less_than_an_eighth_is_dear_and_under_pressure_a_sixteenth() {
    // The first is empty: checkpoints will find it so.
    let segments = [(1, 0), (2, 875), (3, 876), (4, 937), (5, 938)];
    for (clean, chosen) in [(10, vec![2]), (6, vec![2, 3, 4])] {
        let server = server(&segments);
        server.stands(|standing| standing.clean = clean.into());
        let mut client = server.client(PolicyKind::GREEDY, ALL);
        for _ in &chosen {
            assert_eq!(client.step(false), Ok(Step::Worked));
        }
        assert_eq!(server.looked_into(), chosen, "{clean} clean");
    }
}

#[test]
fn the_mounts_marks_hold_unless_others_are_given() {
    let begins = |marks: Marks, clean: u64| {
        let server = server(&[(1, 100)]);
        server.stands(|standing| standing.clean = clean.into());
        server.client(PolicyKind::GREEDY, marks).step(false)
    };
    let (work, enough) = (Ok(Step::Worked), Ok(Step::Enough));
    assert_eq!(begins(Marks::default(), 19), work);
    assert_eq!(begins(Marks::default(), 20), enough);
    let low = Marks {
        low_percent: Some(25),
        ..Marks::default()
    };
    assert_eq!((begins(low, 24), begins(low, 25)), (work, enough));
    // A high mark below the low one is one above it.
    let crossed = Marks {
        low_percent: Some(25),
        high_percent: Some(3),
        idle_ns: Some(0),
    };
    let (work, enough) = (Ok(Step::Worked), Ok(Step::Enough));
    assert_eq!((begins(crossed, 25), begins(crossed, 26)), (work, enough));
}

#[test]
fn idle_work_ends_when_somebody_comes() {
    let idle = Marks {
        idle_ns: Some(50),
        ..Marks::default()
    };
    let step = |clean: u64, idle_ns: u64, then_ns: u64| {
        let server = server(&[(1, 300)]);
        server.stands(|standing| {
            (standing.clean, standing.idle_ns) = (clean.into(), idle_ns.into());
        });
        // Somebody comes while the segment is looked into.
        let mut standing = server.0.borrow().standing;
        server.says(move |request| {
            let waits = matches!(request, Request::Wait { .. });
            let before = standing;
            if waits {
                standing.idle_ns = then_ns.into();
            }
            waits.then_some(Ok(Answer::Standing(before)))
        });
        let mut client = server.client(PolicyKind::GREEDY, idle);
        let outcome = client.step(false);
        (outcome, client.done().segments)
    };
    assert_eq!(step(25, 49, 49), (Ok(Step::Enough), 0));
    assert_eq!(step(25, 50, 50), (Ok(Step::Worked), 1));
    assert_eq!(step(25, 50, 49), (Ok(Step::Worked), 0));
    // Below the low mark it goes on all the same.
    assert_eq!(step(19, 50, 0), (Ok(Step::Worked), 1));
    assert_eq!(step(20, 50, 0), (Ok(Step::Worked), 0));
}

#[test]
fn a_cleaner_that_was_forgotten_begins_anew_and_leaves_at_the_end() {
    let server = server(&[(1, 300)]);
    let mut markvs = 0;
    server.says(move |request| {
        markvs += u32::from(is_to_move(request));
        let forgotten = is_to_move(request) && markvs == 1;
        forgotten.then_some(Err(Refusal::Forgotten))
    });
    server.0.borrow_mut().sleeps = 2;
    let mut client = server.client(PolicyKind::GREEDY, ALL);
    assert_eq!(client.run(false), Ok(()));
    let asked = server.asked();
    let chosen = asked.iter().filter(|r| matches!(r, Request::Usage { .. }));
    assert_eq!(chosen.count(), 2, "{asked:?}");
    assert_eq!(asked.last(), Some(&Request::Leave));
    assert_eq!(client.done().segments, 1);
}

#[test]
fn who_is_refused_for_now_asks_again_a_hundred_times() {
    let server = server(&[(1, 300)]);
    server.says(|request| is_to_move(request).then_some(Err(Refusal::Again)));
    let mut client = server.client(PolicyKind::GREEDY, ALL);
    assert_eq!(client.step(false), Ok(Step::Worked));
    let moves = server.asked().into_iter().filter(is_to_move).count();
    assert_eq!((moves, client.done().left), (100, 1));
    let server = server.0.borrow();
    assert_eq!(server.slept, [Duration::from_millis(10); 100]);
}

#[test]
fn without_more_to_do_it_looks_again_or_ends() {
    for (once, slept) in [(false, 3), (true, 0)] {
        let server = server(&[]);
        server.0.borrow_mut().sleeps = 3;
        let mut client = server.client(PolicyKind::GREEDY, ALL);
        assert_eq!(client.run(once), Ok(()));
        let server = server.0.borrow();
        assert_eq!(server.slept, vec![Duration::from_millis(200); slept]);
    }
}
