//! What a worker does for the console and the metrics.

use std::time::{Duration, Instant};

use crate::client::{Claim, Client, Phase};
use crate::console::{Console, Visitor};
use crate::control::{Action, Ask, is_console};
use crate::dial::place as place_of;
use crate::messages::Refusal;
use crate::report::{ClientReport, PoolReport, Report, ServerReport, SessionReport};
use crate::session::Session;
use crate::{ClientId, Exposures, Level, Options, Pin};

use super::{Timer, Worker};

/// Longest that clients are made to wait for barrier sessions to be opened anew.
const HOLD: Duration = Duration::from_secs(1);

impl Worker {
    /// A client as the console knows it, unique for the life of the gateway.
    fn client_number(&self, id: ClientId) -> u64 {
        u64::from(id.serial) << 8 | u64::from(self.number)
    }

    /// Says how it is.
    pub(super) fn report(&self, ask: Ask) {
        let mut report = Report {
            pools: self.pools.iter().map(|pool| self.report_pool(pool)).collect(),
            servers: (0..self.upstreams.len()).map(|of| self.report_server(of)).collect(),
            closes: self.closes || self.drains,
            ..Report::default()
        };
        let mut withheld: Vec<usize> = vec![0; self.pools.len()];
        let lives = self.upstreams.iter().filter_map(|of| of.life.as_ref());
        for (_, id, _) in lives.flat_map(|life| &life.flushers).flat_map(|of| &of.withheld) {
            let client = self.clients.get(id.place).filter(|client| client.id == *id);
            if let Some(pool) = client.and_then(|client| client.pool) {
                withheld[pool] += 1;
            }
        }
        for (of, withheld) in report.pools.iter_mut().zip(withheld) {
            of.withheld = withheld;
        }
        for (_, client) in &self.clients {
            match (client.pool, &client.phase) {
                (Some(pool), Phase::Ready | Phase::Arriving) => {
                    let of = &mut report.pools[pool];
                    if client.waits || matches!(client.phase, Phase::Arriving) {
                        let since = client.waits_since.unwrap_or(client.since);
                        of.longest = of.longest.max(self.now - since);
                        of.waiting += 1;
                    } else {
                        of.active += 1;
                    }
                    if let Some(pin) = client.pinned {
                        of.pinned[pin as usize] += 1;
                    }
                    if ask.details {
                        report.clients.push(self.report_client(client));
                    }
                }
                _ => report.logging_in += 1,
            }
        }
        for (_, session) in &self.sessions {
            let of = &mut report.pools[session.pool];
            if session.cancelling.is_some() {
                of.cancelling += 1;
            } else if session.is_idle() {
                of.idle += 1;
            } else {
                of.used += 1;
            }
            of.retiring += usize::from(session.retires);
            of.stats.server_parses += session.parses;
            if ask.details {
                report.sessions.push(self.report_session(session));
            }
        }
        // Who asked may have stopped waiting.
        let _ = ask.answer.send((self.number as usize, report));
    }

    fn report_pool(&self, pool: &super::Pool) -> PoolReport {
        PoolReport {
            database: pool.key.database.clone(),
            user: pool.key.user.clone(),
            mode: pool.pooling.mode,
            paused: pool.paused,
            stats: pool.stats.clone(),
            active: 0,
            waiting: 0,
            longest: Duration::ZERO,
            pinned: [0; Pin::ALL.len()],
            withheld: 0,
            used: 0,
            cancelling: 0,
            idle: 0,
            opening: pool.relaxed.opening + pool.synchronous.opening,
            retiring: 0,
        }
    }

    fn report_server(&self, place: usize) -> ServerReport {
        let of = &self.upstreams[place];
        let flushers = || of.life.iter().flat_map(|life| life.flushers.iter().enumerate());
        let out =
            |barrier: usize| of.life.as_ref().is_some_and(|life| life.barriers.is_out(barrier));
        let silent = flushers().filter(|(barrier, _)| out(*barrier));
        ServerReport {
            place,
            address: of.server.addresses.iter().map(place_of).collect::<Vec<_>>().join(","),
            barriers: of.life.as_ref().map(|life| life.flushers.len()),
            trouble: of.trouble.clone(),
            silent: silent.map(|(_, flusher)| self.now - flusher.sent).max(),
            withheld: flushers().map(|(_, flusher)| flusher.withheld.len()).sum(),
            exposed: of.exposures.count(),
            retiring: of.retires,
            stats: of.stats.clone(),
        }
    }

    fn report_client(&self, client: &Client) -> ClientReport {
        let key = client.pool.map(|pool| &self.pools[pool].key);
        let waits = client.waits || matches!(client.phase, Phase::Arriving);
        let state = match client {
            _ if waits => "waiting",
            _ if client.in_flight > 0 || client.owned.is_some() => "active",
            _ if !client.answers.is_empty() => "active",
            _ => "idle",
        };
        let (address, local) = client.stream.addresses();
        let session = client.owned.and_then(|place| self.sessions.get(place));
        ClientReport {
            id: self.client_number(client.id),
            database: key.map(|key| key.database.clone()).unwrap_or_default(),
            user: key.map(|key| key.user.clone()).unwrap_or_default(),
            state,
            address,
            local,
            age: self.now - client.since,
            request: self.now - client.sent_at,
            wait: client.waits_since.map_or(Duration::ZERO, |since| self.now - since),
            link: session.map(|session| self.session_number(session)),
            tls: client.stream.tls().map(crate::tls::TlsStream::version).unwrap_or_default(),
            application_name: client.application_name.as_deref().unwrap_or_default().to_owned(),
            prepared: client.statements.len(),
        }
    }

    fn session_number(&self, session: &Session) -> u64 {
        u64::from(session.id.serial) << 8 | u64::from(self.number)
    }

    fn report_session(&self, session: &Session) -> SessionReport {
        let key = &self.pools[session.pool].key;
        let state = match session {
            _ if session.cancelling.is_some() => "being_canceled",
            _ if session.is_idle() => "idle",
            _ => "active",
        };
        let (host, port) = match &session.cancels {
            Some(cancels) => match &cancels.0.host {
                walwright_wire::Host::Unix(_) => ("unix".to_owned(), cancels.0.port),
                walwright_wire::Host::Tcp(host) => (host.clone(), cancels.0.port),
            },
            None => (String::new(), 0),
        };
        SessionReport {
            id: self.session_number(session),
            database: key.database.clone(),
            user: key.user.clone(),
            state,
            kind: session.kind,
            host,
            port,
            age: self.now - session.since,
            request: self.now - session.used,
            retires: session.retires,
            link: session.owner.map(|owner| self.client_number(owner)),
            process: session.process,
            prepared: session.prepared(),
        }
    }

    /// Does what the console asks for.
    pub(super) fn act(&mut self, action: Action) {
        self.paused.note(&action);
        match action {
            Action::Pause(database) => self.pause(database.as_deref()),
            Action::Resume(database) => self.resume(database.as_deref()),
            Action::Kill(database) => {
                self.pause(database.as_deref());
                let pools = self.pools_of(database.as_deref());
                let of = |pool: usize| pools.contains(&pool);
                let sessions = self.sessions.iter().filter(|(_, session)| of(session.pool));
                let sessions: Vec<usize> = sessions.map(|(place, _)| place).collect();
                let clients = self.clients.iter().filter(|(_, client)| client.pool.is_some_and(of));
                let clients: Vec<ClientId> = clients.map(|(_, client)| client.id).collect();
                for id in clients {
                    self.dismiss(id, "57P01", "administrator command");
                }
                self.lost.extend(sessions);
            }
            Action::KillClient(number) => {
                let mut all = self.clients.iter().map(|(_, client)| client.id);
                if let Some(id) = all.find(|id| self.client_number(*id) == number) {
                    self.dismiss(id, "57P01", "administrator command");
                }
            }
            Action::Reconnect(database) => self.reconnect(database.as_deref()),
            Action::Reload(options) => self.reload(options),
            Action::Close => self.closes = true,
            Action::Disable(_) | Action::Enable(_) => {}
        }
    }

    fn pools_of(&self, database: Option<&str>) -> Vec<usize> {
        let is = |pool: &super::Pool| database.is_none_or(|name| pool.key.database == name);
        let pools = self.pools.iter().enumerate().filter(|(_, pool)| is(pool));
        pools.map(|(place, _)| place).collect()
    }

    fn pause(&mut self, database: Option<&str>) {
        for pool in self.pools_of(database) {
            self.pools[pool].paused = true;
            self.retire_sessions(|of| of == pool);
        }
        if database.is_none() {
            // Nothing is to be left open to a server that is about to be stopped.
            self.upstreams.iter_mut().for_each(|of| of.retires = of.life.is_some());
        }
    }

    fn resume(&mut self, database: Option<&str>) {
        if database.is_none() {
            self.upstreams.iter_mut().for_each(|of| of.retires = false);
        }
        for pool in self.pools_of(database) {
            let of = &mut self.pools[pool];
            of.paused = self.paused.holds(&of.key.database);
            if of.paused {
                continue;
            }
            of.failed = None;
            // What was waited for meanwhile counts for no limit.
            let now = self.now;
            let clients = self.clients.iter_mut().filter(|(_, of)| of.pool == Some(pool));
            let mut waiting = Vec::new();
            for (_, client) in clients {
                if client.waits_since.is_some() {
                    client.waits_since = Some(now);
                    waiting.push(client.id);
                } else if matches!(client.phase, Phase::Arriving) {
                    client.since = now;
                    waiting.push(client.id);
                }
            }
            waiting.into_iter().for_each(|id| self.arm(id));
        }
        for upstream in 0..self.upstreams.len() {
            self.serve_pools(upstream);
            self.look_for_server(upstream);
        }
    }

    /// Closes sessions as soon as nobody needs them.
    pub(super) fn retire_sessions(&mut self, pool: impl Fn(usize) -> bool) {
        let sessions = self.sessions.iter().filter(|(_, session)| pool(session.pool));
        let sessions: Vec<usize> = sessions.map(|(place, _)| place).collect();
        sessions.into_iter().for_each(|place| self.retire_session(place));
    }

    pub(super) fn retire_session(&mut self, place: usize) {
        if let Some(session) = self.sessions.get_mut(place) {
            session.retires = true;
            if session.is_idle() {
                self.lost.push(place);
            }
        }
    }

    /// All sessions of a server belong to one life of it, so all are opened anew together.
    fn reconnect(&mut self, database: Option<&str>) {
        let pools = self.pools_of(database);
        for upstream in 0..self.upstreams.len() {
            let concerns = |pool: &usize| self.pools[*pool].upstream == upstream;
            let of = &self.upstreams[upstream];
            if of.life.is_none() || database.is_some() && !pools.iter().any(concerns) {
                continue;
            }
            let pools: Vec<usize> = self.pools_of(None).into_iter().filter(concerns).collect();
            self.retire_sessions(|pool| pools.contains(&pool));
            let until = self.now + HOLD;
            let of = &mut self.upstreams[upstream];
            (of.retires, of.holds) = (true, Some(until));
            self.timers.push(std::cmp::Reverse((until, Timer::Hold(upstream))));
        }
    }

    /// Whether clients of a pool without a session are made to wait.
    pub(super) fn holds(&self, pool: usize) -> bool {
        let pool = &self.pools[pool];
        pool.paused || self.upstreams[pool.upstream].holds.is_some()
    }

    /// Clients have waited long enough for new barrier sessions.
    pub(super) fn end_hold(&mut self, upstream: usize) {
        let of = &mut self.upstreams[upstream];
        if of.holds.take_if(|until| *until <= self.now).is_some() {
            // Who pauses all goes on waiting for it.
            of.retires = self.paused.all;
            tracing::warn!(
                "the barrier session is kept: clients still use sessions beside it; RECONNECT once more when they have ended"
            );
            self.serve_pools(upstream);
        }
    }

    /// A server that was lost is looked for though nobody waits for it: whoever asks about its
    /// health is to hear when it is back.
    pub(super) fn look_for_server(&mut self, upstream: usize) {
        let of = &self.upstreams[upstream];
        if of.trouble.is_some() && of.life.is_none() && !self.paused.all && !self.drains {
            self.open_life(upstream);
        }
    }

    /// Ends lives of servers that are to end once nothing needs them; whether one did.
    pub(super) fn settle(&mut self) -> bool {
        let mut any = false;
        for upstream in 0..self.upstreams.len() {
            if self.upstreams[upstream].retires && self.is_settled(upstream) {
                self.end_life(upstream);
                any = true;
            }
        }
        any
    }

    fn is_settled(&self, upstream: usize) -> bool {
        let Some(life) = &self.upstreams[upstream].life else { return false };
        let is_used = self.pools.iter().filter(|pool| pool.upstream == upstream).any(|pool| {
            [&pool.relaxed, &pool.synchronous]
                .iter()
                .any(|side| !side.sessions.is_empty() || side.opening > 0)
        });
        let quiet = |(barrier, flusher): (usize, &super::Flusher)| {
            flusher.withheld.is_empty() && !life.barriers.is_out(barrier)
        };
        !is_used && life.flushers.iter().enumerate().all(quiet)
    }

    /// A gateway that was there before has gone: the next barriers cover what it left.
    pub(super) fn cover_others(&mut self) {
        for upstream in 0..self.upstreams.len() {
            self.inherit(upstream, Exposures::OTHERS);
        }
    }

    fn reload(&mut self, options: std::sync::Arc<Options>) {
        for of in &mut self.upstreams {
            // Users, passwords and TLS may be others now.
            let same = options.databases.iter().find(|at| at.server.is_same(&of.server));
            if let Some(database) = same {
                of.server = database.server.clone();
            }
        }
        let (mut moved, now) = (vec![false; self.pools.len()], Instant::now());
        for (pool, moved) in self.pools.iter_mut().zip(&mut moved) {
            if let Some(database) = options.database(&pool.key.database)
                && self.upstreams[pool.upstream].server.is_same(&database.server)
            {
                pool.pooling = options.pooling_of(database, &pool.key.user);
                // Sessions that logged in otherwise are another database, or have other rights.
                *moved = !pool.database.logs_in_as(database);
                if *moved {
                    // How it commits there is not known yet.
                    (pool.moved, pool.relearns) = (Some(now), Some(now));
                    pool.level = Some(Level::RemoteApply);
                }
                pool.database = database.clone();
            }
        }
        self.retire_sessions(|pool| moved[pool]);
        self.options = options;
        for pool in (0..self.pools.len()).filter(|pool| moved[*pool]) {
            if self.pools[pool].welcome.is_some() {
                self.learn_level(pool);
            }
        }
        self.note_limits();
        // Limits may end now who is there already.
        let clients: Vec<ClientId> = self.clients.iter().map(|(_, client)| client.id).collect();
        clients.into_iter().for_each(|id| self.arm(id));
        let sessions: Vec<usize> = self.sessions.iter().map(|(place, _)| place).collect();
        sessions.into_iter().for_each(|place| self.arm_session(place));
    }

    // The console's clients.

    /// Whether a client asks for the console and may use it.
    pub(super) fn is_for_console(&self, claim: &Claim) -> bool {
        is_console(&claim.database) && self.may_use_console(&claim.user)
    }

    fn may_use_console(&self, user: &str) -> bool {
        let named = |users: &[String]| users.iter().any(|of| of == user);
        named(&self.options.admin_users) || named(&self.options.stats_users)
    }

    pub(super) fn arrive_at_console(&mut self, id: ClientId, claim: Claim) {
        if !self.may_use_console(&claim.user) {
            let what = format!("user \"{}\" may not use the console", claim.user);
            let hint = "admin_users and stats_users name who may";
            return self.refuse(id, &Refusal::fatal("28000", &what).hint(hint));
        }
        if let Some(client) = self.client(id) {
            client.phase = Phase::Console(claim);
            self.for_console.push(id);
        }
    }

    /// A client of the console leaves the worker: it blocks a thread of its own.
    pub(super) fn hand_to_console(&mut self, id: ClientId) {
        if self.client(id).is_none() {
            return;
        }
        let mut client = self.clients.remove(id.place);
        self.shared.census.remove_client();
        // It is registered elsewhere next, or closed.
        let _ = mio::event::Source::deregister(&mut client.stream, self.poll.registry());
        let Phase::Console(claim) = client.phase else { return };
        let visitor = Visitor {
            is_admin: self.options.admin_users.contains(&claim.user),
            user: claim.user,
            stream: client.stream,
            input: client.carry,
            output: client.answers.ready().to_vec(),
        };
        Console::open(visitor, self.shared.control.clone());
    }

    // The log.

    pub(super) fn note_login(&mut self, id: ClientId) {
        let Some(client) = self.clients.get(id.place) else { return };
        let Some(pool) = client.pool else { return };
        let number = self.client_number(id);
        let pool = &mut self.pools[pool];
        pool.stats.logins += 1;
        tracing::info!(
            client = number,
            user = pool.key.user,
            database = pool.key.database,
            address = client.stream.addresses().0.map(tracing::field::display),
            application_name = client.application_name.as_deref(),
            tls = client.stream.tls().is_some(),
            "a client logged in"
        );
    }

    pub(super) fn note_leaving(&self, client: &Client) {
        let Some(pool) = client.pool else { return };
        let key = &self.pools[pool].key;
        tracing::info!(
            client = self.client_number(client.id),
            user = key.user,
            database = key.database,
            seconds = (Instant::now() - client.since).as_secs_f64(),
            "a client left"
        );
    }

    pub(super) fn note_refusal(&self, id: ClientId, refusal: &Refusal<'_>) {
        let Some(client) = self.clients.get(id.place) else { return };
        let key = client.pool.map(|pool| &self.pools[pool].key);
        let claimed = match &client.phase {
            Phase::Claiming(claim) | Phase::Proving(claim, _) => Some(claim.user.as_str()),
            _ => key.map(|key| key.user.as_str()),
        };
        tracing::info!(
            client = self.client_number(id),
            user = claimed,
            database = key.map(|key| key.database.as_str()),
            address = client.stream.addresses().0.map(tracing::field::display),
            sqlstate = refusal.code,
            reason = refusal.message,
            "a client is refused or told to leave"
        );
    }
}
