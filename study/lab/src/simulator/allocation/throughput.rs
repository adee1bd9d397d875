//! The application and the sequential test (§3.2), event by event.
//!
//! A user asks, waits until all his bytes have been moved, and asks again after
//! a pause. A request for bytes that are not contiguous is one after the other.
//! The test ends when throughput is stable, when its time is over, or when a
//! request for room is refused: a full volume would distort what is measured.

use super::array::{Agenda, Bench, Event};
use super::requests::{Ask, Requests};
use super::{Assumptions, Load, OutOfRoom, Pattern, PolicyKind, Population};
use varve_disk::Access;

/// What is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Test {
    /// The workload's requests.
    Application,
    /// Files are read and written in their entirety.
    Sequential,
}

/// Why a test ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ending {
    /// Throughput was stable.
    Stable,
    /// Its time was over.
    Time,
    /// A request for room was refused.
    Full,
}

/// What a throughput test found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Throughput {
    /// Of what the drives can sustain.
    pub share: f64,
    /// Why it ended.
    pub ending: Ending,
    /// Simulated seconds.
    pub seconds: f64,
    /// Requests of users.
    pub requests: u64,
}

/// What a user has still to move: transfers from the last to the first.
#[derive(Debug, Default, Clone)]
struct Todo(Vec<(Access, u64, u64)>);

struct Run<'a> {
    test: Test,
    assumed: &'a Assumptions,
    population: Population,
    requests: Requests,
    bench: Bench,
    agenda: Agenda,
    todo: Vec<Todo>,
    located: Vec<(u64, u64)>,
    count: u64,
}

/// Runs a test on a new population; `None` if there is no room for it.
pub fn throughput(
    load: Load,
    policy: PolicyKind,
    test: Test,
    assumed: &Assumptions,
    seed: u64,
) -> Option<Throughput> {
    let (population, made) = Population::new(load, policy, assumed, seed);
    made.ok()?;
    let requests = Requests::new(&population, seed);
    let users = requests.users() * assumed.users as usize;
    let run = Run {
        test,
        assumed,
        bench: Bench::new(assumed, users, seed),
        requests,
        population,
        agenda: Agenda::default(),
        todo: vec![Todo::default(); users],
        located: Vec::new(),
        count: 0,
    };
    Some(run.until_the_end())
}

impl Run<'_> {
    fn until_the_end(mut self) -> Throughput {
        for user in 0..self.todo.len() {
            // Users do not begin at one moment.
            let begin_ns = self.requests.below(1_000_000_000);
            self.agenda.at(begin_ns, Event::User(user));
        }
        let limit_ns = self.assumed.limit_s * 1_000_000_000;
        let mut now_ns = 0;
        let mut ending = None;
        while ending.is_none() {
            let Some((time_ns, event)) = self.agenda.next() else {
                break;
            };
            now_ns = time_ns;
            if self.bench.moved().is_stable(now_ns) {
                ending = Some(Ending::Stable);
            } else if now_ns >= limit_ns {
                ending = Some(Ending::Time);
            } else if self.happen(now_ns, event).is_err() {
                ending = Some(Ending::Full);
            }
        }
        let rate = self.bench.moved().bytes_per_s(now_ns);
        Throughput {
            share: rate / self.assumed.max_bytes_per_s(),
            ending: ending.unwrap_or(Ending::Time),
            seconds: now_ns as f64 / 1e9,
            requests: self.count,
        }
    }

    fn happen(&mut self, now_ns: u64, event: Event) -> Result<(), OutOfRoom> {
        let ready = match event {
            Event::User(user) => Some(user),
            Event::Drive(drive) => self.bench.ended(drive, &mut self.agenda),
        };
        let Some(user) = ready else { return Ok(()) };
        if let Some(transfer) = self.todo[user].0.pop() {
            self.bench.ask(now_ns, user, transfer, &mut self.agenda);
            return Ok(());
        }
        match event {
            // Its bytes are moved: it pauses.
            Event::Drive(_) => {
                let pause_ns = self.requests.pause_ns(self.assumed.think_ns);
                self.agenda.at(now_ns + pause_ns, Event::User(user));
            }
            Event::User(_) => {
                self.request(user)?;
                // What moves nothing takes a pause as well, and if there is
                // none, no time.
                let pause_ns = match self.todo[user].0.is_empty() {
                    true => self.requests.pause_ns(self.assumed.think_ns),
                    false => 0,
                };
                self.agenda.at(now_ns + pause_ns, Event::User(user));
            }
        }
        Ok(())
    }

    /// A user's next request: what it changes is changed, what it moves is
    /// still to be moved.
    fn request(&mut self, user: usize) -> Result<(), OutOfRoom> {
        self.count += 1;
        let (file, ask) = self.requests.next();
        if self.test == Test::Sequential {
            let access = match ask {
                Ask::Write => Access::Write,
                _ => Access::Read,
            };
            let all = self.population.files[file].bytes;
            self.transfer(user, access, file, 0..all);
            return Ok(());
        }
        if ask == Ask::Delete {
            self.population.delete(file);
            return Ok(());
        }
        let new = self.population.files[file].bytes == 0;
        if new {
            self.population.create(file)?;
        }
        let kind = self.population.types[self.population.files[file].kind];
        let bytes = self.population.draw(kind.request_bytes);
        let all = self.population.files[file].bytes;
        match ask {
            Ask::Extend => {
                self.population.extend(file, bytes)?;
                self.transfer(user, Access::Write, file, all..all + bytes);
            }
            Ask::Truncate => self.population.truncate(file, bytes),
            Ask::Read | Ask::Write => {
                let access = match ask {
                    Ask::Write => Access::Write,
                    _ => Access::Read,
                };
                let range = self.range(file, kind.pattern, kind.request_bytes, bytes);
                self.transfer(user, access, file, range);
            }
            Ask::Delete => {}
        }
        if new {
            // Last, as the last is moved first.
            self.transfer(user, Access::Write, file, 0..all);
        }
        Ok(())
    }

    fn range(
        &mut self,
        file: usize,
        pattern: Pattern,
        mean: u64,
        bytes: u64,
    ) -> std::ops::Range<u64> {
        let file = &mut self.population.files[file];
        let begin = match pattern {
            Pattern::Whole => return 0..file.bytes,
            Pattern::Random => self.requests.below(file.bytes.div_ceil(mean)) * mean,
            Pattern::Sequential if file.position < file.bytes => file.position,
            Pattern::Sequential => 0,
        };
        let end = (begin + bytes).min(file.bytes);
        file.position = end;
        begin..end
    }

    fn transfer(&mut self, user: usize, access: Access, file: usize, range: std::ops::Range<u64>) {
        self.located.clear();
        let bytes = range.end - range.start;
        self.population
            .locate(file, range.start, bytes, &mut self.located);
        let runs = self.located.iter().rev();
        let transfers = runs.map(|(offset, bytes)| (access, *offset, *bytes));
        self.todo[user].0.extend(transfers);
    }
}
