//! Findings over time: which appear, which are gone.

use serde::{Deserialize, Serialize};
use walwright_diagnose::Kind;
use walwright_record::{Timestamp, Window};

use crate::event::{Event, EventKind, FindingOf};

/// Diagnoses in which a finding has to be before it appears, of those that come one after
/// another but for one.
const TO_APPEAR: u32 = 2;
/// Diagnoses in a row without it before it is gone.
const TO_GO: u32 = 3;

/// What a diagnosis found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Seen {
    /// Over which stretch.
    pub window: Window,
    /// The whole in one or two sentences.
    pub verdict: String,
    /// The findings, as they were ranked.
    pub findings: Vec<FindingOf>,
}

/// Follows findings from diagnosis to diagnosis.
///
/// A finding appears when it was found a second time, with at most one diagnosis without it in
/// between, and is gone after three diagnoses without it: one that comes and goes with the load is
/// told once.
#[derive(Debug, Default)]
pub struct Tracker {
    known: Vec<Tracked>,
}

#[derive(Debug)]
struct Tracked {
    finding: FindingOf,
    first: Timestamp,
    last: Timestamp,
    found: u32,
    missed: u32,
    appeared: bool,
}

impl Tracker {
    /// Takes the next diagnosis; what has appeared and what is gone by it.
    pub fn take(&mut self, seen: &Seen) -> Vec<Event> {
        let mut events = Vec::new();
        let at = seen.window.end;
        let followed = seen.findings.iter().filter(|of| of.kind != Kind::Information);
        for finding in followed.clone() {
            let known = self.known.iter_mut().find(|of| of.finding.key() == finding.key());
            let Some(known) = known else {
                self.known.push(Tracked {
                    finding: finding.clone(),
                    first: seen.window.start,
                    last: at,
                    found: 1,
                    missed: 0,
                    appeared: false,
                });
                continue;
            };
            known.finding = finding.clone();
            (known.last, known.missed) = (at, 0);
            known.found += 1;
            if !known.appeared && known.found >= TO_APPEAR {
                known.appeared = true;
                events.push(known.event(EventKind::FindingAppeared, at));
            }
        }
        self.known.retain_mut(|known| {
            if followed.clone().any(|of| of.key() == known.finding.key()) {
                return true;
            }
            known.missed += 1;
            if known.appeared && known.missed >= TO_GO {
                events.push(known.event(EventKind::FindingGone, at));
            }
            known.missed < if known.appeared { TO_GO } else { TO_APPEAR }
        });
        events
    }

    /// The findings that have appeared and are not gone.
    pub fn present(&self) -> impl Iterator<Item = &FindingOf> {
        self.known.iter().filter(|known| known.appeared).map(|known| &known.finding)
    }
}

impl Tracked {
    fn event(&self, kind: EventKind, at: Timestamp) -> Event {
        let FindingOf { id, title, cause, subject, .. } = &self.finding;
        let about = subject.as_ref().map(|subject| format!(" ({subject})")).unwrap_or_default();
        let text = match kind {
            EventKind::FindingGone => format!("{id} {title}{about}: not found any more"),
            _ => format!("{id} {title}{about}: {cause}"),
        };
        Event {
            at,
            kind,
            text,
            finding: Some(self.finding.clone()),
            window: Some(Window { start: self.first, end: self.last }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use walwright_testing::second;

    fn finding(id: &str, kind: Kind) -> FindingOf {
        FindingOf {
            id: id.to_owned(),
            subject: None,
            kind,
            title: "t".to_owned(),
            cause: "c.".to_owned(),
            cost: None,
            action: None,
        }
    }

    /// What comes of diagnoses in which a finding was (1) or was not (0).
    fn told(diagnoses: &str) -> String {
        let mut tracker = Tracker::default();
        let mut text = String::new();
        for (place, found) in diagnoses.chars().enumerate() {
            let start = second(60.0 * place as f64);
            let findings = (found == '1').then(|| finding("D9", Kind::Problem));
            let findings = findings.into_iter().chain([finding("D31", Kind::Information)]);
            let events = tracker.take(&Seen {
                window: Window { start, end: second(60.0 * (place + 1) as f64) },
                verdict: String::new(),
                findings: findings.collect(),
            });
            text.push(match events[..] {
                [] => '.',
                [Event { kind: EventKind::FindingAppeared, .. }] => 'A',
                [Event { kind: EventKind::FindingGone, .. }] => 'G',
                _ => '?',
            });
        }
        text
    }

    #[test]
    fn what_comes_and_goes_is_told_once() {
        assert_eq!(told("1111"), ".A..");
        assert_eq!(told("1000"), "....");
        assert_eq!(told("101000"), "..A..G");
        assert_eq!(told("100100100"), ".........");
        assert_eq!(told("1110110100000"), ".A........G..");
        assert_eq!(told("11000011"), ".A..G..A");
    }

    #[test]
    fn an_event_has_the_window_of_what_it_tells() {
        let mut tracker = Tracker::default();
        let seen = |from: f64| Seen {
            window: Window { start: second(from), end: second(from + 60.0) },
            verdict: String::new(),
            findings: vec![finding("D9", Kind::Symptom)],
        };
        assert!(tracker.take(&seen(0.0)).is_empty());
        let events = tracker.take(&seen(60.0));
        assert_eq!(events[0].window, Some(Window { start: second(0.0), end: second(120.0) }));
        assert_eq!(tracker.present().count(), 1);
    }
}
