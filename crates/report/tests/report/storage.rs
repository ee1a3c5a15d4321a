//! What renderings say of disks: a measurement itself, and a run told against it.

use std::time::Duration;

use walwright_figures::summary;
use walwright_record::journal::Machine;
use walwright_record::{
    Access, DataLoad, FileState, FileSystemId, FlushMethod, Latencies, LatencyHistogram,
    StorageCell, StorageMeasurement, StoragePattern, StoragePlace, Timestamp, Warning, WarningCode,
};
use walwright_report::terminal::Style;
use walwright_report::{RunReport, diagnosis, storage, storage_list};

use crate::renderings::{markup, text_of};
use crate::synthetic::record_of;

const STYLE: Style = Style { width: 80, colour: false, unicode: true };

fn cell(pattern: StoragePattern, micros: u64) -> StorageCell {
    let mut histogram = LatencyHistogram::new();
    for i in 0..2_000 {
        histogram.record(Duration::from_micros(micros + i / 10));
    }
    StorageCell {
        pattern,
        per_second: 1e6 / micros as f64,
        bytes_per_second: 8192e6 / micros as f64,
        latency: Latencies::of(&histogram).unwrap(),
        flushes_per_second: matches!(pattern, StoragePattern::GroupCommit { .. })
            .then_some(5e5 / micros as f64),
        beside_per_second: matches!(pattern, StoragePattern::FlushUnder { .. }).then_some(900.0),
        waiting_for_processor: None,
    }
}

/// One of each kind; 8 kB flushes at 2,000/s and, disturbed, at 500/s.
pub fn measurement() -> StorageMeasurement {
    let place = StoragePlace {
        directory: "/wal/<b>tmp</b>".to_owned(),
        file_system: FileSystemId {
            host: "h".to_owned(),
            file_system: "ext4".to_owned(),
            device: "8:1".to_owned(),
            id: "1".to_owned(),
        },
        disk: None,
    };
    let flush = |bytes, files| StoragePattern::Flush {
        method: FlushMethod::Fdatasync,
        file: FileState::Written,
        bytes,
        files,
    };
    let cells = vec![
        cell(flush(8192, 1), 2_000),
        cell(flush(8192, 1), 500),
        cell(flush(1 << 20, 1), 3_000),
        cell(flush(8192, 4), 250),
        cell(StoragePattern::GroupCommit { committers: 16, record_bytes: 512 }, 40),
        cell(StoragePattern::UnflushedWrite { bytes: 8192 }, 60),
        cell(StoragePattern::Random { access: Access::Read, depth: 4 }, 90),
        cell(StoragePattern::Random { access: Access::Write, depth: 4 }, 95),
        cell(StoragePattern::Sequential { access: Access::Write, depth: 1 }, 700),
        cell(StoragePattern::FlushUnder { load: DataLoad::Checkpoint }, 4_000),
    ];
    StorageMeasurement {
        id: "20261121-000000-abc".to_owned(),
        measured: Timestamp(0),
        took: Duration::from_secs(10),
        each: Duration::from_secs(1),
        walwright_version: "0".to_owned(),
        machine: Machine::default(),
        wal: place.clone(),
        data: place,
        data_bytes: 1 << 30,
        cells,
        warnings: vec![Warning::new(WarningCode::Storage, "the disk is not steady").hint("again")],
        complete: true,
    }
}

#[test]
fn a_measurement_in_every_rendering() {
    let measured = measurement();
    let document = storage(&measured);
    let text = document.terminal(&STYLE);
    insta::assert_snapshot!("storage_terminal", text);
    let longest = text.lines().map(|line| line.chars().count()).max().unwrap();
    assert!(longest <= 80, "{longest}:\n{text}");
    let ascii = document.terminal(&Style { unicode: false, ..STYLE });
    assert!(ascii.is_ascii(), "{ascii}");

    let page = markup(&document);
    insta::assert_snapshot!("storage_page", text_of(&page));
    assert_eq!(page.matches("<svg").count(), 4);
    assert!(!page.contains("<b>tmp"));
    insta::assert_snapshot!("storage_list", storage_list(&[measured]).terminal(&STYLE));
    insta::assert_snapshot!("storage_list_of_none", storage_list(&[]).terminal(&STYLE));
}

#[test]
fn a_measurement_that_was_cut_short_is_shown_as_far_as_it_got() {
    let mut cut = measurement();
    cut.cells.truncate(1);
    cut.complete = false;
    insta::assert_snapshot!("storage_cut_short", storage(&cut).terminal(&STYLE));
    cut.cells.clear();
    assert!(!markup(&storage(&cut)).contains("<svg"));
}

#[test]
fn all_renderings_tell_a_run_against_the_disk_it_knew() {
    let mut record = record_of(20);
    let all = |record: &walwright_record::Record| {
        let report = RunReport::new(record.clone());
        let texts = [
            report.document().summary(&STYLE, false),
            diagnosis(&report.diagnosis).terminal(&STYLE),
            report.document().markdown(),
            markup(report.document()),
        ];
        // Lines of a terminal break anywhere.
        texts.map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "))
    };
    for text in all(&record) {
        assert!(!text.contains("one at a time"), "no claim without a measurement");
        assert!(text.contains("walwright diagnose") || text.contains("walwright storage"));
    }
    let mut disturbed = measurement();
    disturbed.warnings.push(Warning::new(WarningCode::NoisyNeighbour, "busy"));
    record.storage_measured = Some(disturbed);
    for (place, text) in all(&record).iter().enumerate() {
        let judged = text.contains("at its ceiling");
        assert!(!judged, "rendering {place}: a disk that was held up is no ceiling");
    }
    record.storage_measured = Some(measurement());
    let told = summary(&record).storage.unwrap();
    let share = format!("{:.0} %", told.flushes_per_second / 2_000.0 * 100.0);
    for (place, text) in all(&record).iter().enumerate() {
        let told = text.contains(&format!("{share} of the 2,000/s"));
        assert!(told && text.contains("one at a time"), "rendering {place} of {share}");
    }
}
